/**
 * A queue pair that carries requests of several reliable connections of the application. Each carrier belongs to one of
 * them, its owner, and is connected with the carrier of the owner's peer.
 */
import type { TwinAddress } from '../peer/chunks.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { AnchorSlot } from './anchor.ts';
import { DONE, FAILED } from './anchor.ts';
import type { Bounce } from './bounce.ts';

/** Requests of the shim itself that a carrier has room for, in addition to those of connections. */
export const OWN_REQUESTS = 64;

export class Carrier {
  readonly qp: number;
  readonly qpNum: number;
  readonly pd: number;
  readonly depth: number;
  /** The byte through which the peer says what has become of its end of the owner's connection. */
  readonly slot: AnchorSlot;
  /** Where messages that take a receive arrive; null if it takes none. */
  readonly bounce: Bounce | null;
  /** The immediate that arrived last, and the length of the RDMA WRITE that it came with. */
  imm = 0;
  writtenBytes = 0;
  /** The other end; null if it is unknown. */
  peer: TwinAddress | null = null;
  /** Whether it may post. */
  connected = false;
  /** Whether it has failed, and is not connected any more. */
  failed = false;
  /** Whether its owner is gone: no further connection may use it. */
  retired = false;
  /** Whether the peer was notified that nothing more will come. */
  hasSentDone = false;
  /** What the peer was notified of this end: LEAVE, DONE, FAILED. */
  notified = 0;
  /** Connections whose requests it carries at present. */
  users = 0;
  posted = 0;
  freed = 0;
  private lastSignaled = -1;
  private readonly mask: number;
  /** By request: the handle of the queue pair that it belongs to, 0 for none, and its real number there. */
  private readonly handles: Int32Array;
  private readonly numbers: Int32Array;
  /** By request: whether its queue pair has not requested its completion. */
  private readonly silent: Uint8Array;

  constructor(fields: Pick<Carrier, 'qp' | 'qpNum' | 'pd' | 'depth' | 'slot' | 'bounce'>) {
    this.qp = fields.qp;
    this.qpNum = fields.qpNum;
    this.pd = fields.pd;
    this.depth = fields.depth;
    this.slot = fields.slot;
    this.bounce = fields.bounce;
    const rows = 2 ** Math.ceil(Math.log2(this.depth + OWN_REQUESTS));
    this.mask = rows - 1;
    this.handles = new Int32Array(rows);
    this.numbers = new Int32Array(rows);
    this.silent = new Uint8Array(rows);
  }

  get room(): number {
    return (this.depth - (this.posted - this.freed)) | 0;
  }

  /** Whether a request of the shim itself may be posted. */
  get hasOwnRoom(): boolean {
    return this.room > -OWN_REQUESTS;
  }

  /** Whether requests that it carries can arrive. */
  get isUsable(): boolean {
    return this.connected && (this.slot.anchor.valueOf(this.slot) & FAILED) === 0;
  }

  /** Whether both ends still use it. */
  get isLive(): boolean {
    return this.isUsable && !this.hasSentDone && (this.slot.anchor.valueOf(this.slot) & DONE) === 0;
  }

  /** Whether nothing is on its way. */
  get isIdle(): boolean {
    return this.posted === this.freed;
  }

  /** Whether the next request must be signaled, because the queue could otherwise fill up unnoticed. */
  get mustReport(): boolean {
    return ((this.posted - this.lastSignaled) | 0) >= this.depth >> 2;
  }

  /** A request was written, of a queue pair (0: of none) and with this real number there. */
  push(handle: number, number: number, isSignaled: boolean, isSilent: boolean): void {
    const row = this.posted & this.mask;
    this.handles[row] = handle;
    this.numbers[row] = number;
    this.silent[row] = isSilent ? 1 : 0;
    if (isSignaled) this.lastSignaled = this.posted;
    this.posted = (this.posted + 1) | 0;
  }

  /** The last `count` requests were not posted. */
  takeBack(count: number): void {
    this.posted = (this.posted - count) | 0;
    if (((this.lastSignaled - this.posted) | 0) >= 0) this.lastSignaled = (this.posted - 1) | 0;
  }

  handleAt(seq: number): number {
    return this.handles[seq & this.mask];
  }

  numberAt(seq: number): number {
    return this.numbers[seq & this.mask];
  }

  isSilentAt(seq: number): boolean {
    return this.silent[seq & this.mask] !== 0;
  }

  /** Whether requests of a queue pair are not known to be complete. */
  has(handle: number): boolean {
    for (let seq = this.freed; seq !== this.posted; seq = (seq + 1) | 0) {
      if (this.handles[seq & this.mask] === handle) return true;
    }
    return false;
  }

  /**
   * Detaches the requests of a queue pair that are not known to be complete. Returns the real number of the first of them
   * there; the queue pair's next one if there are none.
   */
  orphan({ handle, realPosted }: QpLedger): number {
    let first = realPosted;
    for (let seq = (this.posted - 1) | 0; ((seq - this.freed) | 0) >= 0; seq = (seq - 1) | 0) {
      if (this.handles[seq & this.mask] !== handle) continue;
      this.handles[seq & this.mask] = 0;
      first = this.numbers[seq & this.mask];
    }
    return first;
  }
}
