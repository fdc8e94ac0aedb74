/**
 * Asynchronous events of simulated devices: which error raises which event (InfiniBand 11.6.3), and which
 * contexts get it.
 */
import { describe, expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import {
  ALL_ACCESS,
  drain,
  type End,
  makeEnd,
  modify,
  pair,
  post,
  postRecv,
  SIGNALED,
  toInit,
  toRtr,
  toRts,
} from './helpers.ts';

type Heard = [event: number, element: number][];

function listen(end: End): Heard {
  const heard: Heard = [];
  end.v.watchAsyncEvents(end.context, (event, element) => heard.push([event, element]));
  return heard;
}

/** Events are delivered on a fresh stack. */
async function told(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe('queue pairs', () => {
  test('a remote access error raises QP_ACCESS_ERR at the responder, and nothing at the requester', async () => {
    const [a, b, fabric] = pair();
    const [ofA, ofB] = [listen(a), listen(b)];
    a.send.write(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey ^ 0x100);
    post(a);
    expect(drain(fabric, a)).toMatchObject([{ status: 'REM_ACCESS_ERR' }]);
    await told();
    expect(ofA).toEqual([]);
    expect(ofB).toEqual([[V.IBV_EVENT_QP_ACCESS_ERR, b.qp]]);
  });

  test('a request that the queue pair does not permit raises QP_REQ_ERR', async () => {
    const [a, b, fabric] = pair({}, {}, { qpAccess: V.IBV_ACCESS_LOCAL_WRITE });
    const heard = listen(b);
    a.send.read(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    drain(fabric, a);
    await told();
    expect(heard).toEqual([[V.IBV_EVENT_QP_REQ_ERR, b.qp]]);
  });

  test('an error reported by a completion raises no event', async () => {
    const [a, b, fabric] = pair();
    const [ofA, ofB] = [listen(a), listen(b)];
    b.recv.recv(1, b.mr.addr, 8, b.mr.lkey);
    postRecv(b);
    a.send.send(1, 0, a.mr.addr, 9, a.mr.lkey);
    post(a);
    expect(drain(fabric, a)).toMatchObject([{ status: 'REM_INV_REQ_ERR' }]);
    await told();
    expect([ofA, ofB]).toEqual([[], []]);
  });

  test('COMM_EST is raised once when the peer sends before this end is in RTS, and again after RESET', async () => {
    const fabric = createFabric({ autoAdvance: false });
    const [a, b] = [makeEnd(fabric, 0), makeEnd(fabric, 1)];
    const heard = listen(b);
    for (let round = 1; round <= 2; round++) {
      for (const end of [a, b]) toInit(end);
      toRtr(a, b);
      toRtr(b, a);
      toRts(a);
      for (let i = 0; i < 3; i++) a.send.write(i, SIGNALED, a.mr.addr, 9000, a.mr.lkey, b.mr.addr, b.mr.rkey);
      post(a);
      expect(drain(fabric, a)).toHaveLength(3);
      await told();
      expect(heard).toEqual(Array(round).fill([V.IBV_EVENT_COMM_EST, b.qp]));
      toRts(b);
      a.send.write(9, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
      post(a);
      drain(fabric, a);
      await told();
      expect(heard).toHaveLength(round);
      for (const end of [a, b]) modify(end, { qpState: V.IBV_QPS_RESET });
    }
  });

  test('LAST_WQE_REACHED is raised once when a queue pair with a shared receive queue enters ERR', async () => {
    const [a, b, fabric] = pair();
    const heard = listen(b);
    const { handle: srq } = b.v.createSrq(b.pd, { maxWr: 4, maxSge: 1 });
    const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const { handle: qp } = b.v.createQp(b.pd, {
      qpType: V.IBV_QPT_RC,
      sendCq: b.sendCq,
      recvCq: b.recvCq,
      cap,
      srq,
      sqSigAll: false,
    });
    toInit({ ...b, qp });
    for (let i = 0; i < 2; i++) modify({ ...b, qp }, { qpState: V.IBV_QPS_ERR });
    modify(a, { qpState: V.IBV_QPS_ERR });
    fabric.simulation.run();
    await told();
    expect(heard).toEqual([[V.IBV_EVENT_QP_LAST_WQE_REACHED, qp]]);
  });
});

test('a completion queue that overflows raises CQ_ERR, and QP_FATAL for each of its queue pairs', async () => {
  const [a, b, fabric] = pair({}, { cqe: 4 });
  const heard = listen(a);
  const { handle: other } = a.v.createQp(a.pd, {
    qpType: V.IBV_QPT_RC,
    sendCq: a.sendCq,
    recvCq: a.sendCq,
    cap: { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 },
    sqSigAll: false,
  });
  for (let i = 0; i < 10; i++) a.send.write(i, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  drain(fabric, a);
  await told();
  expect(heard).toEqual([
    [V.IBV_EVENT_CQ_ERR, a.sendCq],
    [V.IBV_EVENT_QP_FATAL, a.qp],
    [V.IBV_EVENT_QP_FATAL, other],
  ]);
});

describe('the port and the device', () => {
  test('a link that goes down and up notifies each context of its host once, and no other', async () => {
    const [a, b, fabric] = pair();
    const second = { ...a, context: a.v.openDevice('sim0') };
    const [ofA, ofB, ofSecond] = [listen(a), listen(b), listen(second)];
    for (const fault of [{ linkDown: 0 }, { linkDown: 0 }, { linkUp: 0 }, { linkUp: 0 }]) fabric.fault(fault);
    await told();
    const both = [
      [V.IBV_EVENT_PORT_ERR, 1],
      [V.IBV_EVENT_PORT_ACTIVE, 1],
    ];
    expect([ofA, ofSecond, ofB]).toEqual([both, both, []]);
  });

  test('the last event of a killed host is DEVICE_FATAL', async () => {
    const [a, b, fabric] = pair();
    const [ofA, ofB] = [listen(a), listen(b)];
    fabric.fault({ kill: 'sim0' });
    fabric.fault({ kill: 'sim0' });
    fabric.fault({ linkDown: 'sim0' });
    modify(a, { qpState: V.IBV_QPS_ERR });
    await told();
    expect(ofA).toEqual([[V.IBV_EVENT_DEVICE_FATAL, 0]]);
    expect(ofB).toEqual([]);
  });
});

describe('listening', () => {
  test('events wait for a listener in order; those of destroyed objects are dropped', async () => {
    const [a, b, fabric] = pair();
    fabric.fault({ linkDown: 1 });
    fabric.fault({ linkUp: 1 });
    a.send.write(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey ^ 0x100);
    post(a);
    drain(fabric, a);
    b.v.destroyQp(b.qp);
    const heard = listen(b);
    expect(heard).toEqual([]);
    await told();
    expect(heard).toEqual([
      [V.IBV_EVENT_PORT_ERR, 1],
      [V.IBV_EVENT_PORT_ACTIVE, 1],
    ]);
  });

  test('null stops delivery, and later events wait again', async () => {
    const [, b, fabric] = pair();
    const first = listen(b);
    b.v.watchAsyncEvents(b.context, null);
    fabric.fault({ linkDown: 1 });
    await told();
    expect(first).toEqual([]);
    const second = listen(b);
    await told();
    expect(second).toEqual([[V.IBV_EVENT_PORT_ERR, 1]]);
  });

  test('bad listeners and contexts throw typed errors', () => {
    const [a] = pair();
    const watch = (context: unknown, listener: unknown) => () =>
      a.v.watchAsyncEvents(context as number, listener as null);
    for (const listener of [undefined, 7, 'x', {}]) {
      expect(watch(a.context, listener)).toThrow(V.InvalidArgumentError);
    }
    for (const context of [0, a.qp, a.pd, Number.NaN, undefined]) {
      expect(watch(context, null)).toThrow(V.InvalidHandleError);
      expect(() => a.v.refAsyncEvents(context as number, true)).toThrow(V.InvalidHandleError);
    }
  });

  test('the same seed gives the same events at the same times', async () => {
    const run = async () => {
      const [a, b, fabric] = pair({ seed: 5, loss: 0.05 }, { access: ALL_ACCESS, timeout: 4 });
      const times: number[] = [];
      b.v.watchAsyncEvents(b.context, (event) => times.push(event, fabric.nowNs));
      for (let i = 0; i < 5; i++) a.send.write(i, 0, a.mr.addr, 20000, a.mr.lkey, b.mr.addr, b.mr.rkey);
      a.send.write(9, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, 1);
      post(a);
      await fabric.run();
      return times;
    };
    const first = await run();
    expect(first[0]).toBe(V.IBV_EVENT_QP_ACCESS_ERR);
    expect(await run()).toEqual(first);
  });
});
