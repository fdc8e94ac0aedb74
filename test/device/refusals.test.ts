/** Bad input yields a typed error or a verbs status with the index; nothing is posted twice or lost. */
import { afterEach, describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { connect, errorOf, Rig, type RigOptions, skipReason, toInit } from './rig.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;

describe.skipIf(skipReason !== '')('refused work requests', () => {
  let rig: Rig;
  const open = (options: RigOptions = {}) => {
    rig = Rig.connected(options);
    return rig;
  };
  afterEach(() => rig.close());

  /** Posts good, bad, good; expects that the first is posted and completes, and that the second fails with `reason`. */
  async function refusedInTheMiddle(bad: (send: V.SendBatch) => void, errno: number, reason: number) {
    const { p, send, mr, addr, qp } = rig;
    send.clear().write(1, SIGNALED, addr, 8, mr.lkey, addr + 4096, mr.rkey);
    bad(send);
    send.write(3, SIGNALED, addr, 8, mr.lkey, addr + 4096, mr.rkey);
    expect(p.validateSend(qp, send.ring, 0)).toBe(0);
    expect(p.validateSend(qp, send.ring, 1)).toBe(errno);
    expect(rig.postSend()).toBe(1);
    expect([send.errno, send.reason]).toEqual([errno, reason]);
    expect(await rig.drain(1)).toMatchObject([{ wrId: 1, status: 0, seq: 0 }]);
    // The rest of the batch can still be posted, with the next sequence number.
    expect(p.postSend(qp, send.ring, 2, 1)).toBe(1);
    expect([send.errno, send.reason]).toEqual([0, 0]);
    expect(await rig.drain(1)).toMatchObject([{ wrId: 3, status: 0, seq: 1 }]);
  }

  test('too many SGEs', async () => {
    const { addr, mr, qpInfo } = open();
    expect(qpInfo.cap.maxSendSge).toBeGreaterThanOrEqual(4);
    const bad = (send: V.SendBatch) => {
      send.write(2, SIGNALED, addr, 8, mr.lkey, addr + 4096, mr.rkey);
      const at = V.slotAt(1) + V.WR_OP;
      send.words[at] = (send.words[at] & 0xffff) | ((qpInfo.cap.maxSendSge + 1) << 16);
    };
    await refusedInTheMiddle(bad, V.EINVAL, V.REASON_SGE_COUNT);
  });

  test('more SGEs than the ring has room for', () => {
    const { p, qp, addr, mr } = open({ cap: { maxSendSge: 8 } });
    const small = new V.SendBatch(p, { capacity: 1, sges: 2 });
    small.write(1, SIGNALED, addr, 8, mr.lkey, addr, mr.rkey);
    small.words[V.slotAt(0) + V.WR_OP] += 7 << 16;
    expect(p.postSend(qp, small.ring, 0, 1)).toBe(0);
    expect([small.errno, small.reason]).toEqual([V.EINVAL, V.REASON_SGE_COUNT]);
    small.close();
  });

  test('a sum of lengths beyond the largest message', async () => {
    const { addr, mr } = open();
    const bad = (send: V.SendBatch) => {
      send.write(2, SIGNALED, addr, 0xffffffff, mr.lkey, addr, mr.rkey).sge(1, addr, 0xffffffff, mr.lkey);
    };
    await refusedInTheMiddle(bad, V.EINVAL, V.REASON_LENGTH);
  });

  test('inline data beyond the queue pair, and inline READ', async () => {
    const { qpInfo } = open();
    const long = new Uint8Array(qpInfo.cap.maxInlineData + 1);
    await refusedInTheMiddle(
      (send) => send.inline(2, V.IBV_WR_SEND, SIGNALED, long),
      V.EINVAL,
      V.REASON_INLINE,
    );
  });

  test('inline READ', async () => {
    open();
    const data = new Uint8Array(8);
    await refusedInTheMiddle(
      (send) => send.inline(2, V.IBV_WR_RDMA_READ, 0, data),
      V.EINVAL,
      V.REASON_INLINE,
    );
  });

  test('an inline length beyond the ring', () => {
    const { p, qp, send } = open({ cap: { maxInlineData: 400 } });
    const small = new V.SendBatch(p, { capacity: 1, inlineBytes: 64 });
    small.inline(1, V.IBV_WR_SEND, 0, new Uint8Array(64));
    small.words[V.slotAt(0) + V.WR_INLINE_LENGTH] = 65;
    expect(p.postSend(qp, small.ring, 0, 1)).toBe(0);
    expect(small.reason).toBe(V.REASON_INLINE);
    small.close();
    send.clear();
  });

  test('an unaligned atomic', async () => {
    const { addr, mr } = open();
    const bad = (send: V.SendBatch) => send.fetchAdd(2, SIGNALED, addr, mr.lkey, addr + 4, mr.rkey, 1n);
    await refusedInTheMiddle(bad, V.EINVAL, V.REASON_ATOMIC);
  });

  test('an atomic of another length', async () => {
    const { addr, mr } = open();
    const bad = (send: V.SendBatch) => {
      send.fetchAdd(2, SIGNALED, addr, mr.lkey, addr + 8, mr.rkey, 1n);
      send.words[V.slotAt(1) + V.WR_SGE0 + V.SGE_LENGTH] = 16;
    };
    await refusedInTheMiddle(bad, V.EINVAL, V.REASON_ATOMIC);
  });

  test('WAIT and ENABLE, which rdma-core does not support', async () => {
    const { cq } = open();
    await refusedInTheMiddle((send) => send.wait(2, 0, cq, 1), V.EOPNOTSUPP, V.REASON_OPCODE);
    await refusedInTheMiddleAgain((send) => send.enable(2, 0, rig.qp, 1));
  });

  async function refusedInTheMiddleAgain(bad: (send: V.SendBatch) => void) {
    rig.send.clear();
    bad(rig.send);
    expect(rig.postSend()).toBe(0);
    expect([rig.send.errno, rig.send.reason]).toEqual([V.EOPNOTSUPP, V.REASON_OPCODE]);
  }

  test('an unknown opcode and an unknown flag', async () => {
    const { addr, mr, send } = open();
    const write = () => send.clear().write(2, SIGNALED, addr, 8, mr.lkey, addr, mr.rkey);
    write().words[V.slotAt(0) + V.WR_OP] |= 77;
    expect(rig.postSend()).toBe(0);
    expect([send.errno, send.reason]).toEqual([V.EINVAL, V.REASON_OPCODE]);
    write().words[V.slotAt(0) + V.WR_OP] |= 32 << 8;
    expect(rig.postSend()).toBe(0);
    expect([send.errno, send.reason]).toEqual([V.EINVAL, V.REASON_FLAGS]);
  });

  test('a range outside the ring', () => {
    const { p, qp, send, recv, cq, wcs } = open();
    for (const [start, count] of [
      [0, 257],
      [256, 1],
      [-1, 1],
      [0, -1],
      [0x7fffffff, 0x7fffffff],
      [1, 2 ** 32 - 1],
    ]) {
      expect(p.postSend(qp, send.ring, start, count)).toBe(0);
      expect([send.errno, send.reason]).toEqual([V.EINVAL, V.REASON_RANGE]);
      expect(p.postRecv(qp, recv.ring, start, count)).toBe(0);
      expect([recv.errno, recv.reason]).toEqual([V.EINVAL, V.REASON_RANGE]);
      expect(errorOf(() => p.pollCq(cq, wcs.ring, start, count)).code).toBe('ISO_ERR_ARGUMENT');
    }
    expect(p.postSend(qp, send.ring, 256, 0)).toBe(0);
    expect(send.errno).toBe(0);
    expect(p.validateSend(qp, send.ring, 256)).toBe(V.EINVAL);
  });

  test('a full send queue fails with ENOMEM at the right index; all others complete once', async () => {
    const { p, qp, send, addr, mr } = open({ cap: { maxSendWr: 16 }, cqe: 1024 });
    send.clear();
    for (let i = 0; i < 256; i++) send.read(i, SIGNALED, addr, 4096, mr.lkey, addr + 8192, mr.rkey);
    const seen: number[] = [];
    let at = 0;
    let refusals = 0;
    while (at < 256) {
      const taken = p.postSend(qp, send.ring, at, 256 - at);
      at += taken;
      if (at === 256) break;
      refusals++;
      expect([send.errno, send.reason]).toEqual([V.ENOMEM, V.REASON_QUEUE_FULL]);
      seen.push(...(await rig.drain(1)).map((wc) => wc.wrId));
    }
    seen.push(...(await rig.drain(256 - seen.length)).map((wc) => wc.wrId));
    expect(seen.findIndex((id, i) => id !== i)).toBe(-1);
    expect(seen.length).toBe(256);
    expect(refusals).toBeGreaterThan(0);
  });

  test('a full receive queue', () => {
    const { recv, addr, mr } = open({ cap: { maxRecvWr: 8 } });
    recv.clear();
    for (let i = 0; i < 100; i++) recv.recv(i, addr, 8, mr.lkey);
    const taken = rig.postRecv();
    expect(taken).toBeGreaterThanOrEqual(8);
    expect(taken).toBeLessThan(100);
    expect([recv.errno, recv.reason]).toEqual([V.ENOMEM, V.REASON_QUEUE_FULL]);
  });

  test('a program that never signals is not blocked by the accounting of the library', async () => {
    const { send, addr, mr } = open({ cap: { maxSendWr: 16 } });
    const deadline = performance.now() + 20_000;
    let taken = 0;
    while (taken < 500) {
      send.clear();
      for (let i = 0; i < 10; i++) send.write(taken + i, 0, addr, 4, mr.lkey, addr + 64, mr.rkey);
      taken += rig.postSend();
      if (performance.now() > deadline) throw new Error(`stopped after ${taken}`);
      if (send.errno !== 0) {
        expect(send.errno).toBe(V.ENOMEM);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
    for (;;) {
      send.clear().write(77, SIGNALED, addr, 4, mr.lkey, addr + 64, mr.rkey);
      if (rig.postSend() === 1) break;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(await rig.drain(1)).toMatchObject([{ wrId: 77, seq: taken, status: 0 }]);
  });

  test('a CQ that overflows loses completions, not the process', async () => {
    const { send, addr, mr } = open({ cqe: 4 });
    send.clear();
    for (let i = 0; i < 40; i++) send.write(i, SIGNALED, addr, 4, mr.lkey, addr + 64, mr.rkey);
    expect(rig.postSend()).toBe(40);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const first = await rig.drain(4);
    expect(first.map((wc) => wc.wrId).slice(0, 4)).toEqual([0, 1, 2, 3]);
  });

  test('a receive with too many SGEs', async () => {
    const { recv, addr, mr } = open();
    recv.clear().recv(1, addr, 8, mr.lkey).recv(2, addr, 8, mr.lkey);
    recv.words[V.slotAt(1) + V.WR_OP] = 9 << 16;
    expect(rig.postRecv()).toBe(1);
    expect([recv.errno, recv.reason]).toEqual([V.EINVAL, V.REASON_SGE_COUNT]);
  });
});

describe.skipIf(skipReason !== '')('other types of queue pair', () => {
  test('UC accepts SEND and WRITE, but not READ and atomics', async () => {
    const rig = Rig.connected({ qpType: V.IBV_QPT_UC });
    const { send, addr, mr } = rig;
    send.clear().write(1, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
    send.read(2, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
    expect(rig.postSend()).toBe(1);
    expect([send.errno, send.reason]).toEqual([V.EINVAL, V.REASON_OPCODE]);
    expect(await rig.drain(1)).toMatchObject([{ wrId: 1, status: 0 }]);
    rig.close();
  });

  test('UD accepts receives; its sends require address handles', () => {
    const rig = new Rig({ qpType: V.IBV_QPT_UD });
    const { p, qp, send, recv, addr, mr } = rig;
    const init = { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qkey: 0x11111111 };
    p.modifyQp(qp, init, V.maskOf(init));
    recv.clear().recv(1, addr, 64, mr.lkey);
    expect(rig.postRecv()).toBe(1);
    p.modifyQp(qp, { qpState: V.IBV_QPS_RTR }, V.IBV_QP_STATE);
    p.modifyQp(qp, { qpState: V.IBV_QPS_RTS, sqPsn: 0 }, V.IBV_QP_STATE | V.IBV_QP_SQ_PSN);
    send.clear().send(1, SIGNALED, addr, 8, mr.lkey);
    expect(rig.postSend()).toBe(0);
    expect(send.reason).toBe(V.REASON_AH);
    rig.close();
  });
});

describe.skipIf(skipReason !== '')('error completions', () => {
  let rig: Rig;
  const open = (options: RigOptions = {}) => {
    rig = Rig.connected(options);
    return rig;
  };
  afterEach(() => rig.close());
  const state = () => rig.p.queryQp(rig.qp).attr.qpState;

  test('an SGE outside its region', async () => {
    const { send, addr, mr } = open();
    send.clear().write(1, SIGNALED, addr + mr.lengthBytes - 4, 8, mr.lkey, addr, mr.rkey);
    expect(rig.postSend()).toBe(1);
    const [wc] = await rig.drain(1);
    expect([V.IBV_WC_LOC_PROT_ERR, V.IBV_WC_LOC_QP_OP_ERR]).toContain(wc.status);
    expect(wc).toMatchObject({ wrId: 1, recv: false });
    expect(state()).toBe(V.IBV_QPS_ERR);
  });

  test.each([
    ['a wrong rkey', 0, 1],
    ['a remote address outside the region', 65536, 0],
  ])('%s', async (_name, offset, key) => {
    const { send, addr, mr } = open();
    send.clear().write(1, 0, addr, 8, mr.lkey, addr + offset, mr.rkey + key * 0x100);
    send.write(2, 0, addr, 8, mr.lkey, addr, mr.rkey);
    expect(rig.postSend()).toBe(2);
    // Unsignaled requests are also reported when they fail.
    const wcs = await rig.drain(2);
    expect(wcs).toMatchObject([
      { wrId: 1, status: V.IBV_WC_REM_ACCESS_ERR },
      { wrId: 2, status: V.IBV_WC_WR_FLUSH_ERR },
    ]);
    expect(state()).toBe(V.IBV_QPS_ERR);
  });

  test('access that the region does not grant', async () => {
    const { p, pd, send, addr, mr } = open();
    const readOnly = p.allocMr(pd, 4096, V.IBV_ACCESS_REMOTE_READ);
    send.clear().write(1, SIGNALED, addr, 8, mr.lkey, readOnly.addr, readOnly.rkey);
    rig.postSend();
    expect(await rig.drain(1)).toMatchObject([{ wrId: 1, status: V.IBV_WC_REM_ACCESS_ERR }]);
    p.deregMr(readOnly.handle);
  });

  test('a peer that does not exist', async () => {
    const rig2 = new Rig();
    rig = rig2;
    toInit(rig.p, rig.qp);
    connect(rig.p, rig.context, rig.qp, 0xfffff0, { retryCnt: 1 });
    rig.send.clear().write(1, SIGNALED, rig.addr, 8, rig.mr.lkey, rig.addr, rig.mr.rkey);
    rig.postSend();
    expect(await rig.drain(1)).toMatchObject([{ wrId: 1, status: V.IBV_WC_RETRY_EXC_ERR }]);
  });

  test('a receiver that is not ready', async () => {
    const { send, addr, mr } = open({ rnrRetry: 0 });
    send.clear().send(1, SIGNALED, addr, 8, mr.lkey);
    rig.postSend();
    expect(await rig.drain(1)).toMatchObject([{ wrId: 1, status: V.IBV_WC_RNR_RETRY_EXC_ERR }]);
  });

  test('a flush reports both queues correctly, though the opcode is undefined', async () => {
    const { p, qp, send, recv, addr, mr } = open();
    recv.clear().recv(100, addr, 8, mr.lkey).recv(101, addr, 8, mr.lkey);
    rig.postRecv();
    p.modifyQp(qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    send.clear().write(200, 0, addr, 8, mr.lkey, addr, mr.rkey);
    expect(rig.postSend()).toBe(1);
    const wcs = await rig.drain(3);
    expect(wcs.every((wc) => wc.status === V.IBV_WC_WR_FLUSH_ERR)).toBe(true);
    expect(wcs.filter((wc) => wc.recv).map((wc) => wc.wrId)).toEqual([100, 101]);
    expect(wcs.filter((wc) => !wc.recv).map((wc) => wc.wrId)).toEqual([200]);
  });

  test('RESET drops posted requests, and the queue pair can be used again', async () => {
    const { p, context, qp, qpInfo, send, recv, addr, mr } = open();
    recv.clear().recv(1, addr, 8, mr.lkey);
    rig.postRecv();
    p.modifyQp(qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    await new Promise((resolve) => setTimeout(resolve, 50));
    p.modifyQp(qp, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
    expect(p.pollCq(rig.cq, rig.wcs.ring, 0, 16)).toBe(0);
    toInit(p, qp);
    connect(p, context, qp, qpInfo.qpNum);
    send.clear().write(5, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
    expect(rig.postSend()).toBe(1);
    expect(await rig.drain(1)).toMatchObject([{ wrId: 5, status: 0 }]);
  });

  test('completions of a destroyed queue pair are discarded', async () => {
    const { p, send, addr, mr, cq } = open();
    const cap = { maxSendWr: 16, maxRecvWr: 16, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const other = rig.createQp({ cap });
    toInit(p, other.handle);
    connect(p, rig.context, other.handle, other.qpNum);
    send.clear().write(1, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
    expect(p.postSend(other.handle, send.ring, 0, 1)).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    p.destroyQp(other.handle);
    expect(rig.postSend()).toBe(1);
    expect(await rig.drain(1)).toMatchObject([{ qp: rig.qp, wrId: 1 }]);
    expect(p.pollCq(cq, rig.wcs.ring, 0, 16)).toBe(0);
  });
});

describe.skipIf(skipReason !== '')('states', () => {
  test('posting before the queue pair is ready', () => {
    const rig = new Rig();
    const { p, qp, send, recv, addr, mr } = rig;
    send.clear().write(1, SIGNALED, addr, 8, mr.lkey, addr, mr.rkey);
    recv.clear().recv(1, addr, 8, mr.lkey);
    const sends = () => [rig.postSend(), send.errno, send.reason];
    const recvs = () => [rig.postRecv(), recv.errno, recv.reason];
    expect(sends()).toEqual([0, V.EINVAL, V.REASON_STATE]);
    expect(recvs()).toEqual([0, V.EINVAL, V.REASON_STATE]);
    expect(p.validateSend(qp, send.ring, 0)).toBe(V.EINVAL);
    toInit(p, qp);
    expect(sends()).toEqual([0, V.EINVAL, V.REASON_STATE]);
    expect(recvs()).toEqual([1, 0, 0]);
    rig.close();
  });

  test('the error of a transition names the attributes that are missing or not allowed', () => {
    const rig = new Rig();
    const { p, qp } = rig;
    const missing = errorOf(() => p.modifyQp(qp, { qpState: V.IBV_QPS_INIT }, V.IBV_QP_STATE));
    expect(missing.code).toBe('ISO_ERR_STATE');
    expect(missing.message).toMatch(/RESET -> INIT: missing .*IBV_QP_PORT/);
    const skipped = errorOf(() => p.modifyQp(qp, { qpState: V.IBV_QPS_RTS }, V.IBV_QP_STATE));
    expect(skipped.message).toMatch(/RESET -> RTS is not a transition/);
    const attr = { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 999, qpAccessFlags: 0 };
    const range = errorOf(() => p.modifyQp(qp, attr, V.maskOf(attr)));
    expect([range.code, range.message]).toEqual([
      'ISO_ERR_ARGUMENT',
      'modifyQp: portNum must be a whole number from 0 to 255, got 999',
    ]);
    const port = { ...attr, portNum: 9 };
    expect(errorOf(() => p.modifyQp(qp, port, V.maskOf(port))).errno).toBe(V.EINVAL);
    toInit(p, qp);
    const { attr: now, init } = p.queryQp(qp);
    expect(now.qpState).toBe(V.IBV_QPS_INIT);
    expect(now.portNum).toBe(1);
    expect(init.sendCq).toBe(rig.cq);
    expect(init.qpType).toBe(V.IBV_QPT_RC);
    connect(p, rig.context, qp, rig.qpInfo.qpNum);
    const live = p.queryQp(qp).attr;
    expect(live).toMatchObject({
      qpState: V.IBV_QPS_RTS,
      pathMtu: V.IBV_MTU_1024,
      destQpNum: rig.qpInfo.qpNum,
    });
    expect(live.ah?.dgid).toMatch(/^(::ffff:|fe80)/);
    rig.close();
  });
});
