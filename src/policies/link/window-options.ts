/** What a direction of the link (direction.ts) depends on: what a policy decides, and what is known of the device. */
import type { Actions, QpView } from '../../shim/policy.ts';
import type { egressBytes } from '../kit/wire.ts';
import type { Pipeline } from './spacing.ts';

/** What the window and the length of pieces depend on. */
export interface WindowOptions extends Pipeline {
  /** The round trip until it has been measured. */
  readonly roundTripNs: number;
  readonly pieceBytes: number;
  /** What a message counts at least, of the bytes of a chunk. */
  readonly minChargeBytes: number;
  /** Pieces in flight in addition to what the link carries in a round trip: one is fetched while another one is sent. */
  readonly sparePieces: number;
  /** Further pieces while requests follow each other so closely on their queue pair that the device fetches them. */
  readonly fetchedPieces: number;
  /** The same for a queue pair that alone sends messages in pieces that take receives, if they are short. */
  readonly endedPieces: number;
  /**
   * Messages that a queue pair may have in flight in addition to those that it processes in a round trip. They wait in its
   * own queue, so they take nothing of the window.
   */
  readonly queuedMessages: number;
  /** Whether pieces are shortened so that a whole number of them fills the window, instead of exceeding it. */
  readonly fitsPieces: boolean;
  /** Whether pieces may become longer than a turn while polls are late, because few of them must fill the link. */
  readonly lengthensPieces: boolean;
  /**
   * Whether the window follows what the network carries: less is in flight while requests queue there (backoff.ts), and
   * each peer has a window of its own while its path is congested and those of others are not (paths.ts).
   */
  readonly followsPaths: boolean;
  /** A window to use instead of the one that follows from the others. */
  readonly windowBytes?: number;
}

/** Whether the oldest held request of a queue pair belongs to a direction. If not, the scheduler notes the queue pair. */
export type Takes = (qp: QpView, out: Actions) => boolean;

/** The bytes that a request puts on the wire in one direction. */
export type LoadOf = typeof egressBytes;
