// The order of palos: rounds, and what a queue pair has left or owes when it pauses.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ChunkWeights, type Sums } from '../../../src/chunk-weights/chunk-weights.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';
import { ChunkOrder } from '../../../src/policies/palos/chunk-order.ts';

const CHUNK = 1000;

/** Queue pairs of these weights in one group, none of which has joined. A weight of 1 has a chunk of CHUNK bytes. */
function ground(weights: readonly number[], sums: Sums = 'configured') {
  const sum = weights.reduce((a, b) => a + b, 0);
  const table = new ChunkWeights({ sums, bytesPerQp: (CHUNK * sum) / weights.length });
  const order = new ChunkOrder(table);
  for (const [qp, weight] of weights.entries()) {
    table.add(qp, table.groupOf('t', ''), weight);
    order.reset(qp);
  }
  const sent = weights.map(() => 0);
  /** The next queue pair sends this many bytes, or the rest of its chunk. Returns the queue pair. */
  const send = (bytes?: number) => {
    const qp = order.next();
    if (qp === NONE) return NONE;
    const spent = bytes ?? order.creditOf(qp);
    sent[qp] += spent;
    order.spend(qp, spent);
    return qp;
  };
  return {
    table,
    order,
    sent,
    send,
    sendMany: (count: number, bytes?: number) => Array.from({ length: count }, () => send(bytes)),
    /** The queue pair cannot send now, though it has something to send. */
    hold(qp: number) {
      order.hold(qp);
      order.leave(qp);
    },
  };
}

const near = (value: number) => expect.closeTo(value, 6);

describe('rounds', () => {
  test('each queue pair sends one chunk in each, in the order in which they have joined', () => {
    const { order, sendMany, sent } = ground([1, 2, 3]);
    for (const qp of [2, 0, 1]) order.join(qp);
    expect(sendMany(6)).toEqual([2, 0, 1, 2, 0, 1]);
    expect(sent).toEqual([2 * CHUNK, 4 * CHUNK, 6 * CHUNK].map(near));
  });

  test('a queue pair that joins in the middle of a round has a chunk in this round', () => {
    const { order, sendMany } = ground([1, 1, 1]);
    order.join(0);
    order.join(1);
    expect(sendMany(1)).toEqual([0]);
    order.join(2);
    expect(sendMany(5)).toEqual([1, 2, 0, 1, 2]);
  });

  test('a queue pair sends its chunk in one go, unless it yields', () => {
    const { order, sendMany } = ground([1, 1]);
    order.join(0);
    order.join(1);
    expect(sendMany(4, CHUNK / 2)).toEqual([0, 0, 1, 1]);
    expect(sendMany(1, CHUNK / 2)).toEqual([0]);
    order.yield(0);
    expect(sendMany(4, CHUNK / 2)).toEqual([1, 1, 0, 1]);
  });

  test('the only queue pair is always served', () => {
    const { order, sendMany, sent } = ground([1, 5]);
    order.join(0);
    expect(order.isShared).toBe(false);
    expect(sendMany(100)).toEqual(Array(100).fill(0));
    expect(sent).toEqual([100 * CHUNK, 0].map(near));
    order.join(1);
    expect(order.isShared).toBe(true);
  });

  test('none is served when none has joined', () => {
    const { order, send } = ground([1, 1]);
    expect([send(), order.isEmpty]).toEqual([NONE, true]);
    order.join(1);
    expect([send(), order.isEmpty]).toEqual([1, false]);
    order.leave(1);
    expect([send(), order.isEmpty]).toEqual([NONE, true]);
  });

  test('a weight that changes counts from the next chunk on', () => {
    const { table, order, sendMany, sent } = ground([1, 1]);
    order.join(0);
    order.join(1);
    sendMany(2);
    table.setWeight(1, 3);
    sendMany(200);
    expect((sent[1] - CHUNK) / (sent[0] - CHUNK)).toBeCloseTo(3, 2);
  });
});

describe('a queue pair that pauses', () => {
  test('keeps what is left of its chunk until the round ends', () => {
    const { order, send, sendMany } = ground([1, 1, 1]);
    for (const qp of [0, 1, 2]) order.join(qp);
    expect(send(400)).toBe(0);
    order.leave(0);
    expect(send()).toBe(1);
    order.join(0);
    expect(order.creditOf(0)).toBeCloseTo(600, 6);
    expect(sendMany(2)).toEqual([2, 0]);
    expect(sendMany(3)).toEqual([1, 2, 0]);
  });

  test('gets no second chunk in the same round', () => {
    const { order, sendMany } = ground([1, 1]);
    order.join(0);
    order.join(1);
    expect(sendMany(1)).toEqual([0]);
    order.leave(0);
    order.join(0);
    expect(order.creditOf(0)).toBe(0);
    expect(sendMany(3)).toEqual([1, 0, 1]);
  });

  test('loses what was left when the round ends', () => {
    const { order, send, sendMany } = ground([1, 1]);
    order.join(0);
    order.join(1);
    expect(send(100)).toBe(0);
    order.leave(0);
    expect(sendMany(3)).toEqual([1, 1, 1]);
    order.join(0);
    expect(order.creditOf(0)).toBeCloseTo(CHUNK, 6);
  });

  test('still owes what it owed', () => {
    const { order, send, sendMany } = ground([1, 1]);
    order.join(0);
    order.join(1);
    expect(send(1.5 * CHUNK)).toBe(0);
    order.leave(0);
    sendMany(3);
    order.join(0);
    expect(order.creditOf(0)).toBeCloseTo(CHUNK / 2, 6);
  });

  test('because it is held has at most one chunk more, however long it is held', () => {
    for (const rounds of [1, 2, 50]) {
      const { order, send, sendMany, hold } = ground([1, 1]);
      order.join(0);
      order.join(1);
      expect(send(100)).toBe(0);
      hold(0);
      expect(order.waits(0)).toBe(true);
      sendMany(rounds);
      // What is left of a chunk serves to catch up once the queue pair may send again.
      order.join(0);
      expect(order.creditOf(0)).toBeCloseTo(rounds === 1 ? 900 : 1900, 6);
      order.leave(0);
      expect(order.waits(0)).toBe(false);
    }
  });

  test('because it is held again and again saves no more than two chunks', () => {
    const { order, send, hold } = ground([1, 1]);
    order.join(0);
    order.join(1);
    for (let round = 0; round < 20; round++) {
      expect(send(round === 0 ? 100 : 0)).toBe(0);
      hold(0);
      expect([send(), send()]).toEqual([1, 1]);
      order.join(0);
      expect(order.creditOf(0)).toBeLessThanOrEqual(2 * CHUNK + 1e-6);
      order.leave(0);
      order.leave(1);
      order.join(0);
      order.join(1);
    }
  });

  test('and leaves and joins after each piece has its share, and no more', () => {
    const { order, send, sent } = ground([1, 1]);
    order.join(0);
    order.join(1);
    for (let i = 0; i < 4000; i++) {
      if (send(CHUNK / 4) !== 0) continue;
      order.leave(0);
      order.join(0);
    }
    expect(sent[0] / sent[1]).toBeCloseTo(1, 2);
  });
});

describe('debts', () => {
  test('what is sent beyond a chunk is taken off the next ones', () => {
    const { order, send, sendMany, sent } = ground([1, 1]);
    order.join(0);
    order.join(1);
    expect(send(3.5 * CHUNK)).toBe(0);
    expect(sendMany(3)).toEqual([1, 1, 1]);
    expect(send()).toBe(0);
    expect(sent[0]).toBeCloseTo(4 * CHUNK, 6);
    sendMany(1);
    expect(sent[1]).toBeCloseTo(4 * CHUNK, 6);
  });

  test('while all owe many chunks, rounds are skipped, and shares hold', () => {
    const { order, sent, send } = ground([1, 2]);
    order.join(0);
    order.join(1);
    for (let i = 0; i < 3000; i++) send(1e6 * CHUNK);
    expect(sent[1] / sent[0]).toBeCloseTo(2, 2);
  });

  test('no more rounds are skipped than leave the first one with something to send', () => {
    const { order, send, sent } = ground([1, 1, 1]);
    for (const qp of [0, 1, 2]) order.join(qp);
    for (const chunks of [10.5, 7, 5.25]) send(chunks * CHUNK);
    // After six rounds, the third one has three quarters of a chunk, and after eight, the second one has a chunk.
    expect([send(), order.creditOf(0)]).toEqual([2, near(-4.5 * CHUNK)]);
    expect(sent[2]).toBeCloseTo(6 * CHUNK, 6);
    expect([send(), send()]).toEqual([2, 1]);
  });

  test('of 10^9 chunks takes no longer than a small one', () => {
    const { order, send } = ground([1e-3, 1e-3]);
    order.join(0);
    order.join(1);
    send(1e9 * CHUNK);
    send(1e9 * CHUNK);
    expect(send()).not.toBe(NONE);
  });
});

describe('what counts with sums over active queue pairs', () => {
  const share = ({ table }: ReturnType<typeof ground>) => table.shareOf(0);

  test('a queue pair that leaves no longer counts; one that is held does', () => {
    const g = ground([1, 1], 'active');
    g.order.join(0);
    g.order.join(1);
    expect(share(g)).toBe(1 / 2);
    g.hold(1);
    expect(share(g)).toBe(1 / 2);
    g.order.join(1);
    g.order.leave(1);
    expect(share(g)).toBe(1);
  });

  test('a queue pair that was held and has nothing to send any more does not', () => {
    const g = ground([1, 1], 'active');
    g.order.join(0);
    g.order.join(1);
    g.hold(1);
    g.order.release(1);
    expect([share(g), g.order.waits(1)]).toEqual([1, false]);
    // While it waits, it counts.
    g.order.join(1);
    g.order.release(1);
    expect([share(g), g.order.waits(1)]).toEqual([1 / 2, true]);
  });

  test('a queue pair counts until it waits in neither direction', () => {
    const g = ground([1, 1], 'active');
    const other = new ChunkOrder(g.table);
    [g.order.other, other.other] = [other, g.order];
    for (const qp of [0, 1]) other.reset(qp);
    g.table.move(1, g.table.groupOf('another tenant', ''));
    g.order.join(0);
    g.order.join(1);
    other.join(1);
    other.leave(1);
    // Without a weight that counts, its chunk would have no end, and the other queue pair no turn.
    expect(g.sendMany(6, CHUNK)).toEqual([0, 1, 0, 1, 0, 1]);
    other.join(1);
    other.hold(1);
    other.leave(1);
    g.order.leave(1);
    expect(share(g)).toBe(1 / 2);
    other.release(1);
    expect(share(g)).toBe(1);
  });
});

test('over 100 rounds, shares are those of the weights within one chunk and one piece', {
  tags: ['long'],
}, () => {
  const weight = fc.double({ min: 0.01, max: 100, noNaN: true });
  fc.assert(
    fc.property(
      fc.array(weight, { minLength: 2, maxLength: 12 }),
      // What is sent at once, as a part of CHUNK: less than a chunk, or whole messages of several chunks.
      fc.infiniteStream(fc.double({ min: 0.01, max: 5, noNaN: true })),
      fc.integer({ min: 100, max: 150 }),
      (weights, pieces, rounds) => {
        const { table, order, sent } = ground(weights);
        for (const qp of weights.keys()) order.join(qp);
        const mostBytes = 5 * CHUNK;
        const total = rounds * weights.reduce((sum, each) => sum + each, 0) * CHUNK;
        let left = total;
        for (let i = 0; left > 0 && i < 20_000; i++) {
          const qp = order.next();
          const bytes = pieces.next().value * CHUNK;
          sent[qp] += bytes;
          left -= bytes;
          order.spend(qp, bytes);
        }
        // The chunks that each has had since: the same number for all, or one more.
        const had = weights.map((_, qp) => (sent[qp] + order.creditOf(qp)) / table.chunkBytes(qp));
        expect(Math.max(...had) - Math.min(...had)).toBeLessThan(1 + 1e-6);
        for (const qp of weights.keys()) {
          expect(order.creditOf(qp)).toBeGreaterThan(-mostBytes - 1e-6);
          expect(order.creditOf(qp)).toBeLessThanOrEqual(table.chunkBytes(qp) + 1e-6);
        }
      },
    ),
  );
});

test('pausing at random neither gains nor loses more than what was left of a chunk', () => {
  const step = fc.record({
    bytes: fc.integer({ min: 1, max: 1500 }),
    pauses: fc.boolean(),
    rests: fc.nat(2),
  });
  fc.assert(
    fc.property(fc.infiniteStream(step), (steps) => {
      const { order, sent } = ground([1, 1, 1]);
      for (const qp of [0, 1, 2]) order.join(qp);
      const resting = new Map<number, number>();
      for (let i = 0; i < 600; i++) {
        const qp = order.next();
        const { bytes, pauses, rests } = steps.next().value;
        sent[qp] += bytes;
        order.spend(qp, bytes);
        // Queue pair 0 pauses for the time of a few others.
        for (const [one, until] of resting) {
          if (until > i) continue;
          order.join(one);
          resting.delete(one);
        }
        if (qp !== 0 || !pauses) continue;
        order.leave(0);
        resting.set(0, i + rests);
      }
      // The others are alike, and it has no more than they have.
      expect(Math.abs(sent[1] - sent[2])).toBeLessThan(2 * CHUNK + 1500);
      expect(sent[0]).toBeLessThan(Math.max(sent[1], sent[2]) + 2 * CHUNK + 1500);
    }),
  );
});
