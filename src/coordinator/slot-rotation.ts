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
  readonly slotNs: number;
}

/** A slot that began so much of its length too early or too late ends in time: all are equally long on average. */
const PUNCTUAL = 0.1;
/** Nobody stops before so much of his slot is over (policies/perf/tenant-slots.ts): until then nothing need be looked at. */
const UNINTERRUPTED = 0.5;

export class SlotRotation {
  /** `changed` is called with each member whose turn it is, or is no more. */
  rotate(members: M.MemberTable, tenants: Tenants, time: SlotTime, changed: (member: number) => void): void {
    tenants.group(members);
    const { nowNs, slotNs } = time;
    const last = members.lastSlotMember;
    const row = last < 0 ? -1 : tenants.tenantOf(last);
    const isHeld = row >= 0 && members.grants[last * M.GRANTS + M.SLOT_STATE] === M.OWN_SLOT;
    const endNs = isHeld ? members.grants[last * M.GRANTS + M.SLOT_END_NS] : Number.NEGATIVE_INFINITY;
    const isBusy = isHeld && isBusyWith(members, tenants, row);
    if (isBusy && nowNs < endNs - slotNs * UNINTERRUPTED) return;
    const next = nextAfter(members, tenants, row < 0 ? tenantBefore(members, tenants, last) : row, row);
    if (isBusy) {
      if (next < 0) extend(members, tenants, row, nowNs + slotNs);
      if (next < 0 || nowNs < endNs + slotNs) return;
    }
    const own = row >= 0 && demandOf(members, tenants, row) === M.HELD_DEMAND ? row : -1;
    const to = next >= 0 ? next : own;
    if (to < 0) return;
    const isPunctual = Math.abs(nowNs - endNs) <= slotNs * PUNCTUAL;
    if (isHeld) end(members, tenants, row, changed);
    else endAll(members, changed);
    give(members, tenants, to, (isPunctual ? endNs : nowNs) + slotNs, changed);
  }
}

/** The most that one of a tenant's members has to send; of those who do not rotate nothing counts. */
function demandOf({ counters, grants }: M.MemberTable, tenants: Tenants, row: number): number {
  let most = M.NO_DEMAND;
  for (let at = tenants.firstOf(row); at < tenants.firstOf(row + 1); at++) {
    const i = tenants.rowAt(at);
    const wants = counters[i * M.COUNTERS + M.SLOT_DEMAND];
    if (grants[i * M.GRANTS + M.SLOT_STATE] === M.NO_ROTATION) continue;
    if (wants === M.HELD_DEMAND) return M.HELD_DEMAND;
    if (wants === M.IN_FLIGHT_DEMAND) most = M.IN_FLIGHT_DEMAND;
  }
  return most;
}

/** Whether one of a tenant's members is not done with the slot. */
function isBusyWith({ counters, grants, slotNumber }: M.MemberTable, tenants: Tenants, row: number): boolean {
  for (let at = tenants.firstOf(row); at < tenants.firstOf(row + 1); at++) {
    const i = tenants.rowAt(at);
    if (grants[i * M.GRANTS + M.SLOT_STATE] === M.NO_ROTATION) continue;
    const wants = counters[i * M.COUNTERS + M.SLOT_DEMAND];
    const isDone = wants !== M.HELD_DEMAND && wants !== M.IN_FLIGHT_DEMAND;
    if (!isDone && counters[i * M.COUNTERS + M.DRAINED_SLOT] !== slotNumber) return true;
  }
  return false;
}

/** The next in the round after `row` that holds requests, `own` excepted; -1: nobody else does. */
function nextAfter(members: M.MemberTable, tenants: Tenants, row: number, own: number): number {
  for (let n = 1; n <= tenants.length; n++) {
    const next = (row + n) % tenants.length;
    if (next !== own && demandOf(members, tenants, next) === M.HELD_DEMAND) return next;
  }
  return -1;
}

/**
 * Who had the last slot is gone: the row after which the round goes on from its place, and not from the beginning, or
 * one that comes and goes would keep those behind it waiting.
 */
function tenantBefore({ rowLimit }: M.MemberTable, tenants: Tenants, place: number): number {
  for (let i = Math.max(0, place); i < rowLimit; i++) {
    if (tenants.tenantOf(i) >= 0) return tenants.tenantOf(i) - 1;
  }
  return -1;
}

function extend({ grants }: M.MemberTable, tenants: Tenants, row: number, endNs: number): void {
  for (let at = tenants.firstOf(row); at < tenants.firstOf(row + 1); at++) {
    grants[tenants.rowAt(at) * M.GRANTS + M.SLOT_END_NS] = endNs;
  }
}

function take({ grants }: M.MemberTable, i: number, changed: (member: number) => void): void {
  if (grants[i * M.GRANTS + M.SLOT_STATE] !== M.OWN_SLOT) return;
  grants[i * M.GRANTS + M.SLOT_STATE] = M.OTHERS_SLOT;
  changed(i);
}

function end(members: M.MemberTable, tenants: Tenants, row: number, changed: (member: number) => void): void {
  for (let at = tenants.firstOf(row); at < tenants.firstOf(row + 1); at++) {
    take(members, tenants.rowAt(at), changed);
  }
}

/** Nobody knows who has the slot: others of the tenant whose member left, or two of whom one died as they changed. */
function endAll(members: M.MemberTable, changed: (member: number) => void): void {
  for (let i = 0; i < members.rowLimit; i++) if (members.isMember(i)) take(members, i, changed);
}

function give(
  members: M.MemberTable,
  tenants: Tenants,
  row: number,
  endNs: number,
  changed: (member: number) => void,
): void {
  const { grants } = members;
  let slot = 0;
  for (let k = tenants.firstOf(row); k < tenants.firstOf(row + 1); k++) {
    const i = tenants.rowAt(k);
    const at = i * M.GRANTS;
    if (grants[at + M.SLOT_STATE] === M.NO_ROTATION) continue;
    if (slot === 0) slot = members.beginSlot(i);
    grants[at + M.SLOT_STATE] = M.OWN_SLOT;
    grants[at + M.SLOT_NUMBER] = slot;
    grants[at + M.SLOT_END_NS] = endNs;
    changed(i);
  }
}
