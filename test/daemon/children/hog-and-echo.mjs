// @ts-nocheck
// A program that sends messages of 256 KiB without pause on two queue pairs, and next to them 64 bytes at a time, until
// it is ended.
import { setImmediate as turn } from 'node:timers/promises';
import { IBV_SEND_SIGNALED, openDevice } from '../../../dist/index.js';

const BYTES = 256 * 1024;
const context = openDevice('sim0');
const remote = openDevice('sim1');

/** A queue pair that always has this many messages of one length in flight. */
function flow(bytes, depth) {
  const pd = context.allocPd();
  const remotePd = remote.allocPd();
  const cq = context.createCq({ cqe: 16 });
  const qp = pd.createQp({ sendCq: cq });
  const peer = remotePd.createQp({ sendCq: remote.createCq({ cqe: 16 }) });
  qp.connectTo(peer.endpoint());
  peer.connectTo(qp.endpoint());
  const mr = pd.allocate(bytes);
  const target = remotePd.allocate(bytes, { access: { remoteWrite: true } });
  const batch = context.sendBatch({ capacity: 1 });
  batch.write(1, IBV_SEND_SIGNALED, mr.addr, bytes, mr.lkey, target.addr, target.rkey);
  const wc = context.wcBatch({ capacity: 16 });
  for (let i = 0; i < depth; i++) qp.postSend(batch);
  return () => {
    for (let n = cq.poll(wc); n > 0; n--) qp.postSend(batch);
  };
}

const polls = [flow(BYTES, 2), flow(BYTES, 2), flow(64, 1)];
console.log('going');
// The parent may have been killed, and then this process must not continue alone.
const parent = process.ppid;
while (process.ppid === parent) {
  for (let i = 0; i < 2000; i++) for (const poll of polls) poll();
  await turn();
}
process.exit();
