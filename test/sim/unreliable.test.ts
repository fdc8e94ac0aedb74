/** UC, UD, multicast, shared receive queues and XRC on lossy links, and behavior that only a simulator shows. */
import { describe, expect, test } from 'vitest';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import * as V from '../../src/verbs/index.ts';
import { toRts } from '../support/to-rts.ts';
import { eachShort } from '../support/variants.ts';

const BYTES = 1 << 16;
const CAP = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
const QKEY = 7;
const { IBV_SEND_SIGNALED: SIGNALED } = V;

interface Node {
  v: V.Provider;
  context: number;
  pd: number;
  cq: number;
  mr: V.MrInfo;
  bytes: Uint8Array;
  gid: string;
  send: V.SendBatch;
  recv: V.RecvBatch;
  wc: V.WcBatch;
}

function node(fabric: Fabric, host: number): Node {
  const v = fabric.provider;
  const context = v.openDevice(`sim${host}`);
  const pd = v.allocPd(context);
  const cq = v.createCq(context, 1024, 0).handle;
  const mr = v.allocMr(pd, BYTES, 7);
  return {
    v,
    context,
    pd,
    cq,
    mr,
    bytes: new Uint8Array(mr.memory),
    gid: v.queryGid(context, 1, 0).gid,
    send: new V.SendBatch(v, { capacity: 64 }),
    recv: new V.RecvBatch(v, { capacity: 64 }),
    wc: new V.WcBatch(v, { capacity: 1024 }),
  };
}

function create(at: Node, qpType: number, more: Partial<V.QpInitAttr> = {}): V.QpInfo {
  return at.v.createQp(at.pd, {
    qpType,
    sendCq: at.cq,
    recvCq: at.cq,
    cap: CAP,
    sqSigAll: false,
    ...more,
  });
}

function connect(at: Node, qp: number, qpType: number, peer?: { gid: string; qpNum: number }): void {
  const path = peer && { destQpNum: peer.qpNum, ah: { dgid: peer.gid } };
  toRts(at.v, qp, {
    qpType,
    qkey: QKEY,
    psn: 0xfffff0,
    maxRdAtomic: 2,
    maxDestRdAtomic: 2,
    timeout: 4,
    ...path,
  });
}

function taken(at: Node): { wrId: number; status: number; byteLen: number; recv: boolean; imm: number }[] {
  const n = at.v.pollCq(at.cq, at.wc.ring, 0, 1024);
  return Array.from({ length: n }, (_, i) => ({
    wrId: at.wc.wrId(i),
    status: at.wc.status(i),
    byteLen: at.wc.byteLen(i),
    recv: at.wc.isRecv(i),
    imm: at.wc.imm(i),
  }));
}

function postAll(at: Node, qp: number): number {
  const n = at.v.postSend(qp, at.send.ring, 0, at.send.length);
  at.send.clear();
  return n;
}

describe('UC on lossy links', () => {
  /** Messages of up to 8 packets, numbered by their immediate; byte k of message i is i + k. */
  function lossyUc(seed: number, shared: boolean): number {
    const fabric = createFabric({ autoAdvance: false, seed, loss: 0.1 });
    const [a, b] = [node(fabric, 0), node(fabric, 1)];
    const srq = shared ? b.v.createSrq(b.pd, { maxWr: 64, maxSge: 1 }).handle : undefined;
    const qpA = create(a, V.IBV_QPT_UC);
    const qpB = create(b, V.IBV_QPT_UC, { srq });
    connect(a, qpA.handle, V.IBV_QPT_UC, { gid: b.gid, qpNum: qpB.qpNum });
    connect(b, qpB.handle, V.IBV_QPT_UC, { gid: a.gid, qpNum: qpA.qpNum });
    const random = new RandomStream(seed, 'messages');
    const lengths = Array.from({ length: 24 }, () => 1 + (random.u32() % 8192));
    for (let i = 0; i < 16384; i++) a.bytes[i] = i;
    for (let i = 0; i < 7; i++) b.recv.recv(i, b.mr.addr + i * 8192, 8192, b.mr.lkey);
    const posted =
      srq === undefined
        ? b.v.postRecv(qpB.handle, b.recv.ring, 0, 7)
        : b.v.postSrqRecv(srq, b.recv.ring, 0, 7);
    expect(posted).toBe(7);
    lengths.forEach((length, i) => {
      a.send.sendImm(i, SIGNALED, a.mr.addr + i, length, a.mr.lkey, i);
    });
    expect(postAll(a, qpA.handle)).toBe(24);
    fabric.simulation.run();
    // The sender is not notified of losses: all sends complete in order.
    expect(taken(a).map((wc) => [wc.wrId, wc.status])).toEqual(lengths.map((_, i) => [i, 0]));
    const received = taken(b);
    // Receives are used in order, one per complete message, and messages arrive in order.
    expect(received.map((wc) => wc.wrId)).toEqual(received.map((_, i) => i));
    const numbers = received.map((wc) => wc.imm);
    expect(numbers).toEqual([...numbers].sort((x, y) => x - y));
    for (const { wrId, status, byteLen, imm } of received) {
      expect([status, byteLen]).toEqual([0, lengths[imm]]);
      const at = wrId * 8192;
      for (let k = 0; k < byteLen; k++)
        if (b.bytes[at + k] !== ((imm + k) & 255)) throw new Error(`byte ${k}`);
    }
    expect(fabric.brokenInvariants()).toEqual([]);
    return received.length;
  }

  test('messages arrive whole or not at all, and a receive is not lost with its message', () => {
    let arrived = 0;
    for (let seed = 0; seed < 500; seed++) arrived += lossyUc(seed, (seed & 1) === 1);
    expect(arrived).toBeGreaterThan(500);
    expect(arrived).toBeLessThan(500 * 7);
  });

  test('WRITEs: data that arrives is in its location, and the immediate comes only with the last packet', () => {
    for (let seed = 0; seed < 100; seed++) {
      const fabric = createFabric({ autoAdvance: false, seed, loss: 0.1 });
      const [a, b] = [node(fabric, 0), node(fabric, 1)];
      const qpA = create(a, V.IBV_QPT_UC);
      const qpB = create(b, V.IBV_QPT_UC);
      connect(a, qpA.handle, V.IBV_QPT_UC, { gid: b.gid, qpNum: qpB.qpNum });
      connect(b, qpB.handle, V.IBV_QPT_UC, { gid: a.gid, qpNum: qpA.qpNum });
      a.bytes.fill(5);
      for (let i = 0; i < 8; i++) b.recv.recv(i, 0, 0, 0);
      b.v.postRecv(qpB.handle, b.recv.ring, 0, 8);
      for (let i = 0; i < 8; i++)
        a.send.writeImm(i, SIGNALED, a.mr.addr, 5000, a.mr.lkey, b.mr.addr + i * 8192, b.mr.rkey, i);
      postAll(a, qpA.handle);
      fabric.simulation.run();
      expect(taken(a)).toHaveLength(8);
      for (const { byteLen, imm } of taken(b)) {
        expect(byteLen).toBe(5000);
        expect(b.bytes.subarray(imm * 8192, imm * 8192 + 5000).every((x) => x === 5)).toBe(true);
      }
      expect(fabric.brokenInvariants()).toEqual([]);
    }
  });

  test('a receive that is too short: the message is dropped, the receive stays; a shared one fails', () => {
    for (const shared of [false, true]) {
      const fabric = createFabric({ autoAdvance: false });
      const [a, b] = [node(fabric, 0), node(fabric, 1)];
      const srq = shared ? b.v.createSrq(b.pd, { maxWr: 4, maxSge: 1 }).handle : undefined;
      const qpA = create(a, V.IBV_QPT_UC);
      const qpB = create(b, V.IBV_QPT_UC, { srq });
      connect(a, qpA.handle, V.IBV_QPT_UC, { gid: b.gid, qpNum: qpB.qpNum });
      connect(b, qpB.handle, V.IBV_QPT_UC, { gid: a.gid, qpNum: qpA.qpNum });
      for (let i = 0; i < 2; i++) b.recv.recv(i, b.mr.addr, 3000, b.mr.lkey);
      if (srq === undefined) b.v.postRecv(qpB.handle, b.recv.ring, 0, 2);
      else b.v.postSrqRecv(srq, b.recv.ring, 0, 2);
      a.send.send(1, 0, a.mr.addr, 9000, a.mr.lkey).send(2, SIGNALED, a.mr.addr, 3000, a.mr.lkey);
      postAll(a, qpA.handle);
      fabric.simulation.run();
      const expected = shared
        ? [
            [0, V.IBV_WC_LOC_LEN_ERR],
            [1, V.IBV_WC_SUCCESS],
          ]
        : [[0, V.IBV_WC_SUCCESS]];
      expect(taken(b).map((wc) => [wc.wrId, wc.status])).toEqual(expected);
      expect(b.v.queryQp(qpB.handle).attr.qpState).toBe(V.IBV_QPS_RTS);
      expect(fabric.brokenInvariants()).toEqual([]);
    }
  });
});

describe('datagrams', () => {
  test('a waiting send keeps its destination when its address handle is destroyed', () => {
    const fabric = createFabric({ autoAdvance: false });
    const [a, b] = [node(fabric, 0), node(fabric, 1)];
    const [qpA, qpB] = [create(a, V.IBV_QPT_UD), create(b, V.IBV_QPT_UD)];
    connect(a, qpA.handle, V.IBV_QPT_UD);
    connect(b, qpB.handle, V.IBV_QPT_UD);
    b.recv.recv(3, b.mr.addr, 100, b.mr.lkey);
    b.v.postRecv(qpB.handle, b.recv.ring, 0, 1);
    const ah = a.v.createAh(a.pd, { dgid: b.gid });
    a.send.send(1, SIGNALED, a.mr.addr, 4, a.mr.lkey).datagramTo(0, ah, qpB.qpNum, QKEY);
    postAll(a, qpA.handle);
    a.v.destroyAh(ah);
    fabric.simulation.run();
    expect(taken(b)).toMatchObject([{ wrId: 3, status: 0, byteLen: 44 }]);
  });

  test('a send completes as the packet leaves, before any reply could arrive', () => {
    const fabric = createFabric({ autoAdvance: false });
    const [a, b] = [node(fabric, 0), node(fabric, 1)];
    const qpA = create(a, V.IBV_QPT_UD);
    connect(a, qpA.handle, V.IBV_QPT_UD);
    const ah = a.v.createAh(a.pd, { dgid: b.gid });
    a.send.send(1, SIGNALED, a.mr.addr, 0, a.mr.lkey).datagramTo(0, ah, 77, QKEY);
    postAll(a, qpA.handle);
    const { mmioNs, wqeGapNs, cqeWriteNs, headerBytes, linkGbps } = fabric.simulation.world.params;
    const atNs = mmioNs + wqeGapNs + (headerBytes * 8) / linkGbps + cqeWriteNs;
    fabric.simulation.runUntil(atNs - 1);
    expect(fabric.simulation.world.cqs[1]?.visible).toBe(0);
    fabric.simulation.runUntil(atNs + 1);
    expect(taken(a)).toHaveLength(1);
  });

  test('an IPv6 group: the header is that of IPv6', () => {
    const fabric = createFabric({ autoAdvance: false });
    const a = node(fabric, 0);
    const [from, to] = [create(a, V.IBV_QPT_UD), create(a, V.IBV_QPT_UD)];
    for (const { handle } of [from, to]) connect(a, handle, V.IBV_QPT_UD);
    a.v.attachMcast(to.handle, 'ff0e::1:2', 0);
    a.recv.recv(3, a.mr.addr, 100, a.mr.lkey);
    a.v.postRecv(to.handle, a.recv.ring, 0, 1);
    const ah = a.v.createAh(a.pd, { dgid: 'ff0e::1:2', trafficClass: 0xab, flowLabel: 0x12345, hopLimit: 3 });
    a.send.send(1, 0, a.mr.addr + 1000, 4, a.mr.lkey).datagramTo(0, ah, 0xffffff, QKEY);
    postAll(a, from.handle);
    fabric.simulation.run();
    expect(taken(a)).toMatchObject([{ wrId: 3, byteLen: 44 }]);
    expect([...a.bytes.subarray(0, 8)]).toEqual([0x6a, 0xb1, 0x23, 0x45, 0, 36, 17, 3]);
    expect(V.gidToString(a.bytes.slice(8, 24))).toBe(a.gid);
    expect(V.gidToString(a.bytes.slice(24, 40))).toBe('ff0e::1:2');
  });

  eachShort(1, ['direct' as const, 'star' as const, { kind: 'leaf-spine' as const, hostsPerLeaf: 2 }])(
    'a multicast loss on a link affects all group members of that host and no others: %o',
    (topology) => {
      let [none, some] = [0, 0];
      for (let seed = 0; seed < 200; seed++) {
        const fabric = createFabric({ hosts: 4, autoAdvance: false, seed, topology });
        fabric.fault({ loss: 0.5, host: 2 });
        const nodes = [0, 1, 2, 3].map((host) => node(fabric, host));
        const sender = create(nodes[0], V.IBV_QPT_UD);
        connect(nodes[0], sender.handle, V.IBV_QPT_UD);
        for (const at of nodes) {
          at.recv.recv(1, at.mr.addr, 100, at.mr.lkey);
          for (let i = 0; i < 2; i++) {
            const { handle } = create(at, V.IBV_QPT_UD);
            connect(at, handle, V.IBV_QPT_UD);
            at.v.attachMcast(handle, '::ffff:224.1.1.1', 0);
            at.v.postRecv(handle, at.recv.ring, 0, 1);
          }
        }
        const ah = nodes[0].v.createAh(nodes[0].pd, { dgid: '::ffff:224.1.1.1' });
        nodes[0].send.send(1, 0, nodes[0].mr.addr, 4, nodes[0].mr.lkey).datagramTo(0, ah, 0xffffff, QKEY);
        postAll(nodes[0], sender.handle);
        fabric.simulation.run();
        const counts = nodes.map((at) => taken(at).length);
        expect([counts[0], counts[1], counts[3]]).toEqual([2, 2, 2]);
        expect([0, 2]).toContain(counts[2]);
        if (counts[2] === 0) none++;
        else some++;
        expect(fabric.brokenInvariants()).toEqual([]);
      }
      expect(Math.min(none, some)).toBeGreaterThan(50);
    },
  );
});

describe('reliable receivers that share, on lossy links', () => {
  test('XRC: every message arrives once and in order in the queue it names', () => {
    for (let seed = 0; seed < 200; seed++) {
      const fabric = createFabric({ autoAdvance: false, seed, loss: 0.03 });
      const [a, b] = [node(fabric, 0), node(fabric, 1)];
      const xrcd = b.v.openXrcd(b.context);
      const sender = create(a, V.IBV_QPT_XRC_SEND);
      const receiver = b.v.createQp(0, {
        qpType: V.IBV_QPT_XRC_RECV,
        sendCq: 0,
        recvCq: 0,
        cap: { maxSendWr: 0, maxRecvWr: 0, maxSendSge: 0, maxRecvSge: 0, maxInlineData: 0 },
        xrcd,
        sqSigAll: false,
      });
      connect(a, sender.handle, V.IBV_QPT_XRC_SEND, { gid: b.gid, qpNum: receiver.qpNum });
      connect(b, receiver.handle, V.IBV_QPT_XRC_RECV, { gid: a.gid, qpNum: sender.qpNum });
      const srqs = [0, 1, 2].map(() =>
        b.v.createSrq(b.pd, { maxWr: 16, maxSge: 1, srqType: V.IBV_SRQT_XRC, xrcd, cq: b.cq }),
      );
      for (const [i, srq] of srqs.entries()) {
        b.recv.clear();
        for (let k = 0; k < 8; k++) b.recv.recv(100 * i + k, b.mr.addr, 4096, b.mr.lkey);
        b.v.postSrqRecv(srq.handle, b.recv.ring, 0, 8);
      }
      const random = new RandomStream(seed, 'targets');
      const targets = Array.from({ length: 8 }, () => random.u32() % 3);
      targets.forEach((target, i) => {
        a.send.sendImm(i, SIGNALED, a.mr.addr, 3000, a.mr.lkey, i).srqTo(2 * i, srqs[target].srqNum);
        a.send
          .read(50 + i, 0, a.mr.addr + 4096, 3000, a.mr.lkey, b.mr.addr, b.mr.rkey)
          .srqTo(2 * i + 1, srqs[target].srqNum);
      });
      postAll(a, sender.handle);
      fabric.simulation.run();
      expect(fabric.brokenInvariants()).toEqual([]);
      const done = taken(a);
      // Eight losses in a row would end the connection; at 3 % that does not happen with these seeds.
      expect(done.map((wc) => [wc.wrId, wc.status])).toEqual(targets.map((_, i) => [i, 0]));
      const next = [0, 0, 0];
      expect(taken(b).map((wc) => [wc.imm, wc.wrId])).toEqual(
        targets.map((target, i) => [i, 100 * target + next[target]++]),
      );
    }
  });
});

test('requests posted in SQE are flushed although the queue pair leaves it at once', () => {
  const fabric = createFabric({ autoAdvance: false });
  const [a, b] = [node(fabric, 0), node(fabric, 1)];
  const qpA = create(a, V.IBV_QPT_UC);
  const qpB = create(b, V.IBV_QPT_UC);
  connect(a, qpA.handle, V.IBV_QPT_UC, { gid: b.gid, qpNum: qpB.qpNum });
  connect(b, qpB.handle, V.IBV_QPT_UC, { gid: a.gid, qpNum: qpA.qpNum });
  const write = (wrId: number, lkey = a.mr.lkey) => {
    a.send.write(wrId, SIGNALED, a.mr.addr, 64, lkey, b.mr.addr, b.mr.rkey);
    expect(postAll(a, qpA.handle)).toBe(1);
  };
  write(1, 12345);
  fabric.simulation.run();
  expect(a.v.queryQp(qpA.handle).attr.qpState).toBe(V.IBV_QPS_SQE);
  write(2);
  a.v.modifyQp(qpA.handle, { qpState: V.IBV_QPS_RTS }, V.IBV_QP_STATE);
  write(3);
  fabric.simulation.run();
  expect(taken(a).map(({ wrId, status }) => [wrId, status])).toEqual([
    [1, V.IBV_WC_LOC_PROT_ERR],
    [2, V.IBV_WC_WR_FLUSH_ERR],
    [3, V.IBV_WC_SUCCESS],
  ]);
  expect(fabric.brokenInvariants()).toEqual([]);
});
