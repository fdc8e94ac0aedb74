/** Under share, threads of simulated hosts wait for the locks of shared queue pairs. */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';

const run = async (options: Record<string, unknown>, words: string, policy = 'share') => {
  const { apps, invariants } = await runMix({
    ...DEFAULTS,
    profile: 'cx5-40g',
    durationNs: 1e6,
    warmupNs: 2e5,
    payload: false,
    policy,
    policyOptions: options,
    apps: [parseApp(words)],
  });
  expect(invariants).toEqual([]);
  return apps[0];
};

const small = (qps: number, more = '') => `M:size=32,batch=1,depth=4,qps=${qps}${more}`;

test('a lock bounds the rate of a shared queue pair, however many threads post to it', async () => {
  const lockNs = 2000;
  const four = await run({ connectionsPerQp: 4, lockNs }, small(4));
  const eight = await run({ connectionsPerQp: 8, lockNs }, small(8));
  // A thread keeps the lock during its post call, which takes some 50 ns.
  for (const { messageRateMmps } of [four, eight]) {
    expect(messageRateMmps).toBeGreaterThan(0.9 / 2);
    expect(messageRateMmps).toBeLessThan(1 / 2);
  }
});

test('threads wait only for those that post to the same queue pair', async () => {
  const lockNs = 2000;
  const together = await run({ connectionsPerQp: 8, lockNs }, small(8));
  const apart = await run({ connectionsPerQp: 2, lockNs }, small(8));
  expect(apart.messageRateMmps / together.messageRateMmps).toBeCloseTo(4, 1);
});

test('a single thread never waits, but acquires the lock for each post', async () => {
  const rate = async (lockNs: number) => (await run({ lockNs }, small(5, ',cores=1'))).messageRateMmps;
  const [free, costly] = [await rate(0), await rate(1000)];
  expect(1000 / costly - 1000 / free).toBeGreaterThan(900);
  expect(1000 / costly - 1000 / free).toBeLessThan(1100);
});

test('connections with a queue pair of their own need no lock', async () => {
  const one = await run({ lockNs: 0 }, small(1));
  expect(await run({ lockNs: 5000 }, small(1))).toEqual(one);
});
