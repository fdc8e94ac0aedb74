// The token bucket, compared with exact arithmetic, and at its limits.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Bucket } from '../../../src/shim/limits/bucket.ts';

const BURST = 1000;

/** Fills, takes and changes of rate, in whole numbers so that the model is exact. */
const operations = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('pass' as const), value: fc.nat(500) }),
    fc.record({ kind: fc.constant('take' as const), value: fc.integer({ min: -10, max: 3000 }) }),
    fc.record({ kind: fc.constant('rate' as const), value: fc.nat(8) }),
    fc.record({ kind: fc.constant('burst' as const), value: fc.integer({ min: 1, max: 2000 }) }),
  ),
  { maxLength: 100 },
);

test('a bucket has the tokens that arrived and were not taken, up to the burst', () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const bucket = new Bucket({ burst: BURST, perNs: 1, nowNs: 7 });
      let nowNs = 7;
      let [tokens, perNs, burst] = [BURST, 1, BURST];
      for (const { kind, value } of steps) {
        if (kind === 'pass') {
          nowNs += value;
          tokens = Math.min(burst, tokens + value * perNs);
          expect(bucket.isFull(nowNs)).toBe(tokens === burst);
          expect(bucket.fill(nowNs)).toBe(tokens);
        } else if (kind === 'take') {
          tokens = Math.min(burst, tokens - value);
          bucket.take(value);
          bucket.fill(nowNs);
        } else if (kind === 'rate') {
          perNs = value;
          bucket.setRate(value);
        } else {
          burst = value;
          tokens = Math.min(burst, tokens);
          bucket.setBurst(value);
        }
        expect(bucket.tokens).toBe(tokens);
      }
    }),
  );
});

test('the tokens are available at readyNs(), and not much earlier', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 1e-6, max: 100, noNaN: true }),
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      fc.nat(BURST),
      fc.double({ min: 0, max: 1e12, noNaN: true }),
      (perNs, taken, wanted, nowNs) => {
        const bucket = new Bucket({ burst: BURST, perNs, nowNs });
        bucket.take(taken);
        const readyNs = bucket.readyNs(wanted);
        // The clock has a resolution of 0.1 ns at 1e12 ns, and doubles have 53 bits.
        expect(bucket.fill(readyNs)).toBeGreaterThan(wanted - perNs * 0.1 - 1e-9 * taken - 1e-6);
        if (readyNs > nowNs + 1) {
          const early = new Bucket({ burst: BURST, perNs, nowNs });
          early.take(taken);
          expect(early.fill(readyNs - 1)).toBeLessThan(wanted);
        }
      },
    ),
  );
});

test('a bucket without a rate is never ready, and one without a limit always is', () => {
  const bucket = new Bucket({ burst: 10, tokens: 0 });
  expect(bucket.readyNs(0)).toBe(0);
  expect(bucket.readyNs(1)).toBe(Number.POSITIVE_INFINITY);
  bucket.setRate(Number.POSITIVE_INFINITY);
  bucket.take(1e6);
  // Infinity times zero must not leave NaN.
  expect(bucket.fill(0)).toBe(-1e6);
  expect(bucket.fill(2)).toBe(10);
  for (const rate of [Number.NaN, -1, 0]) {
    bucket.setRate(rate);
    bucket.take(20);
    expect(bucket.readyNs(10)).toBe(Number.POSITIVE_INFINITY);
    bucket.take(-20);
  }
});

test('time that seems to run backwards adds no tokens twice', () => {
  const bucket = new Bucket({ burst: 100, perNs: 1, tokens: 0 });
  expect(bucket.fill(50)).toBe(50);
  expect(bucket.fill(20)).toBe(50);
  expect(bucket.fill(50)).toBe(50);
});

test('a bucket becomes ready later than now, however late it is', () => {
  const nowNs = 1e15;
  const bucket = new Bucket({ burst: 10, perNs: 50, tokens: 0, nowNs });
  const readyNs = bucket.readyNs(1);
  expect(readyNs).toBeGreaterThan(nowNs);
  expect(bucket.fill(readyNs)).toBeGreaterThanOrEqual(1);
});
