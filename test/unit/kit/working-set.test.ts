import { expect, test } from 'vitest';
import { WorkingSet } from '../../../src/policies/kit/index.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';

/** The same with a Map, which keeps entries in the order of their last access. */
class Model {
  private readonly entries = new Map<string, { tenant: number; atNs: number }>();
  private readonly idleNs: number;
  private readonly capacity: number;

  constructor(idleNs: number, capacity: number) {
    this.idleNs = idleNs;
    this.capacity = capacity;
  }

  touch(tenant: number, key: string, nowNs: number): boolean {
    this.expire(nowNs);
    const isNew = !this.entries.delete(key);
    if (this.entries.size === this.capacity) {
      const [oldest] = this.entries.keys();
      this.entries.delete(oldest);
    }
    this.entries.set(key, { tenant, atNs: nowNs });
    return isNew;
  }

  expire(nowNs: number): void {
    for (const [key, { atNs }] of this.entries) if (atNs < nowNs - this.idleNs) this.entries.delete(key);
  }

  sizeOf(tenant: number): number {
    return [...this.entries.values()].filter((entry) => entry.tenant === tenant).length;
  }
}

test.each([
  { keys: 40, capacity: 1000 },
  { keys: 1000, capacity: 1000 },
  { keys: 1000, capacity: 100 },
])('random touches of $keys entries agree with a model of capacity $capacity', ({ keys, capacity }) => {
  const random = new RandomStream(1, 'working-set', keys);
  const below = (n: number) => Math.floor(random.next() * n);
  const set = new WorkingSet({ idleNs: 1000, capacity });
  const model = new Model(1000, capacity);
  let nowNs = 0;
  for (let i = 0; i < 20_000; i++) {
    nowNs += below(100) === 0 ? below(1500) : below(4);
    const [tenant, first, second] = [below(3), below(Math.ceil(keys / 8)), below(8)];
    expect(set.touch(tenant, first, second, nowNs)).toBe(model.touch(tenant, `${first} ${second}`, nowNs));
    if (i % 50 !== 0) continue;
    for (let one = 0; one < 4; one++) expect(set.sizeOf(one)).toBe(model.sizeOf(one));
  }
  expect(set.size).toBe(set.sizeOf(0) + set.sizeOf(1) + set.sizeOf(2));
});

test('idle entries are forgotten, and a full set forgets the one that is idle for longest', () => {
  const set = new WorkingSet({ idleNs: 100, capacity: 2 });
  expect(set.touch(0, 1, 0, 0)).toBe(true);
  expect(set.touch(0, 2, 0, 10)).toBe(true);
  expect(set.touch(0, 1, 0, 20)).toBe(false);
  expect(set.touch(1, 3, 0, 30)).toBe(true);
  expect([set.sizeOf(0), set.sizeOf(1)]).toEqual([1, 1]);
  expect(set.touch(0, 2, 0, 40)).toBe(true);
  set.expire(131);
  expect([set.sizeOf(0), set.sizeOf(1), set.size]).toEqual([1, 0, 1]);
});

test('a set exceeds a cache with fewer entries, and no unlimited one', () => {
  const set = new WorkingSet({ idleNs: 1e6 });
  for (let qp = 0; qp < 512; qp++) set.touch(0, qp, 0, qp);
  expect([set.exceeds(450), set.exceeds(512), set.exceeds(null)]).toEqual([true, false, false]);
});
