// @ts-nocheck: runs against dist, which a type check must not need.
// refCompChannel(channel, true) keeps the process alive until the event has come.
import { open, p, V, writes } from './rig.mjs';

const { channel, cq, qp, mr } = open(true);
const batch = new V.SendBatch(p, { capacity: 1 });
p.refCompChannel(channel, true);
p.watchCompChannel(channel, () => {
  p.refCompChannel(channel, false);
  console.log('pass');
});
p.reqNotifyCq(cq, false);
setTimeout(() => p.postSend(qp, writes(batch, 1, mr).ring, 0, 1), 50).unref();
