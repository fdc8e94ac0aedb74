/**
 * Tenants of large messages send one after the other, each in a slot of its own. A slot is over when its time is and
 * all that was sent in it has completed, or when there is nothing to send in it: then the next tenant in the round
 * that holds requests has one. While there is none, it goes on. A tenant that does not come to an end loses its slot.
 */
import type { Tenants } from './master.ts';
import * as M from './members.ts';

export interface SlotTime {
  readonly nowNs: number;
  /** How long a slot is, and how long after its end its last requests are waited for. */
  readonly turnNs: number;
}

/** A slot that began so much of its length too early or too late ends in time: all are equally long on average. */
const PUNCTUAL = 0.1;

export class Slots {
  // By row of a tenant.
  /** The most that one of its members has to send. */
  private has = new Uint8Array(0);
  /** Whether one of its members is not done with the slot. */
  private busy = new Uint8Array(0);

  /** `changed` is called with each member whose turn it is, or is no more. */
  rotate(members: M.Members, tenants: Tenants, time: SlotTime, changed: (member: number) => void): void {
    tenants.group(members);
    this.read(members, tenants);
    const { nowNs, turnNs } = time;
    const last = members.lastMember;
    const row = last < 0 ? -1 : tenants.row(last);
    const at = last * M.GRANTS;
    const isHeld = row >= 0 && members.grants[at + M.TURN] === M.MINE;
    const next = this.nextAfter(row < 0 ? rowBefore(members, tenants, last) : row, tenants.length);
    if (isHeld && this.busy[row] === 1) {
      const endNs = members.grants[at + M.TURN_END_NS];
      if (next < 0) extend(members, tenants, row, nowNs + turnNs);
      if (next < 0 || nowNs < endNs + turnNs) return;
    }
    const own = row >= 0 && this.has[row] === M.HOLDS ? row : -1;
    const to = next >= 0 ? next : own;
    if (to < 0) return;
    const lastEndNs = isHeld ? members.grants[at + M.TURN_END_NS] : Number.NEGATIVE_INFINITY;
    const isPunctual = Math.abs(nowNs - lastEndNs) <= turnNs * PUNCTUAL;
    give(members, tenants, to, (isPunctual ? lastEndNs : nowNs) + turnNs, changed);
  }

  private read({ counters, grants, high, slot }: M.Members, tenants: Tenants): void {
    if (this.has.length < tenants.length) {
      this.has = new Uint8Array(2 * tenants.length);
      this.busy = new Uint8Array(2 * tenants.length);
    }
    this.has.fill(M.DONE);
    this.busy.fill(0);
    for (let i = 0; i < high; i++) {
      const row = tenants.row(i);
      if (row < 0 || grants[i * M.GRANTS + M.TURN] === M.FREE) continue;
      const wants = counters[i * M.COUNTERS + M.WANTS_TURN];
      const has = wants === M.HOLDS || wants === M.FLYING ? wants : M.DONE;
      this.has[row] = Math.max(this.has[row], has);
      if (has !== M.DONE && counters[i * M.COUNTERS + M.DRAINED_SLOT] !== slot) this.busy[row] = 1;
    }
  }

  /** The next in the round that holds requests; -1: nobody else does. */
  private nextAfter(row: number, length: number): number {
    for (let n = 1; n <= length; n++) {
      const next = (row + n) % length;
      if (next !== row && this.has[next] === M.HOLDS) return next;
    }
    return -1;
  }
}

/**
 * Who had the last slot is gone: the row after which the round goes on from its place, and not from the beginning, or
 * one that comes and goes would keep those behind it waiting.
 */
function rowBefore({ high }: M.Members, tenants: Tenants, place: number): number {
  for (let i = Math.max(0, place); i < high; i++) {
    if (tenants.row(i) >= 0) return tenants.row(i) - 1;
  }
  return -1;
}

function extend({ grants, high }: M.Members, tenants: Tenants, row: number, endNs: number): void {
  for (let i = 0; i < high; i++) {
    if (tenants.row(i) === row) grants[i * M.GRANTS + M.TURN_END_NS] = endNs;
  }
}

function give(
  members: M.Members,
  tenants: Tenants,
  row: number,
  endNs: number,
  changed: (member: number) => void,
): void {
  const { grants, high } = members;
  let slot = 0;
  for (let i = 0; i < high; i++) {
    const of = tenants.row(i);
    const at = i * M.GRANTS;
    if (of < 0 || grants[at + M.TURN] === M.FREE) continue;
    const isNext = of === row;
    const turn = isNext ? M.MINE : M.OTHERS;
    if (isNext) {
      if (slot === 0) slot = members.nextSlot(i);
      grants[at + M.TURN_SLOT] = slot;
      grants[at + M.TURN_END_NS] = endNs;
    }
    if (isNext || grants[at + M.TURN] !== turn) changed(i);
    grants[at + M.TURN] = turn;
  }
}
