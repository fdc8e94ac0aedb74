// @ts-nocheck
// A program that writes 4 KiB to itself every few milliseconds until it is ended.
import { setTimeout as sleep } from 'node:timers/promises';
import { IBV_SEND_SIGNALED, openDevice } from '../../../dist/index.js';

const context = openDevice('sim0');
const pd = context.allocPd();
const cq = context.createCq({ cqe: 16 });
const [qp, peer] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
qp.connectTo(peer.endpoint());
peer.connectTo(qp.endpoint());
const mr = pd.allocate(8192, { access: { remoteWrite: true } });
const batch = context.sendBatch({ capacity: 1 });
batch.write(1, IBV_SEND_SIGNALED, mr.addr, 4096, mr.lkey, mr.addr + 4096, mr.rkey);
console.log('going');
// The parent may have been killed, and then this process must not continue alone.
const parent = process.ppid;
while (process.ppid === parent) {
  qp.postSend(batch);
  await cq.next();
  await sleep(2);
}
process.exit();
