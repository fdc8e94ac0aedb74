/** fair at one device: both directions of its link, and the tenants that share them. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import { BYTES } from '../../shim/counters.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { byTenant, Entities } from '../kit/entities.ts';
import { egressBytes, ingressBytes } from '../kit/wire.ts';
import type { Direction } from '../link/direction.ts';
import { INBOUND, isAtomic, LOOPBACK, OUTBOUND, type WindowChoice } from '../link/link-scheduler.ts';
import type { WindowRules } from '../link/windows.ts';
import { Advances, MOST_MESSAGES } from './advances.ts';
import { AtomicShares } from './atomics.ts';
import { LEAST_PIECE_BYTES, SCHEDULED, TRIAL_NS, WHOLE, WHOLE_BYTES } from './choices.ts';
import { BURST_BYTES } from './daemon-rates.ts';
import { DeviceTimer } from './device-timer.ts';
import type { Costs } from './dominant-order.ts';
import type { Judge } from './judge.ts';
import { type FairOptions, RULES } from './options.ts';
import type { PacedOrder } from './paced-order.ts';
import { Presence } from './presence.ts';
import { type MakeOrder, RatedOrder } from './rated-order.ts';
import { FIRST_OWN_KIND, RatedScheduler } from './rated-scheduler.ts';
import { lengthAt, NO_LENGTH, runLength } from './run-length.ts';
import { reasonOf, stanceOf } from './stance.ts';
import { pacePartAt, piecePartAt, windowPartAt } from './strictness.ts';
import { Target } from './target.ts';
import { Worth } from './worth.ts';

/** Pieces of a turn among the queue pairs of one tenant. Tenants take turns of one piece. */
const TURN_PIECES = 4;
/** The most time that a queue pair may wait for its context, as a part of its time on the link. */
const MISS_PART = 0.03;
/** An advance is a third of what a tenant is behind, so that the tenant is still behind when it has used it up. */
const ADVANCE_SHARE = 3;
/** The limit on the length of messages of an advance is at least this, in bytes: short ones may differ in length. */
const ADVANCE_BYTES = 32;
/** Kinds of timers: for trials, and for atomics. */
const TRIAL = FIRST_OWN_KIND;
const ATOMICS = FIRST_OWN_KIND + 1;
export const KINDS = FIRST_OWN_KIND + 2;
/** The longest messages that bypass the policy while the device is left alone. */
const PLAIN_BELOW_BYTES = 2 ** 21;

/** Time between two samples while the device is left alone. */
const ASIDE_SAMPLE_NS = 500e6;

// Used in each post; a module's own constants cost nothing (plain-requests.ts).
const { slotAt, WR_OP } = L;
const IN_BYTES = BYTES;
const MOST_BEHIND = ADVANCE_SHARE * MOST_MESSAGES;

/** Schedules the queue pairs of all contexts of one device. */
export class Scheduler extends RatedScheduler {
  protected readonly outbound: Direction<PacedOrder>;
  protected readonly inbound: Direction<PacedOrder>;
  protected readonly loopback: Direction<PacedOrder> | null;
  protected readonly tenants = new Entities({
    keyOf: byTenant,
    onNew: (tenant) => {
      for (const { order } of this.directions) order.begin(tenant);
      this.atomics.begin(tenant);
      this.advances.begin(tenant);
    },
    mayForget: (tenant) =>
      !this.atomics.isAhead(tenant) && !this.directions.some(({ order }) => order.isAhead(tenant)),
  });
  private worth: Judge;
  private readonly trial = new DeviceTimer(this.tokenOf(TRIAL), true);
  private readonly atomics: AtomicShares;
  private readonly advances = new Advances();
  private readonly presence = new Presence();
  /** By opcode: the headers of a message of one packet, in bytes; 0 if it does not leave the device. */
  private readonly headers = Int32Array.from({ length: 256 }, (_, opcode) =>
    opcode === IBV_WR_RDMA_READ ? ingressBytes(this.wire, opcode, 0) : egressBytes(this.wire, opcode, 0),
  );
  /** Queue pairs of the device, and how many of them its cache has room for. */
  private qpCount = 0;
  private readonly cachedQps: number;
  /** The queue pair whose completions are reported because a message of it is being timed. */
  private watched: QpView | null = null;
  /** While the device is left alone: queue pairs whose requests bypass this policy, and how many there have been. */
  private readonly plain = new Set<QpView>();
  private passes = 0;
  /** The last queue pair whose messages passed because it was alone. */
  private alone: QpView | null = null;
  /** The level of strictness that the directions have. */
  private fittedLevel = 0;
  private options: FairOptions;
  protected readonly arbitrates: boolean;
  private readonly makeOrder: MakeOrder;

  /** @param makeOrder of a policy with rates of its own; default: that of fair, which keeps to the rates of a daemon */
  constructor(
    number: number,
    context: ContextView,
    options: FairOptions,
    registry: CoordinatorRegistry,
    makeOrder?: MakeOrder,
    kinds = KINDS,
  ) {
    super(number, context, registry, { kinds, hasRates: makeOrder === undefined });
    this.options = options;
    this.makeOrder = makeOrder ?? ((...of) => new RatedOrder(this, ...of));
    this.cachedQps = context.nic?.cachedQps ?? Number.POSITIVE_INFINITY;
    this.arbitrates = context.nic?.arbitrates !== false;
    this.worth = this.createJudge();
    this.outbound = this.createDirection(OUTBOUND);
    this.inbound = this.createDirection(INBOUND);
    this.loopback = this.usesLoopback ? this.createDirection(LOOPBACK) : null;
    this.atomics = this.createAtomics(context);
  }

  private createAtomics({ nic }: ContextView): AtomicShares {
    const { outbound, tenants, wire, clock, atomicBytes } = this;
    return new AtomicShares({
      gapNs: nic?.atomicGapNs ?? 0,
      latencyNs: nic?.latencyNs ?? 0,
      wire,
      token: this.tokenOf(ATOMICS),
      clock,
      tenantOf: (qp) => tenants.of(qp),
      mayGo: (qp, out) => this.mayGo(qp, out),
      stray: (qp) => this.strays.push(qp),
      // They also load the link and the processing units.
      issued: ({ index }) => {
        outbound.order.pass(index, atomicBytes);
        outbound.passed(atomicBytes);
      },
    });
  }

  protected createJudge(): Judge {
    const { targetUs } = this.options;
    return targetUs === undefined ? new Worth(this.arbitrates) : new Target(this.arbitrates, 1e3 * targetUs);
  }

  private createDirection(kind: number): Direction<PacedOrder> {
    const order = this.makeOrder(
      kind,
      (index) => this.tenants.ofIndex(index),
      this.costs,
      (tenant) => this.misses(tenant),
      this.presence,
    );
    return this.addDirection(kind, order, this.choice);
  }

  /** Whether not all queue pairs fit into the device's cache, and those of the tenant exceed its part. */
  private misses(tenant: number): boolean {
    const { cachedQps, tenants } = this;
    if (this.qpCount <= cachedQps) return false;
    return tenants.count(tenant) * tenants.size > cachedQps;
  }

  private get costs(): Costs {
    const { linkPerNs, gapNs, units, latencyNs } = this;
    const turnBytes = TURN_PIECES * this.window(this.choice).pieceBytes;
    return {
      nsPerByte: 1 / linkPerNs,
      nsPerRequest: gapNs / units,
      turnBytes,
      // The device reads a context while it sends what comes before, and faster than it serves a message.
      missTurnBytes: Math.max(turnBytes, (latencyNs * linkPerNs) / MISS_PART),
      lagNs: this.options.passBytes / linkPerNs,
      tinyBytes: 2 * egressBytes(this.wire, IBV_WR_RDMA_WRITE, 0),
    };
  }

  protected get choice(): WindowChoice {
    const { pieceBytes, windowBytes } = this.options;
    if (!this.worth.isOn)
      return { ...WHOLE, pieceBytes: this.ratedBytes(WHOLE_BYTES), windowBytes: TRIAL_NS * this.linkPerNs };
    // A target reduces what is in flight by itself.
    const followsPaths = this.worth.level === 0;
    return { ...SCHEDULED, pieceBytes: this.shortened(pieceBytes), windowBytes, followsPaths };
  }

  /** The length of pieces at the present level of strictness. @param pieceBytes the option */
  private shortened(pieceBytes: number | undefined): number | undefined {
    const { level } = this.worth;
    if (level === 0) return pieceBytes;
    const usualBytes = pieceBytes ?? this.defaultPieceBytes;
    return Math.max(Math.min(LEAST_PIECE_BYTES, usualBytes), Math.ceil(usualBytes * piecePartAt(level)));
  }

  protected override get windowPart(): number {
    return windowPartAt(this.worth.level);
  }

  /** Changes options. */
  configure(options: FairOptions, out: Actions): void {
    if (options === this.options) return;
    this.clock.begin();
    const before = this.options.targetUs;
    this.options = options;
    if (options.targetUs !== before) this.worth = this.createJudge();
    this.refit(out);
  }

  /** What is decided about windows and pieces has changed. */
  private refit(out: Actions): void {
    this.settleAll(out);
    const { level } = this.worth;
    const nsPerByte = 1 / (this.linkPerNs * pacePartAt(level));
    const isNewPiece = piecePartAt(level) !== piecePartAt(this.fittedLevel);
    this.fittedLevel = level;
    const { costs } = this;
    // Otherwise, tenants whose requests wait would fall behind those that send little without waiting.
    const times = 1 / Math.min(this.windowPart, pacePartAt(level));
    const waitingCosts = {
      ...costs,
      nsPerByte: times * costs.nsPerByte,
      nsPerRequest: times * costs.nsPerRequest,
    };
    for (const direction of this.directions) {
      direction.order.setPace(nsPerByte);
      // The round trip of a piece depends on its length.
      if (isNewPiece) direction.remeasure();
      direction.order.configure(costs, waitingCosts);
    }
    this.configureWindows(this.choice);
    this.fitParts();
    this.pull(out);
  }

  override add(qp: QpView, out: Actions): void {
    this.qpCount++;
    this.trial.add(qp, out);
    this.tenants.join(qp);
    this.relabel(qp, out);
    super.add(qp, out);
  }

  relabel(qp: QpView, out: Actions): void {
    const tenant = this.tenants.of(qp);
    this.endAdvance(tenant, out);
    for (const { order } of this.directions) {
      order.setWeight(tenant, qp.labels.weight);
      order.setQpWeight(qp.index, qp.labels.qpWeight);
    }
  }

  protected get rules(): WindowRules {
    return RULES;
  }

  protected override isInTurn({ order }: Direction<PacedOrder>, qp: QpView, out: Actions): boolean {
    if (!order.expectsTiny(qp.index) || out.nextBytes(qp) <= egressBytes(this.wire, IBV_WR_RDMA_WRITE, 0))
      return true;
    order.expectOther(qp.index);
    return false;
  }

  protected override passAtomics(qp: QpView, out: Actions): void {
    if (!this.worth.isOn || !this.atomics.enlist(qp, out)) super.passAtomics(qp, out);
  }

  /** While the device is left alone, there are no windows to be shared, and only parts of rates depend on reports. */
  protected override get samplePeriodNs(): number {
    return this.worth.isAside && !this.daemonRates.isLimiting ? ASIDE_SAMPLE_NS : super.samplePeriodNs;
  }

  protected override ratesChanged(context: ContextView, out: Actions): void {
    this.replanSample(this.clock.nowNs(context, out), out);
    this.seePlain(out);
    this.refit(out);
  }

  /** Queue pairs that bypass this policy are seen again. */
  private seePlain(out: Actions): void {
    this.passes += this.plain.size;
    for (const qp of this.plain) out.passPlain(qp, 0);
    this.plain.clear();
  }

  /** Leaves the device alone where scheduling it does not help. */
  private judge(context: ContextView, out: Actions): void {
    const { worth, plain } = this;
    const orders = this.directions.map(({ order }) => order);
    const { isOn: wasOn, level, isAside: wasAside } = worth;
    const isContended = worth.isAside ? plain.size > 1 : orders.some(({ isShared }) => isShared);
    // What they send is seen again, and shows whether anything is sent at all.
    this.seePlain(out);
    this.settleAll(out);
    const sentBytes = orders.reduce((sum, { servedBytes }) => sum + servedBytes, this.passes);
    const nowNs = this.clock.nowNs(context, out);
    this.trial.set(worth.onTimer(nowNs, sentBytes, isContended), out);
    if (worth.isOn !== wasOn || worth.level !== level) this.refit(out);
    if (worth.isAside !== wasAside) this.replanSample(nowNs, out);
  }

  override onTimer(kind: number, context: ContextView, out: Actions): void {
    this.clock.begin();
    if (kind === TRIAL) this.judge(context, out);
    else if (kind === ATOMICS) {
      this.atomics.onTimer(out);
      this.settle(out);
    } else super.onTimer(kind, context, out);
  }

  override regrant(context: ContextView, out: Actions): void {
    this.settleAll(out);
    super.regrant(context, out);
  }

  override feed(qp: QpView, out: Actions): void {
    this.endAdvance(this.tenants.of(qp), out);
    super.feed(qp, out);
  }

  override onCompleted(qp: QpView, out: Actions): void {
    const { worth } = this;
    const isTimed = worth.isTimed(qp.index);
    if (this.watched === qp) this.watch(null, out);
    if (isTimed && worth.completed(out.nowNs(qp.context))) {
      this.clock.begin();
      this.refit(out);
    }
    super.onCompleted(qp, out);
    if (!this.atomics.isShared(qp)) return;
    this.clock.begin();
    this.atomics.onCompleted(qp, out);
    this.settle(out);
  }

  override changed(qp: QpView, change: QpChange, out: Actions): void {
    this.worth.cancel(qp.index);
    if (this.watched === qp) this.watch(null, out);
    this.endAdvance(this.tenants.of(qp), out);
    this.clock.begin();
    this.atomics.changed(qp, out);
    if (change === 'destroyed') this.trial.drop(qp, out);
    super.changed(qp, change, out);
  }

  /** Of the queue pairs whose messages all pass, has the completions of only this one reported. */
  private watch(qp: QpView | null, out: Actions): void {
    if (this.watched !== null) out.watchCompletions(this.watched, false);
    if (qp !== null) out.watchCompletions(qp, true);
    this.watched = qp;
  }

  /** Charges what tenants have sent of their advances. */
  protected settleAll(out: Actions): void {
    for (let tenant = 0; tenant < this.advances.limit; tenant++) this.endAdvance(tenant, out);
  }

  private endAdvance(tenant: number, out: Actions): void {
    const { advances } = this;
    if (!advances.has(tenant)) return;
    const qp = advances.end(tenant, out);
    if (qp === undefined) return;
    const { messages, bytes, opcode } = advances;
    const direction = this.wayOf(qp, opcode);
    const load = bytes + messages * this.headers[opcode];
    direction.order.passed(qp.index, load, messages);
    direction.passed(load);
    this.sentBehind(qp.index, bytes + messages);
  }

  /** All messages of a post have passed, and the last one had this length: more like it may pass. */
  protected advance(
    tenant: number,
    qp: QpView,
    posted: number,
    bytes: number,
    opcode: number,
    out: Actions,
  ): void {
    const { advances, wire, worth } = this;
    if (!advances.follows(tenant, qp.index) || !worth.isResting || isAtomic(opcode)) return;
    if (this.isRated(qp.index)) return;
    const below = bytes < ADVANCE_BYTES ? ADVANCE_BYTES : 1 << (32 - Math.clz32(bytes));
    const { order } = this.wayOf(qp, opcode);
    const headerBytes = this.headers[opcode];
    if (below > wire.mtuBytes || headerBytes === 0) return;
    const behind = order.behind(tenant, below + headerBytes, MOST_BEHIND);
    advances.opcode = opcode;
    advances.give(tenant, qp, Math.floor(behind / ADVANCE_SHARE), posted, below, out);
  }

  /** Whether the device is scheduled, and why; null if there is no reason to say so. */
  get stance(): { does: string; why: string } | null {
    const at = (number: number) => this.worth.stance[number];
    const why = reasonOf(at);
    return why === '' ? null : { does: stanceOf(at), why };
  }

  protected override get additionalReports(): ArrayLike<number> {
    return this.worth.stance;
  }

  protected override forget(qp: QpView): void {
    this.qpCount--;
    this.plain.delete(qp);
    if (this.alone === qp) this.alone = null;
    super.forget(qp);
    this.tenants.leave(qp);
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number {
    const { wire, worth } = this;
    const isTimed = !worth.isResting && this.prepare(qp, out);
    const tenant = this.tenants.of(qp);
    this.endAdvance(tenant, out);
    const isRated = this.isRated(qp.index);
    if (isRated && this.beginRated(qp)) return 0;
    let passed = 0;
    let passedBytes = 0;
    let bytes = 0;
    let opcode = 0;
    while (passed < count) {
      const at = slotAt(start + passed);
      bytes = lengthAt(words, at);
      if (bytes === NO_LENGTH) break;
      if (bytes > wire.mtuBytes && (worth.isOn || (isRated && bytes > BURST_BYTES))) break;
      opcode = words[at + WR_OP] & 0xff;
      if (isRated && !this.mayGo(qp, out, opcode)) break;
      if (isAtomic(opcode) && worth.isOn && this.atomics.mustWait(qp, out)) break;
      const direction = this.wayOf(qp, opcode);
      const load = this.loadOf(opcode, bytes);
      const run = isRated ? 1 : runLength(words, at, count - passed);
      let n = worth.isOn ? this.passable(direction, tenant, load, run, qp, out) : run;
      if (n < run && (this.isAlone(qp, direction, load, out) || direction.isSole(qp, load, out))) {
        n = run;
        direction.order.passAlone(qp.index, load, n);
      } else if (n < run && direction.isOverrun && direction.order.isTiny(load)) {
        n = run;
        direction.order.passed(qp.index, load * n, n);
      } else if (n > 0) direction.order.pass(qp.index, load, n);
      else break;
      direction.passed(load * n);
      passed += n;
      passedBytes += bytes * n;
      if (n < run) break;
    }
    if (isTimed && passed > 0 && passedBytes <= wire.mtuBytes) this.time(qp, out);
    qp.counts[IN_BYTES] += passedBytes;
    this.sentBehind(qp.index, passedBytes + passed);
    if (passed === count && passed > 0) this.advance(tenant, qp, count, bytes, opcode, out);
    return passed;
  }

  /** How many equal messages the tenant may send without waiting, also for a long message that cannot be cut. */
  private passable(
    direction: Direction<PacedOrder>,
    tenant: number,
    load: number,
    run: number,
    qp: QpView,
    out: Actions,
  ): number {
    const { order } = direction;
    const n = order.passable(tenant, load, run);
    if (n === run || !direction.isOverrun || order.hasWaiting(tenant)) return n;
    const nowNs = this.clock.nowNs(qp.context, out);
    return Math.max(n, order.passableBeside(tenant, load, run, nowNs - direction.whole.sinceNs));
  }

  /**
   * Whether nothing else of this process waits or is in flight, and messages are so short that all of them wait in the
   * queue of the queue pair, where they delay no others.
   */
  private isAlone(qp: QpView, direction: Direction<PacedOrder>, load: number, out: Actions): boolean {
    if (!direction.isShort(load) || !direction.isUnused || this.worth.level > 0) return false;
    const { alone } = this;
    if (alone !== qp && alone !== null && out.inflight(alone) > 0) return false;
    this.alone = qp;
    return true;
  }

  /**
   * A queue pair posts while the device is left alone or measured, or nothing is planned. Returns whether to time its
   * message.
   */
  private prepare(qp: QpView, out: Actions): boolean {
    const { worth } = this;
    if (worth.isAside && !this.isRated(qp.index)) {
      out.passPlain(qp, PLAIN_BELOW_BYTES);
      this.plain.add(qp);
    }
    if (!worth.isPlanned) this.trial.set(worth.plan(out.nowNs(qp.context)), out, qp.context);
    return worth.wantsTime && out.inflight(qp) === 0;
  }

  private time(qp: QpView, out: Actions): void {
    this.worth.time(qp.index, out.nowNs(qp.context));
    this.watch(qp, out);
  }

  /** What a message puts on the wire in its direction. */
  protected loadOf(opcode: number, bytes: number): number {
    const { wire } = this;
    const headerBytes = this.headers[opcode];
    if (bytes <= wire.mtuBytes) return headerBytes === 0 ? 0 : bytes + headerBytes;
    return opcode === IBV_WR_RDMA_READ ? ingressBytes(wire, opcode, bytes) : egressBytes(wire, opcode, bytes);
  }
}
