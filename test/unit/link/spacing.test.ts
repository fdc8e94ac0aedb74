import { describe, expect, it } from 'vitest';
import { Spacing } from '#src/policies/link/spacing.ts';

/** A link of 10 bytes per ns, 0_WAITs of 100 ns, and a buffer for 16 KB. */
const DEVICE = { linkPerNs: 10, gapNs: 100, waitStepNs: 100, fifoBytes: 16_000 };
const PIECE_BYTES = 8000;
const [A, B] = [3, 4];

/** Issues pieces on queue pairs at one time; returns the 0_WAITs before each. */
function issue(qps: readonly number[], bytes = PIECE_BYTES, nowNs = 1000): number[] {
  const spacing = new Spacing();
  for (const qp of qps) spacing.reset(qp);
  return qps.map((qp, i) => spacing.waits(qp, nowNs, i * bytes, bytes, DEVICE));
}

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);

describe('pieces', () => {
  it('of one queue pair are as far apart as the link takes for them', () => {
    const counts = issue(Array.from({ length: 100 }, () => A));
    expect(counts[0]).toBe(0);
    // 100 pieces take 80 us on the link; each keeps the queue pair busy for 100 ns, and 1 % is added.
    expect(sum(counts)).toBeGreaterThanOrEqual(692);
    expect(sum(counts)).toBeLessThanOrEqual(702);
  });

  it('of two queue pairs make room for each other', () => {
    const counts = issue(Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? A : B)));
    const perPiece = sum(counts) / 100;
    expect(perPiece).toBeGreaterThan(14.5);
    expect(perPiece).toBeLessThan(15.5);
  });

  it('need fewer 0_WAITs if they are longer than the buffer', () => {
    const [, second] = issue([A, A], 100_000);
    // Of 10.1 us, 8.4 us are spent on the piece itself.
    expect(second).toBe(17);
  });

  it('do not wait on an idle link', () => {
    const spacing = new Spacing();
    spacing.reset(A);
    expect(spacing.waits(A, 0, 0, PIECE_BYTES, DEVICE)).toBe(0);
    expect(spacing.waits(A, 10_000, PIECE_BYTES, PIECE_BYTES, DEVICE)).toBe(0);
  });
});
