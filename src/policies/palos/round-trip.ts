/**
 * The round-trip time of an idle device, measured with the traffic itself. A sample is the time from the issue of a
 * request, while nothing else is in flight, to its completion, without the time that its bytes take on the link. At
 * first, until a peer has been measured, one request is in flight at a time. The shortest sample of a peer counts,
 * because completions may be polled late. The longest of all peers counts for the device, because a window that fills the
 * path to a near peer does not fill the path to a far one.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE } from '../kit/run-queue.ts';

/** Samples after which a peer counts as measured. */
const SAMPLES = 4;
/** The most requests that go one at a time for the sake of a peer whose requests are rare or short. */
const MAX_WAITS = 64;

/** Measures the round trip of one device. */
export class RoundTrip {
  /** The longest of the peers' round trips, in ns; 0: not measured yet. */
  ns = 0;
  private readonly nsPerByte: number;
  private readonly peers = new Map<string, number>();
  // By peer: its shortest sample, and the number of samples.
  private shortestNs: Float64Array = new Float64Array(4);
  private samples: Int32Array = new Int32Array(4);
  /** By queue pair: its peer plus one. */
  private peerOf: Int32Array = new Int32Array(64);
  /** The peer that is being waited for, and how many requests have gone one at a time. */
  private unknown = NONE;
  private waits = 0;
  /** The peer of the sample; NONE: there is none. */
  private peer = NONE;
  private sinceNs = 0;

  /** @param bytesPerNs the rate of the link */
  constructor(bytesPerNs: number) {
    this.nsPerByte = 1 / bytesPerNs;
  }

  /** Whether requests must go one at a time. */
  get isMeasuring(): boolean {
    return this.unknown !== NONE;
  }

  /** The queue pair is connected to this peer: a GID, or any other name. */
  connect(qp: number, name: string): void {
    this.peerOf = fitColumn(this.peerOf, qp);
    let peer = this.peers.get(name);
    if (peer === undefined) {
      peer = this.peers.size;
      this.peers.set(name, peer);
      this.shortestNs = fitColumn(this.shortestNs, peer);
      this.samples = fitColumn(this.samples, peer);
    }
    this.peerOf[qp] = peer + 1;
  }

  /** A request was issued. @param isFirst whether nothing else was in flight */
  issued(qp: number, wireBytes: number, isFirst: boolean, nowNs: number): void {
    const peer = qp < this.peerOf.length ? this.peerOf[qp] - 1 : NONE;
    this.peer = NONE;
    if (isFirst) {
      this.peer = peer;
      this.sinceNs = nowNs + wireBytes * this.nsPerByte;
    }
    if (this.unknown === NONE && peer !== NONE && this.samples[peer] < SAMPLES) {
      this.unknown = peer;
      this.waits = 0;
    }
  }

  /** Discards the sample: what is in flight may end without a completion. */
  cancel(): void {
    this.peer = NONE;
  }

  /** The last request in flight has completed. Returns whether the round trip has changed. */
  drained(nowNs: number): boolean {
    const { peer, shortestNs, samples } = this;
    if (peer === NONE && this.unknown === NONE) return false;
    if (this.unknown !== NONE && ++this.waits === MAX_WAITS) samples[this.unknown] = SAMPLES;
    if (peer !== NONE) {
      const takenNs = Math.max(1, nowNs - this.sinceNs);
      if (shortestNs[peer] === 0 || takenNs < shortestNs[peer]) shortestNs[peer] = takenNs;
      samples[peer]++;
      this.peer = NONE;
    }
    if (this.unknown !== NONE && samples[this.unknown] >= SAMPLES) this.unknown = NONE;
    return this.findLongest();
  }

  private findLongest(): boolean {
    const before = this.ns;
    let longest = 0;
    for (let peer = 0; peer < this.peers.size; peer++) longest = Math.max(longest, this.shortestNs[peer]);
    this.ns = longest;
    return longest !== before;
  }
}
