/** The NIC caches evict the least recently used entry: compared with a list-based model, and thrashing. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LruCache } from '../../src/sim/nic/lru-cache.ts';

/** The same cache as a list, newest last. */
class Model {
  private readonly names: string[] = [];
  private readonly entries: number;

  constructor(entries: number) {
    this.entries = entries;
  }

  touch(name: string): boolean {
    const at = this.names.indexOf(name);
    if (at >= 0) this.names.splice(at, 1);
    this.names.push(name);
    if (this.names.length > this.entries) this.names.shift();
    return at >= 0;
  }
}

test('random accesses hit and miss as in a list-based model', () => {
  const access = fc.tuple(fc.integer({ min: -3, max: 40 }), fc.integer({ min: 0, max: 2 }));
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 70 }),
      fc.array(access, { minLength: 1, maxLength: 600 }),
      (entries, accesses) => {
        const cache = new LruCache(entries);
        const model = new Model(entries);
        for (const [first, second] of accesses) {
          expect(cache.touch(first, second)).toBe(model.touch(`${first}.${second}`));
          expect(cache.index).toBeLessThan(entries);
        }
        expect(cache.count).toBeLessThanOrEqual(entries);
      },
    ),
    { numRuns: 200 },
  );
});

test.each([1, 3, 20, 512])(
  'cyclic access to N keys with %i entries: all hit up to N, none beyond',
  (entries) => {
    for (const [names, misses] of [
      [entries, 0],
      [entries + 1, entries + 1],
      [2 * entries, 2 * entries],
    ]) {
      const cache = new LruCache(entries);
      for (let i = 0; i < names; i++) cache.touch(i * 256, 7);
      let missed = 0;
      for (let round = 0; round < 3; round++) {
        for (let i = 0; i < names; i++) if (!cache.touch(i * 256, 7)) missed++;
      }
      expect(missed).toBe(3 * misses);
    }
  },
);

test('an entry keeps its index until it is evicted', () => {
  const cache = new LruCache(100);
  const slots = Array.from({ length: 100 }, (_, i) => {
    cache.touch(i, i);
    return cache.index;
  });
  expect(new Set(slots).size).toBe(100);
  for (let i = 99; i >= 0; i--) {
    expect(cache.touch(i, i)).toBe(true);
    expect(cache.index).toBe(slots[i]);
  }
});
