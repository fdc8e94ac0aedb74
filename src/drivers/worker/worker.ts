/** The thread that runs policies. */
import { parentPort, workerData } from 'node:worker_threads';
import { pinThreadTo } from '../../providers/rdma-core/addon.ts';
import { setAssertions } from '../../shim/assertions.ts';
import { compose } from '../../shim/compose.ts';
import { Lanes } from './lanes.ts';
import { Loop } from './loop.ts';
import { loadPolicy } from './policies.ts';
import * as P from './protocol.ts';
import { directRemote, sentBackRemote } from './remote-device.ts';
import { Requests } from './requests.ts';

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);
const { control, ports, preload } = workerData as P.WorkerData;
const [calls, requestPort, events] = ports;
const requests = new Requests(control, requestPort, events);

process.on('exit', () => {
  Atomics.store(control, P.STATE, P.ENDED);
  requests.signal();
});

if (preload !== null) (await import(preload.module)).default(preload.data);

const loop = new Loop({
  control,
  requests,
  calls,
  events,
  build(setup) {
    if (setup.cpu !== undefined) pinThreadTo(setup.cpu, 'driver worker: cpu');
    const host = { resume: () => loop.resume() };
    const remote = setup.direct ? directRemote(requests, host) : sentBackRemote(requests, setup.provider);
    const chain = compose(remote.provider, setup.policies.map(loadPolicy));
    return { setup, chain, remote, lanes: new Lanes(chain, control) };
  },
});

// Keeps the event loop alive while the worker sleeps; otherwise it has only immediates.
parentPort?.on('message', () => {});
loop.resume();
