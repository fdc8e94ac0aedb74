/** The timeline against a sorted list: the same items at the same times, whatever is put, moved and removed. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Timeline } from '../../../src/policies/tassel/timeline.ts';

const SEED = 20261126;
const ITEMS = 12;
/** Within a slot, within the wheel, and beyond it. */
const delayNs = fc.oneof(
  fc.double({ min: -2000, max: 900, noNaN: true }),
  fc.double({ min: 900, max: 4e6, noNaN: true }),
  fc.double({ min: 4e6, max: 2e9, noNaN: true }),
);
const step = fc.oneof(
  fc.record({ put: fc.nat(ITEMS - 1), delayNs }),
  fc.record({ remove: fc.nat(ITEMS - 1) }),
  fc.record({ advanceNs: fc.oneof(fc.double({ min: 0, max: 3000, noNaN: true }), delayNs.map(Math.abs)) }),
);

test('gives items in the order of their times', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const timeline = new Timeline();
      const model = new Map<number, number>();
      let nowNs = 5000;
      for (const one of steps) {
        if ('put' in one) {
          timeline.due[0] = nowNs + one.delayNs;
          timeline.put(one.put);
          model.set(one.put, nowNs + one.delayNs);
        } else if ('remove' in one) {
          timeline.remove(one.remove);
          model.delete(one.remove);
        } else {
          nowNs += one.advanceNs;
          const due = [...model].filter(([, ns]) => ns <= nowNs).sort(([, x], [, y]) => x - y);
          for (const [, ns] of due) {
            timeline.due[0] = nowNs;
            timeline.seek();
            expect(timeline.firstNs[0]).toBe(ns);
            const item = timeline.shift();
            expect(model.get(item)).toBe(ns);
            model.delete(item);
          }
          timeline.due[0] = nowNs;
          timeline.seek();
          expect(timeline.firstNs[0] > nowNs).toBe(true);
        }
        expect(timeline.size).toBe(model.size);
        expect(timeline.nextNs).toBe(Math.min(Number.POSITIVE_INFINITY, ...model.values()));
      }
    }),
    { seed: SEED, numRuns: 500 },
  );
});
