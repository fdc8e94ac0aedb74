// @ts-nocheck
// The policy throws: typed errors from then on, and everything can be closed.
import { openDevice } from 'isoverbs';

const policy = new URL('../policies/throws.mjs', import.meta.url).pathname;
const warnings = [];
process.on('warning', (warning) => warnings.push(warning.code));
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
let code = '';
try {
  await cq.next();
} catch (error) {
  code = error.code;
}
if (code !== 'ISO_ERR_DRIVER') throw new Error(`code ${code}`);
const state = qp.query().attr?.qpState;
context.close();
await new Promise((resolve) => setTimeout(resolve, 50));
if (!warnings.includes('ISO_ERR_DRIVER')) throw new Error(`warnings ${warnings}, state ${state}`);
console.log('pass');
