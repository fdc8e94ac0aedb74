// `isoverbs compare --random`: how mixtures are drawn, what counts as worse than bare, and how a case is repeated.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { requireRunnable } from '../../src/compare/compare.ts';
import { ofEqualShares } from '../../src/compare/equal-share.ts';
import { randomMixture } from '../../src/compare/random-mixtures.ts';
import { type Limit, takesRates, withRates } from '../../src/compare/random-rates.ts';
import { ratesKept } from '../../src/compare/rate-keeping.ts';
import { badness, type Case, isWorse, type Measure, worseOff } from '../../src/compare/worse-off.ts';
import { type Mix, mixApp } from '../../src/mix/mixture.ts';
import type { MixResult } from '../../src/mix/result.ts';
import { TOPOLOGIES } from '../../src/sim/network/topology.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { command as isoverbs } from '../mix/command.ts';
import { crowdedTexts } from '../support/svg-texts.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const command = (...args: string[]) => isoverbs('compare', '--workers', '1', ...args);

const TIMES = { duration: '600us', warmup: '200us' };
/** One switch, so that mixtures share receivers too; PeRF's NIC keeps runs short. */
const FIXED = { ...TIMES, profile: 'cx6-100g', topology: 'star' } as const;
const SHORT = ['--duration', TIMES.duration, '--warmup', TIMES.warmup, '--profile', 'cx6-100g'];
/** A tenth of a Gbit/s for all tenants together, without a burst. */
const STARVING = 'token-bucket:linkGbps=0.1,burstBytes=1';

test('a seed and a number always draw the same mixture, another seed draws others', () => {
  const draw = (seed: number) => Array.from({ length: 20 }, (_, i) => randomMixture(seed, i, TIMES));
  expect(draw(1)).toEqual(draw(1));
  expect(new Set([...draw(1), ...draw(2)].map((mix) => JSON.stringify(mix))).size).toBe(40);
});

test('random mixtures are all valid, and cover every profile, topology, operation and transport', () => {
  const mixtures = Array.from({ length: 400 }, (_, i) => randomMixture(7, i, TIMES));
  for (const mix of mixtures) requireRunnable(mix, 7);
  const apps = mixtures.flatMap((mix) => mix.apps.map(({ spec }) => spec));
  const drawn = (values: readonly unknown[]) => [...new Set(values)].sort();
  expect(drawn(mixtures.map(({ profile }) => profile))).toEqual(Object.keys(PROFILES).sort());
  expect(drawn(mixtures.map(({ topology }) => topology))).toEqual([...TOPOLOGIES].sort());
  expect(drawn(mixtures.map(({ set }) => set?.congestionControl))).toEqual(['dcqcn', 'none']);
  expect(drawn(apps.map(({ op }) => op))).toEqual(['atomic', 'read', 'send', 'write']);
  expect(drawn(apps.map(({ transport }) => transport ?? 'rc'))).toEqual(['rc', 'uc', 'ud']);
  expect(drawn(apps.map(({ kind }) => kind))).toEqual(['B', 'D', 'M']);
  expect(drawn(mixtures.map((mix) => mix.apps.length))).toEqual([2, 3, 4, 5, 6]);
});

test('a fixed profile, topology or parameter leaves the rest of a mixture as it is', () => {
  const draw = (fixed: object) =>
    Array.from({ length: 20 }, (_, i) => randomMixture(3, i, { ...TIMES, ...fixed }));
  const free = draw({});
  const set = { congestionControl: 'none', linkGbps: '50' };
  expect(draw({ profile: 'cx6-100g', set })).toEqual(
    free.map((mix) => ({ ...mix, profile: 'cx6-100g', set })),
  );
  const wordsOf = (mixtures: readonly Mix[]) =>
    mixtures.map(({ apps }) => apps.map(({ words }) => words.replace(/,host=.*/, '')));
  const onCable = draw({ topology: 'cable' });
  expect(new Set(onCable.map(({ hosts }) => hosts))).toEqual(new Set([2]));
  expect(wordsOf(onCable)).toEqual(wordsOf(free));
});

describe('random rates', () => {
  const under = (index: number) => ({ ...randomMixture(1, index, TIMES), policy: 'tassel' });
  const drawn = (seed: number) => Array.from({ length: 100 }, (_, i) => withRates(under(i), seed, i));

  test('leave mixtures as they were before there were any', () => {
    const mixtures = Array.from({ length: 100 }, (_, i) => randomMixture(1, i, TIMES));
    const hash = createHash('sha256').update(JSON.stringify(mixtures)).digest('hex');
    expect(hash.slice(0, 16)).toBe('e76d961d692b4de3');
  });

  test('are the same for the same seed, and differ for another one', () => {
    expect(drawn(1)).toEqual(drawn(1));
    expect(drawn(1)).not.toEqual(drawn(2));
  });

  test('belong to queue pairs, tenants and groups, and all mixtures stay valid', () => {
    const limits = drawn(1).flatMap(({ mix, limits }) => {
      requireRunnable(mix, 1);
      expect(limits).toHaveLength(mix.apps.length);
      return limits;
    });
    const holders = new Set(limits.flat().map(({ holder }) => holder));
    expect([...holders].sort()).toEqual(['group', 'qp', 'tenant']);
    expect(limits.some((each) => each.length === 2)).toBe(true);
    expect(limits.some((each) => each.length === 0)).toBe(true);
    const [{ mix }] = drawn(1).filter(({ limits: all }) =>
      all.flat().some(({ holder }) => holder === 'tenant'),
    );
    expect(mix.policy).toMatch(/^tassel:ratesGbps=\S+:[\d.]+/);
  });

  test('are for policies that limit rates, unless these have rates already', () => {
    const policies = ['tassel', 'tassel:pieceBytes=4096', 'tassel:qpGbps=3', 'fair', 'none', 'tassel;perf'];
    expect(policies.map(takesRates)).toEqual([true, true, false, false, false, false]);
  });

  const GBPS = 100;
  const B = 'B:size=1MiB,qps=2';
  /** What is found if applications send this much, and as much as they like without rates. */
  const found = (sent: readonly number[], rates: readonly number[]) => {
    const apps = sent.map(() => mixApp(B));
    const mix: Mix = { profile: 'cx6-100g', duration: '5ms', warmup: '0', apps, policy: 'tassel' };
    const limits = rates.map((gbps): Limit[] => (gbps > 0 ? [{ holder: 'tenant', gbps, holders: 1 }] : []));
    const resultOf = (all: readonly number[]) =>
      ({
        apps: all.map((wireGbps) => ({ wireGbps, throughputGbps: wireGbps, messageBytes: 2 ** 20 })),
        durationNs: 5e6,
        warmupNs: 0,
      }) as unknown as MixResult;
    const without = resultOf(sent.map(() => GBPS / sent.length));
    return ratesKept({ mix, limits }, resultOf(sent), without, 1).map(({ gbps, mostGbps, leastGbps }) =>
      gbps > mostGbps ? 'above' : gbps < leastGbps ? 'below' : 'kept',
    );
  };

  test('are kept within 1 % upwards and 3 % downwards, each within a piece', () => {
    expect(found([40, 59], [40, 0])).toEqual(['kept', 'kept']);
    expect(found([40.5, 58], [40, 0])).toEqual(['above', 'kept']);
    expect(found([38.7, 59], [40, 0])).toEqual(['below', 'kept']);
    expect(found([40, 45], [40, 0])).toEqual(['kept', 'below']);
  });

  test('are reduced in the same proportion if they exceed the link', () => {
    expect(found([66, 33], [90, 45])).toEqual(['kept', 'kept']);
    expect(found([58, 41], [90, 45])).toEqual(['below', 'kept']);
  });

  test('tassel keeps them', { tags: ['long'], timeout: 120_000 }, async () => {
    const { policies, broken, runs } = await worseOff({
      ...{ count: 6, seed: 1, fixed: { ...FIXED, duration: '4ms', warmup: '1ms' }, threads: 1 },
      policies: ['tassel', 'fair'],
    });
    expect({ broken, runs }).toEqual({ broken: [], runs: 24 });
    expect(policies[1].rates).toBeUndefined();
    const { rated = 0, due = 0, above, below } = policies[0].rates ?? {};
    expect(rated).toBeGreaterThan(6);
    expect(due).toBeGreaterThan(4);
    expect({ above, below }).toEqual({ above: [], below: [] });
  });
});

test.each<[Measure, number, boolean]>([
  ['latency', 1.1, false],
  ['latency', 1.11, true],
  ['latency', 0.5, false],
  ['latency', Number.POSITIVE_INFINITY, true],
  ['messageRate', 0.9, false],
  ['messageRate', 0.89, true],
  ['payload', 0, true],
  ['busiestLink', 2, false],
])('a %s of %d times the bare value is worse: %s', (measure, ratio, worse) => {
  expect(isWorse({ measure, ratio })).toBe(worse);
});

test('a policy that starves every tenant is reported as harming all of them', async () => {
  const { policies, broken, runs } = await worseOff({
    ...{ count: 6, seed: 1, fixed: FIXED, threads: 1 },
    policies: [STARVING, 'none'],
  });
  expect({ broken, runs, names: policies.map(({ policy }) => policy) }).toEqual({
    ...{ broken: [], runs: 12, names: [STARVING] },
  });
  const [{ summary, cases }] = policies;
  for (const measure of ['messageRate', 'bandwidth', 'payload', 'busiestLink'] as const) {
    const { of, worse, worst } = summary[measure];
    expect(of).toBeGreaterThan(2);
    expect(worse).toBe(of);
    expect(worst).toBeLessThan(0.1);
  }
  expect(summary.bandwidth.belowShare).toBe(summary.bandwidth.of);
  expect(summary.payload.belowShare).toBeUndefined();
  expect(summary.latency.worse).toBeGreaterThan(summary.latency.of / 2);
  for (const list of Object.values(cases)) {
    const all = list.map(badness);
    expect(all).toEqual(all.toSorted((a, b) => b - a));
  }
});

describe('what applications send, relative to an equal share of their link', () => {
  const GBPS = 100;
  const WIRE = { linkGbps: GBPS, mtuBytes: 4096, headerBytes: 82 };
  /** A message of 4096 bytes, with its headers and the address in the first packet. */
  const PART = (4096 + 82 + 16) / 4096;
  const share = (words: readonly string[], rates: readonly number[]) => {
    const mix = { profile: 'cx6-100g', duration: '1ms', warmup: '0', apps: words.map(mixApp), set: WIRE };
    const apps = rates.map((throughputGbps) => ({ throughputGbps, messageBytes: 4096 }));
    return ofEqualShares(mix, { apps } as unknown as MixResult, 1);
  };
  const B = 'B:size=4KiB';

  test('is 1 if they divide it equally, headers included', () => {
    const each = GBPS / 2 / PART;
    for (const one of share([B, B], [each, each])) expect(one).toBeCloseTo(1, 6);
  });

  test('grows for the others by what one leaves', () => {
    const [less, more] = share([B, B, B], [10 / PART, 45 / PART, 45 / PART]);
    expect(less).toBeCloseTo(10 / (GBPS / 3), 6);
    expect(more).toBeCloseTo(1, 6);
  });

  test('counts READs at the host into which they read, and atomics not at all', () => {
    const mixed = [B, `${B},op=read`, 'D:op=atomic', `${B},host=1,to=0`];
    const [write, read, atomic, other] = share(mixed, [50 / PART, 50, 1, 50 / PART]);
    expect(write).toBeCloseTo(0.5, 6);
    expect(read).toBeGreaterThan(0.5);
    expect(atomic).toBeUndefined();
    expect(other).toBeCloseTo(0.5, 6);
  });
});

test('a policy that holds nothing back harms no tenant', async () => {
  const { policies } = await worseOff({
    ...{ count: 4, seed: 1, fixed: FIXED, threads: 1 },
    policies: ['token-bucket:linkGbps=1000000,pieceBytes=1073741824,burstBytes=1073741824'],
  });
  const worse = Object.values(policies[0].summary).map((one) => one.worse);
  expect(worse).toEqual([0, 0, 0, 0, 0]);
});

test("the same seed prints and draws the same bytes, and a case's command repeats it exactly", {
  tags: ['long'],
  timeout: 120_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-random-'));
  try {
    const args = ['--random', '3', '--seed', '5', '--policy', STARVING, '--policy', 'perf', ...SHORT];
    const once = (name: string, ...more: string[]) =>
      command(...args, '--json', '--svg', join(folder, name), ...more);
    const first = await once('a.svg', '--keep', join(folder, 'runs'));
    expect({ code: first.code, err: first.err }).toEqual({ code: 0, err: '' });
    expect(readdirSync(join(folder, 'runs'))).toHaveLength(9);
    expect(await once('b.svg')).toEqual(first);
    expect(await once('c.svg', '--keep', join(folder, 'runs'))).toEqual(first);
    const picture = readFileSync(join(folder, 'a.svg'), 'utf8');
    expect(picture).toContain('>perf</text>');
    expect(crowdedTexts(picture)).toEqual([]);
    expect(picture).toContain('>3 random mixtures of seed 5, relative to bare</text>');
    for (const name of ['b.svg', 'c.svg']) expect(readFileSync(join(folder, name), 'utf8')).toBe(picture);

    const { policies } = JSON.parse(first.out) as Awaited<ReturnType<typeof worseOff>>;
    const repeated = async (line: string) =>
      JSON.parse((await isoverbs(...line.split(' ').slice(1), '--json')).out) as MixResult;
    const rateOf = (run: MixResult, name: string | undefined) =>
      run.apps.find((app) => app.name === name)?.messageRateMmps;
    for (const { policy, cases } of policies) {
      const [worst] = cases.messageRate as readonly Case[];
      expect(rateOf(await repeated(worst.command), worst.app)).toBe(worst.under);
      const bare = worst.command.replace(`--policy ${policy}`, '--policy none');
      expect(rateOf(await repeated(bare), worst.app)).toBe(worst.bare);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the table has five rows for each policy, and lists the commands of the worst cases', async () => {
  const { code, out, err } = await command(
    '--random',
    '2',
    '--policy',
    STARVING,
    '--topology',
    'star',
    ...SHORT,
  );
  expect({ code, err }).toEqual({ code: 0, err: '' });
  for (const title of [
    'D: average latency',
    'M: message rate',
    'B: bandwidth',
    'payload of a mixture',
    'bytes on its busiest link',
  ])
    expect(out).toContain(`│ ${title} `);
  for (const line of out.split('\n').filter((text) => /^[│┌├└]/.test(text)))
    expect(line.length).toBeLessThanOrEqual(100);
  const unfolded = (text: string) => text.replace(/\s+/g, '');
  expect(unfolded(out)).toContain(
    unfolded(`The worst cases under ${STARVING} (for the bare run, use --policy none):`),
  );
  expect(out).toMatch(
    /^mixture [12], payload of a mixture: [\d.]+ Gbit\/s instead of [\d.]+ Gbit\/s \(0\.\d\d\)$/m,
  );
  expect(out).toMatch(/^ {2}isoverbs mix --profile cx6-100g (.*\\\n)+.*--topology star (\\\n {4})?--app /m);
  expect(out).toMatch(/^2 random mixtures of seed 1, 4 runs of 600us, including 200us of warm-up$/m);
});

test.each<[string[], RegExp]>([
  [['--random', '0'], /random must be a whole number from 1 to 10000, got 0/],
  [['--random', 'x'], /random: 'x' is not a whole number/],
  [['--random', '1', '--seed', '-1'], /seed: '-1' is not a whole number/],
  [['--seed', '1'], /--seed is for random mixtures \(--random\); --seeds lists those of one mixture/],
  [['--random', '1', '--seeds', '1'], /--seeds cannot be combined with --random/],
  [['--random', '1', '--app', 'D'], /--app cannot be combined with --random/],
  [['--random', '1', '--hosts', '3'], /--hosts cannot be combined with --random/],
  [['--random', '1', '--scheduler', 'sp'], /--scheduler cannot be combined with --random/],
  [['--random', '1', '--md'], /--md cannot be combined with --random/],
  [['--random', '1', '--policy', 'magic'], /unknown policy 'magic'/],
  [
    ['--random', '1', '--policy', 'none'],
    /random mixtures are compared under policies; name one other than none/,
  ],
  [['--random', '1', '--profile', 'cx9'], /unknown profile 'cx9'/],
  [['--random', '1', '--topology', 'ring'], /topology must be one of/],
  [['--random', '1', '--set', 'speed=1'], /a profile has no 'speed'/],
])('isoverbs compare %j', async (args, sentence) => {
  const { code, out, err } = await command(...args);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
  expect(err).toMatch(/^isoverbs: [^\n]+ \(ISO_ERR_CONFIG\)\n$/);
});
