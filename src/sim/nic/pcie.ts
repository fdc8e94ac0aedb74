/**
 * The PCIe link of a host, as its NIC sees it: two directions, each a server that is busy until a known time,
 * so that a transfer needs no event of its own. Reads take the round trip. Payload comes back in order, at the rate
 * of the link. Short reads (work requests, contexts, small messages) are of other engines of the NIC: they do not
 * queue behind payload, but only so many of them are on their way at once.
 */

import type { RandomStream } from '../kernel/random.ts';
import type { NicParams } from '../profile/params.ts';

// Indexes of Pcie.times.
const READ_DONE = 0;
const WRITE_DONE = 1;
const READ_BUSY = 2;
const WRITE_BUSY = 3;

/** A read of at most so much is short: one PCIe read request. */
const SHORT_BYTES = 512;

export class Pcie {
  /** Takes no time at all. */
  readonly free: boolean;
  /** [0] when the transfer asked for last is through. */
  readonly done = new Float64Array(1);
  private readonly nsPerByte: number;
  private readonly readNs: number;
  private readonly writeNs: number;
  private readonly jitter: number;
  private readonly random: RandomStream;
  private readonly factor = new Float64Array([1]);
  private readonly clock: Float64Array;
  /** READ_DONE, WRITE_DONE: last byte of the last transfer; READ_BUSY, WRITE_BUSY: time spent on bytes so far. */
  private readonly times = new Float64Array(4);
  /** When the short reads asked for last are through, for the limit on those in flight. */
  private readonly ends: Float64Array;
  private next = 0;

  constructor(params: Readonly<NicParams>, clock: Float64Array, random: RandomStream) {
    this.free =
      params.dmaReadNs === 0 && params.dmaWriteNs === 0 && params.pcieGbps === Number.POSITIVE_INFINITY;
    this.nsPerByte = 8 / params.pcieGbps;
    this.readNs = params.dmaReadNs;
    this.writeNs = params.dmaWriteNs;
    this.jitter = params.pcieJitter;
    this.clock = clock;
    this.random = random;
    this.ends = new Float64Array(Number.isFinite(params.dmaReads) ? params.dmaReads : 0);
  }

  /** Reads host memory from now on: `done` is when the last byte is in the NIC. */
  read(bytes: number): void {
    const { times } = this;
    const busy = bytes * this.nsPerByte;
    times[READ_BUSY] += busy;
    this.draw();
    if (bytes <= SHORT_BYTES) {
      this.readShort(busy);
      return;
    }
    let first = this.clock[0] + this.readNs * this.factor[0];
    if (times[READ_DONE] > first) first = times[READ_DONE];
    times[READ_DONE] = first + busy;
    this.done[0] = times[READ_DONE];
  }

  /** Short reads overtake payload that is on its way, and take their share of the rate from it. */
  private readShort(busy: number): void {
    const { times, ends } = this;
    let start = this.clock[0];
    if (times[READ_DONE] > start) times[READ_DONE] += busy;
    if (ends.length === 0) {
      this.done[0] = start + this.readNs * this.factor[0] + busy;
      return;
    }
    if (ends[this.next] > start) start = ends[this.next];
    const end = start + this.readNs * this.factor[0] + busy;
    this.done[0] = end;
    ends[this.next] = end;
    this.next = this.next + 1 === ends.length ? 0 : (this.next + 1) | 0;
  }

  /** Writes host memory from now on: `done` is when the CPU can see the last byte. */
  write(bytes: number): void {
    const { times } = this;
    const busy = bytes * this.nsPerByte;
    let start = this.clock[0];
    if (times[WRITE_DONE] > start) start = times[WRITE_DONE];
    times[WRITE_DONE] = start + busy;
    times[WRITE_BUSY] += busy;
    this.draw();
    this.done[0] = start + busy + this.writeNs * this.factor[0];
  }

  /** The busier direction's time spent on bytes. */
  get busyNs(): number {
    return Math.max(this.times[READ_BUSY], this.times[WRITE_BUSY]);
  }

  /** When all transfers asked for so far are through. */
  get idleFromNs(): number {
    return Math.max(this.times[READ_DONE], this.times[WRITE_DONE]);
  }

  /** Sets `factor` to what the next latency is multiplied with. */
  private draw(): void {
    if (this.jitter !== 0) this.factor[0] = 1 + this.jitter * (2 * this.random.next() - 1);
  }
}
