// The queues of queue pairs, compared with arrays.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NONE, RunQueue } from '../../../src/policies/kit/run-queue.ts';

const LEVELS = 3;
/** Small numbers, so that they recur, and some beyond the first columns. */
const index = fc.oneof(fc.nat(8), fc.integer({ min: 60, max: 300 }));
const operations = fc.array(
  fc.record({
    kind: fc.constantFrom('push', 'push', 'push', 'shift', 'remove', 'moveToEnd'),
    index,
    level: fc.nat(LEVELS - 1),
  }),
  { maxLength: 200 },
);

const contents = (queue: RunQueue, level: number): number[] => {
  const found: number[] = [];
  for (let i = queue.first(level); i !== NONE; i = queue.next(i)) found.push(i);
  return found;
};

test.each([1, LEVELS])('a queue made with %i levels behaves like arrays', (levels) => {
  fc.assert(
    fc.property(operations, (steps) => {
      const queue = new RunQueue(levels);
      const model: number[][] = Array.from({ length: LEVELS }, () => []);
      for (const { kind, index, level } of steps) {
        const at = model.findIndex((one) => one.includes(index));
        if (kind === 'push') {
          queue.push(index, level);
          if (at < 0) model[level].push(index);
        } else if (kind === 'shift') {
          expect(queue.shift(level)).toBe(model[level].shift() ?? NONE);
        } else if (kind === 'moveToEnd') {
          queue.moveToEnd(index);
          if (at >= 0) model[at].push(...model[at].splice(model[at].indexOf(index), 1));
        } else {
          queue.remove(index);
          if (at >= 0) model[at].splice(model[at].indexOf(index), 1);
        }
        expect(queue.has(index)).toBe(model.some((one) => one.includes(index)));
        expect(queue.last(level)).toBe(model[level].at(-1) ?? NONE);
        expect(queue.firstLevel()).toBe(model.findIndex((one) => one.length > 0));
      }
      expect(model.map((_, level) => contents(queue, level))).toEqual(model);
    }),
  );
});

test('levels that were never used are empty, and unknown indices are in no queue', () => {
  const queue = new RunQueue();
  expect(queue.has(1000)).toBe(false);
  expect(queue.next(1000)).toBe(NONE);
  expect(queue.first(1000)).toBe(NONE);
  expect(queue.last(1000)).toBe(NONE);
  expect(queue.shift(1000)).toBe(NONE);
  queue.remove(1000);
  queue.moveToEnd(1000);
  expect(queue.firstLevel()).toBe(NONE);
});
