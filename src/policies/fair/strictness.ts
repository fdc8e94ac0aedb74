/**
 * How little is in flight, by level. A short message waits for what is being sent when it arrives, and for what is ahead of
 * it. Shorter pieces cost least, because their headers are all that is lost; then follows a smaller window, which leaves
 * the link idle for a part of each round trip; last, a pace at which requests that wait are sent.
 */

/**
 * Lengths of pieces, as parts of the usual one. Pieces of half the length shorten little, because a piece more is in flight;
 * shorter ones than these would load the processing units more than the link.
 */
const PIECE_PARTS = [1, 0.375, 0.25] as const;
/** Steps of the window, each to this part of it. One piece may be in flight in any case. */
const WINDOW_STEPS = 10;
const WINDOW_STEP = 0.75;
/** Steps of the pace, from this part of the rate of the link on. */
const PACE_STEPS = 5;
const FIRST_PACE = 1 / 16;
const PACE_STEP = 0.5;

/** The strictest level; 0 is the default. */
export const STRICTEST = PIECE_PARTS.length - 1 + WINDOW_STEPS + PACE_STEPS;

/** The length of pieces, as a part of the usual one. */
export function piecePartAt(level: number): number {
  return PIECE_PARTS[Math.min(level, PIECE_PARTS.length - 1)];
}

/** The window, as a part of the usual one. */
export function windowPartAt(level: number): number {
  const steps = level - (PIECE_PARTS.length - 1);
  return WINDOW_STEP ** Math.max(0, Math.min(steps, WINDOW_STEPS));
}

/** The rate of what waits for the window, as a part of that of the link; Infinity: as fast as the window allows. */
export function pacePartAt(level: number): number {
  const steps = level - (PIECE_PARTS.length - 1) - WINDOW_STEPS;
  return steps <= 0 ? Number.POSITIVE_INFINITY : FIRST_PACE * PACE_STEP ** (steps - 1);
}
