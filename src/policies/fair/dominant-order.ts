/**
 * Serves the tenant that has had the least of its dominant resource, in proportion to its weight: dominant resource
 * fairness (Ghodsi et al., NSDI 2011) as start-time fair queueing (Goyal et al., SIGCOMM 1996). A request costs the
 * larger of the times for which it occupies the link and the processing units. The queue pairs of a tenant take turns.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import type { TurnOrder } from '../link/turn-order.ts';
import { Allowance } from './allowance.ts';
import { Presence } from './presence.ts';
import { TenantTree } from './tenant-tree.ts';

/** What requests cost. */
export interface Costs {
  /** Time of a byte on the wire, and of a request in the processing units together. */
  readonly nsPerByte: number;
  readonly nsPerRequest: number;
  /** Bytes of a turn of a queue pair, and of one that costs a cache miss. */
  readonly turnBytes: number;
  readonly missTurnBytes: number;
  /** Virtual time that a tenant may be behind those being served. */
  readonly lagNs: number;
  /** The longest tiny message, in bytes on the wire. */
  readonly tinyBytes: number;
}

/**
 * Words of a tenant: its virtual time, in ns of its dominant resource; its weight; while it waits, its sort key: its
 * virtual time, or one shortly before the present if it may go beyond its share; and the bytes on the wire of its row.
 */
const BITS = 2;
const WEIGHT = 1;
const KEY = 2;
const ROW = 3;
/**
 * Short messages of a tenant in a row, as a part of a turn, go before those of others, in one post. One at a time, each
 * would be a post of its own, with a completion of its own, and take that much more time of the core.
 */
const ROW_PART = 1 / 8;
/**
 * Words of a queue pair: its weight among those of its tenant, the bytes left of its turn, its bytes on the wire, and
 * how many of these takeSentBytes has returned.
 */
const QP_BITS = 2;
const QP_WEIGHT = 0;
const CREDIT = 1;
const SENT = 2;
const TAKEN = 3;
/**
 * Words of the device: bytes on the wire of requests that waited, the virtual time of the tenant in service, the latest
 * virtual time of any tenant, bytes on the wire of all requests, and what the requests accounted for last cost.
 */
const BYTES = 0;
const NOW = 1;
const LATEST = 2;
const SERVED = 3;
const COST = 4;

/** The most turns of a tenant's queue pairs that are skipped in a row. A smaller weight is rounded up. */
const MOST_SKIPS = 64;

/** The least that a request costs when the messages that may pass are counted: no request is free. */
const LEAST_NS = 1e-3;

/** The order of tenants by what they have had. */
export class DominantOrder implements TurnOrder {
  round = 1;
  private costs: Costs;
  /** Costs of requests that have waited: higher if these may use only a part of the device. */
  private waitingCosts: Costs;
  private readonly tenantOf: (qp: number) => number;
  private readonly misses: (tenant: number) => boolean;
  /** Tenants with queue pairs that wait, by virtual time; and these queue pairs, a queue for each tenant. */
  private readonly tree = new TenantTree();
  private readonly ready = new RunQueue();
  private readonly allowance: Allowance;
  /** Tenants that wait with tiny messages, but have used up what they are allowed beyond their shares. */
  private readonly wanting = new RunQueue();
  private count = 0;
  private turns = 0;
  private tenants: Float64Array = new Float64Array(16 << BITS);
  private qps: Float64Array = new Float64Array(64 << QP_BITS);
  /** By queue pair: 1 if it has something to send that it cannot send now. */
  protected held: Uint8Array = new Uint8Array(64);
  /** By queue pair: 1 if its last message was tiny, so that the next one is presumably tiny, too. */
  private tiny: Uint8Array = new Uint8Array(64);
  private readonly totals = new Float64Array(5);
  private readonly presence: Presence;
  /** Whether only one tenant waits, and its key in the tree is out of date. */
  private isUnsorted = false;
  /** Requests since the last charge. */
  protected requests = 0;

  /**
   * @param misses whether a tenant's turns cost cache misses, because its queue pairs exceed its part of the cache
   * @param presence shared with the orders of the other directions
   */
  constructor(
    tenantOf: (qp: number) => number,
    costs: Costs,
    misses: (tenant: number) => boolean,
    presence = new Presence(),
  ) {
    this.tenantOf = tenantOf;
    this.presence = presence;
    this.misses = misses;
    this.costs = costs;
    this.waitingCosts = costs;
    this.allowance = new Allowance(costs.lagNs);
  }

  configure(costs: Costs, waitingCosts = costs): void {
    this.costs = costs;
    this.waitingCosts = waitingCosts;
    this.allowance.configure(costs.lagNs);
  }

  get wakeNs(): number {
    return Number.POSITIVE_INFINITY;
  }

  get ignoresTime(): boolean {
    return true;
  }

  get isShared(): boolean {
    return this.count > 1;
  }

  get totalBytes(): number {
    return this.totals[BYTES];
  }

  /** Whether no queue pair waits. */
  get isIdle(): boolean {
    return this.tree.size === 0;
  }

  /** Whether the queue pairs that wait all belong to one tenant, so that several pieces in a row delay no other one. */
  get isOneTenant(): boolean {
    return this.tree.size === 1;
  }

  /** Whether no tenant but that of the queue pair has sent anything, or waited, for some time. */
  isSole(qp: number, nowNs: number): boolean {
    const { tree } = this;
    const tenant = this.tenantOf(qp);
    if (tree.size > 1 || (tree.size === 1 && tree.first !== tenant)) return false;
    return this.presence.isSole(tenant, nowNs);
  }

  /** Bytes on the wire that all queue pairs have sent, waiting or not. */
  get servedBytes(): number {
    return this.totals[SERVED];
  }

  /** Whether a queue pair waits to be served. */
  isReady(qp: number): boolean {
    return this.ready.has(qp);
  }

  /** Whether any queue pair of a tenant waits to be served. */
  hasWaiting(tenant: number): boolean {
    return this.ready.first(tenant) !== NONE;
  }

  /** A tenant begins. */
  begin(tenant: number): void {
    this.tenants = fitColumn(this.tenants, (tenant << BITS) + KEY);
    this.tenants[tenant << BITS] = 0;
    this.allowance.begin(tenant);
  }

  /** Whether the tenant has had more than those being served, so that it must be remembered. */
  isAhead(tenant: number): boolean {
    return this.tenants[tenant << BITS] > this.totals[NOW];
  }

  /** The weight of a tenant. */
  setWeight(tenant: number, weight: number): void {
    this.tenants[(tenant << BITS) + WEIGHT] = weight;
  }

  /** The weight of a queue pair among those of its tenant. */
  setQpWeight(qp: number, weight: number): void {
    this.qps = fitColumn(this.qps, (qp << QP_BITS) + TAKEN);
    this.qps[(qp << QP_BITS) + QP_WEIGHT] = weight;
  }

  reset(qp: number): void {
    this.qps = fitColumn(this.qps, (qp << QP_BITS) + TAKEN);
    this.held = fitColumn(this.held, qp);
    this.tiny = fitColumn(this.tiny, qp);
    this.qps[(qp << QP_BITS) + CREDIT] = 0;
    this.qps[(qp << QP_BITS) + SENT] = 0;
    this.qps[(qp << QP_BITS) + TAKEN] = 0;
    this.held[qp] = 0;
    this.tiny[qp] = 0;
  }

  creditOf(qp: number): number {
    return this.qps[(qp << QP_BITS) + CREDIT];
  }

  waits(qp: number): boolean {
    return this.ready.has(qp) || this.held[qp] === 1;
  }

  hold(qp: number): void {
    this.held[qp] = 1;
  }

  release(qp: number): void {
    this.held[qp] = 0;
  }

  takeSentBytes(qp: number): number {
    const at = qp << QP_BITS;
    const bytes = this.qps[at + SENT] - this.qps[at + TAKEN];
    this.qps[at + TAKEN] = this.qps[at + SENT];
    return bytes;
  }

  /** The bytes on the wire that a queue pair has sent since it was created. */
  sentBytes(qp: number): number {
    return this.qps[(qp << QP_BITS) + SENT];
  }

  /**
   * How many of several equal short messages the tenant may send without waiting: because it has had less than those being
   * served, or because it may send tiny messages in any case.
   * @param wireBytes the length of each on the wire
   */
  passable(tenant: number, wireBytes: number, count: number): number {
    this.limitLag(tenant);
    const { costs, allowance } = this;
    const behind = Math.ceil(this.behind(tenant, wireBytes, count));
    if (behind === count || wireBytes > costs.tinyBytes) return behind;
    return Math.min(
      count,
      behind + Math.max(0, Math.ceil(allowance.leftNs(tenant) / this.costOf(wireBytes))),
    );
  }

  /**
   * The same while the device sends a message that cannot be cut, in which nothing that waits is served: half of the time
   * since then is for others.
   * @param elapsedNs the time since then
   */
  passableBeside(tenant: number, wireBytes: number, count: number, elapsedNs: number): number {
    const { tenants, totals, costs } = this;
    const nowNs = Math.min(totals[LATEST], totals[NOW] + elapsedNs / 2);
    tenants[tenant << BITS] = Math.max(tenants[tenant << BITS], nowNs - costs.lagNs);
    return Math.ceil(this.behind(tenant, wireBytes, count, nowNs));
  }

  /**
   * By how many such messages the tenant is behind those being served.
   * @param wireBytes the length of each
   * @param most the most to return
   * @param nowNs the virtual time of those
   */
  behind(tenant: number, wireBytes: number, most: number, nowNs = this.totals[NOW]): number {
    const { tenants } = this;
    const at = tenant << BITS;
    const leadNs = (nowNs - tenants[at]) * tenants[at + WEIGHT];
    const costNs = this.costOf(wireBytes);
    // Division is slow.
    if (leadNs >= costNs * most) return most;
    return leadNs > 0 ? leadNs / costNs : 0;
  }

  /** What a request costs, in ns of its dominant resource. Requests that never leave the device may cost next to nothing. */
  private costOf(wireBytes: number): number {
    return Math.max(wireBytes * this.costs.nsPerByte, this.costs.nsPerRequest, LEAST_NS);
  }

  /** Whether messages of this length on the wire are tiny. */
  isTiny(wireBytes: number): boolean {
    return wireBytes <= this.costs.tinyBytes;
  }

  /** Whether the queue pair's next message is presumably tiny. Its turn may be due only for this reason. */
  expectsTiny(qp: number): boolean {
    return this.tiny[qp] === 1;
  }

  /** The queue pair's next message is not tiny. */
  expectOther(qp: number): void {
    this.tiny[qp] = 0;
  }

  /** A tenant that has been idle cannot save up more than the lag. */
  private limitLag(tenant: number): void {
    const { tenants, totals, costs } = this;
    const leastNs = totals[NOW] - costs.lagNs;
    if (tenants[tenant << BITS] < leastNs) tenants[tenant << BITS] = leastNs;
  }

  /** Several equal requests of the queue pair pass without waiting. @param wireBytes the length of each */
  pass(qp: number, wireBytes: number, count = 1): void {
    const tenant = this.tenantOf(qp);
    this.requests = count;
    this.chargeTenant(
      tenant,
      qp,
      wireBytes * count,
      this.tenants[tenant << BITS] >= this.totals[NOW],
      this.costs,
    );
  }

  /** Several requests of the queue pair have passed in the meantime. @param wireBytes the length of all */
  passed(qp: number, wireBytes: number, count: number): void {
    const tenant = this.tenantOf(qp);
    this.limitLag(tenant);
    this.requests = count;
    this.chargeTenant(tenant, qp, wireBytes, false, this.costs);
  }

  /** Several requests of the queue pair pass because nothing waits. Afterwards, no tenant is behind. */
  passAlone(qp: number, wireBytes: number, count: number): void {
    this.passed(qp, wireBytes * count, count);
    this.totals[NOW] = this.totals[LATEST];
  }

  join(qp: number): void {
    const tenant = this.tenantOf(qp);
    this.count++;
    this.held[qp] = 0;
    const isFirst = this.ready.first(tenant) === NONE;
    this.ready.push(qp, tenant);
    if (!isFirst) return;
    this.presence.appear(tenant);
    this.limitLag(tenant);
    if (this.isUnsorted) this.sort(this.tree.first);
    this.place(tenant);
  }

  leave(qp: number): void {
    const tenant = this.tenantOf(qp);
    this.ready.remove(qp);
    this.count--;
    if (this.ready.first(tenant) !== NONE) return;
    this.tree.remove(tenant);
    this.isUnsorted &&= this.tree.size > 0;
    this.wanting.remove(tenant);
    // From now on, no tenant is behind those that were served last.
    if (this.tree.size === 0) this.totals[NOW] = this.totals[LATEST];
  }

  next(_nowNs = 0): number {
    if (this.tree.size === 0) return NONE;
    const tenant = this.tree.first;
    this.totals[NOW] = Math.max(this.totals[NOW], this.tenants[(tenant << BITS) + KEY]);
    return this.turnOf(tenant);
  }

  /** The queue pair of a tenant whose turn it is: the first one that is not in debt (deficit round robin). */
  private turnOf(tenant: number): number {
    const { ready, qps, costs } = this;
    let turnBytes = 0;
    for (let i = 0; ; i++) {
      const qp = ready.first(tenant);
      const at = (qp << QP_BITS) + CREDIT;
      if (qps[at] > 0) return qp;
      if (i === 0) turnBytes = this.misses(tenant) ? costs.missTurnBytes : costs.turnBytes;
      qps[at] += turnBytes * qps[(qp << QP_BITS) + QP_WEIGHT];
      if (i === MOST_SKIPS) qps[at] = Math.max(qps[at], 1);
      if (qps[at] > 0) return qp;
      ready.moveToEnd(qp);
    }
  }

  spend(qp: number, bytes: number): void {
    this.requests++;
    const at = (qp << QP_BITS) + CREDIT;
    this.qps[at] -= bytes;
    if (this.qps[at] <= 0) this.yield(qp);
  }

  yield(qp: number): void {
    this.ready.moveToEnd(qp);
    if (++this.turns < this.count) return;
    this.turns = 0;
    this.round++;
  }

  charge(qp: number, wireBytes: number): void {
    this.totals[BYTES] += wireBytes;
    const tenant = this.tenantOf(qp);
    const at = tenant << BITS;
    const isBeyond = this.tenants[at + KEY] < this.tenants[at];
    this.chargeTenant(tenant, qp, wireBytes, isBeyond, this.waitingCosts);
    if (this.continuesRow(at, wireBytes, isBeyond)) return;
    this.place(tenant);
    const first = this.wanting.first();
    if (first !== NONE && 2 * this.allowance.leftNs(first) > this.costs.lagNs) this.place(first);
  }

  /** Whether the tenant in service stays the first one, in case its next message is like the last one. */
  private continuesRow(at: number, wireBytes: number, isBeyond: boolean): boolean {
    const { tenants, costs } = this;
    tenants[at + ROW] += wireBytes;
    if (tenants[at + ROW] + wireBytes > ROW_PART * costs.turnBytes) return false;
    if (!isBeyond) tenants[at + KEY] = tenants[at];
    return true;
  }

  /** @param isBeyond whether the tenant was served because of its allowance, not because of its share */
  private chargeTenant(tenant: number, qp: number, wireBytes: number, isBeyond: boolean, costs: Costs): void {
    const { tenants, totals, allowance } = this;
    this.presence.appear(tenant);
    const at = tenant << BITS;
    const isTiny = wireBytes <= costs.tinyBytes * this.requests;
    this.account(qp, wireBytes, costs);
    const costNs = totals[COST];
    this.tiny[qp] = isTiny ? 1 : 0;
    if (!isBeyond) tenants[at] += costNs / tenants[at + WEIGHT];
    if (isTiny) allowance.take(tenant, costNs);
    totals[LATEST] = Math.max(totals[LATEST], tenants[at]);
  }

  /** Counts the requests of a queue pair since the last charge, and what they cost, in ns of the dominant resource. */
  protected account(qp: number, wireBytes: number, costs: Costs): void {
    this.qps[(qp << QP_BITS) + SENT] += wireBytes;
    this.totals[SERVED] += wireBytes;
    this.totals[COST] = Math.max(wireBytes * costs.nsPerByte, this.requests * costs.nsPerRequest);
    this.requests = 0;
    this.allowance.used(this.totals[COST]);
  }

  /** Several requests of a queue pair that has no share, but a rate of its own, are served. @param wireBytes of all */
  protected countRated(qp: number, wireBytes: number, count: number): void {
    this.requests = count;
    this.totals[BYTES] += wireBytes;
    this.account(qp, wireBytes, this.costs);
  }

  private place(tenant: number): void {
    const { tenants, totals, tree, wanting, costs } = this;
    const at = tenant << BITS;
    wanting.remove(tenant);
    tenants[at + ROW] = 0;
    tenants[at + KEY] = tenants[at];
    if (tenants[at] >= totals[NOW] && this.tiny[this.ready.first(tenant)] === 1) {
      if (this.allowance.leftNs(tenant) > 0) tenants[at + KEY] = totals[NOW] - costs.lagNs;
      else wanting.push(tenant);
    }
    // A tenant that waits alone is the head anyway.
    this.isUnsorted = tree.size === 1 && tree.first === tenant;
    if (!this.isUnsorted) this.sort(tenant);
  }

  private sort(tenant: number): void {
    this.tree.key[0] = this.tenants[(tenant << BITS) + KEY];
    this.tree.put(tenant);
  }
}
