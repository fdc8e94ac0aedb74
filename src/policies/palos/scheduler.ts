/** Palos at one device: the weights of its queue pairs, both directions of its link, and its urgent messages. */
import { ChunkWeights } from '../../chunk-weights/chunk-weights.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { ISO_TRAFFIC_LATENCY } from '../../verbs/constants.ts';
import { byContext } from '../kit/entities.ts';
import type { Direction } from '../link/direction.ts';
import {
  FIRST_KIND,
  INBOUND,
  isAtomic,
  LinkScheduler,
  OUTBOUND,
  type WindowChoice,
} from '../link/link-scheduler.ts';
import type { WindowRules } from '../link/windows.ts';
import { ChunkOrder } from './chunk-order.ts';
import type { PalosOptions } from './options.ts';
import { windowRulesOf, windows } from './ruler.ts';
import { Urgent } from './urgent.ts';

/** Pieces in flight in addition to what the link carries in a round trip. */
const SPARE_PIECES = 2;
/** The urgent share of the link in this time may be used at once. */
const URGENT_BURST_NS = 20_000;
/** A further kind of timer. */
const URGENT = FIRST_KIND;
export const TIMER_KINDS = FIRST_KIND + 1;

/** The tenant of a context: its name, or, without one, the context itself. */
export function tenantOf(context: ContextView): string {
  return context.tenant === '' ? byContext({ context }) : `=${context.tenant}`;
}

/** Schedules the queue pairs of all contexts of one device. */
export class Scheduler extends LinkScheduler<ChunkOrder> {
  readonly weights: ChunkWeights;
  protected readonly outbound: Direction<ChunkOrder>;
  protected readonly inbound: Direction<ChunkOrder>;
  protected readonly loopback = null;
  private readonly urgent: Urgent;
  private options: PalosOptions;
  /** By queue pair: 1 if it is labelled, so that its short messages are urgent. Labels would take two loads more. */
  private isUrgent: Uint8Array = new Uint8Array(64);

  constructor(number: number, context: ContextView, options: PalosOptions, registry: CoordinatorRegistry) {
    super(number, context, { kinds: TIMER_KINDS, registry, ruler: windows });
    this.options = options;
    const { sums, chunkMtus } = options;
    const { wire } = this;
    this.weights = new ChunkWeights({ sums, bytesPerQp: chunkMtus * wire.mtuBytes });
    this.urgent = new Urgent({ wire, clock: this.clock, perNs: 0, burstBytes: 0, longestBytes: 0 });
    const order = new ChunkOrder(this.weights);
    order.other = new ChunkOrder(this.weights);
    order.other.other = order;
    this.outbound = this.addDirection(OUTBOUND, order, this.choice);
    this.inbound = this.addDirection(INBOUND, order.other, this.choice);
    this.apply(options, 0);
  }

  /** Changes options. */
  configure(options: PalosOptions, context: ContextView, out: Actions): void {
    this.clock.begin();
    if (options === this.options) return;
    this.apply(options, this.clock.nowNs(context, out));
    this.pull(out);
  }

  private apply(options: PalosOptions, nowNs: number): void {
    const { linkPerNs } = this;
    this.options = options;
    const { urgentShare } = options;
    // A limit of the whole link would still limit what goes into the device.
    const perNs = urgentShare === 1 ? Number.POSITIVE_INFINITY : urgentShare * linkPerNs;
    const burstBytes = Math.max(URGENT_BURST_NS * urgentShare * linkPerNs, 1);
    // Without a share, no message is urgent: it would have to wait until no others wait.
    const longestBytes = urgentShare === 0 ? -1 : (options.urgentBytes ?? this.wire.mtuBytes);
    this.urgent.configure({ perNs, burstBytes, longestBytes }, nowNs);
    this.outbound.configure(this.window(this.choice));
    this.inbound.configure(this.window(this.choice));
  }

  private get choice(): WindowChoice {
    const { pieceBytes, minChargeBytes, windowBytes } = this.options;
    const bytes = { pieceBytes, minChargeBytes, windowBytes };
    return {
      ...bytes,
      sparePieces: SPARE_PIECES,
      fetchedPieces: 1,
      endedPieces: 0,
      queuedMessages: 0,
      fitsPieces: false,
      followsPaths: false,
      lengthensPieces: false,
    };
  }

  protected override groupWeightOf({ index }: QpView): number {
    return this.weights.groupWeightOf(index);
  }

  protected get rules(): WindowRules {
    return windowRulesOf(this.options);
  }

  override add(qp: QpView, out: Actions): void {
    this.urgent.add(qp);
    this.place(qp);
    super.add(qp, out);
  }

  /** The labels of a queue pair have changed. Its requests in flight stay where they are. */
  relabel(qp: QpView, out: Actions): void {
    this.clock.begin();
    this.place(qp);
    if (out.backlog(qp) === 0) return;
    this.urgent.leave(qp);
    this.feed(qp, out);
  }

  private place(qp: QpView): void {
    const { weights } = this;
    const { group, qpWeight, weight, traffic } = qp.labels;
    this.isUrgent = fitColumn(this.isUrgent, qp.index);
    this.isUrgent[qp.index] = Number(traffic === ISO_TRAFFIC_LATENCY);
    const tenant = tenantOf(qp.context);
    const at = weights.groupOf(tenant, group);
    weights.setTenantWeight(tenant, weight);
    if (!weights.has(qp.index)) weights.add(qp.index, at, qpWeight);
    else {
      weights.setWeight(qp.index, qpWeight);
      weights.move(qp.index, at);
    }
  }

  override changed(qp: QpView, change: QpChange, out: Actions): void {
    this.urgent.leave(qp);
    super.changed(qp, change, out);
  }

  protected override forget(qp: QpView): void {
    this.urgent.drop(qp);
    super.forget(qp);
    this.weights.remove(qp.index);
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number {
    if (this.isUrgent[qp.index] === 0) return 0;
    this.clock.begin();
    return this.urgent.admit(qp, words, start, count, this.clock.nowNs(qp.context, out), this.isIdle);
  }

  /** Whether no requests wait for the link out of the device. */
  private get isIdle(): boolean {
    return this.outbound.order.isEmpty;
  }

  override feed(qp: QpView, out: Actions): void {
    if (this.isUrgent[qp.index] === 0) {
      super.feed(qp, out);
      return;
    }
    // Even if it waits for the window, it may go first now.
    this.clock.begin();
    this.strays.push(qp);
    this.settle(out);
  }

  /** Serves urgent messages before any others that wait. */
  protected override stray(out: Actions): QpView | null {
    const next = this.strays.pop();
    if (next !== undefined) return next;
    this.urgent.patienceNs = this.outbound.pace.expectedNs;
    return this.urgent.serve(out, this.isIdle, this.tokenOf(URGENT));
  }

  protected override directionOf(qp: QpView, out: Actions): Direction<ChunkOrder> | null {
    if (this.isUrgent[qp.index] === 1 && !isAtomic(out.nextOpcode(qp)) && this.urgent.admits(qp, out))
      return null;
    return super.directionOf(qp, out);
  }

  protected override pass(qp: QpView, out: Actions): void {
    if (isAtomic(out.nextOpcode(qp))) super.pass(qp, out);
    else this.urgent.enlist(qp);
  }
}
