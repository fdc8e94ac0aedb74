/** What a policy's own steps cost, charged to the application's core or to one of its own. */
import { expect, test } from 'vitest';
import { runMix } from '../../src/bench/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/bench/mix/spec.ts';

const FREE = { shimPostNs: 0, shimWrNs: 0, handoverNs: 0 };

const mix = (changes: Partial<MixSpec>) =>
  runMix({
    ...DEFAULTS,
    durationNs: 1e6,
    warmupNs: 2e5,
    // Few pieces ahead: more of them would hide what one costs.
    policy: 'perf',
    policyOptions: { isolation: 'always', waits: 'fixed', feedPieces: 2 },
    apps: [
      { kind: 'B', sizeBytes: 65536 },
      { kind: 'D', sizeBytes: 16 },
    ],
    ...changes,
  });

test('what costs nothing changes nothing, on whichever core', async () => {
  const free = await mix({ shim: FREE });
  expect((await mix({ shim: FREE, driver: 'worker' })).traceHash).toBe(free.traceHash);
  expect((await mix({})).traceHash).not.toBe(free.traceHash);
});

test('a dear policy, and a worker that is far away, slow the application that is shaped', async () => {
  const rate = async (changes: Partial<MixSpec>) => (await mix(changes)).apps[0].throughputGbps;
  const free = await rate({ shim: FREE });
  expect(await rate({ shim: { ...FREE, shimPostNs: 4000 } })).toBeLessThan(free * 0.95);
  expect(await rate({ shim: { ...FREE, handoverNs: 20_000 }, driver: 'worker' })).toBeLessThan(free * 0.95);
});

test('without a policy nothing is charged', async () => {
  const none = { policy: 'none', policyOptions: {} };
  const bare = await mix(none);
  expect((await mix({ ...none, driver: 'worker', shim: { shimPostNs: 1e6 } })).traceHash).toBe(
    bare.traceHash,
  );
});
