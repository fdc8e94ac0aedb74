// @ts-nocheck
// Using any object after close() throws a typed error; so does a stale handle passed to a flat verb.
import { loop, pass, throws } from './setup.mjs';

const { context, pd, cq, mr, qp, write } = loop();
const wc = context.wcBatch({ capacity: 4 });
const batch = context.sendBatch({ capacity: 4 }).send(0, 0, mr.addr, 8, mr.lkey);
const { provider } = context;
const old = { context: context.handle, pd: pd.handle, cq: cq.handle, mr: mr.handle, qp: qp.handle };
const bytes = mr.bytes;
context.close();
if (bytes.length !== 0) throw new Error('the memory is still visible');
for (const use of [
  () => write(),
  () => qp.postSend(batch),
  () => cq.poll(wc),
  () => mr.bytes,
  () => pd.allocate(8),
  () => context.createCq(),
  () => provider.postSend(old.qp, batch.ring, 0, 1),
  () => provider.postRecv(old.qp, batch.ring, 0, 1),
  () => provider.pollCq(old.cq, wc.ring, 0, 4),
  () => provider.reqNotifyCq(old.cq, false),
  () => provider.queryQp(old.qp),
  () => provider.destroyQp(old.qp),
  () => provider.destroyCq(old.cq),
  () => provider.deregMr(old.mr),
  () => provider.deallocPd(old.pd),
  () => provider.closeDevice(old.context),
  () => provider.destroyRing(batch.ring),
  () => provider.allocPd(old.cq),
  () => provider.allocPd(0),
  () => provider.allocPd(-1),
  () => provider.allocPd(1e9),
]) {
  throws('ISO_ERR_HANDLE', use);
}
pass();
