/** A worker thread of pool.ts. */
import { parentPort } from 'node:worker_threads';
import { setAssertions } from '../shim/assertions.ts';
import { runSpec } from './pool.ts';
import type { MixSpec } from './spec.ts';

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);

parentPort?.on('message', async (spec: MixSpec) => {
  parentPort?.postMessage(await runSpec(spec));
});
