/** A scheduler of one device that keeps tenants to the rates that a daemon gives them. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { IBV_WR_ATOMIC_FETCH_AND_ADD } from '../../verbs/constants.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes } from '../kit/wire.ts';
import type { Direction } from '../link/direction.ts';
import { FIRST_KIND, isAtomic, LinkScheduler } from '../link/link-scheduler.ts';
import { BURST_BYTES, DaemonRates } from './daemon-rates.ts';
import { DeviceTimer } from './device-timer.ts';
import { fairWindows } from './options.ts';
import type { PacedOrder } from './paced-order.ts';

/** The kind of timer for rates, and the first of those that a scheduler may have in addition. */
const RATES = FIRST_KIND;
export const FIRST_OWN_KIND = FIRST_KIND + 1;

/** Bytes of an atomic. */
const ATOMIC_BYTES = 8;

/** Holds the queue pairs of tenants that have used up their rates, in front of the directions of the link. */
export abstract class RatedScheduler extends LinkScheduler<PacedOrder> {
  protected readonly daemonRates: DaemonRates;
  private readonly timer = new DeviceTimer(this.tokenOf(RATES), false);

  /** @param hasRates whether to keep tenants to their rates; if not, the policy does so itself */
  constructor(
    number: number,
    context: ContextView,
    registry: CoordinatorRegistry,
    { kinds, hasRates }: { kinds: number; hasRates: boolean },
  ) {
    super(number, context, { kinds, registry, ruler: fairWindows });
    this.daemonRates = new DaemonRates(registry, fairWindows, hasRates);
  }

  override open(context: ContextView, out: Actions): void {
    super.open(context, out);
    this.daemonRates.open(context);
  }

  override add(qp: QpView, out: Actions): void {
    this.clock.begin();
    this.timer.add(qp, out);
    if (this.daemonRates.join(qp, this.clock.nowNs(qp.context, out))) this.ratesChanged(qp.context, out);
    super.add(qp, out);
  }

  override changed(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'destroyed') {
      this.daemonRates.leave(qp, out);
      this.timer.drop(qp, out);
    }
    super.changed(qp, change, out);
  }

  override regrant(context: ContextView, out: Actions): void {
    this.clock.begin();
    if (this.daemonRates.update(this.clock.nowNs(context, out))) this.ratesChanged(context, out);
    super.regrant(context, out);
    if (this.daemonRates.isHolding) this.releaseAll(context, out);
  }

  /** A tenant has got a rate, or lost it. */
  protected abstract ratesChanged(context: ContextView, out: Actions): void;

  override onTimer(kind: number, context: ContextView, out: Actions): void {
    if (kind === RATES) {
      this.clock.begin();
      this.releaseAll(context, out);
    } else super.onTimer(kind, context, out);
  }

  /** Serves the queue pairs that wait for tokens until their tenants have none, or all wait for the link. */
  private releaseAll(context: ContextView, out: Actions): void {
    const { daemonRates: rates, timer } = this;
    const nowNs = this.clock.nowNs(context, out);
    for (let qp = rates.release(nowNs); qp !== null; qp = rates.release(nowNs)) {
      this.strays.push(qp);
      this.settle(out);
    }
    timer.set(rates.readyNs, out);
  }

  /** Whether the tenant of a queue pair has no rate, or still has tokens. */
  protected mayGo(qp: QpView, out: Actions): boolean {
    const { daemonRates: rates, clock } = this;
    if (!rates.limits(qp.index) || rates.hasTokens(qp.index)) return true;
    rates.fill(qp.index, clock.nowNs(qp.context, out));
    return rates.hasTokens(qp.index);
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
    if (!this.daemonRates.limits(qp.index)) super.pass(qp, out);
    else if (!this.outbound.isFull(qp, out) && step(qp, out, this.wire.mtuBytes) !== BLOCKED) {
      this.daemonRates.take(qp.index, this.atomicBytes);
      this.strays.push(qp);
    }
  }

  /** The bytes of an atomic on the wire. */
  protected get atomicBytes(): number {
    return egressBytes(this.wire, IBV_WR_ATOMIC_FETCH_AND_ADD, ATOMIC_BYTES);
  }

  /** The longest pieces if they would otherwise have this length: a tenant with a rate sends no more at once. */
  protected ratedBytes(pieceBytes: number): number {
    return this.daemonRates.isLimiting ? Math.min(pieceBytes, BURST_BYTES) : pieceBytes;
  }

  /** A queue pair whose tenant has a rate posts requests. Returns whether others of the tenant wait for tokens. */
  protected beginRated(qp: QpView): boolean {
    this.clock.begin();
    return this.daemonRates.isAwaited(qp.index);
  }

  private park(qp: QpView, out: Actions): void {
    const readyNs = this.daemonRates.park(qp);
    if (readyNs < this.timer.dueNs) this.timer.set(readyNs, out);
  }
}
