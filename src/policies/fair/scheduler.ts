/** fair at one device: both directions of its link, and the tenants that share them. */
import { BYTES } from '../../shim/counters.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import {
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { Direction, type WindowOptions } from '../kit/direction.ts';
import { byTenant, Entities } from '../kit/entities.ts';
import { EventClock } from '../kit/event-clock.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, ingressBytes, type WireFacts, wireFactsOf } from '../kit/wire.ts';
import { type Costs, DominantOrder } from './dominant-order.ts';
import type { FairOptions } from './options.ts';

/** Default length of a piece, rounded to whole packets. */
const PIECE_BYTES = 3000;
/** Assumed if the device does not report them: a link of 1 Gbit/s, and a round trip of 20 us. */
const SLOW_LINK_PER_NS = 0.125;
const SLOW_ROUND_TRIP_NS = 20_000;

/** Short messages that may wait in the queue of their queue pair, so that it always has another one to process. */
const QUEUED_MESSAGES = 32;

/** Kinds of timers. A token is the scheduler's number times TIMER_KINDS, plus the kind. */
const OUTBOUND = 0;
const INBOUND = 1;
export const TIMER_KINDS = 2;

/** Schedules the queue pairs of all contexts of one device. */
export class Scheduler {
  readonly number: number;
  readonly device: string;
  private readonly outbound: Direction<DominantOrder>;
  private readonly inbound: Direction<DominantOrder>;
  private readonly clock = new EventClock();
  private readonly tenants: Entities;
  private readonly wire: WireFacts;
  private readonly linkPerNs: number;
  private readonly latencyNs: number;
  private readonly gapNs: number;
  private readonly units: number;
  private options: FairOptions;
  /** Queue pairs whose next request belongs elsewhere; empty between events. */
  private readonly strays: QpView[] = [];

  constructor(number: number, { device, nic }: ContextView, options: FairOptions) {
    this.number = number;
    this.device = device;
    this.options = options;
    this.wire = wireFactsOf(nic);
    this.linkPerNs = nic?.linkGbps ? nic.linkGbps / 8 : SLOW_LINK_PER_NS;
    this.latencyNs = nic?.latencyNs ?? SLOW_ROUND_TRIP_NS;
    this.gapNs = nic?.wqeGapNs ?? 0;
    this.units = nic?.processingUnits ?? 1;
    this.tenants = new Entities({ keyOf: byTenant });
    this.outbound = this.addDirection(OUTBOUND, egressBytes);
    this.inbound = this.addDirection(INBOUND, ingressBytes);
  }

  private addDirection(kind: number, loadOf: typeof egressBytes): Direction<DominantOrder> {
    const order = new DominantOrder((index) => this.tenants.of({ index }), this.costs);
    const direction: Direction<DominantOrder> = new Direction(
      (qp, out) => {
        if (this.directionOf(qp, out) === direction) return true;
        this.strays.push(qp);
        return false;
      },
      order,
      this.window,
      { wire: this.wire, loadOf, token: this.number * TIMER_KINDS + kind, clock: this.clock },
    );
    return direction;
  }

  private get costs(): Costs {
    const { linkPerNs, gapNs, units } = this;
    return {
      nsPerByte: 1 / linkPerNs,
      nsPerRequest: gapNs / units,
      turnBytes: this.window.pieceBytes,
      lagNs: this.options.passBytes / linkPerNs,
    };
  }

  /** What the windows depend on. */
  private get window(): WindowOptions {
    const { wire, linkPerNs, gapNs, latencyNs, options } = this;
    const { pieceBytes, windowBytes } = options;
    return {
      roundTripNs: latencyNs,
      linkPerNs,
      gapNs,
      pieceBytes: pieceBytes ?? Math.max(1, Math.floor(PIECE_BYTES / wire.mtuBytes)) * wire.mtuBytes,
      minChargeBytes: egressBytes(wire, IBV_WR_RDMA_WRITE, 0),
      sparePieces: 1,
      fetchedPieces: 0,
      queuedMessages: QUEUED_MESSAGES,
      windowBytes,
    };
  }

  /** Changes options. */
  configure(options: FairOptions, out: Actions): void {
    this.clock.begin();
    this.options = options;
    for (const direction of [this.outbound, this.inbound]) {
      direction.order.configure(this.costs);
      direction.configure(this.window);
      direction.puller.onTimer(out);
    }
    this.settle(out);
  }

  /** A queue pair was created. */
  add(qp: QpView, out: Actions): void {
    this.clock.begin();
    const tenant = this.tenants.join(qp);
    for (const { order } of [this.outbound, this.inbound]) order.setWeight(tenant, qp.labels.weight);
    this.inbound.add(qp, out);
    this.outbound.add(qp, out);
  }

  /** The labels of a queue pair have changed. */
  relabel(qp: QpView): void {
    const tenant = this.tenants.of(qp);
    for (const { order } of [this.outbound, this.inbound]) order.setWeight(tenant, qp.labels.weight);
  }

  /** A queue pair was modified, or destroyed. */
  changed(qp: QpView, change: QpChange, out: Actions): void {
    this.clock.begin();
    this.inbound.changed(qp, change, out);
    this.outbound.changed(qp, change, out);
    if (change === 'destroyed') this.tenants.leave(qp);
    else if (out.backlog(qp) > 0) this.strays.push(qp);
    this.settle(out);
  }

  /** How many of the requests that are being posted may go at once: see Policy.onload. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    const { wire, tenants } = this;
    const tenant = tenants.of(qp);
    let [i, passedBytes] = [0, 0];
    for (; i < count; i++) {
      const at = L.slotAt(start + i);
      // A slot has two SGEs. For a longer list, the shim's copy knows the size.
      if (words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      const bytes = messageBytes(words, at, 0);
      if (bytes > wire.mtuBytes) break;
      const opcode = words[at + L.WR_OP] & 0xff;
      const isRead = opcode === IBV_WR_RDMA_READ;
      const { order } = isRead ? this.inbound : this.outbound;
      if (!order.isBehind(tenant)) break;
      order.pass(tenant, isRead ? ingressBytes(wire, opcode, bytes) : egressBytes(wire, opcode, bytes));
      passedBytes += bytes;
    }
    qp.counts[BYTES] += passedBytes;
    return i;
  }

  /** The queue pair holds requests. */
  feed(qp: QpView, out: Actions): void {
    // If it waits for the window, nothing has changed.
    if (this.outbound.order.isReady(qp.index) || this.inbound.order.isReady(qp.index)) return;
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

  onTimer(kind: number, out: Actions): void {
    this.clock.begin();
    (kind === OUTBOUND ? this.outbound : this.inbound).puller.onTimer(out);
    this.settle(out);
  }

  /** Moves queue pairs to where their oldest requests belong, until none is left. */
  private settle(out: Actions): void {
    for (let qp = this.strays.pop(); qp !== undefined; qp = this.strays.pop()) {
      if (out.backlog(qp) === 0) continue;
      const direction = this.directionOf(qp, out);
      if (direction === null) this.passAtomics(qp, out);
      else direction.enlist(qp, out);
    }
  }

  /** The direction of the oldest held request of a queue pair; null: none, because it is an atomic. */
  private directionOf(qp: QpView, out: Actions): Direction<DominantOrder> | null {
    const opcode = out.nextOpcode(qp);
    if (isAtomic(opcode)) return null;
    return opcode === IBV_WR_RDMA_READ ? this.inbound : this.outbound;
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
