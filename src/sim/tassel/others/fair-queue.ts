/**
 * Pacing as in the Linux kernel's `fq` (tc-fq(8), net/sched/sch_fq.c), in the cycle model: what Tassel is compared with.
 * Each queue pair has the time of its next packet, and waits in a tree ordered by it. Those that may send take turns, and
 * send until the credit of a turn is used up; then the next time follows from the rate. One timer wakes up the first of
 * the tree. Defaults of the kernel: a quantum of two packets, ten at the beginning; a timer that may be 10 us late, half of
 * which at most is made up for; single packets up to 550 kbit/s. Simplifications:
 *
 * - No operation takes time, and the timer is always as late as it may be.
 * - Packets are not joined (TSO), and none are dropped.
 */
import { IndexHeap } from '../../../policies/kit/index-heap.ts';
import { TICK_NS } from '../flow-tags.ts';
import type { OnDeparture } from '../scheduler.ts';
import { type Flow, Wire } from './wire.ts';

/** `struct fq_flow` on 64-bit machines: 112 bytes, aligned to cache lines. Packets are in host memory. */
export const FLOW_BYTES = 128;

/** In packets of the largest size. */
const QUANTUM = 2;
const INITIAL_QUANTUM = 10;
const LOW_RATE_BPS = 550e3;
const MOST_WAIT_TICKS = 1e9 / TICK_NS;

export interface FairQueueOptions {
  /** The largest packet on the wire. */
  readonly mtuWireBytes: number;
  /** How late the timer is. */
  readonly slackNs?: number;
  readonly linkBps?: number;
}

export class FairQueue {
  /** [0] ticks since the beginning. */
  readonly tick = new Float64Array(1);
  private readonly flows: readonly Flow[];
  private readonly onDeparture: OnDeparture;
  private readonly wire: Wire;
  private readonly slackTicks: number;
  private readonly quantum: number;
  /** Throttled queue pairs, by the tick of their next packet, with its fraction. */
  private readonly throttled = new IndexHeap();
  /** Queue pairs that take turns, in a ring. */
  private readonly turns: Int32Array;
  private first = 0;
  private count = 0;
  private readonly credits: Float64Array;
  private readonly dueTick: Float64Array;

  /** @param flows queue pairs, by number */
  constructor(
    flows: readonly Flow[],
    onDeparture: OnDeparture,
    { mtuWireBytes, slackNs = 10_000, linkBps = 100e9 }: FairQueueOptions,
  ) {
    this.flows = flows;
    this.onDeparture = onDeparture;
    this.wire = new Wire(linkBps);
    this.slackTicks = slackNs / TICK_NS;
    this.quantum = QUANTUM * mtuWireBytes;
    this.turns = new Int32Array(flows.length);
    this.credits = new Float64Array(flows.length).fill(INITIAL_QUANTUM * mtuWireBytes);
    this.dueTick = new Float64Array(flows.length);
    for (const [qp, { startTick }] of flows.entries()) this.sleep(qp, startTick);
  }

  /** Runs all ticks up to and including this one. */
  runUntil(tick: number): void {
    const { throttled } = this;
    for (;;) {
      this.release();
      if (this.count === 0) {
        // The timer is as late as it may be; a departure would have released the queue pair before.
        const timer = Math.max(this.tick[0], Math.ceil(throttled.firstNs[0] + this.slackTicks));
        if (timer > tick) return;
        this.tick[0] = timer;
        continue;
      }
      if (this.wire.freeTick > tick) return;
      this.tick[0] = Math.max(this.tick[0], this.wire.freeTick);
      this.release();
      this.dequeue();
    }
  }

  /** Queue pairs whose time has come take turns again. */
  private release(): void {
    const { throttled } = this;
    while (throttled.firstNs[0] <= this.tick[0]) {
      const qp = throttled.first;
      throttled.remove(qp);
      this.join(qp);
    }
  }

  private join(qp: number): void {
    this.turns[(this.first + this.count++) % this.turns.length] = qp;
  }

  private leave(): number {
    const qp = this.turns[this.first];
    this.first = (this.first + 1) % this.turns.length;
    this.count--;
    return qp;
  }

  /** Sends a packet of the first queue pair that has credit. */
  private dequeue(): void {
    const { credits, turns } = this;
    while (credits[turns[this.first]] <= 0) {
      const qp = this.leave();
      credits[qp] += this.quantum;
      this.join(qp);
    }
    const qp = turns[this.first];
    const { bps, wireBytes } = this.flows[qp];
    const now = this.wire.send(this.tick[0], wireBytes);
    credits[qp] -= wireBytes;
    this.onDeparture(qp, wireBytes);
    const isLow = bps <= LOW_RATE_BPS;
    if (isLow) credits[qp] = 0;
    else if (credits[qp] > 0) return;
    this.throttle(qp, now, isLow ? wireBytes : Math.max(wireBytes, this.quantum));
  }

  private throttle(qp: number, now: number, bytes: number): void {
    const { dueTick } = this;
    let ticks = Math.min(MOST_WAIT_TICKS, (bytes * 8e9) / TICK_NS / this.flows[qp].bps);
    if (dueTick[qp] > 0) ticks -= Math.min(ticks / 2, now - dueTick[qp]);
    dueTick[qp] = now + ticks;
    this.leave();
    this.sleep(qp, dueTick[qp]);
  }

  private sleep(qp: number, tick: number): void {
    this.throttled.due[0] = tick;
    this.throttled.put(qp);
  }
}
