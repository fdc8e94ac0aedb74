import { describe, expect, it } from 'vitest';
import { Pace, SLOW_PIECE_BYTES } from '#src/policies/link/pace.ts';

/** A link of 1 byte per ns. */
const EXPECTED_NS = 1000;
const BASE_BYTES = 2 * SLOW_PIECE_BYTES;
const QP = 3;

/** A queue pair whose requests complete at these times after their issue, two in flight, while little is sent. */
function slowQp() {
  const pace = new Pace(1);
  pace.expectedNs = EXPECTED_NS;
  pace.reset(QP);
  let nowNs = 0;
  let inflight = 0;
  const issue = () => {
    pace.issued(QP);
    inflight++;
    if (pace.isDue(QP, inflight)) pace.time(QP, nowNs, nowNs + EXPECTED_NS, 0);
  };
  const complete = (gapNs: number, isLate = false) => {
    nowNs += gapNs;
    inflight--;
    if (pace.isDone(QP, inflight)) pace.completed(QP, nowNs, 0, isLate);
    issue();
  };
  issue();
  issue();
  return { pace, complete };
}

describe('a queue pair', () => {
  it('is slow if its requests take four times as long as expected, although the link is not busy', () => {
    const { pace, complete } = slowQp();
    complete(1.5 * EXPECTED_NS);
    expect(pace.isSlow(QP)).toBe(false);
    for (let i = 0; i < 20; i++) complete(3 * EXPECTED_NS);
    expect(pace.isSlow(QP)).toBe(true);
  });

  it('is not slow if its requests may have been polled late', () => {
    const { pace, complete } = slowQp();
    for (let i = 0; i < 20; i++) complete(3 * EXPECTED_NS, true);
    expect(pace.isSlow(QP)).toBe(false);
  });

  it('is no longer slow when they take less than twice as long', () => {
    const { pace, complete } = slowQp();
    for (let i = 0; i < 20; i++) complete(SLOW_PIECE_BYTES);
    expect(pace.isSlow(QP)).toBe(true);
    pace.expectedNs = 4 * SLOW_PIECE_BYTES;
    for (let i = 0; i < 20; i++) complete(SLOW_PIECE_BYTES);
    expect(pace.isSlow(QP)).toBe(false);
  });

  it('has in flight what it sends in 2 ms, from two pieces to four', () => {
    const { pace, complete } = slowQp();
    for (let i = 0; i < 20; i++) complete(1.2e6);
    expect(pace.flightBytes(QP)).toBe(BASE_BYTES);
    // Two pieces take 1.6 ms.
    for (let i = 0; i < 8; i++) complete(0.8e6);
    expect(pace.flightBytes(QP)).toBeCloseTo((BASE_BYTES * 2) / 1.6, -2);
    for (let i = 0; i < 20; i++) complete(0.15e6);
    expect(pace.flightBytes(QP)).toBe(2 * BASE_BYTES);
    for (let i = 0; i < 20; i++) complete(3e6);
    expect(pace.flightBytes(QP)).toBe(BASE_BYTES);
  });
});
