// The puller: the order that it keeps, its window, and that no queue pair stalls it.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Puller, type PullerOptions, STALL_NS } from '../../../src/policies/kit/puller.ts';
import { egressBytes, RETH_BYTES, ROCE } from '../../../src/policies/kit/wire.ts';
import { NOTICE_BYTES } from '../../../src/shim/peer/entries.ts';
import {
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
  IBV_WR_RDMA_WRITE_WITH_IMM,
  IBV_WR_SEND,
  IBV_WR_SEND_WITH_IMM,
  IBV_WR_SEND_WITH_INV,
} from '../../../src/verbs/constants.ts';
import { DeficitOrder } from './deficit-order.ts';
import { type Held, HeldRequests } from './held-requests.ts';

const PIECE = 4096;
const WIRE_PIECE = PIECE + ROCE.headerBytes + RETH_BYTES;
const WINDOW = 4 * WIRE_PIECE;

function ground(
  qps: number,
  {
    depth = 16,
    weights = [] as number[],
    readAheadBytes = WINDOW,
    countedPart = undefined as PullerOptions['countedPart'],
  } = {},
) {
  const requests = new HeldRequests(depth);
  const { out } = requests;
  const order = new DeficitOrder(WIRE_PIECE, (qp) => weights[qp] ?? 1);
  const puller = new Puller({
    order,
    wire: ROCE,
    windowBytes: WINDOW,
    pieceBytes: PIECE,
    readAheadBytes,
    token: 0,
    countedPart,
  });
  const views = Array.from({ length: qps }, (_, index) => requests.qp(index));
  for (const qp of views) puller.onQp(qp, 'created', out);
  return {
    requests,
    order,
    puller,
    views,
    post(index: number, ...held: Held[]) {
      requests.hold(index, ...held);
      puller.enlist(views[index], out);
    },
    /** The device completes the oldest slots of a queue pair, as the shim reports it. */
    complete(index: number, count?: number) {
      requests.complete(index, count);
      puller.onCompleted(views[index], out);
      if (out.backlog(views[index]) > 0) puller.enlist(views[index], out);
    },
    sentBytes: (index: number) =>
      requests.issued.reduce((sum, { qp, bytes }) => sum + (qp === index ? bytes : 0), 0),
  };
}

test('it stops when the window is full, and goes on with each completion', () => {
  const { requests, puller, post, complete } = ground(2);
  post(0, { bytes: 100 * PIECE });
  post(1, { bytes: 100 * PIECE });
  expect(requests.issued).toHaveLength(4);
  expect(puller.usedBytes).toBe(WINDOW);
  complete(0, 1);
  expect(requests.issued).toHaveLength(5);
});

test('with room to refill, it exceeds the window by half of it, and goes on when half of it is free', () => {
  const { requests, puller, post, complete } = ground(1);
  puller.refillBytes = 2 * WIRE_PIECE;
  post(0, { bytes: 100 * PIECE });
  expect(requests.issued).toHaveLength(5);
  complete(0, 2);
  expect(requests.issued).toHaveLength(5);
  complete(0, 1);
  expect(requests.issued).toHaveLength(8);
});

test.each([
  ['SEND', IBV_WR_SEND],
  ['SEND_WITH_IMM', IBV_WR_SEND_WITH_IMM],
  ['SEND_WITH_INV', IBV_WR_SEND_WITH_INV],
  ['RDMA_WRITE_WITH_IMM', IBV_WR_RDMA_WRITE_WITH_IMM],
])('a %s in pieces is charged as the WRITEs that carry it and what ends it', (_name, opcode) => {
  const { order, post } = ground(1);
  const charged: number[] = [];
  order.charge = (_qp, bytes) => charged.push(bytes);
  post(0, { bytes: 2.5 * PIECE, opcode });
  const [whole, half] = [PIECE, PIECE / 2].map((bytes) => egressBytes(ROCE, IBV_WR_RDMA_WRITE, bytes));
  const ending = egressBytes(ROCE, IBV_WR_RDMA_WRITE, NOTICE_BYTES) + egressBytes(ROCE, opcode, 0);
  expect(charged).toEqual([whole, whole, half + ending]);
  charged.length = 0;
  post(0, { bytes: PIECE, opcode });
  expect(charged).toEqual([egressBytes(ROCE, opcode, PIECE)]);
});

test('what a queue pair sends past it does not keep what was in flight before in the window', () => {
  const { requests, puller, post, complete } = ground(2);
  post(0, { bytes: 4 * PIECE });
  for (let i = 0; i < 4; i++) {
    expect(puller.usedBytes).toBeCloseTo(WINDOW - i * WIRE_PIECE);
    requests.passBy(0, PIECE);
    puller.passed(0, PIECE + 1);
    complete(0, 1);
  }
  expect(puller.usedBytes).toBe(0);
  post(1, { bytes: 100 * PIECE });
  expect(puller.usedBytes).toBe(WINDOW);
});

test('what counts of nothing in flight is nothing, whatever part of it counts', () => {
  const { puller, post, complete } = ground(2, { countedPart: (_qp, _inflight, bytes) => bytes / bytes });
  post(0, { bytes: PIECE });
  post(1, { bytes: 2 * PIECE });
  complete(0);
  expect(puller.usedBytes).toBe(2 * WIRE_PIECE);
});

test('shares follow the weights of the order, whatever completes first', () => {
  fc.assert(
    fc.property(fc.infiniteStream(fc.nat(2)), (finishes) => {
      const { requests, post, complete, sentBytes } = ground(3, { weights: [4, 2, 1] });
      for (const index of [0, 1, 2]) post(index, { bytes: 1e6 });
      for (let n = 0; n < 200; n++) {
        let index = finishes.next().value;
        while (requests.out.inflight(requests.qp(index)) === 0) index = (index + 1) % 3;
        complete(index, 1);
      }
      expect(sentBytes(0) / sentBytes(2)).toBeCloseTo(4, 0);
      expect(sentBytes(1) / sentBytes(2)).toBeCloseTo(2, 0);
    }),
  );
});

test('every message goes out whole, once, and the window is never exceeded by more than one step', () => {
  const post = fc.record({
    qp: fc.nat(3),
    bytes: fc.nat(6 * PIECE),
    splittable: fc.boolean(),
    isRead: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.array(post, { minLength: 1, maxLength: 60 }),
      fc.infiniteStream(fc.record({ qp: fc.nat(3), count: fc.nat(3), waitNs: fc.nat(2 * STALL_NS) })),
      fc.integer({ min: 1, max: 5 }),
      fc.boolean(),
      (posts, finishes, depth, mayStall) => {
        const { requests, puller, views, ...g } = ground(4, { depth });
        const { out } = requests;
        const expected = [0, 0, 0, 0];
        const finish = () => {
          const { qp, count, waitNs } = finishes.next().value;
          if (mayStall) requests.nowNs += waitNs;
          if (requests.timerNs <= requests.nowNs) puller.onTimer(out);
          if (out.inflight(views[qp]) > 0) g.complete(qp, Math.max(1, count));
          // What stalled may return to a window that is full again.
          if (!mayStall) expect(puller.usedBytes).toBeLessThan(WINDOW + 6 * WIRE_PIECE);
        };
        for (const { qp, bytes, splittable, isRead } of posts) {
          expected[qp] += bytes;
          g.post(qp, { bytes, splittable, opcode: isRead ? IBV_WR_RDMA_READ : undefined });
          finish();
        }
        for (let n = 0; n < 10_000 && views.some((qp) => out.backlog(qp) + out.inflight(qp) > 0); n++)
          finish();
        expect(views.map(({ index }) => g.sentBytes(index))).toEqual(expected);
        expect(requests.issued.filter(({ isLast }) => isLast)).toHaveLength(posts.length);
        expect(puller.usedBytes).toBe(0);
      },
    ),
  );
});

describe('a queue pair that does not go on', () => {
  test('whose peer is not ready stops counting after STALL_NS, until it completes something', () => {
    const { requests, puller, post, complete, sentBytes } = ground(2);
    post(0, { bytes: 1e6 });
    const before = sentBytes(0);
    post(1, { bytes: 1e6 });
    expect(sentBytes(1)).toBe(0);
    expect(requests.timerNs).toBe(STALL_NS);
    requests.nowNs = STALL_NS;
    puller.onTimer(requests.out);
    expect(sentBytes(1)).toBe(4 * PIECE);
    complete(1, 4);
    expect([sentBytes(0), sentBytes(1)]).toEqual([before, 8 * PIECE]);
    complete(0, 1);
    expect(sentBytes(0)).toBe(before);
    complete(1, 4);
    expect(sentBytes(0)).toBeGreaterThan(before);
  });

  test('is also noticed when the window is not full, but has no room to refill', () => {
    const { requests, puller, post, sentBytes } = ground(2);
    puller.refillBytes = 2 * WIRE_PIECE;
    post(0, { bytes: 3.5 * PIECE });
    post(1, { bytes: 1e6 });
    expect(sentBytes(1)).toBe(0);
    requests.nowNs = requests.timerNs;
    puller.onTimer(requests.out);
    expect(sentBytes(1)).toBe(5 * PIECE);
  });

  test('for lack of room leaves its turns to others', () => {
    const { post, sentBytes } = ground(2, { depth: 3 });
    post(0, { bytes: 1e6 });
    expect(sentBytes(0)).toBe(2 * PIECE);
    post(1, { bytes: 1e6 });
    expect(sentBytes(1)).toBe(2 * PIECE);
  });

  test('because enough of its READs are in flight leaves its turns to others, and takes none of the window', () => {
    const { puller, post, complete, sentBytes } = ground(2, { readAheadBytes: 2 * PIECE });
    post(0, { bytes: 1e6, opcode: IBV_WR_RDMA_READ });
    expect(sentBytes(0)).toBe(2 * PIECE);
    expect(puller.usedBytes).toBe(2 * (ROCE.headerBytes + RETH_BYTES));
    complete(0, 1);
    expect(sentBytes(0)).toBe(3 * PIECE);
    post(1, { bytes: 1e6 });
    expect(sentBytes(1)).toBe(4 * PIECE);
  });

  test('because it is destroyed returns its part of the window', () => {
    const { requests, puller, views, post, sentBytes } = ground(2);
    post(0, { bytes: 1e6 });
    post(1, { bytes: 1e6 });
    expect(sentBytes(1)).toBe(0);
    puller.onQp(views[0], 'destroyed', requests.out);
    expect(sentBytes(1)).toBe(4 * PIECE);
  });
});

test('with nothing to serve before a certain time, it wakes then', () => {
  const requests = new HeldRequests(16);
  const { out } = requests;
  const joined = new Set<number>();
  // One piece each microsecond.
  const order = {
    wakeNs: 0,
    join: (qp: number) => joined.add(qp),
    leave: (qp: number) => joined.delete(qp),
    next: (nowNs: number) => (nowNs >= order.wakeNs && joined.size > 0 ? [...joined][0] : -1),
    charge: () => {
      order.wakeNs += 1000;
    },
  };
  const puller = new Puller({ order, wire: ROCE, windowBytes: 1e6, pieceBytes: PIECE, token: 0 });
  const qp = requests.qp(0);
  puller.onQp(qp, 'created', out);
  requests.hold(0, { bytes: 4 * PIECE });
  puller.enlist(qp, out);
  for (let n = 1; n < 4; n++) {
    expect(requests.issued).toHaveLength(n);
    expect(requests.timerNs).toBe(n * 1000);
    requests.nowNs = requests.timerNs;
    puller.onTimer(out);
  }
  expect(requests.issued).toHaveLength(4);
  expect(joined.size).toBe(0);
});
