// Unreliable connections (counterpart of what rdma-core's test_qp.py and test_qpex.py do with UC).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground } from './ground.ts';
import { closePair, connectedPair, type Pair, pass, polled, postRecv, postSend, refusal } from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES = { group: 'qp', others: 'every InfiniBand and RoCE device' };

function ucPair(ground: Ground, init: Partial<V.QpInitAttr> = {}): Pair {
  return connectedPair(ground, { qpType: V.IBV_QPT_UC, init });
}

function stateOf({ a, qpA }: Pair): number | undefined {
  return a.p.queryQp(qpA.handle).attr.qpState;
}

feature('UC messages', NOTES, (it) => {
  for (const bytes of [1, 1024, 9000]) {
    it(`SEND of ${bytes} bytes lands in the receive`, async (ground) => {
      const pair = ucPair(ground);
      const { a, b, qpA, qpB } = pair;
      a.bytes.fill(7, 0, bytes);
      postRecv(b, qpB.handle, 5, 20000, 10000);
      postSend(a, qpA.handle, (batch) => batch.send(9, SIGNALED, a.mr.addr, bytes, a.mr.lkey));
      expect(await polled(a, 1)).toMatchObject([{ wrId: 9, status: 'SUCCESS', opcode: 'SEND' }]);
      expect(await polled(b, 1)).toMatchObject([
        { wrId: 5, status: 'SUCCESS', opcode: 'RECV', byteLen: bytes, qpNum: qpB.qpNum },
      ]);
      expect(b.bytes.subarray(20000, 20000 + bytes).every((byte) => byte === 7)).toBe(true);
      expect(b.bytes[20000 + bytes]).toBe(0);
      closePair(pair);
    });
  }

  it('SEND_WITH_IMM carries its immediate', async (ground) => {
    const pair = ucPair(ground);
    const { a, b, qpA, qpB } = pair;
    postRecv(b, qpB.handle, 1, 0, 100);
    postSend(a, qpA.handle, (batch) => batch.sendImm(2, SIGNALED, a.mr.addr, 10, a.mr.lkey, 0xdeadbeef));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    const [wc] = await polled(b, 1);
    expect(wc).toMatchObject({ wrId: 1, byteLen: 10, imm: 0xdeadbeef });
    expect(wc.flags & V.IBV_WC_WITH_IMM).toBe(V.IBV_WC_WITH_IMM);
    closePair(pair);
  });

  it('RDMA_WRITE arrives without a completion at the receiver', async (ground) => {
    const pair = ucPair(ground);
    const { a, b, qpA, qpB } = pair;
    a.bytes.fill(3, 0, 6000);
    postRecv(b, qpB.handle, 7, 0, 100);
    postSend(a, qpA.handle, (batch) => {
      batch.write(1, SIGNALED, a.mr.addr, 6000, a.mr.lkey, b.mr.addr + 8192, b.mr.rkey);
      batch.send(2, SIGNALED, a.mr.addr, 1, a.mr.lkey);
    });
    expect((await polled(a, 2)).map((wc) => [wc.wrId, wc.opcode])).toEqual([
      [1, 'RDMA_WRITE'],
      [2, 'SEND'],
    ]);
    // The SEND was posted after the WRITE.
    expect(await polled(b, 1)).toMatchObject([{ wrId: 7, byteLen: 1 }]);
    expect(b.bytes.subarray(8192, 14192).every((byte) => byte === 3)).toBe(true);
    closePair(pair);
  });

  it('RDMA_WRITE_WITH_IMM completes a receive with the length of the message', async (ground) => {
    const pair = ucPair(ground);
    const { a, b, qpA, qpB } = pair;
    postRecv(b, qpB.handle, 4, 0, 100);
    postSend(a, qpA.handle, (batch) =>
      batch.writeImm(1, SIGNALED, a.mr.addr, 5000, a.mr.lkey, b.mr.addr, b.mr.rkey, 77),
    );
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    expect(await polled(b, 1)).toMatchObject([
      { wrId: 4, opcode: 'RECV_RDMA_WITH_IMM', byteLen: 5000, imm: 77 },
    ]);
    closePair(pair);
  });

  it('inline data is copied when it is posted', async (ground) => {
    const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 64 };
    const pair = ucPair(ground, { cap });
    const { a, b, qpA, qpB } = pair;
    postRecv(b, qpB.handle, 1, 0, 100);
    const data = Uint8Array.from({ length: 33 }, (_, i) => i + 1);
    postSend(a, qpA.handle, (batch) => batch.inline(1, V.IBV_WR_SEND, SIGNALED, data));
    await polled(a, 1);
    expect(await polled(b, 1)).toMatchObject([{ byteLen: 33 }]);
    expect([...b.bytes.subarray(0, 34)]).toEqual([...data, 0]);
    closePair(pair);
  });

  it('both ends send at once', async (ground) => {
    const pair = ucPair(ground);
    const { a, b, qpA, qpB } = pair;
    for (let i = 0; i < 8; i++) {
      postRecv(a, qpA.handle, 100 + i, 0, 4096);
      postRecv(b, qpB.handle, 200 + i, 0, 4096);
    }
    for (const [end, qp] of [
      [a, qpA],
      [b, qpB],
    ] as const) {
      postSend(end, qp.handle, (batch) => {
        for (let i = 0; i < 8; i++) batch.send(i, SIGNALED, end.mr.addr + 8192, 4000, end.mr.lkey);
      });
    }
    for (const end of [a, b]) {
      const wcs = await polled(end, 16);
      expect(wcs.every((wc) => wc.status === 'SUCCESS')).toBe(true);
      const received = wcs.filter((wc) => wc.wrId >= 100).map((wc) => wc.wrId % 100);
      expect(received).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    }
    closePair(pair);
  });
});

feature('UC without acknowledgements', NOTES, (it) => {
  it('a message without a receive is lost, and the sender completes it', async (ground) => {
    const pair = ucPair(ground);
    const { a, b, qpA, qpB } = pair;
    postSend(a, qpA.handle, (batch) => batch.send(1, SIGNALED, a.mr.addr, 3000, a.mr.lkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    await pass(ground);
    postRecv(b, qpB.handle, 5, 0, 4096);
    postSend(a, qpA.handle, (batch) => batch.send(2, SIGNALED, a.mr.addr, 2000, a.mr.lkey));
    await polled(a, 1);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 5, byteLen: 2000, status: 'SUCCESS' }]);
    closePair(pair);
  });

  it('a WRITE with a wrong key is lost, and both ends stay usable', async (ground) => {
    const pair = ucPair(ground);
    const { a, b, qpA, qpB } = pair;
    a.bytes.fill(9, 0, 100);
    postSend(a, qpA.handle, (batch) =>
      batch.write(1, SIGNALED, a.mr.addr, 100, a.mr.lkey, b.mr.addr, (b.mr.rkey ^ 0x100) >>> 0),
    );
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    await pass(ground);
    expect(b.bytes.subarray(0, 100).every((byte) => byte === 0)).toBe(true);
    postRecv(b, qpB.handle, 5, 4096, 4096);
    postSend(a, qpA.handle, (batch) => batch.send(2, SIGNALED, a.mr.addr, 100, a.mr.lkey));
    await polled(a, 1);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 5, byteLen: 100 }]);
    expect(stateOf(pair)).toBe(V.IBV_QPS_RTS);
    closePair(pair);
  });

  it('READs and atomics are refused', async (ground) => {
    const pair = ucPair(ground);
    const { a, b, qpA } = pair;
    const reasons = [
      refusal(a, qpA.handle, (w) => w.read(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey)),
      refusal(a, qpA.handle, (w) => w.fetchAdd(1, 0, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n)),
      refusal(a, qpA.handle, (w) => w.compareSwap(1, 0, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 0n, 1n)),
    ];
    expect(reasons).toEqual([V.REASON_OPCODE, V.REASON_OPCODE, V.REASON_OPCODE]);
    expect(stateOf(pair)).toBe(V.IBV_QPS_RTS);
    closePair(pair);
  });

  it('ERR flushes queued requests, and the queue pair works again after RESET', async (ground) => {
    const pair = ucPair(ground);
    const { b, qpB } = pair;
    for (let i = 0; i < 3; i++) postRecv(b, qpB.handle, i, 0, 64);
    b.p.modifyQp(qpB.handle, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    expect((await polled(b, 3)).map((wc) => [wc.wrId, wc.status])).toEqual([
      [0, 'WR_FLUSH_ERR'],
      [1, 'WR_FLUSH_ERR'],
      [2, 'WR_FLUSH_ERR'],
    ]);
    b.p.modifyQp(qpB.handle, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
    expect(b.p.queryQp(qpB.handle).attr.qpState).toBe(V.IBV_QPS_RESET);
    closePair(pair);
  });
});
