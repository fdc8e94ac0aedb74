/**
 * Schedules the queue pairs of all contexts of one device in both directions of its link: requests that load the link out
 * of the device, and READs, whose responses load the link into it. Queue pairs whose peer is on the same device may have a
 * direction of their own, because they do not load the link. The order is that of a policy.
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Ruler } from '../../coordinator/ruler.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import {
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
} from '../../verbs/constants.ts';
import { EventClock } from '../kit/event-clock.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, ingressBytes, type WireFacts, wireBytes, wireFactsOf } from '../kit/wire.ts';
import { Direction } from './direction.ts';
import { Reporter } from './reporter.ts';
import type { TurnOrder } from './turn-order.ts';
import type { LoadOf, WindowOptions } from './window-options.ts';
import type { WindowRules } from './windows.ts';

/** Default length of a piece, rounded to whole packets. */
const PIECE_BYTES = 3000;
/** A piece takes at least this many times as long on the link as it occupies the processing units. */
const LEAST_GAPS = 8;
/** Pieces more in flight in the loopback than on the link; calibrated on the bare cx6-100g, which 24 of 4 KiB fill. */
const LOOPBACK_PIECES = 24;
/** Assumed if the device does not report them: a link of 1 Gbit/s, and a round trip of 20 us. */
const SLOW_LINK_PER_NS = 0.125;
const SLOW_ROUND_TRIP_NS = 20_000;

/** Time between two samples, which are reported if other processes share the device. */
const SAMPLE_NS = 20e6;

/** Kinds of timers. A policy may have more, from FIRST_KIND on. */
export const OUTBOUND = 0;
export const INBOUND = 1;
const SAMPLE = 2;
export const LOOPBACK = 3;
export const FIRST_KIND = 4;

// Used in each post; a module's own constants cost nothing (plain-requests.ts).
const READ = IBV_WR_RDMA_READ;
const SWAP = IBV_WR_ATOMIC_CMP_AND_SWP;
const ADD = IBV_WR_ATOMIC_FETCH_AND_ADD;

/** By kind of direction: what a request loads. The loopback carries requests and their responses. */
const LOADS: Readonly<Record<number, LoadOf>> = {
  [OUTBOUND]: egressBytes,
  [INBOUND]: ingressBytes,
  [LOOPBACK]: wireBytes,
};

/** What a policy decides about the windows. */
export type WindowChoice = Pick<
  WindowOptions,
  | 'sparePieces'
  | 'fetchedPieces'
  | 'endedPieces'
  | 'queuedMessages'
  | 'fitsPieces'
  | 'lengthensPieces'
  | 'followsPaths'
> & {
  readonly pieceBytes?: number;
  readonly windowBytes?: number;
  readonly minChargeBytes?: number;
};

/** The scheduler of one device. A policy adds the order, and what passes without waiting. */
export abstract class LinkScheduler<Turns extends TurnOrder> {
  readonly number: number;
  readonly device: string;
  protected readonly clock = new EventClock();
  protected readonly wire: WireFacts;
  /** The rate of the link, in bytes on the wire per nanosecond. */
  protected readonly linkPerNs: number;
  /** Time for which a request occupies its queue pair; 0: unknown. */
  protected readonly gapNs: number;
  /** Time of a 0_WAIT; 0: unknown, or the device has none. */
  private readonly waitStepNs: number;
  private readonly fifoBytes: number;
  protected readonly units: number;
  protected readonly latencyNs: number;
  private readonly kinds: number;
  private readonly reporter: Reporter;
  private nextSampleNs = Number.NEGATIVE_INFINITY;
  /** Queue pairs whose next request belongs elsewhere; empty between events. */
  protected readonly strays: QpView[] = [];
  protected abstract readonly outbound: Direction<Turns>;
  protected abstract readonly inbound: Direction<Turns>;
  /** The way of queue pairs whose peer is on the same device; null: they go by the link, too. */
  protected abstract readonly loopback: Direction<Turns> | null;
  /** By queue pair: 1 if its peer is on the same device. */
  private loops: Uint8Array = new Uint8Array(64);

  /** @param kinds the number of kinds of timers */
  constructor(
    number: number,
    { device, nic }: ContextView,
    { kinds, registry, ruler }: { kinds: number; registry: CoordinatorRegistry; ruler: Ruler<WindowRules> },
  ) {
    this.number = number;
    this.kinds = kinds;
    this.device = device;
    this.wire = wireFactsOf(nic);
    this.linkPerNs = nic?.linkGbps ? nic.linkGbps / 8 : SLOW_LINK_PER_NS;
    this.latencyNs = nic?.latencyNs ?? SLOW_ROUND_TRIP_NS;
    this.gapNs = nic?.wqeGapNs ?? 0;
    this.waitStepNs = nic?.waitStepNs ?? 0;
    this.fifoBytes = nic?.egressFifoBytes ?? 0;
    this.units = nic?.processingUnits ?? 1;
    const orders = () => [this.outbound.order, this.inbound.order] as const;
    this.reporter = new Reporter(registry, ruler, {
      waits: ({ index }) => orders().some((order) => order.waits(index)),
      takeSentBytes: ({ index }) => orders().reduce((sum, order) => sum + order.takeSentBytes(index), 0),
      groupWeightOf: (qp) => this.groupWeightOf(qp),
      additional: () => this.additionalReports,
    });
  }

  /** All directions. */
  protected get directions(): readonly Direction<Turns>[] {
    const { outbound, inbound, loopback } = this;
    return loopback === null ? [outbound, inbound] : [outbound, inbound, loopback];
  }

  /** The direction of a request of a queue pair. */
  protected wayOf({ index }: QpView, opcode: number): Direction<Turns> {
    if (this.loopback !== null && this.loops[index] === 1) return this.loopback;
    return opcode === READ ? this.inbound : this.outbound;
  }

  private seePeer({ index, dgid, sgid }: QpView): void {
    this.loops = fitColumn(this.loops, index);
    this.loops[index] = dgid !== '' && dgid === sgid ? 1 : 0;
  }

  /** The weight of the queue pair's group among those of its tenant. */
  protected groupWeightOf(_qp: QpView): number {
    return 1;
  }

  /** The values of the additional columns of the policy's ruler. */
  protected get additionalReports(): ArrayLike<number> {
    return [];
  }

  /** The rules of the windows. */
  protected abstract get rules(): WindowRules;

  protected tokenOf(kind: number): number {
    return this.number * this.kinds + kind;
  }

  protected addDirection(kind: number, order: Turns, choice: WindowChoice): Direction<Turns> {
    const direction: Direction<Turns> = new Direction(
      (qp, out) => {
        if (this.directionOf(qp, out) === direction && this.isInTurn(direction, qp, out)) return true;
        this.strays.push(qp);
        return false;
      },
      order,
      this.window(kind === LOOPBACK ? roomy(choice) : choice),
      {
        wire: this.wire,
        loadOf: LOADS[kind],
        token: this.tokenOf(kind),
        clock: this.clock,
      },
    );
    if (kind === INBOUND) {
      direction.other = this.outbound;
      this.outbound.other = direction;
    }
    return direction;
  }

  /** Changes what the windows of all directions depend on. */
  protected configureWindows(choice: WindowChoice): void {
    for (const direction of this.directions)
      direction.configure(this.window(direction === this.loopback ? roomy(choice) : choice));
  }

  protected get defaultPieceBytes(): number {
    const { linkPerNs, gapNs, units } = this;
    const { mtuBytes } = this.wire;
    const leastBytes = (LEAST_GAPS * gapNs * linkPerNs) / units;
    return Math.max(1, Math.floor(PIECE_BYTES / mtuBytes), Math.ceil(leastBytes / mtuBytes)) * mtuBytes;
  }

  /** What the windows depend on. */
  protected window({ pieceBytes, minChargeBytes, ...choice }: WindowChoice): WindowOptions {
    const { wire, linkPerNs, gapNs, waitStepNs, fifoBytes, latencyNs } = this;
    return {
      ...choice,
      roundTripNs: latencyNs,
      linkPerNs,
      gapNs,
      waitStepNs,
      fifoBytes,
      pieceBytes: pieceBytes ?? this.defaultPieceBytes,
      minChargeBytes: minChargeBytes ?? egressBytes(wire, IBV_WR_RDMA_WRITE, 0),
    };
  }

  /** Whether the oldest held request of a queue pair is one that the order has chosen. If not, the order is asked again. */
  protected isInTurn(_direction: Direction<Turns>, _qp: QpView, _out: Actions): boolean {
    return true;
  }

  /** A context was opened. */
  open(context: ContextView, out: Actions): void {
    this.clock.begin();
    this.reporter.open(context, this.rules, this.clock.nowNs(context, out));
    this.regrant(context, out);
  }

  /** The part of the window has changed, reports are requested for the first time, or a sample may be due. */
  regrant(context: ContextView, out: Actions): void {
    this.clock.begin();
    const nowNs = this.clock.nowNs(context, out);
    if (nowNs >= this.nextSampleNs) {
      this.nextSampleNs = nowNs + this.samplePeriodNs;
      this.reporter.sample(this.outbound.sizes.leastPart, nowNs);
    }
    // Each time, because the daemon may have asked for reports only now, and contexts come and go.
    this.planSample(out);
    for (const direction of [this.outbound, this.inbound]) {
      direction.isSteered = this.reporter.isSteered;
    }
    this.fitParts();
    this.pull(out);
  }

  private planSample(out: Actions): void {
    this.reporter.plan(this.nextSampleNs, out, this.tokenOf(SAMPLE));
  }

  /** Time between two samples. */
  protected get samplePeriodNs(): number {
    return SAMPLE_NS;
  }

  /** The time between two samples has changed. */
  protected replanSample(nowNs: number, out: Actions): void {
    this.nextSampleNs = nowNs + this.samplePeriodNs;
    this.planSample(out);
  }

  /** What this process may use of the window has changed. */
  protected fitParts(): void {
    for (const direction of [this.outbound, this.inbound])
      direction.part = this.reporter.part * this.windowPart;
    // Only the link is shared with other processes by reports.
    if (this.loopback !== null) this.loopback.part = this.windowPart;
  }

  /** The part of the window that the policy uses at present. */
  protected get windowPart(): number {
    return 1;
  }

  /** A queue pair was created. */
  add(qp: QpView, out: Actions): void {
    this.clock.begin();
    this.reporter.add(qp);
    this.seePeer(qp);
    for (const direction of this.directions) direction.add(qp, out);
  }

  /** The labels of a queue pair have changed. */
  abstract relabel(qp: QpView, out: Actions): void;

  /** The application has set the rate of a queue pair. Only a policy that limits rates learns of it. */
  rerate(_qp: QpView, _out: Actions): void {}

  /** A queue pair was modified, or destroyed. */
  changed(qp: QpView, change: QpChange, out: Actions): void {
    this.clock.begin();
    this.seePeer(qp);
    for (const direction of this.directions) direction.changed(qp, change, out);
    if (change === 'destroyed') this.forget(qp);
    else if (out.backlog(qp) > 0) this.strays.push(qp);
    this.settle(out);
  }

  /** A queue pair was destroyed. */
  protected forget(qp: QpView): void {
    this.reporter.drop(qp);
  }

  /** How many of the requests that are being posted may go at once: see Policy.onload. */
  abstract onload(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number;

  /** The queue pair holds requests. */
  feed(qp: QpView, out: Actions): void {
    // If it waits for the window, nothing has changed.
    if (this.outbound.order.isReady(qp.index) || this.inbound.order.isReady(qp.index)) return;
    if (this.loopback?.order.isReady(qp.index)) return;
    this.clock.begin();
    this.strays.push(qp);
    this.settle(out);
  }

  onCompleted(qp: QpView, out: Actions): void {
    const { inbound, outbound, loopback } = this;
    const loops = loopback?.uses(qp.index) ?? false;
    if (!inbound.uses(qp.index) && !outbound.uses(qp.index) && !loops) return;
    this.clock.begin();
    inbound.onCompleted(qp, out);
    outbound.onCompleted(qp, out);
    if (loops) loopback?.onCompleted(qp, out);
    this.settle(out);
  }

  onTimer(kind: number, context: ContextView, out: Actions): void {
    this.clock.begin();
    if (kind === SAMPLE) this.regrant(context, out);
    else if (kind === OUTBOUND) this.outbound.puller.onTimer(out);
    else if (kind === INBOUND) this.inbound.puller.onTimer(out);
    else if (kind === LOOPBACK) this.loopback?.puller.onTimer(out);
    this.settle(out);
  }

  /** A queue pair has sent messages that did not wait. @param sent their bytes and number */
  protected sentBehind(qp: number, sent: number): void {
    this.outbound.puller.passed(qp, sent);
    this.inbound.puller.passed(qp, sent);
    this.loopback?.puller.passed(qp, sent);
  }

  /** Issues what may be issued now, after options or grants have changed. */
  protected pull(out: Actions): void {
    for (const { puller } of this.directions) puller.onTimer(out);
    this.settle(out);
  }

  /** Moves queue pairs to where their oldest requests belong, until none is left. */
  protected settle(out: Actions): void {
    for (let qp = this.stray(out); qp !== null; qp = this.stray(out)) {
      if (out.backlog(qp) === 0) continue;
      const direction = this.directionOf(qp, out);
      if (direction !== null) direction.enlist(qp, out);
      else this.pass(qp, out);
    }
  }

  /** A queue pair whose next request belongs elsewhere; null: there is none. */
  protected stray(_out: Actions): QpView | null {
    return this.strays.pop() ?? null;
  }

  /** The direction of the oldest held request of a queue pair; null: none, because it does not wait for the link. */
  protected directionOf(qp: QpView, out: Actions): Direction<Turns> | null {
    const opcode = out.nextOpcode(qp);
    if (isAtomic(opcode)) return null;
    return this.wayOf(qp, opcode);
  }

  /**
   * Issues requests that do not wait for the link: atomics, whose rate the device limits far below what the link carries,
   * so that they do not queue there.
   */
  protected pass(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && isAtomic(out.nextOpcode(qp))) {
      // With completions, the shim feeds the queue pair again.
      if (this.outbound.isFull(qp, out)) return;
      if (step(qp, out, this.wire.mtuBytes) === BLOCKED) return;
    }
    this.strays.push(qp);
  }
}

/**
 * The choice for the loopback. Requests in flight there delay nobody on the link, and more of them are needed to fill it,
 * because their data is read and written over the same PCIe link.
 */
function roomy(choice: WindowChoice): WindowChoice {
  return { ...choice, sparePieces: choice.sparePieces + LOOPBACK_PIECES };
}

/** Whether an opcode (IBV_WR_*) is that of an atomic. */
export function isAtomic(opcode: number): boolean {
  return opcode === SWAP || opcode === ADD;
}
