/** Connections whose messages go over shared queue pairs end, fail and wake programs as over their own. */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { type End, post, take } from '../sim/helpers.ts';
import { SIGNALED } from './peer-rig.ts';
import { World } from './sharing-world.ts';

const INDEX_BITS = 12;

function receive(end: End, ...ids: number[]): void {
  for (const id of ids) end.recv.recv(id, end.mr.addr + 1024, 1000, end.mr.lkey);
  expect(end.v.postRecv(end.qp, end.recv.ring, 0, ids.length)).toBe(ids.length);
  end.recv.clear();
}

function send(end: End, id: number, bytes = 100): void {
  end.send.send(id, SIGNALED, end.mr.addr, bytes, end.mr.lkey);
  expect(post(end)).toBe(1);
}

const linesOf = (end: End, cq: number) => take(end, cq).map(({ wrId, status }) => `${wrId} ${status}`);

/** What both ends of all connections complete: `a` sends, `b` receives. */
async function settle(w: World, [a, b]: [End, End]): Promise<{ a: string[]; b: string[] }> {
  const all = { a: [] as string[], b: [] as string[] };
  for (let i = 0; i < 12; i++) {
    await w.fabric.advance(100_000);
    all.a.push(...linesOf(a, a.sendCq));
    all.b.push(...linesOf(b, b.recvCq));
  }
  return { a: all.a.sort(), b: all.b.sort() };
}

/** Connections whose messages go over carriers: each has sent three. */
async function carried(count: number): Promise<[World, [End, End][]]> {
  const w = new World();
  const pairs = w.connections(count);
  for (let round = 0; round < 3; round++) {
    for (const [i, [a, b]] of pairs.entries()) {
      receive(b, i);
      send(a, i);
    }
    await settle(w, pairs[0]);
  }
  return [w, pairs];
}

const ENDS = ['ERR', 'RESET', 'destroy'] as const;

function end({ v, qp }: End, how: (typeof ENDS)[number]): void {
  if (how === 'destroy') v.destroyQp(qp);
  else v.modifyQp(qp, { qpState: how === 'ERR' ? V.IBV_QPS_ERR : V.IBV_QPS_RESET }, V.IBV_QP_STATE);
}

const ok = (...ids: number[]) => ids.map((id) => `${id} SUCCESS`);

test('once messages go over carriers, none goes over the own queue pair', async () => {
  const [w, pairs] = await carried(4);
  const before = w.onOwn(pairs.map(([a]) => a));
  for (const [i, [a, b]] of pairs.entries()) {
    receive(b, 10 + i, 20 + i);
    send(a, 10 + i);
    send(a, 20 + i);
  }
  const ids = [10, 11, 12, 13, 20, 21, 22, 23];
  expect(await settle(w, pairs[0])).toEqual({ a: ok(...ids), b: ok(...ids) });
  expect(w.onOwn(pairs.map(([a]) => a))).toBe(before);
});

test('a message without a receive waits for one, and holds up no other connection', async () => {
  const [w, pairs] = await carried(3);
  const [[a, b], [c, d]] = pairs;
  send(a, 1);
  receive(d, 2);
  send(c, 2);
  expect(await settle(w, pairs[0])).toEqual({ a: ok(2), b: ok(2) });
  receive(b, 1);
  expect(await settle(w, pairs[0])).toEqual({ a: ok(1), b: ok(1) });
});

test('a message follows an unsignaled request on the own queue pair', async () => {
  const w = new World();
  const pairs = w.connections(3);
  const [[a, b]] = pairs;
  const add = (id: number, flags: number) =>
    a.send.fetchAdd(id, flags, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
  receive(b, 1);
  send(a, 1);
  expect(await settle(w, pairs[0])).toEqual({ a: ok(1), b: ok(1) });
  // The shim asks the peer to hold receives.
  add(2, SIGNALED);
  expect(post(a)).toBe(1);
  expect(await settle(w, pairs[0])).toEqual({ a: ok(2), b: [] });
  add(3, SIGNALED);
  add(4, 0);
  expect(post(a)).toBe(2);
  expect(await settle(w, pairs[0])).toEqual({ a: ok(3), b: [] });
  receive(b, 5);
  send(a, 5);
  expect(await settle(w, pairs[0])).toEqual({ a: ok(5), b: ok(5) });
});

test('a message that waits for a receive fails if the peer vanishes, as over the own queue pair', async () => {
  const [w, pairs] = await carried(3);
  const [[a, b], [c]] = pairs;
  send(a, 1);
  send(a, 2);
  expect(await settle(w, pairs[0])).toEqual({ a: [], b: [] });
  w.device.vanish(b.pd);
  await w.fabric.advance(3e9);
  expect((await settle(w, pairs[0])).a).toEqual(['1 RETRY_EXC_ERR', '2 WR_FLUSH_ERR']);
  send(c, 3);
  await w.fabric.advance(3e9);
  expect((await settle(w, pairs[0])).a).toEqual(['3 RETRY_EXC_ERR']);
});

describe('the receiver', () => {
  test.each(ENDS)('flushes receives in ERR alone: %s', async (act) => {
    const [w, pairs] = await carried(3);
    const [a, b] = pairs[1];
    receive(b, 5, 6);
    await settle(w, pairs[0]);
    end(b, act);
    const flushed = act === 'ERR' ? ['5 WR_FLUSH_ERR', '6 WR_FLUSH_ERR'] : [];
    expect((await settle(w, pairs[0])).b).toEqual(flushed);
    send(a, 7);
    for (let i = 0; i < 20; i++) await w.fabric.advance(1_000_000);
    expect((await settle(w, pairs[0])).a).toEqual(['7 RETRY_EXC_ERR']);
    const [[c, d]] = pairs;
    receive(d, 8);
    send(c, 8);
    expect(await settle(w, pairs[0])).toEqual({ a: ok(8), b: ok(8) });
  });

  test.each(ENDS)('goes to %s while a message waits for a receive', async (act) => {
    const [w, pairs] = await carried(3);
    const [a, b] = pairs[1];
    send(a, 7);
    expect(await settle(w, pairs[0])).toEqual({ a: [], b: [] });
    end(b, act);
    for (let i = 0; i < 20; i++) await w.fabric.advance(1_000_000);
    expect((await settle(w, pairs[0])).a).toEqual(['7 RETRY_EXC_ERR']);
  });

  test.each(ENDS)('goes to %s after its own requests have left carriers for good', async (act) => {
    const [w, pairs] = await carried(3);
    const [a, b] = pairs[1];
    for (let i = 0; i < 3; i++) {
      receive(a, 100 + i);
      send(b, 100 + i);
      await settle(w, [b, a]);
    }
    a.recv.recv(110, a.mr.addr, 9000, a.mr.lkey);
    a.v.postRecv(a.qp, a.recv.ring, 0, 1);
    a.recv.clear();
    send(b, 110, 9000);
    receive(b, 5);
    expect(await settle(w, [b, a])).toEqual({ a: ok(110), b: ok(110) });
    end(b, act);
    await settle(w, pairs[0]);
    w.write(a, b, 6);
    send(a, 7);
    for (let i = 0; i < 20; i++) await w.fabric.advance(1_000_000);
    expect((await settle(w, pairs[0])).a).toEqual(['6 RETRY_EXC_ERR', '7 WR_FLUSH_ERR']);
  });

  test('refuses a message that is longer than its receive, as over the own queue pair', async () => {
    const [w, pairs] = await carried(3);
    const [a, b] = pairs[2];
    receive(b, 5);
    send(a, 5, 1001);
    expect(await settle(w, pairs[0])).toEqual({ a: ['5 REM_INV_REQ_ERR'], b: ['5 LOC_LEN_ERR'] });
  });

  test('completes a receive in deregistered memory with LOC_PROT_ERR', async () => {
    const [w, pairs] = await carried(3);
    const [a, b] = pairs[2];
    const mr = b.v.allocMr(b.pd, 4096, V.IBV_ACCESS_LOCAL_WRITE);
    b.v.deregMr(mr.handle);
    b.recv.recv(5, mr.addr, 100, mr.lkey);
    b.v.postRecv(b.qp, b.recv.ring, 0, 1);
    b.recv.clear();
    send(a, 5);
    expect(await settle(w, pairs[0])).toEqual({ a: ['5 REM_OP_ERR'], b: ['5 LOC_PROT_ERR'] });
  });

  test('accepts as many receives as its queue has room for', async () => {
    const [w, pairs] = await carried(2);
    const [a, b] = pairs[0];
    for (let i = 0; i < 64; i++) receive(b, i);
    b.recv.recv(64, b.mr.addr, 10, b.mr.lkey);
    expect(b.v.postRecv(b.qp, b.recv.ring, 0, 1)).toBe(0);
    expect(b.recv.words[V.HDR_ERRNO]).toBe(V.ENOMEM);
    for (let i = 0; i < 20; i++) send(a, i);
    expect((await settle(w, pairs[0])).b.length).toBe(20);
    expect(b.v.postRecv(b.qp, b.recv.ring, 0, 1)).toBe(1);
    b.recv.clear();
  });
});

test('a failed message completes, and so do receives that the device has, if the shim polls for them', async () => {
  const w = new World();
  const pairs = w.connections(3);
  const [a, b] = pairs[1];
  receive(a, 1, 2, 3);
  receive(b, 4);
  for (const id of [1, 2]) {
    send(b, id);
    await settle(w, [b, a]);
  }
  send(a, 4);
  await settle(w, pairs[1]);
  end(b, 'ERR');
  await settle(w, pairs[1]);
  send(a, 5);
  for (let i = 0; i < 20; i++) await w.fabric.advance(1_000_000);
  expect((await settle(w, pairs[1])).a).toEqual(['5 RETRY_EXC_ERR']);
  expect(linesOf(a, a.recvCq)).toEqual(['3 WR_FLUSH_ERR']);
});

test('after SQD, a connection whose carrier another one has ended asks the peer to hold receives', async () => {
  const w = new World();
  const [first, [c, d]] = w.connections(3);
  c.send.write(1, SIGNALED, c.mr.addr, 64, c.mr.lkey, d.mr.addr, d.mr.rkey ^ 0x5500);
  post(c);
  expect((await settle(w, first)).a).toEqual(['1 REM_ACCESS_ERR']);
  const [a, b] = first;
  for (const qpState of [V.IBV_QPS_SQD, V.IBV_QPS_RTS]) a.v.modifyQp(a.qp, { qpState }, V.IBV_QP_STATE);
  receive(b, 10, 20, 30);
  for (const id of [10, 20, 30]) {
    send(a, id);
    expect(await settle(w, first)).toEqual({ a: ok(id), b: ok(id) });
  }
});

test('receives that are held when a connection is reset count as posted', async () => {
  const [w, pairs] = await carried(3);
  const [a, b] = pairs[1];
  receive(b, 5, 6);
  await settle(w, pairs[0]);
  for (const one of pairs[1]) end(one, 'RESET');
  w.connect(a, b);
  receive(b, 7);
  send(a, 7);
  await w.fabric.advance(1_000_000);
  expect(take(b, b.recvCq).map(({ wrId, seq }) => [wrId, seq])).toEqual([[7, 5]]);
});

test('a message longer than 4 KiB and those after it go over the own queue pair, in order', async () => {
  const [w, pairs] = await carried(3);
  const [a, b] = pairs[0];
  for (const id of [1, 2, 3]) b.recv.recv(id, b.mr.addr, 9000, b.mr.lkey);
  b.v.postRecv(b.qp, b.recv.ring, 0, 3);
  b.recv.clear();
  a.bytes[8999] = 77;
  for (const [id, bytes] of [100, 9000, 50].entries()) send(a, id + 1, bytes);
  expect(await settle(w, pairs[0])).toEqual({ a: ok(1, 2, 3), b: ok(1, 2, 3) });
  expect(b.bytes[8999]).toBe(77);
});

test('a message wakes a program that sleeps', async () => {
  const [w, pairs] = await carried(2);
  const [a, b] = pairs[0];
  const { v, context } = b;
  const channel = v.createCompChannel(context);
  const cq = v.createCq(context, 64, channel).handle;
  const listening: number[] = [];
  v.watchCompChannel(channel, (handle) => listening.push(handle));
  const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128 };
  const info = v.createQp(b.pd, { qpType: V.IBV_QPT_RC, sendCq: b.sendCq, recvCq: cq, cap, sqSigAll: false });
  const other = a.v.createQp(a.pd, {
    qpType: V.IBV_QPT_RC,
    sendCq: a.sendCq,
    recvCq: a.recvCq,
    cap,
    sqSigAll: false,
  });
  const [c, d] = [
    { ...a, qp: other.handle, qpNum: other.qpNum },
    { ...b, qp: info.handle, qpNum: info.qpNum, recvCq: cq },
  ];
  w.connect(c, d);
  for (let round = 0; round < 4; round++) {
    v.reqNotifyCq(cq, false);
    receive(d, round);
    send(c, round);
    for (let i = 0; i < 5; i++) await w.fabric.advance(100_000);
    expect(listening.splice(0)).toEqual([cq]);
    expect(linesOf(d, cq)).toEqual(ok(round));
    take(c, c.sendCq);
  }
  expect(w.onOwn([c])).toBeLessThan(4);
});

test('a peer that sends nonsense over carriers harms only itself', async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const [w, pairs] = await carried(3);
    let random = seed;
    const next = () => {
      random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
      return random >>> 4;
    };
    // Mangles kinds of messages and numbers of connections, both in the shim's own messages and in the program's.
    w.device.mangle = (words, at) => {
      if (next() % 3 === 0) words[at + V.WR_IMM] = ((next() % 12) << INDEX_BITS) | (next() % 8);
      const ext = V.extAt(0, 1, 64);
      if ((words[at + V.WR_OP] & (V.IBV_SEND_INLINE << 8)) !== 0 && words.length > ext + 2)
        words[ext + 1] = next();
    };
    for (let i = 0; i < 20; i++) {
      const [a, b] = pairs[i % 3];
      if (i % 4 !== 3) receive(b, i);
      send(a, i);
      await w.fabric.advance(20_000);
    }
    await settle(w, pairs[0]);
    for (const end of pairs.flat()) end.v.destroyQp(end.qp);
    await settle(w, pairs[0]);
  }
});
