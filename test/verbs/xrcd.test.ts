// Extended reliable connections (counterpart of rdma-core's test_xrcd.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, until } from './ground.ts';
import { closeEnd, createQp, openEnd, pass, polled, postSend, postShared, refusal } from './rig.ts';
import { closeXrc, xrcPair, xrcSrq } from './xrc-rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES: { group: string; refusedBy: 'rxe'[]; others: string } = {
  group: 'xrcd',
  refusedBy: ['rxe'],
  others: 'devices with IBV_DEVICE_XRC: mlx4, mlx5',
};
feature('XRC', NOTES, (it) => {
  it('a domain is opened and closed', (ground) => {
    const end = openEnd(ground, 0);
    const xrcd = end.p.openXrcd(end.context);
    end.p.closeXrcd(xrcd);
    expect(() => end.p.closeXrcd(xrcd)).toThrow(V.InvalidHandleError);
    closeEnd(end);
  });

  it('shared receive queues and queue pairs keep a domain busy; shared receive queues also keep a completion queue busy', (ground) => {
    const xrc = xrcPair(ground);
    const { b, xrcd } = xrc;
    expect(() => b.p.closeXrcd(xrcd)).toThrow(/queue pair, a shared receive queue/);
    expect(() => b.p.destroyCq(b.cq)).toThrow(V.BusyError);
    expect(() => b.p.closeDevice(b.context)).toThrow(/XRC domain/);
    closeXrc(xrc);
  });

  it('a SEND takes a receive from the queue that it names, and completes there', async (ground) => {
    const xrc = xrcPair(ground, { srqCount: 2 });
    const { a, b, sender, receiver, srqs } = xrc;
    expect(srqs.every(({ srqNum }) => srqNum > 0)).toBe(true);
    a.bytes.fill(5, 0, 5000);
    postShared(b, srqs[0].handle, 10, 0, 8192);
    postShared(b, srqs[1].handle, 11, 16384, 8192);
    postSend(a, sender.handle, (batch) => {
      batch.send(1, SIGNALED, a.mr.addr, 5000, a.mr.lkey).srqTo(0, srqs[1].srqNum);
      batch.sendImm(2, SIGNALED, a.mr.addr, 7, a.mr.lkey, 42).srqTo(1, srqs[0].srqNum);
    });
    expect((await polled(a, 2)).map((wc) => [wc.wrId, wc.status])).toEqual([
      [1, 'SUCCESS'],
      [2, 'SUCCESS'],
    ]);
    expect(await polled(b, 2)).toMatchObject([
      { wrId: 11, byteLen: 5000, srq: srqs[1].handle, qpNum: receiver.qpNum },
      { wrId: 10, byteLen: 7, srq: srqs[0].handle, imm: 42 },
    ]);
    expect(b.bytes.subarray(16384, 21384).every((byte) => byte === 5)).toBe(true);
    closeXrc(xrc);
  });

  it('WRITE, READ and atomics reach the memory of the queue’s protection domain', async (ground) => {
    const xrc = xrcPair(ground);
    const { a, b, sender, srqs } = xrc;
    a.bytes.fill(6, 0, 3000);
    postShared(b, srqs[0].handle, 3, 0, 64);
    postSend(a, sender.handle, (batch) => {
      batch.write(1, SIGNALED, a.mr.addr, 3000, a.mr.lkey, b.mr.addr + 8192, b.mr.rkey);
      batch.read(2, SIGNALED, a.mr.addr + 8192, 3000, a.mr.lkey, b.mr.addr + 8192, b.mr.rkey);
      batch.fetchAdd(3, SIGNALED, a.mr.addr + 16384, a.mr.lkey, b.mr.addr, b.mr.rkey, 5n);
      batch.writeImm(4, SIGNALED, a.mr.addr, 1, a.mr.lkey, b.mr.addr + 20000, b.mr.rkey, 9);
      for (let i = 0; i < 4; i++) batch.srqTo(i, srqs[0].srqNum);
    });
    expect((await polled(a, 4)).map((wc) => wc.status)).toEqual(Array(4).fill('SUCCESS'));
    expect(a.bytes.subarray(8192, 11192).every((byte) => byte === 6)).toBe(true);
    expect(b.bytes[0]).toBe(5);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 3, opcode: 'RECV_RDMA_WITH_IMM', imm: 9 }]);
    closeXrc(xrc);
  });

  it('memory of another protection domain is out of reach: REM_ACCESS_ERR', async (ground) => {
    const xrc = xrcPair(ground, { srqCount: 0 });
    const { a, b, sender, xrcd } = xrc;
    const pd = b.p.allocPd(b.context);
    const srq = xrcSrq(b, xrcd, pd);
    postSend(a, sender.handle, (batch) =>
      batch.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey).srqTo(0, srq.srqNum),
    );
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'REM_ACCESS_ERR' }]);
    b.p.destroySrq(srq.handle);
    xrc.srqs.length = 0;
    a.p.destroyQp(sender.handle);
    b.p.destroyQp(xrc.receiver.handle);
    b.p.deallocPd(pd);
    b.p.closeXrcd(xrcd);
    closeEnd(a);
    closeEnd(b);
  });

  it('a SEND to a nonexistent queue: REM_INV_REQ_ERR', async (ground) => {
    const xrc = xrcPair(ground);
    const { a, sender } = xrc;
    postSend(a, sender.handle, (batch) => batch.send(1, SIGNALED, a.mr.addr, 8, a.mr.lkey).srqTo(0, 0xffff));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'REM_INV_REQ_ERR' }]);
    closeXrc(xrc);
  });

  it('the sender waits until there is a receive', async (ground) => {
    const xrc = xrcPair(ground);
    const { a, b, sender, srqs } = xrc;
    postSend(a, sender.handle, (batch) =>
      batch.send(1, SIGNALED, a.mr.addr, 8, a.mr.lkey).srqTo(0, srqs[0].srqNum),
    );
    await pass(ground, 5);
    postShared(b, srqs[0].handle, 2, 0, 64);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 2 }]);
    closeXrc(xrc);
  });

  it('completions of shared receive queues outlast the receiving half', async (ground) => {
    const xrc = xrcPair(ground, { srqCount: 2 });
    const { a, b, sender, receiver, srqs } = xrc;
    srqs.forEach(({ handle, srqNum }, i) => {
      postShared(b, handle, 2 + i, 64 * i, 64);
      postSend(a, sender.handle, (batch) =>
        batch.send(1, SIGNALED, a.mr.addr, 8, a.mr.lkey).srqTo(0, srqNum),
      );
    });
    await polled(a, 2);
    await pass(ground);
    b.p.modifyQp(receiver.handle, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
    expect(await polled(b, 2)).toMatchObject([{ wrId: 2 }, { wrId: 3 }]);
    closeXrc(xrc);
  });

  it('one receiving half serves many queues; each has its own limit event', async (ground) => {
    const xrc = xrcPair(ground, { srqCount: 3 });
    const { a, b, sender, srqs } = xrc;
    const heard: number[] = [];
    b.p.watchAsyncEvents(b.context, (_, element) => heard.push(element));
    for (const [i, srq] of srqs.entries()) {
      for (let n = 0; n < 3; n++) postShared(b, srq.handle, 10 * i + n, 0, 64);
      b.p.modifySrq(srq.handle, { srqLimit: 3 }, V.IBV_SRQ_LIMIT);
    }
    postSend(a, sender.handle, (batch) => {
      for (let i = 0; i < 2; i++) {
        batch.send(i, SIGNALED, a.mr.addr, 8, a.mr.lkey).srqTo(i, srqs[2 - i].srqNum);
      }
    });
    await polled(a, 2);
    expect((await polled(b, 2)).map((wc) => wc.wrId)).toEqual([20, 10]);
    const wanted = [srqs[2].handle, srqs[1].handle];
    await until(ground, 'two limit events', () => wanted.every((handle) => heard.includes(handle)));
    expect(heard).not.toContain(srqs[0].handle);
    closeXrc(xrc);
  });

  it("each half refuses the other half's work", (ground) => {
    const xrc = xrcPair(ground);
    const { a, b, sender, receiver, srqs } = xrc;
    expect(refusal(b, receiver.handle, (w) => w.send(1, 0, b.mr.addr, 8, b.mr.lkey))).toBe(V.REASON_OPCODE);
    const batch = new V.RecvBatch(a.p, { capacity: 1 });
    batch.recv(1, a.mr.addr, 8, a.mr.lkey);
    expect(a.p.postRecv(sender.handle, batch.ring, 0, 1)).toBe(0);
    expect(batch.reason).toBe(V.REASON_OPCODE);
    expect(b.p.postRecv(receiver.handle, batch.ring, 0, 1)).toBe(0);
    expect(batch.reason).toBe(V.REASON_SRQ);
    batch.close();
    expect(() => createQp(b, { srq: srqs[0].handle })).toThrow(/IBV_SRQT_BASIC/);
    closeXrc(xrc);
  });

  it('queries return the values of its creation', (ground) => {
    const xrc = xrcPair(ground);
    const { a, b, sender, receiver, xrcd } = xrc;
    expect(b.p.queryQp(receiver.handle).init).toMatchObject({ qpType: V.IBV_QPT_XRC_RECV, xrcd });
    expect(a.p.queryQp(sender.handle).init.qpType).toBe(V.IBV_QPT_XRC_SEND);
    closeXrc(xrc);
  });
});
