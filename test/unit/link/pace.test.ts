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
    if (pace.isDue(QP)) pace.time(QP, nowNs, 0);
  };
  const complete = (gapNs: number, count = 1) => {
    nowNs += gapNs;
    inflight -= count;
    if (pace.isSlow(QP)) pace.happened(QP, nowNs, inflight);
    if (pace.isDone(QP, inflight)) pace.completed(QP, nowNs, 0);
    for (let i = 0; i < count; i++) issue();
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
    expect(pace.flightBytes(QP)).toBe(BASE_BYTES);
  });

  it('is no longer slow when they take less than twice as long', () => {
    const { pace, complete } = slowQp();
    for (let i = 0; i < 20; i++) complete(SLOW_PIECE_BYTES);
    expect(pace.isSlow(QP)).toBe(true);
    pace.expectedNs = 4 * SLOW_PIECE_BYTES;
    for (let i = 0; i < 20; i++) complete(SLOW_PIECE_BYTES);
    expect(pace.isSlow(QP)).toBe(false);
  });

  it('has no more in flight if a switch lets its pieces through one at a time', () => {
    const { pace, complete } = slowQp();
    for (let i = 0; i < 100; i++) complete(10 * SLOW_PIECE_BYTES);
    expect(pace.flightBytes(QP)).toBe(BASE_BYTES);
  });

  it('has as much in flight as the link carries between polls if several complete in each', () => {
    const { pace, complete } = slowQp();
    for (let i = 0; i < 100; i++) complete(10 * SLOW_PIECE_BYTES, 2);
    expect(pace.isSlow(QP)).toBe(true);
    expect(pace.flightBytes(QP)).toBe(1.25 * 10 * SLOW_PIECE_BYTES);
    for (let i = 0; i < 100; i++) complete(1e9, 2);
    expect(pace.flightBytes(QP)).toBe(16 * 1024 * 1024);
    for (let i = 0; i < 100; i++) complete(10 * SLOW_PIECE_BYTES);
    expect(pace.flightBytes(QP)).toBe(BASE_BYTES);
  });
});
