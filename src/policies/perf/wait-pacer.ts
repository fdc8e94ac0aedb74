/**
 * Computes how many 0_WAITs follow a piece. The paper's rule is a fixed number by size. Under it, two bandwidth tenants
 * fill the egress FIFO again, because each of them alone fills most of the wire. `adaptive` limits all of them together
 * to the wire: a piece and its 0_WAITs take as long as the piece takes at the queue pair's share of the link.
 */
import type { MemberColumns } from '../../coordinator/ruler.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_QPT_UD } from '../../verbs/constants.ts';
import { packetBytes, RETH_BYTES } from '../kit/wire.ts';
import { BUSY_LARGE_QPS, NO_ROTATION, QUEUE_TENANTS, SLOT_STATE, SMALL_GBPS } from './columns.ts';
import { MOST_SMALL } from './demand.ts';
import { type Nic, type NicOptions, nicOf, pieceBytes } from './nic.ts';

/** The other tenants of the device, on which the number of 0_WAITs depends (from a member's grants). */
export interface ActiveTenants {
  /** Sending queue pairs of bandwidth tenants (n_B), including this one. */
  readonly busyLargeQps: number;
  /** Rate of small tenants on the wire, headers included. */
  readonly smallGbps: number;
  /** Small tenants that wait for answers, so that queueing in the FIFO affects their latency or rate. */
  readonly queueTenants: number;
  /** Whether they may fill the link, because no tenant suffers from queueing in the FIFO. */
  readonly mayFill?: boolean;
  /** Whether bandwidth tenants take tenant slots, so that the FIFO drains between them. */
  readonly rotate?: boolean;
}

/** The active tenants according to the coordinator's latest grants. */
export class GrantedTenants implements ActiveTenants {
  private readonly master: MemberColumns;
  private readonly slots: MemberColumns;

  constructor(master: MemberColumns, slots: MemberColumns) {
    this.master = master;
    this.slots = slots;
  }

  get busyLargeQps(): number {
    return this.master.grants[BUSY_LARGE_QPS];
  }

  get smallGbps(): number {
    return this.master.grants[SMALL_GBPS];
  }

  get queueTenants(): number {
    return this.master.grants[QUEUE_TENANTS];
  }

  get rotate(): boolean {
    return this.slots.grants[SLOT_STATE] !== NO_ROTATION;
  }
}

/** One bandwidth queue pair next to tenants that send almost nothing. */
export const ALONE: ActiveTenants = { busyLargeQps: 1, smallGbps: 0, queueTenants: 1 };

/** The options of perf that decide the number of 0_WAITs. */
export interface WaitPacerOptions {
  readonly waits: 'fixed' | 'adaptive';
  readonly subMsgSizeBytes: number;
  readonly zeroWaitUnitBytes: number;
  /** Part of the link that bandwidth tenants fill. The rest drains the FIFO. */
  readonly utilisation: number;
  /** Part of the peer's egress FIFO that READs of all bandwidth tenants may fill. */
  readonly readFifoPart: number;
  readonly nic: NicOptions;
  /**
   * Whether each tenant's rate is limited elsewhere, so that a queue pair only needs to leave gaps as if it were
   * alone.
   */
  readonly limited?: boolean;
}

/** Time for a CPU to write the first requests of a slot. */
const POST_NS = 500;
/**
 * The part of its share that a queue pair in turns uses when it has the link to itself next to latency tenants. A turn
 * begins before the 0_WAITs of the previous one are over, and a FIFO that has filled up stays full.
 */
const TURN_TAKER_PART = 0.985;
/** Interval between measurements of a queue pair's rate, in pieces sent at its share. */
const WINDOW_PIECES = 32;
/**
 * A queue pair below this part of its share is held back by something else, and 0_WAITs would slow it down further. A
 * limit equal to its share leaves 0.6 of the share with 0_WAITs.
 */
const HELD_BACK = 0.62;
/** From this part on, a queue pair counts as unhindered. */
const UNHINDERED = 0.95;
/**
 * The maximum time of its share that a queue is credited for having run dry, a few round trips. It is shorter next to
 * latency tenants, because a queue pair that catches up fills the FIFO together with another.
 */
const MAX_DRY_NS = 4000;
const MAX_DRY_WITH_D_NS = 2000;
/**
 * READs below READS_SHORT of their share may be too few for the round trip. The amount requested ahead then grows by
 * READS_STEP, up to READS_MAX times the usual. A step is kept if it gains at least READS_MIN_GAIN of its size;
 * otherwise the network is the limit, and the next attempt follows READS_RETRY_DELAY measurements later. At their share,
 * READs reduce the amount by READS_DECAY.
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
  /** By context; indices are reused. */
  private readonly nics: { of: ContextView; nic: Nic | null }[] = [];
  // By queue pair.
  /** fixed: bytes of whole messages not yet charged with a 0_WAIT; adaptive: nanoseconds of its share. */
  private debt: Float64Array = new Float64Array(64);
  /** Bytes issued so far. */
  private issued: Float64Array = new Float64Array(64);
  /** Time of the last rate measurement, and the bytes completed by then; NaN if idle since then. */
  private sinceNs: Float64Array = new Float64Array(64).fill(Number.NaN);
  private sinceBytes: Float64Array = new Float64Array(64);
  private isHeldBack: Uint8Array = new Uint8Array(64);
  /** Computed time at which the device finishes the issued requests and their 0_WAITs; NaN if unknown. */
  private finishNs: Float64Array = new Float64Array(64).fill(Number.NaN);
  /** READs: multiple of the usual amount, part of the share before the last step, and measurements until the next. */
  private readFactor: Float64Array = new Float64Array(64).fill(1);
  private rateBefore: Float64Array = new Float64Array(64);
  private readRetryDelay: Uint8Array = new Uint8Array(64);
  // The following fields are of the queue pair that is being fed.
  private nic: Nic | null = null;
  private index = 0;
  /** Time of one 0_WAIT; for datagrams, of an empty datagram. */
  private stepNs = 0;
  /**
   * Nanoseconds per byte at its share, and at the share that small tenants leave, whether or not they are considered.
   */
  private nsPerByte = 0;
  private leftoverNsPerByte = 0;
  /** Maximum credit for a queue that ran dry. */
  private maxDryNs = 0;
  /** Whether its 0_WAITs may be postponed to its next message, and whether nothing of it is in flight. */
  private runsDry = false;
  private isDry = false;
  /** Bytes of a piece, and of a piece of a READ. */
  pieceBytes: number;
  readPieceBytes: number;
  /** Bytes that it may request by READs before the first have arrived. */
  readBytes = Number.POSITIVE_INFINITY;

  constructor(options: WaitPacerOptions) {
    this.options = options;
    this.pieceBytes = options.subMsgSizeBytes;
    this.readPieceBytes = options.subMsgSizeBytes;
  }

  /** Changes the options from the next piece on. */
  configure(options: WaitPacerOptions): void {
    this.options = options;
    this.nics.length = 0;
    // They are 0_WAITs, or bytes, that the earlier options would have required.
    this.debt.fill(0);
    this.finishNs.fill(Number.NaN);
  }

  /** Clears the state of an earlier queue pair of the same index. */
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

  /**
   * Selects the queue pair to which the following calls refer. Turns already make a queue pair slower than its share.
   */
  select(qp: QpView, tenants: ActiveTenants, out: Actions, takesTurns = false, reads = false): void {
    const { options } = this;
    this.grow(qp.index);
    this.index = qp.index;
    const known = this.timedNic(qp.context, out);
    this.stepNs = (qp.type === IBV_QPT_UD ? known?.wqeGapNs : known?.waitStepNs) ?? 0;
    // A step of zero length cannot measure time.
    this.nic = this.stepNs > 0 ? known : null;
    const { nic } = this;
    if (nic === null) {
      this.pieceBytes = options.subMsgSizeBytes;
      this.readPieceBytes = options.subMsgSizeBytes;
      this.readBytes = Number.POSITIVE_INFINITY;
      return;
    }
    const sharers = options.limited === true ? 1 : Math.max(1, tenants.busyLargeQps);
    // Tenants that take less than their share are a fraction of a queue pair.
    const rivals = Math.round(sharers);
    this.pieceBytes = pieceBytes(nic, options.subMsgSizeBytes, takesTurns ? 1 : rivals);
    // 0_WAITs act at this end, while everything requested fills the peer's FIFO as soon as the requests arrive there.
    const times = this.readFactor[qp.index];
    // The usual number of outstanding READs (rd_atomic, mostly 16) is twice what READs of one packet need.
    this.readPieceBytes = Math.min(this.pieceBytes, nic.mtuBytes * Math.ceil(times / 2));
    const fifoBytes = nic.egressFifoBytes * options.readFifoPart;
    this.leftoverNsPerByte = this.leftoverNsPerByteOf(nic, tenants, sharers);
    // Next to one queue pair of large messages, queueing in the FIFO costs message-rate tenants little.
    const minds = tenants.queueTenants > 0 || rivals > 1;
    this.nsPerByte = minds
      ? this.leftoverNsPerByte
      : (8 * sharers) / (nic.linkGbps * this.usablePart(tenants));
    this.runsDry = !takesTurns;
    this.isDry = false;
    if (takesTurns) {
      this.pause(qp);
      const fills = rivals === 1 && tenants.rotate !== true && tenants.queueTenants > 0;
      if (fills) this.nsPerByte /= TURN_TAKER_PART;
      this.isHeldBack[qp.index] = 0;
      this.maxDryNs = 0;
    } else {
      this.maxDryNs = tenants.queueTenants > 0 ? MAX_DRY_WITH_D_NS : MAX_DRY_NS;
      // Without competitors there is nothing to catch up with.
      if (rivals === 1) this.maxDryNs = 0;
      this.measureRate(qp, out, reads);
      this.catchUp(qp, out);
    }
    this.readBytes = Math.max(this.readPieceBytes, (times * fifoBytes) / sharers);
  }

  /**
   * Credits a queue that ran dry between two messages, and so fell behind the others, with its share of that time: its
   * next 0_WAITs are reduced accordingly.
   */
  private catchUp(qp: QpView, out: Actions): void {
    const { index, finishNs, debt } = this;
    this.isDry = out.inflightBytes(qp) === 0;
    const nowNs = out.nowNs(qp.context);
    const dryNs = nowNs - finishNs[index];
    if (dryNs <= 0) return;
    // NaN means that it was paused.
    if (dryNs > 0 && this.isDry) debt[index] = Math.max(-this.maxDryNs, debt[index] - dryNs);
    finishNs[index] = nowNs;
  }

  private usablePart({ mayFill }: ActiveTenants): number {
    return mayFill === true ? 1 : this.options.utilisation;
  }

  /** Nanoseconds per byte of one of `sharers` queue pairs that share the link, less the rate of small tenants. */
  private leftoverNsPerByteOf(nic: Nic, tenants: ActiveTenants, sharers: number): number {
    const smallGbps = Math.min(tenants.smallGbps, MOST_SMALL * nic.linkGbps);
    return (8 * sharers) / ((nic.linkGbps - smallGbps) * this.usablePart(tenants));
  }

  /** Whether the number of 0_WAITs need not be an integer, so that even small messages have some. */
  get isExact(): boolean {
    return this.nic !== null;
  }

  /** Bytes that, with their 0_WAITs, take as long as the handover of a turn; 0 if unknown. */
  get handoverBytes(): number {
    return this.nic === null ? 0 : Math.floor(this.nic.handoverNs / this.nsPerByte);
  }

  /**
   * The delay after which the next tenant slot should begin, so that its first packet follows the last of `bytes` still
   * in flight. A delay of 0 or less means now; NaN means unknown.
   */
  handoverDelayNs(context: ContextView, tenants: ActiveTenants, bytes: number, out: Actions): number {
    const nic = this.timedNic(context, out);
    if (nic === null) return Number.NaN;
    // On average, half of the current piece has been sent. Completions are noticed late, and posted requests are sent
    // late.
    const gone = pieceBytes(nic, this.options.subMsgSizeBytes) / 2;
    const left = packetBytes(nic, Math.max(0, bytes - gone));
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
   * 0_WAITs behind a message, or the rest of one, that is issued whole. Short messages are charged together, because
   * rounding would overcharge each of them.
   * @param isLast the queue may run dry after it, which has the effect of 0_WAITs
   */
  waitsAfterWhole(bytes: number, isLast = false): number {
    const { index, nic } = this;
    this.issued[index] += bytes;
    if (nic !== null) return this.charge(nic, bytes, 1, 0, isLast && this.runsDry);
    const debtBytes = this.debt[index] + bytes;
    const waits = Math.floor(debtBytes / this.options.zeroWaitUnitBytes);
    this.debt[index] = debtBytes - waits * this.options.zeroWaitUnitBytes;
    return waits;
  }

  /** 0_WAITs before a message whose queue is dry: the rest of those that its predecessor postponed. */
  leadingWaits(): number {
    const { index, debt, stepNs } = this;
    if (this.nic === null || !this.isDry || debt[index] < stepNs) return 0;
    const waits = Math.floor(debt[index] / stepNs);
    debt[index] -= waits * stepNs;
    this.finishNs[index] += waits * stepNs;
    return waits;
  }

  /**
   * 0_WAITs for each of `count` pieces, so that together with earlier debt they take the time of their share.
   * @param later postpone them
   */
  private charge(nic: Nic, bytes: number, count: number, least: number, later = false): number {
    const { index, debt } = this;
    const stepsNs = count * this.stepNs;
    let waits = 0;
    if (this.isHeldBack[index] === 1) {
      debt[index] = 0;
    } else {
      // The one header that only the first packet has counts in short messages.
      const headerBytes = bytes < nic.mtuBytes ? RETH_BYTES : 0;
      const wireNs = (packetBytes(nic, bytes) + headerBytes) * this.nsPerByte;
      const total = debt[index] + count * (wireNs - nic.wqeGapNs);
      if (!later) waits = Math.max(least, Math.floor(total / stepsNs));
      debt[index] = Math.max(-this.maxDryNs, total - waits * stepsNs);
    }
    this.finishNs[index] += count * nic.wqeGapNs + waits * stepsNs;
    return waits;
  }

  /** Marks a queue pair without held requests, whose rate is meaningless from then on. */
  markIdle(qp: QpView): void {
    this.sinceNs[qp.index] = Number.NaN;
  }

  /** Marks a queue pair that is held elsewhere, whose silence is therefore meaningless too. */
  pause(qp: QpView): void {
    this.markIdle(qp);
    this.finishNs[qp.index] = Number.NaN;
  }

  /**
   * Detects congestion control in the NIC, under which a piece takes longer than its share and 0_WAITs come on top.
   */
  private measureRate(qp: QpView, out: Actions, reads: boolean): void {
    const { index, sinceNs, sinceBytes } = this;
    const nowNs = out.nowNs(qp.context);
    const done = this.issued[index] - out.inflightBytes(qp);
    const shareNs = this.pieceBytes * this.leftoverNsPerByte;
    const spanNs = nowNs - sinceNs[index];
    if (spanNs < WINDOW_PIECES * shareNs) return;
    // NaN at the first measurement, and at the first one after an idle period.
    if (spanNs >= WINDOW_PIECES * shareNs) {
      const part = ((done - sinceBytes[index]) * this.leftoverNsPerByte) / spanNs;
      if (part < HELD_BACK) this.isHeldBack[index] = 1;
      else if (part >= UNHINDERED) this.isHeldBack[index] = 0;
      const { mtuBytes } = this.nic!;
      if (reads) this.adaptReads(index, (part * packetBytes(this.nic!, mtuBytes)) / mtuBytes);
    }
    sinceNs[index] = nowNs;
    sinceBytes[index] = done;
  }

  /** Adapts the amount requested ahead by READs to the part of their share that they achieve. */
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

  /** The NIC, if the number of 0_WAITs follows from their time; otherwise null. */
  timedNic(context: ContextView, { wait }: Pick<Actions, 'wait'>): Nic | null {
    return this.options.waits === 'fixed' || wait === 'emulated' ? null : this.nicOf(context);
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
