/**
 * Serves the tenant that has had least of its dominant resource, in proportion to its weight: dominant resource fairness
 * (Ghodsi et al., NSDI 2011) as start-time fair queueing (Goyal et al., SIGCOMM 1996). A request costs the larger of the
 * times in which it occupies the link and the processing units. The queue pairs of a tenant take turns.
 */
import { fitColumn } from '../../shim/tables.ts';
import { TimerHeap } from '../../shim/timers/timer-heap.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import type { TurnOrder } from '../link/direction.ts';

/** What requests cost. */
export interface Costs {
  /** Time of a byte on the wire, and of a request in the processing units together. */
  readonly nsPerByte: number;
  readonly nsPerRequest: number;
  /** Bytes of a turn of a queue pair. */
  readonly turnBytes: number;
  /** Virtual time that a tenant may be behind those being served. */
  readonly lagNs: number;
}

/** Words of a tenant: its virtual time, in ns of its dominant resource, and its weight. */
const BITS = 1;
const WEIGHT = 1;
/** Words of the device: bytes on the wire, the virtual time of the tenant in service, and the latest one of any tenant. */
const BYTES = 0;
const NOW = 1;
const LATEST = 2;

/** The order of tenants by what they have had. */
export class DominantOrder implements TurnOrder {
  readonly wakeNs = Number.POSITIVE_INFINITY;
  readonly ignoresTime = true;
  round = 1;
  private costs: Costs;
  private readonly tenantOf: (qp: number) => number;
  /** Tenants with queue pairs that wait, by virtual time; and these queue pairs, a queue for each tenant. */
  private readonly heap = new TimerHeap();
  private readonly ready = new RunQueue();
  private count = 0;
  private turns = 0;
  private sequence = 0;
  private tenants: Float64Array = new Float64Array(16 << BITS);
  /** By queue pair: the bytes left of its turn. */
  private credits: Float64Array = new Float64Array(64);
  /** By queue pair: bytes on the wire, for takeSentBytes, and 1 if it has something to send that it cannot send now. */
  private sent: Float64Array = new Float64Array(64);
  private held: Uint8Array = new Uint8Array(64);
  private readonly totals = new Float64Array(3);
  /** Requests since the last charge. */
  private requests = 0;

  constructor(tenantOf: (qp: number) => number, costs: Costs) {
    this.tenantOf = tenantOf;
    this.costs = costs;
  }

  configure(costs: Costs): void {
    this.costs = costs;
  }

  get isShared(): boolean {
    return this.count > 1;
  }

  get totalBytes(): number {
    return this.totals[BYTES];
  }

  /** Whether a queue pair waits to be served. */
  isReady(qp: number): boolean {
    return this.ready.has(qp);
  }

  /** A tenant begins. */
  begin(tenant: number): void {
    this.tenants = fitColumn(this.tenants, (tenant << BITS) + WEIGHT);
    this.tenants[tenant << BITS] = 0;
  }

  /** Whether the tenant has had more than those being served, so that it must be remembered. */
  isAhead(tenant: number): boolean {
    return this.tenants[tenant << BITS] > this.totals[NOW];
  }

  /** The weight of a tenant. */
  setWeight(tenant: number, weight: number): void {
    this.tenants[(tenant << BITS) + WEIGHT] = weight;
  }

  reset(qp: number): void {
    this.credits = fitColumn(this.credits, qp);
    this.sent = fitColumn(this.sent, qp);
    this.held = fitColumn(this.held, qp);
    this.credits[qp] = 0;
    this.sent[qp] = 0;
    this.held[qp] = 0;
  }

  creditOf(qp: number): number {
    return this.credits[qp];
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
    const bytes = this.sent[qp];
    this.sent[qp] = 0;
    return bytes;
  }

  /** Whether the tenant has had less than those being served. */
  isBehind(tenant: number): boolean {
    this.limitLag(tenant);
    return this.tenants[tenant << BITS] < this.totals[NOW];
  }

  /** A tenant that has been idle cannot save up more than the lag. */
  private limitLag(tenant: number): void {
    const { tenants, totals, costs } = this;
    const at = tenant << BITS;
    tenants[at] = Math.max(tenants[at], totals[NOW] - costs.lagNs);
  }

  /** A request of the queue pair passes without waiting. */
  pass(qp: number, wireBytes: number): void {
    this.requests = 1;
    this.chargeTenant(qp, wireBytes);
  }

  join(qp: number): void {
    const tenant = this.tenantOf(qp);
    this.count++;
    this.held[qp] = 0;
    const isFirst = this.ready.first(tenant) === NONE;
    this.ready.push(qp, tenant);
    if (!isFirst) return;
    this.limitLag(tenant);
    this.place(tenant);
  }

  leave(qp: number): void {
    const tenant = this.tenantOf(qp);
    this.ready.remove(qp);
    this.count--;
    if (this.ready.first(tenant) !== NONE) return;
    this.heap.remove(tenant);
    // From now on, no tenant is behind those that were served last.
    if (this.heap.size === 0) this.totals[NOW] = this.totals[LATEST];
  }

  next(): number {
    if (this.heap.size === 0) return NONE;
    const tenant = this.heap.headToken;
    const qp = this.ready.first(tenant);
    this.totals[NOW] = Math.max(this.totals[NOW], this.tenants[tenant << BITS]);
    if (this.credits[qp] <= 0) this.credits[qp] = Math.max(this.credits[qp] + this.costs.turnBytes, 1);
    return qp;
  }

  spend(qp: number, bytes: number): void {
    this.requests++;
    this.credits[qp] -= bytes;
    if (this.credits[qp] <= 0) this.yield(qp);
  }

  yield(qp: number): void {
    this.ready.moveToEnd(qp);
    if (++this.turns < this.count) return;
    this.turns = 0;
    this.round++;
  }

  charge(qp: number, wireBytes: number): void {
    this.totals[BYTES] += wireBytes;
    this.chargeTenant(qp, wireBytes);
    this.place(this.tenantOf(qp));
  }

  private chargeTenant(qp: number, wireBytes: number): void {
    const { tenants, totals, costs } = this;
    const at = this.tenantOf(qp) << BITS;
    this.sent[qp] += wireBytes;
    const costNs = Math.max(wireBytes * costs.nsPerByte, this.requests * costs.nsPerRequest);
    this.requests = 0;
    tenants[at] += costNs / tenants[at + WEIGHT];
    totals[LATEST] = Math.max(totals[LATEST], tenants[at]);
  }

  private place(tenant: number): void {
    this.heap.due[0] = this.tenants[tenant << BITS];
    this.heap.due[1] = this.sequence++;
    this.heap.put(tenant);
  }
}
