// Policies of single hosts, nested policies, and the figures of each queue pair.
import { expect, test } from 'vitest';
import { parsePolicies } from '../../src/config.ts';
import { jobOf } from '../../src/mix/jobs.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { parseHostPolicies, parsePolicy } from '../../src/mix/parse.ts';
import type { MixResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import type { MixSpec } from '../../src/mix/spec.ts';
import { policyOptionsOf } from '../../src/mix/stacks.ts';
import { command } from './command.ts';

/** Two pairs of hosts on one switch, so that neither shares a link with the other. */
const PAIRS = ['B:to=2', 'D:to=2', 'B:host=1,to=3', 'D:host=1,to=3'];

async function run(
  policies: readonly string[],
  apps = PAIRS,
  more: Partial<MixSpec> = {},
): Promise<MixResult> {
  const [policy, ...onHosts] = policies;
  const hosts = apps === PAIRS ? 4 : 2;
  const mix = {
    profile: 'cx6-100g',
    duration: '2ms',
    warmup: '500us',
    apps: apps.map(mixApp),
    policy,
    onHosts,
    hosts,
  };
  const result = await runMix({ ...jobOf(mix, 1).spec, ...more });
  expect(result.invariants).toEqual([]);
  return result;
}

const averageUs = (result: MixResult, app: string) =>
  result.apps.find(({ name }) => name === app)?.latencyUs?.avg ?? Number.NaN;

test('a policy named for every host gives the same trace as one for all', { tags: ['long'] }, async () => {
  const [whole, each] = [await run(['perf']), await run(['none', '@0-3=perf'])];
  expect(each.traceHash).toBe(whole.traceHash);
  expect((await run(['none', '@1=none'])).traceHash).toBe((await run(['none'])).traceHash);
});

test('a policy on one host isolates its applications only', async () => {
  const [bare, one] = [await run(['none']), await run(['none', '@0=perf'])];
  expect(one.policy).toBe('none @0=perf');
  expect(averageUs(one, 'D')).toBeLessThan(0.5 * averageUs(bare, 'D'));
  expect(averageUs(one, 'D-2')).toBeGreaterThan(0.9 * averageUs(bare, 'D-2'));
  expect(new Set(one.policyStates?.map(({ device }) => device))).toEqual(new Set(['sim0']));
  const other = await run(['perf', '@0=none']);
  expect(averageUs(other, 'D-2')).toBeLessThan(0.5 * averageUs(bare, 'D-2'));
  expect(new Set(other.policyStates?.map(({ device }) => device))).toEqual(new Set(['sim1']));
});

test('nested policies are both applied', async () => {
  const rates = 'token-bucket:ratesGbps=B:10';
  const result = await run([`${rates};perf`], ['B', 'D']);
  const [b] = result.apps;
  expect(b.throughputGbps).toBeGreaterThan(8);
  expect(b.throughputGbps).toBeLessThan(11);
  expect(result.policy).toBe('token-bucket:ratesGbps=B:10;perf');
  expect(result.policyStates).toHaveLength(2);
});

test('commands quote stacks and repeat the policies of hosts', () => {
  const mix = { profile: 'cx6-100g', duration: '2ms', warmup: '500us', apps: [mixApp('B')] };
  const { command: line } = jobOf({ ...mix, policy: 'token-bucket;perf', onHosts: ['@1=none'] }, 1);
  expect(line).toContain(" --policy 'token-bucket;perf' --policy @1=none --duration");
});

test("policyOptionsOf() gives a module's policy the values that ISOVERBS_POLICY gives it", () => {
  const words = './credit.mjs:maxMessages=2,eager,late=false,pieceBytes=8KiB,share=0.5,name=';
  const [{ options }] = parsePolicies(words, 'ISOVERBS_POLICY');
  expect(options).toMatchObject({ maxMessages: 2, eager: true, late: false, pieceBytes: '8KiB' });
  expect(policyOptionsOf(parsePolicy(words), [])).toEqual(options);
});

test('parsePolicy() and parseHostPolicies() read stacks and ranges of hosts', () => {
  expect(parsePolicy('token-bucket:pieceBytes=4096;perf')).toEqual({
    ...{ policy: 'token-bucket', policyOptions: { pieceBytes: '4096' } },
    inner: [{ policy: 'perf', policyOptions: {} }],
  });
  expect(parseHostPolicies('@3=none')).toEqual({ hosts: 3, stack: [] });
  expect(parseHostPolicies('@1-3=perf:paper=true')).toEqual({
    hosts: [1, 3],
    stack: [{ policy: 'perf', policyOptions: { paper: 'true' } }],
  });
});

test('details add percentile 80 and each queue pair, and change nothing else', async () => {
  const apps = ['M:qps=3', 'D'];
  const [plain, detailed] = [await run(['perf'], apps), await run(['perf'], apps, { details: true })];
  expect(detailed.traceHash).toBe(plain.traceHash);
  expect(detailed.events).toBe(plain.events);
  const [m, d] = detailed.apps;
  const { p80, ...withoutP80 } = m.latencyUs!;
  expect(withoutP80).toEqual(plain.apps[0].latencyUs);
  expect(p80).toBeGreaterThanOrEqual(withoutP80.p50);
  expect(p80).toBeLessThanOrEqual(withoutP80.p99);
  const parts = m.queuePairs!;
  expect(parts).toHaveLength(3);
  expect(parts.reduce((sum, { completed }) => sum + completed, 0)).toBe(m.completed);
  expect(parts.reduce((sum, one) => sum + one.throughputGbps, 0)).toBeCloseTo(m.throughputGbps, 9);
  expect(d.queuePairs).toEqual([{ ...d.queuePairs![0], completed: d.completed, latencyUs: d.latencyUs }]);
});

test('--details prints a row for each of several queue pairs', async () => {
  const args = [
    'mix',
    '--duration',
    '300us',
    '--warmup',
    '100us',
    '--app',
    'M:qps=2',
    '--app',
    'D',
    '--details',
  ];
  const { code, out, err } = await command(...args);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toMatch(/ p50 +p80 +p99 /);
  expect(out.match(/^M #\d/gm)).toEqual(['M #0', 'M #1', 'M #0', 'M #1']);
  expect(out).not.toContain('D #');
});

test.each<[string[], RegExp]>([
  [['--policy', 'perf', '--policy', 'none'], /policy 'none': there is 'perf' already; write 'perf;none' for/],
  [['--policy', '@9=none'], /policy: unknown host 9; hosts are 0 to 1/],
  [['--policy', '@1'], /policy '@1' is not of the form @HOST=POLICY/],
  [['--policy', '@x=perf'], /'x' is not a whole number/],
  [['--policy', '@0=perf', '--policy', '@0-1=none'], /policy: host 0 is given two policies/],
  [['--policy', '@1-0=perf'], /range 1 to 0 is reversed/],
  [['--policy', '@0=magic'], /unknown policy 'magic'/],
  [['--policy', '@0=none:x=1'], /policy none takes no options/],
  [['--policy', 'perf;magic'], /unknown policy 'magic'/],
  [['--policy', 'perf;'], /each part between semicolons must name a policy/],
  [['--policy', 'none;perf'], /each part between semicolons must name a policy/],
  [['--policy', 'token-bucket;perf:x=1'], /there is no option 'x'/],
  [['--provider', 'rdma-core', '--policy', '@0=perf'], /are for simulated devices/],
  [['--provider', 'rdma-core', '--policy', 'token-bucket;perf'], /are for simulated devices/],
  [['--provider', 'rdma-core', '--details'], /--details is for simulated devices/],
])('isoverbs mix %j', async (args, sentence) => {
  const { code, out, err } = await command('mix', '--app', 'D', ...args);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
  expect(err).toMatch(/^isoverbs: [^\n]+ \(ISO_ERR_CONFIG\)\n$/);
});
