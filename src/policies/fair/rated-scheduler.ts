/** A scheduler of one device that keeps tenants to the rates of a daemon, and contexts to the limits of agents. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ } from '../../verbs/constants.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, ingressBytes } from '../kit/wire.ts';
import type { Direction } from '../link/direction.ts';
import { FIRST_KIND, isAtomic, LinkScheduler } from '../link/link-scheduler.ts';
import { BURST_BYTES, DaemonRates } from './daemon-rates.ts';
import { DeviceTimer } from './device-timer.ts';
import type { FlowLimits } from './flow-limits.ts';
import { Flows } from './flows.ts';
import { fairWindows } from './options.ts';
import type { PacedOrder } from './paced-order.ts';

/** The kinds of timers for rates and flows, and the first of those that a scheduler may have in addition. */
const RATES = FIRST_KIND;
const FLOWS = FIRST_KIND + 1;
export const FIRST_OWN_KIND = FIRST_KIND + 2;

/** Bytes of an atomic. */
const ATOMIC_BYTES = 8;

/** Holds the queue pairs of tenants that have used up their rates, in front of the directions of the link. */
export abstract class RatedScheduler extends LinkScheduler<PacedOrder> {
  readonly daemonRates: DaemonRates;
  /** Null: the traffic of other hosts is not taken into account. */
  private readonly flows: Flows | null;
  private readonly timer = new DeviceTimer(this.tokenOf(RATES), false);
  private readonly sampling = new DeviceTimer(this.tokenOf(FLOWS), true);

  /** @param hasRates whether to keep tenants to their rates; if not, the policy does so itself */
  constructor(
    number: number,
    context: ContextView,
    registry: CoordinatorRegistry,
    { kinds, hasRates }: { kinds: number; hasRates: boolean },
  ) {
    super(number, context, { kinds, registry, ruler: fairWindows });
    this.daemonRates = new DaemonRates(registry, fairWindows, hasRates);
    const seesPeers = hasRates && this.hasAgents && context.nic !== null && context.nic.arbitrates !== false;
    this.flows = seesPeers ? this.createFlows(registry) : null;
  }

  /** Whether the agents of fair divide the links that several hosts share. */
  protected get hasAgents(): boolean {
    return true;
  }

  private createFlows(registry: CoordinatorRegistry): Flows {
    const { wire, linkPerNs } = this;
    const orderOf = (isRead: boolean) => (isRead ? this.inbound : this.outbound).order;
    return new Flows(registry, {
      linkPerNs,
      requestBytes: egressBytes(wire, IBV_WR_RDMA_READ, 0),
      responseBytes: ingressBytes(wire, IBV_WR_RDMA_READ, 0),
      sentBytes: ({ index }, isRead) => orderOf(isRead).sentBytes(index),
      waits: ({ index }, isRead) => orderOf(isRead).waits(index),
    });
  }

  /** The limits that agents set; null: they set none. */
  get flowLimits(): FlowLimits | null {
    return this.flows?.limits ?? null;
  }

  override open(context: ContextView, out: Actions): void {
    super.open(context, out);
    this.daemonRates.open(context);
  }

  override add(qp: QpView, out: Actions): void {
    this.clock.begin();
    this.timer.add(qp, out);
    if (this.daemonRates.join(qp, this.clock.nowNs(qp.context, out))) this.ratesChanged(qp.context, out);
    this.sampling.add(qp, out);
    super.add(qp, out);
    this.flows?.add(qp);
  }

  override changed(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'destroyed') {
      this.daemonRates.leave(qp, out);
      this.timer.drop(qp, out);
      this.sampling.drop(qp, out);
      this.flows?.drop(qp);
    } else this.flows?.add(qp);
    super.changed(qp, change, out);
  }

  override regrant(context: ContextView, out: Actions): void {
    this.clock.begin();
    const nowNs = this.clock.nowNs(context, out);
    const isLimited = this.flows?.apply(nowNs) === true;
    if (this.daemonRates.update(nowNs)) this.ratesChanged(context, out);
    super.regrant(context, out);
    if (isLimited || this.daemonRates.isHolding) this.releaseAll(context, out);
  }

  /** A tenant has got a rate, or lost it. */
  protected abstract ratesChanged(context: ContextView, out: Actions): void;

  override onTimer(kind: number, context: ContextView, out: Actions): void {
    if (kind === RATES) {
      this.clock.begin();
      this.releaseAll(context, out);
    } else if (kind === FLOWS) {
      this.clock.begin();
      const nowNs = this.clock.nowNs(context, out);
      this.sampling.set(this.flows!.sample(nowNs), out);
      if (this.flows!.apply(nowNs)) this.releaseAll(context, out);
    } else super.onTimer(kind, context, out);
  }

  override feed(qp: QpView, out: Actions): void {
    const { flows, sampling } = this;
    if (flows !== null && sampling.dueNs === Number.POSITIVE_INFINITY) {
      this.clock.begin();
      sampling.set(flows.begin(this.clock.nowNs(qp.context, out)), out, qp.context);
    }
    super.feed(qp, out);
  }

  /** Serves the queue pairs that wait for tokens until their tenants have none, or all wait for the link. */
  private releaseAll(context: ContextView, out: Actions): void {
    const { daemonRates: rates, flowLimits: flows, timer } = this;
    const nowNs = this.clock.nowNs(context, out);
    const next = () => rates.release(nowNs) ?? flows?.release(nowNs) ?? null;
    for (let qp = next(); qp !== null; qp = next()) {
      this.strays.push(qp);
      this.settle(out);
    }
    timer.set(Math.min(rates.readyNs, flows?.readyNs ?? Number.POSITIVE_INFINITY), out);
  }

  /** Whether a queue pair may be held up by a rate of its tenant or a limit of its context. */
  protected isRated(qp: number): boolean {
    return this.daemonRates.limits(qp) || this.flows?.limits.limits(qp) === true;
  }

  /**
   * Whether a queue pair has no rate or limit, or still has tokens.
   * @param opcode of its next request; default: that of the oldest held one
   */
  protected mayGo(qp: QpView, out: Actions, opcode?: number): boolean {
    const { daemonRates: rates, flowLimits: flows, clock } = this;
    const { index } = qp;
    if (rates.limits(index) && !rates.hasTokens(index)) {
      rates.fill(index, clock.nowNs(qp.context, out));
      if (!rates.hasTokens(index)) return false;
    }
    if (flows === null || !flows.limits(index)) return true;
    const isRead = (opcode ?? out.nextOpcode(qp)) === IBV_WR_RDMA_READ;
    return flows.lacking(index, isRead, clock.nowNs(qp.context, out)) === null;
  }

  /** Whether queue pairs whose peer is on the same device have a direction of their own. */
  protected get usesLoopback(): boolean {
    return true;
  }

  protected override directionOf(qp: QpView, out: Actions): Direction<PacedOrder> | null {
    return this.mayGo(qp, out) ? super.directionOf(qp, out) : null;
  }

  protected override pass(qp: QpView, out: Actions): void {
    if (!this.mayGo(qp, out)) this.park(qp, out);
    else if (isAtomic(out.nextOpcode(qp))) this.passAtomics(qp, out);
    else this.strays.push(qp);
  }

  /** The oldest held request of a queue pair is an atomic, and its tenant may send. */
  protected passAtomics(qp: QpView, out: Actions): void {
    if (!this.isRated(qp.index)) super.pass(qp, out);
    else if (!this.outbound.isFull(qp, out) && step(qp, out, this.wire.mtuBytes) !== BLOCKED) {
      this.daemonRates.take(qp.index, this.atomicBytes);
      this.flowLimits?.take(qp.index, false, this.atomicBytes, 1);
      this.strays.push(qp);
    }
  }

  /** The bytes of an atomic on the wire. */
  protected get atomicBytes(): number {
    return egressBytes(this.wire, IBV_WR_ATOMIC_FETCH_AND_ADD, ATOMIC_BYTES);
  }

  /** The longest pieces if they would otherwise have this length: with a rate or limit, no more is sent at once. */
  protected ratedBytes(pieceBytes: number): number {
    return this.daemonRates.isLimiting || this.flowLimits?.isLimiting
      ? Math.min(pieceBytes, BURST_BYTES)
      : pieceBytes;
  }

  /** A queue pair with a rate or limit posts requests. Returns whether others of its tenant wait for tokens. */
  protected beginRated(qp: QpView): boolean {
    this.clock.begin();
    return this.daemonRates.limits(qp.index) && this.daemonRates.isAwaited(qp.index);
  }

  private park(qp: QpView, out: Actions): void {
    const { daemonRates: rates, flowLimits: flows, clock } = this;
    const isRead = out.nextOpcode(qp) === IBV_WR_RDMA_READ;
    const isRateless = !rates.limits(qp.index) || rates.hasTokens(qp.index);
    const limit = isRateless
      ? (flows?.lacking(qp.index, isRead, clock.nowNs(qp.context, out)) ?? null)
      : null;
    const readyNs = limit === null ? rates.park(qp) : flows!.park(qp, limit);
    if (readyNs < this.timer.dueNs) this.timer.set(readyNs, out);
  }
}
