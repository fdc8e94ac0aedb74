/**
 * Serves queue pairs in the order of a policy, and limits what is in flight. A NIC serves its queue pairs round robin,
 * so the order of a policy has an effect only while the device's own backlog is short: a window of about one round trip
 * of the link and two pieces.
 *
 * One puller serves one device. The policy calls `onQp`, `enlist` (from `feed`), `onCompleted` and `onTimer`, and gives
 * it an Order. Nothing is allocated per request, and everything except the Order takes O(1).
 */
import { NOTICE_BYTES } from '../../shim/peer/entries.ts';
import { takesReceive } from '../../shim/peer/outbox.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import { EventClock } from './event-clock.ts';
import { NONE, RunQueue } from './run-queue.ts';
import { BLOCKED, step } from './step.ts';
import { egressBytes, RETH_BYTES, type WireFacts, wireBytes } from './wire.ts';

/** Decides which queue pair is served next. Queue pairs are named by their indices. */
export interface Order {
  /**
   * A queue pair has something to send.
   * @param wireBytes what the next piece takes on the wire, for an order that `measures`; 0 for others
   */
  join(qp: number, wireBytes: number): void;
  /** A queue pair that had joined has nothing to send, or cannot send now. It may join again. */
  leave(qp: number): void;
  /**
   * The queue pair to serve next, out of those that have joined; NONE: none of them may be served before `wakeNs`.
   * @param nowNs the time of the event; 0 if the order `ignoresTime`
   */
  next(nowNs: number): number;
  /**
   * The queue pair that `next` returned was served this many bytes on the wire, in the direction that the request loads
   * more.
   */
  charge(qp: number, wireBytes: number): void;
  /** When to call `next` again after it returned NONE; Infinity: not before a queue pair joins. */
  readonly wakeNs: number;
  /** Whether `join` needs to know the length of the next piece, which takes time to find. */
  readonly measures?: boolean;
  /** Whether `next` does not need the time, which takes time to read. */
  readonly ignoresTime?: boolean;
  /** The window is full, so that `next` may be called after `wakeNs`. */
  onFull?(): void;
}

/** What a puller works with. */
export interface PullerOptions {
  readonly order: Order;
  readonly wire: WireFacts;
  /** Serving stops while requests that take this many bytes of the window (`loadOf`) are in flight; above 0. */
  readonly windowBytes: number;
  /** Longer messages are cut into pieces of this size. */
  readonly pieceBytes: number;
  /** Bytes of READs that one queue pair may have in flight; default: `windowBytes`. */
  readonly readAheadBytes?: number;
  /** The token of the puller's timer. */
  readonly token: number;
  /**
   * Issues a request, or a piece of at most `maxBytes`, as `step` does (the default). It may issue several pieces of one
   * request, of equal lengths: it then sets `pieces` of the puller, and returns the message bytes of all of them. What it
   * issues on other queue pairs does not count towards the window.
   */
  readonly issue?: typeof step;
  /** What a request takes of the window; default: its bytes on the link out of the device. */
  readonly loadOf?: typeof egressBytes;
  /**
   * The part of what a queue pair has in flight that counts towards the window, from 0 to 1; default: all.
   * @param inflight its requests in flight, and `bytes` their bytes on the wire
   */
  readonly countedPart?: (qp: number, inflight: number, bytes: number) => number;
  /** What a queue pair has in flight does not count any more, although it has not completed. */
  readonly onStall?: () => void;
  /** The clock of a policy that tells it when an event begins; default: one of the puller's own. */
  readonly clock?: EventClock;
}

/**
 * Default of `stallNs`. A queue pair without a completion for this long, while others wait for the full window, waits for
 * its peer (RNR, rd_atomic) or for its application to poll. So that it does not hold up others, what it has in flight does
 * not count until it completes.
 */
export const STALL_NS = 100_000;

/** Words of a queue pair's state, as a power of two. */
const STATE_BITS = 3;
/** Bytes on the wire in flight, and the sum of the message bytes and slots that they belong to. */
const LOAD = 0;
const INFLIGHT = 1;
/** The watch in which the queue pair last completed something, or was issued something while it had nothing in flight. */
const PROGRESS = 2;
/** 1 if what the queue pair has in flight does not count. */
const STALLED = 3;
/** What of LOAD is in `used`. */
const COUNTED = 4;
/** 1 if the oldest message that takes a receive has been cut. */
const CUT = 5;
/** Message bytes and slots that the queue pair has sent past the puller, behind LOAD. */
const BEHIND = 6;
/** Words of the lengths: the window, and what is refilled at once. */
const WINDOW = 0;
const REFILL = 1;
/** Words of the timer: the number of times that the puller has begun to watch a full window, and when this watch ends. */
const WATCH = 0;
const WATCH_ENDS_NS = 1;

/** Serves the queue pairs of one device. */
export class Puller {
  /** The longest piece. It may be changed; a change applies from the next piece on. */
  pieceBytes: number;
  /** `windowBytes` and `refillBytes`. In an array, because V8 allocates a double that is stored in a field. */
  private readonly lengths = new Float64Array(2);
  /** The number of pieces that `issue` has just issued, if it is not 1. */
  pieces = 1;
  /** Time without a completion after which a queue pair is left out of the window. Longer windows take longer to send. */
  stallNs = STALL_NS;
  private readonly options: PullerOptions;
  private readonly qps: (QpView | undefined)[] = [];
  /** Queue pairs that have joined the order. */
  private readonly enlisted = new RunQueue();
  /** Queue pairs with something in flight that counts, the one without progress for the longest time first. */
  private readonly flying = new RunQueue();
  /** By queue pair: the words above. One array takes fewer loads than five. */
  private states: Float64Array = new Float64Array(64 << STATE_BITS);
  /** [0] Bytes on the wire in flight, except those of stalled queue pairs. */
  private readonly used = new Float64Array(1);
  private readonly order: Order;
  private readonly issue: typeof step;
  private readonly clock: EventClock;
  private readonly ownsClock: boolean;
  private readonly watch = Float64Array.of(0, Number.POSITIVE_INFINITY);
  private readonly loadOf: typeof egressBytes;
  private readonly countedPart: PullerOptions['countedPart'];
  /** What was priced last, and its lengths on the wire: nearly all pieces are alike. */
  private pricedOpcode = -1;
  private pricedBytes = 0;
  private wireBytes = 0;
  /** What it counts towards the window, in bytes on the wire. */
  loadBytes = 0;
  /** The notice of a message in pieces, on the wire. */
  private readonly noticeBytes: number;

  constructor(options: PullerOptions) {
    this.options = options;
    this.order = options.order;
    this.issue = options.issue ?? step;
    this.loadOf = options.loadOf ?? egressBytes;
    this.countedPart = options.countedPart;
    this.clock = options.clock ?? new EventClock();
    this.ownsClock = options.clock === undefined;
    this.windowBytes = options.windowBytes;
    this.pieceBytes = options.pieceBytes;
    const { wire } = options;
    this.noticeBytes = egressBytes(wire, IBV_WR_RDMA_WRITE, NOTICE_BYTES);
  }

  /** The most bytes on the wire in flight. */
  get windowBytes(): number {
    return this.lengths[WINDOW];
  }

  /** Applies from the next piece on. */
  set windowBytes(bytes: number) {
    this.lengths[WINDOW] = bytes;
  }

  /**
   * Serving stops when the window is exceeded by half of this, and resumes when half of this is free, so that several short
   * requests go in one post instead of one in each of several posts.
   */
  get refillBytes(): number {
    return this.lengths[REFILL];
  }

  /** Applies from the next piece on. */
  set refillBytes(bytes: number) {
    this.lengths[REFILL] = bytes;
  }

  /** Bytes on the wire that are in flight, as far as is known, and that count towards the window. */
  get usedBytes(): number {
    return this.used[0];
  }

  /** Bytes on the wire that a queue pair has in flight. */
  flyingBytes(qp: number): number {
    return this.states[(qp << STATE_BITS) + LOAD];
  }

  /** How many pieces fill the window. Known only if a piece was issued last, otherwise 1. */
  get mostPieces(): number {
    const leftBytes = this.windowBytes - this.used[0];
    const isKnown = this.pricedBytes === this.pieceBytes && leftBytes > this.loadBytes;
    return isKnown ? Math.ceil(leftBytes / this.loadBytes) : 1;
  }

  /** A queue pair was created, modified or destroyed. */
  onQp(qp: QpView, change: QpChange, out: Actions): void {
    const { index } = qp;
    if (change === 'created') {
      this.states = fitColumn(this.states, (index << STATE_BITS) + BEHIND);
      this.states[(index << STATE_BITS) + BEHIND] = 0;
      this.states[(index << STATE_BITS) + STALLED] = 0;
      this.states[(index << STATE_BITS) + CUT] = 0;
      this.qps[index] = qp;
      return;
    }
    if (this.qps[index] === undefined) return;
    if (change === 'destroyed') {
      this.delist(index);
      this.states[(index << STATE_BITS) + LOAD] = 0;
      this.count(index, 0);
      this.qps[index] = undefined;
      // The timer may have been one of its context, which may be about to close.
      this.watch[WATCH_ENDS_NS] = Number.POSITIVE_INFINITY;
    } else {
      if (out.backlog(qp) === 0) this.states[(index << STATE_BITS) + CUT] = 0;
      // After a RESET, nothing of the queue pair is in flight, and no completion reports this.
      this.settle(qp, out);
    }
    this.pull(out);
  }

  /** The queue pair holds requests that may be issued. */
  enlist(qp: QpView, out: Actions): void {
    this.join(qp, out);
    this.pull(out);
  }

  private join(qp: QpView, out: Actions): void {
    const { index } = qp;
    if (this.states[(index << STATE_BITS) + STALLED] === 1 || this.enlisted.has(index)) return;
    this.enlisted.push(index);
    this.order.join(index, this.order.measures === true ? this.nextWireBytes(qp, out) : 0);
  }

  private nextWireBytes(qp: QpView, out: Actions): number {
    const bytes = out.nextBytes(qp);
    // The message must wait for a look at the peer's receives.
    if (bytes < 0) return this.pieceBytes;
    this.price(out.nextOpcode(qp), Math.min(bytes, this.pieceBytes));
    return this.wireBytes;
  }

  /**
   * The queue pair has sent something past the puller. It completes after what the queue pair has in flight.
   * @param sent message bytes and slots
   */
  passed(qp: number, sent: number): void {
    const at = qp << STATE_BITS;
    if (this.states[at + LOAD] > 0) this.states[at + BEHIND] += sent;
  }

  /** Completions of the queue pair have arrived. */
  onCompleted(qp: QpView, out: Actions): void {
    if (this.qps[qp.index] === undefined) return;
    this.states[(qp.index << STATE_BITS) + PROGRESS] = this.watch[WATCH];
    // The queue pair moves to the end, because it has just made progress.
    this.flying.moveToEnd(qp.index);
    this.settle(qp, out);
    if (out.backlog(qp) > 0) this.join(qp, out);
    this.pull(out);
  }

  /** The timer with the puller's token has expired. */
  onTimer(out: Actions): void {
    const first = this.enlisted.first();
    if (first === NONE) {
      this.watch[WATCH_ENDS_NS] = Number.POSITIVE_INFINITY;
      return;
    }
    if (this.ownsClock) this.clock.begin();
    const { watch, flying, states } = this;
    if (this.clock.nowNs(this.qps[first]!.context, out) >= watch[WATCH_ENDS_NS]) {
      watch[WATCH_ENDS_NS] = Number.POSITIVE_INFINITY;
      for (let index = flying.first(); index !== NONE && this.isFull; index = flying.first()) {
        if (states[(index << STATE_BITS) + PROGRESS] >= watch[WATCH]) break;
        this.stall(index);
      }
    }
    this.serveAll(out);
  }

  /** Serves what can be served in an event that the policy has reported. */
  private pull(out: Actions): void {
    if (this.ownsClock) this.clock.begin();
    this.serveAll(out);
  }

  /** Whether serving does not resume. */
  private get isFull(): boolean {
    return this.used[0] >= this.windowBytes - this.refillBytes / 2;
  }

  /** Serves queue pairs until the window is full or the order has none, and sets a timer for what comes next. */
  private serveAll(out: Actions): void {
    const { order, enlisted, qps, clock, used } = this;
    let fullBytes = this.windowBytes - this.refillBytes / 2;
    for (let first = enlisted.first(); first !== NONE; first = enlisted.first()) {
      if (used[0] >= fullBytes && this.flying.first() !== NONE) {
        order.onFull?.();
        if (this.watch[WATCH_ENDS_NS] === Number.POSITIVE_INFINITY) this.beginWatch(qps[first]!.context, out);
        return;
      }
      const { context } = qps[first]!;
      const index = order.next(order.ignoresTime === true ? 0 : clock.nowNs(context, out));
      if (index === NONE) {
        // The timer of a watch, if there is one, moves.
        this.watch[WATCH_ENDS_NS] = Number.POSITIVE_INFINITY;
        out.timer(context, order.wakeNs, this.options.token);
        return;
      }
      if (!this.serve(qps[index]!, out)) this.delist(index);
      fullBytes = this.windowBytes + this.refillBytes / 2;
    }
  }

  /** From now on, queue pairs must complete something before `stallNs` have passed. */
  private beginWatch(context: ContextView, out: Actions): void {
    const { watch } = this;
    watch[WATCH]++;
    watch[WATCH_ENDS_NS] = this.clock.nowNs(context, out) + this.stallNs;
    out.timer(context, watch[WATCH_ENDS_NS], this.options.token);
  }

  /** Issues a request, or one or several pieces of one. Returns false if nothing more can be issued for now. */
  private serve(qp: QpView, out: Actions): boolean {
    const { index } = qp;
    if (out.backlog(qp) === 0) return false;
    const opcode = out.nextOpcode(qp);
    if (opcode === IBV_WR_RDMA_READ && this.awaitsReads(qp, out)) return false;
    const before = out.inflight(qp);
    const left = takesReceive(opcode) ? out.nextBytes(qp) : 0;
    this.pieces = 1;
    const bytes = this.issue(qp, out, this.pieceBytes);
    if (bytes === BLOCKED) return false;
    const inflight = out.inflight(qp);
    const { pieces } = this;
    const pieceBytes = pieces === 1 ? bytes : bytes / pieces;
    this.price(opcode, pieceBytes);
    this.order.charge(
      index,
      pieces * this.wireBytes + (left > 0 ? this.cutBytes(index, opcode, left, bytes) : 0),
    );
    if (this.issue === step || inflight > before) {
      const { states } = this;
      const at = index << STATE_BITS;
      if (!this.flying.has(index)) states[at + PROGRESS] = this.watch[WATCH];
      states[at + INFLIGHT] = out.inflightBytes(qp) + inflight;
      states[at + BEHIND] = 0;
      states[at + LOAD] += pieces * this.loadBytes;
      this.count(index, inflight);
    }
    if (out.backlog(qp) > 0) return true;
    // Otherwise, no completion might report these bytes: the shim requests completions only while it holds more.
    out.signalNow(qp);
    return false;
  }

  /**
   * What a message that takes a receive takes besides if it goes in pieces. Those are WRITEs; after the last one follow
   * the notice, and the request without data.
   * @param left what was left of it before these bytes
   */
  private cutBytes(index: number, opcode: number, left: number, bytes: number): number {
    const at = (index << STATE_BITS) + CUT;
    const wasCut = this.states[at] === 1;
    const isLast = bytes === left;
    if (isLast && !wasCut) return 0;
    this.states[at] = isLast ? 0 : 1;
    const { wire } = this.options;
    const emptyBytes = egressBytes(wire, opcode, 0);
    const morePerPiece = RETH_BYTES + wire.headerBytes - emptyBytes;
    return this.pieces * morePerPiece + (isLast ? this.noticeBytes + emptyBytes : 0);
  }

  /** Computes the lengths on the wire of a request of this opcode with `bytes` of data, unless they are known. */
  price(opcode: number, bytes: number): void {
    if (opcode === this.pricedOpcode && bytes === this.pricedBytes) return;
    const { wire } = this.options;
    this.pricedOpcode = opcode;
    this.pricedBytes = bytes;
    this.wireBytes = wireBytes(wire, opcode, bytes);
    this.loadBytes = this.loadOf(wire, opcode, bytes);
  }

  /** Whether enough READs are in flight. More than the device allows (rd_atomic) would hold up what follows. */
  private awaitsReads(qp: QpView, out: Actions): boolean {
    const flying = out.inflightBytes(qp);
    if (flying === 0) return false;
    const most = this.options.readAheadBytes ?? this.windowBytes;
    return flying + Math.min(out.nextBytes(qp), this.pieceBytes) > most;
  }

  /** Takes a queue pair out of the order until `enlist` is called for it. */
  private delist(index: number): void {
    if (!this.enlisted.has(index)) return;
    this.enlisted.remove(index);
    this.order.leave(index);
  }

  /** Leaves a queue pair out of the window until it completes something. */
  private stall(index: number): void {
    this.options.onStall?.();
    this.delist(index);
    this.states[(index << STATE_BITS) + STALLED] = 1;
    this.used[0] -= this.states[(index << STATE_BITS) + COUNTED];
    this.states[(index << STATE_BITS) + COUNTED] = 0;
    this.land(index);
  }

  /**
   * Counts what is left in flight. Requests of one queue pair complete in order, so the part of its bytes and slots that
   * is left stands for the same part of its load.
   */
  private settle(qp: QpView, out: Actions): void {
    const { index } = qp;
    const { states } = this;
    const at = index << STATE_BITS;
    const before = states[at + INFLIGHT];
    const inflight = out.inflight(qp);
    const left = Math.max(0, out.inflightBytes(qp) + inflight - states[at + BEHIND]);
    states[at + INFLIGHT] = left;
    states[at + LOAD] *= before > 0 ? Math.min(1, left / before) : 0;
    this.count(index, inflight);
  }

  /** What a queue pair has in flight (LOAD) has changed. Counts it, and ends its stall. */
  private count(index: number, inflight: number): void {
    const { states, countedPart } = this;
    const at = index << STATE_BITS;
    const bytes = states[at + LOAD];
    const isWhole = countedPart === undefined || bytes === 0;
    const counted = isWhole ? bytes : bytes * countedPart(index, inflight, bytes);
    this.used[0] += counted - states[at + COUNTED];
    states[at + STALLED] = 0;
    states[at + COUNTED] = counted;
    if (bytes > 0) this.flying.push(index);
    else this.land(index);
  }

  /** The queue pair no longer has anything in flight that counts. */
  private land(index: number): void {
    this.flying.remove(index);
    // Sums of doubles drift.
    if (this.flying.first() === NONE) this.used[0] = 0;
  }
}
