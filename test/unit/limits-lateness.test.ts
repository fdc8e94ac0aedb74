import { expect, test } from 'vitest';
import { mostLateNs } from '../../src/shim/limits/lateness.ts';

test.each([
  [100, 50e6],
  [1, 50e6],
  [0.1, 2 ** 22 * 80],
  [0.001, 1e9],
])('a rate of %d Gbit/s makes up for %d ns', (gbps, ns) => {
  expect(mostLateNs(8 / gbps)).toBeCloseTo(ns, 0);
});
