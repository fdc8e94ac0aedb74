// @ts-nocheck: runs against dist, which a type check must not need.
// process.exit() inside a listener, with everything open.
import { open, p, V, writes } from './rig.mjs';

const { channel, cq, qp, mr } = open(true);
const batch = new V.SendBatch(p, { capacity: 1 });
p.refCompChannel(channel, true);
p.watchCompChannel(channel, () => {
  console.log('pass');
  process.exit(0);
});
p.reqNotifyCq(cq, false);
p.postSend(qp, writes(batch, 1, mr).ring, 0, 1);
