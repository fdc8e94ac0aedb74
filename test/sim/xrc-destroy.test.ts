import { expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { groundOf } from '../verbs/ground.ts';
import { pass, polled, postSend, postShared } from '../verbs/rig.ts';
import { closeXrc, xrcPair } from '../verbs/xrc-rig.ts';

test('a shared receive queue that is destroyed within a message completes no receive: REM_INV_REQ_ERR', async () => {
  const ground = groundOf('sim');
  const xrc = xrcPair(ground);
  const { a, b, sender, srqs } = xrc;
  const [srq] = srqs.splice(0);
  postShared(b, srq.handle, 2, 0, 65_536);
  postSend(a, sender.handle, (batch) =>
    batch.send(1, V.IBV_SEND_SIGNALED, a.mr.addr, 60_000, a.mr.lkey).srqTo(0, srq.srqNum),
  );
  await ground.fabric?.advance(4000);
  b.p.destroySrq(srq.handle);
  await pass(ground);
  const wcs = new V.WcBatch(b.p, { capacity: 1 });
  expect(b.p.pollCq(b.cq, wcs.ring, 0, 1)).toBe(0);
  wcs.close();
  expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'REM_INV_REQ_ERR' }]);
  closeXrc(xrc);
});

test('the completion queue of a shared receive queue overflows: each receiving half that loses a completion fails', async () => {
  const ground = groundOf('sim');
  const xrc = xrcPair(ground);
  const { a, b, xrcd, sender, receiver } = xrc;
  const cq = b.p.createCq(b.context, 2, 0).handle;
  const options = { maxWr: 16, maxSge: 2, srqType: V.IBV_SRQT_XRC, xrcd, cq };
  const srq = b.p.createSrq(b.pd, options);
  for (let i = 0; i < 6; i++) postShared(b, srq.handle, i, 0, 64);
  const heard: string[] = [];
  b.p.watchAsyncEvents(b.context, (event) => heard.push(V.asyncEventName(event)));
  postSend(a, sender.handle, (batch) => {
    for (let i = 0; i < 3; i++)
      batch.send(i, V.IBV_SEND_SIGNALED, a.mr.addr, 8, a.mr.lkey).srqTo(i, srq.srqNum);
  });
  await pass(ground);
  expect(await polled(a, 3)).toHaveLength(3);
  expect(b.p.queryQp(receiver.handle).attr.qpState).toBe(V.IBV_QPS_ERR);
  expect(heard).toEqual(['CQ_ERR', 'QP_FATAL', 'QP_LAST_WQE_REACHED']);
  const wcs = new V.WcBatch(b.p, { capacity: 4 });
  expect(b.p.pollCq(cq, wcs.ring, 0, 4)).toBe(2);
  wcs.close();
  b.p.destroySrq(srq.handle);
  b.p.destroyCq(cq);
  closeXrc(xrc);
});
