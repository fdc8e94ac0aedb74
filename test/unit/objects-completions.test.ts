// Awaiting completions: no lost wake-up, several waiters, several queues on one channel, closing meanwhile.
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Context, expectSuccess } from '../../src/objects/index.ts';
import {
  CompletionError,
  InvalidArgumentError,
  InvalidHandleError,
  type Provider,
} from '../../src/verbs/index.ts';
import { createFake } from './objects-fake.ts';

function setup() {
  const fake = createFake();
  const context = new Context(fake.provider, 'fake0');
  const cq = context.createCq();
  return { fake, context, cq, channel: cq.channel?.handle as number };
}

test('a completion that is already there resolves next() at once, without arming', async () => {
  const { fake, cq } = setup();
  fake.complete(cq.handle, 5);
  expect((await cq.next()).wrId).toBe(5n);
  expect(fake.calls).not.toContain('reqNotifyCq');
});

test('a completion between the poll and the arming is not lost', async () => {
  const { fake, cq } = setup();
  fake.beforeArm = () => fake.complete(cq.handle, 9);
  expect((await cq.next()).wrId).toBe(9n);
});

test('an event wakes the waiter; a spurious one does not', async () => {
  const { fake, cq } = setup();
  const pending = cq.next();
  let done = false;
  pending.then(() => {
    done = true;
  });
  cq.onEvent();
  await turn();
  expect(done).toBe(false);
  fake.complete(cq.handle, 1);
  expect((await pending).wrId).toBe(1n);
});

test('waiters are served in order, each exactly once', async () => {
  const { fake, cq } = setup();
  const waiting = [cq.next(), cq.next(), cq.next()];
  fake.complete(cq.handle, 1);
  await turn();
  fake.complete(cq.handle, 2);
  fake.complete(cq.handle, 3);
  expect((await Promise.all(waiting)).map((wc) => wc.wrId)).toEqual([1n, 2n, 3n]);
});

test('each of two queues on one channel wakes its own waiters', async () => {
  const { fake, context, cq } = setup();
  const other = context.createCq();
  expect(other.channel).toBe(cq.channel);
  const [a, b] = [cq.next(), other.next()];
  fake.complete(other.handle, 2);
  expect((await b).wrId).toBe(2n);
  fake.complete(cq.handle, 1);
  expect((await a).wrId).toBe(1n);
});

test('a pending wait keeps the process alive, and nothing else does', async () => {
  const { fake, cq, channel } = setup();
  expect(fake.keepAlive.get(channel)).toBeUndefined();
  const waiting = [cq.next(), cq.next()];
  expect(fake.keepAlive.get(channel)).toBe(true);
  fake.complete(cq.handle, 1);
  await waiting[0];
  expect(fake.keepAlive.get(channel)).toBe(true);
  fake.complete(cq.handle, 2);
  await waiting[1];
  expect(fake.keepAlive.get(channel)).toBe(false);
});

test('closing the queue rejects its waiters, and ends for await', async () => {
  const { fake, cq, channel } = setup();
  const seen: bigint[] = [];
  const loop = (async () => {
    for await (const wc of cq) seen.push(wc.wrId);
  })();
  fake.complete(cq.handle, 1);
  await turn();
  await turn();
  const pending = cq.next();
  cq.close();
  await expect(pending).rejects.toThrow(InvalidHandleError);
  await loop;
  expect(seen).toEqual([1n]);
  expect(fake.keepAlive.get(channel)).toBe(false);
});

test('poll() first returns completions that next() fetched but did not deliver', async () => {
  const { fake, context, cq } = setup();
  for (let i = 1; i <= 5; i++) fake.complete(cq.handle, i);
  expect((await cq.next()).wrId).toBe(1n);
  fake.complete(cq.handle, 6);
  const wc = context.wcBatch({ capacity: 8 });
  expect(cq.poll(wc, 2)).toBe(2);
  expect([wc.wrId(0), wc.wrId(1)]).toEqual([2, 3]);
  expect(cq.poll(wc)).toBe(3);
  expect([wc.wrId(0), wc.wrId(1), wc.wrId(2)]).toEqual([4, 5, 6]);
  expect(cq.poll(wc)).toBe(0);
});

test('drain() returns what arrived by the deadline, and loses nothing', async () => {
  const { fake, cq } = setup();
  fake.complete(cq.handle, 1);
  expect((await cq.drain(3, { deadlineMs: 20 })).map((wc) => wc.wrId)).toEqual([1n]);
  fake.complete(cq.handle, 2);
  expect((await cq.drain(1)).map((wc) => wc.wrId)).toEqual([2n]);
});

test('a drain that is aborted leaves its completions in the queue, in their order', async () => {
  const { fake, context, cq } = setup();
  const abort = new AbortController();
  fake.complete(cq.handle, 1);
  const draining = cq.drain(4, { signal: abort.signal, deadlineMs: 10_000 });
  await turn();
  fake.complete(cq.handle, 2);
  await turn();
  const last = cq.next();
  abort.abort(new Error('enough'));
  await expect(draining).rejects.toThrow('enough');
  expect((await last).wrId).toBe(1n);
  const wc = context.wcBatch({ capacity: 4 });
  expect([cq.poll(wc), wc.wrId(0)]).toEqual([1, 2]);
  await expect(cq.drain(1, { signal: abort.signal })).rejects.toThrow('enough');
});

test('a signal cancels one wait and no other', async () => {
  const { fake, cq } = setup();
  const abort = new AbortController();
  const [first, second] = [cq.next({ signal: abort.signal }), cq.next()];
  abort.abort(new Error('enough'));
  await expect(first).rejects.toThrow('enough');
  fake.complete(cq.handle, 1);
  expect((await second).wrId).toBe(1n);
  await expect(cq.next({ signal: abort.signal })).rejects.toThrow('enough');
});

test('an endless stream of completions does not starve the event loop', async () => {
  const { fake, cq } = setup();
  let turned = false;
  setImmediate(() => {
    turned = true;
  });
  let n = 0;
  while (!turned && n < 10_000) {
    fake.complete(cq.handle, n++);
    await cq.next();
  }
  expect(turned).toBe(true);
});

test('completions that take long do not starve the event loop', async () => {
  const fake = createFake();
  let nowNs = 0;
  const provider: Provider = { ...fake.provider, threads: 'any', nowNs: () => nowNs };
  const cq = new Context(provider, 'fake0').createCq();
  let turned = false;
  setImmediate(() => {
    turned = true;
  });
  for (let n = 0; n < 40; n++) {
    nowNs += 40e6;
    fake.complete(cq.handle, n);
    await cq.next();
  }
  expect(turned).toBe(true);
});

test('a queue without a channel can only be polled', async () => {
  const { fake, context } = setup();
  const cq = context.createCq({ channel: null });
  await expect(cq.next()).rejects.toThrow(InvalidArgumentError);
  fake.complete(cq.handle, 4);
  expect(cq.poll(context.wcBatch({ capacity: 1 }))).toBe(1);
});

test('a failing poll rejects the waiters', async () => {
  const fake = createFake();
  let broken = false;
  const provider = {
    ...fake.provider,
    pollCq(...args: [number, number, number, number]) {
      if (broken) throw new Error('poll failed');
      return fake.provider.pollCq(...args);
    },
  };
  const cq = new Context(provider, 'fake0').createCq();
  const pending = cq.next();
  broken = true;
  fake.complete(cq.handle, 1);
  await expect(pending).rejects.toThrow('poll failed');
});

test('a completion names its queue pair; expectSuccess throws for a failed one', async () => {
  const { fake, context, cq } = setup();
  const qp = context.allocPd().createQp({ sendCq: cq });
  fake.complete(cq.handle, 3, { qp: qp.handle, status: 5 });
  const wc = await cq.next();
  expect(wc).toMatchObject({ status: 5, statusText: 'WR_FLUSH_ERR', opcode: null, imm: null, isRecv: false });
  expect(wc.qp).toBe(qp);
  expect(() => expectSuccess(wc)).toThrow(CompletionError);
  expect(() => expectSuccess(wc)).toThrow(
    /^send request 3 of queue pair \d+ failed: WR_FLUSH_ERR \(usual cause: the queue pair was in ERR; .*\)$/,
  );
  expect(() => expectSuccess({ ...wc, status: 22, statusText: 'GENERAL_ERR' })).toThrow(/: GENERAL_ERR$/);
  fake.complete(cq.handle, 4, { qp: qp.handle });
  qp.close();
  const late = await cq.next();
  expect(late).toMatchObject({ status: 0, opcode: 'SEND', qp: null });
  expect(expectSuccess(late)).toBe(late);
});
