/** The parts of the cycle model, each against a plain model of it, and the constants of Tassel 3.2. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Descriptors } from '../../../src/sim/tassel/descriptors.ts';
import { FlowTags } from '../../../src/sim/tassel/flow-tags.ts';
import { memoryBytes } from '../../../src/sim/tassel/memory.ts';
import { KEY_OF_MINIMUM, PHeap } from '../../../src/sim/tassel/p-heap.ts';
import { SystemTime, WHOLE } from '../../../src/sim/tassel/system-time.ts';
import { TimingWheel } from '../../../src/sim/tassel/timing-wheel.ts';
import { EveryTick, LINK_BPS, Meter, PrintedTime } from './meter.ts';

const point = (whole: number, part = 0) => Float64Array.of(whole, part);

test('memory: 17 B a queue pair and 480 B, 166.5 KiB for 10,000 queue pairs', () => {
  expect(memoryBytes(1, 60) - memoryBytes(0, 60)).toBe(17);
  expect(memoryBytes(0, 60)).toBe(480);
  expect((memoryBytes(10_000, 60) / 1024).toFixed(1)).toBe('166.5');
});

describe('P-heap', () => {
  test('an operation takes height cycles, and another one may begin after two', () => {
    for (const [capacity, height] of [
      [1, 1],
      [3, 2],
      [4, 3],
      [1000, 10],
      [10_000, 14],
    ]) {
      const heap = new PHeap(capacity);
      expect(heap.height).toBe(height);
      heap.enqueue(0, 0, point(5), 0, 100);
      expect([heap.freeCycle, heap.doneCycle]).toEqual([102, 100 + height]);
      heap.dequeue(102);
      expect([heap.freeCycle, heap.doneCycle]).toEqual([104, 102 + height]);
    }
  });

  test('gives out the smallest key, at any capacity and in any order of operations', () => {
    const operations = fc.array(fc.option(fc.nat(50)), { maxLength: 200 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), operations, (capacity, keys) => {
        const heap = new PHeap(capacity);
        const model: number[] = [];
        let cycle = 0;
        for (const [i, key] of keys.entries()) {
          if (key === null) {
            if (model.length === 0) continue;
            model.sort((x, y) => x - y);
            expect(heap.keys[KEY_OF_MINIMUM]).toBe(model.shift());
            heap.dequeue(cycle);
          } else if (!heap.isFull) {
            heap.enqueue(i, i & 1, point(key), 0, cycle);
            model.push(key);
          }
          cycle += 2;
          expect(heap.count).toBe(model.length);
          expect(heap.first === -1).toBe(model.length === 0);
          expect(heap.isFull).toBe(model.length === capacity);
        }
      }),
    );
  });

  test('keys with equal ticks are in the order of their fractions, each with its queue pair and version', () => {
    const heap = new PHeap(8);
    for (const [qp, part] of [5, 2, 9, 0].entries()) heap.enqueue(qp, qp & 1, point(7, part), 0, 2 * qp);
    const order: number[][] = [];
    for (let cycle = 100; heap.count > 0; cycle += 2) {
      order.push([heap.first, heap.firstVersion]);
      heap.dequeue(cycle);
    }
    expect(order).toEqual([
      [3, 1],
      [1, 1],
      [0, 0],
      [2, 0],
    ]);
  });

  /** One operation on its way down: it works on its level and the one below. */
  test('operations two cycles apart never work on the same level; one cycle apart they would', () => {
    const levels = (begin: number, cycle: number) => [cycle - begin, cycle - begin + 1];
    const meet = (apart: number) =>
      Array.from({ length: 14 }, (_, i) => apart + i).some((cycle) =>
        levels(0, cycle).some((level) => levels(apart, cycle).includes(level)),
      );
    expect(meet(1)).toBe(true);
    expect(meet(2)).toBe(false);
  });
});

describe('timing wheel', () => {
  const setUp = () => {
    const time = new SystemTime(LINK_BPS);
    time.advance(1000);
    return { time, wheel: new TimingWheel(time) };
  };
  const takeAll = (time: SystemTime, wheel: TimingWheel, ticks: number) => {
    const taken: [number, number][] = [];
    for (let i = 0; i < ticks; i++) {
      for (let d = wheel.takeDue(); d >= 0; d = wheel.takeDue()) taken.push([d, time.now[WHOLE]]);
      time.advance(1);
    }
    return taken;
  };

  test('a packet leaves at its start time, rounded up to a tick; late ones leave now', () => {
    const { time, wheel } = setUp();
    for (const [d, start] of [point(1010), point(1010, 1).fill(1011, 0, 1), point(20), point(1249)].entries())
      expect(wheel.insert(d, start, 0)).toBe(true);
    expect(takeAll(time, wheel, 260)).toEqual([
      [2, 1000],
      [0, 1010],
      [1, 1012],
      [3, 1249],
    ]);
  });

  test('a collision takes the first free later slot, never an earlier one; beyond 250 slots there is none', () => {
    const { time, wheel } = setUp();
    expect([0, 1, 2].map((d) => wheel.insert(d, point(1248), 0))).toEqual([true, true, false]);
    expect(wheel.insert(3, point(1250), 0)).toBe(false);
    expect(wheel.insert(4, point(1247), 0)).toBe(true);
    expect(wheel.insert(5, point(1247), 0)).toBe(false);
    expect(takeAll(time, wheel, 260)).toEqual([
      [4, 1247],
      [0, 1248],
      [1, 1249],
    ]);
  });

  test('all 250 slots can be used, and a full wheel takes no more', () => {
    const { time, wheel } = setUp();
    for (let d = 0; d < 250; d++) expect(wheel.insert(d, point(0), 0)).toBe(true);
    expect(wheel.insert(250, point(0), 0)).toBe(false);
    const taken = takeAll(time, wheel, 250);
    expect(taken.map(([d]) => d)).toEqual(Array.from({ length: 250 }, (_, d) => d));
    expect(wheel.count).toBe(0);
  });

  test('when several ticks of system time pass at once, no packet is lost or early', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(300), fc.nat(6)), { maxLength: 300 }), (steps) => {
        const { time, wheel } = setUp();
        const waiting = new Map<number, number>();
        for (const [d, [after, ticks]] of steps.entries()) {
          const start = time.now[WHOLE] + after;
          if (wheel.insert(d, point(start), 0)) waiting.set(d, start);
          time.advance(ticks);
          for (let due = wheel.takeDue(); due >= 0; due = wheel.takeDue()) {
            expect(waiting.get(due)).toBeLessThanOrEqual(time.now[WHOLE]);
            waiting.delete(due);
          }
        }
        expect(wheel.count).toBe(waiting.size);
        time.advance(300);
        while (wheel.takeDue() >= 0);
        expect(wheel.count).toBe(0);
      }),
    );
  });
});

test('the Desc Buffer gives out k places a period, and keeps those of packets that have not left', () => {
  const tick = point(0);
  const descriptors = new Descriptors(2, 250);
  const [a, b] = [descriptors.take(tick), descriptors.take(tick)];
  expect(new Set([a, b, descriptors.take(tick)])).toEqual(new Set([0, 1, -1]));
  tick[0] = 100;
  descriptors.left(a, tick);
  expect(descriptors.take(tick)).toBe(-1);
  tick[0] = 250;
  expect(descriptors.take(tick)).toBe(a);
  expect(descriptors.take(tick)).toBe(-1);
  descriptors.left(b, tick);
  expect(descriptors.take(tick)).toBe(b);
  descriptors.untake(b);
  expect(descriptors.take(tick)).toBe(b);
});

describe('system time', () => {
  test('the ticks of a span may be divided in any way', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(1e6), { maxLength: 20 }),
        fc.integer({ min: 1, max: 2e12 }),
        (spans, bps) => {
          const [whole, parts] = [new SystemTime(LINK_BPS), new SystemTime(LINK_BPS)];
          for (const time of [whole, parts]) time.addRate(bps);
          whole.advance(spans.reduce((sum, each) => sum + each, 0));
          for (const span of spans) parts.advance(span);
          expect([...parts.now]).toEqual([...whole.now]);
        },
      ),
    );
  });

  test('it runs at 1 / max(1, Phi), and its estimate of the ticks before a point is never too large', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2e12 }), fc.nat(1e9), fc.boolean(), (bps, ticks, asPrinted) => {
        const time = asPrinted ? new PrintedTime(LINK_BPS) : new SystemTime(LINK_BPS);
        time.addRate(bps);
        const target = point(ticks, ticks % 2 ** 32);
        const before = time.ticksBefore(target, 0);
        time.advance(before);
        expect(
          time.now[0] < target[0] || (time.now[0] === target[0] && time.now[1] < target[1]) || before === 0,
        ).toBe(true);
        time.advance(2);
        if (bps <= LINK_BPS) expect(time.now[0]).toBeGreaterThanOrEqual(target[0]);
        const factor = asPrinted ? Math.max(1, time.phi) : 1 / Math.max(1, time.phi);
        expect(time.now[0] / ((before + 2) * factor)).toBeGreaterThan(1 - 1e-5 - 1 / (before + 2) / factor);
      }),
    );
  });

  test('tags add up without drift: 1,000,000 packets take exactly their time', () => {
    const time = new SystemTime(LINK_BPS);
    const tags = new FlowTags(1, time);
    tags.rateBps[0] = 7_770_001;
    for (let i = 0; i < 1e6; i++) tags.charge(0, 4194);
    const ideal = (1e6 * 4194 * 2e9) / 7_770_001;
    expect(Math.abs(tags.finish[0] - ideal)).toBeLessThan(1.001);
  });
});

describe('skipped ticks', () => {
  const workload = fc.record({
    queuePairs: fc.integer({ min: 1, max: 12 }),
    n: fc.integer({ min: 1, max: 8 }),
    k: fc.integer({ min: 1, max: 60 }),
    asPrinted: fc.boolean(),
    steps: fc.array(
      fc.record({
        wait: fc.oneof(fc.nat(3), fc.nat(300), fc.nat(20_000)),
        qp: fc.nat(11),
        kind: fc.constantFrom('doorbell', 'doorbell', 'rate', 'credits'),
        gbps: fc.double({ min: 1e-5, max: 100, noNaN: true }),
        messages: fc.nat(20),
        bytes: fc.oneof(fc.nat(200), fc.nat(20_000)),
      }),
      { maxLength: 60 },
    ),
  });

  test('change nothing: the same packets leave in the same ticks', () => {
    let packets = 0;
    fc.assert(
      fc.property(workload, ({ queuePairs, n, k, asPrinted, steps }) => {
        const logs = [undefined, EveryTick].map((Scheduler) => {
          const time = asPrinted ? new PrintedTime(LINK_BPS) : new SystemTime(LINK_BPS);
          const meter = new Meter({ queuePairs, wqesPerVisit: n, descriptors: k, time }, Scheduler);
          for (const { wait, qp, kind, gbps, messages, bytes } of steps) {
            meter.run(wait);
            const each = qp % queuePairs;
            if (kind === 'doorbell') meter.scheduler.doorbell(each, messages, bytes);
            else if (kind === 'rate') meter.scheduler.setRate(each, gbps * 1e9);
            else meter.scheduler.setCredits(each, messages < 10 ? messages : Number.POSITIVE_INFINITY);
          }
          meter.run(50_000);
          return { log: meter.log, now: [...meter.scheduler.time.now], fetches: meter.scheduler.fetches };
        });
        expect(logs[0]).toEqual(logs[1]);
        packets += logs[0].log.length;
      }),
      { numRuns: 60, seed: 23 },
    );
    expect(packets).toBeGreaterThan(1000);
  }, 120_000);
});
