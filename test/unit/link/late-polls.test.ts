import { describe, expect, it } from 'vitest';
import { LatePolls } from '#src/policies/link/late-polls.ts';

const QP = 3;
/** A request that completes in 4 us at the end of the window; ten in flight; pieces of 0.3 us. */
const EXPECTED_NS = 4000;
const LATE_NS = 12_000;
const SLOWLY = { usedPart: 0.1, eachNs: 1600, pieceNs: 300 };
const HOLD_NS = 10e6;

/** A completion comes so late, and the next one after this time. */
function completion(
  polls: LatePolls,
  lateNs: number,
  nextNs: number,
  more: Partial<typeof SLOWLY> = {},
  atNs = 0,
): boolean {
  expect(polls.isLate(lateNs, EXPECTED_NS + polls.ns)).toBe(true);
  polls.suspect(QP, { lateNs, ...SLOWLY, ...more }, atNs);
  expect(polls.awaits(QP)).toBe(true);
  return polls.next(atNs + nextNs);
}

describe('polls', () => {
  it('are late if the next completion follows at once', () => {
    const polls = new LatePolls();
    expect(completion(polls, LATE_NS, 700)).toBe(true);
    expect(polls.ns).toBe(LATE_NS);
    expect(polls.isAwaiting).toBe(false);
  });

  it('are not late if completions come one by one from a slow path', () => {
    const polls = new LatePolls();
    expect(completion(polls, LATE_NS, 900)).toBe(false);
    // Pieces that the link needs 5 us for come 20 us apart.
    expect(completion(polls, 100_000, 20_000, { eachNs: 50_000, pieceNs: 5000 })).toBe(false);
    expect(polls.ns).toBe(0);
  });

  it('are not late if requests complete when they are due, or soon after', () => {
    expect(new LatePolls().isLate(EXPECTED_NS, EXPECTED_NS)).toBe(false);
  });

  it('count as later only while the link is not busy', () => {
    const polls = new LatePolls();
    completion(polls, LATE_NS, 100);
    completion(polls, 2 * LATE_NS, 100, { usedPart: 0.91 });
    expect(polls.ns).toBe(LATE_NS);
    completion(polls, 2 * LATE_NS, 100);
    expect(polls.ns).toBe(2 * LATE_NS);
    completion(polls, 1e9, 100);
    expect(polls.ns).toBe(2e6);
  });

  it('count as late for 10 ms after they were, and then as half as late, until it makes no difference', () => {
    const polls = new LatePolls();
    completion(polls, LATE_NS, 0);
    const expire = (lateNs: number, nowNs: number) => polls.expire(lateNs, EXPECTED_NS + polls.ns, nowNs);
    expect(expire(0, HOLD_NS - 1)).toBe(false);
    // A quarter as late is late enough.
    expect(expire(LATE_NS / 4 + 1, HOLD_NS - 1)).toBe(false);
    expect(expire(0, HOLD_NS)).toBe(false);
    expect(expire(0, 2 * HOLD_NS)).toBe(true);
    expect(polls.ns).toBe(LATE_NS / 2);
    expire(0, 3 * HOLD_NS);
    expire(0, 4 * HOLD_NS);
    expect(polls.ns).toBe(0);
  });

  it('forget a queue pair that begins anew', () => {
    const polls = new LatePolls();
    polls.suspect(QP, { lateNs: LATE_NS, ...SLOWLY }, 0);
    polls.reset(QP);
    expect(polls.awaits(QP)).toBe(false);
    expect(polls.isAwaiting).toBe(false);
  });
});
