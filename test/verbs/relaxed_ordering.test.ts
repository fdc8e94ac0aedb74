// Traffic with IBV_ACCESS_RELAXED_ORDERING (counterpart of rdma-core's test_relaxed_ordering.py). Devices may
// ignore the flag; the data of a completed request has arrived in any case.
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground } from './ground.ts';
import {
  ACCESS,
  addressHandle,
  closeEnd,
  closePair,
  connectedPair,
  openEnd,
  type Pair,
  polled,
  postRecv,
  postSend,
  postShared,
  QKEY,
} from './rig.ts';
import { closeXrc, xrcPair } from './xrc-rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const RELAXED = V.IBV_ACCESS_RELAXED_ORDERING;
const ROUNDS = 100;
const BYTES = 1000;
const NOTES = { group: 'relaxed_ordering', others: 'every device; those without it ignore the flag' };

function relaxedPair(ground: Ground, qpType: number): Pair {
  return connectedPair(ground, { qpType, mrAccess: ACCESS | RELAXED });
}

/** Sends `ROUNDS` messages from a to b and verifies each on completion. */
async function sends({ a, b, qpA, qpB }: Pair, headerBytes = 0, ah = 0): Promise<void> {
  for (let i = 0; i < ROUNDS; i++) {
    a.bytes.fill(i, 0, BYTES);
    postRecv(b, qpB.handle, i, 4096, BYTES + headerBytes);
    postSend(a, qpA.handle, (batch) => {
      batch.send(i, SIGNALED, a.mr.addr, BYTES, a.mr.lkey);
      if (ah !== 0) batch.datagramTo(0, ah, qpB.qpNum, QKEY);
    });
    expect(await polled(a, 1)).toMatchObject([{ wrId: i, status: 'SUCCESS' }]);
    expect(await polled(b, 1)).toMatchObject([{ wrId: i, status: 'SUCCESS', byteLen: BYTES + headerBytes }]);
    const got = b.bytes.subarray(4096 + headerBytes, 4096 + headerBytes + BYTES);
    expect(got.every((byte) => byte === i)).toBe(true);
  }
}

feature('relaxed ordering', NOTES, (it) => {
  it('RC: SEND', async (ground) => {
    const pair = relaxedPair(ground, V.IBV_QPT_RC);
    await sends(pair);
    closePair(pair);
  });

  it('UC: SEND', async (ground) => {
    const pair = relaxedPair(ground, V.IBV_QPT_UC);
    await sends(pair);
    closePair(pair);
  });

  it('UD: SEND', async (ground) => {
    const pair = relaxedPair(ground, V.IBV_QPT_UD);
    const ah = addressHandle(pair.a, pair.b);
    await sends(pair, 40, ah);
    pair.a.p.destroyAh(ah);
    closePair(pair);
  });

  it('RC: RDMA WRITE, with a final immediate that announces all data', async (ground) => {
    const pair = relaxedPair(ground, V.IBV_QPT_RC);
    const { a, b, qpA, qpB } = pair;
    for (let i = 1; i <= 20; i++) {
      a.bytes.fill(i, 0, 8000);
      postRecv(b, qpB.handle, i, 0, 0);
      postSend(a, qpA.handle, (batch) => {
        batch.write(0, 0, a.mr.addr, 8000, a.mr.lkey, b.mr.addr + 8192, b.mr.rkey);
        batch.writeImm(i, SIGNALED, a.mr.addr, 1, a.mr.lkey, b.mr.addr + 32768, b.mr.rkey, i);
      });
      expect(await polled(b, 1)).toMatchObject([{ wrId: i, opcode: 'RECV_RDMA_WITH_IMM', imm: i }]);
      expect(b.bytes.subarray(8192, 16192).every((byte) => byte === i)).toBe(true);
      await polled(a, 1);
    }
    closePair(pair);
  });

  it('RC: RDMA READ and atomics', async (ground) => {
    const pair = relaxedPair(ground, V.IBV_QPT_RC);
    const { a, b, qpA } = pair;
    b.bytes.fill(9, 4096, 8096);
    postSend(a, qpA.handle, (batch) => {
      batch.read(1, SIGNALED, a.mr.addr, 4000, a.mr.lkey, b.mr.addr + 4096, b.mr.rkey);
      batch.fetchAdd(2, SIGNALED, a.mr.addr + 8192, a.mr.lkey, b.mr.addr, b.mr.rkey, 6n);
    });
    expect((await polled(a, 2)).map(({ wrId, status }) => [wrId, status])).toEqual([
      [1, 'SUCCESS'],
      [2, 'SUCCESS'],
    ]);
    expect(a.bytes.subarray(0, 4000).every((byte) => byte === 9)).toBe(true);
    expect(new BigUint64Array(b.mr.memory, b.mr.byteOffset, 1)[0]).toBe(6n);
    closePair(pair);
  });

  it('registered and allocated memory, and the rights that the other bits grant', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const memory = new ArrayBuffer(4096);
    const access = V.IBV_ACCESS_LOCAL_WRITE | V.IBV_ACCESS_REMOTE_WRITE | RELAXED;
    const mr = b.p.regMr(b.pd, memory, 0, 4096, access);
    a.bytes.fill(5, 0, 100);
    postSend(a, qpA.handle, (w) => w.write(1, SIGNALED, a.mr.addr, 100, a.mr.lkey, mr.addr, mr.rkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    expect(new Uint8Array(memory).subarray(0, 101)).toEqual(new Uint8Array(101).fill(5, 0, 100));
    postSend(a, qpA.handle, (w) => w.read(2, SIGNALED, a.mr.addr, 100, a.mr.lkey, mr.addr, mr.rkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'REM_ACCESS_ERR' }]);
    b.p.deregMr(mr.handle);
    closePair(pair);
  });

  it('every optional access flag registers, other flags do not', (ground) => {
    const end = openEnd(ground, 0);
    for (let bit = 20; bit < 30; bit++) {
      end.p.deregMr(end.p.allocMr(end.pd, 4096, ACCESS | (1 << bit)).handle);
    }
    for (const bit of [8, 12, 19, 30]) {
      expect(() => end.p.allocMr(end.pd, 4096, ACCESS | (1 << bit))).toThrow(V.InvalidArgumentError);
    }
    expect(() => end.p.allocMr(end.pd, 4096, V.IBV_ACCESS_REMOTE_WRITE | RELAXED)).toThrow(
      V.InvalidArgumentError,
    );
    closeEnd(end);
  });
});

const XRC = { ...NOTES, refusedBy: ['rxe'] as const, others: 'devices with IBV_DEVICE_XRC: mlx4, mlx5' };
feature('relaxed ordering of XRC', XRC, (it) => {
  it('SEND to a shared receive queue', async (ground) => {
    const xrc = xrcPair(ground, { mrAccess: ACCESS | RELAXED });
    const { a, b, sender, srqs } = xrc;
    for (let i = 0; i < ROUNDS; i++) {
      a.bytes.fill(i, 0, BYTES);
      postShared(b, srqs[0].handle, i, 4096, BYTES);
      postSend(a, sender.handle, (batch) =>
        batch.send(i, SIGNALED, a.mr.addr, BYTES, a.mr.lkey).srqTo(0, srqs[0].srqNum),
      );
      expect(await polled(b, 1)).toMatchObject([{ wrId: i, status: 'SUCCESS', byteLen: BYTES }]);
      expect(b.bytes.subarray(4096, 4096 + BYTES).every((byte) => byte === i)).toBe(true);
      await polled(a, 1);
    }
    closeXrc(xrc);
  });
});
