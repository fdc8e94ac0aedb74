/** What a direction of a link needs of the order in which queue pairs share it. */

import type { Order } from '../kit/puller.ts';
import { BLOCKED } from '../kit/step.ts';

/** An order in which queue pairs have turns of several bytes each. */
export interface TurnOrder extends Order {
  /** Whether several queue pairs wait to be served. */
  readonly isShared: boolean;
  /** Whether no queue pair waits. */
  readonly isIdle?: boolean;
  /** Whether those that wait belong to one tenant; absent: that makes no difference. */
  readonly isOneTenant?: boolean;
  /**
   * Whether no tenant but that of the queue pair has sent anything, or waited, for some time; absent: that makes no
   * difference.
   */
  isSole?(qp: number, nowNs: number): boolean;
  /** The number of the round, in which each queue pair has a turn. */
  readonly round: number;
  /** Bytes on the wire that all queue pairs have sent while they waited for the window. */
  readonly totalBytes: number;
  /** Bytes on the wire that all queue pairs have sent, waiting or not; absent: `totalBytes`. */
  readonly servedBytes?: number;
  /**
   * Whether the order holds the queue pair to a rate, so that the times of its requests say nothing of what else holds it
   * up; absent: no queue pair.
   */
  paces?(qp: number): boolean;
  /**
   * What the rate of a queue pair carries in the time by which timers have recently been late, and polls probably, too, in
   * bytes on the wire; 0: they are in time, or it has no rate; absent: no queue pair has one.
   */
  lateBytes?(qp: number): number;
  /** What the rate of the queue pair that `next` returned allows it to send at once, because timers were late; in bytes. */
  dueBytes?(qp: number): number;
  /**
   * The most that a queue pair may have in flight under the limit of its context at its peer: its part of what the
   * limit allows in this time, in bytes on the wire. Infinity: it has no limit. Absent: no queue pair has one.
   */
  flightBytes?(qp: number, ns: number): number;
  /** Whether a queue pair waits to be served. */
  isReady(qp: number): boolean;
  /** Whether a queue pair waits to be served, or has something to send that it cannot send now. */
  waits(qp: number): boolean;
  /** The bytes on the wire that a queue pair has sent since the last call. */
  takeSentBytes(qp: number): number;
  /** A queue pair begins anew. */
  reset(qp: number): void;
  /** What the queue pair may still send in its turn, in bytes. */
  creditOf(qp: number): number;
  /** A request, or a piece of one, of the queue pair that `next` returned takes this many bytes of its turn. */
  spend(qp: number, bytes: number): void;
  /** Lets others go before the rest of the queue pair's turn. */
  yield(qp: number): void;
  /** The queue pair is about to leave although it has something to send. */
  hold(qp: number): void;
  /** The queue pair has nothing to send any more, even if it was held. */
  release(qp: number): void;
}

/** A queue pair cannot send what it has to send. */
export function held(order: TurnOrder, qp: number): number {
  order.hold(qp);
  return BLOCKED;
}
