/** A worker thread of pool.ts. */
import { parentPort } from 'node:worker_threads';
import { muteRenamedOptions } from '../policies/parse-options.ts';
import { setAssertions } from '../shim/assertions.ts';
import { runSpec } from './pool.ts';
import type { MixSpec } from './spec.ts';

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);
// The main thread has created each policy before, and warned there.
muteRenamedOptions();
// What a policy warns of while it runs belongs to one of many runs. The results say it.
process.removeAllListeners('warning');

parentPort?.on('message', async (spec: MixSpec) => {
  parentPort?.postMessage(await runSpec(spec));
});
