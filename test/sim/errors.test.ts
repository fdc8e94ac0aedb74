/** Errors as the InfiniBand specification defines them, and the flushes that follow. */
import { describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { pathTo, toRts } from '../support/to-rts.ts';
import {
  ALL_ACCESS,
  connect,
  drain,
  type End,
  makeEnd,
  modify,
  pair,
  post,
  postRecv,
  SIGNALED,
  take,
} from './helpers.ts';

const statuses = (wcs: { status: string }[]) => wcs.map((wc) => wc.status);

function stateOf(end: End): number | undefined {
  return end.v.queryQp(end.qp).attr.qpState;
}

describe('remote access', () => {
  const cases: [name: string, aim: (b: End) => [addr: number, rkey: number]][] = [
    ['beyond the end', (b) => [b.mr.addr + 65536 - 7, b.mr.rkey]],
    ['before the beginning', (b) => [b.mr.addr - 1, b.mr.rkey]],
    ['a wrong key', (b) => [b.mr.addr, b.mr.rkey + 256]],
    ['the local key', (b) => [b.mr.addr, b.mr.lkey]],
    ['a key of all ones', (b) => [b.mr.addr, 0xffffffff]],
    [
      'another protection domain',
      (b) => {
        const other = b.v.allocMr(b.v.allocPd(b.context), 4096, ALL_ACCESS);
        return [other.addr, other.rkey];
      },
    ],
    [
      'no permission of the memory',
      (b) => {
        const other = b.v.allocMr(b.pd, 4096, V.IBV_ACCESS_LOCAL_WRITE);
        return [other.addr, other.rkey];
      },
    ],
    [
      'memory that was deregistered',
      (b) => {
        const other = b.v.allocMr(b.pd, 4096, ALL_ACCESS);
        b.v.deregMr(other.handle);
        return [other.addr, other.rkey];
      },
    ],
  ];
  test.each(cases)(
    '%s: REM_ACCESS_ERR for WRITE, READ and atomics; both ends to ERR, the rest flushed',
    (_, aim) => {
      for (const opcode of ['write', 'read', 'fetchAdd'] as const) {
        const [a, b, fabric] = pair();
        const [addr, rkey] = aim(b);
        const at =
          opcode === 'fetchAdd'
            ? addr - (addr % 8) - (addr < b.mr.addr ? 8 : 0) + (addr > b.mr.addr + 60000 ? 8 : 0)
            : addr;
        b.recv.recv(50, b.mr.addr, 8, b.mr.lkey);
        postRecv(b);
        a.send.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
        if (opcode === 'fetchAdd') a.send.fetchAdd(2, 0, a.mr.addr, a.mr.lkey, at, rkey, 1n);
        else a.send[opcode](2, 0, a.mr.addr, 8, a.mr.lkey, at, rkey);
        a.send.write(3, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
        post(a);
        const done = drain(fabric, a);
        expect(done.map((wc) => [wc.wrId, wc.status])).toEqual([
          [1, 'SUCCESS'],
          [2, 'REM_ACCESS_ERR'],
          [3, 'WR_FLUSH_ERR'],
        ]);
        expect([stateOf(a), stateOf(b)]).toEqual([V.IBV_QPS_ERR, V.IBV_QPS_ERR]);
        expect(statuses(take(b, b.recvCq))).toEqual(['WR_FLUSH_ERR']);
        expect(fabric.brokenInvariants()).toEqual([]);
      }
    },
  );

  test('nothing of a WRITE that does not fit is written', () => {
    const [a, b, fabric] = pair();
    a.bytes.fill(9);
    a.send.write(1, SIGNALED, a.mr.addr, 10000, a.mr.lkey, b.mr.addr + 60000, b.mr.rkey);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['REM_ACCESS_ERR']);
    expect(b.bytes.every((x) => x === 0)).toBe(true);
  });

  test('an operation that the queue pair does not permit: REM_INV_REQ_ERR', () => {
    for (const opcode of ['write', 'read', 'fetchAdd'] as const) {
      const [a, b, fabric] = pair({}, {}, { qpAccess: V.IBV_ACCESS_LOCAL_WRITE });
      if (opcode === 'fetchAdd') a.send.fetchAdd(2, 0, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
      else a.send[opcode](2, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
      post(a);
      expect(statuses(drain(fabric, a))).toEqual(['REM_INV_REQ_ERR']);
    }
  });

  test('a bad WRITE behind a long READ: the READ still completes', () => {
    const [a, b, fabric] = pair();
    a.send.read(1, SIGNALED, a.mr.addr, 60000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.write(2, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, 0);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['SUCCESS', 'REM_ACCESS_ERR']);
  });
});

describe('local protection', () => {
  test('a bad lkey fails its request after those before it, with LOC_PROT_ERR', () => {
    const [a, b, fabric] = pair();
    a.send.write(1, SIGNALED, a.mr.addr, 60000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.write(2, 0, a.mr.addr, 8, 12345, b.mr.addr, b.mr.rkey);
    a.send.write(3, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(post(a)).toBe(3);
    expect(drain(fabric, a).map((wc) => [wc.wrId, wc.status])).toEqual([
      [1, 'SUCCESS'],
      [2, 'LOC_PROT_ERR'],
      [3, 'WR_FLUSH_ERR'],
    ]);
  });

  // The device requests no acknowledgement of the first request, because it takes the second to follow.
  test.each([
    ['in RTS', false],
    ['in SQD', true],
  ])('behind an unsignaled request of a device that acknowledges signaled ones, %s', (_, drains) => {
    const [a, b, fabric] = pair({ profile: 'cx6-100g' }, { timeout: 0 });
    a.send.write(1, 0, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.write(2, SIGNALED, a.mr.addr, 64, 12345, b.mr.addr, b.mr.rkey);
    post(a);
    if (drains) {
      while (fabric.simulation.world.qps.every((qp) => (qp?.started ?? 0) < 2)) fabric.simulation.step();
      modify(a, { qpState: V.IBV_QPS_SQD });
    }
    expect(drain(fabric, a).map((wc) => [wc.wrId, wc.status])).toEqual([[2, 'LOC_PROT_ERR']]);
    expect(stateOf(a)).toBe(V.IBV_QPS_ERR);
  });

  test('behind a SEND that waits for a receive, in SQD', () => {
    const [a, b, fabric] = pair();
    a.send.send(1, 0, a.mr.addr, 64, a.mr.lkey);
    a.send.write(2, SIGNALED, a.mr.addr, 64, 12345, b.mr.addr, b.mr.rkey);
    post(a);
    fabric.simulation.runUntil(5000);
    modify(a, { qpState: V.IBV_QPS_SQD });
    b.recv.recv(3, b.mr.addr, 64, b.mr.lkey);
    postRecv(b);
    expect(drain(fabric, a).map((wc) => [wc.wrId, wc.status])).toEqual([[2, 'LOC_PROT_ERR']]);
    expect(take(b, b.recvCq)).toMatchObject([{ wrId: 3, status: 'SUCCESS' }]);
  });

  test('a READ into memory without LOCAL_WRITE: LOC_PROT_ERR', () => {
    const [a, b, fabric] = pair({}, { access: 0 }, {});
    a.send.read(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['LOC_PROT_ERR']);
  });

  test('a receive into bad memory: LOC_PROT_ERR there, REM_OP_ERR here', () => {
    const [a, b, fabric] = pair();
    b.recv.recv(1, b.mr.addr, 100, 777).recv(2, b.mr.addr, 100, b.mr.lkey);
    postRecv(b);
    a.send.send(1, SIGNALED, a.mr.addr, 8, a.mr.lkey);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['REM_OP_ERR']);
    expect(take(b, b.recvCq).map((wc) => [wc.wrId, wc.status, wc.recv])).toEqual([
      [1, 'LOC_PROT_ERR', true],
      [2, 'WR_FLUSH_ERR', true],
    ]);
  });

  test('a receive that is too short: LOC_LEN_ERR there, REM_INV_REQ_ERR here', () => {
    const [a, b, fabric] = pair();
    b.recv.recv(1, b.mr.addr, 5000, b.mr.lkey);
    postRecv(b);
    a.send.send(1, SIGNALED, a.mr.addr, 5001, a.mr.lkey);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['REM_INV_REQ_ERR']);
    expect(statuses(take(b, b.recvCq))).toEqual(['LOC_LEN_ERR']);
  });
});

describe('receiver not ready', () => {
  test('the sender retries until a receive is posted', () => {
    const [a, b, fabric] = pair({}, { minRnrTimer: 1 });
    a.send
      .send(1, SIGNALED, a.mr.addr, 9000, a.mr.lkey)
      .write(2, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    fabric.simulation.runUntil(95_000);
    expect(take(a)).toEqual([]);
    b.recv.recv(1, b.mr.addr, 9000, b.mr.lkey);
    postRecv(b);
    expect(statuses(drain(fabric, a))).toEqual(['SUCCESS', 'SUCCESS']);
    expect(take(b, b.recvCq)).toMatchObject([{ byteLen: 9000 }]);
  });

  test('WRITE_WITH_IMM waits for a receive as well', () => {
    const [a, b, fabric] = pair();
    a.send.writeImm(1, SIGNALED, a.mr.addr, 9000, a.mr.lkey, b.mr.addr, b.mr.rkey, 3);
    post(a);
    fabric.simulation.runUntil(50_000);
    b.recv.recv(1, 0, 0, 0);
    postRecv(b);
    expect(statuses(drain(fabric, a))).toEqual(['SUCCESS']);
    expect(take(b, b.recvCq)).toMatchObject([{ byteLen: 9000, imm: 3 }]);
  });

  test('rnr_retry tries, then RNR_RETRY_EXC_ERR', () => {
    const [a, , fabric] = pair({}, { rnrRetry: 3, minRnrTimer: 14 });
    a.send.send(1, 0, a.mr.addr, 8, a.mr.lkey);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['RNR_RETRY_EXC_ERR']);
    // Three waits of 1.28 ms.
    expect(fabric.nowNs).toBeGreaterThan(3 * 1.28e6);
    expect(fabric.nowNs).toBeLessThan(3 * 1.28e6 + 20e3);
  });
});

describe('silence', () => {
  test.each([0, 1, 3, 7])('a dead peer: RETRY_EXC_ERR after 1 + %i transmissions', (retryCnt) => {
    const [a, b, fabric] = pair({}, { retryCnt, timeout: 8 });
    fabric.fault({ kill: 'sim1' });
    a.send.write(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.write(2, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['RETRY_EXC_ERR', 'WR_FLUSH_ERR']);
    const timeoutNs = 4096 * 2 ** 8;
    expect(Math.round(fabric.nowNs / timeoutNs)).toBe(retryCnt + 1);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('a link that recovers in time causes no error', () => {
    const [a, b, fabric] = pair({}, { timeout: 8 });
    fabric.fault({ linkDown: 'sim1' });
    a.send.write(1, SIGNALED, a.mr.addr, 20000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    fabric.simulation.runUntil(2e6);
    fabric.fault({ linkUp: 1 });
    expect(statuses(drain(fabric, a))).toEqual(['SUCCESS']);
  });

  test('a stale retry timer does not move the clock', () => {
    const [a, b, fabric] = pair({}, { timeout: 20 });
    a.send.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    expect(drain(fabric, a)).toHaveLength(1);
    expect(fabric.nowNs).toBeLessThan(1100);
    expect(fabric.simulation.world.events.size).toBe(0);
  });

  test('an unknown address ends in RETRY_EXC_ERR', () => {
    const [a, , fabric] = pair();
    modify(a, { qpState: V.IBV_QPS_RESET });
    toRts(a.v, a.qp, { destQpNum: 1, ah: pathTo('::ffff:10.9.9.9'), timeout: 1, retryCnt: 1 });
    a.send.send(1, 0, a.mr.addr, 1, a.mr.lkey);
    post(a);
    expect(statuses(drain(fabric, a))).toEqual(['RETRY_EXC_ERR']);
  });
});

describe('ERR and RESET', () => {
  test('moving to ERR flushes both queues in order, including unsignaled requests', () => {
    const [a, , fabric] = pair();
    for (let i = 0; i < 4; i++) a.send.send(i, 0, a.mr.addr, 8, a.mr.lkey);
    for (let i = 0; i < 3; i++) a.recv.recv(10 + i, a.mr.addr, 8, a.mr.lkey);
    post(a);
    postRecv(a);
    modify(a, { qpState: V.IBV_QPS_ERR });
    expect(drain(fabric, a).map((wc) => [wc.wrId, wc.status])).toEqual(
      [0, 1, 2, 3].map((id) => [id, 'WR_FLUSH_ERR']),
    );
    expect(take(a, a.recvCq).map((wc) => wc.wrId)).toEqual([10, 11, 12]);
    a.send.send(20, 0, a.mr.addr, 8, a.mr.lkey);
    expect(post(a)).toBe(1);
    a.recv.recv(21, a.mr.addr, 8, a.mr.lkey);
    expect(postRecv(a)).toBe(1);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 20, status: 'WR_FLUSH_ERR' }]);
    expect(take(a, a.recvCq)).toMatchObject([{ wrId: 21, status: 'WR_FLUSH_ERR' }]);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('RESET discards queued, in-flight and unpolled requests; the queue pair can reconnect, and request numbers continue', () => {
    const [a, b, fabric] = pair();
    const write = (id: number) =>
      a.send.write(id, SIGNALED, a.mr.addr, 60000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    write(1);
    post(a);
    fabric.simulation.run();
    for (let i = 0; i < 5; i++) write(2);
    post(a);
    fabric.simulation.runUntil(fabric.nowNs + 3000);
    for (const end of [a, b]) modify(end, { qpState: V.IBV_QPS_RESET });
    expect(take(a)).toEqual([]);
    connect(a, b);
    write(3);
    post(a);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 3, status: 'SUCCESS', seq: 6 }]);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('SQD finishes started requests and starts no others', () => {
    const [a, b, fabric] = pair();
    for (let i = 0; i < 3; i++) a.send.write(i, SIGNALED, a.mr.addr, 60000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    fabric.simulation.runUntil(1000);
    modify(a, { qpState: V.IBV_QPS_SQD });
    expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([0]);
    modify(a, { qpState: V.IBV_QPS_RTS });
    expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([1, 2]);
  });

  test('a queue pair may be destroyed with work in flight', () => {
    const [a, b, fabric] = pair();
    for (let i = 0; i < 3; i++) a.send.write(i, SIGNALED, a.mr.addr, 60000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    fabric.simulation.runUntil(5000);
    a.v.destroyQp(a.qp);
    fabric.simulation.run();
    expect(take(a)).toEqual([]);
    expect(fabric.brokenInvariants()).toEqual([]);
  });
});

test('a CQ that overflows keeps its completions, loses new ones, and fails its queue pairs', () => {
  const [a, b, fabric] = pair({}, { cqe: 4 });
  for (let i = 0; i < 10; i++) a.send.write(i, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([0, 1, 2, 3]);
  expect(stateOf(a)).toBe(V.IBV_QPS_ERR);
  expect(take(a)).toEqual([]);
  expect(fabric.brokenInvariants()).toEqual([]);
});

describe('detached memory', () => {
  test('at post: EINVAL, and the queue pair to ERR with the rest flushed', () => {
    const [a, b, fabric] = pair();
    const memory = new ArrayBuffer(4096);
    const mr = a.v.regMr(a.pd, memory, 0, 4096, 0);
    a.send.write(1, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.write(2, 0, mr.addr, 8, mr.lkey, b.mr.addr, b.mr.rkey);
    structuredClone(memory, { transfer: [memory] });
    expect(post(a)).toBe(1);
    expect([a.send.errno, a.send.reason]).toEqual([V.EINVAL, V.REASON_DETACHED]);
    expect(statuses(drain(fabric, a))).toEqual(['WR_FLUSH_ERR']);
  });

  test('while requests are in flight: LOC_PROT_ERR and REM_ACCESS_ERR, nothing is thrown', () => {
    for (const side of ['local', 'remote']) {
      const [a, b, fabric] = pair();
      const memory = new ArrayBuffer(1 << 20);
      const owner = side === 'local' ? a : b;
      const mr = owner.v.regMr(owner.pd, memory, 0, 1 << 20, ALL_ACCESS);
      const other = (owner === a ? b : a).v.allocMr((owner === a ? b : a).pd, 1 << 20, ALL_ACCESS);
      const [local, remote] = side === 'local' ? [mr, other] : [other, mr];
      a.send.write(1, SIGNALED, local.addr, 1 << 20, local.lkey, remote.addr, remote.rkey);
      post(a);
      fabric.simulation.runUntil(10_000);
      structuredClone(memory, { transfer: [memory] });
      expect(statuses(drain(fabric, a))).toEqual([side === 'local' ? 'LOC_PROT_ERR' : 'REM_ACCESS_ERR']);
      expect(fabric.brokenInvariants()).toEqual([]);
    }
  });

  test('deregistering allocated memory detaches it', () => {
    const [a] = pair();
    a.v.deregMr(a.mr.handle);
    expect(a.mr.memory.byteLength).toBe(0);
  });
});

test('two ends whose queue pair numbers do not match', () => {
  const [a, b, fabric] = pair({}, { timeout: 1, retryCnt: 1 });
  const c = makeEnd(fabric, 0, { timeout: 1, retryCnt: 1 });
  connect(c, makeEnd(fabric, 1));
  modify(c, { qpState: V.IBV_QPS_RESET });
  toRts(c.v, c.qp, { destQpNum: b.qpNum, ah: pathTo('::ffff:10.0.0.2'), timeout: 1, retryCnt: 1 });
  c.send.write(1, SIGNALED, c.mr.addr, 8, c.mr.lkey, b.mr.addr, b.mr.rkey);
  post(c);
  expect(statuses(drain(fabric, c))).toEqual(['RETRY_EXC_ERR']);
  a.send.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(statuses(drain(fabric, a))).toEqual(['SUCCESS']);
});
