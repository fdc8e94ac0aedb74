/**
 * Tenants of large messages send one after the other, each in a slot of its own. A slot is over when its time is and
 * all that was sent in it has completed, or when there is nothing to send in it: then the next tenant in the round
 * that holds requests has one. While there is none, it goes on. A tenant that does not come to an end loses its slot.
 */
import type { Tenants } from './master.ts';
import * as M from './member-table.ts';

export interface SlotTime {
  readonly nowNs: number;
  /** How long a slot is, and how long after its end its last requests are waited for. */
  readonly turnNs: number;
}

/** A slot that began so much of its length too early or too late ends in time: all are equally long on average. */
const PUNCTUAL = 0.1;
/** Nobody stops before so much of his slot is over (policies/perf/tenant-slots.ts): until then nothing need be looked at. */
const UNDISTURBED = 0.5;

export class Slots {
  /** `changed` is called with each member whose turn it is, or is no more. */
  rotate(members: M.Members, tenants: Tenants, time: SlotTime, changed: (member: number) => void): void {
    tenants.group(members);
    const { nowNs, turnNs } = time;
    const last = members.lastMember;
    const row = last < 0 ? -1 : tenants.row(last);
    const isHeld = row >= 0 && members.grants[last * M.GRANTS + M.TURN] === M.MINE;
    const endNs = isHeld ? members.grants[last * M.GRANTS + M.TURN_END_NS] : Number.NEGATIVE_INFINITY;
    const isBusy = isHeld && isBusyWith(members, tenants, row);
    if (isBusy && nowNs < endNs - turnNs * UNDISTURBED) return;
    const next = nextAfter(members, tenants, row < 0 ? rowBefore(members, tenants, last) : row, row);
    if (isBusy) {
      if (next < 0) extend(members, tenants, row, nowNs + turnNs);
      if (next < 0 || nowNs < endNs + turnNs) return;
    }
    const own = row >= 0 && wantOf(members, tenants, row) === M.HOLDS ? row : -1;
    const to = next >= 0 ? next : own;
    if (to < 0) return;
    const isPunctual = Math.abs(nowNs - endNs) <= turnNs * PUNCTUAL;
    if (isHeld) end(members, tenants, row, changed);
    else endAll(members, changed);
    give(members, tenants, to, (isPunctual ? endNs : nowNs) + turnNs, changed);
  }
}

/** The most that one of a tenant's members has to send; of those who do not rotate nothing counts. */
function wantOf({ counters, grants }: M.Members, tenants: Tenants, row: number): number {
  let most = M.DONE;
  for (let at = tenants.from(row); at < tenants.from(row + 1); at++) {
    const i = tenants.memberAt(at);
    const wants = counters[i * M.COUNTERS + M.WANTS_TURN];
    if (grants[i * M.GRANTS + M.TURN] === M.FREE) continue;
    if (wants === M.HOLDS) return M.HOLDS;
    if (wants === M.FLYING) most = M.FLYING;
  }
  return most;
}

/** Whether one of a tenant's members is not done with the slot. */
function isBusyWith({ counters, grants, slot }: M.Members, tenants: Tenants, row: number): boolean {
  for (let at = tenants.from(row); at < tenants.from(row + 1); at++) {
    const i = tenants.memberAt(at);
    if (grants[i * M.GRANTS + M.TURN] === M.FREE) continue;
    const wants = counters[i * M.COUNTERS + M.WANTS_TURN];
    const isDone = wants !== M.HOLDS && wants !== M.FLYING;
    if (!isDone && counters[i * M.COUNTERS + M.DRAINED_SLOT] !== slot) return true;
  }
  return false;
}

/** The next in the round after `row` that holds requests, `own` excepted; -1: nobody else does. */
function nextAfter(members: M.Members, tenants: Tenants, row: number, own: number): number {
  for (let n = 1; n <= tenants.length; n++) {
    const next = (row + n) % tenants.length;
    if (next !== own && wantOf(members, tenants, next) === M.HOLDS) return next;
  }
  return -1;
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

function extend({ grants }: M.Members, tenants: Tenants, row: number, endNs: number): void {
  for (let at = tenants.from(row); at < tenants.from(row + 1); at++) {
    grants[tenants.memberAt(at) * M.GRANTS + M.TURN_END_NS] = endNs;
  }
}

function take({ grants }: M.Members, i: number, changed: (member: number) => void): void {
  if (grants[i * M.GRANTS + M.TURN] !== M.MINE) return;
  grants[i * M.GRANTS + M.TURN] = M.OTHERS;
  changed(i);
}

function end(members: M.Members, tenants: Tenants, row: number, changed: (member: number) => void): void {
  for (let at = tenants.from(row); at < tenants.from(row + 1); at++) {
    take(members, tenants.memberAt(at), changed);
  }
}

/** Nobody knows who has the slot: others of the tenant whose member left, or two of whom one died as they changed. */
function endAll(members: M.Members, changed: (member: number) => void): void {
  for (let i = 0; i < members.high; i++) if (members.isMember(i)) take(members, i, changed);
}

function give(
  members: M.Members,
  tenants: Tenants,
  row: number,
  endNs: number,
  changed: (member: number) => void,
): void {
  const { grants } = members;
  let slot = 0;
  for (let k = tenants.from(row); k < tenants.from(row + 1); k++) {
    const i = tenants.memberAt(k);
    const at = i * M.GRANTS;
    if (grants[at + M.TURN] === M.FREE) continue;
    if (slot === 0) slot = members.nextSlot(i);
    grants[at + M.TURN] = M.MINE;
    grants[at + M.TURN_SLOT] = slot;
    grants[at + M.TURN_END_NS] = endNs;
    changed(i);
  }
}
