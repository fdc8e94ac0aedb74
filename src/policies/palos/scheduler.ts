/** Palos at one device: the weights of its queue pairs, their order, the window, and the messages before all others. */
import { ChunkWeights } from '../../chunk-weights/chunk-weights.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import {
  IBV_QPT_UD,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
  ISO_TRAFFIC_LATENCY,
} from '../../verbs/constants.ts';
import { byContext } from '../kit/entities.ts';
import { Puller, STALL_NS } from '../kit/puller.ts';
import { NONE } from '../kit/run-queue.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, type WireFacts, wireBytes, wireFactsOf } from '../kit/wire.ts';
import { ChunkOrder } from './chunk-order.ts';
import type { PalosOptions } from './options.ts';
import { Reporter } from './reporter.ts';
import { RoundTrip } from './round-trip.ts';
import { Urgent } from './urgent.ts';
import { windowRulesOf } from './windows.ts';

/** Default length of a piece, rounded to whole packets. */
const PIECE_BYTES = 3000;
/** Pieces in flight in addition to what the link carries in a round trip: one is fetched while another one is sent. */
const SPARE_PIECES = 2;
/** Assumed where the device does not say: a link of 1 Gbit/s, and a round trip of 20 us. */
const SLOW_LINK_PER_NS = 0.125;
const SLOW_ROUND_TRIP_NS = 20_000;
/** Time of the link's urgent share that may be used at once. */
const URGENT_BURST_NS = 20_000;
/** Messages of one queue pair in flight beyond those that it processes in a round trip. */
const SPARE_MESSAGES = 4;
/** Times that a full window may take until a queue pair without a completion no longer counts. Others share the link. */
const STALL_WINDOWS = 8;
/**
 * A queue pair processes one message after another, each in a certain time. Many messages in a row would therefore stay
 * in the window for longer than the spare pieces allow for: on average, half the time of the row.
 */
const ROW_PER_SPARE = 2;

/** Time between two samples for other processes. */
const SAMPLE_NS = 20e6;

/** Kinds of timers. A token is the scheduler's number times TIMER_KINDS, plus the kind. */
export const PULL = 0;
export const URGENT = 1;
export const SAMPLE = 2;
export const TIMER_KINDS = 3;

/** The tenant of a context: its name, or, without one, the context itself. */
export function tenantOf(context: ContextView): string {
  return context.tenant === '' ? byContext({ context }) : `=${context.tenant}`;
}

/** Schedules the queue pairs of all contexts of one device. */
export class Scheduler {
  readonly number: number;
  readonly device: string;
  readonly weights: ChunkWeights;
  readonly puller: Puller;
  readonly roundTrip: RoundTrip;
  private readonly order: ChunkOrder;
  private readonly urgent: Urgent;
  private readonly wire: WireFacts;
  private readonly linkPerNs: number;
  private readonly latencyNs: number;
  private readonly gapNs: number;
  private readonly reporter: Reporter;
  /** The part of the window that other processes leave to this one. */
  private part = 1;
  private nextSampleNs = Number.NEGATIVE_INFINITY;
  private options: PalosOptions;
  private minChargeBytes = 1;
  /**
   * The window; and while one queue pair alone has something to send, whose requests follow each other so closely that the
   * device fetches them from memory.
   */
  private windowBytes = 1;
  private aloneBytes = 1;
  private pieceWireBytes = 1;
  /** Messages that a queue pair may have in flight. */
  private mostMessages = 0;
  /** Messages of a queue pair in a row, before others have their turns. */
  private rowMessages = 0;
  /** The queue pair that was served last, and what it has sent since its last signaled request, and in a row. */
  private last = NONE;
  private unreportedBytes = 0;
  private inRow = 0;

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
    this.weights = new ChunkWeights({ sums, bytesPerQp: chunkMtus * this.wire.mtuBytes });
    this.order = new ChunkOrder(this.weights);
    this.roundTrip = new RoundTrip(this.linkPerNs);
    this.urgent = new Urgent({ wire: this.wire, perNs: 0, burstBytes: 0, longestBytes: 0 });
    this.reporter = new Reporter(registry, {
      waits: ({ index }) => this.order.waits(index),
      groupWeightOf: ({ index }) => this.weights.groupWeightOf(index),
    });
    this.puller = new Puller({
      order: this.order,
      wire: this.wire,
      windowBytes: 1,
      pieceBytes: 1,
      readAheadBytes: Number.POSITIVE_INFINITY,
      token: number * TIMER_KINDS + PULL,
      issue: this.issue,
    });
    this.apply(options, 0);
  }

  /** Changes options. */
  configure(options: PalosOptions, context: ContextView, out: Actions): void {
    this.apply(options, out.nowNs(context));
    this.puller.onTimer(out);
    this.serveUrgent(out);
  }

  private apply(options: PalosOptions, nowNs: number): void {
    const { wire, linkPerNs } = this;
    const { mtuBytes } = wire;
    this.options = options;
    this.minChargeBytes = options.minChargeBytes ?? egressBytes(wire, IBV_WR_RDMA_WRITE, 0);
    this.puller.pieceBytes = options.pieceBytes ?? Math.max(1, Math.floor(PIECE_BYTES / mtuBytes)) * mtuBytes;
    const { urgentShare } = options;
    // A limit that is the whole link would still be a limit to what goes into the device.
    const perNs = urgentShare === 1 ? Number.POSITIVE_INFINITY : urgentShare * linkPerNs;
    this.urgent.configure(
      {
        perNs,
        burstBytes: Math.max(URGENT_BURST_NS * urgentShare * linkPerNs, 1),
        // Without a share, no message is urgent: it would wait until it is alone.
        longestBytes: urgentShare === 0 ? -1 : (options.urgentBytes ?? mtuBytes),
      },
      nowNs,
    );
    this.fitWindow();
  }

  /** Fits the window to the measured round trip. */
  private fitWindow(): void {
    const { puller, wire } = this;
    const roundTripNs = this.roundTrip.ns || this.latencyNs;
    const piece = egressBytes(wire, IBV_WR_RDMA_WRITE, puller.pieceBytes);
    this.pieceWireBytes = piece;
    this.windowBytes = this.options.windowBytes ?? roundTripNs * this.linkPerNs + SPARE_PIECES * piece;
    this.aloneBytes = this.options.windowBytes ?? this.windowBytes + piece;
    puller.windowBytes = this.windowBytes;
    puller.stallNs = Math.max(STALL_NS, STALL_WINDOWS * (roundTripNs + this.windowBytes / this.linkPerNs));
    const gapNs = Math.max(this.gapNs, 1);
    this.mostMessages = Math.ceil(roundTripNs / gapNs) + SPARE_MESSAGES;
    const spareNs = (SPARE_PIECES * piece) / this.linkPerNs;
    this.rowMessages = Math.max(1, Math.floor((ROW_PER_SPARE * spareNs) / gapNs));
  }

  /** A context was opened. */
  open(context: ContextView, out: Actions): void {
    this.reporter.open(context, windowRulesOf(this.options), out.nowNs(context));
    this.regrant(context, out);
  }

  /** The part of the window has changed, reports are wanted for the first time, or a sample may be due. */
  regrant(context: ContextView, out: Actions): void {
    const nowNs = out.nowNs(context);
    if (nowNs >= this.nextSampleNs) {
      this.nextSampleNs = nowNs + SAMPLE_NS;
      this.reporter.sample(Math.min(1, this.pieceWireBytes / this.windowBytes));
    }
    // Each time, because the daemon may have asked for reports only now, and contexts come and go.
    this.reporter.plan(this.nextSampleNs, out, this.number * TIMER_KINDS + SAMPLE);
    this.part = this.reporter.part;
    this.puller.onTimer(out);
  }

  /** A queue pair was created. */
  add(qp: QpView, out: Actions): void {
    this.order.reset(qp.index);
    this.urgent.add(qp);
    this.reporter.add(qp);
    this.place(qp);
    // All peers of datagrams count as one.
    if (qp.type === IBV_QPT_UD) this.roundTrip.connect(qp.index, '');
    this.puller.onQp(qp, 'created', out);
  }

  /** The labels of a queue pair have changed. Its requests in flight stay where they are. */
  relabel(qp: QpView, out: Actions): void {
    this.place(qp);
    if (out.backlog(qp) === 0) return;
    this.urgent.leave(qp);
    this.feed(qp, out);
  }

  private place(qp: QpView): void {
    const { weights } = this;
    const { group, qpWeight, weight } = qp.labels;
    const tenant = tenantOf(qp.context);
    weights.setTenantWeight(tenant, weight);
    const at = weights.groupOf(tenant, group);
    if (!weights.has(qp.index)) weights.add(qp.index, at, qpWeight);
    else {
      weights.setWeight(qp.index, qpWeight);
      weights.move(qp.index, at);
    }
  }

  /** A queue pair was modified, or destroyed. */
  changed(qp: QpView, change: QpChange, out: Actions): void {
    this.roundTrip.cancel();
    if (qp.dgid !== '') this.roundTrip.connect(qp.index, qp.dgid);
    this.urgent.leave(qp);
    if (change === 'destroyed') {
      this.puller.onQp(qp, change, out);
      this.urgent.drop(qp);
      this.reporter.drop(qp);
      this.weights.remove(qp.index);
      return;
    }
    this.puller.onQp(qp, change, out);
    if (out.backlog(qp) > 0) this.feed(qp, out);
  }

  /** How many of the requests that are being posted may go at once: see Policy.onload. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number {
    if (!isUrgent(qp)) return 0;
    return this.urgent.admit(qp, words, start, count, out.nowNs(qp.context), this.order.isEmpty);
  }

  /** The queue pair holds requests. */
  feed(qp: QpView, out: Actions): void {
    if (isUrgent(qp) && this.urgent.admits(qp, out)) {
      this.urgent.enlist(qp);
      this.serveUrgent(out);
    } else {
      this.puller.enlist(qp, out);
      this.serveUrgent(out);
    }
  }

  onCompleted(qp: QpView, out: Actions): void {
    this.puller.onCompleted(qp, out);
    if (this.puller.usedBytes === 0) this.drained(out.nowNs(qp.context));
    this.serveUrgent(out);
  }

  /** What was in flight has completed. While others wait, this is noticed with the next request. */
  private drained(nowNs: number): void {
    if (this.roundTrip.drained(nowNs)) this.fitWindow();
  }

  onTimer(kind: number, context: ContextView, out: Actions): void {
    if (kind === PULL) this.puller.onTimer(out);
    else if (kind === SAMPLE) this.regrant(context, out);
    this.serveUrgent(out);
  }

  private serveUrgent(out: Actions): void {
    const { urgent, order } = this;
    const token = this.number * TIMER_KINDS + URGENT;
    while (!urgent.isEmpty) {
      const other = urgent.serve(out, order.isEmpty, token);
      if (other === null) return;
      this.puller.enlist(other, out);
    }
  }

  /** Issues a request, or a piece of one (PullerOptions.issue). */
  private readonly issue = (qp: QpView, out: Actions, pieceBytes: number): number => {
    const { order, wire } = this;
    const { index } = qp;
    if (isUrgent(qp) && this.urgent.admits(qp, out)) {
      this.urgent.enlist(qp);
      return BLOCKED;
    }
    if (out.inflight(qp) >= this.mostMessages || this.awaitsReads(qp, out, pieceBytes)) {
      order.hold(index);
      return BLOCKED;
    }
    const credit = order.creditOf(index);
    const { mtuBytes } = wire;
    const chunkBytes = Math.ceil(credit / mtuBytes) * mtuBytes;
    const opcode = out.nextOpcode(qp);
    const bytes = step(qp, out, Math.min(pieceBytes, chunkBytes));
    if (bytes === BLOCKED) {
      order.hold(index);
      return BLOCKED;
    }
    order.spend(index, Math.max(bytes, this.minChargeBytes));
    this.report(qp, bytes, out);
    this.time(qp, opcode, bytes, out);
    return bytes;
  };

  /** Measures the round trip. */
  private time(qp: QpView, opcode: number, bytes: number, out: Actions): void {
    const { puller, roundTrip } = this;
    const isFirst = puller.usedBytes === 0;
    const nowNs = isFirst ? out.nowNs(qp.context) : 0;
    if (isFirst) this.drained(nowNs);
    roundTrip.issued(qp.index, egressBytes(this.wire, opcode, bytes), isFirst, nowNs);
    this.reporter.sent(qp, wireBytes(this.wire, opcode, bytes));
    if (roundTrip.isMeasuring) {
      out.signalNow(qp);
      puller.windowBytes = 1;
    } else {
      puller.windowBytes = (this.order.isShared ? this.windowBytes : this.aloneBytes) * this.part;
    }
  }

  /**
   * Requests completions often enough: for each piece, of one message or of several short ones, and at the end of a turn.
   * Otherwise the device reports many short messages together, and the window stays full for too long.
   */
  private report(qp: QpView, bytes: number, out: Actions): void {
    const { order, puller } = this;
    const { index } = qp;
    if (index !== this.last) [this.last, this.unreportedBytes, this.inRow] = [index, 0, 0];
    this.unreportedBytes += bytes;
    this.inRow++;
    const isLast = order.creditOf(index) <= 0 || this.inRow >= this.rowMessages;
    if (this.unreportedBytes < puller.pieceBytes && !isLast) return;
    out.signalNow(qp);
    this.unreportedBytes = 0;
    if (!isLast) return;
    this.inRow = 0;
    if (order.creditOf(index) > 0) order.yield(index);
  }

  /** Whether enough READs of a queue pair are in flight. They load the other direction, and do not count there. */
  private awaitsReads(qp: QpView, out: Actions, pieceBytes: number): boolean {
    if (out.nextOpcode(qp) !== IBV_WR_RDMA_READ) return false;
    const flying = out.inflightBytes(qp);
    return flying > 0 && flying + Math.min(out.nextBytes(qp), pieceBytes) > this.puller.windowBytes;
  }
}

/** Whether a queue pair says that its short messages are urgent. */
function isUrgent(qp: QpView): boolean {
  return qp.labels.traffic === ISO_TRAFFIC_LATENCY;
}
