/** The state of a device under justitia in words, for the policy (describe.ts) and for the ruler (rates.ts). */
import { gidFromWords } from '../../verbs/gid.ts';
import { IS_UNMET, R_MIN_GBPS, REFERENCE_SHARE, SAFE_UTIL_GBPS, TAIL_NS, WORST_GID } from './columns.ts';

/** The state of a device, for display. */
export interface DeviceState {
  readonly safeUtilGbps: number;
  readonly rMinGbps: number;
  readonly targetNs: number;
  /** The last estimate; 0: none yet. */
  readonly tailNs: number;
  readonly isUnmet: boolean;
  /** The GID of the receiver with the longest tail; null: none. */
  readonly worstPeer: string | null;
  /** The part of the link that reference flows take, with headers. */
  readonly referenceShare: number;
}

/** Three significant digits. */
export const short = (value: number): string => `${Number(value.toPrecision(3))}`;

/** The GID in four words; null if all are 0. */
export const worstPeerOf = (words: ArrayLike<number>, at: number): string | null =>
  words[at] + words[at + 1] + words[at + 2] + words[at + 3] > 0 ? gidFromWords(words, at) : null;

/** The state that a member is granted. */
export function stateOf(grants: Float64Array, targetNs: number): DeviceState {
  return {
    safeUtilGbps: grants[SAFE_UTIL_GBPS],
    rMinGbps: grants[R_MIN_GBPS],
    targetNs,
    tailNs: grants[TAIL_NS],
    isUnmet: grants[IS_UNMET] > 0,
    worstPeer: worstPeerOf(grants, WORST_GID),
    referenceShare: grants[REFERENCE_SHARE],
  };
}

/** The rates of a device. */
export const ratesText = ({ safeUtilGbps, rMinGbps }: DeviceState): string =>
  `SafeUtil is ${short(safeUtilGbps)} Gbit/s, and R_min is ${short(rMinGbps)}`;

/**
 * The tail that the reference flows of a device measured, and what they take of the link. Each clause follows a
 * semicolon.
 */
export function tailText({ targetNs, tailNs, isUnmet, worstPeer, referenceShare }: DeviceState): string {
  const tail = `${short(tailNs / 1e3)} us${worstPeer === null ? '' : ` to ${worstPeer}`}`;
  const clauses = [
    isUnmet
      ? `the target of ${short(targetNs / 1e3)} us cannot be met: the tail is ${tail} at the lowest rate`
      : tailNs > 0 && `the longest tail is ${tail}`,
    referenceShare > 0 && `reference flows take ${short(100 * referenceShare)} % of the link`,
  ];
  return clauses.map((clause) => (clause === false ? '' : `; ${clause}`)).join('');
}
