/** The reports of the tenants of a device, as the ruler of perf reads them. */
import { TENANT } from '../../coordinator/member-table.ts';
import type { MembersView } from '../../coordinator/ruler.ts';
import { Claims } from './claims.ts';
import { CLASS_NAMES, IDLE } from './columns.ts';

/** A tenant that waits for the link gets more than this part of an equal share. */
const LEAST_PART = 0.1;

/** The reports of the device's tenants, summed over their members. */
export class TenantReports {
  private readonly members: MembersView;
  private readonly columns: ReturnType<typeof reportsOf>;
  private size = 0;
  // By tenant.
  classes = new Uint8Array(0);
  qps = new Float64Array(0);
  largeQps = new Float64Array(0);
  meanBytes = new Float64Array(0);
  queueLength = new Float64Array(0);
  wireGbps = new Float64Array(0);
  /** What it would take of the link, as far as known: all of it if it always waits for the link. */
  demandGbps = new Float64Array(0);
  /** The most that it may have sent. */
  private boundGbps = new Float64Array(0);
  awaitsAnswers = new Uint8Array(0);
  /** 1: all that it sends stays in the device, so it does not take part in the link. */
  loops = new Uint8Array(0);
  /** By member: the most that it may have sent; negative: it does not count. */
  private bounds = new Float64Array(0);
  /** Null: members of this process are believed. */
  private readonly claims: Claims | null;

  constructor(members: MembersView) {
    this.members = members;
    this.claims = members.isRemote ? new Claims(members) : null;
    this.columns = reportsOf(members);
  }

  /** The number of tenants. */
  get length(): number {
    return this.members.tenants.length;
  }

  isMulti(tenant: number): boolean {
    return this.qps[tenant] > 1;
  }

  /** Reads the reports of all members and sums them by tenant. */
  read(nowNs: number, silentNs: number): void {
    const { members } = this;
    const { tenants } = members;
    tenants.group();
    if (this.size < tenants.length) this.grow(2 * tenants.length);
    if (this.bounds.length < tenants.memberLimit) this.bounds = new Float64Array(2 * tenants.memberLimit);
    for (const column of [this.classes, this.qps, this.largeQps, this.wireGbps]) column.fill(0);
    this.meanBytes.fill(0);
    this.queueLength.fill(0);
    this.demandGbps.fill(0);
    this.boundGbps.fill(0);
    this.awaitsAnswers.fill(0);
    this.loops.fill(1);
    for (let member = 0; member < tenants.memberLimit; member++) {
      const tenant = tenants.tenantOf(member);
      this.bounds[member] = this.boundOf(member, tenant, nowNs, silentNs);
      if (this.bounds[member] < 0 || this.columns.loops.of(member) === 1) continue;
      if (this.columns.of.of(member) !== IDLE) this.loops[tenant] = 0;
    }
    for (let member = 0; member < tenants.memberLimit; member++) {
      const tenant = tenants.tenantOf(member);
      if (this.bounds[member] < 0 || this.columns.loops.of(member) !== this.loops[tenant]) continue;
      this.add(member, tenant);
    }
    this.limitDemands();
  }

  /** The most that a member may have sent, in Gbit/s; negative: it does not count. */
  private boundOf(member: number, tenant: number, nowNs: number, silentNs: number): number {
    if (tenant < 0) this.claims?.forget(member);
    if (tenant < 0 || this.members.isSilent(member, nowNs, silentNs)) return -1;
    return this.claims?.boundOf(member, nowNs) ?? Number.POSITIVE_INFINITY;
  }

  /** Adds the reports of a member to those of its tenant. */
  private add(member: number, tenant: number): void {
    const { columns } = this;
    const mostGbps = this.members.linkGbps || Number.POSITIVE_INFINITY;
    const qps = columns.activeQps.of(member);
    const gbps = Math.min(this.bounds[member], columns.wireGbps.of(member));
    this.classes[tenant] = Math.max(this.classes[tenant], this.classOf(member));
    this.qps[tenant] += qps;
    this.largeQps[tenant] += Math.min(columns.largeQps.of(member), qps);
    this.meanBytes[tenant] = Math.max(this.meanBytes[tenant], columns.meanBytes.of(member));
    this.queueLength[tenant] = Math.max(this.queueLength[tenant], columns.queueLength.of(member));
    this.wireGbps[tenant] = Math.min(mostGbps, this.wireGbps[tenant] + gbps);
    this.demandGbps[tenant] = Math.min(mostGbps, this.demandGbps[tenant] + columns.demandGbps.of(member));
    this.boundGbps[tenant] += this.bounds[member];
    this.awaitsAnswers[tenant] |= columns.awaitsAnswers.of(member);
  }

  /** A tenant that sends next to nothing of what it could send at least needs no more. */
  private limitDemands(): void {
    const { length, demandGbps, boundGbps } = this;
    const leastGbps = (LEAST_PART * this.members.linkGbps) / Math.max(1, length);
    for (let tenant = 0; tenant < length; tenant++) {
      if (boundGbps[tenant] < leastGbps) demandGbps[tenant] = Math.min(demandGbps[tenant], boundGbps[tenant]);
    }
  }

  /** A declared kind of traffic takes the place of the class that follows from what a member sends. */
  private classOf(member: number): number {
    const own = this.columns.of.of(member);
    return own === IDLE ? IDLE : this.columns.traffic.of(member) || own;
  }

  /** The class of a tenant and its rate on the wire, silent members included. */
  of(tenant: number): { readonly class: string; readonly wireGbps: number } {
    const { tenants } = this.members;
    let [highest, wireGbps] = [IDLE, 0];
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      highest = Math.max(highest, this.classOf(member));
      wireGbps += this.columns.wireGbps.of(member);
    }
    return { class: CLASS_NAMES[highest] ?? CLASS_NAMES[IDLE], wireGbps };
  }

  private grow(size: number): void {
    this.size = size;
    this.classes = new Uint8Array(size);
    this.qps = new Float64Array(size);
    this.largeQps = new Float64Array(size);
    this.meanBytes = new Float64Array(size);
    this.queueLength = new Float64Array(size);
    this.wireGbps = new Float64Array(size);
    this.demandGbps = new Float64Array(size);
    this.boundGbps = new Float64Array(size);
    this.awaitsAnswers = new Uint8Array(size);
    this.loops = new Uint8Array(size);
  }
}

const reportsOf = (members: MembersView) => ({
  of: members.report('class'),
  traffic: members.report('traffic', TENANT),
  meanBytes: members.report('meanBytes'),
  queueLength: members.report('queueLength'),
  activeQps: members.report('activeQps'),
  largeQps: members.report('largeQps'),
  wireGbps: members.report('wireGbps'),
  demandGbps: members.report('demandGbps'),
  awaitsAnswers: members.report('awaitsAnswers'),
  loops: members.report('loops'),
});
