// Tokens of justitia: how many there are over time (TokenClock), and which entity gets the next one (TokenOrder).
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { TokenClock } from '../../../src/policies/justitia/token-clock.ts';
import { TokenOrder } from '../../../src/policies/justitia/token-order.ts';
import { Entities } from '../../../src/policies/kit/entities.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';
import type { QpView } from '../../../src/shim/policy.ts';

const TOKEN = 5000;
const PERIOD_NS = 20_000;
/** A relative error of sums of doubles. */
const ERROR = 1e-6;

interface Rate {
  bytesPerNs: number;
  tokenBytes: number;
  backlogBytes: number;
  messageBytes: number;
}
const PACED: Rate = { bytesPerNs: 1, tokenBytes: TOKEN, backlogBytes: 0, messageBytes: 0 };

/** A clock whose grants are read again in each period. */
function clockOf(change: Partial<Rate> = {}) {
  const rate = { ...PACED, ...change };
  const set = (nowNs: number) =>
    clock.set(rate.bytesPerNs, rate.tokenBytes, rate.messageBytes, rate.backlogBytes, nowNs);
  const clock: TokenClock = new TokenClock(set, PERIOD_NS);
  set(0);
  /** Takes all tokens that there are. */
  const takeAll = (nowNs: number) => {
    let count = 0;
    while (count < 1000 && clock.take(nowNs)) count++;
    return count;
  };
  return { clock, rate, set, takeAll };
}

describe('a token clock', () => {
  test('gives out tokens at its rate, however late it is asked within the backlog', () => {
    for (const lateNs of [0, 2000, 7000]) {
      const { clock } = clockOf({ backlogBytes: 2 * TOKEN + 7000 });
      const endNs = 1e7;
      let [count, nowNs] = [0, 0];
      for (; nowNs < endNs; nowNs = Math.max(nowNs, clock.readyNs + lateNs))
        while (clock.take(nowNs)) count++;
      expect(count).toBeGreaterThan(endNs / TOKEN - 4);
      expect(count).toBeLessThanOrEqual(endNs / TOKEN);
    }
  });

  test('sends no more in any interval than its rate and one burst of max(token, backlogBytes)', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.01, max: 20, noNaN: true }),
        fc.constantFrom(0, 1, 5001, 8192, 100_000),
        fc.array(fc.nat(100_000), { minLength: 1, maxLength: 60 }),
        (bytesPerNs, backlogBytes, gapsNs) => {
          const { takeAll } = clockOf({ bytesPerNs, backlogBytes });
          const burst = Math.max(TOKEN, backlogBytes);
          let nowNs = 0;
          const sent: [atNs: number, bytes: number][] = [];
          for (const gapNs of gapsNs) {
            nowNs += gapNs;
            sent.push([nowNs, takeAll(nowNs) * TOKEN]);
          }
          let excess = 0;
          for (let from = 0; from < sent.length; from++) {
            let bytes = 0;
            for (let to = from; to < sent.length; to++) {
              bytes += sent[to][1];
              const allowed = burst + bytesPerNs * (sent[to][0] - sent[from][0]);
              excess = Math.max(excess, bytes / allowed - 1);
            }
          }
          expect(excess).toBeLessThan(ERROR);
        },
      ),
    );
  });

  test.each([2000, 15_000, 1e6, 1e12])('after a delay of %d ns, one token is there at once', (lateNs) => {
    const { clock, takeAll } = clockOf({ bytesPerNs: 10 });
    takeAll(0);
    expect(takeAll(clock.readyNs + lateNs)).toBe(1);
  });

  test('a new rate counts from the time at which it is granted', () => {
    const { clock, rate, takeAll } = clockOf();
    expect(clock.readyNs).toBe(TOKEN);
    rate.bytesPerNs = 0.1;
    takeAll(PERIOD_NS);
    expect(clock.readyNs - PERIOD_NS).toBeCloseTo(10 * TOKEN, 6);
    rate.bytesPerNs = 0;
    takeAll(2 * PERIOD_NS);
    expect(clock.readyNs).toBe(Number.POSITIVE_INFINITY);
  });

  test('nothing is paced at an infinite rate, and nothing is saved meanwhile', () => {
    const { rate, takeAll, set } = clockOf({
      bytesPerNs: Number.POSITIVE_INFINITY,
      backlogBytes: 10 * TOKEN,
    });
    expect(takeAll(1e6)).toBe(1000);
    rate.bytesPerNs = 1;
    set(2e6);
    expect(takeAll(2e6)).toBe(0);
    expect(takeAll(2e6 + TOKEN)).toBe(1);
  });

  test('a smaller token ends what was saved for a larger one', () => {
    const { rate, takeAll, set } = clockOf({ tokenBytes: 1_000_000 });
    rate.tokenBytes = TOKEN;
    set(1e6);
    expect(takeAll(1e6)).toBe(1);
  });

  test('a changed backlog counts at once', () => {
    const { rate, takeAll, set } = clockOf({ backlogBytes: 4 * TOKEN });
    rate.backlogBytes = 2 * TOKEN;
    set(1e6);
    expect(takeAll(1e6)).toBe(2);
    rate.backlogBytes = 8 * TOKEN;
    set(1e6);
    expect(takeAll(2e6)).toBe(8);
  });

  test('a clock that jumps back does not stop the tokens, and gives out none twice', () => {
    const { clock, takeAll } = clockOf();
    expect(takeAll(1e12)).toBe(1);
    expect(takeAll(1000)).toBe(0);
    expect(clock.readyNs).toBeLessThanOrEqual(1000 + TOKEN);
    expect(takeAll(1000 + TOKEN)).toBe(1);
  });
});

/** Entities with these weights at one device. Queue pair i belongs to the entity named by `groups[i]`. */
function orderOf(weights: readonly number[], change: Partial<Rate> = {}, groups?: readonly number[]) {
  const { clock } = clockOf(change);
  const entities = new Entities({
    keyOf: ({ labels }) => labels.group,
    onNew: (entity) => order.reset(entity),
  });
  const byEntity: number[] = [];
  const order: TokenOrder = new TokenOrder({ entities, weightOf: (entity) => byEntity[entity] }, clock);
  const entityOf = (groups ?? weights.map((_, i) => i)).map((group, index) => {
    const context = { device: 'sim0' };
    const entity = entities.join({ index, context, labels: { group: `${group}` } } as unknown as QpView);
    byEntity[entity] = weights[group];
    return entity;
  });
  return new Ground(order, clock, entityOf);
}

/** Queue pairs that always have something to send, unless they have left. */
class Ground {
  nowNs = 0;
  readonly order: TokenOrder;
  readonly clock: TokenClock;
  readonly entityOf: readonly number[];
  readonly qpBytes: number[];
  /** Bytes that each entity was charged. */
  readonly sent: number[];

  constructor(order: TokenOrder, clock: TokenClock, entityOf: readonly number[]) {
    [this.order, this.clock, this.entityOf] = [order, clock, entityOf];
    this.qpBytes = entityOf.map(() => 0);
    this.sent = Array(Math.max(...entityOf) + 1).fill(0);
  }

  joinAll(): void {
    for (const qp of this.entityOf.keys()) this.order.join(qp);
  }

  /** Serves once, after waiting as long as the order says. Returns the queue pair. */
  serve(bytesOf: (qp: number) => number = () => TOKEN): number {
    let qp = this.order.next(this.nowNs);
    for (let i = 0; qp === NONE; i++) {
      if (i === 1000 || this.order.wakeNs === Number.POSITIVE_INFINITY) throw new Error('nothing is served');
      this.nowNs = Math.max(this.nowNs, this.order.wakeNs);
      qp = this.order.next(this.nowNs);
    }
    const bytes = bytesOf(qp);
    this.order.charge(qp, bytes);
    this.qpBytes[qp] += bytes;
    this.sent[this.entityOf[qp]] += Math.max(bytes, this.clock.messageBytes);
    return qp;
  }

  serveFor(ns: number, bytesOf?: (qp: number) => number): void {
    for (const endNs = this.nowNs + ns; this.nowNs < endNs; ) this.serve(bytesOf);
  }
}

const WEIGHTS = fc.array(fc.double({ min: 0.1, max: 10, noNaN: true }), { minLength: 2, maxLength: 8 });

describe('the order of tokens', () => {
  test('shares by weight: no two entities ever differ by more than one token of each', () => {
    fc.assert(
      fc.property(WEIGHTS, (weights) => {
        const ground = orderOf(weights);
        ground.joinAll();
        let excess = 0;
        for (let i = 0; i < 300; i++) {
          ground.serve();
          weights.forEach((one, a) => {
            weights.forEach((other, b) => {
              const ahead = ground.sent[a] / one - ground.sent[b] / other;
              excess = Math.max(excess, ahead / (TOKEN * (1 / one + 1 / other)) - 1);
            });
          });
        }
        expect(excess).toBeLessThan(ERROR);
      }),
    );
  });

  test('messages of any size, and debts, change no shares in the long run', () => {
    const bytes = fc.constantFrom(500, 4096, TOKEN, 12_345, 100_000);
    fc.assert(
      fc.property(
        WEIGHTS,
        fc.array(bytes, { minLength: 8, maxLength: 8 }),
        fc.constantFrom(0, 3000),
        (weights, sizes, messageBytes) => {
          const ground = orderOf(weights, { messageBytes });
          ground.joinAll();
          const NS = 1e7;
          ground.serveFor(NS, (qp) => sizes[qp]);
          const total = weights.reduce((sum, weight) => sum + weight);
          weights.forEach((weight, i) => {
            // A debt of one message, and a token on each side.
            // The last debt is paid after the end.
            const expected = (weight / total) * ground.nowNs;
            expect(Math.abs(ground.sent[i] - expected)).toBeLessThan(100_000 + TOKEN * (4 + weights.length));
          });
        },
      ),
      { numRuns: 20 },
    );
  });

  test('an entity that owes waits until its tokens have paid, and the others go on', () => {
    const ground = orderOf([1, 1]);
    ground.joinAll();
    const first = ground.serve(() => 12 * TOKEN);
    expect(ground.order.isEven(ground.entityOf[first], 0)).toBe(false);
    const served = Array.from({ length: 9 }, () => ground.serve());
    expect(new Set(served)).toEqual(new Set([1 - first]));
  });

  test('an entity that waits for its completions repays meanwhile, but is given nothing in advance', () => {
    const ground = orderOf([1, 1]);
    ground.joinAll();
    const first = ground.serve(() => 12 * TOKEN);
    ground.order.leave(first);
    const fromNs = ground.nowNs;
    for (let i = 0; i < 30; i++) ground.serve();
    // Eleven tokens to repay the debt, next to 30 of the other.
    expect((ground.nowNs - fromNs) / TOKEN).toBeGreaterThan(39);
    expect((ground.nowNs - fromNs) / TOKEN).toBeLessThan(42);
    expect(ground.order.available(ground.entityOf[first])).toBeLessThanOrEqual(0);
  });

  test.each<[string, (order: TokenOrder, entity: number, nowNs: number) => unknown]>([
    ['are destroyed', (order, entity, nowNs) => order.isEven(entity, nowNs)],
    ['are reset', (order, entity) => order.pause(entity)],
  ])('the debt of an entity whose queue pairs %s costs the others nothing', (_, end) => {
    const ground = orderOf([1, 1]);
    ground.joinAll();
    const first = ground.serve(() => 12 * TOKEN);
    ground.order.leave(first);
    end(ground.order, ground.entityOf[first], ground.nowNs);
    const fromNs = ground.nowNs;
    for (let i = 0; i < 30; i++) ground.serve();
    expect((ground.nowNs - fromNs) / TOKEN).toBeLessThan(31);
    expect(ground.order.isEven(ground.entityOf[first], ground.nowNs)).toBe(false);
  });

  test('an entity that has just had its token is no new one', () => {
    const ground = orderOf([1, 1]);
    ground.joinAll();
    const first = ground.serve();
    ground.order.leave(first);
    expect(ground.order.isEven(ground.entityOf[first], ground.nowNs)).toBe(false);
    ground.serve();
    ground.serve();
    expect(ground.order.isEven(ground.entityOf[first], ground.nowNs)).toBe(true);
  });

  test('the debt of an entity without queue pairs expires, but not that of one with queue pairs', () => {
    const { order, entityOf } = orderOf([1]);
    const [entity] = entityOf;
    order.spend(entity, 11 * TOKEN);
    // Ten tokens at a sixteenth of a byte per nanosecond.
    const expiryNs = 160 * TOKEN;
    expect([0, expiryNs - 1, expiryNs].map((ns) => order.isEven(entity, 1e6 + ns))).toEqual([
      false,
      false,
      true,
    ]);
    order.stay(entity);
    expect([1e9, 1e9 + expiryNs - 1, 1e9 + expiryNs].map((ns) => order.isEven(entity, ns))).toEqual([
      false,
      false,
      true,
    ]);
    // A clock that jumps back.
    expect([0, expiryNs].map((ns) => order.isEven(entity, ns))).toEqual([false, true]);
  });

  test('an idle entity loses what it did not use, and its share goes to the others at once', () => {
    const ground = orderOf([4, 1]);
    ground.joinAll();
    ground.order.leave(0);
    ground.serveFor(100 * TOKEN);
    expect(ground.qpBytes[0]).toBe(0);
    expect(ground.qpBytes[1]).toBeGreaterThan(99 * TOKEN);
    ground.order.join(0);
    ground.qpBytes.fill(0);
    ground.serveFor(100 * TOKEN);
    expect(ground.qpBytes[0] / ground.qpBytes[1]).toBeGreaterThan(3.5);
    expect(ground.qpBytes[0] / ground.qpBytes[1]).toBeLessThan(4.5);
  });

  test('an entity that leaves and joins again with each message gains nothing', () => {
    const ground = orderOf([1, 1]);
    ground.joinAll();
    for (let i = 0; i < 400; i++) {
      const qp = ground.serve();
      if (qp !== 0) continue;
      ground.order.leave(0);
      ground.order.join(0);
    }
    expect(ground.qpBytes[0] / ground.qpBytes[1]).toBeLessThanOrEqual(1.02);
  });

  test('an entity that comes back with a part of its token goes first, and gets no more than its token', () => {
    const ground = orderOf([1, 1]);
    ground.joinAll();
    const part = () => TOKEN / 4;
    const first = ground.serve(part);
    ground.order.leave(first);
    expect(ground.serve(part)).toBe(1 - first);
    ground.order.join(first);
    const served = Array.from({ length: 6 }, () => ground.serve(part));
    expect(served).toEqual([first, first, first, 1 - first, 1 - first, 1 - first]);
  });

  test('an entity catches up on what the others got meanwhile, up to lagTokens, and gains nothing beyond', () => {
    for (const [idleTokens, lagTokens, ahead] of [
      [3, 4, 3],
      [50, 4, 4],
      [3, 0, 0],
    ]) {
      const ground = orderOf([1, 1]);
      ground.order.lagTokens = lagTokens;
      ground.joinAll();
      ground.serveFor(10 * TOKEN);
      ground.order.leave(0);
      for (let i = 0; i < idleTokens; i++) ground.serve();
      ground.order.join(0);
      ground.qpBytes.fill(0);
      for (let i = 0; i < 40; i++) ground.serve();
      const more = (ground.qpBytes[0] - ground.qpBytes[1]) / TOKEN;
      expect(Math.abs(more - ahead)).toBeLessThanOrEqual(2);
    }
  });

  test('tokens start a burst of max(token, backlogBytes) after a delay, shared by weight', () => {
    for (const backlogBytes of [0, 4 * TOKEN]) {
      const ground = orderOf([1, 1], { backlogBytes });
      ground.joinAll();
      ground.serveFor(10 * TOKEN);
      ground.nowNs += 1e6;
      ground.qpBytes.fill(0);
      while (ground.order.next(ground.nowNs) !== NONE) ground.serve();
      const burst = ground.qpBytes[0] + ground.qpBytes[1];
      expect(burst).toBe(Math.max(TOKEN, backlogBytes));
    }
  });

  test('queue pairs of an entity take turns, and an entity has its weight once', () => {
    const ground = orderOf([1, 1], {}, [0, 0, 0, 1]);
    ground.joinAll();
    ground.serveFor(600 * TOKEN);
    const [a, b, c, alone] = ground.qpBytes.map((bytes) => bytes / TOKEN);
    for (const one of [a, b, c]) expect(Math.abs(one - 100)).toBeLessThan(3);
    expect(Math.abs(alone - 300)).toBeLessThan(3);
  });

  test('what is left of a token may be sent at once, but not past queue pairs that wait', () => {
    const { order, entityOf } = orderOf([1]);
    const [entity] = entityOf;
    expect(order.available(entity)).toBe(0);
    order.join(0);
    expect(order.next(TOKEN)).toBe(0);
    order.charge(0, 1000);
    expect(order.available(entity)).toBe(0);
    order.leave(0);
    expect(order.available(entity)).toBe(TOKEN - 1000);
    order.spend(entity, TOKEN);
    // The rest of a chunk is no debt that outlives an entity.
    expect(order.available(entity)).toBe(-1000);
    expect([0, 16 * TOKEN].map((ns) => order.isEven(entity, 1e6 + ns))).toEqual([false, true]);
    order.stay(entity);
    order.spend(entity, TOKEN);
    expect(order.isEven(entity, 0)).toBe(false);
    order.reset(entity);
    expect(order.available(entity)).toBe(0);
  });

  test('without pacing, everything is served at once, and no debt remains', () => {
    const ground = orderOf([1, 1], { bytesPerNs: Number.POSITIVE_INFINITY });
    ground.joinAll();
    for (let i = 0; i < 100; i++) ground.serve(() => 1_000_000);
    expect(ground.nowNs).toBe(0);
    ground.order.leave(0);
    expect(ground.order.available(ground.entityOf[0])).toBe(Number.POSITIVE_INFINITY);
  });

  test('before anything is granted, nothing is served, and grants are read once per period', () => {
    const ground = orderOf([1], { tokenBytes: 0, bytesPerNs: 0 });
    ground.joinAll();
    const { order } = ground;
    for (const nowNs of [0, PERIOD_NS, 2 * PERIOD_NS]) {
      expect([order.next(nowNs), order.wakeNs]).toEqual([NONE, nowNs + PERIOD_NS]);
    }
  });
});
