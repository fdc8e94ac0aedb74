/** What a shim counts: one column per quantity for each queue pair, summed on request. */
import {
  IBV_WC_LOC_ACCESS_ERR,
  IBV_WC_LOC_LEN_ERR,
  IBV_WC_LOC_PROT_ERR,
  IBV_WC_LOC_QP_OP_ERR,
  IBV_WC_MW_BIND_ERR,
  IBV_WC_REM_ABORT_ERR,
  IBV_WC_REM_ACCESS_ERR,
  IBV_WC_REM_INV_REQ_ERR,
  IBV_WC_REM_OP_ERR,
  IBV_WC_RETRY_EXC_ERR,
  IBV_WC_RNR_RETRY_EXC_ERR,
  IBV_WC_WR_FLUSH_ERR,
} from '../verbs/constants.ts';
import type { LayerCounters, Provider, SampledLatency, ShimCounters } from '../verbs/provider.ts';

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
/** Failed completions of the device, by kind (`ERROR_KINDS`): that many columns. */
export const FAILED = 12;
/** Times that the queue pair had to wait for the limit on requests per second. */
export const LIMITED = 18;
/** Held requests that a policy would have cut, but that went whole: a column for each reason (`UNCUT_REASONS`). */
export const UNCUT = 19;
/** The only column that is a maximum, not a sum: most requests in the device's queue at once. */
export const HIGH_WATER = 24;
export const COLUMNS = 25;

/** The kinds of failed completions, in the order of their columns. */
export const ERROR_KINDS = [
  'flushed',
  'local',
  'remote',
  'retries exceeded',
  'receiver not ready',
  'other',
] as const;

/** Why a request that a policy would have cut went whole, in the order of the columns. */
export const UNCUT_REASONS = [
  'not RC',
  'inline',
  'not agreed with the peer',
  'short SEND or immediate',
  'no receive that fits',
] as const;
/** Indices of `UNCUT_REASONS`. */
export const UNCUT_NOT_RC = 0;
export const UNCUT_INLINE = 1;
export const UNCUT_NOT_AGREED = 2;
export const UNCUT_SHORT = 3;
export const UNCUT_NO_RECEIVE = 4;

/** By status (IBV_WC_*): the column of its kind. */
const COLUMN_OF_STATUS = new Uint8Array(256).fill(FAILED + 5);
for (const [column, statuses] of [
  [IBV_WC_WR_FLUSH_ERR],
  [IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_MW_BIND_ERR],
  [IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR, IBV_WC_REM_ABORT_ERR],
  [IBV_WC_RETRY_EXC_ERR],
  [IBV_WC_RNR_RETRY_EXC_ERR],
].entries()) {
  for (const status of statuses) COLUMN_OF_STATUS[status] = FAILED + column;
}

/** Counts a completion with this status, which is not success. */
export function countFailure(counts: Float64Array, status: number): void {
  counts[COLUMN_OF_STATUS[status & 0xff]]++;
}

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
    failed: Object.fromEntries(ERROR_KINDS.map((kind, i) => [kind, c[FAILED + i]])),
    limited: c[LIMITED],
    uncut: Object.fromEntries(UNCUT_REASONS.map((reason, i) => [reason, c[UNCUT + i]])),
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
  // Each shim sees the failures of the device, and of the shims below it.
  total.failed = { ...(layers[0]?.failed ?? total.failed) };
  return total;
}

/** How shims have treated requests, such as `12 split, 15 held, 0 emulated; 3 not cut: 2 inline, 1 not RC`. */
export function treatmentText({
  split,
  held,
  emulated,
  uncut,
}: Pick<ShimCounters, 'split' | 'held' | 'emulated' | 'uncut'>): string {
  const reasons = Object.entries(uncut).filter(([, count]) => count > 0);
  const total = reasons.reduce((sum, [, count]) => sum + count, 0);
  const list = reasons.map(([reason, count]) => `${count} ${reason}`).join(', ');
  return `${split} split, ${held} held, ${emulated} emulated${total === 0 ? '' : `; ${total} not cut: ${list}`}`;
}

/** The sum of several providers' counters. */
export function sumCounters(list: readonly ShimCounters[]): ShimCounters {
  const total = toCounters(new Float64Array(COLUMNS));
  for (const counters of list) {
    addLayer(total, counters);
    total.seen += counters.seen;
    total.bytes += counters.bytes;
    for (const kind of ERROR_KINDS) total.failed[kind] += counters.failed[kind] ?? 0;
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
  total.limited += layer.limited;
  for (const reason of UNCUT_REASONS) total.uncut[reason] += layer.uncut[reason] ?? 0;
}

/** Upper bounds of the buckets of latencies, in ns; the last bucket has none. */
export const LATENCY_BOUNDS_NS = [2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7, 1e8] as const;

/** No latencies. */
export function noLatency(): SampledLatency {
  return { sumNs: 0, buckets: Array.from({ length: LATENCY_BOUNDS_NS.length + 1 }, () => 0) };
}

/** Adds latencies to a total. */
export function addLatency(
  total: SampledLatency,
  { sumNs, buckets }: { readonly sumNs: number; readonly buckets: ArrayLike<number> },
): void {
  total.sumNs += sumNs;
  for (let i = 0; i < total.buckets.length; i++) total.buckets[i] += buckets[i];
}

/** A bucket of a histogram as Prometheus has it: the number of values up to a bound in seconds, as text. */
export interface CumulativeBucket {
  /** The bound in seconds, or `+Inf`. */
  readonly le: string;
  /** The number of values up to it. */
  readonly count: number;
}

/** The buckets of sampled latencies, each with those before it; the last one has all. */
export function cumulativeBuckets(buckets: ArrayLike<number>): CumulativeBucket[] {
  let count = 0;
  return [...LATENCY_BOUNDS_NS, Number.POSITIVE_INFINITY].map((boundNs, i) => {
    count += buckets[i];
    return { le: Number.isFinite(boundNs) ? String(boundNs / 1e9) : '+Inf', count };
  });
}

/** What a context counts for monitoring, beyond requests and bytes. The latencies are those of sampled requests. */
export const SUM_NAMES: readonly string[] = [
  'splitRequests',
  'heldTotal',
  'waits',
  'limited',
  ...ERROR_KINDS.map((kind) => `failed: ${kind}`),
  'latencySumNs',
  ...LATENCY_BOUNDS_NS.map((boundNs) => `latency up to ${boundNs} ns`),
  'latency above',
];
/** Where failures, the sum of latencies, and their buckets begin among these. */
export const SUM_FAILED = 4;
export const SUM_LATENCY = SUM_FAILED + ERROR_KINDS.length;
export const SUM_BUCKETS = SUM_LATENCY + 1;

/** Adds what the counts of a queue pair contribute to these sums. */
export function addSums(sums: Float64Array, counts: Float64Array): void {
  sums[0] += counts[SPLIT];
  sums[1] += counts[HELD];
  sums[2] += counts[WAITS];
  sums[3] += counts[LIMITED];
  for (let i = 0; i < ERROR_KINDS.length; i++) sums[SUM_FAILED + i] += counts[FAILED + i];
}
