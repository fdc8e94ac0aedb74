// @ts-nocheck
// A queue pair connected to itself, and other helpers that cases share.
import { openDevice } from 'isoverbs';

export function loop(options = {}) {
  const context = openDevice();
  const pd = context.allocPd();
  const cq = context.createCq();
  const mr = pd.allocate(1 << 20, { access: { remoteRead: true, remoteWrite: true, remoteAtomic: true } });
  const qp = pd.createQp({ sendCq: cq, ...options });
  qp.connectTo(qp.endpoint());
  const write = (length = 4096) =>
    qp.post({
      opcode: 'RDMA_WRITE',
      sgList: [{ mr, length }],
      remote: { addr: mr.addr + (1 << 19), rkey: mr.rkey },
    });
  return { context, pd, cq, mr, qp, write };
}

export async function collect() {
  for (let i = 0; i < 5; i++) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export const pass = () => console.log('pass');

/** Asserts that `run` throws an error with this code. */
export function throws(code, run) {
  try {
    run();
  } catch (error) {
    if (error.code === code) return;
    throw error;
  }
  throw new Error(`nothing was thrown, but ${code} was expected`);
}
