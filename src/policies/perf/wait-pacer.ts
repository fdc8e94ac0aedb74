/**
 * How many 0_WAITs follow a piece. The paper's rule is a fixed number by size; two bandwidth tenants with it fill the
 * egress FIFO again, as each of them alone fills most of the wire. `adaptive` gives all of them together just the
 * wire: a piece and its 0_WAITs take as long as its share of the link needs for it, beside that of all others.
 */
import {
  BUSY_LARGE_QPS,
  type MemberPage,
  NO_ROTATION,
  QUEUE_TENANTS,
  SLOT_STATE,
  SMALL_GBPS,
} from '../../coordinator/member-table.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_QPT_UD } from '../../verbs/constants.ts';
import { type Nic, type NicOptions, nicOf, pieceBytes, wireBytes } from './nic.ts';

/** What the waits depend on beside the NIC: who else is on the device (a member's grants). */
export interface ActiveTenants {
  /** Queue pairs of bandwidth tenants that send (n_B), this one included. */
  readonly busyLargeQps: number;
  /** What small tenants send on the wire, headers included. */
  readonly smallGbps: number;
  /** Small tenants whose time or rate depends on what stands in the FIFO: they wait for answers. */
  readonly queueTenants: number;
  /** Whether they may fill the link: nobody suffers from what stands in the FIFO. */
  readonly mayFill?: boolean;
  /** Whether bandwidth tenants send one after the other: the FIFO drains from one to the next. */
  readonly rotate?: boolean;
}

/** Who else is there, as the coordinator last said it. */
export class GrantedTenants implements ActiveTenants {
  private readonly page: MemberPage;

  constructor(page: MemberPage) {
    this.page = page;
  }

  get busyLargeQps(): number {
    return this.page.grants[BUSY_LARGE_QPS];
  }

  get smallGbps(): number {
    return this.page.grants[SMALL_GBPS];
  }

  get queueTenants(): number {
    return this.page.grants[QUEUE_TENANTS];
  }

  get rotate(): boolean {
    return this.page.grants[SLOT_STATE] !== NO_ROTATION;
  }
}

/** One bandwidth queue pair beside tenants that send next to nothing. */
export const ALONE: ActiveTenants = { busyLargeQps: 1, smallGbps: 0, queueTenants: 1 };

/** The options of perf that decide the number of 0_WAITs. */
export interface WaitPacerOptions {
  readonly waits: 'fixed' | 'adaptive';
  readonly subMsgSizeBytes: number;
  readonly zeroWaitUnitBytes: number;
  /** Share of the link that bandwidth tenants fill: what is left drains the FIFO. */
  readonly utilisation: number;
  /** Part of the peer's egress FIFO that READs of all bandwidth tenants may fill. */
  readonly readFifoPart: number;
  readonly nic: NicOptions;
  /** Whether something else gives each tenant its rate: then a queue pair need only leave gaps, as if it were alone. */
  readonly limited?: boolean;
}

/** Small tenants get so much of the link at most, before 0_WAITs make more room for them. */
const MAX_SMALL_PART = 0.5;
/** What a CPU takes to write the first requests of a slot. */
const POST_NS = 500;
/**
 * Where somebody waits for each answer, queue pairs in turns that have the link for themselves leave so much more of
 * it: a turn begins before the last one's 0_WAITs are over, and a FIFO that is filled once stays full.
 */
const TURN_TAKER_PART = 0.985;
/** Time at its share after which a queue pair's rate is looked at, in pieces. */
const WINDOW_PIECES = 32;
/**
 * Below this part of its share, something else holds a queue pair back: 0_WAITs after its pieces would come on top. A
 * limit of just its share leaves 0.6 of it with them.
 */
const HELD_BACK = 0.62;
/** From this part on nothing does. */
const UNHINDERED = 0.95;
/**
 * A queue that runs dry is given back so much of its share at most: some round trips. Less where somebody waits for
 * each answer: two queue pairs of which one catches up fill the FIFO together.
 */
const MAX_DRY_NS = 4000;
const MAX_DRY_WITH_D_NS = 2000;
/**
 * READs below this part of their share may be too few for the round trip. So much more is asked for then, up to so
 * many times as much, and kept if it brings so much of what it must where only the round trip is long; if not, the
 * network is the limit, and it is tried again after so many looks. At their share they ask for less and less.
 */
const READS_SHORT = 0.97;
const READS_STEP = 1.25;
const READS_MAX = 16;
const READS_MIN_GAIN = 0.25;
const READS_RETRY_DELAY = 32;
const READS_DECAY = 0.99;

/** Computes the number of 0_WAITs behind each piece. */
export class WaitPacer {
  private options: WaitPacerOptions;
  /** By context: an index is given again. */
  private readonly nics: { of: ContextView; nic: Nic | null }[] = [];
  // By queue pair.
  /** fixed: bytes of whole messages that no 0_WAIT was charged for; adaptive: nanoseconds of its share. */
  private debt: Float64Array = new Float64Array(64);
  /** Bytes issued so far. */
  private issued: Float64Array = new Float64Array(64);
  /** When its rate was looked at, and what had completed by then; NaN: it was idle since. */
  private sinceNs: Float64Array = new Float64Array(64).fill(Number.NaN);
  private sinceBytes: Float64Array = new Float64Array(64);
  private isHeldBack: Uint8Array = new Uint8Array(64);
  /** When the device is through with what was issued and its 0_WAITs, as computed; NaN: nobody knows. */
  private finishNs: Float64Array = new Float64Array(64).fill(Number.NaN);
  /** READs: how many times the usual may be asked for; the part of its share before the last step; looks until one. */
  private readFactor: Float64Array = new Float64Array(64).fill(1);
  private rateBefore: Float64Array = new Float64Array(64);
  private readRetryDelay: Uint8Array = new Uint8Array(64);
  // Of the queue pair that is being fed.
  private nic: Nic | null = null;
  private index = 0;
  /** What lets others pass once: of datagrams, an empty one. */
  private stepNs = 0;
  /** Nanoseconds of the link per byte, as its share has them; and as small tenants leave it, minded or not. */
  private nsPerByte = 0;
  private leftoverNsPerByte = 0;
  /** What it is given back of its share at most. */
  private maxDryNs = 0;
  /** Whether its 0_WAITs may come with its next message; whether nothing of it is under way. */
  private runsDry = false;
  private isDry = false;
  /** Bytes of a piece, and of a piece of a READ. */
  pieceBytes: number;
  readPieceBytes: number;
  /** Bytes that it may ask for by READs before the first of them have come. */
  readBytes = Number.POSITIVE_INFINITY;

  constructor(options: WaitPacerOptions) {
    this.options = options;
    this.pieceBytes = options.subMsgSizeBytes;
    this.readPieceBytes = options.subMsgSizeBytes;
  }

  /** From the next piece on. */
  configure(options: WaitPacerOptions): void {
    this.options = options;
    this.nics.length = 0;
  }

  /** A queue pair is created: nothing of an earlier one of the same number counts. */
  reset(qp: QpView): void {
    this.grow(qp.index);
    this.debt[qp.index] = 0;
    this.issued[qp.index] = 0;
    this.sinceNs[qp.index] = Number.NaN;
    this.isHeldBack[qp.index] = 0;
    this.finishNs[qp.index] = Number.NaN;
    this.readFactor[qp.index] = 1;
    this.rateBefore[qp.index] = 0;
    this.readRetryDelay[qp.index] = 0;
  }

  /** What is charged from now on belongs to this queue pair. One that takes turns is slower than its share by these. */
  select(qp: QpView, tenants: ActiveTenants, out: Actions, takesTurns = false, reads = false): void {
    const { options } = this;
    this.grow(qp.index);
    this.index = qp.index;
    const known = options.waits === 'fixed' || out.wait === 'emulated' ? null : this.nicOf(qp.context);
    this.stepNs = (qp.type === IBV_QPT_UD ? known?.wqeGapNs : known?.waitStepNs) ?? 0;
    // What takes no time cannot be counted by it.
    this.nic = this.stepNs > 0 ? known : null;
    const { nic } = this;
    if (nic === null) {
      this.pieceBytes = options.subMsgSizeBytes;
      this.readPieceBytes = options.subMsgSizeBytes;
      this.readBytes = Number.POSITIVE_INFINITY;
      return;
    }
    const sharers = options.limited === true ? 1 : Math.max(1, tenants.busyLargeQps);
    this.pieceBytes = pieceBytes(nic, options.subMsgSizeBytes, takesTurns ? 1 : sharers);
    // All that is asked for stands in the peer's FIFO as fast as the requests arrive there: 0_WAITs are at this end.
    const times = this.readFactor[qp.index];
    // As many READs as may be outstanding (rd_atomic, 16 mostly) are twice those of one packet that are usual.
    this.readPieceBytes = Math.min(this.pieceBytes, nic.mtuBytes * Math.ceil(times / 2));
    const fifoBytes = nic.egressFifoBytes * options.readFifoPart;
    this.leftoverNsPerByte = this.leftoverNsPerByteOf(nic, tenants, sharers);
    // What stands in the FIFO costs message-rate tenants little beside one queue pair of large messages.
    const minds = tenants.queueTenants > 0 || sharers > 1;
    this.nsPerByte = minds
      ? this.leftoverNsPerByte
      : (8 * sharers) / (nic.linkGbps * this.usablePart(tenants));
    this.runsDry = !takesTurns;
    this.isDry = false;
    if (takesTurns) {
      this.pause(qp);
      const fills = sharers === 1 && tenants.rotate !== true && tenants.queueTenants > 0;
      if (fills) this.nsPerByte /= TURN_TAKER_PART;
      this.isHeldBack[qp.index] = 0;
      this.maxDryNs = 0;
    } else {
      this.maxDryNs = tenants.queueTenants > 0 ? MAX_DRY_WITH_D_NS : MAX_DRY_NS;
      // Beside nobody there is nothing to catch up with.
      if (sharers === 1) this.maxDryNs = 0;
      this.measureRate(qp, out, reads);
      this.catchUp(qp, out);
    }
    this.readBytes = Math.max(this.readPieceBytes, (times * fifoBytes) / sharers);
  }

  /**
   * A queue that runs dry between two messages loses its turns to others that do not: what it had of its share in that
   * time comes off its next 0_WAITs.
   */
  private catchUp(qp: QpView, out: Actions): void {
    const { index, finishNs, debt } = this;
    this.isDry = out.inflightBytes(qp) === 0;
    const nowNs = out.nowNs(qp.context);
    const dryNs = nowNs - finishNs[index];
    if (dryNs <= 0) return;
    // No number: it was paused.
    if (dryNs > 0 && this.isDry) debt[index] = Math.max(-this.maxDryNs, debt[index] - dryNs);
    finishNs[index] = nowNs;
  }

  private usablePart({ mayFill }: ActiveTenants): number {
    return mayFill === true ? 1 : this.options.utilisation;
  }

  /** Nanoseconds per byte of one of so many queue pairs, of the link less what small tenants send. */
  private leftoverNsPerByteOf(nic: Nic, tenants: ActiveTenants, sharers: number): number {
    const smallGbps = Math.min(tenants.smallGbps, MAX_SMALL_PART * nic.linkGbps);
    return (8 * sharers) / ((nic.linkGbps - smallGbps) * this.usablePart(tenants));
  }

  /** Bytes that with their 0_WAITs take as long as a turn needs to be let go; 0: that is not known. */
  get handoverBytes(): number {
    return this.nic === null ? 0 : Math.floor(this.nic.handoverNs / this.nsPerByte);
  }

  /**
   * A tenant's slot is over, and so many bytes of it are under way: when the next one is to begin, so that its first
   * packet follows the last of these. 0 or less: now; NaN: nobody knows.
   */
  handoverDelayNs(context: ContextView, tenants: ActiveTenants, bytes: number, out: Actions): number {
    const nic = this.options.waits === 'fixed' || out.wait === 'emulated' ? null : this.nicOf(context);
    if (nic === null) return Number.NaN;
    // Of a piece that is being sent half is gone, on average. What is done is known late, what is posted is sent late.
    const gone = pieceBytes(nic, this.options.subMsgSizeBytes) / 2;
    const left = wireBytes(nic, Math.max(0, bytes - gone));
    return left * this.leftoverNsPerByteOf(nic, tenants, 1) - nic.latencyNs - POST_NS;
  }

  /** 0_WAITs behind each of `count` pieces of `bytes`. */
  waitsPerPiece(bytes: number, count: number): number {
    const { index, nic } = this;
    this.issued[index] += count * bytes;
    if (nic === null) return Math.max(1, Math.floor(bytes / this.options.zeroWaitUnitBytes));
    return this.charge(nic, bytes, count, 1);
  }

  /**
   * 0_WAITs behind a message, or the rest of one, that goes whole. Short ones are charged together: one by one they
   * would pay too much. `isLast`: the queue may run dry behind it, and then waits by itself.
   */
  waitsAfterWhole(bytes: number, isLast = false): number {
    const { index, nic } = this;
    this.issued[index] += bytes;
    if (nic !== null) return this.charge(nic, bytes, 1, 0, isLast && this.runsDry);
    const owed = this.debt[index] + bytes;
    const waits = Math.floor(owed / this.options.zeroWaitUnitBytes);
    this.debt[index] = owed - waits * this.options.zeroWaitUnitBytes;
    return waits;
  }

  /** 0_WAITs before a message that finds its queue dry: what is left of those that its predecessor left open. */
  leadingWaits(): number {
    const { index, debt, stepNs } = this;
    if (this.nic === null || !this.isDry || debt[index] < stepNs) return 0;
    const waits = Math.floor(debt[index] / stepNs);
    debt[index] -= waits * stepNs;
    this.finishNs[index] += waits * stepNs;
    return waits;
  }

  /**
   * 0_WAITs for each of `count` pieces, so that with what is owed from before all of them take their share's time.
   * `later`: none for now.
   */
  private charge(nic: Nic, bytes: number, count: number, least: number, later = false): number {
    const { index, debt } = this;
    const stepsNs = count * this.stepNs;
    let waits = 0;
    if (this.isHeldBack[index] === 1) {
      debt[index] = 0;
    } else {
      const total = debt[index] + count * (wireBytes(nic, bytes) * this.nsPerByte - nic.wqeGapNs);
      if (!later) waits = Math.max(least, Math.floor(total / stepsNs));
      debt[index] = Math.max(-this.maxDryNs, total - waits * stepsNs);
    }
    this.finishNs[index] += count * nic.wqeGapNs + waits * stepsNs;
    return waits;
  }

  /** It has nothing held any more: how fast it is says nothing from here on. */
  markIdle(qp: QpView): void {
    this.sinceNs[qp.index] = Number.NaN;
  }

  /** Something else holds it: that it sends nothing says nothing, either. */
  pause(qp: QpView): void {
    this.markIdle(qp);
    this.finishNs[qp.index] = Number.NaN;
  }

  /** Congestion control in the NIC may hold it far below its share: a piece takes that long, and the 0_WAITs beside. */
  private measureRate(qp: QpView, out: Actions, reads: boolean): void {
    const { index, sinceNs, sinceBytes } = this;
    const nowNs = out.nowNs(qp.context);
    const done = this.issued[index] - out.inflightBytes(qp);
    const shareNs = this.pieceBytes * this.leftoverNsPerByte;
    const spanNs = nowNs - sinceNs[index];
    if (spanNs < WINDOW_PIECES * shareNs) return;
    // Not a number: its first look, or the first since it was idle.
    if (spanNs >= WINDOW_PIECES * shareNs) {
      const part = ((done - sinceBytes[index]) * this.leftoverNsPerByte) / spanNs;
      if (part < HELD_BACK) this.isHeldBack[index] = 1;
      else if (part >= UNHINDERED) this.isHeldBack[index] = 0;
      const { mtuBytes } = this.nic!;
      if (reads) this.adaptReads(index, (part * wireBytes(this.nic!, mtuBytes)) / mtuBytes);
    }
    sinceNs[index] = nowNs;
    sinceBytes[index] = done;
  }

  /** A look at the part of its share that a queue pair of READs has. */
  private adaptReads(index: number, part: number): void {
    const { readFactor, rateBefore, readRetryDelay } = this;
    const tried = rateBefore[index];
    rateBefore[index] = 0;
    if (part >= READS_SHORT) {
      readFactor[index] = Math.max(1, readFactor[index] * READS_DECAY);
    } else if (readRetryDelay[index] > 0) {
      readRetryDelay[index]--;
    } else if (tried > 0 && part < tried * (1 + (READS_STEP - 1) * READS_MIN_GAIN)) {
      readFactor[index] /= READS_STEP;
      readRetryDelay[index] = READS_RETRY_DELAY;
    } else if (readFactor[index] < READS_MAX) {
      readFactor[index] *= READS_STEP;
      rateBefore[index] = part;
    }
  }

  private nicOf(context: ContextView): Nic | null {
    const known = this.nics[context.index];
    if (known?.of === context) return known.nic;
    const nic = nicOf(context, this.options.nic);
    this.nics[context.index] = { of: context, nic };
    return nic;
  }

  private grow(index: number): void {
    if (index < this.debt.length) return;
    const before = this.sinceNs.length;
    this.debt = fitColumn(this.debt, index);
    this.issued = fitColumn(this.issued, index);
    this.sinceBytes = fitColumn(this.sinceBytes, index);
    this.isHeldBack = fitColumn(this.isHeldBack, index);
    this.readFactor = fitColumn(this.readFactor, index).fill(1, before);
    this.rateBefore = fitColumn(this.rateBefore, index);
    this.readRetryDelay = fitColumn(this.readRetryDelay, index);
    this.sinceNs = fitColumn(this.sinceNs, index).fill(Number.NaN, before);
    this.finishNs = fitColumn(this.finishNs, index).fill(Number.NaN, before);
  }
}
