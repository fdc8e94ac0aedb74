/** The state of MQSE (mqse.ts): queue pairs that take turns, grouped by context. */
import type { QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import type { Pcq } from './pcq.ts';

/** The quota that one turn may still issue. */
export interface Quota {
  bytes: number;
  requests: number;
  /** Slots of the send queue. Every piece and every 0_WAIT batch takes one. */
  slots: number;
}

/** How long a turn is. */
export interface TurnLimits {
  /** A turn ends when it reaches either of these. */
  turnBytes: number;
  turnRequests: number;
  /** The ENABLE for the next turn goes out this far before the end of a turn, to hide the delay of PCQ. */
  aheadBytes: number;
  aheadRequests: number;
}

/** Phases of a queue pair. */
export const NO_TURN = 0;
export const OPEN = 1;
export const TICKETLESS = 2;

/** A queue pair that takes turns. */
export class TurnTaker {
  readonly qp: QpView;
  readonly group: Group;
  phase = NO_TURN;
  readonly quota: Quota = { bytes: 0, requests: 0, slots: 0 };
  /** Bytes of the current turn that follow its ENABLE. */
  aheadBytes = 0;
  /** Turns posted and not known to be over. */
  turns = 0;
  /** The number of these turns whose ENABLE is posted. */
  closedTurns = 0;
  /** The number of overdue ones in place of which PCQ already released a ticket. */
  lentTurns = 0;
  /** WAITs of turns that are not known to be over. */
  pendingWaits = 0;
  /** Number of the last ticket. */
  ticket = 0;
  /** Whether it is in the group's queue. */
  isQueued = false;
  /** The time at which its current turn began to hold up others, as far as is known. */
  sinceNs = 0.5;
  /** Bytes in flight at the last check of the watchdog. */
  inflightBytes = 0.5;
  /** Overdue turns in a row. */
  strikes = 0;
  /** The time until which it sends without tickets. */
  ticketlessUntilNs = 0.5;

  constructor(qp: QpView, group: Group) {
    this.qp = qp;
    this.group = group;
  }
}

/** The queue pairs of one context. */
export interface Group {
  readonly resources: Resources;
  readonly watchdogToken: number;
  pcq: Pcq | null;
  limits: Readonly<TurnLimits>;
  /** QNum_allow of the paper; 0 means no turns. */
  allow: number;
  readonly takers: TurnTaker[];
  /** Queue pairs with an open turn, the oldest first. */
  readonly open: TurnTaker[];
  /** Queue pairs that need a turn while enough others already wait in the device. */
  readonly queue: TurnTaker[];
  isWatched: boolean;
  /** Whether, at the last check of the watchdog, queue pairs waited although none had a turn. */
  wasStalled: boolean;
  /** Sum of `pendingWaits`. */
  pendingWaits: number;
  /** Moving average of the duration of a turn; 0 until one has ended. */
  readonly turnNs: Float64Array;
}
