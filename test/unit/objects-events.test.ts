// Asynchronous events as objects: which listeners hear them, and how waits end.
import { once } from 'node:events';
import { afterEach, expect, test } from 'vitest';
import { type AsyncEvent, Context } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { IBV_EVENT_PORT_ERR, IBV_EVENT_QP_ACCESS_ERR } from '../../src/verbs/index.ts';

const open: Context[] = [];
afterEach(() => {
  for (const context of open.splice(0)) context.close();
});

function setup() {
  const fabric = createFabric({ hosts: 2 });
  const [a, b] = ['sim0', 'sim1'].map((name) => {
    const context = new Context(fabric.provider, name);
    open.push(context);
    const pd = context.allocPd();
    const cq = context.createCq();
    return { context, pd, cq, qp: pd.createQp({ sendCq: cq }), mr: pd.allocate(4096) };
  });
  a.qp.connectTo(b.qp.endpoint());
  b.qp.connectTo(a.qp.endpoint());
  /** Uses a key that b never handed out, which gives b's queue pair an access error. */
  const trespass = () =>
    a.qp.post({
      opcode: 'RDMA_WRITE',
      sgList: [{ mr: a.mr, length: 8 }],
      remote: { addr: b.mr.addr, rkey: b.mr.rkey ^ 1 },
    });
  return { fabric, a, b, trespass };
}

test('an event is emitted on its object, then on the context', async () => {
  const { b, trespass } = setup();
  const heard: string[] = [];
  b.qp.on('qpAccessErr', (event) => {
    heard.push('qp');
    expect(event.qp).toBe(b.qp);
    expect([event.type, event.event]).toEqual(['QP_ACCESS_ERR', IBV_EVENT_QP_ACCESS_ERR]);
  });
  const other = b.pd.createQp({ sendCq: b.cq });
  other.on('qpAccessErr', () => heard.push('other'));
  const event = new Promise<AsyncEvent>((resolve) => {
    b.context.on('event', (told) => {
      heard.push('context');
      if (told.type === 'QP_ACCESS_ERR') resolve(told);
    });
  });
  trespass();
  expect((await event).type).toBe('QP_ACCESS_ERR');
  expect(heard).toEqual(['qp', 'context']);
});

test('events of ports by name, with the port number; once() and off(); once() of node:events', async () => {
  const { fabric, a } = setup();
  let calls = 0;
  const listener = () => {
    calls++;
  };
  a.context.once('portErr', listener);
  a.context.on('portActive', listener);
  a.context.off('portActive', listener);
  expect([a.context.listenerCount('portErr'), a.context.listenerCount('portActive')]).toEqual([1, 0]);
  const told = once(a.context as never, 'portErr');
  fabric.fault({ linkDown: 'sim0' });
  expect(await told).toEqual([{ type: 'PORT_ERR', event: IBV_EVENT_PORT_ERR, portNum: 1 }]);
  fabric.fault({ linkUp: 'sim0' });
  fabric.fault({ linkDown: 'sim0' });
  await a.context.sleep(1000);
  expect(calls).toBe(1);
});

test('the iterator buffers events, and ends with the context, with its loop, or by a signal', async () => {
  const { fabric, a } = setup();
  const events = a.context.events();
  fabric.fault({ linkDown: 'sim0' });
  fabric.fault({ linkUp: 'sim0' });
  await a.context.sleep(1000);
  const types: string[] = [];
  for await (const { type } of events) {
    types.push(type);
    if (types.length === 2) break;
  }
  expect(types).toEqual(['PORT_ERR', 'PORT_ACTIVE']);
  expect(await events.next()).toEqual({ value: undefined, done: true });

  const stop = new AbortController();
  const waiting = a.context.events({ signal: stop.signal }).next();
  await Promise.resolve();
  stop.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');

  const last = a.context.events().next();
  await Promise.resolve();
  a.context.close();
  expect(await last).toEqual({ value: undefined, done: true });
  expect(() => a.context.events()).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
});

test('nextEvent() resolves, can be cancelled, and rejects when its object is closed', async () => {
  const { a, b, trespass } = setup();
  const next = b.qp.nextEvent('qpAccessErr');
  const stop = new AbortController();
  const given = b.qp.nextEvent('qpFatal', { signal: stop.signal });
  stop.abort('later');
  await expect(given).rejects.toBe('later');
  trespass();
  expect((await next).qp).toBe(b.qp);
  const closed = a.qp.nextEvent('sqDrained');
  a.qp.close();
  await expect(closed).rejects.toMatchObject({ code: 'ISO_ERR_HANDLE' });
  await expect(a.qp.nextEvent('sqDrained')).rejects.toMatchObject({ code: 'ISO_ERR_HANDLE' });
  expect(() => a.qp.on('sqDrained', () => {})).toThrow('is closed');
  await expect(b.qp.nextEvent('qpFatal', { signal: stop.signal })).rejects.toBe('later');
});

test('an error thrown by a listener is uncaught, and the other listeners still run', async () => {
  const { fabric, a } = setup();
  const uncaught = new Promise<Error>((resolve) => {
    const others = process.rawListeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.once('uncaughtException', (error) => {
      for (const other of others) process.on('uncaughtException', other as (error: Error) => void);
      resolve(error);
    });
  });
  const told: string[] = [];
  a.context.on('portErr', () => {
    throw new Error('of the listener');
  });
  a.context.on('event', ({ type }) => told.push(type));
  fabric.fault({ linkDown: 'sim0' });
  fabric.fault({ linkUp: 'sim0' });
  expect((await uncaught).message).toBe('of the listener');
  await a.context.sleep(1000);
  expect(told).toEqual(['PORT_ERR', 'PORT_ACTIVE']);
});

test('ended waits and cancelled streams leave nothing behind', async () => {
  const { a, b, trespass } = setup();
  const stop = new AbortController();
  const stream = a.context.events({ signal: stop.signal });
  const awaited = stream.next();
  stop.abort(new Error('enough'));
  await expect(awaited).rejects.toThrow('enough');
  const late = b.context.events({ signal: stop.signal });
  const told = b.qp.nextEvent('qpAccessErr');
  trespass();
  await told;
  // The stream began after the abort: it must end instead of waiting for ever.
  await expect(late.next()).rejects.toThrow('enough');
  let closed = 0;
  for (let i = 0; i < 10; i++) a.qp.onClose(() => closed++)();
  a.qp.onClose(() => closed++);
  a.qp.close();
  expect(closed).toBe(1);
});
