/** The heap against a sorted list. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { IndexHeap } from '../../../src/policies/kit/index-heap.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';

const SEED = 20261126;
const step = fc.oneof(fc.record({ put: fc.nat(40), ns: fc.nat(20) }), fc.record({ remove: fc.nat(40) }));

test('its first item is the one with the smallest time that was put first', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const heap = new IndexHeap();
      const model = new Map<number, { ns: number; order: number }>();
      for (const [order, one] of steps.entries()) {
        if ('put' in one) {
          heap.due[0] = one.ns;
          heap.put(one.put);
          model.set(one.put, { ns: one.ns, order });
        } else {
          heap.remove(one.remove);
          model.delete(one.remove);
        }
        const [first] = [...model].sort(([, x], [, y]) => x.ns - y.ns || x.order - y.order);
        expect(heap.size).toBe(model.size);
        expect(heap.first).toBe(first === undefined ? NONE : first[0]);
        expect(heap.firstNs[0]).toBe(first === undefined ? Number.POSITIVE_INFINITY : first[1].ns);
      }
    }),
    { seed: SEED, numRuns: 500 },
  );
});
