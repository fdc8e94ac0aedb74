// @ts-nocheck
// The policy never returns; posting does not wait for it, and the process can end.
import { openDevice } from 'isoverbs';

const policy = new URL('../policies/spins.mjs', import.meta.url).pathname;
const context = openDevice('sim0', { driver: 'worker', policy });
const pd = context.allocPd();
const cq = context.createCq();
const mr = pd.allocate(8192, { access: { remoteWrite: true } });
const qp = pd.createQp({ sendCq: cq });
qp.connectTo(qp.endpoint());
qp.post({
  opcode: 'RDMA_WRITE',
  sgList: [{ mr, length: 4096 }],
  remote: { addr: mr.addr + 4096, rkey: mr.rkey },
});
console.log('pass');
process.exit(0);
