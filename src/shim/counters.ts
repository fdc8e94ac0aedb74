/** What a shim counts: per queue pair in one column each, summed when somebody asks. */
import type { LayerCounters, Provider, ShimCounters } from '../verbs/provider.ts';
import type { ShimContext } from './context.ts';
import type { Usage } from './coordinator-port.ts';
import type { ShimQp } from './qp-ledger.ts';

// Columns of `ShimQp.counts`. Doubles: 32 bits are full after minutes.
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
/** The only one that is no sum: most requests that the device's queue held at once. */
export const HIGH_WATER = 11;
export const COLUMNS = 12;

/** Adds what one queue pair counted to a total. */
export function addCounts(total: Float64Array, counts: Float64Array): void {
  for (let i = 0; i < HIGH_WATER; i++) total[i] += counts[i];
  total[HIGH_WATER] = Math.max(total[HIGH_WATER], counts[HIGH_WATER]);
}

/** The total of a shim: `gone` counts the queue pairs that were destroyed. */
export function totalOf(gone: Float64Array, qps: readonly (ShimQp | undefined)[]): Float64Array {
  const total = gone.slice();
  for (const qp of qps) if (qp !== undefined) addCounts(total, qp.counts);
  return total;
}

/** What a context has done so far. */
export function usageOf(context: ShimContext): Usage {
  let requests = context.gone[SEEN];
  let bytes = context.gone[BYTES];
  let held = 0;
  for (const qp of context.qps) {
    requests += qp.counts[SEEN];
    bytes += qp.counts[BYTES];
    held += qp.backlog;
  }
  return { requests, bytes, held, qps: context.qps.size, latencyNs: context.sample.latencyNs };
}

/** Columns by their names. */
export function named(c: Float64Array): ShimCounters {
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
 * What the shims around a provider counted, from its creation on. Of several, the outermost has seen the
 * application's requests and bytes; what they did to them is added up.
 */
export function shimCounters(provider: Provider): ShimCounters {
  const layers = provider.counters?.() ?? [];
  const total = named(new Float64Array(COLUMNS));
  for (const layer of layers) addLayer(total, layer);
  total.seen = layers[0]?.seen ?? 0;
  total.bytes = layers[0]?.bytes ?? 0;
  return total;
}

/** The sum of several providers' counters. */
export function sumCounters(list: readonly ShimCounters[]): ShimCounters {
  const total = named(new Float64Array(COLUMNS));
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
