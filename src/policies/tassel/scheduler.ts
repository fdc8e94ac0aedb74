/** tassel at one device: queue pairs with rates, before all others, which share what is left as under fair. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import { BYTES } from '../../shim/counters.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { IBV_QPS_RTS, IBV_WR_RDMA_READ } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { WHOLE_BYTES } from '../fair/choices.ts';
import { fairOptions } from '../fair/options.ts';
import type { PacedOrder } from '../fair/paced-order.ts';
import { Scheduler } from '../fair/scheduler.ts';
import { NONE } from '../kit/run-queue.ts';
import { wireBytes } from '../kit/wire.ts';
import type { Direction } from '../link/direction.ts';
import { isAtomic, type WindowChoice } from '../link/link-scheduler.ts';
import { UNLIMITED_GBPS } from '../token-bucket/shares.ts';
import type { TenantRates } from '../token-bucket/tenant-rates.ts';
import type { AgentRates } from './agent-rates.ts';
import type { TasselOptions } from './options.ts';
import { RateSources } from './rate-sources.ts';
import { RateTable } from './rate-table.ts';
import { ACTIVE_GBPS, OTHERS_GBPS } from './ruler.ts';
import { GivenTargets } from './target-rates.ts';
import { TasselOrder } from './tassel-order.ts';

/** Rates that the link carries together; the rest is for acknowledgements and requests of READs. */
const USABLE_PART = 0.995;
/** The window of queue pairs with rates, as a multiple of their part of the link. */
const RATED_WINDOW = 2;
/** Pieces in flight in addition to a round trip: more than under fair, whose window becomes longer where it is too short. */
const SPARE_PIECES = 1.15;

/** Options of fair that tassel has, too. */
const fairPartOf = ({ pieceBytes, windowBytes, passBytes }: TasselOptions) =>
  fairOptions.parse({ pieceBytes, windowBytes, passBytes });

/** Schedules the queue pairs of all contexts of one device. */
export class TasselScheduler extends Scheduler {
  private readonly rates: RateTable;
  /** The orders of both directions: out of the device, and into it. */
  private readonly orders: readonly TasselOrder[];
  private readonly sources: RateSources;
  private readonly tenantRates: TenantRates<TasselOptions>;
  private readonly agentRates: AgentRates | null;
  private given: TasselOptions;
  /** Queue pairs that had joined when their rates were about to change, and their orders. */
  private readonly suspended: { order: TasselOrder; qp: number }[] = [];
  /** What queue pairs with rates send in other processes, in bytes on the wire per ns. */
  private othersPerNs = 0;
  /** The contexts of this process, by index. */
  private readonly contexts = new Map<number, ContextView>();

  constructor(
    number: number,
    context: ContextView,
    options: TasselOptions,
    registry: CoordinatorRegistry,
    tenantRates: TenantRates<TasselOptions>,
    agentRates: AgentRates | null,
  ) {
    const rates = new RateTable();
    const orders: TasselOrder[] = [];
    super(number, context, fairPartOf(options), registry, (_kind, tenantOf, costs, misses) => {
      const order = new TasselOrder(rates, USABLE_PART / costs.nsPerByte, tenantOf, costs, misses);
      orders.push(order);
      return order;
    });
    this.rates = rates;
    this.orders = orders;
    this.given = options;
    this.tenantRates = tenantRates;
    this.agentRates = agentRates;
    const of = {
      given: options,
      targets: new GivenTargets(registry),
      agentGbpsOf: (qp: QpView) => agentRates?.gbpsOf(qp) ?? Number.POSITIVE_INFINITY,
      linkNs: 1 / this.linkPerNs,
      tenantKeyOf: (qp: QpView) => tenantRates.keyOf(qp),
    };
    this.sources = new RateSources(rates, of, {
      suspend: (qps) => this.suspend(qps),
      rescale: (qp, limit, times) => this.rescale(qp, limit, times),
      resume: () => this.resume(),
      begin: (limit) => {
        for (const { tags } of orders) tags.begin(limit);
      },
      isAhead: (limit) => orders.some(({ tags }) => tags.isAhead(limit)),
    });
  }

  /** Takes queue pairs out of the orders while their rates change. */
  private suspend(qps: readonly QpView[]): void {
    for (const order of this.orders)
      for (const { index } of qps) if (order.suspend(index)) this.suspended.push({ order, qp: index });
  }

  private rescale(qp: number, limit: number, times: number): void {
    for (const { tags } of this.orders) {
      if (limit === NONE) tags.rescale(qp, times);
      else tags.rescaleLimit(limit, times);
    }
  }

  private resume(): void {
    for (const { order, qp } of this.suspended.splice(0)) order.join(qp);
  }

  /** An event begins. System time must be right before rates change. */
  private begin(context: ContextView, out: Actions): void {
    this.clock.begin();
    const nowNs = this.clock.nowNs(context, out);
    for (const { tags } of this.orders) {
      tags.now[0] = nowNs;
      tags.advance();
    }
  }

  /** While the device is left alone, queue pairs with rates still send pieces. */
  protected override get choice(): WindowChoice {
    // A shorter window would take from queue pairs without a rate what those with one leave.
    const choice = { ...super.choice, followsPaths: false };
    if (choice.pieceBytes !== WHOLE_BYTES) return { ...choice, sparePieces: SPARE_PIECES };
    // The constructor of the base class calls this before there are options.
    return { ...choice, pieceBytes: this.given?.pieceBytes };
  }

  /** Options have changed. */
  reconfigure(given: TasselOptions, context: ContextView, out: Actions): void {
    if (given === this.given) return;
    const isNewOnDevice = given.enforce === 'device' && given.qpGbps !== this.given.qpGbps;
    this.given = given;
    this.begin(context, out);
    this.sources.configure(given);
    if (isNewOnDevice)
      for (const qp of this.sources.all()) if (qp.state === IBV_QPS_RTS) this.enforce(qp, out);
    super.configure(fairPartOf(given), out);
    this.pull(out);
  }

  override open(context: ContextView, out: Actions): void {
    this.contexts.set(context.index, context);
    super.open(context, out);
  }

  override add(qp: QpView, out: Actions): void {
    super.add(qp, out);
    this.begin(qp.context, out);
    const tenant = this.sources.add(qp);
    this.tenantRates.join(qp, tenant, out);
    this.readRates(qp.context, out);
  }

  override relabel(qp: QpView, out: Actions): void {
    if (this.sources.has(qp)) {
      this.begin(qp.context, out);
      this.sources.relabel(qp);
    }
    super.relabel(qp, out);
    this.pull(out);
  }

  /** A program has set the rate of its queue pair. */
  override rerate(qp: QpView, out: Actions): void {
    this.begin(qp.context, out);
    this.sources.changed(qp);
    this.pull(out);
  }

  override changed(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'state') {
      this.begin(qp.context, out);
      this.sources.connected(qp);
      if (qp.state === IBV_QPS_RTS) {
        this.enforce(qp, out);
        this.agentRates?.connected(qp, out);
      }
    }
    super.changed(qp, change, out);
    if (change !== 'destroyed') return;
    for (const { tags } of this.orders) tags.suspend(qp.index);
    this.agentRates?.drop(qp, out);
    this.tenantRates.leave(qp, this.sources.drop(qp), out);
  }

  /** With enforce=device, the rate of a queue pair is left to the device, unless the device refuses. */
  private enforce(qp: QpView, out: Actions): void {
    const { enforce, qpGbps } = this.given;
    if (enforce !== 'device' || qpGbps === undefined) return;
    this.sources.leaveToDevice(qp, out.limitRate(qp, Math.round(qpGbps * 1e6)));
  }

  override regrant(context: ContextView, out: Actions): void {
    this.begin(context, out);
    this.readRates(context, out);
    super.regrant(context, out);
  }

  /**
   * What queue pairs with rates send is paced, so windows share out only the rest of the link. Others in this process may
   * be late, so those with rates have room for more than they send.
   */
  protected override fitParts(): void {
    super.fitParts();
    // The constructor of the base class calls this before there are orders.
    for (const [i, { tags }] of this.orders?.entries() ?? []) {
      const direction = i === 0 ? this.outbound : this.inbound;
      const perNs = this.linkPerNs * tags.phi;
      const restPart = Math.max(0, 1 - (tags.activePerNs + this.othersPerNs) / perNs);
      direction.part = Math.min(1, (RATED_WINDOW * tags.activePerNs) / perNs + restPart * direction.part);
    }
  }

  /** Reads the rate of the context's tenant, and what other processes send. Reports what this one does. */
  private readRates(context: ContextView, out: Actions): void {
    const { tenantRates, sources, orders } = this;
    for (const index of this.contexts.keys()) if (!tenantRates.isOpen(index)) this.contexts.delete(index);
    // All contexts of a process have one scheduler, so only one of them reports.
    const [first] = this.contexts.values();
    const isFirst = first === context;
    const columns = tenantRates.memberAt(context)?.columns;
    if (columns === undefined) return;
    sources.readTargets(context);
    for (const qp of this.agentRates?.exchange(context, out) ?? []) sources.changed(qp);
    const activePerNs = Math.max(...orders.map(({ tags }) => tags.activePerNs));
    columns.reports[ACTIVE_GBPS] = isFirst ? 8 * activePerNs : 0;
    if (isFirst) {
      this.othersPerNs = columns.grants[OTHERS_GBPS] / 8;
      for (const { tags } of orders) tags.setOthers(this.othersPerNs);
    }
    const tenant = sources.tenantOf(tenantRates.keyAt(context));
    if (tenant === NONE || tenantRates.sharersOf(tenant).length === 0) return;
    const limit = sources.limitOfTenant(tenant);
    const paidBytes = orders.reduce((sum, { tags }) => sum + tags.takeSpentBytes(limit), 0);
    const gbps = tenantRates.gbpsOf(tenant, paidBytes);
    // Without a daemon's answer, the last rate holds. Without any daemon, members are granted as much as all together.
    const isFree = gbps >= UNLIMITED_GBPS || tenantRates.isUnlimited(tenant);
    if (gbps > 0) sources.setTenant(tenant, isFree ? 0 : gbps);
    this.settle(out);
  }

  /** Rates hold for whatever a queue pair sends, wherever its peer is. */
  protected override get usesLoopback(): boolean {
    return false;
  }

  /** Atomics take part of a rate as all others do. */
  protected override directionOf(qp: QpView, out: Actions): Direction<PacedOrder> | null {
    if (this.rates.isRated(qp.index) && isAtomic(out.nextOpcode(qp))) return this.outbound;
    return super.directionOf(qp, out);
  }

  /** The entries of the timelines of both directions, and what system time is slowed down by. */
  get gauges(): { entries: number; phi: number } {
    const tags = this.orders.map((order) => order.tags);
    return {
      entries: tags.reduce((sum, { entries }) => sum + entries, 0),
      phi: Math.max(...tags.map(({ phi }) => phi)),
    };
  }

  override onload(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number {
    if (!this.rates.isRated(qp.index)) return super.onload(qp, words, start, count, out);
    this.begin(qp.context, out);
    const [outbound, inbound] = this.orders;
    let passed = 0;
    let passedBytes = 0;
    for (; passed < count; passed++) {
      const at = L.slotAt(start + passed);
      // A slot has two SGEs. For a longer list, the shim's copy knows the size.
      if (words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      const bytes = messageBytes(words, at, 0);
      if (bytes > this.wire.mtuBytes) break;
      const opcode = words[at + L.WR_OP] & 0xff;
      const wireSize = wireBytes(this.wire, opcode, bytes);
      if (!(opcode === IBV_WR_RDMA_READ ? inbound : outbound).passRated(qp.index, wireSize)) break;
      passedBytes += bytes;
    }
    qp.counts[BYTES] += passedBytes;
    return passed;
  }
}
