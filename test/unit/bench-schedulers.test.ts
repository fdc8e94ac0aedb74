/** The schedulers that benchmarks measure alone run on their device of arrays as they do under the shim. */
import { expect, test } from 'vitest';
import { scheduled as underFair } from '../../bench/fair/scheduler.ts';
import { scheduled as underPalos } from '../../bench/palos/scheduler.ts';

const PIECES = 4096;

test.each([
  ['fair', () => underFair(16, 2)],
  ['fair, many tenants', () => underFair(1000, 100)],
  ['palos', () => underPalos({ queuePairs: 16, groups: 2 })],
])('%s issues a piece for each that completes', (_, scheduled) => {
  expect(() => scheduled()(PIECES)).not.toThrow();
});
