import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ChunkWeights, type Sums } from '../../../src/chunk-weights/chunk-weights.ts';

const MTU = 1500;

/** Equation (1) of the paper, with tenants above groups, over the members given. */
function shareByHand(
  members: readonly { tenant: string; group: string; weight: number }[],
  tenantWeights: Readonly<Record<string, number>>,
  groupWeights: Readonly<Record<string, number>>,
  one: { tenant: string; group: string; weight: number },
): number {
  const sum = (values: Iterable<number>) => [...values].reduce((a, b) => a + b, 0);
  const tenants = new Set(members.map(({ tenant }) => tenant));
  const groups = new Set(members.filter((m) => m.tenant === one.tenant).map(({ group }) => group));
  const peers = members.filter((m) => m.tenant === one.tenant && m.group === one.group);
  return (
    (tenantWeights[one.tenant] / sum([...tenants].map((name) => tenantWeights[name]))) *
    (groupWeights[one.group] / sum([...groups].map((name) => groupWeights[name]))) *
    (one.weight / sum(peers.map(({ weight }) => weight)))
  );
}

const weight = fc.double({ min: 1e-3, max: 1e3, noNaN: true });

describe('chunks by weight', () => {
  test('16 groups of weight 10 to 25 with queue pairs of weight 2 and 3, as in fig. 10', () => {
    const table = new ChunkWeights({ sums: 'configured', bytesPerQp: MTU });
    for (let g = 0; g < 16; g++) {
      table.setGroupWeight('t', `${g}`, 10 + g);
      table.add(2 * g, table.groupOf('t', `${g}`), 2);
      table.add(2 * g + 1, table.groupOf('t', `${g}`), 3);
    }
    // The least and the largest chunk that algorithm (2) gives for N = 32 MTU.
    expect(table.chunkBytes(0)).toBeCloseTo(685.71, 2);
    expect(table.chunkBytes(31)).toBeCloseTo(2571.43, 2);
    const all = Array.from({ length: 32 }, (_, i) => table.chunkBytes(i)).reduce((a, b) => a + b);
    expect(all).toBeCloseTo(32 * MTU, 6);
  });

  test('chunks are equation (2) for random tables that change', () => {
    const member = fc.record({
      tenant: fc.constantFrom('a', 'b', 'c'),
      group: fc.constantFrom('x', 'y', ''),
      weight,
      isActive: fc.boolean(),
    });
    const weights = fc.record({ a: weight, b: weight, c: weight });
    const groups = fc.record({ x: weight, y: weight, '': weight });
    fc.assert(
      fc.property(
        fc.array(member, { minLength: 1, maxLength: 20 }),
        fc.constantFrom<Sums>('configured', 'active'),
        weights,
        groups,
        fc.array(fc.record({ at: fc.nat(19), to: member }), { maxLength: 20 }),
        (members, sums, tenantWeights, groupWeights, changes) => {
          const table = new ChunkWeights({ sums, bytesPerQp: MTU });
          const now = members.map((one) => ({ ...one }));
          const setAll = () => {
            for (const [tenant, value] of Object.entries(tenantWeights)) {
              table.setTenantWeight(tenant, value);
              for (const [name, of] of Object.entries(groupWeights)) table.setGroupWeight(tenant, name, of);
            }
          };
          setAll();
          now.forEach(({ tenant, group, weight: own, isActive }, i) => {
            table.add(i, table.groupOf(tenant, group), own);
            table.setActive(i, isActive);
          });
          for (const { at, to } of changes) {
            const i = at % now.length;
            now[i] = { ...to };
            table.setWeight(i, to.weight);
            table.move(i, table.groupOf(to.tenant, to.group));
            table.setActive(i, to.isActive);
          }
          setAll();
          const counted = sums === 'configured' ? now : now.filter((one) => one.isActive);
          now.forEach((one, i) => {
            if (!counted.includes(one)) return;
            const share = shareByHand(counted, tenantWeights, groupWeights, one);
            expect(table.shareOf(i) / share).toBeCloseTo(1, 6);
            const chunk = Math.max(1, share * MTU * counted.length);
            expect(table.chunkBytes(i) / chunk).toBeCloseTo(1, 6);
          });
        },
      ),
    );
  });

  test('a weight writes one entry, a group at most one for each group', () => {
    const table = new ChunkWeights({ sums: 'configured', bytesPerQp: MTU, fractionBits: 16 });
    for (let i = 0; i < 22_000; i++) table.add(i, table.groupOf('t', `${i % 100}`), 1 + (i % 3));
    const chunks = () => {
      for (let i = 0; i < 22_000; i++) table.chunkBytes(i);
    };
    chunks();
    let before = table.writes;
    table.setWeight(7, 5);
    // The entry of the queue pair, and, at its next chunk, the granularity of its group.
    expect(table.writes - before).toBe(1);
    chunks();
    expect(table.writes - before).toBe(2);
    before = table.writes;
    table.setGroupWeight('t', '7', 4);
    chunks();
    expect(table.writes - before).toBe(100);
  });

  test('granularities have the binary places asked for, and a chunk has at least one byte', () => {
    const table = new ChunkWeights({ sums: 'configured', bytesPerQp: MTU, fractionBits: 16 });
    table.add(0, table.groupOf('t', ''), 1);
    table.add(1, table.groupOf('t', ''), 1e6);
    expect(table.chunkBytes(0)).toBe(1);
    expect(table.chunkBytes(1)).toBe(Math.floor((1e6 * Math.round((3000 / 1_000_001) * 65536)) / 65536));
  });

  test('groups and tenants without members and weights are forgotten', () => {
    const table = new ChunkWeights({ sums: 'configured', bytesPerQp: MTU });
    const first = table.groupOf('t', 'kept');
    table.setGroupWeight('t', 'kept', 3);
    for (let i = 0; i < 1000; i++) {
      table.add(0, table.groupOf(`tenant ${i}`, `group ${i}`), 1);
      table.remove(0);
    }
    expect(table.groupOf('t', 'kept')).toBe(first);
    expect(table.groupOf('new', 'new')).toBeLessThan(3);
  });

  test('the weight of a tenant without groups is not kept', () => {
    const table = new ChunkWeights({ sums: 'configured', bytesPerQp: MTU });
    table.setTenantWeight('a', 3);
    table.add(0, table.groupOf('a', ''), 1);
    table.add(1, table.groupOf('b', ''), 1);
    expect(table.shareOf(0)).toBe(0.5);
    table.setTenantWeight('a', 3);
    expect(table.shareOf(0)).toBe(0.75);
    table.remove(0);
    table.setTenantWeight('a', 3);
    table.add(0, table.groupOf('a', ''), 1);
    expect(table.shareOf(0)).toBe(0.5);
  });

  test('a member that leaves takes its weight along', () => {
    const table = new ChunkWeights({ sums: 'configured', bytesPerQp: MTU });
    for (const i of [0, 1, 2]) table.add(i, table.groupOf('t', i === 0 ? 'a' : 'b'), 1);
    expect(table.shareOf(1)).toBe(0.25);
    table.remove(2);
    expect(table.shareOf(1)).toBe(0.5);
    table.remove(1);
    expect([table.shareOf(0), table.has(1)]).toEqual([1, false]);
    table.remove(1);
    expect(table.chunkBytes(0)).toBe(MTU);
  });
});

test.each([
  ['configured', 'tenants'],
  ['configured', 'groups'],
  ['configured', 'queue pairs'],
  ['active', 'queue pairs'],
] as const)('with %s sums, the least weight outlasts 20,000 of the largest ones, of %s', (sums, level) => {
  const table = new ChunkWeights({ sums, bytesPerQp: MTU });
  const addOne = (member: number, weight: number) => {
    const tenant = level === 'tenants' ? `${member}` : 't';
    const group = level === 'groups' ? `${member}` : '';
    const at = table.groupOf(tenant, group);
    if (level === 'tenants') table.setTenantWeight(tenant, weight);
    if (level === 'groups') table.setGroupWeight(tenant, group, weight);
    table.add(member, at, level === 'queue pairs' ? weight : 1);
    table.setActive(member, true);
  };
  addOne(0, 1e-6);
  for (let member = 1; member <= 20_000; member++) addOne(member, 1e6);
  for (let member = 1; member <= 20_000; member++) table.remove(member);
  expect([table.shareOf(0), table.chunkBytes(0)]).toEqual([1, MTU]);
});
