// Updates between agents of justitia: what is written is read, and anything else is rejected.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  DEMAND,
  numberAfter,
  readUpdate,
  roundLatency,
  SHARES,
  UPDATE_WORDS,
  type Update,
  writeUpdate,
} from '../../../src/policies/justitia/updates.ts';

const NUMBERS = 2 ** 20;
const none = (): Update => ({ kind: 0, number: 0, confirmed: 0, latency: 0, first: 0, second: 0 });
const value = fc.float({ min: 0, max: 1e9, noNaN: true }).map((one) => one + 0);
const update: fc.Arbitrary<Update> = fc.record({
  kind: fc.constantFrom(DEMAND, SHARES),
  number: fc.integer({ min: 1, max: NUMBERS - 1 }),
  confirmed: fc.nat(NUMBERS - 1),
  latency: fc.double({ min: 0, max: 1e9, noNaN: true }).map(roundLatency),
  first: value,
  second: value,
});

function read(words: Float64Array): Update | null {
  const into = none();
  return readUpdate(words, into) ? into : null;
}

test('an update is read as it was written, in 16 bytes', () => {
  fc.assert(
    fc.property(update, (given) => {
      const words = new Float64Array(UPDATE_WORDS);
      expect(words.byteLength).toBe(16);
      writeUpdate(words, given);
      expect(read(words)).toEqual(given);
    }),
    { numRuns: 500 },
  );
});

test('whatever arrives is rejected, or has values within their ranges', () => {
  const word = fc.oneof(
    fc.double(),
    fc.integer({ min: -10, max: 2 ** 31 }),
    fc.bigInt({ min: 0n, max: 2n ** 53n }).map(Number),
  );
  const bits = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((all) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, all);
    return view.getFloat64(0);
  });
  let accepted = 0;
  fc.assert(
    fc.property(word, fc.oneof(word, bits), (head, body) => {
      const found = read(Float64Array.of(head, body));
      if (found === null) return;
      accepted++;
      const { kind, number, confirmed, first, second } = found;
      expect([DEMAND, SHARES]).toContain(kind);
      expect(number > 0 && number < NUMBERS && confirmed >= 0 && confirmed < NUMBERS).toBe(true);
      expect(found.latency >= 0 && found.latency <= 1e9).toBe(true);
      expect(first >= 0 && first <= 1e9 && second >= 0 && second <= 1e9).toBe(true);
    }),
    { numRuns: 5000 },
  );
  expect(accepted).toBeGreaterThan(0);
});

/** The words of an update with these values, and with another head or other values in place of its own. */
function wordsOf(change: Partial<Update> = {}, head?: number): Float64Array {
  const words = new Float64Array(UPDATE_WORDS);
  writeUpdate(words, { ...none(), kind: DEMAND, number: 1, ...change });
  if (head !== undefined) words[0] = head;
  return words;
}

test.each([
  ['no words', new Float64Array(0)],
  ['one word', wordsOf().slice(0, 1)],
  ['a word too many', Float64Array.of(...wordsOf(), 0)],
  ['kind 0', wordsOf({ kind: 0 })],
  ['kind 3', wordsOf({ kind: 3 })],
  ['number 0', wordsOf({ number: 0 })],
  ['a negative head', wordsOf({}, -9)],
  ['a broken head', wordsOf({}, 9.5)],
  ['a head that is not a number', wordsOf({}, Number.NaN)],
  ['an infinite head', wordsOf({}, Number.POSITIVE_INFINITY)],
  ['a head beyond 2^53', wordsOf({}, 2 ** 60 + 2 ** 12)],
  ['a confirmed number that is none', wordsOf({ confirmed: NUMBERS })],
  ['a negative first value', wordsOf({ first: -1 })],
  ['a negative second value', wordsOf({ second: -1e-30 })],
  ['a first value that is not a number', wordsOf({ first: Number.NaN })],
  ['a second value that is not a number', wordsOf({ second: Number.NaN })],
])('%s is no update', (_, words) => {
  expect(read(wordsOf())).not.toBeNull();
  expect(read(words)).toBeNull();
});

test('values above all bounds are read as the largest weight', () => {
  for (const first of [2e9, 1e38, Number.POSITIVE_INFINITY]) {
    expect(read(wordsOf({ first, second: first }))).toMatchObject({ first: 1e9, second: 1e9 });
  }
});

test('the weight of latency applications is rounded once: whole numbers up to 32 arrive as sent, others within 3.2 %', () => {
  for (let weight = 1; weight <= 32; weight++) expect(roundLatency(weight)).toBe(weight);
  expect([roundLatency(0), roundLatency(0.5), roundLatency(1e-6)]).toEqual([0, 0.5, expect.closeTo(1e-6, 7)]);
  fc.assert(
    fc.property(fc.double({ min: 1e-6, max: 1e9, noNaN: true }), (weight) => {
      const rounded = roundLatency(weight);
      expect(Math.abs(rounded - weight)).toBeLessThanOrEqual(weight * 0.032);
      expect(roundLatency(rounded)).toBe(rounded);
    }),
  );
});

test('an update without a weight, as older agents write it, stands for a weight of 1', () => {
  expect(read(wordsOf({}, DEMAND + 4 + 8))).toMatchObject({ latency: 1 });
  expect(wordsOf({ latency: 1 })[0]).toBe(DEMAND + 4 + 8);
});

test('numbers wrap, and never are 0', () => {
  expect([0, 1, NUMBERS - 2, NUMBERS - 1].map(numberAfter)).toEqual([1, 2, NUMBERS - 1, 1]);
});
