import { describe, expect, it } from 'vitest';
import { Backoff } from '#src/policies/link/backoff.ts';

const ROUND_TRIP_NS = 2000;
/** Pieces in a full window. */
const PIECES = 8;

/** A backoff that knows what a whole window uses: half of the link. */
function measured(): Backoff {
  const backoff = new Backoff();
  backoff.endPeriod(0.5);
  return backoff;
}

/** The window's part after many requests that take this long. */
function after(backoff: Backoff, takenNs: number, isBusy = false): number {
  for (let i = 0; i < 50; i++) backoff.timed(takenNs, ROUND_TRIP_NS, PIECES, isBusy, 0);
  return backoff.part;
}

describe('a window', () => {
  it('becomes shorter while several of its pieces queue in the network, but not shorter than half', () => {
    expect(after(measured(), 3 * ROUND_TRIP_NS)).toBe(0.5);
  });

  it('stays in between once at most two pieces queue', () => {
    // Of 8 pieces, 2.4 queue; of 6.5, 2.
    const part = after(measured(), ROUND_TRIP_NS / 0.7);
    expect(part).toBeLessThan(1);
    expect(part).toBeGreaterThan(0.75);
  });

  it('stays whole while requests queue at the device, because the link is busy', () => {
    expect(after(measured(), 3 * ROUND_TRIP_NS, true)).toBe(1);
  });

  it('is whole again once nothing queues, or once the link is busy', () => {
    const backoff = measured();
    after(backoff, 3 * ROUND_TRIP_NS);
    expect(after(backoff, ROUND_TRIP_NS)).toBe(1);
    after(backoff, 3 * ROUND_TRIP_NS);
    expect(after(backoff, 3 * ROUND_TRIP_NS, true)).toBe(1);
  });

  it('becomes longer again, step by step, while much is sent and nothing timed', () => {
    const backoff = measured();
    const windowBytes = 10_000;
    expect(after(backoff, 3 * ROUND_TRIP_NS)).toBe(0.5);
    expect(backoff.partAt(31 * windowBytes, windowBytes)).toBe(0.5);
    expect(backoff.partAt(32 * windowBytes, windowBytes)).toBe(0.5625);
    expect(backoff.partAt(33 * windowBytes, windowBytes)).toBe(0.5625);
    for (let windows = 64; windows < 400; windows += 32) backoff.partAt(windows * windowBytes, windowBytes);
    expect(backoff.part).toBe(1);
  });

  it('is whole until it is known what that uses', () => {
    expect(after(new Backoff(), 3 * ROUND_TRIP_NS)).toBe(1);
  });

  it('stays shorter while that costs little', () => {
    const backoff = measured();
    after(backoff, 3 * ROUND_TRIP_NS);
    for (let i = 0; i < 100; i++) backoff.endPeriod(0.4);
    expect(backoff.part).toBe(0.5);
  });

  it('is whole again if a shorter one costs throughput, and shorter again only after a while, which doubles', () => {
    const backoff = measured();
    const periods = [0, 1, 2].map(() => {
      let count = 0;
      for (; after(backoff, 3 * ROUND_TRIP_NS) === 1; count++) backoff.endPeriod(0.5);
      backoff.endPeriod(0.3);
      expect(backoff.part).toBe(1);
      return count;
    });
    expect(periods).toEqual([0, 8, 16]);
  });
});
