import { expect, test } from 'vitest';
import { RequestBounds } from '../../../src/policies/drum/bounds.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';

const MOPS = 1e6;

test('an application sends at its bound, and may catch up on 100 us', () => {
  const bounds = new RequestBounds();
  expect(bounds.limits(0)).toBe(false);
  expect(bounds.set(0, 10 * MOPS, 0)).toBe(true);
  expect(bounds.available(0, 0)).toBe(0);
  expect(bounds.available(0, 1000)).toBe(10);
  bounds.take(0, 10);
  expect(bounds.available(0, 1e9)).toBe(1000);
  expect(bounds.set(0, MOPS, 1e9)).toBe(false);
  expect(bounds.available(0, 1e9)).toBe(100);
});

test('queue pairs wait for tokens in turn, and go once there is no bound', () => {
  const bounds = new RequestBounds();
  bounds.set(0, MOPS, 0);
  expect(bounds.park(0, 5)).toBe(1000);
  bounds.park(0, 7);
  expect([bounds.readyNs, bounds.release(999), bounds.available(0, 5000)]).toEqual([1000, NONE, 0]);
  expect(bounds.release(1000)).toBe(5);
  expect(bounds.mayGo(0, 5, 0, 1000)).toBe(true);
  // It has issued two requests since.
  expect(bounds.mayGo(0, 5, 2, 5000)).toBe(true);
  expect(bounds.mayGo(0, 5, 5, 5000)).toBe(false);
  expect([bounds.release(5000), bounds.readyNs]).toEqual([NONE, 6000]);
  bounds.clear(0);
  expect([bounds.release(5000), bounds.release(5000), bounds.readyNs]).toEqual([
    7,
    NONE,
    Number.POSITIVE_INFINITY,
  ]);
});

test('a request takes one token, even if the number of issued requests goes back for a moment', () => {
  const bounds = new RequestBounds();
  bounds.set(0, MOPS, 0);
  for (const issued of [10, 4, 10]) bounds.mayGo(0, 3, issued, 20_000);
  expect(bounds.available(0, 20_000)).toBe(10);
  bounds.reset(3);
  bounds.mayGo(0, 3, 2, 20_000);
  expect(bounds.available(0, 20_000)).toBe(8);
});
