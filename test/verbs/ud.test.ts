// Unreliable datagrams (counterpart of what rdma-core's test_qp.py, test_qpex.py and test_addr.py do with UD).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground } from './ground.ts';
import {
  addressHandle,
  CAP,
  closeEnd,
  closePair,
  connect,
  connectedPair,
  createQp,
  type Pair,
  pass,
  polled,
  postRecv,
  postSend,
  QKEY,
  refusal,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES = { group: 'qp', others: 'every InfiniBand and RoCE device' };
const GRH = 40;

interface UdPair extends Pair {
  /** Leads from a to b. */
  ah: number;
}

function udPair(ground: Ground, init: Partial<V.QpInitAttr> = {}): UdPair {
  const pair = connectedPair(ground, { qpType: V.IBV_QPT_UD, init });
  return { ...pair, ah: addressHandle(pair.a, pair.b) };
}

function closeUd(pair: UdPair): void {
  pair.a.p.destroyAh(pair.ah);
  closePair(pair);
}

/** Sends `bytes` from the beginning of a's memory to b. */
function send({ a, qpA, qpB, ah }: UdPair, wrId: number, bytes: number, qkey = QKEY): void {
  postSend(a, qpA.handle, (batch) =>
    batch.send(wrId, SIGNALED, a.mr.addr, bytes, a.mr.lkey).datagramTo(0, ah, qpB.qpNum, qkey),
  );
}

/** Bytes of an IPv4 address written as a mapped GID. */
function ipv4(gid: string): number[] {
  return gid.replace('::ffff:', '').split('.').map(Number);
}

function checksum(header: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < header.length; i += 2) sum += (header[i] << 8) | header[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

feature('UD messages', NOTES, (it) => {
  it('SEND arrives behind 40 bytes of header; the completion names the sender', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB } = pair;
    a.bytes.fill(7, 0, 500);
    postRecv(b, qpB.handle, 5, 4096, 1024);
    send(pair, 9, 500);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 9, status: 'SUCCESS', opcode: 'SEND' }]);
    const [wc] = await polled(b, 1);
    expect(wc).toMatchObject({ wrId: 5, status: 'SUCCESS', opcode: 'RECV', byteLen: GRH + 500 });
    expect(wc).toMatchObject({ srcQp: qpA.qpNum, qpNum: qpB.qpNum, srq: 0 });
    expect(wc.flags & V.IBV_WC_GRH).toBe(V.IBV_WC_GRH);
    expect(b.bytes.subarray(4096 + GRH, 4096 + GRH + 500).every((byte) => byte === 7)).toBe(true);
    expect(b.bytes[4096 + GRH + 500]).toBe(0);
    closeUd(pair);
  });

  it('the header is the IPv4 header of the packet, in the last 20 bytes', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpB } = pair;
    postRecv(b, qpB.handle, 5, 4096, 1024);
    send(pair, 9, 99);
    await polled(a, 1);
    await polled(b, 1);
    const header = b.bytes.subarray(4096 + 20, 4096 + GRH);
    expect(header[0]).toBe(0x45);
    // IPv4 20, UDP 8, BTH 12, DETH 8, payload with its padding, CRC 4.
    expect((header[2] << 8) | header[3]).toBe(20 + 8 + 12 + 8 + 100 + 4);
    expect(header[8]).toBe(64);
    expect(header[9]).toBe(17);
    expect([...header.subarray(12, 16)]).toEqual(ipv4(a.gid));
    expect([...header.subarray(16, 20)]).toEqual(ipv4(b.gid));
    expect(checksum(header)).toBe(0xffff);
    closeUd(pair);
  });

  it('SEND_WITH_IMM carries its immediate', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB, ah } = pair;
    postRecv(b, qpB.handle, 1, 0, 100);
    postSend(a, qpA.handle, (batch) =>
      batch.sendImm(2, SIGNALED, a.mr.addr, 10, a.mr.lkey, 0xcafe0001).datagramTo(0, ah, qpB.qpNum, QKEY),
    );
    await polled(a, 1);
    const [wc] = await polled(b, 1);
    expect(wc).toMatchObject({ byteLen: GRH + 10, imm: 0xcafe0001 });
    expect(wc.flags & V.IBV_WC_WITH_IMM).toBe(V.IBV_WC_WITH_IMM);
    closeUd(pair);
  });

  it('inline data is copied, and elements are gathered and scattered', async (ground) => {
    const pair = udPair(ground, { cap: { ...CAP, maxInlineData: 64 } });
    const { a, b, qpA, qpB, ah } = pair;
    const data = Uint8Array.from({ length: 20 }, (_, i) => i + 1);
    a.bytes.set(data, 0);
    for (let i = 0; i < 2; i++) postRecv(b, qpB.handle, i, 1024 * i, 100);
    postSend(a, qpA.handle, (batch) => {
      batch.inline(1, V.IBV_WR_SEND, SIGNALED, data).datagramTo(0, ah, qpB.qpNum, QKEY);
      batch.send(2, SIGNALED, a.mr.addr + 10, 10, a.mr.lkey).sge(1, a.mr.addr, 10, a.mr.lkey);
      batch.datagramTo(1, ah, qpB.qpNum, QKEY);
    });
    await polled(a, 2);
    expect((await polled(b, 2)).map((wc) => wc.byteLen)).toEqual([GRH + 20, GRH + 20]);
    expect([...b.bytes.subarray(GRH, GRH + 20)]).toEqual([...data]);
    const turned = [...data.subarray(10), ...data.subarray(0, 10)];
    expect([...b.bytes.subarray(1024 + GRH, 1024 + GRH + 20)]).toEqual(turned);
    closeUd(pair);
  });

  it('an empty message delivers only the header', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB, ah } = pair;
    postRecv(b, qpB.handle, 1, 0, GRH);
    postSend(a, qpA.handle, (batch) => batch.send(1, SIGNALED, 0, 0, 0).datagramTo(0, ah, qpB.qpNum, QKEY));
    await polled(a, 1);
    expect(await polled(b, 1)).toMatchObject([{ status: 'SUCCESS', byteLen: GRH }]);
    closeUd(pair);
  });

  it('one queue pair sends to many on both devices, each by its own address handle', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB, ah } = pair;
    const here = createQp(a, { qpType: V.IBV_QPT_UD });
    connect(a, here.handle, a, 0, { qpType: V.IBV_QPT_UD });
    const there = createQp(b, { qpType: V.IBV_QPT_UD });
    connect(b, there.handle, a, 0, { qpType: V.IBV_QPT_UD });
    const self = addressHandle(a, a);
    postRecv(a, here.handle, 1, 4096, 100);
    postRecv(b, there.handle, 2, 4096, 100);
    postRecv(b, qpB.handle, 3, 8192, 100);
    postRecv(a, qpA.handle, 4, 8192, 100);
    postSend(a, qpA.handle, (batch) => {
      for (let i = 0; i < 4; i++) batch.send(10 + i, SIGNALED, a.mr.addr, 8 + i, a.mr.lkey);
      batch.datagramTo(0, self, here.qpNum, QKEY).datagramTo(1, ah, there.qpNum, QKEY);
      batch.datagramTo(2, ah, qpB.qpNum, QKEY).datagramTo(3, self, qpA.qpNum, QKEY);
    });
    const ofA = await polled(a, 6);
    expect(ofA.filter((wc) => wc.wrId >= 10).map((wc) => wc.wrId)).toEqual([10, 11, 12, 13]);
    const received = [...ofA, ...(await polled(b, 2))].filter((wc) => wc.wrId < 10);
    expect(received.sort((x, y) => x.wrId - y.wrId).map((wc) => [wc.wrId, wc.byteLen, wc.qpNum])).toEqual([
      [1, GRH + 8, here.qpNum],
      [2, GRH + 9, there.qpNum],
      [3, GRH + 10, qpB.qpNum],
      [4, GRH + 11, qpA.qpNum],
    ]);
    expect(received.every((wc) => wc.srcQp === qpA.qpNum)).toBe(true);
    a.p.destroyAh(self);
    a.p.destroyQp(here.handle);
    b.p.destroyQp(there.handle);
    closeUd(pair);
  });

  it('the receiver answers to the address and number that it received', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB } = pair;
    postRecv(b, qpB.handle, 1, 0, 100);
    postRecv(a, qpA.handle, 2, 4096, 100);
    send(pair, 3, 5);
    const [wc] = await polled(b, 1);
    const source = [...b.bytes.subarray(GRH - 8, GRH - 4)].join('.');
    const back = addressHandle(b, a, { dgid: `::ffff:${source}` });
    postSend(b, qpB.handle, (batch) =>
      batch.send(4, SIGNALED, b.mr.addr, 6, b.mr.lkey).datagramTo(0, back, wc.srcQp, QKEY),
    );
    expect((await polled(a, 2)).find(({ wrId }) => wrId === 2)).toMatchObject({
      byteLen: GRH + 6,
      srcQp: qpB.qpNum,
    });
    await polled(b, 1);
    b.p.destroyAh(back);
    closeUd(pair);
  });
});

feature('UD: what is dropped', NOTES, (it) => {
  /** Sends a message that must arrive after a dropped one. */
  async function goesOn(ground: Ground, pair: UdPair, wrId: number): Promise<void> {
    await pass(ground);
    send(pair, 99, 16);
    await polled(pair.a, 1);
    expect(await polled(pair.b, 1)).toMatchObject([{ wrId, status: 'SUCCESS', byteLen: GRH + 16 }]);
  }

  it('a different Q_Key', async (ground) => {
    const pair = udPair(ground);
    postRecv(pair.b, pair.qpB.handle, 5, 0, 100);
    send(pair, 1, 10, QKEY + 1);
    expect(await polled(pair.a, 1)).toMatchObject([{ status: 'SUCCESS' }]);
    await goesOn(ground, pair, 5);
    closeUd(pair);
  });

  it('a Q_Key with the highest bit set stands for the sender’s own (soft-RoCE: sent as it is)', async (ground) => {
    const pair = udPair(ground);
    postRecv(pair.b, pair.qpB.handle, 5, 0, 100);
    send(pair, 1, 10, 0x80000000);
    await polled(pair.a, 1);
    if (ground.name === 'rxe') {
      // Soft-RoCE 6.1 sends it unchanged, which makes it a different Q_Key.
      await pass(ground);
      await goesOn(ground, pair, 5);
    } else {
      expect(await polled(pair.b, 1)).toMatchObject([{ wrId: 5, byteLen: GRH + 10 }]);
    }
    closeUd(pair);
  });

  it('no receive', async (ground) => {
    const pair = udPair(ground);
    send(pair, 1, 10);
    expect(await polled(pair.a, 1)).toMatchObject([{ status: 'SUCCESS' }]);
    await pass(ground);
    postRecv(pair.b, pair.qpB.handle, 5, 0, 100);
    await goesOn(ground, pair, 5);
    closeUd(pair);
  });

  it('a number that no queue pair has', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB, ah } = pair;
    postRecv(b, qpB.handle, 5, 0, 100);
    postSend(a, qpA.handle, (batch) =>
      batch.send(1, SIGNALED, a.mr.addr, 1, a.mr.lkey).datagramTo(0, ah, 0xfffff0, QKEY),
    );
    expect(await polled(a, 1)).toMatchObject([{ status: 'SUCCESS' }]);
    await goesOn(ground, pair, 5);
    closeUd(pair);
  });

  it('a message of more than one packet is not sent, which is not an error (InfiniBand C10-93.1.1)', async (ground) => {
    const pair = udPair(ground);
    const { activeMtu } = pair.a.p.queryPort(pair.a.context, 1);
    const mtuBytes = V.mtuBytes(activeMtu);
    postRecv(pair.b, pair.qpB.handle, 5, 0, 20000);
    send(pair, 1, mtuBytes + 1);
    expect(await polled(pair.a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    await pass(ground);
    send(pair, 2, mtuBytes);
    await polled(pair.a, 1);
    expect(await polled(pair.b, 1)).toMatchObject([{ wrId: 5, byteLen: GRH + mtuBytes }]);
    closeUd(pair);
  });
});

feature('UD: what is refused when it is posted', NOTES, (it) => {
  it('RDMA and atomics', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA } = pair;
    const reasons = [
      refusal(a, qpA.handle, (w) => w.write(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey)),
      refusal(a, qpA.handle, (w) => w.read(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey)),
      refusal(a, qpA.handle, (w) => w.fetchAdd(1, 0, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n)),
    ];
    expect(reasons).toEqual([V.REASON_OPCODE, V.REASON_OPCODE, V.REASON_OPCODE]);
    closeUd(pair);
  });

  it('a send without an address, in a batch whose slot had one before', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB } = pair;
    const ah = addressHandle(a, b);
    const batch = new V.SendBatch(a.p, { capacity: 1, inlineBytes: 8 });
    const again: (() => unknown)[] = [
      () => batch.send(2, 0, a.mr.addr, 8, a.mr.lkey),
      () => batch.sendImm(2, 0, a.mr.addr, 8, a.mr.lkey, 1),
      () => batch.inline(2, V.IBV_WR_SEND, 0, new Uint8Array(8)),
    ];
    for (const fill of again) {
      batch.clear().send(1, 0, a.mr.addr, 8, a.mr.lkey);
      batch.datagramTo(0, ah, qpB.qpNum, QKEY);
      batch.clear();
      fill();
      expect([a.p.postSend(qpA.handle, batch.ring, 0, 1), batch.reason]).toEqual([0, V.REASON_AH]);
    }
    batch.close();
    a.p.destroyAh(ah);
    closeUd(pair);
  });

  it('no address handle, one that is destroyed, one of another protection domain', async (ground) => {
    const pair = udPair(ground);
    const { a, b, qpA, qpB } = pair;
    const gone = addressHandle(a, b);
    a.p.destroyAh(gone);
    const other = a.p.allocPd(a.context);
    const foreign = addressHandle({ ...a, pd: other }, b);
    for (const ah of [0, 12345, a.pd, gone, foreign]) {
      const reason = refusal(a, qpA.handle, (w) =>
        w.send(1, 0, a.mr.addr, 8, a.mr.lkey).datagramTo(0, ah, qpB.qpNum, QKEY),
      );
      expect(reason).toBe(V.REASON_AH);
    }
    a.p.destroyAh(foreign);
    a.p.deallocPd(other);
    closeUd(pair);
  });

  it('a queue pair that is not in RTS', async (ground) => {
    const pair = udPair(ground);
    const { a, qpB, ah } = pair;
    const fresh = createQp(a, { qpType: V.IBV_QPT_UD });
    const reason = refusal(a, fresh.handle, (w) =>
      w.send(1, 0, a.mr.addr, 8, a.mr.lkey).datagramTo(0, ah, qpB.qpNum, QKEY),
    );
    expect(reason).toBe(V.REASON_STATE);
    a.p.destroyQp(fresh.handle);
    closeUd(pair);
  });
});

feature('UD queue pairs', NOTES, (it) => {
  it('the Q_Key can be queried and changed', async (ground) => {
    const { a, b, qpA, qpB, ah } = udPair(ground);
    expect(a.p.queryQp(qpA.handle).attr).toMatchObject({ qpState: V.IBV_QPS_RTS, qkey: QKEY });
    expect(a.p.queryQp(qpA.handle).init.qpType).toBe(V.IBV_QPT_UD);
    const fresh = createQp(a, { qpType: V.IBV_QPT_UD });
    const init = { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1 };
    expect(() => a.p.modifyQp(fresh.handle, init, V.maskOf(init))).toThrow(/missing IBV_QP_QKEY/);
    const other = { qpState: V.IBV_QPS_RTS, qkey: 5 };
    b.p.modifyQp(qpB.handle, other, V.maskOf(other));
    postRecv(b, qpB.handle, 1, 0, 100);
    send({ a, b, qpA, qpB, ah }, 2, 3, 5);
    await polled(a, 1);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 1, byteLen: GRH + 3 }]);
    a.p.destroyQp(fresh.handle);
    a.p.destroyAh(ah);
    a.p.destroyQp(qpA.handle);
    b.p.destroyQp(qpB.handle);
    closeEnd(a);
    closeEnd(b);
  });
});
