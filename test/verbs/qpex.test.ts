// Queue pairs that post through ibv_wr_*(3) behave as others do (counterpart of rdma-core's test_qpex.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import { CAP, closePair, connectedPair, polled, postRecv, postSend } from './rig.ts';

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
    // A list of its own: on soft-RoCE, a list with unequal elements does not go through ibv_wr_*.
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

  it('a bad request stops the list where it is; those before it were posted', async (ground) => {
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

  it('a queue without room takes what fits, says ENOMEM, and goes on when it has room again', async (ground) => {
    const pair = connectedPair(ground, {
      init: { ...INIT, cap: { ...INIT.cap, maxSendWr: 8 } },
      rnrRetry: 7,
    });
    const { a, b, qpA, qpB } = pair;
    const batch = new V.SendBatch(a.p, { capacity: 200 });
    const { addr, lkey } = a.mr;
    // No receive is posted: the first SEND waits, and the others behind it.
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

  it('says so in what it was created with', (ground) => {
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
