/** What a shim counts: one column per quantity for each queue pair, summed on request. */
import type { LayerCounters, Provider, ShimCounters } from '../verbs/provider.ts';

// Columns of `QpLedger.counts`. They are doubles, because 32-bit counters overflow within minutes.
export const SEEN = 0;
export const SPLIT = 1;
export const HELD = 2;
export const EMULATED = 3;
export const BYTES = 4;
export const PIECES = 5;
export const WAITS = 6;
export const ENABLES = 7;
export const POSTS = 8;
export const HIDDEN = 9;
export const BUFFERED = 10;
/** Of the HELD requests, those that take a receive at the peer. */
export const HELD_TWO_SIDED = 11;
/** The only column that is a maximum, not a sum: most requests in the device's queue at once. */
export const HIGH_WATER = 12;
export const COLUMNS = 13;

/** Adds the counts of one queue pair to a total. */
export function addCounts(total: Float64Array, counts: Float64Array): void {
  for (let i = 0; i < HIGH_WATER; i++) total[i] += counts[i];
  total[HIGH_WATER] = Math.max(total[HIGH_WATER], counts[HIGH_WATER]);
}

/** The total of a shim; `destroyed` has the counts of destroyed queue pairs. */
export function totalOf(
  destroyed: Float64Array,
  qps: readonly ({ readonly counts: Float64Array } | undefined)[],
): Float64Array {
  const total = destroyed.slice();
  for (const qp of qps) if (qp !== undefined) addCounts(total, qp.counts);
  return total;
}

/** The columns, by the names of the counters. */
export function toCounters(c: Float64Array): ShimCounters {
  return {
    seen: c[SEEN],
    split: c[SPLIT],
    held: c[HELD],
    emulated: c[EMULATED],
    internal: { pieces: c[PIECES], waits: c[WAITS], enables: c[ENABLES], posts: c[POSTS] },
    bytes: c[BYTES],
    sqHighWater: c[HIGH_WATER],
    hiddenCompletions: c[HIDDEN],
    bufferedCompletions: c[BUFFERED],
  };
}

/**
 * The counts of the shims around a provider since its creation. With several shims, the outermost one counts the
 * application's requests and bytes; the other counters are summed.
 */
export function shimCounters(provider: Provider): ShimCounters {
  const layers = provider.counters?.() ?? [];
  const total = toCounters(new Float64Array(COLUMNS));
  for (const layer of layers) addLayer(total, layer);
  total.seen = layers[0]?.seen ?? 0;
  total.bytes = layers[0]?.bytes ?? 0;
  return total;
}

/** The sum of several providers' counters. */
export function sumCounters(list: readonly ShimCounters[]): ShimCounters {
  const total = toCounters(new Float64Array(COLUMNS));
  for (const counters of list) {
    addLayer(total, counters);
    total.seen += counters.seen;
    total.bytes += counters.bytes;
  }
  return total;
}

function addLayer(total: ShimCounters, layer: ShimCounters | LayerCounters): void {
  total.split += layer.split;
  total.held += layer.held;
  total.emulated += layer.emulated;
  total.internal.pieces += layer.internal.pieces;
  total.internal.waits += layer.internal.waits;
  total.internal.enables += layer.internal.enables;
  total.internal.posts += layer.internal.posts;
  total.sqHighWater = Math.max(total.sqHighWater, layer.sqHighWater);
  total.hiddenCompletions += layer.hiddenCompletions;
  total.bufferedCompletions += layer.bufferedCompletions;
}
