/**
 * The PCIe link of a host as its NIC sees it. Each direction is a server that is busy until a known time, so a transfer
 * needs no separate event. Reads take a round trip. Payload arrives in order at the rate of the link. Short reads (work
 * requests, contexts, small messages) belong to other engines of the NIC: they do not queue behind payload, but only a
 * limited number is in flight, and together they get no more than the rate of the link.
 */

import type { RandomStream } from '../kernel/random.ts';
import type { NicParams } from '../profile/params.ts';

// Indexes of Pcie.times.
const READ_DONE = 0;
const WRITE_DONE = 1;
const READ_BUSY = 2;
const WRITE_BUSY = 3;
const MESSAGE_DONE = 4;
const FETCH_DONE = 5;
const TAKES = 6;

/** Reads up to this size are short: a single PCIe read request. */
const SHORT_BYTES = 512;

export class Pcie {
  /** Whether transfers take no time. */
  readonly free: boolean;
  /** Bytes [0] read and [1] written so far. */
  readonly bytes = new Float64Array(2);
  /** [0] the time at which the most recent transfer is done. */
  readonly done = new Float64Array(1);
  /** Time per byte of the link, headers of full packets included. */
  private readonly nsPerByte: number;
  private readonly payloadBytes: number;
  private readonly headerBytes: number;
  private readonly hasPackets: boolean;
  private readonly readNs: number;
  private readonly writeNs: number;
  private readonly jitter: number;
  private readonly random: RandomStream;
  private readonly factor = new Float64Array([1]);
  private readonly clock: Float64Array;
  /**
   * READ_DONE, WRITE_DONE: end of the last transfer. READ_BUSY, WRITE_BUSY: time spent on bytes so far.
   * MESSAGE_DONE, FETCH_DONE: the time until which the link is busy with all short reads, and with those that are not parts
   * of messages, which come first. TAKES: the time on the link of the transfer that begins, which is kept here because a
   * double that is passed on may be allocated.
   */
  private readonly times = new Float64Array(7);
  /** Completion times of the most recent short reads, to limit those in flight. */
  private readonly ends: Float64Array;
  private next = 0;

  constructor(params: Readonly<NicParams>, clock: Float64Array, random: RandomStream) {
    this.free =
      params.dmaReadNs === 0 && params.dmaWriteNs === 0 && params.pcieGbps === Number.POSITIVE_INFINITY;
    const { pciePayloadBytes, pcieHeaderBytes } = params;
    this.hasPackets = pciePayloadBytes !== Number.POSITIVE_INFINITY;
    this.payloadBytes = pciePayloadBytes;
    this.headerBytes = pcieHeaderBytes;
    const share = this.hasPackets ? pciePayloadBytes / (pciePayloadBytes + pcieHeaderBytes) : 1;
    this.nsPerByte = (8 / params.pcieGbps) * share;
    this.readNs = params.dmaReadNs;
    this.writeNs = params.dmaWriteNs;
    this.jitter = params.pcieJitter;
    this.clock = clock;
    this.random = random;
    this.ends = new Float64Array(Number.isFinite(params.dmaReads) ? params.dmaReads : 0);
  }

  /** Reads a part of a message now; `done` is the time at which the last byte is in the NIC. */
  read(bytes: number): void {
    this.readFrom(bytes, MESSAGE_DONE);
  }

  /** Does the same for what the NIC needs to know: WQEs, contexts and translations, which do not wait for messages. */
  readControl(bytes: number): void {
    this.readFrom(bytes, FETCH_DONE);
  }

  private readFrom(bytes: number, last: number): void {
    const { times } = this;
    this.measure(bytes);
    const busy = times[TAKES];
    times[READ_BUSY] += busy;
    this.bytes[0] += bytes;
    this.draw();
    if (bytes <= SHORT_BYTES) {
      this.readShort(last);
      return;
    }
    let first = this.clock[0] + this.readNs * this.factor[0];
    if (times[READ_DONE] > first) first = times[READ_DONE];
    if (times[MESSAGE_DONE] > first) first = times[MESSAGE_DONE];
    times[READ_DONE] = first + busy;
    this.done[0] = times[READ_DONE];
  }

  /** Short reads overtake payload in flight and take their share of its rate. */
  private readShort(last: number): void {
    const { times, ends } = this;
    const busy = times[TAKES];
    let start = this.clock[0];
    if (times[READ_DONE] > start) times[READ_DONE] += busy;
    if (ends.length > 0 && ends[this.next] > start) start = ends[this.next];
    const turn = Math.max(times[last], start);
    times[MESSAGE_DONE] = Math.max(times[MESSAGE_DONE], start) + busy;
    if (last === FETCH_DONE) times[FETCH_DONE] = Math.max(times[FETCH_DONE], start) + busy;
    const latency = this.readNs * this.factor[0];
    // Without packets, the latency of a read hides others before it, unless more is requested than the link carries.
    const end = this.hasPackets ? turn + latency + busy : Math.max(start + latency + busy, times[last]);
    this.done[0] = end;
    if (ends.length === 0) return;
    ends[this.next] = end;
    this.next = this.next + 1 === ends.length ? 0 : (this.next + 1) | 0;
  }

  /** Writes host memory now; `done` is the time at which the CPU sees the last byte. */
  write(bytes: number): void {
    const { times } = this;
    this.measure(bytes);
    const busy = times[TAKES];
    let start = this.clock[0];
    if (times[WRITE_DONE] > start) start = times[WRITE_DONE];
    times[WRITE_DONE] = start + busy;
    times[WRITE_BUSY] += busy;
    this.bytes[1] += bytes;
    this.draw();
    this.done[0] = start + busy + this.writeNs * this.factor[0];
  }

  /** Sets TAKES. */
  private measure(bytes: number): void {
    const packets = this.hasPackets ? Math.ceil(bytes / this.payloadBytes) : 0;
    this.times[TAKES] = (bytes + packets * this.headerBytes) * this.nsPerByte;
  }

  /** Time spent on bytes in the busier direction. */
  get busyNs(): number {
    return Math.max(this.times[READ_BUSY], this.times[WRITE_BUSY]);
  }

  /** The time at which all transfers so far are done. */
  get idleFromNs(): number {
    return Math.max(this.times[READ_DONE], this.times[WRITE_DONE], this.times[MESSAGE_DONE]);
  }

  /** Draws the factor for the next latency. */
  private draw(): void {
    if (this.jitter !== 0) this.factor[0] = 1 + this.jitter * (2 * this.random.next() - 1);
  }
}
