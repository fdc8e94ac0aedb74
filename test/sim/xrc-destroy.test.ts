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
