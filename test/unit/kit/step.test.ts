// The step: it issues the right pieces, and neither overruns a queue nor stalls.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BLOCKED, step } from '../../../src/policies/kit/step.ts';
import { ISO_WR_WAIT } from '../../../src/verbs/constants.ts';
import { HeldRequests } from './held-requests.ts';

const PIECE = 1000;

function ground(depth: number) {
  const requests = new HeldRequests(depth);
  const qp = requests.qp(0);
  return { requests, qp, step: () => step(qp, requests.out, PIECE) };
}

test('a request that is longer than a piece is cut if it may be', () => {
  const { requests, step } = ground(16);
  expect(step()).toBe(BLOCKED);
  requests.hold(0, { bytes: 2500 }, { bytes: 2500, splittable: false }, { bytes: 0 });
  expect([step(), step(), step(), step(), step(), step()]).toEqual([PIECE, PIECE, 500, 2500, 0, BLOCKED]);
  expect(requests.issued.map(({ isLast }) => isLast)).toEqual([false, false, true, true, true]);
});

test('it executes a WAIT, which takes no bytes, and is blocked by an unsatisfied one', () => {
  const { requests, step } = ground(16);
  requests.hold(0, { bytes: 0, opcode: ISO_WR_WAIT, satisfied: true });
  requests.hold(0, { bytes: 0, opcode: ISO_WR_WAIT, satisfied: false }, { bytes: 1 });
  expect([step(), step()]).toEqual([0, BLOCKED]);
  expect(requests.issued).toEqual([]);
});

test('every message is issued exactly once, at any depth and with any completions', () => {
  const message = fc.record({ bytes: fc.nat(5 * PIECE), splittable: fc.boolean() });
  fc.assert(
    fc.property(
      fc.array(message, { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 1, max: 4 }),
      fc.infiniteStream(fc.nat(3)),
      (messages, depth, completions) => {
        const { requests, qp, step } = ground(depth);
        requests.hold(0, ...messages.map((one) => ({ ...one })));
        let idle = 0;
        while (requests.out.backlog(qp) > 0 && idle < 10) {
          const bytes = step();
          idle = bytes === BLOCKED ? idle + 1 : 0;
          // With nothing in flight, no completion would call the policy again.
          expect(bytes !== BLOCKED || requests.out.inflight(qp) > 0).toBe(true);
          requests.complete(0, idle > 3 ? 1 : completions.next().value);
        }
        const lengths: number[] = [];
        let bytes = 0;
        for (const one of requests.issued) {
          bytes += one.bytes;
          if (one.isLast) lengths.push(bytes);
          if (one.isLast) bytes = 0;
        }
        expect(lengths).toEqual(messages.map(({ bytes }) => bytes));
        const whole = requests.issued.filter(({ bytes }) => bytes > PIECE).length;
        if (depth > 1)
          expect(whole).toBe(messages.filter(({ bytes, splittable }) => bytes > PIECE && !splittable).length);
      },
    ),
  );
});
