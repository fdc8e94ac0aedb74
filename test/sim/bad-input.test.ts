/**
 * Bad input throws a typed error that names the verb, the argument and the expected value, and leaves nothing
 * half done.
 */
import { describe, expect, test } from 'vitest';
import { createFabric, type Fault } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import { drain, makeEnd, modify, pair, post, postRecv, SIGNALED, take, toInit, toRtr } from './helpers.ts';

describe('handles', () => {
  test('closed handles, wrong types, foreign objects and invalid numbers are rejected', () => {
    const [a, b] = pair();
    const { v } = a;
    const closed = v.allocPd(a.context);
    v.deallocPd(closed);
    for (const bad of [closed, a.qp, 0, -1, 1.5, Number.NaN, undefined as unknown as number]) {
      expect(() => v.allocMr(bad, 4096, 0)).toThrow(V.InvalidHandleError);
    }
    expect(() => v.deallocPd(closed)).toThrow(/deallocPd needs a live protection domain/);
    const attr = { qpType: V.IBV_QPT_RC, sendCq: a.sendCq, recvCq: b.recvCq, sqSigAll: false };
    const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    expect(() => v.createQp(a.pd, { ...attr, cap })).toThrow(/recvCq belongs to another context/);
    expect(() => v.postSend(a.sendCq, a.send.ring, 0, 1)).toThrow(V.InvalidHandleError);
    expect(() => v.postSend(a.qp, a.wc.ring, 0, 1)).toThrow(V.InvalidHandleError);
    expect(() => v.pollCq(a.sendCq, a.send.ring, 0, 1)).toThrow(V.InvalidHandleError);
    a.send.close();
    expect(() => v.postSend(a.qp, a.send.ring, 0, 1)).toThrow(V.InvalidHandleError);
    expect(a.send.words.length).toBe(0);
  });

  test('destroying a parent throws BusyError with the list of its children', () => {
    const [a] = pair();
    const { v } = a;
    const channel = v.createCompChannel(a.context);
    const cq = v.createCq(a.context, 1, channel).handle;
    expect(() => v.destroyCompChannel(channel)).toThrow(/completion channel still has a completion queue/);
    expect(() => v.deallocPd(a.pd)).toThrow(/protection domain still has a queue pair, a memory region/);
    expect(() => v.destroyCq(a.sendCq)).toThrow(/completion queue still has a queue pair/);
    expect(() => v.closeDevice(a.context)).toThrow(
      /context still has a protection domain, 3 completion queues, a completion channel/,
    );
    v.destroyQp(a.qp);
    v.deregMr(a.mr.handle);
    v.deallocPd(a.pd);
    for (const q of [a.sendCq, a.recvCq, cq]) v.destroyCq(q);
    v.destroyCompChannel(channel);
    v.closeDevice(a.context);
    expect(() => v.queryDevice(a.context)).toThrow(V.InvalidHandleError);
  });
});

describe('arguments', () => {
  const cases: [
    name: string,
    call: (v: V.Provider, context: number, pd: number) => unknown,
    message: RegExp,
  ][] = [
    ['cqe 0', (v, c) => v.createCq(c, 0, 0), /createCq: cqe must be an integer from 1/],
    ['cqe beyond the device', (v, c) => v.createCq(c, 1 << 23, 0), /at most/],
    ['MR of no bytes', (v, _, pd) => v.allocMr(pd, 0, 0), /allocMr: lengthBytes must be an integer from 1/],
    ['MR of NaN bytes', (v, _, pd) => v.allocMr(pd, Number.NaN, 0), /got NaN/],
    ['access bits', (v, _, pd) => v.allocMr(pd, 1, 4096), /allocMr: access must consist of/],
    [
      'remote without local write',
      (v, _, pd) => v.allocMr(pd, 1, V.IBV_ACCESS_REMOTE_WRITE),
      /requires IBV_ACCESS_LOCAL_WRITE/,
    ],
    [
      'beyond the buffer',
      (v, _, pd) => v.regMr(pd, new ArrayBuffer(10), 4, 7, 0),
      /lengthBytes must be an integer from 1 to 6/,
    ],
    [
      'a Buffer',
      (v, _, pd) => v.regMr(pd, Buffer.alloc(8) as unknown as ArrayBuffer, 0, 8, 0),
      /must be an ArrayBuffer/,
    ],
    ['ring of no slots', (v) => v.createWrRing(0, 1, 0), /createWrRing: capacity/],
    ['port 2', (v, c) => v.queryPort(c, 2), /queryPort: portNum must be an integer from 1 to 1/],
    ['a handle of no kind', (v) => v.allocPd(5), /allocPd needs a live context, got 5$/],
    ['GID 99', (v, c) => v.queryGid(c, 1, 99), /queryGid: index/],
  ];
  test.each(cases)('%s', (_, call, message) => {
    const [a] = pair();
    expect(() => call(a.v, a.context, a.pd)).toThrow(message);
    expect(() => call(a.v, a.context, a.pd)).toThrow(V.IsoverbsError);
  });

  test('memory that may move is rejected', () => {
    const [a] = pair();
    const make = (Type: typeof ArrayBuffer, options: object) =>
      new (Type as new (n: number, o: object) => ArrayBuffer)(8, options);
    const detached = new ArrayBuffer(8);
    structuredClone(detached, { transfer: [detached] });
    expect(() => a.v.regMr(a.pd, detached, 0, 0, 0)).toThrow(V.MemoryError);
    expect(() => a.v.regMr(a.pd, make(ArrayBuffer, { maxByteLength: 16 }), 0, 8, 0)).toThrow(V.MemoryError);
    const shared = SharedArrayBuffer as unknown as typeof ArrayBuffer;
    expect(() => a.v.regMr(a.pd, make(shared, { maxByteLength: 16 }), 0, 8, 0)).toThrow(V.MemoryError);
  });

  test('createQp', () => {
    const [a] = pair();
    const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const create = (qpType: number, change: Partial<V.QpCap> = {}) =>
      a.v.createQp(a.pd, {
        qpType,
        sendCq: a.sendCq,
        recvCq: a.recvCq,
        cap: { ...cap, ...change },
        sqSigAll: false,
      });
    expect(() => create(77)).toThrow(V.InvalidArgumentError);
    expect(() => create(V.IBV_QPT_RC, { maxSendWr: 1e6 })).toThrow(
      /cap.maxSendWr is 1000000, but the device supports/,
    );
    expect(() => create(V.IBV_QPT_RC, { maxInlineData: -1 })).toThrow(/cap.maxInlineData must be/);
  });

  test('modifyQp: table, ranges and the address', () => {
    const fabric = createFabric();
    const [a, b] = [makeEnd(fabric, 0), makeEnd(fabric, 1)];
    expect(() => modify(a, { qpState: V.IBV_QPS_RTR })).toThrow(V.InvalidStateError);
    toInit(a);
    const good = {
      qpState: V.IBV_QPS_RTR,
      pathMtu: 5,
      destQpNum: b.qpNum,
      rqPsn: 0,
      maxDestRdAtomic: 1,
      minRnrTimer: 1,
    };
    expect(() => modify(a, { ...good, pathMtu: 6, ah: { dgid: '::1' } })).toThrow(/modifyQp: pathMtu/);
    expect(() => modify(a, { ...good, rqPsn: 1 << 24, ah: { dgid: '::1' } })).toThrow(/modifyQp: rqPsn/);
    expect(() => modify(a, { ...good, ah: { dlid: 3 } })).toThrow(/ah.dgid is missing/);
    expect(() => modify(a, { ...good, ah: { dgid: 'nonsense' } })).toThrow(/not a GID/);
    toRtr(a, b);
    expect(a.v.queryQp(a.qp).attr).toMatchObject({ qpState: V.IBV_QPS_RTR, destQpNum: b.qpNum, pathMtu: 5 });
  });

  test('fabrics', () => {
    expect(() => createFabric({ hosts: 0 })).toThrow(/createFabric: hosts/);
    expect(() => createFabric({ loss: 2 })).toThrow(/probability/);
    expect(() => createFabric({ profile: 'cx9' })).toThrow(/no profile 'cx9'/);
    expect(() => createFabric({ profile: { linkGbps: -1 } })).toThrow(/linkGbps must be a number above 0/);
    expect(() => createFabric({ profile: { colour: 1 } as object })).toThrow(/a profile has no 'colour'/);
    expect(() => createFabric().fault({ kill: 'sim9' })).toThrow(/no host 'sim9'/);
    expect(() => createFabric().fault({} as Fault)).toThrow(/one of kill/);
    expect(() => createFabric().provider.openDevice('mlx5_0')).toThrow(/available: sim0, sim1/);
  });
});

describe('bad work requests: errno, reason and index are reported, and nothing is half posted', () => {
  const bad: [
    name: string,
    errno: number,
    reason: number,
    fill: (e: ReturnType<typeof pair>[0], at: number) => void,
  ][] = [
    [
      'unknown opcode',
      V.EINVAL,
      V.REASON_OPCODE,
      (e, at) => {
        e.send.words[at + V.WR_OP] = 33;
      },
    ],
    [
      'unknown flag',
      V.EINVAL,
      V.REASON_FLAGS,
      (e, at) => {
        e.send.words[at + V.WR_OP] |= 64 << 8;
      },
    ],
    [
      'too many elements',
      V.EINVAL,
      V.REASON_SGE_COUNT,
      (e, at) => {
        e.send.words[at + V.WR_OP] += 4 << 16;
      },
    ],
    [
      'too long a message',
      V.EINVAL,
      V.REASON_LENGTH,
      (e, at) => {
        e.send.words[at + V.WR_SGE0 + V.SGE_LENGTH] = 0x40000001;
      },
    ],
    [
      'too many inline bytes',
      V.EINVAL,
      V.REASON_INLINE,
      (e, at) => {
        e.send.words[at + V.WR_OP] = V.IBV_WR_SEND | (V.IBV_SEND_INLINE << 8);
        e.send.words[at + V.WR_INLINE_LENGTH] = 129;
      },
    ],
    [
      'an inline READ',
      V.EINVAL,
      V.REASON_INLINE,
      (e, at) => {
        e.send.words[at + V.WR_OP] = V.IBV_WR_RDMA_READ | (V.IBV_SEND_INLINE << 8);
        e.send.words[at + V.WR_INLINE_LENGTH] = 8;
      },
    ],
    [
      'an unaligned atomic',
      V.EINVAL,
      V.REASON_ATOMIC,
      (e, at) => {
        e.send.words[at + V.WR_OP] = V.IBV_WR_ATOMIC_FETCH_AND_ADD | (1 << 16);
        e.send.words[at + V.WR_REMOTE_LO] += 4;
      },
    ],
    [
      'an atomic of 4 bytes',
      V.EINVAL,
      V.REASON_ATOMIC,
      (e, at) => {
        e.send.words[at + V.WR_OP] = V.IBV_WR_ATOMIC_FETCH_AND_ADD | (1 << 16);
        e.send.words[at + V.WR_SGE0 + V.SGE_LENGTH] = 4;
      },
    ],
  ];
  test.each(bad)('%s', (_, errno, reason, spoil) => {
    const [a, b, fabric] = pair();
    for (let i = 0; i < 3; i++) a.send.write(i, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    spoil(a, V.slotAt(1));
    expect(a.v.validateSend(a.qp, a.send.ring, 0)).toBe(0);
    expect(a.v.validateSend(a.qp, a.send.ring, 1)).toBe(errno);
    expect(post(a)).toBe(1);
    expect([a.send.errno, a.send.reason]).toEqual([errno, reason]);
    expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([0]);
  });

  test('the wrong state', () => {
    const fabric = createFabric();
    const a = makeEnd(fabric, 0);
    a.send.send(1, 0, a.mr.addr, 1, a.mr.lkey);
    a.recv.recv(1, a.mr.addr, 1, a.mr.lkey);
    expect([post(a), a.send.reason]).toEqual([0, V.REASON_STATE]);
    expect([a.v.postRecv(a.qp, a.recv.ring, 0, 1), a.recv.reason]).toEqual([0, V.REASON_STATE]);
    toInit(a);
    expect(postRecv(a)).toBe(1);
    expect(a.v.validateSend(a.qp, a.send.ring, 0)).toBe(V.EINVAL);
  });

  test('outside the ring', () => {
    const [a] = pair();
    for (const [start, count] of [
      [250, 10],
      [-1, 2],
      [0, 1.5],
      [0, Number.NaN],
    ]) {
      expect(a.v.postSend(a.qp, a.send.ring, start, count)).toBe(0);
      expect([a.send.errno, a.send.reason]).toEqual([V.EINVAL, V.REASON_RANGE]);
    }
    expect(() => a.v.pollCq(a.sendCq, a.wc.ring, 200, 100)).toThrow(/do not lie inside/);
    expect(take(a)).toEqual([]);
  });
});
