/**
 * Rotation of tenants: with more queue pairs of large messages than the NIC works on at a time, 0_WAITs take the
 * places of those who have something to send. Then bandwidth tenants send one after the other, each for a slot that
 * the coordinator gives (src/coordinator/slot-rotation.ts); who has none holds its large requests, and goes on posting.
 */

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
} from '../../coordinator/member-table.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { type EgressDevice, LARGE_BYTES, type Member, SMALL } from './classifier.ts';
import { TOKEN_BITS } from './mqse.ts';

/** A slot's last requests are waited for within it: as long as they took in earlier ones, at most half of it. */
const MOST_DRAIN = 0.5;
const SMOOTHING = 0.5;

/** While nothing is held, or nothing more is issued, completions bring no event: time between two looks for them. */
const POLL_NS = 5000;

/** Slots have other numbers. */
const NO_SLOT = 0;

/** Kind of a timer (mqse.ts: TOKEN_BITS). */
export const SLOT_TIMER = 12;

/** Who sends in the slots. */
interface SlotEngine {
  /** Feeds all queue pairs of a context that hold requests. */
  feedAll(member: Member, out: Actions): void;
  /** By queue pair (classifier.ts). */
  kindOf(qp: QpView): number;
  /** waits.ts */
  handoverDelayNs(member: Member, bytes: number, out: Actions): number;
}

/** Holds queue pairs outside the time slot of their tenant, and passes the slot on. */
export class TenantSlots {
  private readonly registry: CoordinatorRegistry;
  /** How long a slot is. */
  slotNs: number;
  private readonly engine: SlotEngine;
  // By context.
  /** How long its last requests take to complete; and the slot in which it issues no more, and since when. */
  private drainNs: Float64Array = new Float64Array(8);
  /** Of any context: what one that had no slot yet begins with. */
  private lastDrainNs = 0.5;
  private stoppedSlot: Float64Array = new Float64Array(8);
  private stoppedNs: Float64Array = new Float64Array(8);

  constructor(registry: CoordinatorRegistry, slotNs: number, engine: SlotEngine) {
    this.registry = registry;
    this.slotNs = slotNs;
    this.engine = engine;
  }

  /** A context was opened. */
  addContext({ index }: ContextView): void {
    for (const name of ['drainNs', 'stoppedSlot', 'stoppedNs'] as const) {
      this[name] = fitColumn(this[name], index);
      this[name][index] = 0;
    }
  }

  /** Whether what is held of this queue pair waits for its tenant's slot. */
  holds(member: Member, qp: QpView, out: Actions): boolean {
    const { grants, counters } = member.page;
    if (grants[SLOT_STATE] === NO_ROTATION) {
      // When tenants rotate again it is to say anew that it wants a slot: then it is planned for.
      counters[SLOT_DEMAND] = NO_DEMAND;
      return false;
    }
    if (this.engine.kindOf(qp) === SMALL) return false;
    const { context } = member;
    const nowNs = out.nowNs(context);
    if (counters[SLOT_DEMAND] !== HELD_DEMAND) {
      counters[SLOT_DEMAND] = HELD_DEMAND;
      // Nobody has wanted the slot that it was done with: it goes on.
      if (grants[SLOT_STATE] === OWN_SLOT && this.mayIssue(member, nowNs)) counters[DRAINED_SLOT] = NO_SLOT;
      this.rotate(member, nowNs, out);
    } else if (grants[SLOT_STATE] === OWN_SLOT && !this.mayIssue(member, nowNs)) {
      if (out.inflightBytes(qp) < LARGE_BYTES) this.update(member, nowNs, out);
      else this.stopIssuing(member, nowNs, out);
    }
    return !this.mayIssue(member, nowNs);
  }

  private mayIssue(member: Member, nowNs: number): boolean {
    const { grants } = member.page;
    return (
      grants[SLOT_STATE] === NO_ROTATION || (grants[SLOT_STATE] === OWN_SLOT && nowNs < this.stopNs(member))
    );
  }

  private stopNs({ context, page: { grants } }: Member): number {
    return grants[SLOT_END_NS] - (this.drainNs[context.index] || this.lastDrainNs);
  }

  /** Its slot ends, unless nobody else wants one. */
  private stopIssuing(member: Member, nowNs: number, out: Actions): void {
    const { context, page } = member;
    const { index } = context;
    const slot = page.grants[SLOT_NUMBER];
    if (this.stoppedSlot[index] === slot) return;
    this.rotate(member, nowNs, out);
    if (page.grants[SLOT_NUMBER] !== slot || this.mayIssue(member, nowNs)) return;
    this.stoppedSlot[index] = slot;
    this.stoppedNs[index] = nowNs;
  }

  /** What it sent in its slot has completed, or leaves before anything of the next one. */
  private markDrained({ context, page }: Member, nowNs: number): void {
    const { index } = context;
    const slot = page.grants[SLOT_NUMBER];
    page.counters[DRAINED_SLOT] = slot;
    if (this.stoppedSlot[index] !== slot) return;
    const tookNs = Math.min(nowNs - this.stoppedNs[index], MOST_DRAIN * this.slotNs);
    const known = this.drainNs[index];
    this.lastDrainNs = tookNs;
    this.drainNs[index] = known === 0 ? tookNs : known + (tookNs - known) * SMOOTHING;
  }

  /** A queue pair failed, or is gone. */
  onQpChange(member: Member, out: Actions): void {
    const { context, page } = member;
    if (page.counters[SLOT_DEMAND] !== NO_DEMAND) this.update(member, out.nowNs(context), out);
  }

  /** Large messages leave by another device than `from` now: it is done there, and what it holds asks for a slot here. */
  onMove(member: Member, from: EgressDevice, out: Actions): void {
    const { context } = member;
    const nowNs = out.nowNs(context);
    this.registry.rotate(from.device, nowNs, this.slotNs);
    if (!member.qps.some((qp) => out.backlog(qp) > 0)) return;
    out.timer(context, nowNs, (context.index << TOKEN_BITS) | SLOT_TIMER);
  }

  /** A queue pair was fed: the slot may be over soon. */
  onFed(member: Member, qp: QpView, out: Actions): void {
    const { grants, counters } = member.page;
    if (grants[SLOT_STATE] === NO_ROTATION || counters[SLOT_DEMAND] !== HELD_DEMAND || out.backlog(qp) > 0)
      return;
    this.update(member, out.nowNs(member.context), out);
  }

  /** The coordinator has changed whose turn it is. */
  onGrant(member: Member, out: Actions): void {
    const { grants, counters } = member.page;
    const nowNs = out.nowNs(member.context);
    if (grants[SLOT_STATE] !== NO_ROTATION) {
      if (counters[SLOT_DEMAND] === NO_DEMAND) return;
      this.update(member, nowNs, out);
    }
    if (this.mayIssue(member, nowNs)) this.engine.feedAll(member, out);
  }

  /** A slot ends, it is time to see whether another one has not, or large messages leave elsewhere now. */
  onTimer(member: Member, out: Actions): void {
    const { grants, counters } = member.page;
    if (grants[SLOT_STATE] !== NO_ROTATION && counters[SLOT_DEMAND] !== NO_DEMAND) {
      const nowNs = out.nowNs(member.context);
      this.rotate(member, nowNs, out);
      this.update(member, nowNs, out);
    }
    this.engine.feedAll(member, out);
  }

  /** Tells what the member has to send, and lets the next one begin if this one is done. */
  private update(member: Member, nowNs: number, out: Actions): void {
    const { grants, counters } = member.page;
    let has = NO_DEMAND;
    let flying = false;
    let bytes = 0;
    for (const qp of member.qps) {
      if (qp.broken || this.engine.kindOf(qp) === SMALL) continue;
      if (out.backlog(qp) > 0) has = HELD_DEMAND;
      const flies = out.inflightBytes(qp);
      if (flies >= LARGE_BYTES) flying = true;
      bytes += flies;
    }
    if (flying && has === NO_DEMAND) has = IN_FLIGHT_DEMAND;
    counters[SLOT_DEMAND] = has;
    if (grants[SLOT_STATE] === NO_ROTATION) return;
    const isMine = grants[SLOT_STATE] === OWN_SLOT;
    if (isMine && has !== NO_DEMAND && !this.mayIssue(member, nowNs)) this.stopIssuing(member, nowNs, out);
    // With nothing more to issue it does not keep the slot to its end: those who hold something would wait in vain.
    const isEnding = isMine && (has === IN_FLIGHT_DEMAND || !this.mayIssue(member, nowNs));
    const restNs = isEnding && flying ? this.engine.handoverDelayNs(member, bytes, out) : 0;
    const isOver = isEnding && restNs <= 0;
    if (isOver) this.markDrained(member, nowNs);
    if (has === NO_DEMAND || isOver) this.rotate(member, nowNs, out);
    else this.planTimer(member, nowNs, out, restNs);
  }

  private rotate(member: Member, nowNs: number, out: Actions): void {
    this.registry.rotate(member.main.device, nowNs, this.slotNs);
    this.planTimer(member, nowNs, out);
  }

  /** Nobody need tell for this member to look again. */
  private planTimer(member: Member, nowNs: number, out: Actions, restNs = 0): void {
    const { context, page } = member;
    const { grants, counters } = page;
    let atNs = nowNs + this.slotNs;
    if (grants[SLOT_STATE] === NO_ROTATION || counters[SLOT_DEMAND] === NO_DEMAND)
      atNs = Number.POSITIVE_INFINITY;
    else if (grants[SLOT_STATE] === OWN_SLOT) {
      const isIssuing = counters[SLOT_DEMAND] === HELD_DEMAND && this.mayIssue(member, nowNs);
      const lookNs = Math.min(restNs > 0 ? restNs : POLL_NS, POLL_NS, this.slotNs);
      atNs = isIssuing ? this.stopNs(member) : nowNs + lookNs;
    }
    out.timer(context, atNs, (context.index << TOKEN_BITS) | SLOT_TIMER);
  }
}
