import { describe, expect, it } from 'vitest';
import { PieceLength } from '#src/policies/link/piece-length.ts';

const LONGEST = 4096;
const WIRE = 4194;
const PIECE = { longestBytes: LONGEST, longestWireBytes: WIRE };

function measured(passed: number, short: number, pieces: number): PieceLength {
  const length = new PieceLength();
  for (let i = 0; i < 40; i++) {
    length.passed(passed);
    length.issued(short, false);
    length.issued(pieces, true);
    length.update(WIRE);
  }
  return length;
}

describe('the length of pieces', () => {
  it('does not change while a whole number of the longest pieces fills the window', () => {
    expect(new PieceLength().fit({ windowBytes: 6 * WIRE }, PIECE)).toBe(LONGEST);
  });

  it('is such that as many pieces as exceed the window least fill it', () => {
    expect(new PieceLength().fit({ windowBytes: 5.4 * WIRE }, PIECE)).toBe(Math.ceil(LONGEST * 0.9));
  });

  it('leaves room for short messages, both those that wait and those that pass', () => {
    const length = measured(5_000, 5_000, 90_000);
    expect(length.passedPart).toBeCloseTo(0.05, 3);
    // 90 % of 6 pieces are 5.4.
    expect(length.fit({ windowBytes: 6 * WIRE }, PIECE) / LONGEST).toBeCloseTo(0.9, 2);
  });

  it('is never below three quarters of the longest, even where the window is short', () => {
    expect(new PieceLength().fit({ windowBytes: WIRE / 4 }, PIECE)).toBe(LONGEST * 0.75);
    expect(measured(0, 1e6, 1).fit({ windowBytes: 6 * WIRE }, PIECE)).toBe(LONGEST * 0.75);
  });

  it('leaves the less of the window unused, the more of what waits is shorter than a piece', () => {
    expect(measured(0, 0, 90_000).lessPieces).toBeCloseTo(0.5, 2);
    expect(measured(0, 45_000, 45_000).lessPieces).toBeCloseTo(0.25, 2);
    expect(measured(50_000, 45_000, 0).lessPieces).toBeCloseTo(0, 2);
  });

  it('is measured only after enough traffic', () => {
    const length = new PieceLength();
    length.issued(60_000, false);
    expect(length.update(WIRE)).toBe(false);
    length.passed(6_000);
    expect(length.update(WIRE)).toBe(true);
    expect(length.update(WIRE)).toBe(false);
  });

  it.each([
    { pieces: 8, isFitting: false },
    { pieces: 32, isFitting: true },
    { pieces: 256, isFitting: true },
  ])('fits messages of $pieces pieces: $isFitting', ({ pieces, isFitting }) => {
    const length = new PieceLength();
    // Messages of four queue pairs end together.
    for (let i = 0; i < 8192; i++) {
      length.issued(WIRE, true);
      length.cut(i % 4, LONGEST * (pieces - (Math.floor(i / 4) % pieces)), LONGEST);
      length.update(WIRE);
    }
    expect(length.isFitting).toBe(isFitting);
    // The shorter the messages, the more of the window is used.
    expect(length.lessPieces).toBeCloseTo(isFitting ? 0.5 * (1 - 1 / pieces / 0.08) : 0, 1);
    expect(length.endedPart).toBeCloseTo(Math.min(1, 16 / pieces), 1);
    expect(length.fit({ windowBytes: 5.4 * WIRE }, PIECE)).toBe(
      isFitting ? Math.ceil(LONGEST * 0.9) : LONGEST,
    );
  });
});
