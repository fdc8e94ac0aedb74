/**
 * The bare minimal NIC against the figures it was derived from. Expected values and tolerances were written
 * down before the first run and stay. The NIC is never tuned to a policy.
 */
import { describe, expect, test } from 'vitest';
import { tagsIf } from '../support/variants.ts';
import { B, D, Lab, M } from './apps.ts';

const DURATION_NS = 20e6;

function within(value: number, expected: number, tolerance: number): void {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
}

for (const seed of [1, 2, 3, 4, 5])
  describe(`bare minimal NIC, seed ${seed}`, { tags: tagsIf(seed === 1) }, () => {
    const aloneNs = () => {
      const lab = new Lab({ seed });
      const d = lab.add(D);
      lab.run(DURATION_NS);
      return d.meanLatencyNs;
    };

    test('one QP of 16 B messages: 12.4 M/s', () => {
      const lab = new Lab({ seed });
      const m = lab.add(M);
      lab.run(DURATION_NS);
      within(m.mmps, 12.4, 0.01);
    });

    test('one QP of 1 MiB messages: 98.1 Gbps, the wire rate without headers', () => {
      const lab = new Lab({ seed });
      const b = lab.add(B);
      lab.run(DURATION_NS);
      within(b.gbps, (100 * 4096) / (4096 + 78), 0.01);
    });

    test('B + M: 96.0 Gbps and 2.9 M/s', () => {
      const lab = new Lab({ seed });
      const b = lab.add(B);
      const m = lab.add(M);
      lab.run(DURATION_NS);
      within(b.gbps, 96.0, 0.01);
      within(m.mmps, 2.93, 0.02);
    });

    test('D alone: 0.9 to 1.0 us', () => {
      const alone = aloneNs();
      expect(alone).toBeGreaterThanOrEqual(900);
      expect(alone).toBeLessThanOrEqual(1000);
    });

    test('B + D: 98.0 Gbps, and D takes 4.8 times as long', () => {
      const lab = new Lab({ seed });
      const b = lab.add(B);
      const d = lab.add(D);
      lab.run(DURATION_NS);
      within(b.gbps, 98.0, 0.01);
      within(d.meanLatencyNs / aloneNs(), 4.8, 0.03);
    });
  });

test('the trace does not depend on whether bytes are copied', () => {
  const hashes = [true, false].map((payload) => {
    const lab = new Lab({ payload });
    for (const app of [B, M, D]) lab.add(app);
    lab.run(1e6);
    return lab.sim.world.trace.hash();
  });
  expect(hashes[0]).toBe(hashes[1]);
});
