import { expect, test } from 'vitest';
import { drain, fill, pair, post, postRecv, SIGNALED } from './helpers.ts';

test('a WRITE and a SEND move bytes between two hosts', () => {
  const [a, b, fabric] = pair();
  fill(a.bytes, 0, 10000);
  a.send.write(1, SIGNALED, a.mr.addr, 10000, a.mr.lkey, b.mr.addr + 100, b.mr.rkey);
  b.recv.recv(7, b.mr.addr + 20000, 10000, b.mr.lkey);
  expect(postRecv(b)).toBe(1);
  a.send.send(2, SIGNALED, a.mr.addr, 9000, a.mr.lkey);
  expect(post(a)).toBe(2);
  const done = drain(fabric, a);
  expect(done.map(({ wrId, status, opcode }) => [wrId, status, opcode])).toEqual([
    [1, 'SUCCESS', 'RDMA_WRITE'],
    [2, 'SUCCESS', 'SEND'],
  ]);
  const received = drain(fabric, b, b.recvCq);
  expect(received).toEqual([
    { wrId: 7, status: 'SUCCESS', opcode: 'RECV', byteLen: 9000, imm: null, recv: true, seq: 0 },
  ]);
  expect(b.bytes.subarray(100, 10100)).toEqual(a.bytes.subarray(0, 10000));
  expect(b.bytes.subarray(20000, 29000)).toEqual(a.bytes.subarray(0, 9000));
  expect(fabric.brokenInvariants()).toEqual([]);
});
