/**
 * The member's side of the rotation of tenants. With more queue pairs of large messages than the NIC has processing
 * units, 0_WAITs would occupy units that queue pairs with data need. Bandwidth tenants then send one after the other,
 * each in a tenant slot that the coordinator grants (slot-rotation.ts). Outside its slot a tenant's large
 * requests are held, while the application may continue to post.
 */

import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { LARGE_BYTES, SMALL } from '../kit/classifier.ts';
import type { EgressDevice, Member } from './classifier.ts';
import {
  DRAINED_SLOT,
  HELD_DEMAND,
  IN_FLIGHT_DEMAND,
  NO_DEMAND,
  NO_ROTATION,
  OWN_SLOT,
  SLOT_DEMAND,
  SLOT_END_NS,
  SLOT_NUMBER,
  SLOT_STATE,
} from './columns.ts';
import { TOKEN_BITS } from './mqse.ts';
import { slots } from './slot-rotation.ts';

/**
 * A tenant stops issuing early enough for its last requests to complete within its slot, by a measured time of at most
 * this part of the slot.
 */
const MOST_DRAIN = 0.5;
const SMOOTHING = 0.5;

/** Interval of polls for completions while nothing is held or issued, when completions cause no event. */
const POLL_NS = 5000;

/** The number of no slot. */
const NO_SLOT = 0;

/** Kind of a timer (mqse.ts: TOKEN_BITS). */
export const SLOT_TIMER = 12;

/** The parts of the policy that send within slots. */
interface SlotEngine {
  /** Feeds all queue pairs of a context that hold requests. */
  feedAll(member: Member, out: Actions): void;
  /** By queue pair (kit/classifier.ts). */
  kindOf(qp: QpView): number;
  /** wait-pacer.ts */
  handoverDelayNs(member: Member, bytes: number, out: Actions): number;
}

/** Holds queue pairs outside their tenant's slot, and gives the slot up when the tenant has finished with it. */
export class TenantSlots {
  private readonly registry: CoordinatorRegistry;
  /** The length of a slot. */
  slotNs: number;
  private readonly engine: SlotEngine;
  // By context.
  /** The time its last requests take to complete, the slot in which it has stopped issuing, and since when. */
  private drainNs: Float64Array = new Float64Array(8);
  /** The latest value of any context: the initial value of a context that has not had a slot yet. */
  private lastDrainNs = 0.5;
  private stoppedSlot: Float64Array = new Float64Array(8);
  private stoppedNs: Float64Array = new Float64Array(8);

  constructor(registry: CoordinatorRegistry, slotNs: number, engine: SlotEngine) {
    this.registry = registry;
    this.slotNs = slotNs;
    this.engine = engine;
  }

  /** Adds a context that was opened. */
  addContext({ index }: ContextView): void {
    for (const name of ['drainNs', 'stoppedSlot', 'stoppedNs'] as const) {
      this[name] = fitColumn(this[name], index);
      this[name][index] = 0;
    }
  }

  /** Whether the held requests of this queue pair must wait for their tenant's slot. */
  holds(member: Member, qp: QpView, out: Actions): boolean {
    const { grants, reports } = member.main.slots;
    if (grants[SLOT_STATE] === NO_ROTATION) {
      // When rotation begins again, the member must request a slot anew, which also sets its timer.
      reports[SLOT_DEMAND] = NO_DEMAND;
      return false;
    }
    if (this.engine.kindOf(qp) === SMALL) return false;
    const { context } = member;
    const nowNs = out.nowNs(context);
    if (reports[SLOT_DEMAND] !== HELD_DEMAND) {
      reports[SLOT_DEMAND] = HELD_DEMAND;
      // No other tenant has requested the slot that this one had finished, so the slot continues.
      if (grants[SLOT_STATE] === OWN_SLOT && this.mayIssue(member, nowNs)) reports[DRAINED_SLOT] = NO_SLOT;
      this.rotate(member, nowNs, out);
    } else if (grants[SLOT_STATE] === OWN_SLOT && !this.mayIssue(member, nowNs)) {
      if (out.inflightBytes(qp) < LARGE_BYTES) this.update(member, nowNs, out);
      else this.stopIssuing(member, nowNs, out);
    }
    return !this.mayIssue(member, nowNs);
  }

  private mayIssue(member: Member, nowNs: number): boolean {
    const { grants } = member.main.slots;
    return (
      grants[SLOT_STATE] === NO_ROTATION || (grants[SLOT_STATE] === OWN_SLOT && nowNs < this.stopNs(member))
    );
  }

  private stopNs({
    context,
    main: {
      slots: { grants },
    },
  }: Member): number {
    return grants[SLOT_END_NS] - (this.drainNs[context.index] || this.lastDrainNs);
  }

  /** Ends the slot, unless no other tenant requests one. */
  private stopIssuing(member: Member, nowNs: number, out: Actions): void {
    const { context, main } = member;
    const { index } = context;
    const slot = main.slots.grants[SLOT_NUMBER];
    if (this.stoppedSlot[index] === slot) return;
    this.rotate(member, nowNs, out);
    if (main.slots.grants[SLOT_NUMBER] !== slot || this.mayIssue(member, nowNs)) return;
    this.stoppedSlot[index] = slot;
    this.stoppedNs[index] = nowNs;
  }

  /** Marks the slot as finished: what was sent in it has completed, or leaves before the next tenant's data. */
  private markDrained({ context, main }: Member, nowNs: number): void {
    const { index } = context;
    const slot = main.slots.grants[SLOT_NUMBER];
    main.slots.reports[DRAINED_SLOT] = slot;
    if (this.stoppedSlot[index] !== slot) return;
    const tookNs = Math.min(nowNs - this.stoppedNs[index], MOST_DRAIN * this.slotNs);
    const known = this.drainNs[index];
    this.lastDrainNs = tookNs;
    this.drainNs[index] = known === 0 ? tookNs : known + (tookNs - known) * SMOOTHING;
  }

  /** Updates the demand after a queue pair failed or was destroyed. */
  onQpChange(member: Member, out: Actions): void {
    const { context, main } = member;
    if (main.slots.reports[SLOT_DEMAND] !== NO_DEMAND) this.update(member, out.nowNs(context), out);
  }

  /**
   * Gives up the slot at `from` when large messages now leave by another device, and requests one there if needed.
   */
  onMove(member: Member, from: EgressDevice, out: Actions): void {
    const { context } = member;
    const nowNs = out.nowNs(context);
    this.rotateAt(member, from, nowNs);
    if (!member.qps.some((qp) => out.backlog(qp) > 0)) return;
    out.timer(context, nowNs, (context.index << TOKEN_BITS) | SLOT_TIMER);
  }

  /** Updates the demand after a queue pair was fed, because the slot may be over soon. */
  onFed(member: Member, qp: QpView, out: Actions): void {
    const { grants, reports } = member.main.slots;
    if (grants[SLOT_STATE] === NO_ROTATION || reports[SLOT_DEMAND] !== HELD_DEMAND || out.backlog(qp) > 0)
      return;
    this.update(member, out.nowNs(member.context), out);
  }

  /** Handles a change of the slot's owner. */
  onGrants(member: Member, out: Actions): void {
    const { grants, reports } = member.main.slots;
    const nowNs = out.nowNs(member.context);
    if (grants[SLOT_STATE] !== NO_ROTATION) {
      if (reports[SLOT_DEMAND] === NO_DEMAND) return;
      this.update(member, nowNs, out);
    }
    if (this.mayIssue(member, nowNs)) this.engine.feedAll(member, out);
  }

  /** Handles the end of a slot, a poll for an overdue slot, or a move to another device. */
  onTimer(member: Member, out: Actions): void {
    const { grants, reports } = member.main.slots;
    if (grants[SLOT_STATE] !== NO_ROTATION && reports[SLOT_DEMAND] !== NO_DEMAND) {
      const nowNs = out.nowNs(member.context);
      this.rotate(member, nowNs, out);
      this.update(member, nowNs, out);
    }
    this.engine.feedAll(member, out);
  }

  /** Reports the member's demand, and gives up the slot if it has finished. */
  private update(member: Member, nowNs: number, out: Actions): void {
    const { grants, reports } = member.main.slots;
    let demand = NO_DEMAND;
    let isInFlight = false;
    let bytes = 0;
    for (const qp of member.qps) {
      if (qp.broken || this.engine.kindOf(qp) === SMALL) continue;
      if (out.backlog(qp) > 0) demand = HELD_DEMAND;
      const inflight = out.inflightBytes(qp);
      if (inflight >= LARGE_BYTES) isInFlight = true;
      bytes += inflight;
    }
    if (isInFlight && demand === NO_DEMAND) demand = IN_FLIGHT_DEMAND;
    reports[SLOT_DEMAND] = demand;
    if (grants[SLOT_STATE] === NO_ROTATION) return;
    const hasSlot = grants[SLOT_STATE] === OWN_SLOT;
    if (hasSlot && demand !== NO_DEMAND && !this.mayIssue(member, nowNs))
      this.stopIssuing(member, nowNs, out);
    // With nothing more to issue, the member gives the slot up early, so that tenants with held requests need not wait.
    const isEnding = hasSlot && (demand === IN_FLIGHT_DEMAND || !this.mayIssue(member, nowNs));
    const restNs = isEnding && isInFlight ? this.engine.handoverDelayNs(member, bytes, out) : 0;
    const isOver = isEnding && restNs <= 0;
    if (isOver) this.markDrained(member, nowNs);
    if (demand === NO_DEMAND || isOver) this.rotate(member, nowNs, out);
    else this.planTimer(member, nowNs, out, restNs);
  }

  private rotate(member: Member, nowNs: number, out: Actions): void {
    this.rotateAt(member, member.main, nowNs);
    this.planTimer(member, nowNs, out);
  }

  /** At a peer's device, new grants arrive later. */
  private rotateAt({ context }: Member, { reader }: EgressDevice, nowNs: number): void {
    if (reader !== null) {
      reader.report(true, true);
      return;
    }
    this.registry.decide(context, slots, nowNs);
    this.registry.announce(context.device);
  }

  /** Sets the timer for the next check, which needs no event from elsewhere. */
  private planTimer(member: Member, nowNs: number, out: Actions, restNs = 0): void {
    const { context, main } = member;
    const { grants, reports } = main.slots;
    let atNs = nowNs + this.slotNs;
    if (grants[SLOT_STATE] === NO_ROTATION || reports[SLOT_DEMAND] === NO_DEMAND)
      atNs = Number.POSITIVE_INFINITY;
    else if (grants[SLOT_STATE] === OWN_SLOT) {
      const isIssuing = reports[SLOT_DEMAND] === HELD_DEMAND && this.mayIssue(member, nowNs);
      const pollNs = Math.min(restNs > 0 ? restNs : POLL_NS, POLL_NS, this.slotNs);
      atNs = isIssuing ? this.stopNs(member) : nowNs + pollNs;
    }
    out.timer(context, atNs, (context.index << TOKEN_BITS) | SLOT_TIMER);
  }
}
