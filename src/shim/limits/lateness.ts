/** The time by which a host may be late without losing what a rate allows meanwhile. */

/** Whatever the rate is. */
const LEAST_NS = 50e6;
/** What goes at once afterwards must not occupy the link for long. */
const MOST_BYTES = 2 ** 22;
/** However low the rate is. */
const MOST_NS = 1e9;

/** The lost time that a rate makes up for, in ns. @param nsPerByte time per byte of the rate, in ns */
export const mostLateNs = (nsPerByte: number): number =>
  Math.max(LEAST_NS, Math.min(MOST_BYTES * nsPerByte, MOST_NS));
