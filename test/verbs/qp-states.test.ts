// Queue pair states beyond the way to RTS: SQD, SQE, ERR, RESET (counterpart of the state cases of test_qp.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, until } from './ground.ts';
import {
  closeEnd,
  closePair,
  connect,
  connectedPair,
  createQp,
  modify,
  openEnd,
  type Pair,
  polled,
  postRecv,
  postSend,
  toInit,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

function write({ a, b, qpA }: Pair, wrId: number, lkey = a.mr.lkey): void {
  postSend(a, qpA.handle, (batch) => batch.write(wrId, SIGNALED, a.mr.addr, 64, lkey, b.mr.addr, b.mr.rkey));
}

function stateOf({ a, qpA }: Pair): number | undefined {
  return a.p.queryQp(qpA.handle).attr.qpState;
}

feature('ERR and RESET', { group: 'qp', others: 'every device' }, (it) => {
  it('ERR flushes both queues and what is posted later; RESET empties them', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    postRecv(a, qpA.handle, 1, 0, 64);
    modify(a, qpA.handle, { qpState: V.IBV_QPS_ERR });
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'WR_FLUSH_ERR' }]);
    write(pair, 2);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'WR_FLUSH_ERR' }]);
    // soft-RoCE does not look at receives that are posted in ERR.
    if (ground.name === 'sim') {
      postRecv(a, qpA.handle, 3, 0, 64);
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

  it('transitions that do not exist are refused by name', (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    expect(() =>
      modify(a, qpA.handle, { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags: 0 }),
    ).toThrow(code('STATE'));
    expect(() => modify(a, qpA.handle, { qpState: 9 })).toThrow(code('ARGUMENT'));
    expect(stateOf(pair)).toBe(V.IBV_QPS_RTS);
    closePair(pair);
  });
});

feature('SQD', { group: 'qp', others: 'every device' }, (it) => {
  it('requests posted in SQD wait for RTS', async (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    write(pair, 1);
    await polled(a, 1);
    modify(a, qpA.handle, { qpState: V.IBV_QPS_SQD });
    expect(stateOf(pair)).toBe(V.IBV_QPS_SQD);
    modify(a, qpA.handle, { qpState: V.IBV_QPS_RTS });
    write(pair, 2);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    closePair(pair);
  });
});

const { IBV_EVENT_SQ_DRAINED } = V;
feature(
  'SQD with an event',
  { group: 'qp', refusedBy: [], others: 'devices that raise SQ_DRAINED' },
  (it) => {
    it('SQ_DRAINED comes when what began is finished', async (ground) => {
      // soft-RoCE tells only of work in flight, which here is a matter of luck.
      if (ground.name === 'rxe') return;
      const pair = connectedPair(ground);
      const { a, qpA } = pair;
      const events: [event: number, element: number][] = [];
      a.p.watchAsyncEvents(a.context, (event, element) => events.push([event, element]));
      for (let i = 0; i < 3; i++) write(pair, i);
      modify(a, qpA.handle, { qpState: V.IBV_QPS_SQD, enSqdAsyncNotify: 1 });
      await until(ground, 'the event', () => events.length > 0);
      expect(events).toEqual([[IBV_EVENT_SQ_DRAINED, qpA.handle]]);
      expect(a.p.queryQp(qpA.handle).attr).toMatchObject({ qpState: V.IBV_QPS_SQD, sqDraining: false });
      modify(a, qpA.handle, { qpState: V.IBV_QPS_SQD, minRnrTimer: 5 });
      modify(a, qpA.handle, { qpState: V.IBV_QPS_RTS });
      expect((await polled(a, 3)).map((wc) => [wc.wrId, wc.status])).toEqual(
        [0, 1, 2].map((id) => [id, 'SUCCESS']),
      );
      closePair(pair);
    });
  },
);

feature('SQE', { group: 'qp', others: 'every device; soft-RoCE goes to ERR' }, (it) => {
  it('a failed send of an unreliable queue pair flushes the sends behind it; receives go on', async (ground) => {
    const pair = connectedPair(ground, { qpType: V.IBV_QPT_UC });
    const { a, b, qpA, qpB } = pair;
    postRecv(a, qpA.handle, 7, 4096, 64);
    postSend(a, qpA.handle, (batch) => {
      batch.write(1, SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
      batch.write(2, SIGNALED, a.mr.addr, 64, a.mr.lkey ^ 0x7f000000, b.mr.addr, b.mr.rkey);
      batch.write(3, 0, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
    });
    const failed = await polled(a, 3);
    if (ground.name === 'rxe') return;
    expect(failed.map((wc) => [wc.wrId, wc.status])).toEqual([
      [1, 'SUCCESS'],
      [2, 'LOC_PROT_ERR'],
      [3, 'WR_FLUSH_ERR'],
    ]);
    expect(stateOf(pair)).toBe(V.IBV_QPS_SQE);
    write(pair, 4);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 4, status: 'WR_FLUSH_ERR' }]);
    postSend(b, qpB.handle, (batch) => batch.send(5, 0, b.mr.addr, 8, b.mr.lkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 7, status: 'SUCCESS', opcode: 'RECV' }]);
    modify(a, qpA.handle, { qpState: V.IBV_QPS_RTS, curQpState: V.IBV_QPS_SQE });
    b.bytes.fill(0);
    a.bytes.fill(9, 0, 64);
    write(pair, 6);
    expect(await polled(a, 1)).toMatchObject([{ wrId: 6, status: 'SUCCESS' }]);
    await until(ground, 'the bytes', () => b.bytes[63] === 9);
    closePair(pair);
  });
});
