/** Connections over shared queue pairs begin, end and fail one by one, as over their own. */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { type End, modify, post, take } from '../sim/helpers.ts';
import { SIGNALED } from './peer-rig.ts';
import { World } from './sharing-world.ts';

const ok = (...ids: number[]) => ids.map((id) => `${id} SUCCESS`);

test('connections of one protection domain to one peer share, others do not', async () => {
  const w = new World();
  const { v, context } = w.connection()[0];
  const pairs = w.connections(3);
  const elsewhere = w.connection([v.allocPd(context)]);
  const ends = pairs.map(([a]) => a);
  for (const [i, [a, b]] of pairs.entries()) w.write(a, b, i);
  expect((await w.settle(ends[0])).sort()).toEqual(ok(0, 1, 2));
  expect(w.onOwn(ends)).toBe(0);
  const [a, b] = elsewhere;
  a.send.write(9, SIGNALED, 0, 0, 0, b.mr.addr, b.mr.rkey);
  post(a);
  expect(await w.settle(a)).toEqual(ok(9));
  expect(w.onOwn([a])).toBe(1);
});

describe('the peer', () => {
  test.each([
    ['destroys its queue pair', (b: End) => b.v.destroyQp(b.qp), 'RETRY_EXC_ERR'],
    ['moves its queue pair to ERR', (b: End) => modify(b, { qpState: V.IBV_QPS_ERR }), 'RETRY_EXC_ERR'],
    [
      'grants nothing more',
      (b: End) => modify(b, { qpAccessFlags: V.IBV_ACCESS_LOCAL_WRITE }),
      'REM_INV_REQ_ERR',
    ],
  ] as const)('%s: only that connection fails', async (_what, act, status) => {
    for (const which of [0, 2]) {
      const w = new World();
      const pairs = w.connections(4);
      for (const [i, [a, b]] of pairs.entries()) w.write(a, b, i);
      expect((await w.settle(pairs[0][0])).sort()).toEqual(ok(0, 1, 2, 3));
      act(pairs[which][1]);
      await w.fabric.run();
      for (const [i, [a, b]] of pairs.entries()) w.write(a, b, 10 + i);
      const expected = [10, 11, 12, 13].map((id) => `${id} ${id === 10 + which ? status : 'SUCCESS'}`);
      expect((await w.settle(pairs[0][0])).sort()).toEqual(expected);
      expect(w.onOwn(pairs.map(([a]) => a))).toBe(1);
    }
  });

  test('is gone: each connection fails once, with its own requests', async () => {
    const w = new World();
    const pairs = w.connections(4);
    for (const [i, [a, b]] of pairs.entries()) for (let k = 0; k < 3; k++) w.write(a, b, 10 * i + k, 9000);
    w.device.fail((qp) => w.device.posts.get(qp) === 0);
    const lines = await w.settle(pairs[0][0]);
    for (const i of [0, 1, 2, 3]) {
      const own = lines.filter((line) => Math.floor(Number.parseInt(line, 10) / 10) === i);
      expect(own).toEqual([
        `${10 * i} RETRY_EXC_ERR`,
        `${10 * i + 1} WR_FLUSH_ERR`,
        `${10 * i + 2} WR_FLUSH_ERR`,
      ]);
    }
  });
});

test('a carrier that the peer has lost by a request of its own is used no more', async () => {
  const w = new World();
  const pairs = w.connections(4);
  for (const [i, [a, b]] of pairs.entries()) {
    w.write(a, b, i);
    w.write(b, a, i);
  }
  expect((await w.settle(pairs[0][0])).sort()).toEqual(ok(0, 1, 2, 3));
  expect((await w.settle(pairs[0][1])).sort()).toEqual(ok(0, 1, 2, 3));
  const [to, from] = pairs[2];
  from.send.write(7, SIGNALED, from.mr.addr, 64, from.mr.lkey ^ 0x5500, to.mr.addr, to.mr.rkey);
  post(from);
  expect(await w.settle(from)).toEqual(['7 LOC_PROT_ERR']);
  for (const [i, [a, b]] of pairs.entries()) w.write(a, b, 10 + i);
  const expected = [10, 11, 12, 13].map((id) => `${id} ${id === 12 ? 'RETRY_EXC_ERR' : 'SUCCESS'}`);
  expect((await w.settle(pairs[0][0])).sort()).toEqual(expected);
});

test('ERR, RESET or destruction of a connection with requests in flight does not affect the others', async () => {
  for (const which of [0, 1, 3]) {
    for (const act of ['ERR', 'RESET', 'destroy'] as const) {
      const w = new World();
      const pairs = w.connections(4);
      for (const [i, [a, b]] of pairs.entries()) for (let k = 0; k < 3; k++) w.write(a, b, 10 * i + k, 9000);
      const [a] = pairs[which];
      if (act === 'destroy') a.v.destroyQp(a.qp);
      else modify(a, { qpState: act === 'ERR' ? V.IBV_QPS_ERR : V.IBV_QPS_RESET });
      const lines = await w.settle(pairs[0][0]);
      const of = (i: number) => lines.filter((line) => Math.floor(Number.parseInt(line, 10) / 10) === i);
      for (const i of [0, 1, 2, 3].filter((one) => one !== which))
        expect(of(i)).toEqual(ok(10 * i, 10 * i + 1, 10 * i + 2));
      // What a carrier has of it in ERR is executed, and the rest is flushed.
      const done = of(which).filter((line) => /SUCCESS/.test(line)).length;
      const all = [0, 1, 2].map((k) => `${10 * which + k} ${k < done ? 'SUCCESS' : 'WR_FLUSH_ERR'}`);
      expect(of(which)).toEqual(act === 'ERR' ? all : []);
    }
  }
});

test('no request touches the memory of a connection after it was reset or destroyed', async () => {
  for (const act of ['RESET', 'destroy'] as const) {
    const w = new World();
    const pairs = w.connections(4);
    const [a, b] = pairs[1];
    b.bytes.fill(7);
    for (let k = 0; k < 8; k++) a.send.read(k, SIGNALED, a.mr.addr, 16_384, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    await w.fabric.advance(1500);
    if (act === 'destroy') a.v.destroyQp(a.qp);
    else modify(a, { qpState: V.IBV_QPS_RESET });
    a.bytes.fill(1);
    await w.settle(a);
    expect(a.bytes.every((byte) => byte === 1)).toBe(true);
  }
});

test('in SQD, IBV_EVENT_SQ_DRAINED follows the last completion on a carrier', async () => {
  const w = new World();
  const [[a, b], [c, d]] = w.connections(2);
  const events: string[] = [];
  a.v.watchAsyncEvents(a.context, (event, qp) => events.push(`${event} ${qp === a.qp} ${take(a).length}`));
  w.write(c, d, 1);
  await w.settle(a);
  w.write(a, b, 2, 4000);
  modify(a, { qpState: V.IBV_QPS_SQD, enSqdAsyncNotify: 1 });
  w.write(a, b, 3);
  expect(await w.settle(a)).toEqual([]);
  expect(events).toEqual([`${V.IBV_EVENT_SQ_DRAINED} true 1`]);
  modify(a, { qpState: V.IBV_QPS_RTS });
  expect(await w.settle(a)).toEqual(ok(3));
  a.v.watchAsyncEvents(a.context, null);
});

test('connections come and go, and leave no queue pair behind', async () => {
  const w = new World();
  const { posts } = w.device;
  const stays = w.connection();
  for (let round = 0; round < 30; round++) {
    const pairs = w.connections(3);
    for (const [i, [a, b]] of [stays, ...pairs].entries()) w.write(a, b, i);
    expect((await w.settle(stays[0])).sort()).toEqual(ok(0, 1, 2, 3));
    for (const end of pairs.flat()) end.v.destroyQp(end.qp);
    await w.settle(stays[0]);
  }
  // Two queue pairs without a connection, the connection that stays, and what it shares at most.
  expect(posts.size).toBeLessThan(16);
  for (const end of stays) end.v.destroyQp(end.qp);
  expect(posts.size).toBe(2);
});

test('a SEND follows the WRITEs before it, and WRITEs follow it, on the own queue pair', async () => {
  const w = new World();
  const pairs = w.connections(3);
  const [a, b] = pairs[1];
  for (const [i, [from, to]] of pairs.entries()) w.write(from, to, i, 9000);
  b.recv.recv(7, b.mr.addr, 4096, b.mr.lkey);
  b.v.postRecv(b.qp, b.recv.ring, 0, 1);
  a.send.send(20, SIGNALED, a.mr.addr, 16, a.mr.lkey);
  a.send.write(21, SIGNALED, a.mr.addr, 16, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  const lines = await w.settle(a);
  expect(lines.filter((line) => /^(1|20|21) /.test(line))).toEqual(ok(1, 20, 21));
  expect(take(b, b.recvCq).map(({ wrId, status }) => `${wrId} ${status}`)).toEqual(ok(7));
  expect(w.onOwn([a])).toBe(2);
});

test('if the device has no room for carriers, connections use their own queue pairs', async () => {
  const w = new World();
  w.device.isFull = true;
  const pairs = w.connections(3);
  for (const [i, [a, b]] of pairs.entries()) w.write(a, b, i);
  expect((await w.settle(pairs[0][0])).sort()).toEqual(ok(0, 1, 2));
  expect(w.onOwn(pairs.map(([a]) => a))).toBe(3);
  const { v, context } = pairs[0][0];
  const pd = v.allocPd(context);
  for (const { qp } of w.connection([pd])) v.destroyQp(qp);
  v.deallocPd(pd);
});

test('connections with an invalid description of the peer use their own queue pairs', async () => {
  const w = new World();
  const pairs = w.connections(3).map(([a, b]) => {
    const fresh = w.connection();
    a.v.setPeer?.(fresh[0].qp, null);
    return [a, b, fresh] as const;
  });
  for (const [a, b] of pairs) {
    const bytes = b.v.describePeer!(b.qp)!;
    for (const wrong of [
      null,
      new Uint8Array(0),
      bytes.subarray(0, bytes.length - 4),
      bytes.map((byte) => byte ^ 0xff),
    ])
      a.v.setPeer!(a.qp, wrong);
  }
  for (const [i, [a, b]] of pairs.entries()) w.write(a, b, i);
  expect((await w.settle(pairs[0][0])).sort()).toEqual(ok(0, 1, 2));
});
