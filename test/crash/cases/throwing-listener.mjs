// @ts-nocheck
// A listener of completion events that throws still receives the events of the other queues.
import { openDevice } from 'isoverbs';
import { pass } from './setup.mjs';

const errors = [];
process.on('uncaughtException', (error) => errors.push(error.message));
for (const policy of [null, { name: 'perf', options: { isolation: 'always' } }]) {
  const context = openDevice(undefined, { policy });
  const { provider } = context;
  const channel = context.createChannel();
  const pd = context.allocPd();
  const mr = pd.allocate(1 << 20, { access: { remoteWrite: true } });
  const sgList = [{ mr, length: 1 << 18 }];
  for (let i = 0; i < 3; i++) {
    const cq = context.createCq({ channel });
    const qp = pd.createQp({ sendCq: cq });
    qp.connectTo(qp.endpoint());
    provider.reqNotifyCq(cq.handle, false);
    qp.post({ opcode: 'RDMA_WRITE', sgList, remote: { addr: mr.addr + (1 << 19), rkey: mr.rkey } });
  }
  // All three events are pending until a listener is added.
  await new Promise((resolve) => setTimeout(resolve, 300));
  errors.length = 0;
  let calls = 0;
  provider.watchCompChannel(channel.handle, () => {
    throw new Error(`call ${++calls}`);
  });
  provider.refCompChannel(channel.handle, true);
  while (errors.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  if (errors.join() !== 'call 1,call 2,call 3') throw new Error(errors.join());
  context.close();
}
pass();
