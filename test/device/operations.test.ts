import { afterEach, describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { Rig, type RigOptions, skipReason } from './rig.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;

describe.skipIf(skipReason !== '')('operations on a queue pair connected to itself', () => {
  let rig: Rig;
  const open = (options: RigOptions = {}) => {
    rig = Rig.connected(options);
    return rig;
  };
  afterEach(() => rig.close());

  test('RDMA_WRITE moves bytes and completes with the wr_id', async () => {
    const { send, bytes, mr, addr } = open();
    bytes.set([1, 2, 3, 4, 5], 0);
    send.clear().write(0x1_2345_6789, SIGNALED, addr, 5, mr.lkey, addr + 4096, mr.rkey);
    expect(rig.postSend()).toBe(1);
    const [wc] = await rig.drain(1);
    expect(wc).toMatchObject({
      wrId: 0x1_2345_6789,
      status: V.IBV_WC_SUCCESS,
      opcode: V.IBV_WC_RDMA_WRITE,
      recv: false,
      qp: rig.qp,
      qpNum: rig.qpInfo.qpNum,
      seq: 0,
    });
    expect([...bytes.subarray(4096, 4101)]).toEqual([1, 2, 3, 4, 5]);
  });

  test('RDMA_WRITE_WITH_IMM consumes a receive and delivers the immediate in host order', async () => {
    const { send, recv, mr, addr } = open();
    rig.recv.clear().recv(7, addr + 8192, 64, mr.lkey);
    expect(rig.postRecv()).toBe(1);
    send.clear().writeImm(8, SIGNALED, addr, 16, mr.lkey, addr + 4096, mr.rkey, 0xdeadbeef);
    expect(rig.postSend()).toBe(1);
    const wcs = await rig.drain(2);
    expect(wcs.find((wc) => wc.recv)).toMatchObject({
      wrId: 7,
      opcode: V.IBV_WC_RECV_RDMA_WITH_IMM,
      imm: 0xdeadbeef,
      byteLen: 16,
    });
    expect(wcs.find((wc) => wc.recv)!.flags & V.IBV_WC_WITH_IMM).toBe(V.IBV_WC_WITH_IMM);
    expect(wcs.find((wc) => !wc.recv)).toMatchObject({ wrId: 8, opcode: V.IBV_WC_RDMA_WRITE });
    expect(recv.errno).toBe(0);
  });

  test('SEND and SEND_WITH_IMM arrive in order', async () => {
    const { send, recv, bytes, mr, addr } = open();
    recv
      .clear()
      .recv(1, addr + 4096, 64, mr.lkey)
      .recv(2, addr + 8192, 64, mr.lkey);
    expect(rig.postRecv()).toBe(2);
    bytes.fill(0xaa, 0, 10);
    send.clear().send(3, SIGNALED, addr, 10, mr.lkey).sendImm(4, SIGNALED, addr, 0, 0, 5);
    expect(rig.postSend()).toBe(2);
    const wcs = await rig.drain(4);
    expect(wcs.filter((wc) => wc.recv)).toMatchObject([
      { wrId: 1, opcode: V.IBV_WC_RECV, byteLen: 10, seq: 0 },
      { wrId: 2, opcode: V.IBV_WC_RECV, byteLen: 0, imm: 5, seq: 1 },
    ]);
    expect(wcs.filter((wc) => !wc.recv)).toMatchObject([
      { wrId: 3, opcode: V.IBV_WC_SEND, seq: 0 },
      { wrId: 4, opcode: V.IBV_WC_SEND, seq: 1 },
    ]);
    expect([...bytes.subarray(4096, 4107)]).toEqual([...Array(10).fill(0xaa), 0]);
  });

  test('RDMA_READ fetches, over several packets', async () => {
    const { send, bytes, mr, addr } = open();
    for (let i = 0; i < 8192; i++) bytes[32768 + i] = i * 7;
    send.clear().read(9, SIGNALED, addr, 8192, mr.lkey, addr + 32768, mr.rkey);
    rig.postSend();
    const [wc] = await rig.drain(1);
    expect(wc).toMatchObject({ wrId: 9, status: 0, opcode: V.IBV_WC_RDMA_READ });
    expect(bytes.subarray(0, 8192)).toEqual(bytes.subarray(32768, 32768 + 8192));
  });

  test('atomics return the old value and change the new one', async () => {
    const { send, mr, addr } = open();
    const words = new BigUint64Array(mr.memory, 0, 16);
    words[8] = 0xffff_ffff_0000_0001n;
    send
      .clear()
      .fetchAdd(1, SIGNALED, addr, mr.lkey, addr + 64, mr.rkey, 0x1_0000_0001n)
      .compareSwap(2, SIGNALED, addr + 8, mr.lkey, addr + 64, mr.rkey, 2n, 0x1234_5678_9abc_def0n);
    expect(rig.postSend()).toBe(2);
    expect(await rig.drain(2)).toMatchObject([
      { wrId: 1, status: 0, opcode: V.IBV_WC_FETCH_ADD },
      { wrId: 2, status: 0, opcode: V.IBV_WC_COMP_SWAP },
    ]);
    expect([words[0], words[1], words[8]]).toEqual([0xffff_ffff_0000_0001n, 2n, 0x1234_5678_9abc_def0n]);
  });

  test('inline data is copied from the ring at post time', async () => {
    const { send, bytes, mr, addr } = open();
    const data = new Uint8Array(100).map((_, i) => i + 1);
    send
      .clear()
      .inline(1, V.IBV_WR_RDMA_WRITE, SIGNALED, data)
      .remoteTo(0, addr + 4096, mr.rkey);
    expect(rig.postSend()).toBe(1);
    send.clear();
    send.words.fill(0xffffffff, V.HEADER_WORDS);
    expect(await rig.drain(1)).toMatchObject([{ wrId: 1, status: 0 }]);
    expect(bytes.subarray(4096, 4196)).toEqual(data);
  });

  test('an empty inline message is sent', async () => {
    const { send, recv, mr, addr } = open();
    recv.clear().recv(1, addr, 16, mr.lkey);
    rig.postRecv();
    send.clear().inline(2, V.IBV_WR_SEND, SIGNALED, new Uint8Array(0));
    expect(rig.postSend()).toBe(1);
    expect(await rig.drain(2)).toMatchObject([{ status: 0 }, { status: 0 }]);
  });

  test.each([3, 4, 8, 32])('%i SGEs gather and scatter', async (count) => {
    const { send, recv, bytes, mr, addr } = open({ cap: { maxSendSge: count, maxRecvSge: count } });
    send.clear();
    recv.clear();
    for (let i = 0; i < count; i++) {
      bytes.fill(i + 1, i * 100, i * 100 + 10);
      if (i === 0) {
        send.send(1, SIGNALED, addr, 10, mr.lkey);
        recv.recv(2, addr + 32768, 10, mr.lkey);
      } else {
        send.sge(0, addr + i * 100, 10, mr.lkey);
        recv.sge(0, addr + 32768 + i * 100, 10, mr.lkey);
      }
    }
    expect(rig.postRecv()).toBe(1);
    expect(rig.postSend()).toBe(1);
    const wcs = await rig.drain(2);
    expect(wcs.map((wc) => wc.status)).toEqual([0, 0]);
    for (let i = 0; i < count; i++) {
      const at = 32768 + i * 100;
      expect([...bytes.subarray(at, at + 11)]).toEqual([...Array(10).fill(i + 1), 0]);
    }
  });

  test('unsignaled requests complete silently; sqSigAll signals all but the internal requests of a shim', async () => {
    const { send, mr, addr } = open({ sqSigAll: true });
    send.clear();
    for (let i = 0; i < 3; i++) {
      const flags = i === 1 ? V.ISO_SEND_INTERNAL : 0;
      send.write(i, flags, addr, 8, mr.lkey, addr + 4096, mr.rkey);
    }
    rig.postSend();
    expect((await rig.drain(2)).map((wc) => [wc.wrId, wc.seq])).toEqual([
      [0, 0],
      [2, 2],
    ]);
    expect(rig.p.queryQp(rig.qp).init.sqSigAll).toBe(true);
  });

  test('FENCE and SOLICITED are accepted', async () => {
    const { send, recv, mr, addr } = open();
    recv.clear().recv(1, addr, 64, mr.lkey);
    rig.postRecv();
    send.clear().read(2, SIGNALED, addr + 4096, 8, mr.lkey, addr + 8192, mr.rkey);
    send.send(3, SIGNALED | V.IBV_SEND_FENCE | V.IBV_SEND_SOLICITED, addr + 4096, 8, mr.lkey);
    expect(rig.postSend()).toBe(2);
    expect((await rig.drain(3)).every((wc) => wc.status === 0)).toBe(true);
  });

  test('a wr_id keeps all 64 bits', async () => {
    const { send, mr, addr } = open();
    send
      .clear()
      .write(0, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey)
      .wrId(0, 0xfedcba98, 0xffffffff);
    rig.postSend();
    await rig.drain(1);
    expect(rig.wcs.wrIdBigInt(0)).toBe(0xffffffff_fedcba98n);
  });

  test('batches longer than a native list, and parts of a batch, are posted', async () => {
    const { send, mr, addr, p, qp } = open({ cap: { maxSendWr: 1024 }, cqe: 2048 });
    const big = new V.SendBatch(p, { capacity: 700 });
    for (let i = 0; i < 700; i++) big.write(i, SIGNALED, addr, 4, mr.lkey, addr + 4096, mr.rkey);
    expect(p.postSend(qp, big.ring, 10, 690)).toBe(690);
    expect((await rig.drain(690)).map((wc) => wc.wrId)).toEqual(
      Array.from({ length: 690 }, (_, i) => i + 10),
    );
    big.close();
    send.clear();
  });

  test('sequence numbers and ids survive many rounds', async () => {
    const { send, mr, addr } = open({ cap: { maxSendWr: 16 } });
    for (let round = 0; round < 50; round++) {
      send.clear();
      for (let i = 0; i < 10; i++) {
        send.write(round * 10 + i, i === 9 ? SIGNALED : 0, addr, 4, mr.lkey, addr + 4096, mr.rkey);
      }
      expect(rig.postSend()).toBe(10);
      expect(await rig.drain(1)).toMatchObject([{ wrId: round * 10 + 9, seq: round * 10 + 9, status: 0 }]);
    }
  });
});
