/** The messages of fair's agents: they arrive as they were sent, and malformed ones do no harm. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_MESSAGE_WORDS } from '../../../src/coordinator/agent.ts';
import {
  type Flow,
  isQuiet,
  MOST_FLOWS,
  MOST_LIMITS,
  QUIET_WORDS,
  readDemand,
  readFlows,
  readLevels,
  readLimits,
  writeDemand,
  writeFlows,
  writeLevels,
  writeLimits,
} from '../../../src/policies/fair/agent/messages.ts';

const GID = '::ffff:10.0.0.1';
const OTHER = 'fe80::1';
const flow: Flow = {
  gid: GID,
  fromGid: OTHER,
  out: { perNs: 3, isHungry: true },
  in: { perNs: 0.5, isHungry: false },
  requestsPerNs: 0.01,
};

test('messages arrive as they were sent', () => {
  expect(readFlows(writeFlows(3e5, [flow, { ...flow, gid: OTHER }]))).toEqual({
    periodNs: 3e5,
    flows: [flow, { ...flow, gid: OTHER }],
  });
  const own = { outPerNs: 1, inPerNs: 0 };
  const peers = [{ gid: GID, outPerNs: 0, inPerNs: 2 }];
  expect(readLimits(writeLimits(9, own, peers))).toEqual({ lastsNs: 9, own, peers });
  const load = { weight: 2, hungryPerNs: 3, otherPerNs: 4 };
  const demand = { sentNs: 5, periodNs: 1e6, out: load, in: { ...load, weight: 0.5 } };
  expect(readDemand(writeDemand(demand))).toEqual(demand);
  const levels = { sentNs: 7, outPerNs: 1, inPerNs: 2 };
  expect(readLevels(writeLevels(levels))).toEqual(levels);
  expect(isQuiet(QUIET_WORDS)).toBe(true);
});

test('the longest messages fit', () => {
  expect(writeFlows(1, Array(MOST_FLOWS).fill(flow)).length).toBeLessThanOrEqual(MAX_MESSAGE_WORDS);
  const limit = { gid: GID, outPerNs: 1, inPerNs: 1 };
  const limits = writeLimits(1, limit, Array(MOST_LIMITS).fill(limit));
  expect(limits.length).toBeLessThanOrEqual(MAX_MESSAGE_WORDS);
});

test('whatever is sent, all values that are read are finite and not negative', () => {
  const word = fc.oneof(
    fc.double(),
    fc.integer({ min: -2, max: 2 ** 33 }),
    fc.constantFrom(0, 1, 2, 3, 4, 5, Number.NaN, Number.POSITIVE_INFINITY),
  );
  const lengths = fc.constantFrom(0, 1, 2, 3, 4, 9, 15, 28);
  const message = lengths.chain((length) => fc.array(word, { minLength: length, maxLength: length }));
  const isBounded = (value: unknown): boolean =>
    typeof value !== 'object' || value === null
      ? typeof value !== 'number' || (Number.isFinite(value) && value >= 0)
      : Object.values(value).every(isBounded);
  fc.assert(
    fc.property(message, (words) => {
      const sent = Float64Array.from(words);
      for (const read of [readFlows, readLimits, readDemand, readLevels])
        expect(isBounded(read(sent))).toBe(true);
    }),
    { numRuns: 2000 },
  );
});
