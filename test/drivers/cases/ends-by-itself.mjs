// @ts-nocheck
// With everything open and a finished transfer, the worker does not keep the process alive.
import { openDevice } from 'isoverbs';

const context = openDevice('sim0', {
  driver: 'worker',
  policy: { name: 'perf', options: { isolation: 'always' } },
});
const pd = context.allocPd();
const cq = context.createCq();
const mr = pd.allocate(1 << 20, { access: { remoteWrite: true } });
const qp = pd.createQp({ sendCq: cq });
qp.connectTo(qp.endpoint());
mr.bytes.fill(7, 0, 1 << 19);
qp.post({
  opcode: 'RDMA_WRITE',
  sgList: [{ mr, length: 1 << 19 }],
  remote: { addr: mr.addr + (1 << 19), rkey: mr.rkey },
});
const completion = await cq.next();
if (completion.statusText !== 'success' && completion.status !== 0) throw new Error(completion.statusText);
if (mr.bytes[(1 << 20) - 1] !== 7) throw new Error('the data is not there');
const [perf] = context.provider.counters();
if (perf.split !== 1 || perf.internal.pieces < 32) throw new Error(JSON.stringify(perf));
console.log('pass');
