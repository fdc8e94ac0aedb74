/**
 * A queue pair that carries requests of several reliable connections of the application. Each belongs to one of them, its
 * owner, and is connected with that of the owner's peer.
 */
import type { TwinAddress } from '../peer/chunks.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { AnchorSlot } from './anchor.ts';

export class Carrier {
  readonly qp: number;
  readonly qpNum: number;
  readonly pd: number;
  readonly depth: number;
  /** The byte through which the peer says what has become of its end of the owner's connection. */
  readonly slot: AnchorSlot;
  /** The other end; null if it is unknown. */
  peer: TwinAddress | null = null;
  /** Whether it may post. */
  connected = false;
  /** Whether its owner is gone: no further connection may use it. */
  retired = false;
  /** Whether the peer was told that nothing more will come. */
  saidDone = false;
  /** Connections whose requests it carries at present. */
  users = 0;
  posted = 0;
  freed = 0;
  private lastSignaled = -1;
  private readonly mask: number;
  /** By request: the handle of the queue pair that it belongs to, 0 for none, and its real number there. */
  private readonly handles: Int32Array;
  private readonly numbers: Int32Array;
  /** Whether the queue pair that it belongs to has not requested its completion. */
  private readonly silent: Uint8Array;

  constructor(fields: Pick<Carrier, 'qp' | 'qpNum' | 'pd' | 'depth' | 'slot'>) {
    this.qp = fields.qp;
    this.qpNum = fields.qpNum;
    this.pd = fields.pd;
    this.depth = fields.depth;
    this.slot = fields.slot;
    const rows = 2 ** Math.ceil(Math.log2(this.depth));
    this.mask = rows - 1;
    this.handles = new Int32Array(rows);
    this.numbers = new Int32Array(rows);
    this.silent = new Uint8Array(rows);
  }

  get room(): number {
    return (this.depth - (this.posted - this.freed)) | 0;
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
   * Forgets to whom the requests of a queue pair belong that are not known to be complete. Returns the real number of the
   * first of them there; the queue pair's next one if there are none.
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
