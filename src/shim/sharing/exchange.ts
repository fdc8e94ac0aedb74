/**
 * What one end of a connection knows about its messages that take a receive, in both directions. Messages and receives are
 * numbered from RESET on: message n takes receive n, whichever queue pair brings it.
 */
import * as L from '../../verbs/layout.ts';
import { takesReceive } from '../peer/outbox.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Carrier } from './carrier.ts';
import type { HeldReceives } from './held-receives.ts';

/** The peer has not been asked yet to hold receives. */
export const UNASKED = 0;
/** Nothing is issued until it has answered. */
export const ASKED = 1;
/** Messages from `from` on go over carriers. */
export const JOINED = 2;
/** Nothing is issued until the peer has posted its receives to the connection's own queue pair. */
export const PARTING = 3;
/** All messages go over the connection's own queue pair. */
export const ALONE = 4;

export class Exchange {
  /** The number of the connection here and at the peer; -1 if the peer does not take part. */
  readonly id: number;
  peerId = -1;
  status = UNASKED;
  /** Messages that the application has posted. */
  sent = 0;
  /** In JOINED, the first message that goes over carriers, and the one from which on the peer has no receive yet. */
  from = 0;
  granted = 0;
  /** The longest SEND that fits the peer's receives. */
  leastBytes = 0;
  /** Whether a message may wait for a receive without limit (rnr_retry of 7). */
  isPatient = false;
  /** Whether the connection must return to its own queue pair. */
  mustPart = false;
  /** The carrier of the last message between the shims about this connection. */
  via: Carrier | null = null;
  /** The receives that wait for carriers; null: receives go to the device. */
  held: HeldReceives | null = null;
  /** Receives that carriers have used, or that a RESET has dropped here: the device does not count them. */
  carried = 0;
  /** Receives that were announced to the peer. */
  announced = 0;
  /** By message, modulo the depth of the send queue: the number of its request. */
  private readonly seqs: Int32Array;

  constructor(id: number, appDepth: number) {
    this.id = id;
    this.seqs = new Int32Array(2 ** Math.ceil(Math.log2(appDepth)));
  }

  /** Whether posted requests must be held, because some of them may have to wait. */
  get holdsPosts(): boolean {
    return this.status === ASKED || this.status === JOINED || this.status === PARTING;
  }

  get isWaiting(): boolean {
    return this.status === ASKED || this.status === PARTING;
  }

  /** The application has posted a message as request `seq`. */
  note(seq: number): void {
    this.seqs[this.sent & (this.seqs.length - 1)] = seq;
    this.sent = (this.sent + 1) | 0;
  }

  /** Counts requests start .. start + count - 1 of a ring, which went straight to the device. */
  countStraight(words: Uint32Array, start: number, count: number): void {
    for (let i = start; i < start + count; i++) {
      if (takesReceive(words[L.slotAt(i) + L.WR_OP] & 0xff)) this.sent = (this.sent + 1) | 0;
    }
  }

  /** Whether message `n` is posted, and all requests before it are issued: `issued` is the next one. */
  isNext(n: number, issued: number): boolean {
    if (((this.sent - n) | 0) <= 0) return false;
    return ((this.seqs[n & (this.seqs.length - 1)] - issued) | 0) <= 0;
  }

  /** Whether nothing more of the connection is issued before the peer's shim sends something. */
  isStuck(issued: number): boolean {
    return this.isWaiting || (this.status === JOINED && this.isNext(this.granted, issued));
  }

  /** Forgets the receives that are held, as a RESET does. */
  drop(): void {
    this.carried = (this.carried + (this.held?.count ?? 0)) | 0;
    this.held = null;
  }

  /** Receives that the device has, as far as the shim knows. */
  onDevice({ recvPosted, recvTaken }: QpLedger): number {
    return (recvPosted - recvTaken - (this.held?.count ?? 0)) | 0;
  }
}
