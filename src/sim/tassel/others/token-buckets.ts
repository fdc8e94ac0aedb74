/**
 * Token buckets with a scan, the idea of SENIC (NSDI 2014), in the cycle model: what Tassel is compared with. A bucket of
 * each queue pair fills at its rate. A scheduler reads the buckets one after another, one in each cycle, and sends what
 * the bucket has tokens for. Simplifications, all in favour of the buckets:
 *
 * - Packets are known on the chip. SENIC fetches them, and so does Tassel's model.
 * - The scan reads one bucket in a cycle, and no other work interrupts it.
 * - A bucket holds one packet and what its rate adds during a scan: the least with which no rate is lost. SENIC leaves the
 *   depth to the operator.
 * - Tokens are numbers with fractions, so that no rate is rounded.
 */
import { IndexHeap } from '../../../policies/kit/index-heap.ts';
import { TICK_NS } from '../flow-tags.ts';
import type { OnDeparture } from '../scheduler.ts';
import { type Flow, Wire } from './wire.ts';

/** On-chip memory of a queue pair: SENIC reports 30 KB for 1,000 limiters. */
export const BUCKET_BYTES = 30;

export class TokenBuckets {
  /** [0] ticks since the beginning. */
  readonly tick = new Float64Array(1);
  private readonly flows: readonly Flow[];
  private readonly onDeparture: OnDeparture;
  private readonly wire: Wire;
  /** Queue pairs by the tick at which the scan finds a packet's tokens. */
  private readonly visits = new IndexHeap();
  private readonly tokens: Float64Array;
  private readonly filledTick: Float64Array;
  private readonly bytesPerTick: Float64Array;
  private readonly depthBytes: Float64Array;

  /** @param flows queue pairs, by number. Their buckets are full at the beginning. */
  constructor(flows: readonly Flow[], onDeparture: OnDeparture, linkBps = 100e9) {
    this.flows = flows;
    this.onDeparture = onDeparture;
    this.wire = new Wire(linkBps);
    this.bytesPerTick = Float64Array.from(flows, ({ bps }) => (bps * TICK_NS) / 8e9);
    this.depthBytes = this.bytesPerTick.map((each, qp) => flows[qp].wireBytes + each * flows.length);
    this.tokens = this.depthBytes.slice();
    this.filledTick = Float64Array.from(flows, ({ startTick }) => startTick);
    for (let qp = 0; qp < flows.length; qp++) this.await(qp);
  }

  /** Runs all ticks up to and including this one. */
  runUntil(tick: number): void {
    const { visits } = this;
    while (visits.firstNs[0] <= tick) {
      const qp = visits.first;
      this.visit(qp, visits.firstNs[0]);
      this.await(qp);
    }
  }

  /** The scan reads a bucket, and sends the packets that it has tokens for, behind those sent before. */
  private visit(qp: number, tick: number): void {
    const { tokens, filledTick, depthBytes } = this;
    const { wireBytes } = this.flows[qp];
    const filled = tokens[qp] + (tick - filledTick[qp]) * this.bytesPerTick[qp];
    tokens[qp] = Math.min(depthBytes[qp], filled);
    filledTick[qp] = tick;
    for (; tokens[qp] >= wireBytes; tokens[qp] -= wireBytes) {
      this.tick[0] = this.wire.send(tick, wireBytes);
      this.onDeparture(qp, wireBytes);
    }
  }

  /** Finds the visit at which the bucket has tokens for a packet. */
  private await(qp: number): void {
    const { flows, visits } = this;
    const round = flows.length;
    const missing = flows[qp].wireBytes - this.tokens[qp];
    const fullTick = this.filledTick[qp] + Math.max(0, Math.ceil(missing / this.bytesPerTick[qp]));
    const rounds = Math.max(0, Math.ceil((fullTick - qp) / round));
    visits.due[0] = qp + rounds * round;
    visits.put(qp);
  }
}
