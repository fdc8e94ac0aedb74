/** Palos at one device: the weights of its queue pairs, both directions of its link, and its urgent messages. */
import { ChunkWeights } from '../../chunk-weights/chunk-weights.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import {
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
  ISO_TRAFFIC_LATENCY,
} from '../../verbs/constants.ts';
import { Direction, type WindowOptions } from '../kit/direction.ts';
import { byContext } from '../kit/entities.ts';
import { EventClock } from '../kit/event-clock.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, ingressBytes, type WireFacts, wireFactsOf } from '../kit/wire.ts';
import { ChunkOrder } from './chunk-order.ts';
import type { PalosOptions } from './options.ts';
import { Reporter } from './reporter.ts';
import { Urgent } from './urgent.ts';
import { windowRulesOf } from './windows.ts';

/** Default length of a piece, rounded to whole packets. */
const PIECE_BYTES = 3000;
/** Pieces in flight in addition to what the link carries in a round trip. */
const SPARE_PIECES = 2;
/** Assumed if the device does not report them: a link of 1 Gbit/s, and a round trip of 20 us. */
const SLOW_LINK_PER_NS = 0.125;
const SLOW_ROUND_TRIP_NS = 20_000;
/** The urgent share of the link in this time may be used at once. */
const URGENT_BURST_NS = 20_000;
/** Time between two samples, which are reported if other processes share the device. */
const SAMPLE_NS = 20e6;

/** Kinds of timers. A token is the scheduler's number times TIMER_KINDS, plus the kind. */
export const OUTBOUND = 0;
export const INBOUND = 1;
export const URGENT = 2;
export const SAMPLE = 3;
export const TIMER_KINDS = 4;

/** The tenant of a context: its name, or, without one, the context itself. */
export function tenantOf(context: ContextView): string {
  return context.tenant === '' ? byContext({ context }) : `=${context.tenant}`;
}

/** Schedules the queue pairs of all contexts of one device. */
export class Scheduler {
  readonly number: number;
  readonly device: string;
  readonly weights: ChunkWeights;
  private readonly outbound: Direction<ChunkOrder>;
  private readonly inbound: Direction<ChunkOrder>;
  private readonly urgent: Urgent;
  private readonly clock = new EventClock();
  private readonly wire: WireFacts;
  private readonly linkPerNs: number;
  private readonly latencyNs: number;
  private readonly gapNs: number;
  private readonly reporter: Reporter;
  private nextSampleNs = Number.NEGATIVE_INFINITY;
  private options: PalosOptions;
  /** By queue pair: 1 if it is labelled, so that its short messages are urgent. Labels would take two loads more. */
  private isUrgent: Uint8Array = new Uint8Array(64);
  /** Queue pairs whose next request belongs elsewhere; empty between events. */
  private readonly strays: QpView[] = [];

  constructor(number: number, context: ContextView, options: PalosOptions, registry: CoordinatorRegistry) {
    const { nic } = context;
    this.number = number;
    this.device = context.device;
    this.options = options;
    this.wire = wireFactsOf(nic);
    this.linkPerNs = nic?.linkGbps ? nic.linkGbps / 8 : SLOW_LINK_PER_NS;
    this.latencyNs = nic?.latencyNs ?? SLOW_ROUND_TRIP_NS;
    this.gapNs = nic?.wqeGapNs ?? 0;
    const { sums, chunkMtus } = options;
    const { wire } = this;
    this.weights = new ChunkWeights({ sums, bytesPerQp: chunkMtus * wire.mtuBytes });
    this.urgent = new Urgent({ wire, clock: this.clock, perNs: 0, burstBytes: 0, longestBytes: 0 });
    this.outbound = this.addDirection(OUTBOUND, egressBytes);
    this.inbound = this.addDirection(INBOUND, ingressBytes);
    const { order } = this.outbound;
    order.other = this.inbound.order;
    this.inbound.order.other = order;
    this.reporter = new Reporter(registry, {
      waits: ({ index }) => order.waits(index) || this.inbound.order.waits(index),
      takeSentBytes: ({ index }) => order.takeSentBytes(index) + this.inbound.order.takeSentBytes(index),
      groupWeightOf: ({ index }) => this.weights.groupWeightOf(index),
    });
    this.apply(options, 0);
  }

  private addDirection(kind: number, loadOf: typeof egressBytes): Direction<ChunkOrder> {
    const direction: Direction<ChunkOrder> = new Direction(
      (qp, out) => {
        if (this.directionOf(qp, out) === direction) return true;
        this.strays.push(qp);
        return false;
      },
      new ChunkOrder(this.weights),
      this.window,
      { wire: this.wire, loadOf, token: this.tokenOf(kind), clock: this.clock },
    );
    return direction;
  }

  private tokenOf(kind: number): number {
    return this.number * TIMER_KINDS + kind;
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
    this.outbound.configure(this.window);
    this.inbound.configure(this.window);
  }

  /** What the windows depend on. */
  private get window(): WindowOptions {
    const { wire, linkPerNs, gapNs, latencyNs, options } = this;
    const { pieceBytes, minChargeBytes, windowBytes } = options;
    return {
      roundTripNs: latencyNs,
      linkPerNs,
      gapNs,
      pieceBytes: pieceBytes ?? Math.max(1, Math.floor(PIECE_BYTES / wire.mtuBytes)) * wire.mtuBytes,
      minChargeBytes: minChargeBytes ?? egressBytes(wire, IBV_WR_RDMA_WRITE, 0),
      sparePieces: SPARE_PIECES,
      fetchedPieces: 1,
      queuedMessages: 0,
      windowBytes,
    };
  }

  /** A context was opened. */
  open(context: ContextView, out: Actions): void {
    this.clock.begin();
    this.reporter.open(context, windowRulesOf(this.options), this.clock.nowNs(context, out));
    this.regrant(context, out);
  }

  /** The part of the window has changed, reports are requested for the first time, or a sample may be due. */
  regrant(context: ContextView, out: Actions): void {
    this.clock.begin();
    const nowNs = this.clock.nowNs(context, out);
    if (nowNs >= this.nextSampleNs) {
      this.nextSampleNs = nowNs + SAMPLE_NS;
      this.reporter.sample(this.outbound.leastPart, nowNs);
    }
    // Each time, because the daemon may have asked for reports only now, and contexts come and go.
    this.reporter.plan(this.nextSampleNs, out, this.tokenOf(SAMPLE));
    for (const direction of [this.outbound, this.inbound]) {
      direction.part = this.reporter.part;
      direction.isSteered = this.reporter.isSteered;
    }
    this.pull(out);
  }

  /** A queue pair was created. */
  add(qp: QpView, out: Actions): void {
    this.clock.begin();
    this.urgent.add(qp);
    this.reporter.add(qp);
    this.place(qp);
    this.inbound.add(qp, out);
    this.outbound.add(qp, out);
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

  /** A queue pair was modified, or destroyed. */
  changed(qp: QpView, change: QpChange, out: Actions): void {
    this.clock.begin();
    this.urgent.leave(qp);
    this.inbound.changed(qp, change, out);
    this.outbound.changed(qp, change, out);
    if (change === 'destroyed') {
      this.urgent.drop(qp);
      this.reporter.drop(qp);
      this.weights.remove(qp.index);
    } else if (out.backlog(qp) > 0) {
      this.strays.push(qp);
    }
    this.settle(out);
  }

  /** How many of the requests that are being posted may go at once: see Policy.onload. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number {
    if (this.isUrgent[qp.index] === 0) return 0;
    this.clock.begin();
    return this.urgent.admit(qp, words, start, count, this.clock.nowNs(qp.context, out), this.isIdle);
  }

  /** Whether no requests wait for the link out of the device. */
  private get isIdle(): boolean {
    return this.outbound.order.isEmpty;
  }

  /** The queue pair holds requests. */
  feed(qp: QpView, out: Actions): void {
    // If it waits for the window, nothing has changed.
    if (
      this.isUrgent[qp.index] === 0 &&
      (this.outbound.order.isReady(qp.index) || this.inbound.order.isReady(qp.index))
    )
      return;
    this.clock.begin();
    this.strays.push(qp);
    this.settle(out);
  }

  onCompleted(qp: QpView, out: Actions): void {
    this.clock.begin();
    this.inbound.onCompleted(qp, out);
    this.outbound.onCompleted(qp, out);
    this.settle(out);
  }

  onTimer(kind: number, context: ContextView, out: Actions): void {
    this.clock.begin();
    if (kind === OUTBOUND) this.outbound.puller.onTimer(out);
    else if (kind === INBOUND) this.inbound.puller.onTimer(out);
    else if (kind === SAMPLE) this.regrant(context, out);
    this.settle(out);
  }

  private pull(out: Actions): void {
    this.outbound.puller.onTimer(out);
    this.inbound.puller.onTimer(out);
    this.settle(out);
  }

  /** Moves queue pairs to where their oldest requests belong, until none is left. */
  private settle(out: Actions): void {
    const { strays } = this;
    for (;;) {
      const qp = strays.pop() ?? this.serveUrgent(out);
      if (qp === null) return;
      if (out.backlog(qp) === 0) continue;
      const direction = this.directionOf(qp, out);
      if (direction !== null) direction.enlist(qp, out);
      else if (isAtomic(out.nextOpcode(qp))) this.passAtomics(qp, out);
      else this.urgent.enlist(qp);
    }
  }

  /** The direction of the oldest held request of a queue pair; null: none, because it goes first or is an atomic. */
  private directionOf(qp: QpView, out: Actions): Direction<ChunkOrder> | null {
    const opcode = out.nextOpcode(qp);
    if (isAtomic(opcode) || (this.isUrgent[qp.index] === 1 && this.urgent.admits(qp, out))) return null;
    return opcode === IBV_WR_RDMA_READ ? this.inbound : this.outbound;
  }

  /** Serves urgent messages. Returns a queue pair whose next request is not urgent; null: there is none. */
  private serveUrgent(out: Actions): QpView | null {
    this.urgent.patienceNs = this.outbound.expectedNs;
    return this.urgent.serve(out, this.isIdle, this.tokenOf(URGENT));
  }

  /** Issues atomics. The device limits their rate far below what the link carries, so they do not queue at the link. */
  private passAtomics(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && isAtomic(out.nextOpcode(qp))) {
      // With completions, the shim feeds the queue pair again.
      if (this.outbound.isFull(qp, out)) return;
      if (step(qp, out, this.wire.mtuBytes) === BLOCKED) return;
    }
    this.strays.push(qp);
  }
}

function isAtomic(opcode: number): boolean {
  return opcode === IBV_WR_ATOMIC_CMP_AND_SWP || opcode === IBV_WR_ATOMIC_FETCH_AND_ADD;
}
