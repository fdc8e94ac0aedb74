// Percentiles of the last samples, compared with sorted arrays.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  ABSENT,
  addTo,
  atOrAfter,
  atOrBefore,
  deleteFrom,
  SET_WORDS,
} from '../../../src/policies/kit/bitmap.ts';
import { TAIL_LIMIT_NS, TailEstimator } from '../../../src/policies/kit/tail-estimator.ts';

/** The nearest rank among sorted values. */
function percentileOf(values: readonly number[], percentile: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(1, Math.ceil((percentile * sorted.length) / 100 - 1e-6)) - 1];
}

const bucketOf = (ns: number) =>
  ns >= TAIL_LIMIT_NS || Number.isNaN(ns) ? TAIL_LIMIT_NS : Math.max(0, Math.floor(ns + 0.5));

/** Few values, so that they recur; values across pages; and values that clamp. */
const sample = fc.oneof(
  fc.nat(5),
  fc.integer({ min: 4090, max: 4100 }),
  fc.nat(2 ** 24 + 10),
  fc.double({ min: -10, max: 1e5 }),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, 1e300, TAIL_LIMIT_NS - 0.25, -1),
);
const operation = fc.oneof(
  { weight: 30, arbitrary: sample.map((ns) => ({ clear: false, ns })) },
  { weight: 1, arbitrary: fc.constant({ clear: true, ns: 0 }) },
);

test('a TailEstimator returns what a sorted array of the last samples returns', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 150 }),
      fc.constantFrom(0.1, 50, 90, 99, 99.9, 100),
      fc.array(operation, { maxLength: 400 }),
      (windowSamples, percentile, operations) => {
        const estimator = new TailEstimator({ windowSamples, percentile });
        let model: number[] = [];
        expect(estimator.valueNs()).toBeNaN();
        for (const { clear, ns } of operations) {
          if (clear) estimator.clear();
          else estimator.add(ns);
          model = clear ? [] : [...model, bucketOf(ns)].slice(-windowSamples);
          expect(estimator.count).toBe(model.length);
          expect(estimator.valueNs()).toBe(percentileOf(model, percentile));
        }
      },
    ),
    { numRuns: 200 },
  );
});

test('a bitmap at an offset finds the nearest members as an array does', () => {
  const index = fc.oneof(fc.nat(4095), fc.constantFrom(0, 31, 32, 1023, 1024, 4064, 4095));
  const BASE = 7;
  fc.assert(
    fc.property(fc.array(index), fc.array(index), fc.array(index), (added, deleted, asked) => {
      const column = new Int32Array(BASE + SET_WORDS + 1);
      for (const i of added) addTo(column, BASE, i);
      let members = added;
      for (const i of deleted) {
        members = members.filter((member) => member !== i);
        expect(deleteFrom(column, BASE, i)).toBe(members.length === 0);
      }
      for (const i of [...asked, 0, 4095]) {
        const after = Math.min(...members.filter((member) => member >= i));
        const before = Math.max(...members.filter((member) => member <= i));
        expect(atOrAfter(column, BASE, i)).toBe(Number.isFinite(after) ? after : ABSENT);
        expect(atOrBefore(column, BASE, i)).toBe(Number.isFinite(before) ? before : ABSENT);
      }
      expect(atOrAfter(column, BASE, 4096)).toBe(ABSENT);
      expect(atOrBefore(column, BASE, -1)).toBe(ABSENT);
      expect([...column.subarray(0, BASE), column[BASE + SET_WORDS]].every((word) => word === 0)).toBe(true);
    }),
  );
});

test('the default is p99, and a lost sample counts as the largest value', () => {
  const estimator = new TailEstimator({ windowSamples: 100 });
  for (let i = 1; i <= 100; i++) estimator.add(i);
  expect(estimator.valueNs()).toBe(99);
  estimator.add(Number.NaN);
  expect(estimator.valueNs()).toBe(100);
  estimator.add(Number.POSITIVE_INFINITY);
  expect(estimator.valueNs()).toBe(TAIL_LIMIT_NS);
});

test.each([0, -1, 1.5, Number.NaN, 2 ** 25])('a window of %d samples is refused', (windowSamples) => {
  expect(() => new TailEstimator({ windowSamples })).toThrow(/windowSamples must be an integer from 1 to/);
});

test.each([0, -1, 100.1, Number.NaN])('a percentile of %d is refused', (percentile) => {
  expect(() => new TailEstimator({ windowSamples: 1, percentile })).toThrow(/percentile must be above 0/);
});
