/** WAIT and ENABLE of the simulated device, and every emulation of them: random programs see no difference. */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import { readByRemoteControl } from '../../src/shim/peer/remote-read.ts';
import { createShim } from '../../src/shim/shim.ts';
import { emulateWait } from '../../src/shim/wait/emulate-wait.ts';
import { withWait } from '../../src/shim/wait/wait-support.ts';
import { tagsIf } from '../support/variants.ts';
import { ENDS } from './high-numbers.ts';
import { runWaits, waitProgram } from './waits.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 90);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);
const PERF = { isolation: 'always', subMsgSizeBytes: 256, zeroWaitUnitBytes: 64 };

/** A policy that leaves WAITs to the emulation below it, which sleeps until then. */
const through = () =>
  withWait(
    createShim(() => ({
      name: 'through',
      needs: { wait: 'required' },
      slots: 0,
      onload: (_, _words, _start, n) => n,
      feed: () => {},
    })),
    'required',
    { yieldBytes: 1024 },
  );

const kinds: Record<string, { wait: boolean; chain: () => Interceptor[] }> = {
  simulated: { wait: true, chain: () => [] },
  'emulated, 0_WAIT yields': { wait: false, chain: () => [emulateWait({ yieldBytes: 1024 })] },
  'emulated, 0_WAIT writes': { wait: false, chain: () => [emulateWait({ zeroWait: 'write' })] },
  'emulated when something needs it': { wait: false, chain: () => [through()] },
  'executed by READs by remote control': { wait: true, chain: () => [readByRemoteControl()] },
  'perf over the simulated': { wait: true, chain: () => [createPolicy('perf', PERF)] },
  'perf over the emulated': { wait: false, chain: () => [createPolicy('perf', PERF)] },
};

/** The others are variants of these. */
const SHORT = [
  'emulated, 0_WAIT yields',
  'emulated when something needs it',
  'executed by READs by remote control',
  'perf over the simulated',
];

for (const [name, { wait, chain }] of Object.entries(kinds)) {
  test(name, { tags: tagsIf(SHORT.includes(name)), timeout: 600_000 }, async () => {
    // In one of five programs, the running numbers wrap.
    const first = fc.oneof(
      { weight: 8, arbitrary: fc.constant(0) },
      { weight: 2, arbitrary: fc.constantFrom(...ENDS) },
    );
    await fc.assert(
      fc.asyncProperty(waitProgram, first, async (program, from) => {
        const expected = await runWaits(program, true, []);
        expect(await runWaits(program, wait, chain(), from)).toEqual(expected);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
}
