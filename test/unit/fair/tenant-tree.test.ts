// The tournament of tenants: the smallest key wins, and the one that was put first among equals.
import { expect, test } from 'vitest';
import { TenantTree } from '../../../src/policies/fair/tenant-tree.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_126);

test.each([1, 2, 7, 100])(`finds the first of up to %d tenants (seed ${SEED})`, (tenants) => {
  const random = new RandomStream(SEED, `tenants ${tenants}`);
  const tree = new TenantTree();
  let order = 0;
  const waiting = new Map<number, { key: number; order: number }>();
  for (let step = 0; step < 3000; step++) {
    const tenant = Math.floor(random.next() * tenants);
    if (random.next() < 0.3) {
      tree.remove(tenant);
      waiting.delete(tenant);
    } else {
      // Few different keys, so that many are equal.
      const key = Math.floor(random.next() * 20) - 10;
      tree.key[0] = key;
      tree.put(tenant);
      waiting.set(tenant, { key, order: order++ });
    }
    expect(tree.size).toBe(waiting.size);
    if (waiting.size === 0) continue;
    const [first] = [...waiting].sort(([, a], [, b]) => a.key - b.key || a.order - b.order)[0];
    expect(tree.first, `step ${step}`).toBe(first);
  }
});
