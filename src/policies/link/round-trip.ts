/**
 * The round-trip time of an idle device, measured with the traffic itself. A sample is the time from the issue of a
 * request, while nothing else is in flight, to its completion, without the time that its bytes take on the link. At
 * first, until a peer has been measured, one request is in flight at a time. The shortest sample of a peer counts,
 * because completions may be polled late. The longest of all peers counts for the device, because a window that fills the
 * path to a near peer does not fill the path to a far one. All peers of unreliable queue pairs count as one, and only
 * while no other one has been measured: their requests complete once they have been sent.
 *
 * A short message may travel inside its request, which is faster. Its time is therefore a lower bound of its peer's round
 * trip, and of that of the device. Next to many short messages, few samples are of long ones, and all of these may have
 * been polled late, as after a long post. The time of short messages then limits theirs.
 *
 * Queue pairs with rates must not wait for each other. While their peer is unknown, some of their requests are timed next
 * to others in flight, behind which they may have waited: that time is at least the round trip.
 */
import type { QpChange, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_QPT_UC, IBV_QPT_UD } from '../../verbs/constants.ts';
import { STALL_NS } from '../kit/puller.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';

/** Samples after which a peer counts as measured. */
const SAMPLES = 4;
/** The most requests that go one at a time for the sake of a peer whose requests are rare or short. */
const MAX_WAITS = 64;
/**
 * A long message takes at most this many times as long as a short one and its own bytes on the link: the device fetches it,
 * and switches forward it once they have received it.
 */
const MOST_TIMES = 2;
/** A sample is waited for no longer than this, in ns: its peer may have no receives. */
const MOST_PATIENCE_NS = 8e6;
/** Once a sample that was given up has arrived, the next one of its peer may take this many times as long. */
const PATIENCE_TIMES = 2;
/** Peers that are kept although no queue pair is connected with them, if there are no more in all. */
const MAX_KEPT = 1024;

/** The name of the peers of all unreliable queue pairs. */
const ANY_PEER = '*';

/** Measures the round trip of one device. */
export class RoundTrip {
  /** The longest of the peers' round trips, in ns; 0: not measured yet. */
  ns = 0;
  /** The longest of the round trips of short messages to peers without samples of long ones, in ns; 0: there is none. */
  leastNs = 0;
  private readonly nsPerByte: number;
  private readonly peers = new Map<string, number>();
  /** The peer that stands for all those of unreliable queue pairs. */
  private unacked = NONE;
  /** Those that no queue pair is connected with, the one without for the longest time first. */
  private readonly unused = new RunQueue();
  // By peer: its name, its queue pairs, its shortest sample, that of a short message, and the number of samples.
  private readonly names: string[] = [];
  private counts: Int32Array = new Int32Array(4);
  private shortestNs: Float64Array = new Float64Array(4);
  private shortNs: Float64Array = new Float64Array(4);
  private samples: Int32Array = new Int32Array(4);
  /** By peer: when a request was issued whose completion is not waited for any more; 0: none since one has completed. */
  private lateSinceNs: Float64Array = new Float64Array(4);
  /** The number of peers with such a request. */
  private latePeers = 0;
  /** By queue pair: its peer plus one. */
  private peerOf: Int32Array = new Int32Array(64);
  /** By queue pair: 1 if one of its requests is being timed next to others. */
  private sampling: Uint8Array = new Uint8Array(64);
  /** The peer that is being waited for, and how many requests have gone one at a time. */
  private unknown = NONE;
  private waits = 0;
  /** The peer of the sample; NONE: there is none. */
  private peer = NONE;
  private sinceNs = 0;
  private isShort = false;
  /** The time that the bytes of the last sample of a long message took on the link. */
  private bytesNs = 0;
  /** Whether the request that is issued next may wait for a receive. */
  takesReceive = false;
  /** How long to wait for the sample of a peer that has not been measured, while others wait for it. */
  patienceNs = STALL_NS;
  /** Whether the samples that count have changed since `ns` was computed. */
  private isStale = false;

  /** @param bytesPerNs the rate of the link */
  constructor(bytesPerNs: number) {
    this.nsPerByte = 1 / bytesPerNs;
  }

  /** Whether requests must go one at a time. */
  get isMeasuring(): boolean {
    return this.unknown !== NONE;
  }

  /** Whether it matters when the last request in flight completes. */
  get isAwaited(): boolean {
    return this.peer !== NONE || this.unknown !== NONE;
  }

  /** A queue pair was created, modified or destroyed. */
  changed({ index, type, dgid }: QpView, change: QpChange): void {
    if (change === 'destroyed') this.disconnect(index);
    if (change !== 'created' && change !== 'state') return;
    const isUnreliable = type === IBV_QPT_UC || type === IBV_QPT_UD;
    if (isUnreliable) this.connect(index, ANY_PEER);
    else if (dgid !== '') this.connect(index, dgid);
  }

  /** The queue pair is connected to this peer: a GID, or any other name. */
  connect(qp: number, name: string): void {
    this.disconnect(qp);
    this.peerOf = fitColumn(this.peerOf, qp);
    this.sampling = fitColumn(this.sampling, qp);
    this.sampling[qp] = 0;
    const peer = this.peers.get(name) ?? this.add(name);
    this.unused.remove(peer);
    this.counts[peer]++;
    this.peerOf[qp] = peer + 1;
  }

  /** The queue pair is no longer connected, or was destroyed. */
  disconnect(qp: number): void {
    const peer = this.of(qp);
    if (peer === NONE) return;
    this.peerOf[qp] = 0;
    if (--this.counts[peer] === 0) this.unused.push(peer);
  }

  /** Whether requests of a queue pair complete without an acknowledgement. */
  isUnacked(qp: number): boolean {
    return this.unacked !== NONE && this.of(qp) === this.unacked;
  }

  /** The peer of a queue pair, as a number; NONE: it has none. */
  of(qp: number): number {
    return qp < this.peerOf.length ? this.peerOf[qp] - 1 : NONE;
  }

  /** Adds a peer, if there are many in the place of one without queue pairs. */
  private add(name: string): number {
    const { names, peers } = this;
    const forgotten = names.length < MAX_KEPT ? NONE : this.unused.shift();
    const peer = forgotten === NONE ? names.length : forgotten;
    if (forgotten !== NONE) {
      peers.delete(names[peer]);
      if (this.peer === peer) this.peer = NONE;
      if (this.unknown === peer) this.unknown = NONE;
      if (this.unacked === peer) this.unacked = NONE;
      this.isStale = true;
    }
    names[peer] = name;
    peers.set(name, peer);
    if (name === ANY_PEER) this.unacked = peer;
    this.counts = fitColumn(this.counts, peer);
    this.shortestNs = fitColumn(this.shortestNs, peer);
    this.shortNs = fitColumn(this.shortNs, peer);
    this.samples = fitColumn(this.samples, peer);
    this.lateSinceNs = fitColumn(this.lateSinceNs, peer);
    this.shortestNs[peer] = 0;
    this.shortNs[peer] = 0;
    this.samples[peer] = 0;
    this.answered(peer);
    return peer;
  }

  /**
   * A request was issued.
   * @param isFirst whether nothing else was in flight
   * @param isShort whether it may travel faster than others
   */
  issued(qp: number, wireBytes: number, isFirst: boolean, isShort: boolean, nowNs: number): void {
    const peer = this.of(qp);
    this.peer = NONE;
    if (isFirst) {
      this.peer = peer;
      this.isShort = isShort;
      const bytesNs = wireBytes * this.nsPerByte;
      if (!isShort) this.bytesNs = bytesNs;
      this.sinceNs = nowNs + bytesNs;
    }
    if (this.unknown === NONE && this.isUnmeasured(peer) && this.lateSinceNs[peer] === 0) {
      this.unknown = peer;
      this.waits = 0;
    }
  }

  /** Discards the sample: what is in flight may end without a completion. */
  cancel(): void {
    this.peer = NONE;
  }

  /**
   * What is in flight is not waited for any more. Until something from its peer completes, requests to that peer do not go
   * one at a time: it may have vanished, and others must not wait for each of its queue pairs in turn. A message that may
   * wait for a receive, or a peer that has answered before, shows nothing of the kind. Many of those at a time would keep
   * the device busy with retries, so they still go one at a time, each for longer, because the path may be long.
   */
  gaveUp(): void {
    const { peer } = this;
    this.cancel();
    const hasAnswered = peer !== NONE && (this.samples[peer] > 0 || this.shortNs[peer] > 0);
    if (this.unknown !== NONE && (this.takesReceive || hasAnswered)) {
      this.patienceNs = Math.min(PATIENCE_TIMES * this.patienceNs, MOST_PATIENCE_NS);
      return;
    }
    this.patienceNs = STALL_NS;
    if (peer === NONE || peer !== this.unknown) return;
    this.unknown = NONE;
    this.lateSinceNs[peer] = this.sinceNs;
    this.latePeers++;
  }

  /** A request of a queue pair has completed. Returns whether `patienceNs` has changed: the path is long. */
  completed(qp: number, nowNs: number): boolean {
    const peer = this.of(qp);
    if (peer === NONE || this.lateSinceNs[peer] === 0) return false;
    const takenNs = nowNs - this.lateSinceNs[peer];
    this.answered(peer);
    this.patienceNs = Math.max(STALL_NS, Math.min(PATIENCE_TIMES * takenNs, MOST_PATIENCE_NS));
    return true;
  }

  /** Whether completions must be reported to `completed`. */
  get isWaitedInVain(): boolean {
    return this.latePeers > 0;
  }

  private answered(peer: number): void {
    if (this.lateSinceNs[peer] === 0) return;
    this.lateSinceNs[peer] = 0;
    this.latePeers--;
  }

  /** The last request in flight has completed. Returns whether the round trip, or `patienceNs`, has changed. */
  drained(nowNs: number): boolean {
    const { peer, isShort, samples } = this;
    const isPatient = peer !== NONE && this.patienceNs > STALL_NS;
    const isOver = this.unknown !== NONE && ++this.waits === MAX_WAITS;
    if (peer !== NONE) {
      const takenNs = Math.max(1, nowNs - this.sinceNs);
      const shortest = isShort ? this.shortNs : this.shortestNs;
      if (shortest[peer] === 0 || takenNs < shortest[peer]) {
        shortest[peer] = takenNs;
        this.isStale = true;
      }
      if (!isShort && samples[peer] < SAMPLES) samples[peer]++;
      this.patienceNs = STALL_NS;
      this.peer = NONE;
    }
    if (isOver && samples[this.unknown] < SAMPLES) this.settleFor(this.unknown);
    if (this.unknown !== NONE && samples[this.unknown] >= SAMPLES) this.unknown = NONE;
    return (this.isStale && this.findLongest()) || isPatient;
  }

  /** Makes do with the few samples of long messages that a peer has. */
  private settleFor(peer: number): void {
    const { samples, shortestNs, shortNs, bytesNs } = this;
    samples[peer] = SAMPLES;
    if (shortNs[peer] === 0) return;
    shortestNs[peer] = Math.min(shortestNs[peer], MOST_TIMES * (shortNs[peer] + bytesNs));
    this.isStale = true;
  }

  /** Whether the peer of a queue pair has not been measured. */
  isUnknown(qp: number): boolean {
    return this.isUnmeasured(this.of(qp));
  }

  private isUnmeasured(peer: number): boolean {
    return peer !== NONE && this.samples[peer] < SAMPLES;
  }

  /** From now on, a request of a queue pair is timed next to others. */
  beginSample(qp: number): void {
    this.sampling[qp] = 1;
  }

  /** Whether the request of a queue pair that is being timed is a sample. */
  isSampling(qp: number): boolean {
    return this.sampling[qp] === 1;
  }

  /**
   * A request of a queue pair has completed next to others. Returns whether the round trip has changed.
   * @param takenNs without the time that its bytes take on the link
   */
  timed(qp: number, takenNs: number): boolean {
    const { shortestNs, samples } = this;
    const peer = this.of(qp);
    this.sampling[qp] = 0;
    if (peer === NONE || samples[peer] >= SAMPLES) return false;
    if (shortestNs[peer] === 0 || takenNs < shortestNs[peer]) shortestNs[peer] = Math.max(1, takenNs);
    if (++samples[peer] === SAMPLES && this.unknown === peer) this.unknown = NONE;
    return samples[peer] === SAMPLES && this.findLongest();
  }

  /** Measures all peers again. `ns` holds until there is a new sample. */
  restart(): void {
    this.cancel();
    this.samples.fill(0);
    this.shortestNs.fill(0);
    this.shortNs.fill(0);
  }

  private findLongest(): boolean {
    const { ns, leastNs } = this;
    this.isStale = false;
    this.ns = 0;
    this.leastNs = 0;
    for (let peer = 0; peer < this.names.length; peer++) if (peer !== this.unacked) this.include(peer);
    if (this.ns > 0) this.ns = Math.max(this.ns, this.leastNs);
    else if (this.leastNs === 0 && this.unacked !== NONE) this.include(this.unacked);
    return this.ns !== ns || this.leastNs !== leastNs;
  }

  /** A peer counts for the device. */
  private include(peer: number): void {
    const [longNs, shortNs] = [this.shortestNs[peer], this.shortNs[peer]];
    if (longNs > 0) this.ns = Math.max(this.ns, longNs);
    else this.leastNs = Math.max(this.leastNs, shortNs);
  }
}
