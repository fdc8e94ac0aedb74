// @ts-nocheck
// One end in a process or thread of its own, at the address that it is given: it tells its parent where it may write, and
// WRITEs without end if it is asked to.
import { parentPort } from 'node:worker_threads';
import { Context } from '../../../dist/objects/index.js';
import { createSoftNetwork } from '../../../dist/providers/soft/index.js';
import { IBV_SEND_SIGNALED } from '../../../dist/verbs/index.js';

const { provider } = createSoftNetwork({ addresses: [process.argv[2]] });
const context = new Context(provider, 'soft0', {});
const pd = context.allocPd();
const cq = context.createCq({ cqe: 16 });
const qp = pd.createQp({ sendCq: cq });
const mr = pd.allocate(1 << 16, { access: { remoteWrite: true } });
mr.bytes.fill(7);

const say = (message) => (parentPort === null ? process.send(message) : parentPort.postMessage(message));
async function hear({ peer, writesTo }) {
  qp.connectTo(peer);
  say('connected');
  if (writesTo === undefined) return;
  const batch = context.sendBatch({ capacity: 1 });
  batch.write(1, IBV_SEND_SIGNALED, mr.addr, mr.bytes.length, mr.lkey, writesTo.addr, writesTo.rkey);
  for (;;) {
    qp.postSend(batch);
    await cq.next();
  }
}
(parentPort ?? process).on('message', hear);
say({ endpoint: qp.endpoint(), addr: mr.addr, rkey: mr.rkey });
