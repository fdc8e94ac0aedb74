/**
 * One direction of a device's link, with a window of bytes on the wire and the order in which queue pairs share it: out of
 * the device, or, for READs, into it.
 */
import { takesReceive } from '../../shim/peer/outbox.ts';
import type { Actions, QpChange, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_QPT_UD, IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import type { EventClock } from '../kit/event-clock.ts';
import { Puller } from '../kit/puller.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, type WireFacts } from '../kit/wire.ts';
import { Lateness } from './lateness.ts';
import { mostDelayNs, type Opposite, waitingBytes } from './opposite.ts';
import { Pace, SLOW_PIECE_BYTES } from './pace.ts';
import { Paths } from './paths.ts';
import { evenBytes, PieceLength } from './piece-length.ts';
import { Reports } from './reports.ts';
import { RoundTrip } from './round-trip.ts';
import { Rows } from './rows.ts';
import { Spacing } from './spacing.ts';
import { held, type TurnOrder } from './turn-order.ts';
import { WholeMessages } from './whole-messages.ts';
import type { LoadOf, Takes, WindowOptions } from './window-options.ts';
import * as S from './window-sizes.ts';

/** One direction of the link. */
export class Direction<Turns extends TurnOrder> implements Opposite {
  readonly order: Turns;
  readonly puller: Puller;
  /** The part of the window that this process may use. */
  part = 1;
  /** Whether other processes share the device. Requests may then take long because of their traffic. */
  isSteered = false;
  /** The other direction of the link, once there is one. */
  other: Direction<Turns> | null = null;
  private readonly takes: Takes;
  private readonly wire: WireFacts;
  private readonly loadOf: LoadOf;
  private readonly clock: EventClock;
  readonly pace: Pace;
  private readonly pieceLength = new PieceLength();
  private readonly spacing = new Spacing();
  /** By queue pair: 1 if one of its requests has belonged here. Completions of other queue pairs are ignored. */
  private isUsed: Uint8Array = new Uint8Array(64);
  private readonly roundTrip: RoundTrip;
  window: WindowOptions;
  readonly sizes = new S.WindowSizes();
  private readonly lateness = new Lateness(this.sizes);
  /** The last round with a message shorter than a piece. */
  private shortRound = Number.NEGATIVE_INFINITY;
  roundTripNs = 0;
  private readonly rows = new Rows();
  private readonly reports = new Reports();
  private readonly paths = new Paths();
  /** Whether the queue pair in service belongs to a tenant that is alone, and sends short messages. */
  private isSoleNow = false;
  readonly whole = new WholeMessages();

  /** @param token the token of this direction's timer */
  constructor(
    takes: Takes,
    order: Turns,
    window: WindowOptions,
    { wire, loadOf, token, clock }: { wire: WireFacts; loadOf: LoadOf; token: number; clock: EventClock },
  ) {
    this.takes = takes;
    this.wire = wire;
    this.loadOf = loadOf;
    this.clock = clock;
    this.window = window;
    this.roundTrip = new RoundTrip(window.linkPerNs);
    this.pace = new Pace(window.linkPerNs);
    this.order = order;
    this.puller = new Puller({
      order: this.order,
      wire,
      windowBytes: 1,
      pieceBytes: 1,
      readAheadBytes: Number.POSITIVE_INFINITY,
      token,
      clock,
      issue: this.issue,
      loadOf,
      countedPart: (qp, inflight, bytes) => this.countedPart(qp, inflight, bytes),
      // An empty window then shows nothing about the round trip.
      onStall: () => {
        const { puller, roundTrip } = this;
        const { patienceNs } = roundTrip;
        roundTrip.gaveUp();
        if (roundTrip.patienceNs < patienceNs) this.fit();
        else puller.stallNs = Math.max(puller.stallNs, roundTrip.patienceNs);
      },
    });
    this.fit();
  }

  /** Changes what the window depends on. */
  configure(window: WindowOptions): void {
    this.window = window;
    this.fit();
  }

  /** The round trip is no longer what was measured. */
  remeasure(): void {
    this.roundTrip.restart();
  }

  /** Fits the window to the round trip and the length of pieces. */
  private fit(): void {
    const { puller, sizes, window, lateness } = this;
    this.roundTripNs = this.roundTrip.ns || Math.max(window.roundTripNs, this.roundTrip.leastNs);
    sizes.fit(window, this.wire, this.roundTripNs);
    lateness.fit(window);
    puller.pieceBytes = sizes.longestBytes;
    puller.windowBytes = sizes.windowBytes;
    this.pace.expectedNs = this.roundTripNs + sizes.windowBytes / window.linkPerNs;
    const fullNs = Math.min(this.pace.expectedNs, S.MOST_EXPECTED_NS) + lateness.coveredNs;
    puller.stallNs = Math.max(this.roundTrip.patienceNs, S.STALL_WINDOWS * fullNs);
    this.rows.fit(window, this.roundTripNs + lateness.coveredNs, sizes.spareBytes);
  }

  /** A queue pair was created. */
  add(qp: QpView, out: Actions): void {
    this.order.reset(qp.index);
    this.isUsed = fitColumn(this.isUsed, qp.index);
    this.isUsed[qp.index] = 0;
    const { pace, lateness, spacing, pieceLength, whole, reports, paths } = this;
    for (const part of [pace, spacing, pieceLength, whole, reports, paths]) part.reset(qp.index);
    lateness.add(qp);
    this.roundTrip.changed(qp, 'created');
    this.puller.onQp(qp, 'created', out);
  }

  /** A queue pair was modified, or destroyed. */
  changed(qp: QpView, change: QpChange, out: Actions): void {
    this.roundTrip.cancel();
    this.lateness.of(qp.index).reset(qp.index);
    this.paths.land(qp.index);
    if (change === 'state') this.pace.reset(qp.index);
    if (change === 'destroyed') this.lateness.remove(qp);
    this.roundTrip.changed(qp, change);
    this.puller.onQp(qp, change, out);
    // Its requests may have been flushed.
    if (change === 'destroyed' || out.backlog(qp) === 0) this.order.release(qp.index);
  }

  /** The oldest held request of a queue pair belongs here. */
  enlist(qp: QpView, out: Actions): void {
    this.isUsed[qp.index] = 1;
    this.puller.enlist(qp, out);
  }

  /** Whether nothing waits, nothing that has waited is in flight, and no other process shares the device. */
  get isUnused(): boolean {
    return this.puller.usedBytes === 0 && this.order.isIdle === true && !this.isSteered;
  }

  /** Whether a long message that cannot be cut is in flight. The device sends others in turns with it in any case. */
  get isOverrun(): boolean {
    const { whole, puller } = this;
    return whole.has(whole.last) && puller.flyingBytes(whole.last) > this.sizes.windowBytes;
  }

  /** Whether messages of this length occupy their queue pair for longer than the link, where they do not queue then. */
  isShort(bytes: number): boolean {
    return this.rows.isShort(bytes);
  }

  /** Whether requests of a queue pair have belonged here. */
  readonly uses = (qp: number): boolean => this.isUsed[qp] === 1;

  onCompleted(qp: QpView, out: Actions): void {
    if (this.isUsed[qp.index] === 0) return;
    const { index } = qp;
    const inflight = out.inflight(qp);
    const { roundTrip, clock } = this;
    if (roundTrip.isWaitedInVain && roundTrip.completed(index, clock.nowNs(qp.context, out))) this.fit();
    if (this.lateness.of(index).awaits(index)) this.followed(qp, out);
    else if (this.pace.isDone(index, inflight)) this.timed(qp, inflight, out);
    this.puller.onCompleted(qp, out);
    if (inflight === 0) this.paths.land(index);
    // What was held here may have gone first, as an urgent message.
    if (out.backlog(qp) === 0) this.order.release(index);
    if (this.puller.usedBytes === 0) this.drained(qp, out);
  }

  /** A request that was timed has completed. If it did so late, the next completion shows why. */
  private timed(qp: QpView, inflight: number, out: Actions): void {
    const { pace } = this;
    const { index } = qp;
    const polls = this.lateness.of(index);
    const expectedNs = pace.expectedNs + polls.coveredNs;
    const nowNs = this.clock.nowNs(qp.context, out);
    if (this.roundTrip.isSampling(index)) {
      pace.completed(index, nowNs, this.sentBytes, true);
      if (this.roundTrip.timed(index, pace.lateNs(index, nowNs))) this.fit();
      return;
    }
    // Short messages also complete at once one after another if their peer had no receives. A 0_WAIT is in flight, too.
    const isBulk = inflight > 0 && 4 * out.inflightBytes(qp) > inflight * this.puller.pieceBytes;
    const lateNs = isBulk ? pace.lateNs(index, nowNs) : 0;
    const isLate = polls.isLate(lateNs, expectedNs);
    if (isLate && !polls.isAwaiting) {
      const eachNs = pace.takenNs(index, nowNs) / inflight;
      const usedPart = pace.usedPart(index, nowNs, this.sentBytes);
      const usualBytes = this.isSlow(index) ? SLOW_PIECE_BYTES : this.puller.pieceBytes;
      const pieceNs = this.lateness.pieceBytesOf(index, usualBytes) / this.window.linkPerNs;
      polls.suspect(index, { lateNs, usedPart, eachNs, pieceNs }, nowNs);
    } else this.paceEnded(index, nowNs, isLate && polls.ns > 0, isBulk);
    if (polls.expire(lateNs, expectedNs, nowNs)) this.fit();
  }

  /** The first completion after one that may have been polled late. */
  private followed(qp: QpView, out: Actions): void {
    const polls = this.lateness.of(qp.index);
    const { ns } = polls;
    const nowNs = this.clock.nowNs(qp.context, out);
    this.paceEnded(qp.index, nowNs, polls.next(nowNs), true);
    if (polls.ns !== ns) this.fit();
  }

  /** The request of a queue pair that was being timed has completed. @param isLate whether it may have been polled late */
  private paceEnded(index: number, nowNs: number, isLate: boolean, isBulk: boolean): void {
    const { pace, paths, sizes, roundTripNs, sentBytes } = this;
    if (isBulk && !isLate && this.followsPath(index))
      paths.timed(index, pace, nowNs, sentBytes, roundTripNs + mostDelayNs(this.other), 1 / sizes.leastPart);
    pace.completed(index, nowNs, sentBytes, isLate, this.lateness.of(index).coveredNs);
  }

  /** Whether what a queue pair has in flight follows what its path carries. */
  private followsPath(index: number): boolean {
    const isWatched = this.window.followsPaths && !this.isSteered && !this.isPaced(index);
    return isWatched && !this.roundTrip.isUnacked(index);
  }

  /** Bytes on the wire that all queue pairs have sent. */
  get sentBytes(): number {
    return this.order.servedBytes ?? this.order.totalBytes;
  }

  /** What was in flight has completed. While others wait, this is noticed with the next request. */
  private drained(qp: QpView, out: Actions): void {
    this.paths.idle();
    if (this.roundTrip.isAwaited && this.roundTrip.drained(this.clock.nowNs(qp.context, out))) this.fit();
  }

  /**
   * The part of what a queue pair has in flight that counts towards the window. While polls are late, the rest of what is
   * paced has completed, and waits for them.
   */
  private countedPart(qp: number, inflight: number, bytes: number): number {
    if (this.isSlow(qp)) return 0;
    const { whole, pieceLength, part, roundTripNs } = this;
    const { windowBytes, longestWireBytes } = this.sizes;
    const lateBytes = this.order.lateBytes?.(qp) ?? 0;
    const polled = this.lateness.partOf(qp);
    if (lateBytes > 0) return polled * Math.max(1 - lateBytes / bytes, Math.min(1, longestWireBytes / bytes));
    if (whole.has(qp)) return whole.countedPart(bytes, windowBytes * part, pieceLength.isQuiet);
    const rowPart = polled * this.rows.countedPart(inflight, bytes, roundTripNs);
    if (!this.followsPath(qp)) return rowPart;
    this.paths.fly(qp, this.roundTrip.of(qp));
    return rowPart * this.paths.partOf(qp);
  }

  private isSlow(qp: number): boolean {
    return !this.isSteered && this.pace.isSlow(qp) && !this.isPaced(qp);
  }

  private isPaced(qp: number): boolean {
    return this.order.paces?.(qp) === true;
  }

  /** Whether a tenant is alone with short messages. These may wait in their queue pairs: to hold them costs time. */
  isSole(qp: QpView, bytes: number, out: Actions): boolean {
    const { order } = this;
    if (order.isSole === undefined || this.isSteered || !this.window.followsPaths) return false;
    return this.isShort(bytes) && order.isSole(qp.index, this.clock.nowNs(qp.context, out));
  }

  /** Whether a queue pair has the most messages in flight that it may have. */
  isFull(qp: QpView, out: Actions): boolean {
    return out.inflight(qp) >= this.rows.mostMessages;
  }

  /**
   * The same, unless only this queue pair waits, with a short message. Then all its short messages may wait in its own
   * queue, so that they cost the application's core nothing more.
   */
  private isFullNow(qp: QpView, out: Actions): boolean {
    const { index } = qp;
    const { sizes, lateness, puller, paths } = this;
    const mostBytes = paths.mostBytes(index, (sizes.windowBytes * this.part) / lateness.partOf(index));
    if (puller.flyingBytes(index) >= mostBytes || sizes.isAtLimit(index, this)) return true;
    if (this.isSoleNow || !this.isFull(qp, out) || this.order.lateBytes?.(index)) return false;
    return this.window.queuedMessages === 0 || this.order.isShared || !this.isShort(out.nextBytes(qp));
  }

  /** Issues a request, or pieces of one (PullerOptions.issue). */
  private readonly issue = (qp: QpView, out: Actions, usualBytes: number): number => {
    const { order, pace, puller, whole, window } = this;
    const { index } = qp;
    if (!this.takes(qp, out)) return BLOCKED;
    const isSlow = this.isSlow(index);
    const isPaced = this.isPaced(index);
    this.isSoleNow = !isPaced && this.isSole(qp, out.nextBytes(qp), out);
    if (isSlow ? out.inflightBytes(qp) >= pace.flightBytes(index) : this.isFullNow(qp, out))
      return held(order, index);
    const isLate = this.lateness.isLate(index);
    const pieceBytes = this.lateness.pieceBytesOf(index, usualBytes);
    if (isLate && !isSlow && !isPaced) this.space(qp, out);
    const opcode = out.nextOpcode(qp);
    const isSteady = !isSlow && !isLate && !this.roundTrip.isMeasuring;
    const several = isSteady && order.isOneTenant !== false && order.creditOf(index) >= 2 * pieceBytes;
    const leftBytes = out.nextBytes(qp);
    // All but the last piece, which may be shorter.
    const pieces = several ? Math.min(puller.mostPieces, Math.ceil(leftBytes / pieceBytes) - 1) : 1;
    const isWhole = leftBytes > pieceBytes && !isLate && this.goesWhole(qp, leftBytes, out);
    const mostBytes = isWhole ? leftBytes : this.fitPiece(index, pieceBytes, leftBytes);
    const bytes = step(qp, out, isSlow ? SLOW_PIECE_BYTES : mostBytes);
    if (bytes === BLOCKED) return held(order, index);
    const isUncut = !isSlow && !isPaced && bytes > Math.max(pieceBytes, this.sizes.windowBytes);
    whole.sent(index, isUncut, bytes, window);
    if (isUncut) whole.sinceNs = this.clock.nowNs(qp.context, out);
    puller.stallNs = Math.max(puller.stallNs, whole.stallNs);
    this.issued(qp, bytes, out);
    if (isPaced && this.roundTrip.isUnknown(index)) this.timePaced(qp, opcode, bytes, out);
    else if (pace.isDue(index, out.inflight(qp))) this.beginTiming(qp, out);
    if (isSlow) return bytes;
    this.time(qp, opcode, bytes, out);
    const isPiece = bytes === pieceBytes;
    const moreBytes = pieces < 2 || !isPiece ? 0 : this.issueMore(qp, out, pieces - 1);
    if (window.fitsPieces) {
      this.pieceLength.issued(puller.loadBytes * puller.pieces, isPiece || isWhole);
      this.pieceLength.cut(index, leftBytes, bytes + moreBytes);
    }
    return bytes + moreBytes;
  };

  /**
   * Whether what is left of a message is at most the longest piece, or else the window has room for it and nothing waits
   * behind it. In pieces, as much would be in flight, and the device would fetch the pieces one after another.
   */
  private goesWhole(qp: QpView, leftBytes: number, out: Actions): boolean {
    const { order, window } = this;
    const { longestBytes, windowBytes } = this.sizes;
    if (!window.fitsPieces || leftBytes > S.WHOLE_PIECES * longestBytes) return false;
    if (leftBytes <= longestBytes) return order.creditOf(qp.index) >= leftBytes;
    if (order.isShared || out.backlog(qp) > 1) return false;
    const roomBytes = windowBytes * this.part * (1 - this.pieceLength.passedPart) - this.puller.usedBytes;
    return egressBytes(this.wire, IBV_WR_RDMA_WRITE, leftBytes) <= roomBytes;
  }

  /** While polls are late, 0_WAITs keep the pieces of a queue pair apart, if the device supports them. */
  private space(qp: QpView, out: Actions): void {
    if (this.window.waitStepNs === 0 || qp.type === IBV_QPT_UD || out.room(qp) < 4) return;
    const nowNs = this.clock.nowNs(qp.context, out);
    const pieceBytes = this.lateness.pieceBytesOf(qp.index, this.puller.pieceBytes);
    const waits = this.spacing.waits(qp.index, nowNs, this.sentBytes, pieceBytes, this.window);
    if (waits === 0) return;
    out.zeroWaits(qp, waits);
    this.count(qp.index);
  }

  /** Times the request that was issued last. */
  private beginTiming(qp: QpView, out: Actions): void {
    const { puller, roundTripNs, window, pieceLength } = this;
    const nowNs = this.clock.nowNs(qp.context, out);
    // It waits for what is in flight at the link, or in the queue of its queue pair, and in the other direction.
    const linkPerNs = window.linkPerNs * (1 - pieceLength.passedPart);
    const queueNs = Math.max(puller.usedBytes / linkPerNs, out.inflight(qp) * window.gapNs);
    this.pace.time(qp.index, nowNs, nowNs + roundTripNs + queueNs + mostDelayNs(this.other), this.sentBytes);
  }

  /** Times the request that was issued last, of a queue pair with a rate, if that shows the round trip. */
  private timePaced(qp: QpView, opcode: number, bytes: number, out: Actions): void {
    const { pace, puller, window, wire, roundTrip } = this;
    if (bytes < puller.pieceBytes / 2 || !pace.isDue(qp.index, out.inflight(qp))) return;
    out.signalNow(qp);
    roundTrip.beginSample(qp.index);
    const nowNs = this.clock.nowNs(qp.context, out);
    pace.time(qp.index, nowNs, nowNs + this.loadOf(wire, opcode, bytes) / window.linkPerNs, this.sentBytes);
  }

  /** Issues more pieces of a message, one of which was issued, as far as its chunk goes. Returns their bytes. */
  private issueMore(qp: QpView, out: Actions, most: number): number {
    const { order, puller } = this;
    const { pieceBytes } = puller;
    let n = 0;
    for (; n < most && this.reports.inRow > 0 && order.creditOf(qp.index) >= pieceBytes; n++) {
      // The last slot is kept for whole messages.
      if (out.room(qp) < 2 || this.isFull(qp, out)) break;
      out.piece(qp, pieceBytes);
      this.issued(qp, pieceBytes, out);
    }
    if (n > 0) this.roundTrip.cancel();
    puller.pieces = 1 + n;
    return n * pieceBytes;
  }

  private issued(qp: QpView, bytes: number, out: Actions): void {
    this.count(qp.index);
    this.order.spend(qp.index, Math.max(bytes, this.window.minChargeBytes));
    this.report(qp, bytes, out);
  }

  /** Counts a request of a queue pair, in both directions if it uses both. */
  private count(index: number): void {
    this.pace.issued(index);
    if (this.other?.isUsed[index] === 1) this.other.pace.issuedElsewhere(index);
  }

  /** Measures the round trip: until it is known, requests go one at a time. */
  private time(qp: QpView, opcode: number, bytes: number, out: Actions): void {
    const { puller, roundTrip, sizes } = this;
    const isFirst = puller.usedBytes === 0;
    const nowNs = isFirst ? this.clock.nowNs(qp.context, out) : 0;
    if (isFirst) this.drained(qp, out);
    puller.price(opcode, bytes);
    roundTrip.takesReceive = takesReceive(opcode);
    roundTrip.issued(qp.index, isFirst ? puller.loadBytes : 0, isFirst, bytes < puller.pieceBytes / 2, nowNs);
    if (roundTrip.isMeasuring && !this.isPaced(qp.index)) {
      out.signalNow(qp);
      puller.windowBytes = 1;
    } else {
      if (bytes < puller.pieceBytes) this.shortRound = this.order.round;
      const isFetched = !this.order.isShared || this.order.round - this.shortRound <= 1;
      const endedPart = this.order.isShared || !takesReceive(opcode) ? 0 : this.pieceLength.endedPart;
      const usualBytes = (isFetched ? sizes.fetchedBytes : sizes.windowBytes) + endedPart * sizes.endedBytes;
      puller.windowBytes = (usualBytes + waitingBytes(this.other)) * this.part;
      if (this.window.followsPaths && !this.isSteered) this.followPaths(qp, bytes, out);
      // Its requests go in order, so that others in front of them keep one direction of the link idle.
      if (this.other?.isUsed[qp.index] === 1 && this.isQuiet && this.other.isQuiet)
        puller.windowBytes *= S.BOTH_WINDOWS;
      if (this.window.fitsPieces) this.fitPieces();
      if (this.isSoleNow) puller.windowBytes = Number.POSITIVE_INFINITY;
      this.rows.fitRefill(puller, bytes, sizes.longestBytes);
    }
  }

  /** Shortens or lengthens the window by what the network carries. */
  private followPaths(qp: QpView, bytes: number, out: Actions): void {
    const { paths, order, window } = this;
    if (paths.isPeriodOver(this, this.isShort(bytes))) {
      const mayBeFaster = this.lateness.coveredNs === 0 && window.windowBytes === undefined;
      const nowNs = this.clock.nowNs(qp.context, out);
      paths.endPeriod(nowNs, this.sentBytes, window.linkPerNs, !order.isIdle, mayBeFaster);
    }
    paths.fitWindow(this);
  }

  private get isQuiet(): boolean {
    return this.pieceLength.isQuiet && (this.order.isIdle === true || this.order.isOneTenant === true);
  }

  /** Shortens pieces, and lets the window be exceeded by half a piece on average instead of by one. */
  private fitPieces(): void {
    const { puller, pieceLength, sizes } = this;
    const bytes = puller.windowBytes;
    if (pieceLength.update(sizes.longestWireBytes)) puller.pieceBytes = pieceLength.fit(puller, sizes);
    const lessBytes = pieceLength.lessPieces * puller.pieceBytes;
    puller.windowBytes = Math.max(1, bytes * (1 - pieceLength.passedPart) - lessBytes);
  }

  /** Short messages were sent past the window. */
  passed(wireBytes: number): void {
    this.pieceLength.passed(wireBytes);
  }

  /**
   * The length of a piece: what is left of the chunk, in whole packets. Messages that do not fit are cut evenly. What a
   * rate already allows, because the host was late, goes as one piece.
   */
  private fitPiece(index: number, pieceBytes: number, leftBytes: number): number {
    const dueBytes = this.order.dueBytes?.(index) ?? 0;
    if (dueBytes > pieceBytes) return Math.min(dueBytes - (dueBytes % pieceBytes), SLOW_PIECE_BYTES);
    if (this.window.lengthensPieces && this.lateness.isLate(index)) return pieceBytes;
    const packets = Math.ceil(this.order.creditOf(index) / this.wire.mtuBytes);
    const mostBytes = Math.min(pieceBytes, packets * this.wire.mtuBytes);
    return this.cutsEvenly ? evenBytes(leftBytes, mostBytes) : mostBytes;
  }

  private get cutsEvenly(): boolean {
    return this.window.fitsPieces && !this.pieceLength.isFitting;
  }

  /** Requests completions often enough, and ends the turn of a queue pair with many short messages. */
  private report(qp: QpView, bytes: number, out: Actions): void {
    const { order, puller, reports } = this;
    reports.issued(qp.index, bytes + this.wire.headerBytes);
    const isEndOfRow = !this.isSoleNow && this.isShort(bytes) && reports.inRow >= this.rows.rowMessages;
    const isLast = order.creditOf(qp.index) <= 0 || isEndOfRow;
    const leastBytes = this.cutsEvenly ? puller.pieceBytes / 2 : puller.pieceBytes;
    if (!reports.isDue(qp.index, leastBytes, isLast)) return;
    out.signalNow(qp);
    if (isLast && order.creditOf(qp.index) > 0) order.yield(qp.index);
  }
}
