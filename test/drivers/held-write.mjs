// @ts-nocheck
/** Posts a WRITE on sim0, which the policy of the given name holds in a worker thread. */
import { openDevice } from 'isoverbs';

export function heldWrite(name) {
  const policy = new URL(`./policies/${name}.mjs`, import.meta.url).pathname;
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
  return { context, cq, qp };
}
