/** A thread of run.ts: runs one application, from opening its contexts to its result. */
import { parentPort, workerData } from 'node:worker_threads';
import { policyInterceptors } from '../../drivers/index.ts';
import { shareCoordinator } from '../../policies/index.ts';
import { factsOfProcess } from '../../providers/facts.ts';
import { setAssertions } from '../../shim/assertions.ts';
import { compose } from '../../shim/compose.ts';
import { LiveApp } from './app.ts';
import { Clock } from './clock.ts';
import type { Job, WorkerMessage } from './protocol.ts';
import { liveProvider } from './provider.ts';

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);
const { app, spec, policyOptions, coordinators, gate } = workerData as Job;
const send = (message: WorkerMessage) => parentPort?.postMessage(message);

for (const [device, memory] of coordinators) shareCoordinator(device, memory);
const policies = spec.policy === 'none' ? [] : [{ name: spec.policy, options: { ...policyOptions } }];
const provider = compose(liveProvider(spec), [
  ...policyInterceptors('inline', policies),
  ...factsOfProcess(),
]);
const clock = new Clock();
const live = new LiveApp(app, provider, spec, clock);
send({ kind: 'ready' });
Atomics.wait(new Int32Array(gate), 0, 0);
clock.zeroAt(new BigInt64Array(gate)[1]);
const outcome = live.run();
live.close();
send({ kind: 'done', outcome });
