/** The level up to which hosts and tenants may use a link that they share. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Level, levelOf } from '../../../src/policies/fair/agent/level.ts';
import type { Load } from '../../../src/policies/fair/agent/messages.ts';

const C = 12.5;
const MS = 1e6;
const hungry = (weight: number, perNs: number): Load => ({ weight, hungryPerNs: perNs, otherPerNs: 0 });
const other = (perNs: number): Load => ({ weight: 0, hungryPerNs: 0, otherPerNs: perNs });
const loads = (of: Record<string, Load>) => new Map(Object.entries(of));

function decided(of: Record<string, Load>, times = 1): number {
  const level = new Level();
  for (let i = 0; i < times; i++) level.decide(loads(of), C, i * MS);
  return level.perWeight;
}

test('a full link is divided by weight, with a small reserve', () => {
  expect(decided({ a: hungry(1, 9), b: hungry(3, 3.5) })).toBeCloseTo((0.98 * C) / 4);
});

test('hosts that have no more to send keep what they use', () => {
  expect(decided({ a: hungry(1, 9), b: other(3) })).toBeCloseTo(0.98 * C - 3);
});

test('there is no limit while the link is not full, or only one host uses it', () => {
  expect(decided({ a: hungry(1, 5), b: hungry(1, 5) })).toBe(0);
  expect(decided({ a: hungry(1, 12.5) })).toBe(0);
  expect(decided({ a: other(6), b: other(6.5) })).toBe(0);
});

test('the others get what one host leaves, until there is no limit any more', () => {
  const level = new Level();
  level.decide(loads({ a: hungry(1, 9), b: hungry(1, 3.5) }), C, 0);
  let before = level.perWeight;
  let steps = 0;
  for (; level.perWeight > 0; steps++) {
    before = level.perWeight;
    level.decide(loads({ a: hungry(1, before), b: hungry(1, 1) }), C, (steps + 1) * MS);
    if (level.perWeight > 0 && before + 1 < 0.9 * C) expect(level.perWeight).toBeGreaterThan(before);
    if (steps > 10) break;
  }
  expect(before + 1).toBeGreaterThan(0.85 * C);
});

test('the level falls back once all hosts need their parts again', () => {
  const level = new Level();
  level.decide(loads({ a: hungry(1, 9), b: hungry(1, 3.5) }), C, 0);
  for (let i = 1; i < 4; i++) level.decide(loads({ a: hungry(1, 6), b: hungry(1, 1) }), C, i * MS);
  expect(level.perWeight).toBeGreaterThan(C / 2);
  for (let i = 4; i < 15; i++) level.decide(loads({ a: hungry(1, 8), b: hungry(1, 4.5) }), C, i * MS);
  expect(level.perWeight).toBeCloseTo((0.98 * C) / 2);
});

test('a host that claims an enormous weight leaves the others a part', () => {
  const level = decided({ a: hungry(1e12, 0), b: hungry(1, 12.4) });
  expect(level).toBeCloseTo((0.98 * C) / 17);
});

test('a host that claims to fill the link without waiting leaves the others a part', () => {
  expect(decided({ a: other(1e6), b: hungry(1, 12.4) })).toBeCloseTo(C / 17);
});

test('a level gives away all that is needed, and no more than there is', () => {
  const need = fc.record({
    weight: fc.double({ min: 0.01, max: 100, noNaN: true }),
    perNs: fc.oneof(fc.double({ min: 0, max: 20, noNaN: true }), fc.constant(Number.POSITIVE_INFINITY)),
  });
  fc.assert(
    fc.property(fc.array(need, { minLength: 1, maxLength: 12 }), (needs) => {
      const level = levelOf(needs, C);
      const used = needs.reduce((sum, { weight, perNs }) => sum + Math.min(perNs, weight * level), 0);
      const wanted = needs.reduce((sum, { perNs }) => sum + perNs, 0);
      if (wanted > C * (1 + 1e-9)) expect(used).toBeCloseTo(C, 6);
      else expect(level).toBe(C);
    }),
  );
});
