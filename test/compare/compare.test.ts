// `isoverbs compare`: which schemes it compares, its table and picture, and which calls it rejects.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { bestOf, type Comparison, compare, ofAlone } from '../../src/compare/compare.ts';
import { allPolicies, type Scheme, schemesOf } from '../../src/compare/schemes.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { policies } from '../../src/policies/index.ts';
import { WORDS } from '../../src/sim/profile/params.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { command as isoverbs } from '../mix/command.ts';
import { crowdedTexts, textsOf } from '../support/svg-texts.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** Runs the command in this process. */
const command = (...args: string[]) => isoverbs('compare', '--workers', '1', ...args);

const SHORT = ['--duration', '600us', '--warmup', '200us', '--seeds', '1'];
const MIX = {
  profile: 'cx6-100g',
  duration: '600us',
  warmup: '200us',
  apps: ['B:size=64KiB', 'D'].map(mixApp),
};

test("by default, compare covers each policy, its paper's variant, and each scheduler but the device's own", () => {
  const names = schemesOf(MIX, PROFILES['cx6-100g']).map(({ name }) => name);
  expect(names).toEqual(['bare', ...allPolicies(), 'sp', 'ets', 'greedy', 'palos-nic']);
  expect(allPolicies()).toEqual(expect.arrayContaining([...Object.keys(policies), 'perf:paper']));
  const onGreedy = schemesOf(MIX, PROFILES['cx3-56g'], { policies: ['none'] });
  expect(onGreedy.map(({ name }) => name)).toEqual([
    'bare',
    ...WORDS.scheduler.filter((one) => one !== 'greedy').map((one) => (one === 'palos' ? 'palos-nic' : one)),
  ]);
});

test('schedulers give applications a class by kind, unless they have one', () => {
  const apps = ['B', 'B:size=64KiB', 'M:qps=2', 'D:class=5'].map(mixApp);
  const wordsOf = ({ mix }: Scheme) => mix.apps.map(({ words }) => words);
  const [, sp, ets] = schemesOf({ ...MIX, apps }, PROFILES['cx6-100g'], {
    policies: ['none'],
    schedulers: ['sp', 'ets'],
  });
  expect(wordsOf(sp)).toEqual(['B:class=2', 'B:size=64KiB,class=2', 'M:qps=2,class=1', 'D:class=5']);
  expect(sp.mix.apps.map(({ spec }) => spec.class)).toEqual([2, 2, 1, 5]);
  expect(wordsOf(ets)).toEqual(['B:class=0', 'B:size=64KiB,class=0', 'M:qps=2,class=1', 'D:class=5']);
  expect(ets.mix.set).toEqual({ etsWeights: '16,1', scheduler: 'ets' });
});

test('palos in the NIC hears what applications are, and has another name than the policy', () => {
  const apps = ['B', 'D', 'D:kind=bandwidth'].map(mixApp);
  const [, palos] = schemesOf({ ...MIX, apps }, PROFILES['cx6-100g'], {
    policies: ['none'],
    schedulers: ['palos'],
  });
  expect(palos.name).toBe('palos-nic');
  expect(palos.mix.apps.map(({ words }) => words)).toEqual([
    'B:kind=bandwidth',
    'D:kind=latency',
    'D:kind=bandwidth',
  ]);
});

test('applications keep their names when they run alone, and copies are summed up', async () => {
  const result = await compare({
    mix: { ...MIX, apps: ['M:count=2', 'D', 'D:think=5us', 'D:name=x'].map(mixApp) },
    policies: ['none'],
    schedulers: ['none'],
    seeds: [1],
    threads: 1,
  });
  expect(result.apps.map(({ name }) => name)).toEqual(['M', 'D', 'D-2', 'x']);
  expect(result.rows.map(({ name }) => name)).toEqual(['alone', 'bare']);
  expect(result.rows[0].commands).toHaveLength(4);
  const [m, d, thinks] = result.rows[0].apps;
  expect(m.messageRateMmps).toBeGreaterThan(20);
  expect(d.messageRateMmps).toBeGreaterThan(3 * thinks.messageRateMmps);
  expect(ofAlone(result, 1, 0, 'messageRateMmps')).toBeLessThan(1.01);
  expect(ofAlone(result, 1, 1, 'avgUs')).toBeGreaterThan(1);
});

test('bestOf() returns the largest rate or the lowest latency, without the row `alone`', () => {
  const row = (name: string, rate: number, us: number) => ({
    ...{ name, group: name === 'alone' ? 'alone' : 'policy', says: '', commands: [] },
    apps: [{ throughputGbps: rate, messageRateMmps: rate, avgUs: us, p99Us: us }],
  });
  const rows = [row('alone', 99, 1), row('a', 50, 3), row('b', 50.001, 2), row('c', 0, Number.NaN)];
  const comparison = { rows } as Pick<Comparison, 'rows'>;
  const shown = (value: number) => value.toFixed(1);
  expect(bestOf(comparison, 0, 'throughputGbps', shown)).toEqual([1, 2]);
  expect(bestOf(comparison, 0, 'avgUs', shown)).toEqual([2]);
});

test('table and picture name every scheme; the output fits into 80 columns', {
  timeout: 120_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-compare-'));
  try {
    const svg = join(folder, 'compare.svg');
    const names = ['alone', 'bare', ...allPolicies(), 'sp', 'ets', 'greedy', 'palos-nic'];
    const { code, out, err } = await command(...SHORT, '--svg', svg);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const lines = out.split('\n').filter((line) => /^[│┌├└]/.test(line));
    for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    const picture = readFileSync(svg, 'utf8');
    for (const name of names) {
      expect(lines.some((line) => line.startsWith(`│${name} `))).toBe(true);
      expect(picture).toContain(`>${name}</text>`);
    }
    expect(textsOf(picture).map(({ text }) => text)).toEqual(
      expect.arrayContaining(['B: bandwidth', 'Gbit/s', 'M: messages', 'million/s', 'D: latency', 'us']),
    );
    expect(crowdedTexts(picture)).toEqual([]);
    expect(picture).toMatch(/<rect width="\d+" height="\d+" fill="white"/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('--json has the measurements and the commands that repeat them; --md prints a table', async () => {
  const few = [...SHORT, '--policy', 'perf', '--scheduler', 'none', '--app', 'B:size=64KiB', '--app', 'D'];
  const { code, out } = await command(...few, '--json');
  expect(code).toBe(0);
  const { rows, apps, profile, runs, broken } = JSON.parse(out);
  expect({ profile, runs, broken }).toEqual({ profile: 'cx6-100g', runs: 4, broken: [] });
  expect(apps).toEqual([
    { name: 'B', kind: 'B', words: 'B:size=64KiB' },
    { name: 'D', kind: 'D', words: 'D' },
  ]);
  const [alone, bare, perf] = rows;
  expect(alone.apps[1].ofAlone).toEqual({ throughputGbps: 1, messageRateMmps: 1, avgUs: 1, p99Us: 1 });
  expect(bare.apps[1].ofAlone.avgUs).toBeGreaterThan(2);
  expect(perf.apps[1].avgUs).toBeLessThan(bare.apps[1].avgUs);
  expect(perf.commands[0]).toMatch(
    /^isoverbs mix --profile cx6-100g --policy perf .*--app B:size=64KiB,name=B/,
  );
  const md = await command(...few, '--md');
  expect(md.out).toMatch(/^\| {2}\| B: Gbit\/s \| .*\n\| --- \| ---: .*\n\| alone \|/);
  expect(md.out).toMatch(/\| perf \| .*\(0\.\d\dx\).*\*\*/);
});

test('table and JSON name a policy with its options', async () => {
  const policy = 'perf:paper,subMsgSizeBytes=8KiB';
  const few = [...SHORT, '--policy', policy, '--scheduler', 'none', '--app', 'D'];
  expect((await command(...few)).out).toContain(policy);
  const { rows } = JSON.parse((await command(...few, '--json')).out);
  expect(rows.at(-1).name).toBe(policy);
  expect(rows.at(-1).commands[0]).toContain(` --policy ${policy} `);
});

test.each<[string[], RegExp]>([
  [['--policy', 'magic'], /unknown policy 'magic'; available: perf, .*none, or the path of a module/],
  [['--policy', 'perf:velocity=1'], /there is no option 'velocity'; there are: subMsgSizeBytes, /],
  [['--policy', 'perf', '--policy', 'perf'], /'perf' is compared twice/],
  [
    ['--policy', './magic.mjs'],
    /there is no file \/.*\/magic\.mjs; a relative path starts at the working directory/,
  ],
  [['--scheduler', 'pallos'], /unknown scheduler 'pallos'; did you mean 'palos'\? available: rr/],
  [['--scheduler', 'best'], /unknown scheduler 'best'; available: rr, sp, ets, greedy, palos, none/],
  [['--app', 'X'], /unknown kind 'X'; use one of B, M, D/],
  [['--app', 'D:colour=red'], /unknown key 'colour'/],
  [['--app', 'D:name=x', '--app', 'B:name=x'], /two apps are named 'x'/],
  [['--profile', 'cx9'], /unknown profile 'cx9'/],
  [['--set', 'speed=1'], /a profile has no 'speed'/],
  [['--hosts', '1'], /hosts must be a whole number from 2/],
  [['--topology', 'ring'], /topology must be one of/],
  [['--seeds', 'x'], /seeds must be written as/],
  [['--workers', '0'], /workers must be a whole number/],
  [['--duration', '20'], /duration: '20' requires a unit/],
  [['--duration', '1ms', '--warmup', '2ms'], /gives no samples/],
  [['--duration', '500ns', '--warmup', '0ns', '--app', 'D'], /gives no samples: app D completed nothing/],
  [['--json', '--md'], /--json and --md exclude each other/],
  [['--keep', '/dev/null/x'], /--keep: \/dev\/null\/x cannot be written: ENOTDIR.*; choose another folder/],
  [['--svg', '/dev/null/x.svg'], /svg: \/dev\/null\/x\.svg cannot be written/],
])('isoverbs compare %j', async (args, sentence) => {
  const { code, out, err } = await command(...args);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
  expect(err).toMatch(/^isoverbs: [^\n]+ \(ISO_ERR_CONFIG\)\n$/);
});
