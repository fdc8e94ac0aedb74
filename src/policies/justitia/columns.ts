/** What the members of a device report to the ruler of justitia, and what it grants them. */
import { type Column, columnIndex } from '../../coordinator/ruler.ts';

/** The largest weight of a member, or of a host. */
export const MAX_WEIGHT = 1e9;
const MAX_GBPS = 1e6;
const column = (name: string, unit: string, max: number, byDefault = 0): Column => ({
  name,
  unit,
  min: 0,
  max,
  default: byDefault,
});

/** The columns of the GID of the worst receiver, in words (gidToWords). */
export const WORST_GID_COLUMNS = ['worstGid0', 'worstGid1', 'worstGid2', 'worstGid3'] as const;

/** The columns that a member writes. */
export const RATE_REPORTS: readonly Column[] = [
  // Total weight of the member's bandwidth and message-rate applications that have something to send.
  column('hungryWeight', 'weight', MAX_WEIGHT),
  // 1 if bandwidth applications are among them.
  column('sendsBulk', '0 or 1', 1),
  // The largest weight of the member's latency applications; 0 if it has none.
  column('latencyWeight', 'weight', MAX_WEIGHT),
];

/** The columns that the ruler writes. */
export const RATE_GRANTS: readonly Column[] = [
  // The member's share of SafeUtil; the maximum if it is not paced.
  column('rateGbps', 'Gbit/s on the wire', MAX_GBPS, MAX_GBPS),
  // The rate of a unit of weight, which also limits declared latency applications; the maximum if nothing limits them.
  column('weightGbps', 'Gbit/s on the wire', MAX_GBPS, MAX_GBPS),
  // Bytes of a token, and the least that a message takes of it.
  column('tokenBytes', 'bytes', 2 ** 30, 1e6),
  column('messageBytes', 'bytes', 2 ** 30),
  // For display: SafeUtil, its lower bound, the last estimate (0: none yet), whether the estimate stays above the
  // target even at the lower bound, the GID of the receiver with the longest tail (all 0: none), and what reference
  // flows take.
  column('safeUtilGbps', 'Gbit/s on the wire', MAX_GBPS),
  column('rMinGbps', 'Gbit/s on the wire', MAX_GBPS),
  column('tailNs', 'ns', Number.MAX_VALUE),
  column('isUnmet', '0 or 1', 1),
  ...WORST_GID_COLUMNS.map((name) => column(name, 'word of a GID', 2 ** 32 - 1)),
  column('referenceShare', 'part of the link', 1),
  // Incremented when SafeUtil falls, so that the reference flows begin a new window (not with `paper`).
  column('falls', 'times', Number.MAX_SAFE_INTEGER),
  // Of the device only: MaxRate, and the rules that the agent needs.
  column('maxGbps', 'Gbit/s on the wire', MAX_GBPS),
  column('targetNs', 'ns', Number.MAX_VALUE),
  column('refPeriodNs', 'ns; 0: no reference flows', Number.MAX_VALUE),
  column('refCount', 'messages', 2 ** 30),
  // Latencies that a window must have before there is an estimate.
  column('refLeast', 'messages', 2 ** 30),
  column('seed', 'number', 2 ** 32),
  column('countsLatencyOnce', '0 or 1', 1, 1),
  column('sharesByContext', '0 or 1', 1, 1),
  column('maxPeerWeight', 'weight', MAX_WEIGHT, MAX_WEIGHT),
  // Of a member, written by the agent: the part of its share that its receivers allow. Of the device: the part of its
  // rate that they allow (1: all).
  column('receiverPart', 'part of maxGbps, or of the share', 1, 1),
  // Of the device only, written by the agent, as is the GID of the worst receiver: the number of latencies measured; the
  // estimate in ns; the weight of other hosts' READs from this one; the weight of latency applications of other hosts
  // that talk to this host, or to a host to which it sends (1 if they count as one); and how often it measures.
  column('probes', 'messages', Number.MAX_SAFE_INTEGER),
  column('estimateNs', 'ns', Number.MAX_VALUE),
  column('readWeight', 'weight', MAX_WEIGHT),
  column('remoteLatency', 'weight', MAX_WEIGHT),
  column('probesPerS', 'messages/s', 1e9),
];

/** Indices of the columns in a member's page. */
export const HUNGRY_WEIGHT = columnIndex(RATE_REPORTS, 'hungryWeight');
export const SENDS_BULK = columnIndex(RATE_REPORTS, 'sendsBulk');
export const LATENCY_WEIGHT = columnIndex(RATE_REPORTS, 'latencyWeight');
export const RATE_GBPS = columnIndex(RATE_GRANTS, 'rateGbps');
export const TOKEN_BYTES = columnIndex(RATE_GRANTS, 'tokenBytes');
export const MESSAGE_BYTES = columnIndex(RATE_GRANTS, 'messageBytes');

/** The rate of a member that is not paced. */
export const UNPACED_GBPS = MAX_GBPS;
export const SAFE_UTIL_GBPS = columnIndex(RATE_GRANTS, 'safeUtilGbps');
export const R_MIN_GBPS = columnIndex(RATE_GRANTS, 'rMinGbps');
export const TAIL_NS = columnIndex(RATE_GRANTS, 'tailNs');
export const IS_UNMET = columnIndex(RATE_GRANTS, 'isUnmet');
/** The index of the first word; the others follow. */
export const WORST_GID = columnIndex(RATE_GRANTS, WORST_GID_COLUMNS[0]);
export const REFERENCE_SHARE = columnIndex(RATE_GRANTS, 'referenceShare');
export const WEIGHT_GBPS = columnIndex(RATE_GRANTS, 'weightGbps');
