// Asynchronous events: which listeners receive them, and listeners that misbehave (no group in rdma-core's tests).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground, until } from './ground.ts';
import { closeEnd, connect, createQp, type End, modify, openEnd, postSend } from './rig.ts';

interface Told {
  event: number;
  element: number;
}

function listen(end: End): Told[] {
  const told: Told[] = [];
  end.p.watchAsyncEvents(end.context, (event, element) => told.push({ event, element }));
  return told;
}

/** A queue pair connected to itself, and a small completion queue that it overflows. */
function overflowing(ground: Ground) {
  const end = openEnd(ground, 0);
  const cq = end.p.createCq(end.context, 1, 0);
  const qp = createQp(end, { sendCq: cq.handle, recvCq: end.cq });
  connect(end, qp.handle, end, qp.qpNum);
  const overflow = () =>
    postSend(end, qp.handle, (batch) => {
      const { addr, lkey, rkey } = end.mr;
      for (let i = 0; i < 16; i++) batch.write(i, V.IBV_SEND_SIGNALED, addr, 8, lkey, addr + 64, rkey);
    });
  const close = () => {
    end.p.destroyQp(qp.handle);
    end.p.destroyCq(cq.handle);
    closeEnd(end);
  };
  return { end, cq: cq.handle, qp: qp.handle, overflow, close };
}

feature('asynchronous events', { group: 'async', others: 'every device' }, (it) => {
  it('an overflow of a completion queue is reported with its handle', async (ground) => {
    const { end, cq, overflow, close } = overflowing(ground);
    const told = listen(end);
    overflow();
    await until(ground, 'CQ_ERR', () => told.length > 0);
    expect(told[0]).toEqual({ event: V.IBV_EVENT_CQ_ERR, element: cq });
    close();
  });

  it('an event is kept until there is a listener', async (ground) => {
    const { end, cq, overflow, close } = overflowing(ground);
    overflow();
    for (let i = 0; i < 20; i++) await ground.turn();
    const told = listen(end);
    await until(ground, 'CQ_ERR', () => told.length > 0);
    expect(told[0]).toEqual({ event: V.IBV_EVENT_CQ_ERR, element: cq });
    close();
  });

  it('an event about an object that was closed in the meantime is dropped', async (ground) => {
    const { end, cq, qp, overflow } = overflowing(ground);
    overflow();
    for (let i = 0; i < 20; i++) await ground.turn();
    end.p.destroyQp(qp);
    end.p.destroyCq(cq);
    const told = listen(end);
    for (let i = 0; i < 20; i++) await ground.turn();
    expect(told).toEqual([]);
    closeEnd(end);
  });

  it('a listener may close the object of the event, and its context', async (ground) => {
    const { end, overflow, close } = overflowing(ground);
    let calls = 0;
    end.p.watchAsyncEvents(end.context, () => {
      calls++;
      close();
    });
    overflow();
    await until(ground, 'CQ_ERR', () => calls > 0);
    for (let i = 0; i < 20; i++) await ground.turn();
    expect(calls).toBe(1);
    expect(() => end.p.queryDevice(end.context)).toThrow(V.InvalidHandleError);
  });

  it('null ends listening; a different listener takes over', async (ground) => {
    const { end, overflow, close } = overflowing(ground);
    const first = listen(end);
    const second = listen(end);
    end.p.refAsyncEvents(end.context, true);
    end.p.refAsyncEvents(end.context, false);
    overflow();
    await until(ground, 'CQ_ERR', () => second.length > 0);
    expect(first).toEqual([]);
    end.p.watchAsyncEvents(end.context, null);
    end.p.watchAsyncEvents(end.context, null);
    close();
  });

  it('SQD raises SQ_DRAINED when the send queue has drained', async (ground) => {
    const end = openEnd(ground, 0);
    const qp = createQp(end);
    connect(end, qp.handle, end, qp.qpNum);
    const told = listen(end);
    modify(end, qp.handle, { qpState: V.IBV_QPS_SQD, enSqdAsyncNotify: 1 });
    await until(ground, 'SQ_DRAINED', () => told.length > 0);
    expect(told).toEqual([{ event: V.IBV_EVENT_SQ_DRAINED, element: qp.handle }]);
    end.p.destroyQp(qp.handle);
    closeEnd(end);
  });

  it('wrong arguments are refused', (ground) => {
    const end = openEnd(ground, 0);
    const { p, context, cq } = end;
    const wrong = (value: unknown) => value as null;
    for (const listener of [undefined, 5, {}, 'x']) {
      expect(() => p.watchAsyncEvents(context, wrong(listener))).toThrow(V.InvalidArgumentError);
    }
    expect(() => p.watchAsyncEvents(cq, () => {})).toThrow(V.InvalidHandleError);
    closeEnd(end);
    expect(() => p.watchAsyncEvents(context, () => {})).toThrow(V.InvalidHandleError);
    expect(() => p.refAsyncEvents(context, true)).toThrow(V.InvalidHandleError);
  });
});
