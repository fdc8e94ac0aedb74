// @ts-nocheck: runs against dist, which a type check must not need.
// An error thrown by a listener is an uncaughtException; the channel stays usable.
import { open, p, pause, V, writes } from './rig.mjs';

const { channel, cq, qp, mr } = open(true);
const batch = new V.SendBatch(p, { capacity: 1 });
const caught = [];
process.on('uncaughtException', (error) => caught.push(error.message));
let calls = 0;
p.watchCompChannel(channel, () => {
  calls++;
  throw new Error(`thrown ${calls}`);
});
for (let i = 0; i < 2; i++) {
  p.reqNotifyCq(cq, false);
  p.postSend(qp, writes(batch, 1, mr).ring, 0, 1);
  for (let n = 0; n < 200 && calls <= i; n++) await pause(10);
}
console.log(caught.join() === 'thrown 1,thrown 2' ? 'pass' : `caught: ${caught}`);
