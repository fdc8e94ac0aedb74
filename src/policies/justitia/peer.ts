/** What the agent of justitia knows about another host, and about what its own members do there. */
import { gidToWords } from '../../verbs/gid.ts';
import type { TailEstimator } from '../kit/tail-estimator.ts';
import { DEMAND, SHARES, type Update } from './updates.ts';

/** What a member does at one peer. */
export interface Flow {
  readonly words: Float64Array;
  readonly gid: string;
  readonly fromGid: string;
  peer: number;
  sends: number;
  reads: number;
  hasLatency: boolean;
}

/** Another host. */
export interface Peer {
  /** Its GID (gidToWords). */
  readonly gidWords: readonly number[];
  isUp: boolean;
  /** Whether it has given no sign of life for some time: its updates do not count until it is heard again. */
  isSilent: boolean;
  /** Whether its silence matters. */
  isWatched: boolean;
  /** The demand of this host at the peer, as last sent, and that of the peer at this host, as last received. */
  sent: Update;
  heard: Update;
  /** The shares that this host allows the peer, as last sent, and those that the peer allows, as last received. */
  allowed: Update;
  allows: Update;
  /** The estimator of the reference flow; null: there is no flow. */
  tail: TailEstimator | null;
  /** The number of its samples that were above the target, and the last sample. */
  late: number;
  lastNs: number;
  // Sums over the flows to this peer.
  sends: number;
  reads: number;
  latency: number;
}

/** An update that has not been sent. */
export const noUpdate = (kind: number): Update => ({
  kind,
  number: 0,
  confirmed: 0,
  latency: 0,
  first: 0,
  second: 0,
});

const NOTHING_HEARD: Readonly<Update> = noUpdate(DEMAND);
const NOTHING_ALLOWED: Readonly<Update> = noUpdate(SHARES);

/** The demand of a peer at this host, as far as it still counts. */
export const heardOf = ({ isSilent, heard }: Peer): Readonly<Update> => (isSilent ? NOTHING_HEARD : heard);
/** The shares that a peer allows, as far as they still count. */
export const allowsOf = ({ isSilent, allows }: Peer): Readonly<Update> =>
  isSilent ? NOTHING_ALLOWED : allows;

/** Whether a peer sends to this host, or READs from it. */
export const isActive = (peer: Peer): boolean => heardOf(peer).first > 0 || heardOf(peer).second > 0;

/** A host about which only the GID is known. */
export const newPeer = (gid: string): Peer => ({
  gidWords: gidToWords(gid),
  isUp: false,
  isSilent: false,
  isWatched: false,
  sent: noUpdate(DEMAND),
  heard: noUpdate(DEMAND),
  allowed: noUpdate(SHARES),
  allows: noUpdate(SHARES),
  tail: null,
  late: 0,
  lastNs: 0,
  sends: 0,
  reads: 0,
  latency: 0,
});
