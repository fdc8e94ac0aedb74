/** The event queue returns events by time, and events of the same time in order of insertion. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventQueue } from '../../src/sim/kernel/event-queue.ts';

interface Entry {
  time: number;
  id: number;
}

const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);

/** A number: push an event for that time; 'pop': remove one; 'look': read the head. */
const steps = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 0, max: 20 }) },
    { weight: 4, arbitrary: fc.constantFrom('pop' as const, 'look' as const) },
  ),
  {
    maxLength: 300,
  },
);

function run(queue: EventQueue, program: (number | 'pop' | 'look')[], before: number): void {
  const waiting: Entry[] = [];
  let next = 0;
  const put = (time: number) => {
    queue.due[0] = time;
    queue.push(7, next, -next, next * 2);
    waiting.push({ time, id: next++ });
    // Sorting is stable for equal times.
    waiting.sort((a, b) => a.time - b.time);
  };
  for (let i = 0; i < before; i++) put((i * 7919) % 1009);
  for (const step of program) {
    expect(queue.size).toBe(waiting.length);
    if (typeof step === 'number') put(step);
    else if (step === 'look' || waiting.length === 0) {
      expect(queue.headTime()).toBe(waiting[0]?.time ?? Number.POSITIVE_INFINITY);
      if (waiting.length > 0) expect(queue.headA()).toBe(waiting[0].id);
    } else {
      queue.pop();
      const { time, id } = waiting.shift() as Entry;
      expect([queue.time, queue.kind, queue.a, queue.b, queue.c]).toEqual([time, 7, id, 0 - id, id * 2]);
    }
  }
}

test(`random pushes and pops against a sorted list (seed ${SEED})`, () => {
  fc.assert(
    fc.property(steps, (program) => run(new EventQueue(), program, 0)),
    { numRuns: 300, seed: SEED },
  );
});

test('the queue grows in between', () => {
  const program = Array.from({ length: 6000 }, (_, i) => (i % 3 === 0 ? ('pop' as const) : (i * 31) % 997));
  run(new EventQueue(), program, 1020);
});
