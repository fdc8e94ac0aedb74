/** The lengths that follow from what a window depends on, and from times that are measured: of the window and of pieces. */
import { IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import { egressBytes, type WireFacts } from '../kit/wire.ts';
import { LatePolls } from './late-polls.ts';
import type { TurnOrder } from './turn-order.ts';
import type { WindowOptions } from './window-options.ts';

/** The window, as a multiple, while only one tenant waits, with READs and WRITEs in the same queue pair. */
export const BOTH_WINDOWS = 4;
/** A queue pair without a completion for this many times the time of a full window is left out of the window. */
export const STALL_WINDOWS = 8;
/** The longest time of a full window for that. What was measured as a round trip may be a wait for the peer's receives. */
export const MOST_EXPECTED_NS = 1e6;

/** The longest messages that may be sent whole, in pieces. */
export const WHOLE_PIECES = 3;

/** A queue pair with a limit may have in flight what the limit allows in this many round trips. */
const LIMIT_TIMES = 2;
/** A round trip counts as at most this many of the idle device: requests that take longer wait in the network. */
const LIMIT_ROUND_TRIPS = 4;
/** It may have this many of the longest pieces in flight in addition. */
const LIMIT_PIECES = 2;

/** What the bytes in flight of a queue pair with a limit depend on. */
interface Limited {
  readonly order: TurnOrder;
  readonly puller: { flyingBytes(qp: number): number };
  readonly roundTripNs: number;
  readonly window: WindowOptions;
}

/** The lengths of one direction, in bytes. */
export class WindowSizes {
  /**
   * The window; and a longer one for requests that follow each other so closely on their queue pair that the device
   * fetches them from memory: messages shorter than a piece, several of which go at once, and those of a queue pair that
   * alone has something to send.
   */
  windowBytes = 1;
  fetchedBytes = 1;
  /** What is added for a queue pair that alone sends messages in pieces that take receives. */
  endedBytes = 0;
  /** What the window has in addition to a round trip. */
  spareBytes = 0;
  /** The longest piece, and its length on the wire. */
  longestBytes = 1;
  longestWireBytes = 1;
  /** A piece on the wire, as a part of the window. */
  leastPart = 0;
  mtuBytes = 1;

  fit(window: WindowOptions, wire: WireFacts, roundTripNs: number): void {
    const piece = egressBytes(wire, IBV_WR_RDMA_WRITE, window.pieceBytes);
    this.spareBytes = window.sparePieces * piece;
    this.windowBytes = window.windowBytes ?? roundTripNs * window.linkPerNs + this.spareBytes;
    this.fetchedBytes = window.windowBytes ?? this.windowBytes + window.fetchedPieces * piece;
    this.endedBytes = window.windowBytes === undefined ? window.endedPieces * piece : 0;
    this.leastPart = Math.min(1, piece / this.windowBytes);
    this.longestBytes = window.pieceBytes;
    this.mtuBytes = wire.mtuBytes;
    this.longestWireBytes = egressBytes(wire, IBV_WR_RDMA_WRITE, this.longestBytes);
  }

  /** Whether a queue pair has in flight what its limit allows, if it has one. */
  isAtLimit(qp: number, { order, puller, roundTripNs, window }: Limited): boolean {
    if (order.flightBytes === undefined) return false;
    const ns = LIMIT_TIMES * Math.min(roundTripNs, LIMIT_ROUND_TRIPS * window.roundTripNs);
    return puller.flyingBytes(qp) >= order.flightBytes(qp, ns) + LIMIT_PIECES * this.longestWireBytes;
  }

  /** The length of pieces of a queue pair that is polled late, and must have `coveredBytes` in flight besides a window. */
  latePieceBytes(coveredBytes: number): number {
    return LatePolls.pieceBytes(this.windowBytes + coveredBytes, this);
  }
}
