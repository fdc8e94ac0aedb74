/** A worker thread of pool.ts. */
import { parentPort } from 'node:worker_threads';
import { runSpec } from './pool.ts';
import type { MixSpec } from './spec.ts';

parentPort?.on('message', async (spec: MixSpec) => {
  parentPort?.postMessage(await runSpec(spec));
});
