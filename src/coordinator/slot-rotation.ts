/**
 * The rotation of tenants that send large messages: each sends in a tenant slot of its own. A slot ends when its time is
 * over and everything sent in it has completed, or when its tenant has nothing to send. The next slot belongs to the
 * next tenant in the round that holds requests; if there is none, the current slot is extended. A tenant that does not
 * finish in time loses its slot.
 */
import type { Tenants } from './master.ts';
import * as M from './member-table.ts';

export interface SlotTime {
  readonly nowNs: number;
  /** The length of a slot, and also the time after its end that its last requests have to complete. */
  readonly slotNs: number;
}

/**
 * A slot that begins early or late by at most this part of its length still ends on schedule, so that all are equally
 * long on average.
 */
const PUNCTUAL = 0.1;
/**
 * No tenant stops before this part of its slot is over (policies/perf/tenant-slots.ts), so nothing is checked until
 * then.
 */
const UNINTERRUPTED = 0.5;

export class SlotRotation {
  /** Calls `changed` with each member whose tenant gains or loses the slot. */
  rotate(members: M.MemberTable, tenants: Tenants, time: SlotTime, changed: (member: number) => void): void {
    tenants.group(members);
    const { nowNs, slotNs } = time;
    const last = members.lastSlotMember;
    const tenant = last < 0 ? -1 : tenants.tenantOf(last);
    const isHeld = tenant >= 0 && members.grants[last * M.GRANTS + M.SLOT_STATE] === M.OWN_SLOT;
    const endNs = isHeld ? members.grants[last * M.GRANTS + M.SLOT_END_NS] : Number.NEGATIVE_INFINITY;
    const isBusy = isHeld && isBusyWith(members, tenants, tenant);
    if (isBusy && nowNs < endNs - slotNs * UNINTERRUPTED) return;
    const next = nextAfter(
      members,
      tenants,
      tenant < 0 ? tenantBefore(members, tenants, last) : tenant,
      tenant,
    );
    if (isBusy) {
      if (next < 0) extend(members, tenants, tenant, nowNs + slotNs);
      if (next < 0 || nowNs < endNs + slotNs) return;
    }
    const own = tenant >= 0 && demandOf(members, tenants, tenant) === M.HELD_DEMAND ? tenant : -1;
    const to = next >= 0 ? next : own;
    if (to < 0) return;
    const isPunctual = Math.abs(nowNs - endNs) <= slotNs * PUNCTUAL;
    if (isHeld) end(members, tenants, tenant, changed);
    else endAll(members, changed);
    give(members, tenants, to, (isPunctual ? endNs : nowNs) + slotNs, changed);
  }
}

/** The highest demand among a tenant's members. Members that do not rotate do not count. */
function demandOf({ counters, grants }: M.MemberTable, tenants: Tenants, tenant: number): number {
  let most = M.NO_DEMAND;
  for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++) {
    const i = tenants.rowAt(at);
    const wants = counters[i * M.COUNTERS + M.SLOT_DEMAND];
    if (grants[i * M.GRANTS + M.SLOT_STATE] === M.NO_ROTATION) continue;
    if (wants === M.HELD_DEMAND) return M.HELD_DEMAND;
    if (wants === M.IN_FLIGHT_DEMAND) most = M.IN_FLIGHT_DEMAND;
  }
  return most;
}

/** Whether any of a tenant's members has not finished the slot. */
function isBusyWith(
  { counters, grants, slotNumber }: M.MemberTable,
  tenants: Tenants,
  tenant: number,
): boolean {
  for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++) {
    const i = tenants.rowAt(at);
    if (grants[i * M.GRANTS + M.SLOT_STATE] === M.NO_ROTATION) continue;
    const wants = counters[i * M.COUNTERS + M.SLOT_DEMAND];
    const isDone = wants !== M.HELD_DEMAND && wants !== M.IN_FLIGHT_DEMAND;
    if (!isDone && counters[i * M.COUNTERS + M.DRAINED_SLOT] !== slotNumber) return true;
  }
  return false;
}

/** The next tenant in the round after `tenant` that holds requests, other than `own`; -1: none. */
function nextAfter(members: M.MemberTable, tenants: Tenants, tenant: number, own: number): number {
  for (let n = 1; n <= tenants.length; n++) {
    const next = (tenant + n) % tenants.length;
    if (next !== own && demandOf(members, tenants, next) === M.HELD_DEMAND) return next;
  }
  return -1;
}

/**
 * The tenant before the one that had the last slot and has left. Starting the round at the beginning instead would let
 * a tenant that comes and goes starve those behind it.
 */
function tenantBefore({ rowLimit }: M.MemberTable, tenants: Tenants, memberRow: number): number {
  for (let i = Math.max(0, memberRow); i < rowLimit; i++) {
    if (tenants.tenantOf(i) >= 0) return tenants.tenantOf(i) - 1;
  }
  return -1;
}

function extend({ grants }: M.MemberTable, tenants: Tenants, tenant: number, endNs: number): void {
  for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++) {
    grants[tenants.rowAt(at) * M.GRANTS + M.SLOT_END_NS] = endNs;
  }
}

function take({ grants }: M.MemberTable, i: number, changed: (member: number) => void): void {
  if (grants[i * M.GRANTS + M.SLOT_STATE] !== M.OWN_SLOT) return;
  grants[i * M.GRANTS + M.SLOT_STATE] = M.OTHERS_SLOT;
  changed(i);
}

function end(
  members: M.MemberTable,
  tenants: Tenants,
  tenant: number,
  changed: (member: number) => void,
): void {
  for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++) {
    take(members, tenants.rowAt(at), changed);
  }
}

/** Ends every slot when its owner is unknown: a member left, or a thread died during a change. */
function endAll(members: M.MemberTable, changed: (member: number) => void): void {
  for (let i = 0; i < members.rowLimit; i++) if (members.isMember(i)) take(members, i, changed);
}

function give(
  members: M.MemberTable,
  tenants: Tenants,
  tenant: number,
  endNs: number,
  changed: (member: number) => void,
): void {
  const { grants } = members;
  let slot = 0;
  for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
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
