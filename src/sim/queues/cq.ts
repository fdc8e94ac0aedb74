/** A completion queue: a ring that the NIC writes and the application polls. */
import * as L from '../../verbs/layout.ts';
import type { Moderation } from '../nic/event-moderation.ts';
import type { Qp } from '../transport/qp.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const {
  SLOT_WORDS,
  WC_ID_LO,
  WC_ID_HI,
  WC_OP,
  WC_BYTE_LEN,
  WC_IMM,
  WC_QP,
  WC_SEQ,
  WC_SRC_QP,
  WC_QP_NUM,
  WC_SRQ,
  WC_RECV_SIDE,
  HEADER_WORDS,
  WC_PKEY_SLID,
  WC_SL_PATH_BITS,
} = L;

export const ARM_NONE = 0;
export const ARM_ANY = 1;
export const ARM_SOLICITED = 2;

/** A flag in the WC_OP word: this completion counts as solicited. The application never sees it. */
const SOLICITED_BIT = 1 << 30;
/** WC_OP of a completion whose queue pair was reset or destroyed. It never becomes visible. */
const PURGED = -1;

const TWO32 = 4294967296;
const NO_WORDS = new Int32Array(0);
/** Slots of a queue that has not needed more (a power of two). */
const FIRST_SLOTS = 64;

/** Twice the capacity: purged completions that are not visible yet occupy a slot, but do not count. */
function slotsFor(cqe: number): number {
  let slots = 2;
  while (slots < 2 * cqe) slots *= 2;
  return slots;
}

export class Cq {
  readonly id: number;
  readonly host: number;
  /** Capacity in completions. */
  cqe: number;
  /** The provider's handle. */
  handle = 0;
  /** Completions written, including those not visible yet. */
  written = 0;
  /** Completions visible to the application: the producer index that a WAIT compares. */
  visible = 0;
  /** Completions polled. */
  polled = 0;
  /** The producer index from which the next WAIT on this queue counts. */
  waitIndex = 0;
  armed = ARM_NONE;
  /** Whether a completion ever found no room. */
  overflowed = false;
  /** Whether the queue pairs that complete here have failed because of that. */
  hasFailed = false;
  dropped = 0;
  /** Completions written and purged, but not visible yet. */
  hiddenPurged = 0;
  /** Queue pairs that complete here. */
  readonly qps = new Set<Qp>();
  /** Queue pairs parked at a WAIT on this queue. */
  readonly waiters: Qp[] = [];
  /** The application inside the simulation to notify of each visible completion; -1 if there is none. */
  actor = -1;
  /** Whether completions carry the time at which they were written. */
  readonly stamped: boolean;
  /** Event moderation; null when every completion raises an event. */
  moderation: Moderation | null = null;
  /** Allocated with the first completion, because many queues never have one. */
  private words = NO_WORDS;
  private mask: number;
  /** The most slots that it may have. It has fewer while these are enough: the fewer, the more of them stay in the caches. */
  private mostSlots: number;

  constructor(id: number, host: number, cqe: number, stamped = false) {
    this.id = id;
    this.host = host;
    this.cqe = cqe;
    this.stamped = stamped;
    this.mostSlots = slotsFor(cqe);
    this.mask = Math.min(this.mostSlots, FIRST_SLOTS) - 1;
  }

  /** Completions that count against the capacity: written, not polled, not purged. */
  get waiting(): number {
    return ((this.written - this.polled) | 0) - this.hiddenPurged;
  }

  /** Changes the capacity to `cqe`, at least `waiting`, and keeps all completions. */
  resize(cqe: number): void {
    this.cqe = cqe;
    this.mostSlots = slotsFor(Math.max(cqe, (this.written - this.polled) | 0));
    if (this.mask >= this.mostSlots) this.setSlots(this.mostSlots);
  }

  /** Makes room for one more completion, if there may be one. */
  private grow(): boolean {
    const held = (this.written - this.polled) | 0;
    if (held - this.hiddenPurged >= this.cqe || held >= this.mostSlots) return false;
    this.setSlots(2 * (this.mask + 1));
    return true;
  }

  private setSlots(slots: number): void {
    const old = this.words;
    const oldMask = this.mask;
    this.mask = slots - 1;
    if (old === NO_WORDS) return;
    this.words = new Int32Array(slots * SLOT_WORDS);
    for (let i = this.polled; i !== this.written; i = (i + 1) | 0) {
      const from = (i & oldMask) * SLOT_WORDS;
      this.words.set(old.subarray(from, from + SLOT_WORDS), (i & this.mask) * SLOT_WORDS);
    }
  }

  /** Stamps the most recent completion with the current time. */
  stamp(nowNs: number): void {
    const w = this.words;
    const at = ((this.written - 1) & this.mask) * SLOT_WORDS;
    const ns = Math.floor(nowNs);
    w[at + L.WC_TICKS_LO] = w[at + L.WC_WALLCLOCK_LO] = ns % TWO32;
    w[at + L.WC_TICKS_HI] = w[at + L.WC_WALLCLOCK_HI] = ns / TWO32;
  }

  /** Writes a completion that becomes visible later. Returns false when the queue is full. */
  write(
    idLo: number,
    idHi: number,
    op: number,
    byteLen: number,
    imm: number,
    qp: Qp,
    seq: number,
    vendorErr: number,
    solicited: boolean,
  ): boolean {
    const held = (this.written - this.polled) | 0;
    if ((held - this.hiddenPurged >= this.cqe || held > this.mask) && !this.grow()) {
      this.overflowed = true;
      this.dropped++;
      return false;
    }
    if (this.words === NO_WORDS) this.words = new Int32Array((this.mask + 1) * SLOT_WORDS);
    const w = this.words;
    const at = (this.written & this.mask) * SLOT_WORDS;
    w[at + WC_ID_LO] = idLo;
    w[at + WC_ID_HI] = idHi;
    w[at + WC_OP] = solicited ? op | SOLICITED_BIT : op;
    w[at + WC_BYTE_LEN] = byteLen;
    w[at + WC_IMM] = imm;
    w[at + WC_QP] = qp.handle;
    w[at + WC_SEQ] = seq;
    w[at + WC_SRC_QP] = vendorErr;
    w[at + WC_QP_NUM] = qp.qpn;
    w[at + WC_SRQ] = qp.srq !== null && (op & WC_RECV_SIDE) !== 0 ? qp.srq.handle : 0;
    this.written = (this.written + 1) | 0;
    return true;
  }

  /** Makes the oldest hidden completion visible. Returns whether it requests an event. */
  reveal(): boolean {
    const op = this.words[(this.visible & this.mask) * SLOT_WORDS + WC_OP];
    this.visible = (this.visible + 1) | 0;
    if (op === PURGED) {
      this.hiddenPurged--;
      this.compact();
      return false;
    }
    if (this.armed === ARM_NONE) return false;
    const failed = (op & 0xff) !== 0;
    if (this.armed === ARM_SOLICITED && !failed && (op & SOLICITED_BIT) === 0) return false;
    if (this.moderation === null) this.armed = ARM_NONE;
    return true;
  }

  /** Copies up to `max` visible completions into the slots of `out` from `start` on. Returns their number. */
  poll(out: Uint32Array, start: number, max: number, qps: readonly (Qp | undefined)[]): number {
    const w = this.words;
    let n = 0;
    while (n < max && this.polled !== this.visible) {
      const at = (this.polled & this.mask) * SLOT_WORDS;
      this.polled = (this.polled + 1) | 0;
      const op = w[at + WC_OP];
      const to = HEADER_WORDS + (start + n) * SLOT_WORDS;
      out[to] = w[at];
      out[to + 1] = w[at + 1];
      out[to + 2] = op & ~SOLICITED_BIT;
      out[to + 3] = w[at + 3];
      out[to + 4] = w[at + 4];
      out[to + 5] = w[at + 5];
      out[to + 6] = w[at + 6];
      out[to + 7] = w[at + 7];
      out[to + 8] = w[at + 8];
      if (this.stamped) for (let i = L.WC_TICKS_LO; i <= L.WC_WALLCLOCK_HI; i++) out[to + i] = w[at + i];
      out[to + WC_PKEY_SLID] = 0;
      out[to + WC_SL_PATH_BITS] = 0;
      out[to + WC_SRQ] = w[at + WC_SRQ];
      qps[w[at + WC_QP_NUM]]?.polled(w[at + WC_SEQ], (op & WC_RECV_SIDE) !== 0);
      n++;
    }
    return n;
  }

  /** Discards the completions of a queue pair that is reset or destroyed, as libibverbs does. */
  purge(qpn: number): void {
    for (let i = this.polled; i !== this.written; i = (i + 1) | 0) {
      const at = (i & this.mask) * SLOT_WORDS;
      if (this.words[at + WC_QP_NUM] !== qpn || this.words[at + WC_OP] === PURGED) continue;
      this.words[at + WC_OP] = PURGED;
      if (((i - this.visible) | 0) >= 0) this.hiddenPurged++;
    }
    this.compact();
  }

  /** Moves visible completions together, so that purged ones occupy no slots. */
  private compact(): void {
    const w = this.words;
    let to = this.visible;
    for (let i = (this.visible - 1) | 0; ((i - this.polled) | 0) >= 0; i = (i - 1) | 0) {
      const from = (i & this.mask) * SLOT_WORDS;
      if (w[from + WC_OP] === PURGED) continue;
      to = (to - 1) | 0;
      if (to !== i) w.copyWithin((to & this.mask) * SLOT_WORDS, from, from + SLOT_WORDS);
    }
    this.polled = to;
  }
}
