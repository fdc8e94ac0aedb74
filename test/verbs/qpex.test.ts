// Queue pairs that post through ibv_wr_*(3) behave like others (counterpart of rdma-core's test_qpex.py).
// Longer than 500 lines: one case for each opcode and transport, next to each other as in rdma-core.
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground } from './ground.ts';
import {
  ACCESS,
  addressHandle,
  CAP,
  closeEnd,
  closePair,
  connectedPair,
  createQp,
  type End,
  modify,
  openEnd,
  type Pair,
  polled,
  postRecv,
  postSend,
  postShared,
  QKEY,
  refusal,
  rtrAttrTo,
  toInit,
  type Wc,
} from './rig.ts';
import { closeXrc, xrcPair } from './xrc-rig.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;
const INIT = { extended: true, cap: { ...CAP, maxInlineData: 64 } };

feature('extended posting', { group: 'qpex', others: 'mlx5, efa; else typed refusal' }, (it) => {
  it('SEND of one element, of several equal or unequal ones, of none, with immediate, inline', async (ground) => {
    const pair = connectedPair(ground, { init: INIT });
    const { a, b, qpA, qpB } = pair;
    for (let i = 0; i < a.bytes.length; i++) a.bytes[i] = i * 7;
    for (let i = 0; i < 6; i++) postRecv(b, qpB.handle, i, 8192 * (i + 1), 4096);
    const { addr, lkey } = a.mr;
    postSend(a, qpA.handle, (batch) => {
      batch.send(0, SIGNALED, addr, 3000, lkey);
    });
    // A separate list, because on soft-RoCE a list with unequal elements does not go through ibv_wr_*.
    postSend(a, qpA.handle, (batch) =>
      batch
        .send(1, SIGNALED, addr, 10, lkey)
        .sge(0, addr + 100, 1, lkey)
        .sge(0, addr + 200, 33, lkey),
    );
    postSend(a, qpA.handle, (batch) => {
      batch.send(2, SIGNALED, 0, 0, 0);
      batch.sendImm(3, SIGNALED, addr, 4, lkey, 0xcafe0123);
      batch.inline(4, V.IBV_WR_SEND, SIGNALED, new Uint8Array([9, 8, 7]));
      batch.send(5, SIGNALED, addr + 300, 20, lkey).sge(3, addr + 500, 20, lkey);
    });
    const sent = await polled(a, 6);
    expect(sent.map(({ wrId, status }) => [wrId, status])).toEqual(
      [0, 1, 2, 3, 4, 5].map((id) => [id, 'SUCCESS']),
    );
    const got = await polled(b, 6);
    expect(got.map(({ byteLen }) => byteLen)).toEqual([3000, 44, 0, 4, 3, 40]);
    expect(got[3]).toMatchObject({ imm: 0xcafe0123, flags: got[0].flags | V.IBV_WC_WITH_IMM });
    expect(b.bytes.subarray(8192, 8192 + 3000)).toEqual(a.bytes.subarray(0, 3000));
    const joined = [...a.bytes.subarray(0, 10), a.bytes[100], ...a.bytes.subarray(200, 233)];
    expect([...b.bytes.subarray(16384, 16384 + 44)]).toEqual(joined);
    expect([...b.bytes.subarray(8192 * 5, 8192 * 5 + 3)]).toEqual([9, 8, 7]);
    const equal = [...a.bytes.subarray(300, 320), ...a.bytes.subarray(500, 520)];
    expect([...b.bytes.subarray(8192 * 6, 8192 * 6 + 40)]).toEqual(equal);
    closePair(pair);
  });

  it('RDMA WRITE, with immediate and inline, RDMA READ, and both atomics', async (ground) => {
    const pair = connectedPair(ground, { init: INIT });
    const { a, b, qpA, qpB } = pair;
    const counter = new BigUint64Array(b.mr.memory, b.mr.byteOffset + 64, 1);
    counter[0] = 40n;
    a.bytes.fill(3, 0, 500);
    b.bytes.fill(5, 1024, 1100);
    postRecv(b, qpB.handle, 77, 32768, 16);
    const { addr, lkey } = a.mr;
    const { addr: remote, rkey } = b.mr;
    postSend(a, qpA.handle, (batch) => {
      batch.write(0, 0, addr, 500, lkey, remote + 4096, rkey);
      batch.writeImm(1, SIGNALED, addr, 9, lkey, remote + 8192, rkey, 5);
      batch.inline(2, V.IBV_WR_RDMA_WRITE, SIGNALED, new Uint8Array([1, 2])).remoteTo(2, remote + 9000, rkey);
      batch.read(3, SIGNALED, addr + 2048, 76, lkey, remote + 1024, rkey);
      batch.fetchAdd(4, SIGNALED, addr + 4096, lkey, remote + 64, rkey, 2n);
      batch.compareSwap(5, SIGNALED, addr + 4104, lkey, remote + 64, rkey, 42n, 1n << 40n);
    });
    expect((await polled(a, 5)).map(({ wrId, opcode }) => [wrId, opcode])).toEqual([
      [1, 'RDMA_WRITE'],
      [2, 'RDMA_WRITE'],
      [3, 'RDMA_READ'],
      [4, 'FETCH_ADD'],
      [5, 'COMP_SWAP'],
    ]);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 77, opcode: 'RECV_RDMA_WITH_IMM', imm: 5 }]);
    expect(b.bytes.subarray(4096, 4596).every((byte) => byte === 3)).toBe(true);
    expect([...b.bytes.subarray(9000, 9003)]).toEqual([1, 2, 0]);
    expect(a.bytes.subarray(2048, 2124).every((byte) => byte === 5)).toBe(true);
    expect([...new BigUint64Array(a.mr.memory, a.mr.byteOffset + 4096, 2)]).toEqual([40n, 42n]);
    expect(counter[0]).toBe(1n << 40n);
    closePair(pair);
  });

  it('a bad request ends the list; the requests before it are posted', async (ground) => {
    const pair = connectedPair(ground, { init: INIT });
    const { a, b, qpA } = pair;
    const batch = new V.SendBatch(a.p, { capacity: 8 });
    const { addr, lkey } = a.mr;
    for (let i = 0; i < 4; i++) batch.write(i, SIGNALED, addr, 8, lkey, b.mr.addr, b.mr.rkey);
    batch.fetchAdd(4, SIGNALED, addr, lkey, b.mr.addr + 3, b.mr.rkey, 1n);
    batch.write(5, SIGNALED, addr, 8, lkey, b.mr.addr, b.mr.rkey);
    expect(a.p.postSend(qpA.handle, batch.ring, 0, 6)).toBe(4);
    expect([batch.errno, batch.reason]).toEqual([V.EINVAL, V.REASON_ATOMIC]);
    expect(await polled(a, 4)).toHaveLength(4);
    batch.close();
    closePair(pair);
  });

  it('a full queue accepts as many requests as fit, reports ENOMEM, and continues when it has room', async (ground) => {
    const pair = connectedPair(ground, {
      init: { ...INIT, cap: { ...INIT.cap, maxSendWr: 8 } },
      rnrRetry: 7,
    });
    const { a, b, qpA, qpB } = pair;
    const batch = new V.SendBatch(a.p, { capacity: 200 });
    const { addr, lkey } = a.mr;
    // No receive is posted, so the first SEND waits, and the others wait behind it.
    for (let i = 0; i < 200; i++) batch.send(i, SIGNALED, addr, 8, lkey);
    const first = a.p.postSend(qpA.handle, batch.ring, 0, 200);
    expect(first).toBeGreaterThanOrEqual(8);
    expect(first).toBeLessThan(200);
    expect([batch.errno, batch.reason]).toEqual([V.ENOMEM, V.REASON_QUEUE_FULL]);
    for (let i = 0; i < first; i++) postRecv(b, qpB.handle, i, 4096, 64);
    const done = await polled(a, first);
    expect(done.map(({ wrId }) => wrId)).toEqual(Array.from({ length: first }, (_, i) => i));
    expect(a.p.postSend(qpA.handle, batch.ring, first, 1)).toBe(1);
    batch.close();
    closePair(pair);
  });

  it('is reported in the creation attributes', (ground) => {
    const pair = connectedPair(ground, { init: INIT });
    expect(pair.a.p.queryQp(pair.qpA.handle).init).toMatchObject({ extended: true, qpType: V.IBV_QPT_RC });
    closePair(pair);
  });
});

feature('extended posting on UC queue pairs', { group: 'qpex', others: 'mlx5' }, (it) => {
  it('SEND and RDMA WRITE', async (ground) => {
    const pair = connectedPair(ground, { qpType: V.IBV_QPT_UC, init: INIT });
    const { a, b, qpA, qpB } = pair;
    a.bytes.fill(6, 0, 100);
    postRecv(b, qpB.handle, 5, 4096, 200);
    const { addr, lkey } = a.mr;
    postSend(a, qpA.handle, (batch) => {
      batch.write(1, SIGNALED, addr, 100, lkey, b.mr.addr + 8192, b.mr.rkey);
      batch.sendImm(2, SIGNALED, addr, 50, lkey, 4);
    });
    expect((await polled(a, 2)).map(({ wrId, status }) => [wrId, status])).toEqual([
      [1, 'SUCCESS'],
      [2, 'SUCCESS'],
    ]);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 5, byteLen: 50, imm: 4 }]);
    expect(b.bytes.subarray(8192, 8292).every((byte) => byte === 6)).toBe(true);
    closePair(pair);
  });
});

const NOTES = { group: 'qpex', others: 'mlx5, efa; else typed refusal' };
const extendedPair = (ground: Ground, qpType = V.IBV_QPT_RC, mrAccess?: number): Pair =>
  connectedPair(ground, { qpType, init: INIT, mrAccess });

/** Posts the request of `fill`, waits for its completion, and returns it. */
async function done(pair: Pair, fill: (batch: V.SendBatch) => void): Promise<Wc> {
  postSend(pair.a, pair.qpA.handle, fill);
  return (await polled(pair.a, 1))[0];
}

feature('extended posting on RC queue pairs, one by one', NOTES, (it) => {
  it('SEND', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b, qpB } = pair;
    a.bytes.fill(1, 0, 2000);
    postRecv(b, qpB.handle, 3, 4096, 2000);
    const sent = await done(pair, (w) => w.send(2, SIGNALED, a.mr.addr, 2000, a.mr.lkey));
    expect(sent).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'SEND' });
    expect(await polled(b, 1)).toMatchObject([{ wrId: 3, opcode: 'RECV', byteLen: 2000 }]);
    expect(b.bytes.subarray(4096, 6096).every((byte) => byte === 1)).toBe(true);
    closePair(pair);
  });

  it('SEND_WITH_IMM', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b, qpB } = pair;
    postRecv(b, qpB.handle, 3, 4096, 2000);
    const sent = await done(pair, (w) => w.sendImm(2, SIGNALED, a.mr.addr, 10, a.mr.lkey, 0xfffffff1));
    expect(sent).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'SEND' });
    const [got] = await polled(b, 1);
    expect(got).toMatchObject({ wrId: 3, opcode: 'RECV', byteLen: 10, imm: 0xfffffff1 });
    expect(got.flags & V.IBV_WC_WITH_IMM).toBe(V.IBV_WC_WITH_IMM);
    closePair(pair);
  });

  it('RDMA_WRITE', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b } = pair;
    a.bytes.fill(4, 0, 3000);
    const wrote = await done(pair, (w) =>
      w.write(2, SIGNALED, a.mr.addr, 3000, a.mr.lkey, b.mr.addr + 100, b.mr.rkey),
    );
    expect(wrote).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'RDMA_WRITE' });
    expect(b.bytes.subarray(100, 3100).every((byte) => byte === 4)).toBe(true);
    expect([b.bytes[99], b.bytes[3100]]).toEqual([0, 0]);
    closePair(pair);
  });

  it('RDMA_WRITE_WITH_IMM', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b, qpB } = pair;
    a.bytes.fill(4, 0, 3000);
    postRecv(b, qpB.handle, 3, 0, 0);
    const wrote = await done(pair, (w) =>
      w.writeImm(2, SIGNALED, a.mr.addr, 3000, a.mr.lkey, b.mr.addr + 100, b.mr.rkey, 7),
    );
    expect(wrote).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'RDMA_WRITE' });
    expect(await polled(b, 1)).toMatchObject([
      { wrId: 3, opcode: 'RECV_RDMA_WITH_IMM', byteLen: 3000, imm: 7 },
    ]);
    expect(b.bytes.subarray(100, 3100).every((byte) => byte === 4)).toBe(true);
    closePair(pair);
  });

  it('RDMA_WRITE without data', async (ground) => {
    const pair = extendedPair(ground);
    const { b } = pair;
    const wrote = await done(pair, (w) => w.write(2, SIGNALED, 0, 0, 0, b.mr.addr, b.mr.rkey));
    expect(wrote).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'RDMA_WRITE' });
    expect(b.bytes.every((byte) => byte === 0)).toBe(true);
    closePair(pair);
  });

  it('RDMA_READ', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b } = pair;
    b.bytes.fill(4, 100, 3100);
    const read = await done(pair, (w) =>
      w.read(2, SIGNALED, a.mr.addr + 8192, 3000, a.mr.lkey, b.mr.addr + 100, b.mr.rkey),
    );
    expect(read).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'RDMA_READ' });
    expect(a.bytes.subarray(8192, 11192).every((byte) => byte === 4)).toBe(true);
    expect([a.bytes[8191], a.bytes[11192]]).toEqual([0, 0]);
    closePair(pair);
  });

  it('RDMA_READ without data', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b } = pair;
    b.bytes.fill(4);
    const read = await done(pair, (w) => w.read(2, SIGNALED, 0, 0, 0, b.mr.addr, b.mr.rkey));
    expect(read).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'RDMA_READ' });
    expect(a.bytes.every((byte) => byte === 0)).toBe(true);
    closePair(pair);
  });

  it('ATOMIC_CMP_AND_SWP', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b } = pair;
    const there = new BigUint64Array(b.mr.memory, b.mr.byteOffset, 1);
    there[0] = 5n;
    const swapped = await done(pair, (w) =>
      w.compareSwap(2, SIGNALED, a.mr.addr + 64, a.mr.lkey, b.mr.addr, b.mr.rkey, 5n, 1n << 63n),
    );
    expect(swapped).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'COMP_SWAP' });
    expect([there[0], new BigUint64Array(a.mr.memory, a.mr.byteOffset + 64, 1)[0]]).toEqual([1n << 63n, 5n]);
    closePair(pair);
  });

  it('ATOMIC_FETCH_AND_ADD', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b } = pair;
    const there = new BigUint64Array(b.mr.memory, b.mr.byteOffset, 1);
    there[0] = 1n << 40n;
    const added = await done(pair, (w) =>
      w.fetchAdd(2, SIGNALED, a.mr.addr + 64, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n),
    );
    expect(added).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'FETCH_ADD' });
    expect(there[0]).toBe((1n << 40n) + 1n);
    expect(new BigUint64Array(a.mr.memory, a.mr.byteOffset + 64, 1)[0]).toBe(1n << 40n);
    closePair(pair);
  });

  it('BIND_MW, a WRITE through the window, LOCAL_INV', async (ground) => {
    const pair = extendedPair(ground, V.IBV_QPT_RC, ACCESS | V.IBV_ACCESS_MW_BIND);
    const { a, b, qpB } = pair;
    const mw = b.p.allocMw(b.pd, V.IBV_MW_TYPE_2);
    const rkey = ((mw.rkey & ~0xff) | ((mw.rkey + 1) & 0xff)) >>> 0;
    const writes = V.IBV_ACCESS_REMOTE_WRITE;
    postSend(b, qpB.handle, (w) =>
      w.bindMw(1, SIGNALED, mw.handle, b.mr.handle, b.mr.addr, 4096, writes, rkey),
    );
    expect(await polled(b, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS', opcode: 'BIND_MW' }]);
    a.bytes.fill(3, 0, 50);
    const through = (id: number) =>
      done(pair, (w) => w.write(id, SIGNALED, a.mr.addr, 50, a.mr.lkey, b.mr.addr, rkey));
    expect(await through(2)).toMatchObject({ wrId: 2, status: 'SUCCESS' });
    expect(b.bytes[49]).toBe(3);
    postSend(b, qpB.handle, (w) => w.localInv(3, SIGNALED, rkey));
    expect(await polled(b, 1)).toMatchObject([{ wrId: 3, status: 'SUCCESS', opcode: 'LOCAL_INV' }]);
    expect(await through(4)).toMatchObject({ wrId: 4, status: 'REM_ACCESS_ERR' });
    b.p.deallocMw(mw.handle);
    closePair(pair);
  });

  it('fenced behind a READ', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b } = pair;
    b.bytes.fill(8, 0, 64);
    postSend(a, pair.qpA.handle, (w) => {
      w.read(1, 0, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
      w.write(2, SIGNALED | V.IBV_SEND_FENCE, a.mr.addr, 64, a.mr.lkey, b.mr.addr + 4096, b.mr.rkey);
    });
    expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    expect(b.bytes.subarray(4096, 4160).every((byte) => byte === 8)).toBe(true);
    closePair(pair);
  });
});

feature('extended posting on UD queue pairs', NOTES, (it) => {
  /** Sends what `fill` puts into a batch to b, which must receive `bytes` behind the header. */
  async function datagram(
    ground: Ground,
    bytes: number,
    fill: (a: End, w: V.SendBatch) => void,
  ): Promise<Wc> {
    const pair = extendedPair(ground, V.IBV_QPT_UD);
    const { a, b, qpB } = pair;
    for (let i = 0; i < 4096; i++) a.bytes[i] = i;
    const ah = addressHandle(a, b);
    postRecv(b, qpB.handle, 3, 4096, 2048);
    const sent = await done(pair, (w) => {
      fill(a, w);
      w.datagramTo(0, ah, qpB.qpNum, QKEY);
    });
    expect(sent).toMatchObject({ wrId: 2, status: 'SUCCESS', opcode: 'SEND' });
    const [got] = await polled(b, 1);
    expect(got).toMatchObject({ wrId: 3, status: 'SUCCESS', opcode: 'RECV', byteLen: 40 + bytes });
    expect(got.srcQp).toBe(pair.qpA.qpNum);
    expect(b.bytes.subarray(4136, 4136 + bytes)).toEqual(a.bytes.subarray(0, bytes));
    a.p.destroyAh(ah);
    closePair(pair);
    return got;
  }

  it('SEND', async (ground) => {
    await datagram(ground, 1000, (a, w) => w.send(2, SIGNALED, a.mr.addr, 1000, a.mr.lkey));
  });

  it('SEND_WITH_IMM', async (ground) => {
    const got = await datagram(ground, 9, (a, w) => w.sendImm(2, SIGNALED, a.mr.addr, 9, a.mr.lkey, 77));
    expect([got.imm, got.flags & V.IBV_WC_WITH_IMM]).toEqual([77, V.IBV_WC_WITH_IMM]);
  });

  it('SEND without data', async (ground) => {
    await datagram(ground, 0, (_, w) => w.send(2, SIGNALED, 0, 0, 0));
  });

  it('SEND of inline data', async (ground) => {
    const data = Uint8Array.from({ length: 50 }, (_, i) => i);
    await datagram(ground, 50, (_, w) => w.inline(2, V.IBV_WR_SEND, SIGNALED, data));
  });

  it('SEND of several elements', async (ground) => {
    await datagram(ground, 300, (a, w) => {
      const { addr, lkey } = a.mr;
      w.send(2, SIGNALED, addr, 100, lkey)
        .sge(0, addr + 100, 50, lkey)
        .sge(0, addr + 150, 150, lkey);
    });
  });

  it('READ, WRITE and atomics are refused when they are posted', (ground) => {
    const pair = extendedPair(ground, V.IBV_QPT_UD);
    const { a, b, qpA } = pair;
    const { addr, lkey } = a.mr;
    const { addr: remote, rkey } = b.mr;
    for (const fill of [
      (w: V.SendBatch) => w.write(1, 0, addr, 8, lkey, remote, rkey),
      (w: V.SendBatch) => w.read(1, 0, addr, 8, lkey, remote, rkey),
      (w: V.SendBatch) => w.fetchAdd(1, 0, addr, lkey, remote, rkey, 1n),
      (w: V.SendBatch) => w.compareSwap(1, 0, addr, lkey, remote, rkey, 1n, 2n),
    ]) {
      expect(refusal(a, qpA.handle, fill)).toBe(V.REASON_OPCODE);
    }
    closePair(pair);
  });
});

feature('extended posting that is refused', NOTES, (it) => {
  it('unsupported opcodes: FLUSH, ATOMIC_WRITE, TSO, and unknown numbers', async (ground) => {
    const pair = extendedPair(ground);
    const { a, b, qpA } = pair;
    for (const opcode of [10, 11, 12, 13, 14, 15, 63, 66, 127, 255]) {
      for (const bytes of [0, 8]) {
        const reason = refusal(a, qpA.handle, (w) => {
          w.write(1, 0, a.mr.addr, bytes, bytes === 0 ? 0 : a.mr.lkey, b.mr.addr, b.mr.rkey);
          w.words[V.slotAt(0) + V.WR_OP] |= opcode; // IBV_WR_RDMA_WRITE is 0
        });
        expect(reason, `opcode ${opcode}`).toBe(V.REASON_OPCODE);
      }
    }
    const wrote = await done(pair, (w) =>
      w.write(2, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey),
    );
    expect(wrote.status).toBe('SUCCESS');
    closePair(pair);
  });

  it('receives in RESET', (ground) => {
    const end = openEnd(ground, 0);
    for (const qpType of [V.IBV_QPT_RC, V.IBV_QPT_UC, V.IBV_QPT_UD]) {
      const qp = createQp(end, { ...INIT, qpType });
      expect(recvRefusal(end, qp.handle)).toBe(V.REASON_STATE);
      toInit(end, qp.handle, qpType);
      expect(recvRefusal(end, qp.handle)).toBe(V.REASON_NONE);
      end.p.destroyQp(qp.handle);
    }
    closeEnd(end);
  });

  it('sends in RESET, INIT and RTR', (ground) => {
    const end = openEnd(ground, 0);
    for (const qpType of [V.IBV_QPT_RC, V.IBV_QPT_UC, V.IBV_QPT_UD]) {
      const qp = createQp(end, { ...INIT, qpType }).handle;
      const reason = () => refusal(end, qp, (w) => w.send(1, 0, end.mr.addr, 8, end.mr.lkey));
      expect(reason()).toBe(V.REASON_STATE);
      toInit(end, qp, qpType);
      expect(reason()).toBe(V.REASON_STATE);
      modify(end, qp, rtrAttrTo(end, qpType, end, 1));
      expect(reason()).toBe(V.REASON_STATE);
      end.p.destroyQp(qp);
    }
    closeEnd(end);
  });

  it('receives for which the queue has no room', (ground) => {
    const end = openEnd(ground, 0);
    const qp = createQp(end, { ...INIT, cap: { ...INIT.cap, maxRecvWr: 8 } });
    toInit(end, qp.handle);
    const batch = new V.RecvBatch(end.p, { capacity: 200 });
    for (let i = 0; i < 200; i++) batch.recv(i, end.mr.addr, 64, end.mr.lkey);
    const taken = end.p.postRecv(qp.handle, batch.ring, 0, 200);
    // soft-RoCE has room for more than it grants.
    if (ground.name !== 'rxe') expect(taken).toBe(qp.cap.maxRecvWr);
    expect(taken).toBeGreaterThanOrEqual(qp.cap.maxRecvWr);
    expect(taken).toBeLessThan(200);
    expect([batch.errno, batch.reason]).toEqual([V.ENOMEM, V.REASON_QUEUE_FULL]);
    batch.close();
    end.p.destroyQp(qp.handle);
    closeEnd(end);
  });

  it('more elements than were granted, to send or to receive', (ground) => {
    const pair = connectedPair(ground, {
      init: { ...INIT, cap: { ...INIT.cap, maxSendSge: 1, maxRecvSge: 1 } },
    });
    const { a, qpA } = pair;
    const { maxSendSge, maxRecvSge } = qpA.cap;
    const sges = Math.max(maxSendSge, maxRecvSge) + 1;
    const { addr, lkey } = a.mr;
    const sends = new V.SendBatch(a.p, { capacity: 1, sges });
    sends.send(1, 0, addr, 8, lkey);
    for (let i = 0; i < maxSendSge; i++) sends.sge(0, addr, 8, lkey);
    expect(a.p.postSend(qpA.handle, sends.ring, 0, 1)).toBe(0);
    expect([sends.errno, sends.reason]).toEqual([V.EINVAL, V.REASON_SGE_COUNT]);
    sends.close();
    const receives = new V.RecvBatch(a.p, { capacity: 1, sges });
    receives.recv(1, addr, 8, lkey);
    for (let i = 0; i < maxRecvSge; i++) receives.sge(0, addr, 8, lkey);
    expect(a.p.postRecv(qpA.handle, receives.ring, 0, 1)).toBe(0);
    expect([receives.errno, receives.reason]).toEqual([V.EINVAL, V.REASON_SGE_COUNT]);
    receives.close();
    closePair(pair);
  });

  it('inline data in READs and atomics, and unknown flags', (ground) => {
    const pair = extendedPair(ground);
    const { a, b, qpA } = pair;
    for (const opcode of [V.IBV_WR_RDMA_READ, V.IBV_WR_ATOMIC_FETCH_AND_ADD, V.IBV_WR_ATOMIC_CMP_AND_SWP]) {
      const reason = refusal(a, qpA.handle, (w) =>
        w.inline(1, opcode, 0, new Uint8Array(8)).remoteTo(0, b.mr.addr, b.mr.rkey),
      );
      expect(reason, `opcode ${opcode}`).not.toBe(V.REASON_NONE);
    }
    expect(refusal(a, qpA.handle, (w) => w.send(1, 1 << 4, a.mr.addr, 8, a.mr.lkey))).toBe(V.REASON_FLAGS);
    closePair(pair);
  });
});

/** The REASON_* for which one receive is refused. */
function recvRefusal(end: End, qp: number): number {
  const batch = new V.RecvBatch(end.p, { capacity: 1 });
  batch.recv(1, end.mr.addr, 8, end.mr.lkey);
  const posted = end.p.postRecv(qp, batch.ring, 0, 1);
  const { reason } = batch;
  batch.close();
  return posted === 1 ? V.REASON_NONE : reason;
}

const XRC = { group: 'qpex', refusedBy: ['rxe'] as const, others: 'mlx5' };
feature('extended posting on XRC queue pairs', XRC, (it) => {
  for (const imm of [false, true]) {
    it(imm ? 'SEND_WITH_IMM' : 'SEND', async (ground) => {
      const xrc = xrcPair(ground, { init: { extended: true } });
      const { a, b, sender, srqs } = xrc;
      a.bytes.fill(2, 0, 1500);
      postShared(b, srqs[0].handle, 3, 4096, 2000);
      postSend(a, sender.handle, (w) => {
        if (imm) w.sendImm(2, SIGNALED, a.mr.addr, 1500, a.mr.lkey, 12);
        else w.send(2, SIGNALED, a.mr.addr, 1500, a.mr.lkey);
        w.srqTo(0, srqs[0].srqNum);
      });
      expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS', opcode: 'SEND' }]);
      expect(await polled(b, 1)).toMatchObject([{ wrId: 3, byteLen: 1500, imm: imm ? 12 : 0 }]);
      expect(b.bytes.subarray(4096, 5596).every((byte) => byte === 2)).toBe(true);
      closeXrc(xrc);
    });
  }
});
