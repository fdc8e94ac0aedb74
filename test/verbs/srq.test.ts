// Shared receive queues (counterpart of rdma-core's test_srq.py and the SRQ cases of test_qp.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground, until } from './ground.ts';
import {
  addressHandle,
  closeEnd,
  connect,
  createQp,
  type End,
  eventsOf,
  openEnd,
  pass,
  polled,
  postSend,
  postShared,
  QKEY,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES = { group: 'srq', others: 'devices with max_srq above 0: most' };

interface Shared {
  a: End;
  b: End;
  srq: V.SrqInfo;
  /** The queue pairs of a, each connected to one of b, which receives from the shared queue. */
  senders: V.QpInfo[];
  receivers: V.QpInfo[];
}

function sharedPair(
  ground: Ground,
  options: { pairs?: number; qpType?: number; maxWr?: number } = {},
): Shared {
  const { pairs = 1, qpType = V.IBV_QPT_RC, maxWr = 16 } = options;
  const a = openEnd(ground, 0);
  const b = openEnd(ground, 1);
  const srq = b.p.createSrq(b.pd, { maxWr, maxSge: 2 });
  const senders = Array.from({ length: pairs }, () => createQp(a, { qpType }));
  const receivers = Array.from({ length: pairs }, () => createQp(b, { qpType, srq: srq.handle }));
  for (let i = 0; i < pairs; i++) {
    connect(a, senders[i].handle, b, receivers[i].qpNum, { qpType, rnrRetry: 7 });
    connect(b, receivers[i].handle, a, senders[i].qpNum, { qpType });
  }
  return { a, b, srq, senders, receivers };
}

function closeShared({ a, b, srq, senders, receivers }: Shared): void {
  for (const { handle } of senders) a.p.destroyQp(handle);
  for (const { handle } of receivers) b.p.destroyQp(handle);
  b.p.destroySrq(srq.handle);
  closeEnd(a);
  closeEnd(b);
}

function send({ a, senders }: Shared, from: number, wrId: number, bytes = 8): void {
  postSend(a, senders[from].handle, (batch) => batch.send(wrId, SIGNALED, a.mr.addr, bytes, a.mr.lkey));
}

feature('SRQ creation and attributes', NOTES, (it) => {
  it('the granted sizes are at least the requested ones, and querySrq returns them', (ground) => {
    const end = openEnd(ground, 0);
    const srq = end.p.createSrq(end.pd, { maxWr: 10, maxSge: 3 });
    expect(srq.maxWr).toBeGreaterThanOrEqual(10);
    expect(srq.maxSge).toBeGreaterThanOrEqual(3);
    expect(srq.srqNum).toBe(0);
    const attr = end.p.querySrq(srq.handle);
    expect(attr.maxWr).toBeGreaterThanOrEqual(10);
    expect(attr.srqLimit).toBe(0);
    end.p.destroySrq(srq.handle);
    closeEnd(end);
  });

  it('the limit can be set and removed', (ground) => {
    const end = openEnd(ground, 0);
    const { handle } = end.p.createSrq(end.pd, { maxWr: 10, maxSge: 1 });
    end.p.modifySrq(handle, { srqLimit: 4 }, V.IBV_SRQ_LIMIT);
    expect(end.p.querySrq(handle).srqLimit).toBe(4);
    end.p.modifySrq(handle, { srqLimit: 0 }, V.IBV_SRQ_LIMIT);
    expect(end.p.querySrq(handle).srqLimit).toBe(0);
    end.p.destroySrq(handle);
    closeEnd(end);
  });

  it('it is resized with receives in it', async (ground) => {
    const shared = sharedPair(ground, { maxWr: 4 });
    const { a, b, srq } = shared;
    for (let i = 0; i < 4; i++) postShared(b, srq.handle, i, 64 * i, 64);
    b.p.modifySrq(srq.handle, { maxWr: 40 }, V.IBV_SRQ_MAX_WR);
    expect(b.p.querySrq(srq.handle).maxWr).toBeGreaterThanOrEqual(40);
    for (let i = 4; i < 40; i++) postShared(b, srq.handle, i, 64 * i, 64);
    for (let i = 0; i < 40; i++) send(shared, 0, i);
    await polled(a, 40);
    expect((await polled(b, 40)).map((wc) => wc.wrId)).toEqual(Array.from({ length: 40 }, (_, i) => i));
    closeShared(shared);
  });

  it('bad numbers, masks and handles are typed errors', (ground) => {
    const end = openEnd(ground, 0);
    const { p } = end;
    const { handle } = p.createSrq(end.pd, { maxWr: 10, maxSge: 1 });
    for (const attr of [
      null,
      {},
      { maxWr: 0, maxSge: 1 },
      { maxWr: -1, maxSge: 1 },
      { maxWr: 1.5, maxSge: 1 },
    ]) {
      expect(() => p.createSrq(end.pd, attr as V.SrqInitAttr)).toThrow(V.InvalidArgumentError);
    }
    expect(() => p.createSrq(end.pd, { maxWr: 1e9, maxSge: 1 })).toThrow(V.NoResourcesError);
    expect(() => p.createSrq(end.pd, { maxWr: 1, maxSge: 1e6 })).toThrow(V.NoResourcesError);
    expect(() => p.createSrq(end.cq, { maxWr: 1, maxSge: 1 })).toThrow(V.InvalidHandleError);
    expect(() => p.modifySrq(handle, { srqLimit: 1e6 }, V.IBV_SRQ_LIMIT)).toThrow(V.InvalidArgumentError);
    expect(() => p.modifySrq(handle, {}, V.IBV_SRQ_LIMIT)).toThrow(V.InvalidArgumentError);
    expect(() => p.modifySrq(handle, {}, 64)).toThrow(V.InvalidArgumentError);
    for (const wrong of [0, end.cq, -3, Number.NaN]) {
      expect(() => p.querySrq(wrong)).toThrow(V.InvalidHandleError);
      expect(() => p.destroySrq(wrong)).toThrow(V.InvalidHandleError);
    }
    p.destroySrq(handle);
    expect(() => p.destroySrq(handle)).toThrow(V.InvalidHandleError);
    closeEnd(end);
  });

  it('its queue pairs keep it busy, and it keeps its protection domain busy', (ground) => {
    const end = openEnd(ground, 0);
    const { p } = end;
    const pd = p.allocPd(end.context);
    const { handle } = p.createSrq(pd, { maxWr: 4, maxSge: 1 });
    expect(() => p.deallocPd(pd)).toThrow(V.BusyError);
    const qp = createQp(end, { srq: handle });
    expect(() => p.destroySrq(handle)).toThrow(V.BusyError);
    expect(p.queryQp(qp.handle).init.srq).toBe(handle);
    p.destroyQp(qp.handle);
    p.destroySrq(handle);
    p.deallocPd(pd);
    closeEnd(end);
  });
});

feature('SRQ receives', NOTES, (it) => {
  for (const [name, qpType] of [
    ['RC', V.IBV_QPT_RC],
    ['UC', V.IBV_QPT_UC],
  ] as const) {
    it(`several ${name} queue pairs take receives from it in the order of posting`, async (ground) => {
      const shared = sharedPair(ground, { pairs: 3, qpType });
      const { a, b, srq, receivers } = shared;
      for (let i = 0; i < 6; i++) postShared(b, srq.handle, i, 1024 * i, 1024);
      for (let i = 0; i < 6; i++) {
        a.bytes[0] = 100 + i;
        send(shared, i % 3, i, 8);
        await polled(a, 1);
        const [wc] = await polled(b, 1);
        expect(wc).toMatchObject({ wrId: i, byteLen: 8, srq: srq.handle, qpNum: receivers[i % 3].qpNum });
        expect(b.bytes[1024 * i]).toBe(100 + i);
      }
      closeShared(shared);
    });
  }

  it('UD messages also take receives from it', async (ground) => {
    const a = openEnd(ground, 0);
    const b = openEnd(ground, 1);
    const srq = b.p.createSrq(b.pd, { maxWr: 8, maxSge: 1 });
    const qpType = V.IBV_QPT_UD;
    const sender = createQp(a, { qpType });
    const receivers = [0, 1].map(() => createQp(b, { qpType, srq: srq.handle }));
    for (const qp of [sender]) connect(a, qp.handle, b, 0, { qpType });
    for (const qp of receivers) connect(b, qp.handle, a, 0, { qpType });
    const ah = addressHandle(a, b);
    for (let i = 0; i < 4; i++) postShared(b, srq.handle, i, 1024 * i, 100);
    for (let i = 0; i < 4; i++) {
      postSend(a, sender.handle, (batch) =>
        batch.send(i, SIGNALED, a.mr.addr, 10, a.mr.lkey).datagramTo(0, ah, receivers[i & 1].qpNum, QKEY),
      );
      await polled(a, 1);
      expect(await polled(b, 1)).toMatchObject([
        { wrId: i, byteLen: 50, srq: srq.handle, qpNum: receivers[i & 1].qpNum, srcQp: sender.qpNum },
      ]);
    }
    a.p.destroyAh(ah);
    a.p.destroyQp(sender.handle);
    for (const { handle } of receivers) b.p.destroyQp(handle);
    b.p.destroySrq(srq.handle);
    closeEnd(a);
    closeEnd(b);
  });

  it('an RC sender waits until there is a receive', async (ground) => {
    const shared = sharedPair(ground);
    const { a, b, srq } = shared;
    send(shared, 0, 1);
    await pass(ground, 5);
    postShared(b, srq.handle, 4, 0, 64);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 4, srq: srq.handle }]);
    closeShared(shared);
  });

  it('WRITE_WITH_IMM takes a receive, a plain WRITE none', async (ground) => {
    const shared = sharedPair(ground);
    const { a, b, srq, senders } = shared;
    postShared(b, srq.handle, 1, 0, 64);
    postShared(b, srq.handle, 2, 64, 64);
    postSend(a, senders[0].handle, (batch) => {
      batch.write(1, SIGNALED, a.mr.addr, 10, a.mr.lkey, b.mr.addr + 4096, b.mr.rkey);
      batch.writeImm(2, SIGNALED, a.mr.addr, 10, a.mr.lkey, b.mr.addr + 4096, b.mr.rkey, 9);
      batch.send(3, SIGNALED, a.mr.addr, 10, a.mr.lkey);
    });
    await polled(a, 3);
    expect((await polled(b, 2)).map((wc) => [wc.wrId, wc.opcode])).toEqual([
      [1, 'RECV_RDMA_WITH_IMM'],
      [2, 'RECV'],
    ]);
    closeShared(shared);
  });

  it('sequence numbers of waiting receives differ', async (ground) => {
    const shared = sharedPair(ground, { pairs: 2 });
    const { a, b, srq } = shared;
    for (let i = 0; i < 8; i++) postShared(b, srq.handle, i, 64 * i, 64);
    for (let i = 0; i < 8; i++) send(shared, i & 1, i);
    await polled(a, 8);
    const wcs = new V.WcBatch(b.p, { capacity: 8 });
    await until(ground, '8 completions', () => {
      wcs.length += b.p.pollCq(b.cq, wcs.ring, wcs.length, 8 - wcs.length);
      return wcs.length === 8;
    });
    const numbers = Array.from({ length: 8 }, (_, i) => wcs.words[V.slotAt(i) + V.WC_SEQ]);
    expect(new Set(numbers).size).toBe(8);
    wcs.close();
    closeShared(shared);
  });

  it('a full queue rejects receives until one is consumed', async (ground) => {
    const shared = sharedPair(ground, { maxWr: 4 });
    const { a, b, srq } = shared;
    const batch = new V.RecvBatch(b.p, { capacity: 64 });
    for (let i = 0; i < 64; i++) batch.recv(i, b.mr.addr, 64, b.mr.lkey);
    const taken = b.p.postSrqRecv(srq.handle, batch.ring, 0, 64);
    expect(taken).toBeGreaterThanOrEqual(4);
    expect(taken).toBeLessThan(64);
    expect([batch.errno, batch.reason]).toEqual([V.ENOMEM, V.REASON_QUEUE_FULL]);
    expect(b.p.postSrqRecv(srq.handle, batch.ring, taken, 1)).toBe(0);
    send(shared, 0, 1);
    await polled(a, 1);
    await polled(b, 1);
    expect(b.p.postSrqRecv(srq.handle, batch.ring, taken, 1)).toBe(1);
    batch.close();
    closeShared(shared);
  });

  it('postRecv on a queue pair with a shared queue is refused', (ground) => {
    const shared = sharedPair(ground);
    const { b, receivers } = shared;
    const batch = new V.RecvBatch(b.p, { capacity: 1 });
    batch.recv(1, b.mr.addr, 64, b.mr.lkey);
    expect(b.p.postRecv(receivers[0].handle, batch.ring, 0, 1)).toBe(0);
    expect([batch.errno, batch.reason]).toEqual([V.EINVAL, V.REASON_SRQ]);
    batch.close();
    closeShared(shared);
  });

  it('more elements than the queue was created for, and slots beyond the ring, are refused', (ground) => {
    const shared = sharedPair(ground);
    const { b, srq } = shared;
    const { maxSge } = srq;
    const batch = new V.RecvBatch(b.p, { capacity: 1, sges: 32 });
    batch.recv(1, b.mr.addr, 1, b.mr.lkey);
    for (let i = 1; i < Math.min(maxSge + 1, 32); i++) batch.sge(0, b.mr.addr, 1, b.mr.lkey);
    if (maxSge < 32) {
      expect(b.p.postSrqRecv(srq.handle, batch.ring, 0, 1)).toBe(0);
      expect(batch.reason).toBe(V.REASON_SGE_COUNT);
    }
    expect(b.p.postSrqRecv(srq.handle, batch.ring, 0, 9)).toBe(0);
    expect(batch.reason).toBe(V.REASON_RANGE);
    batch.close();
    closeShared(shared);
  });
});

feature('SRQ limit and errors', NOTES, (it) => {
  it('SRQ_LIMIT_REACHED is raised once, when fewer receives than the limit are left', async (ground) => {
    const shared = sharedPair(ground);
    const { a, b, srq } = shared;
    const heard = eventsOf(b);
    for (let i = 0; i < 8; i++) postShared(b, srq.handle, i, 64 * i, 64);
    b.p.modifySrq(srq.handle, { srqLimit: 6 }, V.IBV_SRQ_LIMIT);
    for (let i = 0; i < 2; i++) send(shared, 0, i);
    await polled(a, 2);
    await pass(ground);
    expect(heard.filter(({ event }) => event === V.IBV_EVENT_SRQ_LIMIT_REACHED)).toEqual([]);
    for (let i = 2; i < 5; i++) send(shared, 0, i);
    await polled(a, 3);
    const reached = { event: V.IBV_EVENT_SRQ_LIMIT_REACHED, element: srq.handle };
    const limits = () => heard.filter(({ event }) => event === V.IBV_EVENT_SRQ_LIMIT_REACHED);
    await until(ground, 'SRQ_LIMIT_REACHED', () => limits().length > 0);
    await pass(ground);
    expect(limits()).toEqual([reached]);
    expect(b.p.querySrq(srq.handle).srqLimit).toBe(0);
    b.p.modifySrq(srq.handle, { srqLimit: 3 }, V.IBV_SRQ_LIMIT);
    send(shared, 0, 6);
    await until(ground, 'SRQ_LIMIT_REACHED again', () => limits().length > 1);
    expect(limits()).toEqual([reached, reached]);
    await polled(a, 1);
    await polled(b, 6);
    closeShared(shared);
  });

  it('a queue pair in ERR leaves the receives to the others', async (ground) => {
    const shared = sharedPair(ground, { pairs: 2 });
    const { a, b, srq, receivers } = shared;
    for (let i = 0; i < 3; i++) postShared(b, srq.handle, i, 64 * i, 64);
    b.p.modifyQp(receivers[0].handle, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    await pass(ground);
    for (let i = 0; i < 3; i++) send(shared, 1, i);
    await polled(a, 3);
    expect((await polled(b, 3)).map((wc) => [wc.wrId, wc.status, wc.qpNum])).toEqual(
      [0, 1, 2].map((id) => [id, 'SUCCESS', receivers[1].qpNum]),
    );
    closeShared(shared);
  });

  it('destroying it drops the waiting receives', (ground) => {
    const end = openEnd(ground, 0);
    const { handle } = end.p.createSrq(end.pd, { maxWr: 4, maxSge: 1 });
    for (let i = 0; i < 4; i++) postShared(end, handle, i, 0, 64);
    end.p.destroySrq(handle);
    closeEnd(end);
  });
});
