// The queue of entities by start, compared with a sorted array.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { StartQueue } from '../../src/policies/justitia/start-queue.ts';

interface Waiting {
  readonly entity: number;
  readonly start: number;
  readonly order: number;
}

/** More weights than there are lists. */
const weights = fc.oneof(
  fc.constant(1),
  fc.integer({ min: 1, max: 50 }).map((n) => n / 4),
);

test('the first entity has the earliest start, and among equal ones the earliest put', () => {
  const steps = fc.array(
    fc.record({
      kind: fc.constantFrom('put', 'put', 'put', 'serve', 'serve', 'remove'),
      entity: fc.nat(100),
      weight: weights,
      // Mostly in order, as starts are.
      back: fc.oneof(fc.constant(0), fc.nat(8)),
    }),
    { maxLength: 300 },
  );
  fc.assert(
    fc.property(steps, (all) => {
      const queue = new StartQueue();
      let model: Waiting[] = [];
      let [now, order] = [0, 0];
      const put = (entity: number, start: number, weight: number) => {
        queue.due[0] = start;
        queue.put(entity, weight);
        model = model.filter((one) => one.entity !== entity);
        model.push({ entity, start, order: order++ });
        model.sort((a, b) => a.start - b.start || a.order - b.order);
      };
      for (const { kind, entity, weight, back } of all) {
        if (kind === 'put') put(entity, Math.max(0, now + 1 / weight - back), weight);
        else if (kind === 'remove') {
          queue.remove(entity);
          model = model.filter((one) => one.entity !== entity);
        } else if (model.length > 0) {
          const [first] = model;
          expect(queue.first()).toBe(first.entity);
          expect(queue.firstStart[0]).toBe(first.start);
          now = Math.max(now, first.start);
          put(first.entity, now + 1 / weight, weight);
        }
        expect(queue.isEmpty).toBe(model.length === 0);
      }
    }),
  );
});
