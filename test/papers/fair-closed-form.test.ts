// Rates under dominant resource fairness, against examples that can be computed by hand.
import { expect, test } from 'vitest';
import { dominantRates } from '../../src/papers/fair/closed-form.ts';

const rounded = (rates: readonly number[]) => rates.map((rate) => Number(rate.toFixed(9)));

test("the paper's example: 9 CPUs and 18 GB give 3 tasks of 1 CPU and 4 GB, and 2 tasks of 3 CPUs and 1 GB", () => {
  const [a, b] = [{ parts: [1 / 9, 4 / 18] }, { parts: [3 / 9, 1 / 18] }];
  expect(rounded(dominantRates([a, b]))).toEqual([3, 2]);
});

test('what a tenant cannot use goes to the others', () => {
  const tenant = (mostRate?: number) => ({ parts: [0.1, 0], mostRate });
  expect(rounded(dominantRates([tenant(), tenant(2)]))).toEqual([8, 2]);
  expect(rounded(dominantRates([tenant(1), tenant(6), tenant(2)]))).toEqual([1, 6, 2]);
  expect(rounded(dominantRates([tenant(), tenant(), tenant(1)]))).toEqual([4.5, 4.5, 1]);
});

test('tenants that do not need an exhausted resource continue to grow', () => {
  const link = { parts: [0.1, 0] };
  expect(rounded(dominantRates([link, link, { parts: [0, 0.1] }]))).toEqual([5, 5, 10]);
});

test('a tenant has its share of what it needs most, even if it needs little of what is exhausted', () => {
  // At a dominant share of 2/3, half of the second tenant's on the first resource, that resource is exhausted.
  expect(rounded(dominantRates([{ parts: [1, 0] }, { parts: [0.5, 1] }]))).toEqual([
    0.666666667, 0.666666667,
  ]);
});
