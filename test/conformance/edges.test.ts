/** Edge cases in which a program might notice a shim: each runs with one and without. */
import { describe, expect, test } from 'vitest';
import { workerDriver } from '../../src/drivers/worker/front.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { shimCounters } from '../../src/shim/counters.ts';
import type { CqLedger } from '../../src/shim/cq-ledger.ts';
import { settleSend } from '../../src/shim/cq-ledger.ts';
import { QpLedger } from '../../src/shim/qp-ledger.ts';
import { emulateWait } from '../../src/shim/wait/emulate-wait.ts';
import * as V from '../../src/verbs/index.ts';
import { DEFAULT_LABELS } from '../../src/verbs/labels.ts';
import { connect, type End, type EndOptions, makeEnd, modify, post, SIGNALED, take } from '../sim/helpers.ts';
import { pathTo, toRts } from '../support/to-rts.ts';
import { chains, suiteChains } from './chains.ts';

const BIG = 1 << 20;

function world(chain: Interceptor[], options: EndOptions = {}, wait = true) {
  const fabric = createFabric({ autoAdvance: false, wait });
  const { bytes = BIG } = options;
  const a = makeEnd({ ...fabric, provider: compose(fabric.provider, chain) }, 0, { ...options, bytes });
  const b = makeEnd(fabric, 1, { bytes });
  connect(a, b);
  /** Lets time pass while the program does nothing. */
  const settle = async () => {
    for (let i = 0; i < 5; i++) await fabric.run();
  };
  return { fabric, a, b, settle };
}

function writeBig(a: End, b: End, id: number, flags = SIGNALED): void {
  a.send.write(id, flags, a.mr.addr, BIG, a.mr.lkey, b.mr.addr, b.mr.rkey);
}

const sides: [string, () => Interceptor[]][] = [
  ['bare', () => []],
  ['under perf', () => [createPolicy('perf', { isolation: 'always' })]],
];

describe.each(sides)('%s', (_, chain) => {
  test('a long message continues while its queue is armed for solicited completions only', async () => {
    const { a, b, settle } = world(chain(), { event: true });
    const events: number[] = [];
    a.v.watchCompChannel(a.channel, (cq) => events.push(cq));
    a.v.reqNotifyCq(a.sendCq, true);
    a.bytes.fill(7);
    writeBig(a, b, 1);
    post(a);
    await settle();
    expect(b.bytes[BIG - 1]).toBe(7);
    expect(events).toEqual([]);
  });

  test.each([true, false])('a long message continues without a listener (armed: %s)', async (armed) => {
    const { a, b, settle } = world(chain(), { event: true });
    if (armed) a.v.reqNotifyCq(a.sendCq, false);
    a.bytes.fill(7);
    writeBig(a, b, 1);
    post(a);
    await settle();
    expect(b.bytes[BIG - 1]).toBe(7);
    const events: number[] = [];
    a.v.watchCompChannel(a.channel, (cq) => events.push(cq));
    await settle();
    expect(events).toEqual(armed ? [a.sendCq] : []);
    expect(take(a).map((wc) => wc.wrId)).toEqual([1]);
  });

  test('a queue as deep as the device allows', async () => {
    const { provider } = createFabric();
    const { maxCqe } = provider.queryDevice(provider.openDevice('sim0'));
    const { a, b, settle } = world(chain(), { cqe: maxCqe });
    writeBig(a, b, 1);
    writeBig(a, b, 2);
    post(a);
    await settle();
    expect(take(a).map((wc) => wc.wrId)).toEqual([1, 2]);
  });

  test('a send queue as deep as the device allows, filled without signals', async () => {
    const { provider } = createFabric();
    const { maxQpWr } = provider.queryDevice(provider.openDevice('sim0'));
    const { a, b, settle } = world(chain(), { cap: { maxSendWr: maxQpWr } });
    for (let left = maxQpWr - 1; left > 0; ) {
      const n = Math.min(left, a.send.capacity);
      for (let i = 0; i < n; i++) a.send.write(0, 0, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
      left -= post(a);
    }
    writeBig(a, b, 1);
    expect(post(a)).toBe(1);
    await settle();
    expect(take(a).map((wc) => wc.wrId)).toEqual([1]);
  });

  test('RESET in the middle of a message leaves nothing behind', async () => {
    const { fabric, a, b, settle } = world(chain());
    for (let i = 0; i < BIG; i += 4096) a.bytes.fill(i >> 12, i, i + 4096);
    for (let i = 0; i < 6; i++) writeBig(a, b, i);
    post(a);
    await fabric.advance(3000);
    for (const end of [a, b]) modify(end, { qpState: V.IBV_QPS_RESET });
    connect(a, b);
    b.bytes.fill(0);
    writeBig(a, b, 9);
    post(a);
    await settle();
    expect(take(a).map((wc) => [wc.wrId, wc.status])).toEqual([[9, 'SUCCESS']]);
    expect(Buffer.compare(a.bytes, b.bytes)).toBe(0);
  });

  test('receives that completed and were not polled keep their slots', async () => {
    const { a, b, settle } = world(chain(), { event: true, cap: { maxRecvWr: 4 } });
    const cap = { maxSendWr: 16, maxRecvWr: 4, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
    const attr = { qpType: V.IBV_QPT_RC, sendCq: a.sendCq, recvCq: a.sendCq, cap, sqSigAll: false };
    const { handle: qp, qpNum } = a.v.createQp(a.pd, attr);
    const one: End = { ...a, qp, qpNum };
    const other = { ...b, ...b.v.createQp(b.pd, { ...attr, sendCq: b.sendCq, recvCq: b.recvCq }) };
    const two: End = { ...other, qp: other.handle };
    connect(one, two);
    for (let i = 0; i < 4; i++) one.recv.recv(i, a.mr.addr, 64, a.mr.lkey);
    expect(a.v.postRecv(qp, one.recv.ring, 0, 4)).toBe(4);
    for (let i = 0; i < 3; i++) two.send.send(i, SIGNALED, b.mr.addr, 8, b.mr.lkey);
    writeBig(one, two, 7);
    post(one);
    post(two);
    await settle();
    expect(a.v.postRecv(qp, one.recv.ring, 0, 4)).toBe(0);
    expect(one.recv.errno).toBe(V.ENOMEM);
    expect(
      take(one)
        .map((wc) => wc.wrId)
        .sort(),
    ).toEqual([0, 1, 2, 7]);
    expect(a.v.postRecv(qp, one.recv.ring, 0, 4)).toBe(3);
  });

  test.each(['RESET', 'destroyQp'])(
    'a queue pair without a send queue loses its completions at %s',
    async (end) => {
      const { a, b, settle } = world(chain());
      const cap = { maxSendWr: 0, maxRecvWr: 4, maxSendSge: 0, maxRecvSge: 2, maxInlineData: 0 };
      const attr = { qpType: V.IBV_QPT_RC, sendCq: a.sendCq, recvCq: a.sendCq, cap, sqSigAll: false };
      const { handle: qp, qpNum } = a.v.createQp(a.pd, attr);
      const receiver: End = { ...a, qp, qpNum };
      const senderCap = { ...cap, maxSendWr: 4, maxSendSge: 2 };
      const made = b.v.createQp(b.pd, { ...attr, sendCq: b.sendCq, recvCq: b.recvCq, cap: senderCap });
      const sender: End = { ...b, qp: made.handle, qpNum: made.qpNum };
      connect(receiver, sender);
      receiver.recv.recv(1, a.mr.addr, 64, a.mr.lkey);
      expect(a.v.postRecv(qp, receiver.recv.ring, 0, 1)).toBe(1);
      sender.send.send(2, SIGNALED, b.mr.addr, 8, b.mr.lkey);
      post(sender);
      writeBig(a, b, 3);
      post(a);
      await settle();
      if (end === 'RESET') modify(receiver, { qpState: V.IBV_QPS_RESET });
      else a.v.destroyQp(qp);
      expect(take(a).map((wc) => wc.wrId)).toEqual([3]);
    },
  );

  test('events of a queue pair that was destroyed are dropped', async () => {
    const { a, b, settle } = world(chain());
    writeBig(a, b, 1);
    post(a);
    b.send.write(2, SIGNALED, b.mr.addr, 8, b.mr.lkey, a.mr.addr, 0xdead);
    post(b);
    await settle();
    a.v.destroyQp(a.qp);
    const heard: number[] = [];
    a.v.watchAsyncEvents(a.context, (event) => heard.push(event));
    await settle();
    expect(heard).toEqual([]);
  });

  test('bad arguments of createQp are typed errors', () => {
    const { a } = world(chain());
    const bad: unknown[] = [undefined, {}, { qpType: 2, sendCq: a.sendCq, recvCq: a.sendCq }];
    for (const attr of bad) {
      expect(() => a.v.createQp(a.pd, attr as V.QpInitAttr)).toThrow(
        expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' }),
      );
    }
  });

  test('a managed queue pair sends as many requests as are enabled', async () => {
    const { a, b, settle } = world(chain(), { managed: true });
    const other: End = { ...a, ...openPlain(a, b), send: new V.SendBatch(a.v, { capacity: 4 }) };
    a.bytes.fill(7);
    for (let i = 0; i < 3; i++) writeBig(a, b, i);
    post(a);
    other.send.enable(0, 0, a.qp, 2);
    expect(post(other)).toBe(1);
    await settle();
    expect(take(a).map((wc) => wc.wrId)).toEqual([0, 1]);
  });
});

function openPlain(a: End, b: End): { qp: number; qpNum: number } {
  const cap = { maxSendWr: 16, maxRecvWr: 4, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
  const attr = { qpType: V.IBV_QPT_RC, cap, sqSigAll: false };
  const one = a.v.createQp(a.pd, { ...attr, sendCq: a.sendCq, recvCq: a.recvCq });
  const two = b.v.createQp(b.pd, { ...attr, sendCq: b.sendCq, recvCq: b.recvCq });
  connect({ ...a, qp: one.handle, qpNum: one.qpNum }, { ...b, qp: two.handle, qpNum: two.qpNum });
  return { qp: one.handle, qpNum: one.qpNum };
}

const waits: [string, boolean, () => Interceptor[]][] = [
  ['simulated', true, () => []],
  ['emulated', false, () => [emulateWait()]],
];

describe.each(waits)('WAIT, %s', (_, wait, chain) => {
  test('the completion of a WAIT raises an event', async () => {
    const { a, settle } = world(chain(), { event: true }, wait);
    let events = 0;
    a.v.watchCompChannel(a.channel, () => events++);
    a.v.reqNotifyCq(a.sendCq, false);
    a.send.wait(5, SIGNALED, a.sendCq, 0);
    post(a);
    await settle();
    expect(events).toBe(1);
    expect(take(a).map((wc) => wc.wrId)).toEqual([5]);
  });

  test('a WAIT before RTS, or on a handle that is not a completion queue, is refused', () => {
    const { a } = world(chain(), {}, wait);
    a.send.wait(5, SIGNALED, 12345, 1);
    expect([post(a), a.send.errno, a.send.reason]).toEqual([0, V.EINVAL, V.REASON_TARGET]);
    modify(a, { qpState: V.IBV_QPS_RESET });
    a.send.wait(5, SIGNALED, a.sendCq, 0);
    expect([post(a), a.send.errno, a.send.reason]).toEqual([0, V.EINVAL, V.REASON_STATE]);
  });

  test("requests behind a WAIT report in separate CQ entries, not in the application's", async () => {
    const { a, b, settle } = world(chain(), { cqe: 2 }, wait);
    const other: End = { ...a, ...openPlain(a, b) };
    for (const id of [1, 2]) a.send.write(id, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    await settle();
    for (let i = 0; i < 8; i++) {
      other.send.wait(0, 0, a.sendCq, 0);
      other.send.write(3, 0, a.mr.addr, 60_000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    }
    expect(post(other)).toBe(16);
    await settle();
    expect(take(a).map((wc) => [wc.wrId, wc.status])).toEqual([
      [1, 'SUCCESS'],
      [2, 'SUCCESS'],
    ]);
    expect(a.v.queryQp(other.qp).attr.qpState).toBe(V.IBV_QPS_RTS);
  });

  test('a failed receive flushes requests behind a WAIT', async () => {
    const { a, b, settle } = world(chain(), {}, wait);
    a.recv.recv(9, a.mr.addr, 4, a.mr.lkey);
    a.v.postRecv(a.qp, a.recv.ring, 0, 1);
    a.send.wait(5, 0, a.recvCq, 100).write(6, SIGNALED, 0, 0, 0, 0, 0);
    post(a);
    b.send.send(1, SIGNALED, b.mr.addr, 100, b.mr.lkey);
    post(b);
    await settle();
    expect(take(a, a.recvCq).map((wc) => wc.status)).toEqual(['LOC_LEN_ERR']);
    await settle();
    expect(take(a).map((wc) => [wc.wrId, wc.status])).toEqual([
      [5, 'WR_FLUSH_ERR'],
      [6, 'WR_FLUSH_ERR'],
    ]);
  });
});

const ringSides: typeof sides = [
  ...sides,
  ['in a worker', () => [workerDriver([{ name: 'perf', options: { isolation: 'always' } }])]],
];

describe.each(ringSides)('numbers outside a ring: %s', (_, chain) => {
  const WRONG = [0.5, 1.5, -1, Number.NaN, 257, 2 ** 31, '1', null, true, 1n, [1]] as number[];

  test('are refused by posts and polls without any loss', async () => {
    const { a, b, settle } = world(chain());
    const { v, send, recv, wc } = a;
    for (let id = 0; id < 6; id++) writeBig(a, b, id);
    expect(post(a)).toBe(6);
    await settle();
    writeBig(a, b, 6);
    recv.recv(7, a.mr.addr, 100, a.mr.lkey);
    for (const x of WRONG) {
      for (const [start, count] of [
        [x, 1],
        [0, x],
      ] as const) {
        const text = `${start} ${count}`;
        expect([text, v.postSend(a.qp, send.ring, start, count)]).toEqual([text, 0]);
        expect(send.words[V.HDR_REASON]).toBe(V.REASON_RANGE);
        expect([text, v.postRecv(a.qp, recv.ring, start, count)]).toEqual([text, 0]);
        expect(recv.words[V.HDR_REASON]).toBe(V.REASON_RANGE);
        expect(() => v.pollCq(a.sendCq, wc.ring, start, count), text).toThrow('inside a ring');
      }
    }
    expect(take(a).map(({ wrId }) => wrId)).toEqual([0, 1, 2, 3, 4, 5]);
  });
});

describe.each(ringSides)('memory and opcodes: %s', (_, chain) => {
  test('a posted request whose memory is detached fails, and later ones are flushed', async () => {
    const { fabric, a, b, settle } = world(chain());
    const memory = new ArrayBuffer(BIG);
    const mr = a.v.regMr(a.pd, memory, 0, BIG, V.IBV_ACCESS_LOCAL_WRITE);
    for (let id = 0; id < 4; id++) a.send.write(id, SIGNALED, mr.addr, BIG, mr.lkey, b.mr.addr, b.mr.rkey);
    expect(post(a)).toBe(4);
    await fabric.advance(3000);
    structuredClone(memory, { transfer: [memory] });
    await settle();
    expect(take(a).map(({ wrId, status }) => `${wrId} ${status}`)).toEqual([
      '0 LOC_PROT_ERR',
      '1 WR_FLUSH_ERR',
      '2 WR_FLUSH_ERR',
      '3 WR_FLUSH_ERR',
    ]);
  });

  test('an unknown opcode is refused', () => {
    const { a, b } = world(chain());
    writeBig(a, b, 1);
    a.send.words[V.slotAt(0) + V.WR_OP] |= 0xff;
    expect(a.v.postSend(a.qp, a.send.ring, 0, 1)).toBe(0);
    expect(a.send.words[V.HDR_REASON]).toBe(V.REASON_OPCODE);
  });
});

const splitting = { split: suiteChains.split, 'token pacer': chains['token pacer'].chain };
test('an XRC_SEND without a queue for completions of receives is under the policy', () => {
  const { a, b } = world([createPolicy('fair')]);
  const cap = { maxSendWr: 4, maxRecvWr: 0, maxSendSge: 1, maxRecvSge: 0, maxInlineData: 0 };
  const attr = { qpType: V.IBV_QPT_XRC_SEND, sendCq: a.sendCq, recvCq: 0, cap, sqSigAll: false };
  const { handle: qp } = a.v.createQp(a.pd, attr);
  const ah = pathTo(b.v.queryGid(b.context, 1, 0).gid);
  toRts(a.v, qp, { qpType: V.IBV_QPT_XRC_SEND, destQpNum: b.qpNum, ah });
  writeBig(a, b, 1);
  expect(post({ ...a, qp })).toBe(1);
  expect(shimCounters(a.v)).toMatchObject({ seen: 1, bytes: BIG });
});

test("posts are accepted up to the application's depth while pieces fill the device's queue", async () => {
  const pieces = { linkGbps: 400, burstBytes: 12_000, pieceBytes: 256 };
  const { a, b, fabric } = world([createPolicy('token-bucket', pieces)], { cap: { maxSendWr: 4 } });
  a.send.write(1, SIGNALED, a.mr.addr, 20_000, a.mr.lkey, b.mr.addr, b.mr.rkey);
  expect(post(a)).toBe(1);
  await fabric.advance(5000);
  for (let i = 2; i <= 5; i++) a.send.write(i, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  expect(post(a)).toBe(3);
  await fabric.run();
  expect(take(a).map((wc) => wc.wrId)).toEqual([1, 2, 3, 4]);
});

test.each(Object.entries(splitting))(
  'a CQ shared by more queue pairs than it has spare entries for: %s',
  async (_, chain) => {
    const COUNT = 200;
    const fabric = createFabric({ hosts: 2, autoAdvance: false });
    const v = compose(fabric.provider, chain());
    const on = { ...fabric, provider: v };
    const a = makeEnd(on, 0, { bytes: 1 << 16, cqe: COUNT });
    const b = makeEnd(fabric, 1, { bytes: 1 << 16 });
    connect(a, b);
    const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const more = Array.from({ length: COUNT - 1 }, () => {
      const [at, to] = [a, b].map((end) => {
        const { sendCq, recvCq, pd } = end;
        const { handle, qpNum } = end.v.createQp(pd, {
          qpType: V.IBV_QPT_RC,
          sendCq,
          recvCq,
          cap,
          sqSigAll: true,
        });
        return { ...end, qp: handle, qpNum };
      });
      connect(at, to);
      return at;
    });
    [a, ...more].forEach((end, id) => {
      end.send.write(id, SIGNALED, a.mr.addr, 1 << 15, a.mr.lkey, b.mr.addr, b.mr.rkey);
      expect(post(end)).toBe(1);
    });
    // Time passes in which neither the program polls nor, on an event, the shim.
    fabric.simulation.run();
    const seen: string[] = [];
    for (let idle = 0; idle < 3; ) {
      await fabric.run();
      const wcs = take(a);
      seen.push(...wcs.map(({ wrId, status }) => `${wrId} ${status}`));
      idle = wcs.length === 0 ? idle + 1 : 0;
    }
    expect(new Set(seen)).toEqual(new Set(Array.from({ length: COUNT }, (_, id) => `${id} SUCCESS`)));
    expect(seen.length).toBe(COUNT);
  },
);

test('running numbers wrap', () => {
  const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
  const attr = { qpType: V.IBV_QPT_RC, sendCq: 1, recvCq: 1, cap, sqSigAll: true };
  const cq = { owner: { labels: DEFAULT_LABELS } } as CqLedger;
  const qp = new QpLedger(
    1,
    { handle: 1, qpNum: 1, cap },
    1,
    attr,
    { app: 8, real: 16, recv: 8, sges: 2, inlineBytes: 0 },
    cq,
    cq,
  );
  qp.translate();
  const wc = new Uint32Array(V.SLOT_WORDS);
  for (let turn = 0; turn < 12; turn++) {
    const seq = Math.imul(turn, 2 ** 30 - 5);
    qp.appPosted = qp.realPosted = qp.head = qp.issued = seq;
    qp.passThrough(new Uint32Array(V.SLOT_WORDS), 0, 0, true);
    wc[V.WC_SEQ] = seq;
    expect([turn, settleSend(qp, wc, 0)]).toEqual([turn, true]);
    expect([qp.head, qp.realFreed]).toEqual([(seq + 1) | 0, (seq + 1) | 0]);
  }
});
