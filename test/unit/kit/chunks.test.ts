// The choice of a chunk from a dictionary.
import { expect, test } from 'vitest';
import { chunkFor } from '../../../src/policies/kit/chunks.ts';

const CHUNKS = [
  { chunkBytes: 1024, gbps: 20 },
  { chunkBytes: 4096, gbps: 62 },
  { chunkBytes: 8192, gbps: 60 },
  { chunkBytes: 65536, gbps: 97 },
  { chunkBytes: 131072, gbps: 95 },
];

test.each([
  [0, 1024],
  [20, 1024],
  [20.1, 4096],
  [62, 4096],
  [62.5, 65536],
  [97, 65536],
])('chunkFor() returns the smallest chunk that reaches %d Gbit/s', (gbps, chunkBytes) => {
  expect(chunkFor(CHUNKS, gbps, 1)).toBe(chunkBytes);
});

test('chunkFor() returns the fastest chunk if none reaches the rate', () => {
  expect(chunkFor(CHUNKS, 98, 1)).toBe(65536);
});

test('chunkFor() returns the fallback without a dictionary', () => {
  expect(chunkFor(null, 10, 5000)).toBe(5000);
  expect(chunkFor([], 10, 5000)).toBe(5000);
});
