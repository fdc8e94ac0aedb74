/** The cost of a policy's own steps, charged to the application's core or to a core of the policy. */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';

const FREE = { shimPostNs: 0, shimWrNs: 0, handoverNs: 0 };

const mix = (changes: Partial<MixSpec>) =>
  runMix({
    ...DEFAULTS,
    durationNs: 1e6,
    warmupNs: 2e5,
    // Few pieces are issued ahead: more would hide the cost of a piece.
    policy: 'perf',
    policyOptions: { isolation: 'always', waits: 'fixed', feedPieces: 2 },
    apps: [
      { kind: 'B', sizeBytes: 65536 },
      { kind: 'D', sizeBytes: 16 },
    ],
    ...changes,
  });

test('steps without cost change nothing on either core', async () => {
  const free = await mix({ shim: FREE });
  expect((await mix({ shim: FREE, driver: 'worker' })).traceHash).toBe(free.traceHash);
  expect((await mix({})).traceHash).not.toBe(free.traceHash);
});

test('expensive steps and a slow handover to the worker slow down the shaped application', async () => {
  const rate = async (changes: Partial<MixSpec>) => (await mix(changes)).apps[0].throughputGbps;
  const free = await rate({ shim: FREE });
  expect(await rate({ shim: { ...FREE, shimPostNs: 4000 } })).toBeLessThan(free * 0.95);
  expect(await rate({ shim: { ...FREE, handoverNs: 20_000 }, driver: 'worker' })).toBeLessThan(free * 0.95);
});

test('nothing is charged without a policy', async () => {
  const none = { policy: 'none', policyOptions: {} };
  const bare = await mix(none);
  expect((await mix({ ...none, driver: 'worker', shim: { shimPostNs: 1e6 } })).traceHash).toBe(
    bare.traceHash,
  );
});

test.each([
  [1000, 4, 2],
  [5000, 8, 4],
  [20_000, 16, 8],
])(
  'with a worker that posts %i ns late, %i pieces ahead keep B at 85 Gbit/s next to M, and %i do not',
  async (handoverNs, enough, few) => {
    const gbps = async (feedPieces: number) => {
      const { apps } = await runMix({
        ...DEFAULTS,
        profile: 'cx6-100g',
        policy: 'perf',
        policyOptions: { feedPieces },
        driver: 'worker',
        shim: { handoverNs },
        payload: false,
        warmupNs: 0.5e6,
        durationNs: 1.5e6,
        apps: ['B:size=1MiB', 'M'].map(parseApp),
      });
      return apps[0].throughputGbps;
    };
    expect(await gbps(enough)).toBeGreaterThan(85);
    expect(await gbps(few)).toBeLessThan(65);
  },
);
