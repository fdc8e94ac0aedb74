// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import { changing } from './chains.ts';
import { runTenants, tenantSteps } from './tenants.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 25);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_203);

const SOON = { samplePeriodNs: 4000, windowNs: 32_000, watchdogNs: 20_000, slotNs: 5000 };
const perf =
  (more = {}) =>
  () => [createPolicy('perf', { ...SOON, ...more })];

interface Case {
  chain: () => Interceptor[];
  wait?: boolean;
  profile?: string;
}

const cases: Record<string, Case> = {
  bare: { chain: () => [] },
  'as it finds': { chain: perf() },
  'as it finds, cx6-100g': { chain: perf(), profile: 'cx6-100g' },
  'in turns': { chain: perf({ qpIsolation: 'always', turnBytes: 4000, turnRequests: 3 }) },
  'two at a time': { chain: perf({ qNumAllow: 2, turnBytes: 20_000 }) },
  'in slots': { chain: perf({ rotation: 'on' }) },
  'in slots and turns': {
    chain: perf({ rotation: 'on', qpIsolation: 'always', turnBytes: 4000, turnRequests: 3 }),
  },
  weighted: { chain: perf({ weights: { a: 3, b: 1 }, linkGbps: 100 }) },
  'READs by remote control': {
    chain: perf({ readByRemoteControl: true, subMsgSizeBytes: 2048, zeroWaitUnitBytes: 512 }),
  },
  emulated: { chain: perf({ rotation: 'on' }), wait: false },
  'by dominant resources': { chain: () => [createPolicy('fair')], profile: 'cx6-100g' },
  'by dominant resources, while options change': {
    chain: () => [
      changing('fair', [
        { targetUs: 1 },
        { pieceBytes: 256, windowBytes: 1 },
        { targetUs: undefined, passBytes: 0 },
        { passBytes: 6144 },
      ]),
      createPolicy('fair', { pieceBytes: 300, windowBytes: 2000 }),
    ],
    profile: 'cx6-100g',
  },
  'by dominant resources, with rates': {
    chain: () => [createPolicy('fair', { ratesGbps: { a: 50 }, ratesRequestsPerS: { b: 5e6 } })],
    profile: 'cx6-100g',
  },
  'by solved rates, one tenant at a time, while options change': {
    chain: () => [
      changing('drum', [
        { alpha: 2, beta: 1, capacity: 'logdomain' },
        { capacity: 'linear', alpha: 0.5, select: 'weight' },
        { epochUs: 100, select: 'smallest' },
        { epochUs: 10, select: 'fifo', windowBytes: 1 },
      ]),
      createPolicy('drum', { topK: 1, epochUs: 10, pieceBytes: 300, windowBytes: 2000 }),
    ],
    profile: 'cx6-100g',
  },
  'by solved rates, with few completions': {
    chain: () => [createPolicy('drum', { completionsPerS: 1e4, epochUs: 10, pieceBytes: 300 })],
    profile: 'cx6-100g',
  },
};

/** The others are variants of these. */
const KINDS = ['as it finds', 'in slots and turns', 'by dominant resources'];

for (const name of Object.keys(cases))
  test(name, { tags: KINDS.includes(name) ? [] : ['long'], timeout: 300_000 }, async () => {
    const { chain, ...ground } = cases[name];
    await fc.assert(
      fc.asyncProperty(tenantSteps, async (steps) => {
        const trace = await runTenants(steps, chain(), ground);
        expect(await runTenants(steps, chain(), ground)).toEqual(trace);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
