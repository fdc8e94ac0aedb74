// @ts-nocheck: runs against dist, which a type check must not need.
// Buffers may be collected while their memory is registered, and memory deregistered while its buffers live. Run with
// --expose-gc.
import { check, open, p, pause, V, writes } from './rig.mjs';

const gc = globalThis.gc;
const { pd, cq, qp, mr } = open();
const wcs = new V.WcBatch(p, { capacity: 64 });
const batch = new V.SendBatch(p, { capacity: 16 });
const own = p.allocMr(pd, 65536, 15);
const lone = { handle: own.handle, addr: own.addr, lkey: own.lkey, rkey: own.rkey };
const foreign = (() => {
  const { handle, addr, lkey, rkey } = p.regMr(pd, new ArrayBuffer(65536), 0, 65536, 15);
  return { handle, addr, lkey, rkey };
})();
const shared = (() => {
  const { handle, addr, lkey, rkey } = p.regMr(pd, new SharedArrayBuffer(65536), 0, 65536, 15);
  return { handle, addr, lkey, rkey };
})();
const junk = [];
for (let round = 0; round < 10; round++) {
  for (let i = 0; i < 50; i++) junk.push(new ArrayBuffer(65536));
  junk.length = 0;
  for (let i = 0; i < 20; i++) p.deregMr(p.allocMr(pd, 8192, 1).handle);
  gc();
  await pause(1);
  for (const region of [lone, foreign, shared, mr]) {
    check(p.postSend(qp, writes(batch, 4, region).ring, 0, 4) === 4, 'post');
    let n = 0;
    while (n < 4) {
      const got = p.pollCq(cq, wcs.ring, 0, 16);
      for (let i = 0; i < got; i++) check(wcs.status(i) === 0, `status ${wcs.status(i)}`);
      n += got;
      if (got === 0) await pause(1);
    }
  }
}
for (const { handle } of [lone, foreign, shared]) p.deregMr(handle);
gc();
await pause(10);
console.log('pass');
