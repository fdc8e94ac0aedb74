// Queue pairs: creation by type, what is granted, queries, changes (counterpart of rdma-core's test_qp.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import {
  ACCESS,
  CAP,
  closeEnd,
  closePair,
  connect,
  connectedPair,
  createQp,
  type End,
  modify,
  openEnd,
  type Pair,
  pass,
  polled,
  postRecv,
  postSend,
  rtrAttrTo,
  toInit,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES = { group: 'qp', others: 'every device' };
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });
const TYPES = [
  ['RC', V.IBV_QPT_RC],
  ['UC', V.IBV_QPT_UC],
  ['UD', V.IBV_QPT_UD],
] as const;

/** The result of queryQp for a queue pair created with CAP. */
function expectCreated(end: End, qp: V.QpInfo, qpType: number, qpState: number, extended: boolean): void {
  const { attr, init } = end.p.queryQp(qp.handle);
  expect(attr.qpState).toBe(qpState);
  expect(init).toMatchObject({ qpType, sqSigAll: false, sendCq: end.cq, recvCq: end.cq });
  expect(init.extended ?? false).toBe(extended);
  // soft-RoCE reports the capacity of its queues, which is more than it granted.
  if (end.ground.name !== 'rxe') expect(init.cap).toEqual(qp.cap);
  for (const [name, granted] of Object.entries(qp.cap)) {
    expect(init.cap[name as keyof V.QpCap], name).toBeGreaterThanOrEqual(granted);
  }
  for (const [name, asked] of Object.entries(CAP)) {
    expect(qp.cap[name as keyof V.QpCap], name).toBeGreaterThanOrEqual(asked);
  }
}

for (const [name, qpType] of TYPES) {
  for (const extended of [false, true]) {
    const by = extended ? 'ibv_create_qp_ex' : 'ibv_create_qp';
    feature(`${name} queue pairs by ${by}`, NOTES, (it) => {
      it('are created in RESET with at least the requested capabilities, and report them', (ground) => {
        const end = openEnd(ground, 0);
        const qp = createQp(end, { qpType, extended });
        expect(qp.qpNum).toBeGreaterThan(0);
        expect(qp.qpNum).toBeLessThan(1 << 24);
        expectCreated(end, qp, qpType, V.IBV_QPS_RESET, extended);
        end.p.destroyQp(qp.handle);
        expect(() => end.p.queryQp(qp.handle)).toThrow(code('HANDLE'));
        closeEnd(end);
      });

      it('move to INIT and, without a connection, on to RTS', (ground) => {
        const end = openEnd(ground, 0);
        const qp = createQp(end, { qpType, extended });
        toInit(end, qp.handle, qpType);
        expectCreated(end, qp, qpType, V.IBV_QPS_INIT, extended);
        end.p.destroyQp(qp.handle);
        const live = createQp(end, { qpType, extended });
        connect(end, live.handle, end, live.qpNum, { qpType });
        expectCreated(end, live, qpType, V.IBV_QPS_RTS, extended);
        end.p.destroyQp(live.handle);
        closeEnd(end);
      });
    });
  }
}

feature('queue pairs that can not be', NOTES, (it) => {
  for (const extended of [false, true]) {
    it(`types that the device does not support, including raw packets, are refused (extended: ${extended})`, (ground) => {
      const end = openEnd(ground, 0);
      for (const qpType of [
        8 /* IBV_QPT_RAW_PACKET */,
        0xff /* IBV_QPT_DRIVER */,
        0,
        1,
        7,
        -1,
        2.5,
        Number.NaN,
      ]) {
        expect(() => createQp(end, { qpType, extended })).toThrow(
          expect.objectContaining({ code: 'ISO_ERR_ARGUMENT', verb: 'createQp' }),
        );
      }
      closeEnd(end);
    });
  }

  for (const field of ['maxSendWr', 'maxRecvWr', 'maxSendSge', 'maxRecvSge', 'maxInlineData'] as const) {
    it(`${field} beyond the device's limit, or not a number, is refused`, (ground) => {
      const end = openEnd(ground, 0);
      for (const qpType of [V.IBV_QPT_RC, V.IBV_QPT_UC, V.IBV_QPT_UD]) {
        for (const extended of [false, true]) {
          const wants = (value: number) => () =>
            createQp(end, { qpType, extended, cap: { ...CAP, [field]: value } });
          expect(wants(0xffffff)).toThrow(V.IsoverbsError);
          for (const wrong of [-1, 0.5, 2 ** 32, Number.NaN]) expect(wants(wrong)).toThrow(code('ARGUMENT'));
        }
      }
      closeEnd(end);
    });
  }

  it("creation without completion queues or a protection domain, or with another context's, is refused", (ground) => {
    const [end, other] = [openEnd(ground, 0), openEnd(ground, 0)];
    for (const wrong of [
      { sendCq: 0 },
      { recvCq: 0 },
      { sendCq: end.pd },
      { recvCq: Number.NaN },
      { sendCq: other.cq },
      { recvCq: other.cq },
      { srq: end.cq },
    ]) {
      expect(() => createQp(end, wrong), JSON.stringify(wrong)).toThrow(V.IsoverbsError);
    }
    for (const pd of [0, end.cq, -1]) expect(() => createQp({ ...end, pd })).toThrow(code('HANDLE'));
    closeEnd(end);
    closeEnd(other);
  });
});

feature('queue pair numbers and handles', NOTES, (it) => {
  it('are distinct for all live queue pairs', (ground) => {
    const end = openEnd(ground, 0);
    const cap = { ...CAP, maxSendWr: 4, maxRecvWr: 4 };
    const qps = Array.from({ length: 60 }, (_, i) => createQp(end, { qpType: TYPES[i % 3][1], cap }));
    expect(new Set(qps.map(({ qpNum }) => qpNum)).size).toBe(60);
    expect(new Set(qps.map(({ handle }) => handle)).size).toBe(60);
    for (const { handle } of qps) end.p.destroyQp(handle);
    for (const { handle } of qps) expect(() => end.p.destroyQp(handle)).toThrow(code('HANDLE'));
    closeEnd(end);
  });

  it('modify, query and destroy reject anything but a queue pair', (ground) => {
    const end = openEnd(ground, 0);
    for (const wrong of [0, -1, 1.5, Number.NaN, end.cq, end.pd, end.mr.handle, '1', null]) {
      const qp = wrong as number;
      expect(() => end.p.modifyQp(qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE)).toThrow(code('HANDLE'));
      expect(() => end.p.queryQp(qp)).toThrow(code('HANDLE'));
      expect(() => end.p.destroyQp(qp)).toThrow(code('HANDLE'));
    }
    closeEnd(end);
  });
});

/** The attributes that queryQp must return. */
const KEPT = { pathMtu: V.IBV_MTU_512, timeout: 15, retryCnt: 5, rnrRetry: 3, minRnrTimer: 12 };

feature('queries and changes', NOTES, (it) => {
  it('an RC queue pair reports every attribute that was set', (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
    const qp = createQp(a);
    toInit(a, qp.handle);
    const access = V.IBV_ACCESS_REMOTE_READ | V.IBV_ACCESS_REMOTE_WRITE;
    modify(a, qp.handle, { qpState: V.IBV_QPS_INIT, qpAccessFlags: access });
    modify(a, qp.handle, {
      qpState: V.IBV_QPS_RTR,
      pathMtu: KEPT.pathMtu,
      destQpNum: 0x1234,
      rqPsn: 0xabcdef,
      ah: { dgid: b.gid, sgidIndex: ground.gidIndex, portNum: 1, hopLimit: 7, trafficClass: 8, flowLabel: 9 },
      maxDestRdAtomic: 3,
      minRnrTimer: KEPT.minRnrTimer,
    });
    const { timeout, retryCnt, rnrRetry } = KEPT;
    modify(a, qp.handle, {
      qpState: V.IBV_QPS_RTS,
      sqPsn: 0x123456,
      timeout,
      retryCnt,
      rnrRetry,
      maxRdAtomic: 2,
    });
    const { attr } = a.p.queryQp(qp.handle);
    expect(attr).toMatchObject({
      ...KEPT,
      qpState: V.IBV_QPS_RTS,
      destQpNum: 0x1234,
      rqPsn: 0xabcdef,
      sqPsn: 0x123456,
      portNum: 1,
      pkeyIndex: 0,
    });
    expect((attr.qpAccessFlags ?? 0) & ACCESS).toBe(access);
    expect(attr.ah).toMatchObject({ dgid: b.gid, sgidIndex: ground.gidIndex, trafficClass: 8 });
    // The kernel chooses the hop limit of RoCE v2.
    expect(attr.ah?.hopLimit).toBe(ground.name === 'rxe' ? 64 : 7);
    a.p.destroyQp(qp.handle);
    closeEnd(a);
    closeEnd(b);
  });

  it('limits of READs and atomics change in SQD, for both directions', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    for (const [end, qp] of [
      [a, qpA.handle],
      [b, qpB.handle],
    ] as const) {
      modify(end, qp, { qpState: V.IBV_QPS_SQD });
      await pass(ground);
      modify(end, qp, { qpState: V.IBV_QPS_SQD, maxRdAtomic: 2, maxDestRdAtomic: 2 });
      expect(end.p.queryQp(qp).attr).toMatchObject({ maxRdAtomic: 2, maxDestRdAtomic: 2 });
      modify(end, qp, { qpState: V.IBV_QPS_RTS });
    }
    postSend(a, qpA.handle, (batch) => {
      for (let i = 0; i < 8; i++) {
        batch.read(i, SIGNALED, a.mr.addr + 512 * i, 512, a.mr.lkey, b.mr.addr + 8192, b.mr.rkey);
      }
    });
    expect((await polled(a, 8)).every(({ status }) => status === 'SUCCESS')).toBe(true);
    closePair(pair);
  });

  it('a UD queue pair keeps its Q_Key and first PSN, and changes the Q_Key in RTS', (ground) => {
    for (const extended of [false, true]) {
      const end = openEnd(ground, 0);
      const qp = createQp(end, { qpType: V.IBV_QPT_UD, extended });
      modify(end, qp.handle, { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qkey: 0x123 });
      expect(end.p.queryQp(qp.handle).attr.qkey).toBe(0x123);
      modify(end, qp.handle, { qpState: V.IBV_QPS_RTR });
      modify(end, qp.handle, { qpState: V.IBV_QPS_RTS, sqPsn: 0x45 });
      expect(end.p.queryQp(qp.handle).attr).toMatchObject({ sqPsn: 0x45, qkey: 0x123 });
      modify(end, qp.handle, { qpState: V.IBV_QPS_RTS, qkey: 0x456 });
      expect(end.p.queryQp(qp.handle).attr.qkey).toBe(0x456);
      end.p.destroyQp(qp.handle);
      closeEnd(end);
    }
  });

  it('a UD queue pair accepts a privileged Q_Key, one with the highest bit set', (ground) => {
    const end = openEnd(ground, 0);
    const qp = createQp(end, { qpType: V.IBV_QPT_UD });
    modify(end, qp.handle, { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qkey: 0x80010000 });
    expect(end.p.queryQp(qp.handle).attr.qkey).toBe(0x80010000);
    end.p.destroyQp(qp.handle);
    closeEnd(end);
  });

  it('unknown attributes are refused, and change nothing', (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    const before = a.p.queryQp(qpA.handle);
    const wrong: V.QpAttr[] = [
      { minRnrTimer: 32 },
      { minRnrTimer: -1 },
      { qpAccessFlags: 1 << 12 },
      { qpState: 7 },
      { curQpState: 9, qpState: V.IBV_QPS_RTS },
    ];
    for (const attr of wrong) {
      expect(() => modify(a, qpA.handle, attr), JSON.stringify(attr)).toThrow(V.IsoverbsError);
    }
    expect(() => a.p.modifyQp(qpA.handle, {}, V.IBV_QP_STATE)).toThrow(code('ARGUMENT'));
    expect(() => a.p.modifyQp(qpA.handle, { qpState: V.IBV_QPS_RTS }, 1 << 30)).toThrow(V.IsoverbsError);
    expect(a.p.queryQp(qpA.handle)).toEqual(before);
    closePair(pair);
  });
});

function sendAll({ a, qpA, qpB, b }: Pair, count: number, flags: number): void {
  for (let i = 0; i < count; i++) postRecv(b, qpB.handle, i, 4096, 64);
  postSend(a, qpA.handle, (batch) => {
    for (let i = 0; i < count; i++) batch.send(i, flags, a.mr.addr, 8, a.mr.lkey);
  });
}

feature('RC queue pairs', NOTES, (it) => {
  for (const bytes of [0, 1, 1024, 1025, 3000]) {
    it(`SEND of ${bytes} bytes lands in the receive and completes on both sides`, async (ground) => {
      const pair = connectedPair(ground);
      const { a, b, qpA, qpB } = pair;
      a.bytes.fill(7, 0, bytes);
      postRecv(b, qpB.handle, 5, 4096, 3000);
      postSend(a, qpA.handle, (batch) => batch.send(9, SIGNALED, a.mr.addr, bytes, a.mr.lkey));
      expect(await polled(a, 1)).toMatchObject([{ wrId: 9, status: 'SUCCESS', opcode: 'SEND' }]);
      expect(await polled(b, 1)).toMatchObject([
        { wrId: 5, status: 'SUCCESS', opcode: 'RECV', byteLen: bytes },
      ]);
      expect(b.bytes.subarray(4096, 4096 + bytes).every((byte) => byte === 7)).toBe(true);
      expect(b.bytes[4096 + bytes]).toBe(0);
      closePair(pair);
    });
  }

  it('flags of completions (soft-RoCE: a GRH on every receive, an immediate on the send too)', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    for (const id of [0, 1]) postRecv(b, qpB.handle, id, 4096, 64);
    postSend(a, qpA.handle, (batch) => {
      batch.send(2, SIGNALED, a.mr.addr, 8, a.mr.lkey);
      batch.sendImm(3, SIGNALED, a.mr.addr, 8, a.mr.lkey, 1);
    });
    const rxe = ground.name === 'rxe';
    const grh = rxe ? V.IBV_WC_GRH : 0;
    expect((await polled(b, 2)).map(({ flags }) => flags)).toEqual([grh, grh | V.IBV_WC_WITH_IMM]);
    expect((await polled(a, 2)).map(({ flags }) => flags)).toEqual([0, rxe ? V.IBV_WC_WITH_IMM : 0]);
    closePair(pair);
  });

  it('with sq_sig_all every request completes; without it, only signaled ones', async (ground) => {
    for (const sqSigAll of [true, false]) {
      const pair = connectedPair(ground, { init: { sqSigAll } });
      const { a, b, qpA } = pair;
      expect(a.p.queryQp(qpA.handle).init.sqSigAll).toBe(sqSigAll);
      sendAll(pair, 4, 0);
      postSend(a, qpA.handle, (w) => w.write(9, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey));
      const ids = (await polled(a, sqSigAll ? 5 : 1)).map(({ wrId }) => wrId);
      expect(ids).toEqual(sqSigAll ? [0, 1, 2, 3, 9] : [9]);
      closePair(pair);
    }
  });

  it('send and receive queues may complete on different completion queues', async (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
    const recvCq = b.p.createCq(b.context, 16, 0).handle;
    const [qpA, qpB] = [createQp(a), createQp(b, { recvCq })];
    connect(a, qpA.handle, b, qpB.qpNum);
    connect(b, qpB.handle, a, qpA.qpNum);
    sendAll({ a, b, qpA, qpB }, 1, SIGNALED);
    expect(await polled(b, 1, recvCq)).toMatchObject([{ wrId: 0, opcode: 'RECV' }]);
    postSend(b, qpB.handle, (w) => w.write(7, SIGNALED, b.mr.addr, 8, b.mr.lkey, a.mr.addr, a.mr.rkey));
    expect(await polled(b, 1)).toMatchObject([{ wrId: 7, opcode: 'RDMA_WRITE' }]);
    a.p.destroyQp(qpA.handle);
    b.p.destroyQp(qpB.handle);
    b.p.destroyCq(recvCq);
    closeEnd(a);
    closeEnd(b);
  });

  it('inline data may have the granted length, and no more', async (ground) => {
    const pair = connectedPair(ground, { init: { cap: { ...CAP, maxInlineData: 64 } } });
    const { a, b, qpA, qpB } = pair;
    const { maxInlineData } = qpA.cap;
    expect(maxInlineData).toBeGreaterThanOrEqual(64);
    postRecv(b, qpB.handle, 1, 4096, 4096);
    const batch = new V.SendBatch(a.p, { capacity: 2, inlineBytes: maxInlineData + 1 });
    batch.inline(2, V.IBV_WR_SEND, SIGNALED, new Uint8Array(maxInlineData).fill(3));
    batch.inline(3, V.IBV_WR_SEND, SIGNALED, new Uint8Array(maxInlineData + 1));
    expect(a.p.postSend(qpA.handle, batch.ring, 0, 2)).toBe(1);
    expect(batch.reason).toBe(V.REASON_INLINE);
    batch.close();
    expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 1, byteLen: maxInlineData }]);
    expect(b.bytes.subarray(4096, 4096 + maxInlineData).every((byte) => byte === 3)).toBe(true);
    closePair(pair);
  });

  it('a message longer than its receive fails both ends (soft-RoCE: with a different status)', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    postRecv(b, qpB.handle, 1, 4096, 99);
    postSend(a, qpA.handle, (batch) => batch.send(2, SIGNALED, a.mr.addr, 100, a.mr.lkey));
    const [sender, receiver] =
      ground.name === 'rxe' ? ['REM_OP_ERR', 'LOC_QP_OP_ERR'] : ['REM_INV_REQ_ERR', 'LOC_LEN_ERR'];
    expect((await polled(a, 1))[0]).toMatchObject({ wrId: 2, status: sender });
    expect((await polled(b, 1))[0]).toMatchObject({ wrId: 1, status: receiver });
    expect(a.p.queryQp(qpA.handle).attr.qpState).toBe(V.IBV_QPS_ERR);
    closePair(pair);
  });

  it('a SEND without a receive is retried rnrRetry times', async (ground) => {
    const pair = connectedPair(ground, { rnrRetry: 1 });
    const { a, qpA } = pair;
    postSend(a, qpA.handle, (batch) => batch.send(2, SIGNALED, a.mr.addr, 100, a.mr.lkey));
    expect((await polled(a, 1))[0]).toMatchObject({ wrId: 2, status: 'RNR_RETRY_EXC_ERR' });
    closePair(pair);
  });

  it('a peer that does not exist: RETRY_EXC_ERR', async (ground) => {
    const pair = connectedPair(ground, { retryCnt: 1, timeout: 12 });
    const { a, b, qpA, qpB } = pair;
    modify(b, qpB.handle, { qpState: V.IBV_QPS_RESET });
    postSend(a, qpA.handle, (w) => w.write(2, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey));
    expect((await polled(a, 1))[0]).toMatchObject({ wrId: 2, status: 'RETRY_EXC_ERR' });
    closePair(pair);
  });

  it('receives may be posted from INIT on, sends from RTS on', async (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
    const [qpA, qpB] = [createQp(a), createQp(b)];
    expect(() => postRecv(b, qpB.handle, 1, 0, 64)).toThrow(/state/);
    toInit(b, qpB.handle);
    postRecv(b, qpB.handle, 2, 4096, 64);
    b.p.modifyQp(
      qpB.handle,
      { qpState: V.IBV_QPS_INIT, qpAccessFlags: ACCESS },
      V.IBV_QP_STATE | V.IBV_QP_ACCESS_FLAGS,
    );
    connect(a, qpA.handle, b, qpB.qpNum);
    modify(b, qpB.handle, rtrAttrTo(b, V.IBV_QPT_RC, a, qpA.qpNum));
    expect(() =>
      postSend(b, qpB.handle, (batch) => batch.send(3, SIGNALED, b.mr.addr, 8, b.mr.lkey)),
    ).toThrow(/state/);
    postSend(a, qpA.handle, (batch) => batch.send(4, SIGNALED, a.mr.addr, 8, a.mr.lkey));
    expect(await polled(b, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS', byteLen: 8 }]);
    a.p.destroyQp(qpA.handle);
    b.p.destroyQp(qpB.handle);
    closeEnd(a);
    closeEnd(b);
  });
});
