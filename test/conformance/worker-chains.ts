/** Chains that run in worker threads. */
import { join } from 'node:path';
import { workerDriver } from '../../src/drivers/worker/front.ts';
import type { PolicySpec } from '../../src/drivers/worker/protocol.ts';
import type { Interceptor } from '../../src/shim/compose.ts';

export const module = (name: string, options = {}): PolicySpec => ({
  name,
  options,
  module: join(import.meta.dirname, `policies/${name}.mjs`),
});
export const perfSpec = (subMsgSizeBytes: number, zeroWaitUnitBytes: number): PolicySpec => ({
  name: 'perf',
  options: { isolation: 'always', subMsgSizeBytes, zeroWaitUnitBytes },
});

export const justitiaSpec = (chunkBytes: number): PolicySpec => ({
  name: 'justitia',
  options: { maxGbps: 400, chunkBytes, bulkChunkBytes: 2 * chunkBytes },
});

export const palosSpec = (pieceBytes: number): PolicySpec => ({
  name: 'palos',
  options: { pieceBytes, chunkMtus: 0.25 },
});

export const fairSpec = (pieceBytes: number): PolicySpec => ({ name: 'fair', options: { pieceBytes } });

export const tasselSpec = (pieceBytes: number): PolicySpec => ({
  name: 'tassel',
  options: { pieceBytes, qpGbps: 400 },
});

export const drumSpec = (pieceBytes: number): PolicySpec => ({
  name: 'drum',
  options: { pieceBytes, topK: 1, epochUs: 10 },
});

/** The rate exceeds the link's, as in chains.ts. */
const tokenBucketSpec: PolicySpec = {
  name: 'token-bucket',
  options: { linkGbps: 400, burstBytes: 16_000, pieceBytes: 1024 },
};

/** Few completions reach the application. */
export const slowDrumSpec: PolicySpec = { name: 'drum', options: { completionsPerS: 2000, epochUs: 10 } };

const specs: Record<string, { policies: PolicySpec[]; wait?: boolean }> = {
  'pass-through': { policies: [module('pass-through')] },
  arbitrary: { policies: [module('arbitrary', { seed: 7 })] },
  'arbitrary over arbitrary': {
    policies: [module('arbitrary', { seed: 11 }), module('arbitrary', { seed: 13 })],
  },
  'perf 256': { policies: [perfSpec(256, 64)] },
  justitia: { policies: [justitiaSpec(512)] },
  palos: { policies: [palosSpec(512)] },
  fair: { policies: [fairSpec(512)] },
  tassel: { policies: [tasselSpec(512)] },
  drum: { policies: [drumSpec(512)] },
  'drum, few completions': { policies: [slowDrumSpec] },
  'perf 1024, WAIT emulated': { policies: [perfSpec(1024, 256)], wait: false },
};

/** One driver for each chain, whose worker serves all fabrics one after another. */
export const workerChains: Record<string, { chain: () => Interceptor[]; wait?: boolean }> =
  Object.fromEntries(
    Object.entries(specs).map(([name, { policies, wait }]) => [
      name,
      { chain: () => [workerDriver(policies)], wait },
    ]),
  );

/** The chains of the whole conformance suite, in a worker: the same as in the application's thread. */
export const suiteWorkerChains: Record<string, () => Interceptor[]> = {
  'pass-through': () => [workerDriver([module('pass-through')])],
  split: () => [workerDriver([module('split')])],
  'split and 0_WAIT': () => [workerDriver([perfSpec(256, 64)])],
  justitia: () => [workerDriver([justitiaSpec(512)])],
  palos: () => [workerDriver([palosSpec(512)])],
  fair: () => [workerDriver([fairSpec(512)])],
  tassel: () => [workerDriver([tasselSpec(512)])],
  drum: () => [workerDriver([drumSpec(512)])],
  'drum, few completions': () => [workerDriver([slowDrumSpec])],
  hold: () => [workerDriver([module('hold')])],
  'token bucket': () => [workerDriver([tokenBucketSpec])],
};
