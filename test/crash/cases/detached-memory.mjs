// @ts-nocheck
// The program detaches registered memory: the request is refused or fails, and the process survives.
import { loop, pass } from './setup.mjs';

const { pd, cq, mr, qp, context } = loop();
const memory = new ArrayBuffer(1 << 16);
const own = pd.register(memory);
const remote = { addr: mr.addr, rkey: mr.rkey };
qp.post({ opcode: 'RDMA_WRITE', sgList: [{ mr: own, length: 64 }], remote });
if ((await cq.next()).status !== 0) throw new Error('it did not work before');
structuredClone(memory, { transfer: [memory] });
let code = null;
try {
  qp.post({ opcode: 'RDMA_WRITE', sgList: [{ mr: own, length: 64 }], remote });
} catch (error) {
  code = error.code;
}
if (code !== 'ISO_ERR_INVALID_WR') throw new Error(`refused with ${code}`);
context.close();
pass();
