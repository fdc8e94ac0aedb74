/**
 * Rotation of tenants: with more queue pairs of large messages than the NIC works on at a time, 0_WAITs take the
 * places of those who have something to send. Then bandwidth tenants send one after the other, each for a slot that
 * the coordinator gives (src/coordinator/slots.ts); who has none holds its large requests, and goes on posting.
 */

import {
  DONE,
  DRAINED_SLOT,
  FLYING,
  FREE,
  HOLDS,
  MINE,
  TURN,
  TURN_END_NS,
  TURN_SLOT,
  WANTS_TURN,
} from '../../coordinator/member-table.ts';
import type { Coordinators } from '../../coordinator/registry.ts';
import { withPlace } from '../../shim/columns.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { LARGE_BYTES, type Member, type Place, SMALL } from './classifier.ts';
import { TOKEN_BITS } from './mqse.ts';

/** A slot's last requests are waited for within it: as long as they took in earlier ones, at most half of it. */
const MOST_DRAIN = 0.5;
const SMOOTHING = 0.5;

/** While nothing is held, or nothing more is issued, completions bring no event: time between two looks for them. */
const LOOK_NS = 5000;

/** Slots have other numbers. */
const NO_SLOT = 0;

/** Kind of a timer (mqse.ts: TOKEN_BITS). */
export const TURN_KIND = 12;

/** Who sends in the slots. */
interface TurnEngine {
  /** Feeds all queue pairs of a context that hold requests. */
  feedAll(member: Member, out: Actions): void;
  /** By queue pair (classifier.ts). */
  kindOf(qp: QpView): number;
  /** waits.ts */
  restNs(member: Member, bytes: number, out: Actions): number;
}

export class Turns {
  private readonly coordinators: Coordinators;
  /** How long a slot is. */
  turnNs: number;
  private readonly engine: TurnEngine;
  // By context.
  /** How long its last requests take to complete; and the slot in which it issues no more, and since when. */
  private drainNs: Float64Array = new Float64Array(8);
  /** Of any context: what one that had no slot yet begins with. */
  private lastDrainNs = 0.5;
  private stopped: Float64Array = new Float64Array(8);
  private stoppedNs: Float64Array = new Float64Array(8);

  constructor(coordinators: Coordinators, turnNs: number, engine: TurnEngine) {
    this.coordinators = coordinators;
    this.turnNs = turnNs;
    this.engine = engine;
  }

  /** A context was opened. */
  open({ index }: ContextView): void {
    for (const name of ['drainNs', 'stopped', 'stoppedNs'] as const) {
      this[name] = withPlace(this[name], index);
      this[name][index] = 0;
    }
  }

  /** Whether what is held of this queue pair waits for its tenant's slot. */
  holds(member: Member, qp: QpView, out: Actions): boolean {
    const { grants, counters } = member.page;
    if (grants[TURN] === FREE) {
      // When tenants rotate again it is to say anew that it wants a slot: then it is planned for.
      counters[WANTS_TURN] = DONE;
      return false;
    }
    if (this.engine.kindOf(qp) === SMALL) return false;
    const { context } = member;
    const nowNs = out.nowNs(context);
    if (counters[WANTS_TURN] !== HOLDS) {
      counters[WANTS_TURN] = HOLDS;
      // Nobody has wanted the slot that it was done with: it goes on.
      if (grants[TURN] === MINE && this.isOn(member, nowNs)) counters[DRAINED_SLOT] = NO_SLOT;
      this.rotate(member, nowNs, out);
    } else if (grants[TURN] === MINE && !this.isOn(member, nowNs)) {
      if (out.inflightBytes(qp) < LARGE_BYTES) this.look(member, nowNs, out);
      else this.stop(member, nowNs, out);
    }
    return !this.isOn(member, nowNs);
  }

  private isOn(member: Member, nowNs: number): boolean {
    const { grants } = member.page;
    return grants[TURN] === FREE || (grants[TURN] === MINE && nowNs < this.stopNs(member));
  }

  private stopNs({ context, page: { grants } }: Member): number {
    return grants[TURN_END_NS] - (this.drainNs[context.index] || this.lastDrainNs);
  }

  /** Its slot ends, unless nobody else wants one. */
  private stop(member: Member, nowNs: number, out: Actions): void {
    const { context, page } = member;
    const { index } = context;
    const slot = page.grants[TURN_SLOT];
    if (this.stopped[index] === slot) return;
    this.rotate(member, nowNs, out);
    if (page.grants[TURN_SLOT] !== slot || this.isOn(member, nowNs)) return;
    this.stopped[index] = slot;
    this.stoppedNs[index] = nowNs;
  }

  /** What it sent in its slot has completed, or leaves before anything of the next one. */
  private drained({ context, page }: Member, nowNs: number): void {
    const { index } = context;
    const slot = page.grants[TURN_SLOT];
    page.counters[DRAINED_SLOT] = slot;
    if (this.stopped[index] !== slot) return;
    const tookNs = Math.min(nowNs - this.stoppedNs[index], MOST_DRAIN * this.turnNs);
    const known = this.drainNs[index];
    this.lastDrainNs = tookNs;
    this.drainNs[index] = known === 0 ? tookNs : known + (tookNs - known) * SMOOTHING;
  }

  /** A queue pair failed, or is gone. */
  changed(member: Member, out: Actions): void {
    const { context, page } = member;
    if (page.counters[WANTS_TURN] !== DONE) this.look(member, out.nowNs(context), out);
  }

  /** Large messages leave by another device than `from` now: it is done there, and what it holds asks for a slot here. */
  moved(member: Member, from: Place, out: Actions): void {
    const { context } = member;
    const nowNs = out.nowNs(context);
    this.coordinators.rotate(from.device, nowNs, this.turnNs);
    if (!member.qps.some((qp) => out.backlog(qp) > 0)) return;
    out.timer(context, nowNs, (context.index << TOKEN_BITS) | TURN_KIND);
  }

  /** A queue pair was fed: the slot may be over soon. */
  fed(member: Member, qp: QpView, out: Actions): void {
    const { grants, counters } = member.page;
    if (grants[TURN] === FREE || counters[WANTS_TURN] !== HOLDS || out.backlog(qp) > 0) return;
    this.look(member, out.nowNs(member.context), out);
  }

  /** The coordinator has changed whose turn it is. */
  granted(member: Member, out: Actions): void {
    const { grants, counters } = member.page;
    const nowNs = out.nowNs(member.context);
    if (grants[TURN] !== FREE) {
      if (counters[WANTS_TURN] === DONE) return;
      this.look(member, nowNs, out);
    }
    if (this.isOn(member, nowNs)) this.engine.feedAll(member, out);
  }

  /** A slot ends, it is time to see whether another one has not, or large messages leave elsewhere now. */
  onTimer(member: Member, out: Actions): void {
    const { grants, counters } = member.page;
    if (grants[TURN] !== FREE && counters[WANTS_TURN] !== DONE) {
      const nowNs = out.nowNs(member.context);
      this.rotate(member, nowNs, out);
      this.look(member, nowNs, out);
    }
    this.engine.feedAll(member, out);
  }

  /** Tells what the member has to send, and lets the next one begin if this one is done. */
  private look(member: Member, nowNs: number, out: Actions): void {
    const { grants, counters } = member.page;
    let has = DONE;
    let flying = false;
    let bytes = 0;
    for (const qp of member.qps) {
      if (qp.broken || this.engine.kindOf(qp) === SMALL) continue;
      if (out.backlog(qp) > 0) has = HOLDS;
      const flies = out.inflightBytes(qp);
      if (flies >= LARGE_BYTES) flying = true;
      bytes += flies;
    }
    if (flying && has === DONE) has = FLYING;
    counters[WANTS_TURN] = has;
    if (grants[TURN] === FREE) return;
    const isMine = grants[TURN] === MINE;
    if (isMine && has !== DONE && !this.isOn(member, nowNs)) this.stop(member, nowNs, out);
    // With nothing more to issue it does not keep the slot to its end: those who hold something would wait in vain.
    const isEnding = isMine && (has === FLYING || !this.isOn(member, nowNs));
    const restNs = isEnding && flying ? this.engine.restNs(member, bytes, out) : 0;
    const isOver = isEnding && restNs <= 0;
    if (isOver) this.drained(member, nowNs);
    if (has === DONE || isOver) this.rotate(member, nowNs, out);
    else this.plan(member, nowNs, out, restNs);
  }

  private rotate(member: Member, nowNs: number, out: Actions): void {
    this.coordinators.rotate(member.main.device, nowNs, this.turnNs);
    this.plan(member, nowNs, out);
  }

  /** Nobody need tell for this member to look again. */
  private plan(member: Member, nowNs: number, out: Actions, restNs = 0): void {
    const { context, page } = member;
    const { grants, counters } = page;
    let atNs = nowNs + this.turnNs;
    if (grants[TURN] === FREE || counters[WANTS_TURN] === DONE) atNs = Number.POSITIVE_INFINITY;
    else if (grants[TURN] === MINE) {
      const isIssuing = counters[WANTS_TURN] === HOLDS && this.isOn(member, nowNs);
      const lookNs = Math.min(restNs > 0 ? restNs : LOOK_NS, LOOK_NS, this.turnNs);
      atNs = isIssuing ? this.stopNs(member) : nowNs + lookNs;
    }
    out.timer(context, atNs, (context.index << TOKEN_BITS) | TURN_KIND);
  }
}
