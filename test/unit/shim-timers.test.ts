// How late the application's own calls find a timer that may be late, when no sleep ever ends.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ShimContext } from '../../src/shim/context.ts';
import { ContextTimers, Timers } from '../../src/shim/timers/timers.ts';
import type { Provider } from '../../src/verbs/provider.ts';

const CALLS_PER_LOOK = 64;
const PERIOD_NS = 5e6;

/** A shim without an event loop: only calls check timers. */
class Rig {
  nowNs = 0;
  reads = 0;
  readonly firedNs: number[] = [];
  readonly context = {
    handle: 1,
    closed: false,
    waiting: 0,
    timers: new ContextTimers(),
  } as unknown as ShimContext;
  readonly timers: Timers;

  constructor() {
    const clock = {
      nowNs: () => {
        this.reads++;
        return this.nowNs;
      },
      sleep: () => new Promise<void>(() => {}),
    };
    this.timers = new Timers(clock as unknown as Provider, (token) => {
      if (token !== 0) return;
      this.firedNs.push(this.nowNs);
      this.set();
    });
    this.set();
  }

  set(): void {
    this.timers.set(this.context, this.nowNs + PERIOD_NS, 0, true);
  }

  calls(count: number, eachNs: number): void {
    for (let i = 0; i < count; i++) {
      this.nowNs += eachNs;
      if (this.timers.isCheckDue) this.timers.check(this.context);
    }
  }

  /** The longest time between two firings, after the first few. */
  longestNs(after: number): number {
    const times = this.firedNs.slice(after);
    return Math.max(...times.slice(1).map((ns, i) => ns - times[i]));
  }
}

test('fast calls read the clock once in 64', () => {
  const rig = new Rig();
  rig.calls(64_000, 100);
  rig.reads = 0;
  rig.calls(64_000, 100);
  // A check reads the clock, and a timer that fires reads it again.
  expect(rig.reads).toBeLessThan(4 * (64_000 / CALLS_PER_LOOK));
});

test('calls of a millisecond each check often, and fast calls after them check seldom again', () => {
  const rig = new Rig();
  rig.calls(1000, 1e6);
  expect(rig.longestNs(3)).toBeLessThanOrEqual(PERIOD_NS + 4e6);
  rig.calls(10_000, 100);
  rig.reads = 0;
  rig.calls(64_000, 100);
  expect(rig.reads).toBeLessThan(4 * (64_000 / CALLS_PER_LOOK));
});

test('a timer that may be late fires whatever other timers are set and checked meanwhile', () => {
  const step = fc.record({
    calls: fc.integer({ min: 1, max: 200 }),
    eachNs: fc.constantFrom(50, 5000, 1e5, 3e6),
    what: fc.constantFrom('nothing', 'watch', 'strict'),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 30 }), (steps) => {
      const rig = new Rig();
      for (const { calls, eachNs, what } of steps) {
        if (what === 'watch') rig.timers.watch(true);
        if (what === 'strict') rig.timers.set(rig.context, rig.nowNs + 1e4, 1, false);
        rig.calls(calls, eachNs);
        if (what === 'watch') rig.timers.watch(false);
      }
      const before = rig.firedNs.length;
      rig.calls(2 * CALLS_PER_LOOK, PERIOD_NS);
      expect(rig.firedNs.length).toBeGreaterThan(before);
    }),
    { numRuns: 300 },
  );
});

test('timers of two contexts that are polled alternately both fire', () => {
  for (const eachNs of [100, 1e5, 3e6]) {
    const rig = new Rig();
    const other = { ...rig.context, handle: 2, timers: new ContextTimers() } as unknown as ShimContext;
    rig.timers.set(other, PERIOD_NS, 1, true);
    for (let i = 0; i < 2e5; i++) {
      rig.nowNs += eachNs;
      if (rig.timers.isCheckDue) rig.timers.check(i % 2 === 0 ? rig.context : other);
    }
    expect([rig.firedNs.length > 0, other.timers.size]).toEqual([true, 0]);
  }
});
