// The heap of timers against a sorted list.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TimerHeap } from '../../src/shim/timers/timer-heap.ts';

interface Timer {
  token: number;
  atNs: number;
  order: number;
}

/** Few tokens and few times, so that timers are moved, removed, and due at the same time. */
const token = fc.oneof(
  fc.integer({ min: 0, max: 40 }),
  // Tokens of one hash value, and others that are no small integers.
  fc.integer({ min: 0, max: 20 }).map((n) => 2 ** 32 * n),
  fc.constantFrom(-1, 0.5, 2 ** 50, 2 ** 50 + 1),
);
const command = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      what: fc.constant('put' as const),
      token,
      atNs: fc.integer({ min: -5, max: 30 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('remove' as const), token }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('pop' as const) }) },
);

const sortedOf = (timers: Timer[]) => timers.toSorted((a, b) => a.atNs - b.atNs || a.order - b.order);

function drained(heap: TimerHeap): number[] {
  const tokens: number[] = [];
  for (; heap.size > 0; heap.pop()) tokens.push(heap.headToken);
  return tokens;
}

test('a heap fires timers in the order of their times, and timers of one time in the order of setting', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 400 }), (commands) => {
      const heap = new TimerHeap();
      let model: Timer[] = [];
      commands.forEach((c, order) => {
        const known = c.what !== 'pop' && model.some((timer) => timer.token === c.token);
        if (c.what === 'put') {
          heap.due.set([c.atNs, order]);
          expect(heap.put(c.token)).toBe(!known);
          model = [...model.filter((timer) => timer.token !== c.token), { ...c, order }];
        } else if (c.what === 'remove') {
          expect(heap.remove(c.token)).toBe(known);
          model = model.filter((timer) => timer.token !== c.token);
        } else if (model.length > 0) {
          const [first, ...rest] = sortedOf(model);
          expect([heap.headToken, heap.headNs[0]]).toEqual([first.token, first.atNs]);
          heap.pop();
          model = rest;
        }
        expect(heap.size).toBe(model.length);
        expect(heap.headNs[0]).toBe(sortedOf(model)[0]?.atNs ?? Number.POSITIVE_INFINITY);
      });
      expect(drained(heap)).toEqual(sortedOf(model).map((timer) => timer.token));
    }),
    { numRuns: 500 },
  );
});

test('of two heaps, the one with the sooner timer comes before the other, also when both are due at the same time', () => {
  const [one, other] = [new TimerHeap(), new TimerHeap()];
  expect(one.isBefore(other)).toBe(true);
  other.due.set([7, 0]);
  other.put(1);
  expect([one.isBefore(other), other.isBefore(one)]).toEqual([false, true]);
  one.due.set([7, 1]);
  one.put(1);
  expect([one.isBefore(other), other.isBefore(one)]).toEqual([false, true]);
  one.due.set([6, 2]);
  one.put(1);
  expect([one.isBefore(other), other.isBefore(one)]).toEqual([true, false]);
});

test('thousands of timers are set, moved and removed', () => {
  const heap = new TimerHeap();
  const put = (name: number, atNs: number) => {
    heap.due.set([atNs, name]);
    heap.put(name);
  };
  for (let name = 0; name < 5000; name++) put(name, (name * 7919) % 5000);
  for (let name = 0; name < 5000; name++) put(name, (name * 4391) % 5000);
  for (let name = 0; name < 5000; name += 2) expect(heap.remove(name)).toBe(true);
  const left = drained(heap);
  expect(left.length).toBe(2500);
  expect(left.map((name) => (name * 4391) % 5000)).toEqual(
    left.map((name) => (name * 4391) % 5000).toSorted((a, b) => a - b),
  );
});
