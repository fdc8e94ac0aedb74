/**
 * Where the rates of queue pairs come from: options of the policy, the ruler of tenants' rates, a daemon that gives rates to
 * groups and queue pairs, an agent, and programs, which set the rates of their queue pairs
 * (ibv_modify_qp_rate_limit(3)). Nothing here runs for each request.
 */
import type { ContextView, QpView } from '../../shim/policy.ts';
import { byContext, Entities } from '../kit/entities.ts';
import { NONE } from '../kit/run-queue.ts';
import { APPLICATION, GROUP, LIMITS, type RateTable, TENANT } from './rate-table.ts';
import type { GivenTargets } from './target-rates.ts';

/** The rates that options set, in Gbit/s on the wire. */
export interface GivenRates {
  readonly groupRatesGbps: Readonly<Record<string, number>>;
  readonly applicationGbps?: number;
  /** Of queue pairs whose programs have set no rate. */
  readonly qpGbps?: number;
}

/** What a change of rates requires of the orders: no queue pair that it concerns may be waiting meanwhile. */
export interface Rescaling {
  /** The rates of these queue pairs are about to change. */
  suspend(qps: readonly QpView[]): void;
  /** What is left of the last piece of a queue pair (`limit` NONE) or a limit lasts this many times as long; 0: a new rate. */
  rescale(qp: number, limit: number, times: number): void;
  resume(): void;
  /** A limit has come into being. */
  begin(limit: number): void;
  /** Whether a limit without queue pairs has been used beyond the present, so that it must be remembered. */
  isAhead(limit: number): boolean;
}

/** Lower rates, with which times would no longer be exact, count as this one: a bit in 17 minutes. */
const LEAST_GBPS = 1e-12;

/** Time per byte in ns at a rate in Gbit/s; 0: no rate. */
export const nsPerByteOf = (gbps: number | undefined): number =>
  gbps === undefined || gbps <= 0 || gbps === Number.POSITIVE_INFINITY ? 0 : 8 / Math.max(gbps, LEAST_GBPS);

/** What rates are made of. */
export interface SourcesOptions {
  readonly given: GivenRates;
  readonly targets: GivenTargets;
  /** The rate that an agent has set for a queue pair, in Gbit/s; Infinity: none. */
  readonly agentGbpsOf: (qp: QpView) => number;
  /** Time per byte of the link, in ns. Higher rates by a daemon or an agent count as this one. */
  readonly linkNs: number;
  readonly tenantKeyOf: (qp: QpView) => string;
}

/** The limits of the queue pairs of one device. */
export class RateSources {
  private readonly rates: RateTable;
  private readonly changes: Rescaling;
  private readonly of: SourcesOptions;
  private given: GivenRates;
  /** By which (APPLICATION, GROUP, TENANT). */
  private readonly entities: readonly Entities[];
  private readonly qps: (QpView | undefined)[] = [];
  /** Queue pairs whose rates, as options or programs set them, the device limits. */
  private readonly onDevice = new Set<QpView>();

  constructor(rates: RateTable, of: SourcesOptions, changes: Rescaling) {
    const { tenantKeyOf } = of;
    this.rates = rates;
    this.of = of;
    this.given = of.given;
    this.changes = changes;
    const keys = [byContext, (qp: QpView) => `${tenantKeyOf(qp)} ${qp.labels.group}`, tenantKeyOf];
    this.entities = keys.map((keyOf, which) => {
      const onNew = (entity: number, qp: QpView) => this.begin(which, entity, qp);
      return new Entities({ keyOf, onNew, mayForget: (entity) => !changes.isAhead(limitAt(which, entity)) });
    });
  }

  private begin(which: number, entity: number, qp: QpView): void {
    const limit = limitAt(which, entity);
    const { applicationGbps } = this.given;
    this.of.targets.count(qp);
    const ns =
      which === APPLICATION ? nsPerByteOf(applicationGbps) : which === GROUP ? this.groupNsOf(qp) : 0;
    this.rates.setLimit(limit, ns);
    this.changes.begin(limit);
  }

  /** A queue pair was created. Returns the number of its tenant. */
  add(qp: QpView): number {
    this.qps[qp.index] = qp;
    this.rates.add(qp.index);
    for (let which = 0; which < LIMITS; which++)
      this.rates.assign(qp.index, which, limitAt(which, this.entities[which].join(qp)));
    this.of.targets.count(qp);
    this.rates.setOwn(qp.index, this.ownNsOf(qp));
    this.rates.fit(qp.index);
    // Options may have changed while the application or the group had no queue pairs.
    this.fitApplication(qp);
    this.fitGroup(qp);
    return this.entities[TENANT].of(qp);
  }

  /** The lowest of the rates of a queue pair alone. */
  private ownNsOf(qp: QpView): number {
    const { rateLimitKbps } = qp;
    const ownNs = rateLimitKbps > 0 ? 8e6 / rateLimitKbps : nsPerByteOf(this.given.qpGbps);
    const { targets, agentGbpsOf } = this.of;
    const givenGbps = Math.min(targets.gbpsOf(qp), agentGbpsOf(qp));
    return Math.max(this.onDevice.has(qp) ? 0 : ownNs, this.withinLink(givenGbps));
  }

  private groupNsOf(qp: QpView): number {
    const { targets, tenantKeyOf } = this.of;
    const givenNs = this.withinLink(targets.groupGbpsOf(qp, tenantKeyOf));
    return Math.max(nsPerByteOf(groupRateOf(this.given.groupRatesGbps, qp.labels.group)), givenNs);
  }

  private withinLink(gbps: number): number {
    const ns = nsPerByteOf(gbps);
    return ns === 0 ? 0 : Math.max(ns, this.of.linkNs);
  }

  private fitApplication(qp: QpView): void {
    this.setLimit(APPLICATION, this.entities[APPLICATION].of(qp), nsPerByteOf(this.given.applicationGbps));
  }

  /** The group of a queue pair may have another rate, or another part of it in this process. */
  private fitGroup(qp: QpView): void {
    this.setLimit(GROUP, this.entities[GROUP].of(qp), this.groupNsOf(qp));
  }

  /** A queue pair was destroyed. Returns the number of the tenant that it belonged to. */
  drop(qp: QpView): number {
    this.qps[qp.index] = undefined;
    this.onDevice.delete(qp);
    this.rates.add(qp.index);
    this.entities[APPLICATION].leave(qp);
    this.leaveGroup(qp);
    return this.entities[TENANT].leave(qp);
  }

  private leaveGroup(qp: QpView): void {
    const group = this.entities[GROUP];
    const entity = group.leave(qp);
    this.of.targets.drop(qp);
    const other = entity === NONE ? NONE : group.firstQp(entity);
    if (other !== NONE) this.fitGroup(this.qps[other]!);
  }

  /** The queue pairs that have been added. */
  all(): QpView[] {
    return this.qps.filter((qp) => qp !== undefined);
  }

  /** Whether the queue pair has been added. */
  has(qp: QpView): boolean {
    return this.qps[qp.index] === qp;
  }

  /** The tenant with this key; NONE: it has no queue pairs. */
  tenantOf(key: string): number {
    return this.entities[TENANT].find(key);
  }

  /** The limit of a tenant. */
  limitOfTenant(tenant: number): number {
    return limitAt(TENANT, tenant);
  }

  /** The labels of a queue pair have changed: it may belong to another group. */
  relabel(qp: QpView): void {
    const { entities, rates } = this;
    const before = entities[GROUP].of(qp);
    this.changes.suspend([qp]);
    const entity = entities[GROUP].rejoin(qp);
    if (entity !== before) rates.assign(qp.index, GROUP, limitAt(GROUP, entity));
    this.of.targets.count(qp);
    rates.fit(qp.index);
    this.changes.resume();
    const left = before === entity ? NONE : entities[GROUP].firstQp(before);
    if (left !== NONE) this.fitGroup(this.qps[left]!);
    this.fitGroup(qp);
  }

  /** The queue pair may be connected to another peer. */
  connected(qp: QpView): void {
    this.of.targets.count(qp);
    this.changed(qp);
  }

  /** A daemon may have given other rates to the groups and queue pairs of a context. */
  readTargets(context: ContextView): void {
    for (const qp of this.of.targets.read(context) ?? []) {
      this.changed(qp);
      this.fitGroup(qp);
    }
  }

  /** A rate of a queue pair alone may have changed. */
  changed(qp: QpView): void {
    const { rates, changes } = this;
    const ns = this.ownNsOf(qp);
    const before = rates.ownNsOf(qp.index);
    if (ns === before) return;
    changes.suspend([qp]);
    rates.setOwn(qp.index, ns);
    rates.fit(qp.index);
    changes.rescale(qp.index, NONE, before === 0 ? 0 : ns / before);
    changes.resume();
  }

  /** The device limits the rate of a queue pair that options or its program set, or no longer does. */
  leaveToDevice(qp: QpView, isOnDevice: boolean): void {
    if (isOnDevice) this.onDevice.add(qp);
    else this.onDevice.delete(qp);
    this.changed(qp);
  }

  /** The rate of a tenant. @param gbps 0: no limit */
  setTenant(tenant: number, gbps: number): void {
    this.setLimit(TENANT, tenant, nsPerByteOf(gbps));
  }

  private setLimit(which: number, entity: number, ns: number): void {
    const { rates, changes } = this;
    const limit = limitAt(which, entity);
    const before = rates.nsOf(limit);
    if (ns === before) return;
    const members = this.membersOf(which, entity);
    changes.suspend(members);
    rates.setLimit(limit, ns);
    for (const { index } of members) rates.fit(index);
    changes.rescale(NONE, limit, before === 0 ? 0 : ns / before);
    changes.resume();
  }

  private membersOf(which: number, entity: number): QpView[] {
    const found: QpView[] = [];
    const of = this.entities[which];
    for (let qp = of.firstQp(entity); qp !== NONE; qp = of.nextQp(qp)) found.push(this.qps[qp]!);
    return found;
  }

  /** Options have changed. */
  configure(given: GivenRates): void {
    this.given = given;
    for (const qp of this.all()) {
      this.changed(qp);
      this.fitApplication(qp);
      this.fitGroup(qp);
    }
  }
}

const limitAt = (which: number, entity: number) => entity * LIMITS + which;

function groupRateOf(rates: Readonly<Record<string, number>>, group: string): number | undefined {
  return Object.hasOwn(rates, group) ? rates[group] : undefined;
}
