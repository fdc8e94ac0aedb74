/** Every opcode and flag, on two hosts. */
import { describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { pathTo, toRts } from '../support/to-rts.ts';
import { drain, fill, pair, post, postRecv, SIGNALED, take } from './helpers.ts';

const ok = (wrId: number, opcode: string) => ({ wrId, status: 'SUCCESS', opcode });

test('READ returns the peer’s bytes, over several packets', () => {
  const [a, b, fabric] = pair();
  fill(b.bytes, 300, 20000);
  a.send.read(5, SIGNALED, a.mr.addr + 1000, 20000, a.mr.lkey, b.mr.addr + 300, b.mr.rkey);
  post(a);
  expect(drain(fabric, a)).toMatchObject([{ ...ok(5, 'RDMA_READ'), byteLen: 20000 }]);
  expect(a.bytes.subarray(1000, 21000)).toEqual(b.bytes.subarray(300, 20300));
});

test('FETCH_AND_ADD and COMPARE_AND_SWAP return the old value and carry past 32 bits', () => {
  const [a, b, fabric] = pair();
  const mine = new BigUint64Array(a.mr.memory);
  const theirs = new BigUint64Array(b.mr.memory);
  theirs[2] = 0xffff_ffffn;
  a.send.fetchAdd(1, SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr + 16, b.mr.rkey, 0x1_0000_0001n);
  a.send.compareSwap(2, SIGNALED, a.mr.addr + 8, a.mr.lkey, b.mr.addr + 16, b.mr.rkey, 0x2_0000_0000n, 77n);
  a.send.compareSwap(3, SIGNALED, a.mr.addr + 16, a.mr.lkey, b.mr.addr + 16, b.mr.rkey, 5n, 88n);
  post(a);
  expect(drain(fabric, a)).toMatchObject([
    { ...ok(1, 'FETCH_ADD'), byteLen: 8 },
    ok(2, 'COMP_SWAP'),
    ok(3, 'COMP_SWAP'),
  ]);
  expect([...mine.subarray(0, 3)]).toEqual([0xffff_ffffn, 0x2_0000_0000n, 77n]);
  expect(theirs[2]).toBe(77n);
});

test('immediates arrive in host order; WRITE_WITH_IMM takes a receive and reports the message’s length', () => {
  const [a, b, fabric] = pair();
  b.recv.recv(1, b.mr.addr + 30000, 64, b.mr.lkey).recv(2, b.mr.addr + 31000, 64, b.mr.lkey);
  postRecv(b);
  a.send.sendImm(1, SIGNALED, a.mr.addr, 10, a.mr.lkey, 0xdeadbeef);
  a.send.writeImm(2, SIGNALED, a.mr.addr, 9000, a.mr.lkey, b.mr.addr, b.mr.rkey, 42);
  post(a);
  expect(drain(fabric, a).map((wc) => wc.status)).toEqual(['SUCCESS', 'SUCCESS']);
  expect(take(b, b.recvCq)).toMatchObject([
    { ...ok(1, 'RECV'), byteLen: 10, imm: 0xdeadbeef },
    { ...ok(2, 'RECV_RDMA_WITH_IMM'), byteLen: 9000, imm: 42 },
  ]);
});

test('zero-length SEND, WRITE and READ complete; a WRITE of nothing needs no key', () => {
  const [a, b, fabric] = pair();
  b.recv.recv(9, 0, 0, 0);
  postRecv(b);
  a.send.send(1, SIGNALED, 0, 0, 0).write(2, SIGNALED, 0, 0, 0, 0, 0).read(3, SIGNALED, 0, 0, 0, 0, 0);
  post(a);
  expect(drain(fabric, a).map((wc) => [wc.wrId, wc.status])).toEqual([
    [1, 'SUCCESS'],
    [2, 'SUCCESS'],
    [3, 'SUCCESS'],
  ]);
  expect(take(b, b.recvCq)).toMatchObject([{ wrId: 9, byteLen: 0 }]);
});

test('gathers from several elements and scatters into several', () => {
  const [a, b, fabric] = pair({}, { pathMtu: V.IBV_MTU_256 });
  fill(a.bytes, 0, 2000);
  const { addr, lkey } = a.mr;
  a.send
    .send(1, SIGNALED, addr + 500, 300, lkey)
    .sge(0, addr, 3, lkey)
    .sge(0, addr + 9, 0, lkey)
    .sge(0, addr + 1000, 297, lkey);
  b.recv
    .recv(1, b.mr.addr, 1, b.mr.lkey)
    .sge(0, b.mr.addr + 100, 398, b.mr.lkey)
    .sge(0, b.mr.addr + 900, 1000, b.mr.lkey);
  postRecv(b);
  post(a);
  expect(drain(fabric, a)).toMatchObject([ok(1, 'SEND')]);
  expect(take(b, b.recvCq)).toMatchObject([{ byteLen: 600 }]);
  const sent = [...a.bytes.subarray(500, 800), ...a.bytes.subarray(0, 3), ...a.bytes.subarray(1000, 1297)];
  const got = [...b.bytes.subarray(0, 1), ...b.bytes.subarray(100, 498), ...b.bytes.subarray(900, 1101)];
  expect(got).toEqual(sent);
});

test('INLINE copies at post', () => {
  const [a, b, fabric] = pair();
  const data = new Uint8Array(100).fill(7);
  a.send.inline(1, V.IBV_WR_RDMA_WRITE, SIGNALED, data).remoteTo(0, b.mr.addr + 8, b.mr.rkey);
  post(a);
  new Uint32Array(a.send.words.buffer).fill(0);
  expect(drain(fabric, a)).toMatchObject([ok(1, 'RDMA_WRITE')]);
  expect(b.bytes.subarray(8, 108)).toEqual(data);
  expect(b.bytes[108]).toBe(0);
});

test('FENCE waits for earlier READs: the WRITE behind it sends the data they returned', () => {
  for (const fence of [0, V.IBV_SEND_FENCE]) {
    const [a, b, fabric] = pair();
    fill(b.bytes, 0, 8);
    a.send.read(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.write(2, SIGNALED | fence, a.mr.addr, 8, a.mr.lkey, b.mr.addr + 64, b.mr.rkey);
    post(a);
    expect(drain(fabric, a)).toMatchObject([ok(2, 'RDMA_WRITE')]);
    const expected = fence === 0 ? new Uint8Array(8) : b.bytes.slice(0, 8);
    expect(b.bytes.slice(64, 72)).toEqual(expected);
  }
});

test('a READ returns the contents from before a later WRITE of the same queue pair', () => {
  const [a, b, fabric] = pair();
  fill(b.bytes, 0, 40000);
  const before = b.bytes.slice(0, 40000);
  a.send.read(1, 0, a.mr.addr, 40000, a.mr.lkey, b.mr.addr, b.mr.rkey);
  a.send.write(2, SIGNALED, a.mr.addr + 50000, 1, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(drain(fabric, a)).toMatchObject([ok(2, 'RDMA_WRITE')]);
  // The first byte is sent at once; the WRITE arrives while the rest of the READ is in flight.
  expect(a.bytes.slice(0, 40000)).toEqual(before);
});

test('max_rd_atomic limits the READs outstanding, not the queue', () => {
  const [a, b, fabric] = pair({}, { maxRdAtomic: 2, maxDestRdAtomic: 2 });
  for (let i = 0; i < 10; i++) {
    a.send.read(i, SIGNALED, a.mr.addr + i * 8, 8, a.mr.lkey, b.mr.addr + i * 8, b.mr.rkey);
    a.send.fetchAdd(100 + i, SIGNALED, a.mr.addr + 512 + i * 8, a.mr.lkey, b.mr.addr + 1024, b.mr.rkey, 1n);
  }
  post(a);
  const done = drain(fabric, a);
  expect(done.map((wc) => wc.status)).toEqual(Array(20).fill('SUCCESS'));
  const old = new BigUint64Array(a.mr.memory).slice(64, 74);
  expect([...old]).toEqual(Array.from({ length: 10 }, (_, i) => BigInt(i)));
});

test('more READs than the responder has resources for end the connection', () => {
  const [a, b, fabric] = pair({}, { maxRdAtomic: 4, maxDestRdAtomic: 1 });
  for (let i = 0; i < 4; i++) a.send.read(i, SIGNALED, a.mr.addr, 30000, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(drain(fabric, a).map((wc) => wc.status)).toEqual([
    'SUCCESS',
    'REM_INV_REQ_ERR',
    'WR_FLUSH_ERR',
    'WR_FLUSH_ERR',
  ]);
});

test('sqSigAll signals all but a shim’s own requests', () => {
  const [a, b, fabric] = pair({}, { sqSigAll: true });
  a.send.write(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  a.send.write(2, V.ISO_SEND_INTERNAL, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  a.send.write(3, V.ISO_SEND_INTERNAL | SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([1, 3]);
});

test('a queue pair connected to its own host, and to itself', () => {
  const [a, , fabric] = pair();
  a.v.modifyQp(a.qp, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
  toRts(a.v, a.qp, { destQpNum: a.qpNum, ah: pathTo('::ffff:10.0.0.1'), psn: 0xfffffe });
  fill(a.bytes, 0, 5000);
  a.send.write(1, SIGNALED, a.mr.addr, 5000, a.mr.lkey, a.mr.addr + 10000, a.mr.rkey);
  post(a);
  expect(drain(fabric, a)).toMatchObject([ok(1, 'RDMA_WRITE')]);
  expect(a.bytes.slice(10000, 15000)).toEqual(a.bytes.slice(0, 5000));
});

test('memory shared with a worker is copied like any other', () => {
  const [a, b, fabric] = pair();
  const shared = new SharedArrayBuffer(8192);
  const mr = a.v.regMr(a.pd, shared, 4096, 4096, V.IBV_ACCESS_LOCAL_WRITE);
  fill(new Uint8Array(shared), 4096, 4096);
  a.send.write(1, SIGNALED, mr.addr, 4096, mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(drain(fabric, a)).toMatchObject([ok(1, 'RDMA_WRITE')]);
  expect(b.bytes.slice(0, 4096)).toEqual(new Uint8Array(shared).slice(4096));
});

describe('queue accounting', () => {
  test('exactly maxSendWr requests fit; a polled completion frees those before it', () => {
    const [a, b, fabric] = pair({}, { cap: { maxSendWr: 5 } });
    const write = (id: number, flags: number) =>
      a.send.write(id, flags, a.mr.addr, 1, a.mr.lkey, b.mr.addr, b.mr.rkey);
    for (let i = 0; i < 7; i++) write(i, i === 2 ? SIGNALED : 0);
    expect(post(a)).toBe(5);
    expect([a.send.errno, a.send.reason]).toEqual([V.ENOMEM, V.REASON_QUEUE_FULL]);
    fabric.simulation.run();
    // All requests have completed, but none was polled, so no slot is free.
    write(9, 0);
    expect(post(a)).toBe(0);
    expect(take(a).map((wc) => [wc.wrId, wc.seq])).toEqual([[2, 2]]);
    for (let i = 0; i < 4; i++) write(10 + i, SIGNALED);
    expect(post(a)).toBe(3);
    expect(drain(fabric, a).map((wc) => [wc.wrId, wc.seq])).toEqual([
      [10, 5],
      [11, 6],
      [12, 7],
    ]);
  });

  test('receives take maxRecvWr, freed when polled', () => {
    const [a, b, fabric] = pair({}, { cap: { maxRecvWr: 2 } });
    for (let i = 0; i < 3; i++) b.recv.recv(i, b.mr.addr, 100, b.mr.lkey);
    expect(postRecv(b)).toBe(2);
    expect(b.recv.reason).toBe(V.REASON_QUEUE_FULL);
    a.send.send(1, SIGNALED, a.mr.addr, 10, a.mr.lkey);
    post(a);
    expect(drain(fabric, a)).toHaveLength(1);
    b.recv.recv(5, b.mr.addr, 100, b.mr.lkey);
    expect(b.v.postRecv(b.qp, b.recv.ring, 0, 1)).toBe(0);
    expect(take(b, b.recvCq)).toHaveLength(1);
    expect(postRecv(b)).toBe(1);
  });
});

test('SOLICITED: a queue armed for it wakes only for it, and once', () => {
  const [a, b, fabric] = pair();
  const events: number[] = [];
  fabric.simulation.world.hooks.completionEvent = (q) => events.push(q.handle);
  b.v.reqNotifyCq(b.recvCq, true);
  for (let i = 0; i < 3; i++) b.recv.recv(i, b.mr.addr, 100, b.mr.lkey);
  postRecv(b);
  const send = (flags: number) => {
    a.send.send(1, SIGNALED | flags, a.mr.addr, 10, a.mr.lkey);
    post(a);
    fabric.simulation.run();
  };
  send(0);
  expect(events).toEqual([]);
  send(V.IBV_SEND_SOLICITED);
  expect(events).toEqual([b.recvCq]);
  send(V.IBV_SEND_SOLICITED);
  expect(events).toEqual([b.recvCq]);
});
