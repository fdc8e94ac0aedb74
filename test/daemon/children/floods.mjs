// @ts-nocheck
// A program that always has data to send, 256 KiB at a time. It prints the bytes that it has sent and the time, as JSON.
import { setImmediate as turn } from 'node:timers/promises';
import { IBV_SEND_SIGNALED, openDevice } from '../../../dist/index.js';

const BYTES = 2 ** 18;
const REPORT_MS = 50;
const IN_FLIGHT = 4;

const context = openDevice('sim0');
const pd = context.allocPd();
const cq = context.createCq({ cqe: 16 });
const [qp, peer] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
qp.connectTo(peer.endpoint());
peer.connectTo(qp.endpoint());
const mr = pd.allocate(2 * BYTES, { access: { remoteWrite: true } });
const batch = context.sendBatch({ capacity: 1 });
batch.write(1, IBV_SEND_SIGNALED, mr.addr, BYTES, mr.lkey, mr.addr + BYTES, mr.rkey);
const wcs = context.wcBatch({ capacity: IN_FLIGHT });
let [bytes, reportedMs] = [0, 0];
for (let i = 0; i < IN_FLIGHT; i++) qp.postSend(batch);
// The parent may have been killed, and then this process must not continue alone.
const parent = process.ppid;
while (process.ppid === parent) {
  const done = cq.poll(wcs);
  bytes += done * BYTES;
  for (let i = 0; i < done; i++) qp.postSend(batch);
  const ms = performance.now();
  if (ms - reportedMs < REPORT_MS) {
    if (done === 0) await turn();
    continue;
  }
  reportedMs = ms;
  console.log(JSON.stringify({ bytes, ms: performance.timeOrigin + ms }));
}
process.exit();
