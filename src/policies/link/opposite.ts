/**
 * How the other direction of a link delays requests of one: the acknowledgements of WRITEs wait behind what is being READ,
 * and requests for READs behind what is being written.
 */
import type { Puller } from '../kit/puller.ts';

/** What counts of a direction for the other one. */
export interface Opposite {
  readonly puller: Puller;
  readonly window: { readonly linkPerNs: number };
  /** The round trip of an idle device, and what a full window has in flight in addition. */
  readonly roundTripNs: number;
  readonly sizes: { readonly spareBytes: number };
}

/** The most by which the other direction delays a request. */
export const mostDelayNs = (other: Opposite | null): number =>
  other === null ? 0 : other.puller.usedBytes / other.window.linkPerNs;

/** The most of a round trip for which a request is taken to wait for the other direction. */
const MOST_WAIT = 0.5;

/**
 * What the other direction has in flight beyond a round trip, in bytes: it waits even if it is evenly spaced. At most half
 * a round trip counts, because both directions count what waits in the other one.
 */
export function waitingBytes(other: Opposite | null): number {
  if (other === null) return 0;
  const { puller, window, roundTripNs, sizes } = other;
  const tripBytes = roundTripNs * window.linkPerNs;
  const mostBytes = Math.max(sizes.spareBytes, MOST_WAIT * tripBytes);
  return Math.max(0, Math.min(mostBytes, puller.usedBytes - tripBytes));
}
