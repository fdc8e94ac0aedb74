/**
 * The rotation of tenants that send large messages: each sends in a tenant slot of its own. A slot ends when its time is
 * over and everything sent in it has completed, or when its tenant has nothing to send. The next slot belongs to the
 * next tenant in the round that holds requests; if there is none, the current slot is extended. A tenant that does not
 * finish in time loses its slot.
 */

import type { Decider, MembersView, Ruler } from '../../coordinator/ruler.ts';
import {
  HELD_DEMAND,
  IN_FLIGHT_DEMAND,
  NO_DEMAND,
  NO_ROTATION,
  OTHERS_SLOT,
  OWN_SLOT,
  SLOT_GRANTS,
  SLOT_REPORTS,
} from './columns.ts';
import { type PerfOptions, perfOptions } from './options.ts';

/** The rules of the rotation. */
export interface SlotRules {
  /** The length of a slot, and also the time after its end that its last requests have to complete. */
  readonly slotNs: number;
}

/**
 * A slot that begins early or late by at most this part of its length still ends on schedule, so that all are equally
 * long on average.
 */
const PUNCTUAL = 0.1;
/**
 * No tenant stops before this part of its slot is over (tenant-slots.ts), so nothing is checked until
 * then.
 */
const UNINTERRUPTED = 0.5;

type Changed = (member: number) => void;

class Rotation implements Decider<SlotRules> {
  private readonly members: MembersView;
  private readonly columns: ReturnType<typeof columnsOf>;

  constructor(members: MembersView) {
    this.members = members;
    this.columns = columnsOf(members);
  }

  /** Begins the next slot if it is due. Calls `changed` with each member whose tenant gains or loses the slot. */
  decide({ slotNs }: SlotRules, nowNs: number, changed: Changed): void {
    const { members, columns } = this;
    const { tenants } = members;
    // A slot is shorter than the way of a grant to another process, where members therefore never rotate.
    if (members.isRemote) return;
    tenants.group();
    const last = columns.lastMember.of(members.device) - 1;
    const tenant = last < 0 ? -1 : tenants.tenantOf(last);
    const isHeld = tenant >= 0 && columns.state.of(last) === OWN_SLOT;
    const endNs = isHeld ? columns.endNs.of(last) : Number.NEGATIVE_INFINITY;
    const isBusy = isHeld && this.isBusyWith(tenant);
    if (isBusy && nowNs < endNs - slotNs * UNINTERRUPTED) return;
    const next = this.nextAfter(tenant < 0 ? this.tenantBefore(last) : tenant, tenant);
    if (isBusy) {
      if (next < 0) this.extend(tenant, nowNs + slotNs);
      if (next < 0 || nowNs < endNs + slotNs) return;
    }
    const own = tenant >= 0 && this.demandOf(tenant) === HELD_DEMAND ? tenant : -1;
    const to = next >= 0 ? next : own;
    if (to < 0) return;
    const isPunctual = Math.abs(nowNs - endNs) <= slotNs * PUNCTUAL;
    if (isHeld) this.end(tenant, changed);
    else this.endAll(changed);
    this.give(to, (isPunctual ? endNs : nowNs) + slotNs, changed);
  }

  /** The highest demand among a tenant's members. Members that do not rotate do not count. */
  private demandOf(tenant: number): number {
    const { columns } = this;
    const { tenants } = this.members;
    let most = NO_DEMAND;
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      if (columns.state.of(member) === NO_ROTATION) continue;
      const wants = columns.demand.of(member);
      if (wants === HELD_DEMAND) return HELD_DEMAND;
      if (wants === IN_FLIGHT_DEMAND) most = IN_FLIGHT_DEMAND;
    }
    return most;
  }

  /** Whether any of a tenant's members has not finished the slot. */
  private isBusyWith(tenant: number): boolean {
    const { columns } = this;
    const { tenants, device } = this.members;
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      if (columns.state.of(member) === NO_ROTATION) continue;
      const wants = columns.demand.of(member);
      const isDone = wants !== HELD_DEMAND && wants !== IN_FLIGHT_DEMAND;
      if (!isDone && columns.drained.of(member) !== columns.number.of(device)) return true;
    }
    return false;
  }

  /** The next tenant in the round after `tenant` that holds requests, other than `own`; -1: none. */
  private nextAfter(tenant: number, own: number): number {
    const { tenants } = this.members;
    for (let n = 1; n <= tenants.length; n++) {
      const next = (tenant + n) % tenants.length;
      if (next !== own && this.demandOf(next) === HELD_DEMAND) return next;
    }
    return -1;
  }

  /**
   * The tenant before the one that had the last slot and has left. Starting the round at the beginning instead would let
   * a tenant that comes and goes starve those behind it.
   */
  private tenantBefore(last: number): number {
    const { tenants, rowLimit } = this.members;
    for (let member = Math.max(0, last); member < rowLimit; member++) {
      if (tenants.tenantOf(member) >= 0) return tenants.tenantOf(member) - 1;
    }
    return -1;
  }

  private extend(tenant: number, endNs: number): void {
    const { tenants } = this.members;
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      this.columns.endNs.set(tenants.memberAt(k), endNs);
    }
  }

  private take(member: number, changed: Changed): void {
    const { state } = this.columns;
    if (state.of(member) !== OWN_SLOT) return;
    state.set(member, OTHERS_SLOT);
    changed(member);
  }

  private end(tenant: number, changed: Changed): void {
    const { tenants } = this.members;
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      this.take(tenants.memberAt(k), changed);
    }
  }

  /** Ends every slot when its owner is unknown: a member left, or a thread died during a change. */
  private endAll(changed: Changed): void {
    const { tenants } = this.members;
    for (let member = 0; member < tenants.memberLimit; member++) {
      if (tenants.tenantOf(member) >= 0) this.take(member, changed);
    }
  }

  private give(tenant: number, endNs: number, changed: Changed): void {
    const { members, columns } = this;
    const { tenants, device } = members;
    let slot = 0;
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      if (columns.state.of(member) === NO_ROTATION) continue;
      if (slot === 0) {
        slot = columns.number.of(device) + 1;
        columns.number.set(device, slot);
        columns.lastMember.set(device, member + 1);
      }
      columns.state.set(member, OWN_SLOT);
      columns.number.set(member, slot);
      columns.endNs.set(member, endNs);
      changed(member);
    }
  }
}

const columnsOf = (members: MembersView) => ({
  demand: members.report('slotDemand'),
  drained: members.report('drainedSlot'),
  state: members.grant('slotState'),
  number: members.grant('slotNumber'),
  endNs: members.grant('slotEndNs'),
  lastMember: members.grant('lastSlotMember'),
});

/** The options of perf as rules. */
export const slotRules = ({ slotNs }: Pick<PerfOptions, 'slotNs'>): SlotRules => ({ slotNs });

/** The ruler that gives tenants of large messages their slots in turn. */
export const slots: Ruler<SlotRules> = {
  name: 'perf slots',
  reports: SLOT_REPORTS,
  grants: SLOT_GRANTS,
  rules: perfOptions.transform(slotRules),
  byMembers: true,
  begin: (members) => new Rotation(members),
};
