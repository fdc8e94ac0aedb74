// @ts-nocheck: runs against dist, which a type check must not need.
// A watched channel does not keep the process alive.
import { open, p } from './rig.mjs';

const { channel, cq } = open(true);
p.reqNotifyCq(cq, false);
p.watchCompChannel(channel, () => {});
console.log('pass');
