// Queue pair states beyond RTS: SQD, SQE, ERR, RESET (counterpart of the state cases of test_qp.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, until } from './ground.ts';
import {
  closeEnd,
  closePair,
  connect,
  connectedPair,
  createQp,
  type End,
  eventsOf,
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
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

function write({ a, b, qpA }: Pair, wrId: number, lkey = a.mr.lkey): void {
  postSend(a, qpA.handle, (batch) => batch.write(wrId, SIGNALED, a.mr.addr, 64, lkey, b.mr.addr, b.mr.rkey));
}

/** Whether no completion has arrived. */
function nothing(end: End): boolean {
  const wcs = new V.WcBatch(end.p, { capacity: 1 });
  const there = end.p.pollCq(end.cq, wcs.ring, 0, 1);
  wcs.close();
  return there === 0;
}

function stateOf({ a, qpA }: Pair): number | undefined {
  return a.p.queryQp(qpA.handle).attr.qpState;
}

feature('ERR and RESET', { group: 'qp', others: 'every device' }, (it) => {
  it('ERR flushes both queues and later posts (soft-RoCE: except receives); RESET empties them', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    postRecv(a, qpA.handle, 1, 0, 64);
    modify(a, qpA.handle, { qpState: V.IBV_QPS_ERR });
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'WR_FLUSH_ERR' }]);
    write(pair, 2);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'WR_FLUSH_ERR' }]);
    postRecv(a, qpA.handle, 3, 0, 64);
    if (ground.name !== 'rxe') {
      expect(await polled(a, 1)).toMatchObject([{ wrId: 3, status: 'WR_FLUSH_ERR' }]);
    } else {
      // On soft-RoCE, only another move to ERR flushes later receives.
      await pass(ground);
      expect(nothing(a)).toBe(true);
      modify(a, qpA.handle, { qpState: V.IBV_QPS_ERR });
      expect(await polled(a, 1)).toMatchObject([{ wrId: 3, status: 'WR_FLUSH_ERR' }]);
    }
    for (const [end, qp] of [
      [a, qpA],
      [b, qpB],
    ] as const)
      modify(end, qp.handle, { qpState: V.IBV_QPS_RESET });
    connect(a, qpA.handle, b, qpB.qpNum);
    connect(b, qpB.handle, a, qpA.qpNum);
    write(pair, 4);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 4, status: 'SUCCESS' }]);
    closePair(pair);
  });

  it('both are reached from every state, but ERR not from RESET', (ground) => {
    const end = openEnd(ground, 0);
    for (const to of [V.IBV_QPS_ERR, V.IBV_QPS_RESET]) {
      for (const steps of [0, 1, 2]) {
        const qp = createQp(end);
        if (steps === 1) toInit(end, qp.handle);
        if (steps === 2) connect(end, qp.handle, end, qp.qpNum);
        if (steps === 0 && to === V.IBV_QPS_ERR) {
          expect(() => modify(end, qp.handle, { qpState: to })).toThrow(code('STATE'));
          end.p.destroyQp(qp.handle);
          continue;
        }
        modify(end, qp.handle, { qpState: to });
        expect(end.p.queryQp(qp.handle).attr.qpState).toBe(to);
        end.p.destroyQp(qp.handle);
      }
    }
    closeEnd(end);
  });
});

const NAMES = ['RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR'];
const { IBV_QPS_RESET: RESET, IBV_QPS_INIT: INIT, IBV_QPS_RTR: RTR, IBV_QPS_RTS: RTS } = V;
const { IBV_QPS_SQD: SQD, IBV_QPS_SQE: SQE, IBV_QPS_ERR: ERR } = V;

/** InfiniBand 10.3.1: the permitted transitions from each state that modifyQp can set. */
const WAYS: readonly [from: number, to: readonly number[]][] = [
  [RESET, [RESET, INIT]],
  [INIT, [RESET, INIT, RTR, ERR]],
  [RTR, [RESET, RTS, ERR]],
  [RTS, [RESET, RTS, SQD, ERR]],
  [SQD, [RESET, RTS, SQD, ERR]],
  [ERR, [RESET, ERR]],
];

/** The attributes that a queue pair of this type requires for a transition. */
function wanted(end: End, qpType: number, from: number, to: number): V.QpAttr {
  const requests = qpType === V.IBV_QPT_RC;
  if (from === RESET && to === INIT) {
    const access = qpType === V.IBV_QPT_UD ? { qkey: 5 } : { qpAccessFlags: 0 };
    return { qpState: to, pkeyIndex: 0, portNum: 1, ...access };
  }
  if (from === INIT && to === RTR) return rtrAttrTo(end, qpType, end, 1);
  if (from === RTR && to === RTS) {
    return {
      qpState: to,
      sqPsn: 1,
      ...(requests && { timeout: 14, retryCnt: 1, rnrRetry: 1, maxRdAtomic: 1 }),
    };
  }
  return { qpState: to };
}

/** A queue pair of this type in this state. */
function inState(end: End, qpType: number, state: number): number {
  const qp = createQp(end, { qpType }).handle;
  const way = state === ERR ? [RESET, INIT, ERR] : [RESET, INIT, RTR, RTS, SQD].slice(0, 1 + state);
  for (let i = 1; i < way.length; i++) modify(end, qp, wanted(end, qpType, way[i - 1], way[i]));
  expect(end.p.queryQp(qp).attr.qpState).toBe(state);
  return qp;
}

for (const [name, qpType] of [
  ['RC', V.IBV_QPT_RC],
  ['UC', V.IBV_QPT_UC],
  ['UD', V.IBV_QPT_UD],
] as const) {
  feature(`states of ${name} queue pairs`, { group: 'qp', others: 'every device' }, (it) => {
    for (const [from, allowed] of WAYS) {
      it(`from ${NAMES[from]} to ${allowed.map((to) => NAMES[to]).join(', ')}, and nowhere else`, (ground) => {
        const end = openEnd(ground, 0);
        for (let to = 0; to < NAMES.length; to++) {
          const qp = inState(end, qpType, from);
          const attr = wanted(end, qpType, from, to);
          if (allowed.includes(to)) modify(end, qp, attr);
          else expect(() => modify(end, qp, attr), NAMES[to]).toThrow(code('STATE'));
          expect(end.p.queryQp(qp).attr.qpState).toBe(allowed.includes(to) ? to : from);
          end.p.destroyQp(qp);
        }
        closeEnd(end);
      });
    }

    it('a missing attribute of a transition is named', (ground) => {
      const end = openEnd(ground, 0);
      for (const [from, to] of [
        [RESET, INIT],
        [INIT, RTR],
        [RTR, RTS],
      ]) {
        const attr = wanted(end, qpType, from, to);
        for (const left of Object.keys(attr).filter((field) => field !== 'qpState')) {
          const qp = inState(end, qpType, from);
          const rest = { ...attr, [left]: undefined };
          const bit = /missing IBV_QP_[A-Z_]+$/;
          expect(() => modify(end, qp, rest), `${NAMES[to]} without ${left}`).toThrow(bit);
          expect(end.p.queryQp(qp).attr.qpState).toBe(from);
          modify(end, qp, attr);
          end.p.destroyQp(qp);
        }
      }
      closeEnd(end);
    });

    it('attributes of other transitions are refused by name', (ground) => {
      const end = openEnd(ground, 0);
      const foreign: [from: number, to: number, attr: V.QpAttr, bit: RegExp][] = [
        [RESET, INIT, { sqPsn: 1 }, /disallowed IBV_QP_SQ_PSN/],
        [INIT, RTR, { retryCnt: 1 }, /disallowed IBV_QP_RETRY_CNT/],
        [RTR, RTS, { destQpNum: 1 }, /disallowed IBV_QP_DEST_QPN/],
        [RTS, RTS, { rqPsn: 1 }, /disallowed IBV_QP_RQ_PSN/],
        [RTS, SQD, { portNum: 1 }, /disallowed IBV_QP_PORT/],
        [RTS, ERR, { sqPsn: 1 }, /disallowed IBV_QP_SQ_PSN/],
      ];
      for (const [from, to, attr, bit] of foreign) {
        const qp = inState(end, qpType, from);
        expect(() => modify(end, qp, { ...wanted(end, qpType, from, to), ...attr })).toThrow(bit);
        expect(end.p.queryQp(qp).attr.qpState).toBe(from);
        end.p.destroyQp(qp);
      }
      closeEnd(end);
    });

    it('curQpState must be the state that the queue pair is in', (ground) => {
      const end = openEnd(ground, 0);
      for (const state of [INIT, RTS, ERR]) {
        const qp = inState(end, qpType, state);
        const other = state === RTS ? SQE : RTS;
        expect(() => modify(end, qp, { qpState: RTS, curQpState: other })).toThrow(code('STATE'));
        expect(end.p.queryQp(qp).attr.qpState).toBe(state);
        if (state === RTS) modify(end, qp, { qpState: RTS, curQpState: RTS });
        end.p.destroyQp(qp);
      }
      closeEnd(end);
    });

    it('unknown states are rejected', (ground) => {
      const end = openEnd(ground, 0);
      const qp = inState(end, qpType, RTS);
      for (const qpState of [7, -1, 1.5, Number.NaN]) {
        expect(() => modify(end, qp, { qpState })).toThrow(code('ARGUMENT'));
      }
      expect(end.p.queryQp(qp).attr.qpState).toBe(RTS);
      end.p.destroyQp(qp);
      closeEnd(end);
    });
  });
}

feature('SQD', { group: 'qp', others: 'every device' }, (it) => {
  it('requests posted in SQD wait for RTS (soft-RoCE: for the next post after it)', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    write(pair, 1);
    await polled(a, 1);
    a.bytes.fill(6, 0, 64);
    modify(a, qpA.handle, { qpState: SQD });
    write(pair, 2);
    await pass(ground);
    expect(nothing(a)).toBe(true);
    expect([stateOf(pair), b.bytes[0]]).toEqual([SQD, 0]);
    modify(a, qpA.handle, { qpState: RTS });
    // On soft-RoCE, only a post wakes the send queue.
    if (ground.name !== 'rxe') expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    write(pair, 3);
    expect((await polled(a, ground.name === 'rxe' ? 2 : 1)).at(-1)).toMatchObject({
      wrId: 3,
      status: 'SUCCESS',
    });
    expect(b.bytes[63]).toBe(6);
    closePair(pair);
  });

  it('receives still complete', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    modify(a, qpA.handle, { qpState: SQD });
    postRecv(a, qpA.handle, 1, 4096, 64);
    postSend(b, qpB.handle, (batch) => batch.send(2, SIGNALED, b.mr.addr, 8, b.mr.lkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS', byteLen: 8 }]);
    expect(stateOf(pair)).toBe(SQD);
    closePair(pair);
  });

  it('ERR in SQD flushes waiting requests', async (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    modify(a, qpA.handle, { qpState: SQD });
    await pass(ground);
    write(pair, 1);
    write(pair, 2);
    modify(a, qpA.handle, { qpState: ERR });
    expect((await polled(a, 2)).map((wc) => [wc.wrId, wc.status])).toEqual([
      [1, 'WR_FLUSH_ERR'],
      [2, 'WR_FLUSH_ERR'],
    ]);
    closePair(pair);
  });
});

feature('SQD with an event', { group: 'qp', others: 'devices that raise SQ_DRAINED' }, (it) => {
  it('SQ_DRAINED is raised once, when started requests have finished; nothing is lost', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const events = eventsOf(a);
    for (let i = 0; i < 8; i++) write(pair, i);
    modify(a, qpA.handle, { qpState: SQD, enSqdAsyncNotify: 1 });
    await until(ground, 'the event', () => events.length > 0);
    await pass(ground);
    expect(events).toEqual([{ event: V.IBV_EVENT_SQ_DRAINED, element: qpA.handle }]);
    expect(stateOf(pair)).toBe(SQD);
    // Started requests have completed in order; the others wait untouched.
    const wcs = new V.WcBatch(a.p, { capacity: 9 });
    const begun = a.p.pollCq(a.cq, wcs.ring, 0, 9);
    const ids = Array.from({ length: begun }, (_, i) => wcs.wrId(i));
    expect(ids).toEqual(Array.from({ length: begun }, (_, i) => i));
    await pass(ground);
    expect(a.p.pollCq(a.cq, wcs.ring, 0, 9)).toBe(0);
    wcs.close();
    modify(a, qpA.handle, { qpState: RTS });
    a.bytes.fill(5, 0, 64);
    write(pair, 8);
    const rest = await polled(a, 9 - begun);
    expect(rest.map((wc) => [wc.wrId, wc.status])).toEqual(
      Array.from({ length: 9 - begun }, (_, i) => [begun + i, 'SUCCESS']),
    );
    expect(b.bytes[63]).toBe(5);
    closePair(pair);
  });

  it('without enSqdAsyncNotify it is not raised (soft-RoCE raises it anyway)', async (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    const events = eventsOf(a);
    modify(a, qpA.handle, { qpState: SQD });
    await pass(ground);
    const expected = ground.name === 'rxe' ? [{ event: V.IBV_EVENT_SQ_DRAINED, element: qpA.handle }] : [];
    expect(events).toEqual(expected);
    closePair(pair);
  });

  it('attributes change in SQD, and the queue pair continues with them', async (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    const events = eventsOf(a);
    modify(a, qpA.handle, { qpState: SQD, enSqdAsyncNotify: 1 });
    await until(ground, 'the event', () => events.length > 0);
    expect(a.p.queryQp(qpA.handle).attr.sqDraining).toBe(false);
    modify(a, qpA.handle, { qpState: SQD, minRnrTimer: 5, retryCnt: 3 });
    expect(a.p.queryQp(qpA.handle).attr).toMatchObject({ qpState: SQD, minRnrTimer: 5, retryCnt: 3 });
    modify(a, qpA.handle, { qpState: RTS });
    write(pair, 1);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    closePair(pair);
  });
});

/** A queue pair whose second of three requests fails locally, with a receive waiting. */
async function failedSend(pair: Pair): Promise<[wrId: number, status: string][]> {
  const { a, b, qpA } = pair;
  postRecv(a, qpA.handle, 7, 4096, 64);
  postSend(a, qpA.handle, (batch) => {
    batch.write(1, SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
    batch.write(2, SIGNALED, a.mr.addr, 64, a.mr.lkey ^ 0x7f000000, b.mr.addr, b.mr.rkey);
    batch.write(3, 0, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
  });
  const count = pair.a.ground.name === 'rxe' ? 4 : 3;
  return (await polled(a, count)).map((wc) => [wc.wrId, wc.status]);
}

feature('SQE', { group: 'qp', others: 'every device; soft-RoCE goes to ERR' }, (it) => {
  it('a failed send of UC flushes the sends behind it, receives continue (soft-RoCE: ERR)', async (ground) => {
    const pair = connectedPair(ground, { qpType: V.IBV_QPT_UC });
    const { a, b, qpA, qpB } = pair;
    const failed = await failedSend(pair);
    if (ground.name === 'rxe') {
      expect(failed.sort(([x], [y]) => x - y)).toEqual([
        [1, 'SUCCESS'],
        [2, 'LOC_QP_OP_ERR'],
        [3, 'WR_FLUSH_ERR'],
        [7, 'WR_FLUSH_ERR'],
      ]);
      expect(stateOf(pair)).toBe(ERR);
      expect(() => modify(a, qpA.handle, { qpState: RTS, curQpState: SQE })).toThrow(code('STATE'));
      closePair(pair);
      return;
    }
    expect(failed).toEqual([
      [1, 'SUCCESS'],
      [2, 'LOC_PROT_ERR'],
      [3, 'WR_FLUSH_ERR'],
    ]);
    expect(stateOf(pair)).toBe(SQE);
    write(pair, 4);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 4, status: 'WR_FLUSH_ERR' }]);
    postSend(b, qpB.handle, (batch) => batch.send(5, 0, b.mr.addr, 8, b.mr.lkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 7, status: 'SUCCESS', opcode: 'RECV' }]);
    for (const qpState of [INIT, RTR, SQD]) {
      expect(() => modify(a, qpA.handle, { ...wanted(a, V.IBV_QPT_UC, RESET, qpState), qpState })).toThrow(
        code('STATE'),
      );
    }
    modify(a, qpA.handle, { qpState: RTS, curQpState: SQE });
    b.bytes.fill(0);
    a.bytes.fill(9, 0, 64);
    write(pair, 6);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 6, status: 'SUCCESS' }]);
    await until(ground, 'the bytes', () => b.bytes[63] === 9);
    closePair(pair);
  });

  it('a failed send of RC fails the queue pair: ERR, which also flushes receives', async (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    postRecv(a, qpA.handle, 7, 4096, 64);
    write(pair, 1, a.mr.lkey ^ 0x7f000000);
    const status = ground.name === 'rxe' ? 'LOC_QP_OP_ERR' : 'LOC_PROT_ERR';
    const failed = (await polled(a, 2)).map((wc) => [wc.wrId, wc.status]).sort();
    expect(failed).toEqual([
      [1, status],
      [7, 'WR_FLUSH_ERR'],
    ]);
    expect(stateOf(pair)).toBe(ERR);
    closePair(pair);
  });
});
