/**
 * The receiver of a NIC, before a packet is executed: a pipeline with a fixed time per request, a unit for
 * atomics, and the waits for cache misses. Packets of one queue pair are executed in order of arrival; a
 * waiting packet delays later ones of its own queue pair only. A packet that does not wait costs no event.
 *
 * The receive buffer is unlimited. Acknowledgements and responses take no pipeline time, and multicast
 * packets bypass the pipeline.
 */

import * as K from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';
import type { NicParams } from '../profile/params.ts';
import type { Qp } from '../transport/qp.ts';
import * as Q from '../transport/qp.ts';
import type { World } from '../world.ts';
import * as X from './context-caches.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { missesContext, missesLocal, missesRemote } = X;
const { PKT_READ, PKT_RESPONSE, PKT_ACK, PKT_WRITE, PKT_SEND, PKT_DATAGRAM, FIRST, HAS_IMM } = P;
const { EV_RECEIVE } = K;
const { RECV_OFFSET } = Q;

// Indexes of Receiver.times.
const BUSY_UNTIL = 0;
const ATOMIC_UNTIL = 1;
const BUSY_NS = 2;
const ATOMIC_NS = 3;

/** The receiver of one NIC. */
export class Receiver {
  private readonly rxGapNs: number;
  private readonly readGapNs: number;
  private readonly atomicGapNs: number;
  /** So far: packets of requests [0], atomics [1], and messages that took a receive [2]. */
  readonly counts = new Float64Array(3);
  /** When the pipeline and the atomics unit become free (*_UNTIL), and their busy time so far (*_NS). */
  private readonly times = new Float64Array(4);
  private readonly clock: Float64Array;

  constructor(params: Readonly<NicParams>, clock: Float64Array) {
    this.rxGapNs = params.rxGapNs;
    this.readGapNs = params.readGapNs;
    this.atomicGapNs = params.atomicGapNs;
    this.clock = clock;
  }

  /** Passes a request through the pipeline; `at[i]` becomes the time at which it starts there. */
  pass(kind: number, at: Float64Array, i: number): void {
    const { times } = this;
    const gapNs = kind === PKT_READ ? this.readGapNs : this.rxGapNs;
    let start = this.clock[0];
    if (times[BUSY_UNTIL] > start) start = times[BUSY_UNTIL];
    times[BUSY_UNTIL] = start + gapNs;
    times[BUSY_NS] += gapNs;
    this.counts[0]++;
    at[i] = start;
  }

  /**
   * Passes an atomic that is ready at `at[i]` to the atomics unit; `at[i]` becomes the time at which it
   * starts there.
   */
  passAtomic(at: Float64Array, i: number): void {
    const { times } = this;
    if (times[ATOMIC_UNTIL] > at[i]) at[i] = times[ATOMIC_UNTIL];
    times[ATOMIC_UNTIL] = at[i] + this.atomicGapNs;
    times[ATOMIC_NS] += this.atomicGapNs;
    this.counts[1]++;
  }

  /** Time for which the pipeline was busy so far. */
  get busyNs(): number {
    return this.times[BUSY_NS];
  }

  /** Whether pipeline and atomics unit were busy for no longer than time passed. */
  get withinRate(): boolean {
    const { times } = this;
    return [BUSY_UNTIL, ATOMIC_UNTIL].every(
      (until, i) => times[BUSY_NS + i] <= Math.max(times[until], this.clock[0]) * (1 + 1e-9),
    );
  }
}

/** Whether packets can ever wait at this NIC. */
export function receiverWaits(params: Readonly<NicParams>): boolean {
  const { rxGapNs, readGapNs, atomicGapNs, dmaReadNs, pcieGbps } = params;
  return rxGapNs + readGapNs + atomicGapNs + dmaReadNs > 0 || pcieGbps !== Number.POSITIVE_INFINITY;
}

/** Handles a packet's arrival at its NIC. Returns true when it must wait; an event executes it later. */
export function mustWait(world: World, qp: Qp, p: number): boolean {
  schedule(world, qp, p);
  const { packets, clock, events } = world;
  if (qp.rxHead < 0) {
    if (packets.readyNs[p] <= clock[0]) return false;
    qp.rxHead = p;
    events.due[0] = packets.readyNs[p];
    events.push(EV_RECEIVE, qp.qpn, 0, 0);
  } else {
    packets.next[qp.rxTail] = p;
  }
  packets.next[p] = -1;
  qp.rxTail = p;
  return true;
}

/**
 * Takes the next packet of a queue pair whose wait is over, or returns -1 and schedules an event for one that
 * still waits.
 */
export function takeReady(world: World, qp: Qp): number {
  const { packets, clock, events } = world;
  const p = qp.rxHead;
  if (p < 0) return -1;
  if (packets.readyNs[p] > clock[0]) {
    events.due[0] = packets.readyNs[p];
    events.push(EV_RECEIVE, qp.qpn, 0, 0);
    return -1;
  }
  qp.rxHead = packets.next[p];
  return p;
}

/** Drops the waiting packets of a destroyed queue pair. */
export function dropWaiting(world: World, qp: Qp): void {
  const { packets } = world;
  for (let p = qp.rxHead; p >= 0; p = packets.next[p]) packets.release(p);
  qp.rxHead = -1;
}

/** Sets when a packet may be executed, considering earlier packets of its queue pair. */
function schedule(world: World, qp: Qp, p: number): void {
  const { packets, clock } = world;
  const { readyNs } = packets;
  const { receiver, caches } = world.hosts[qp.host];
  const kind = packets.kind[p];
  const request = kind !== PKT_RESPONSE && kind !== PKT_ACK;
  if (request) receiver.pass(kind, readyNs, p);
  else readyNs[p] = clock[0];
  if (missesContext(world, qp)) {
    const contextNs = clock[0] + caches.contexts.waitNs[0];
    if (contextNs > readyNs[p]) readyNs[p] = contextNs;
  }
  if (caches.looksUp && missesMemory(world, qp, p, kind)) readyNs[p] += caches.waitNs[0];
  if (!request) return;
  if (takesReceive(kind, packets.flags[p])) fetchReceives(world, qp, p);
  if (qp.rxHead >= 0 && readyNs[qp.rxTail] > readyNs[p]) readyNs[p] = readyNs[qp.rxTail];
  if (kind === P.PKT_COMPARE_SWAP || kind === P.PKT_FETCH_ADD) receiver.passAtomic(readyNs, p);
}

/** Whether translating the memory of a packet takes time. */
function missesMemory(world: World, qp: Qp, p: number, kind: number): boolean {
  const { packets } = world;
  const length = packets.length[p];
  switch (kind) {
    case PKT_WRITE:
      return missesRemote(world, qp.host, packets.rkey[p], packets.addr[p], length);
    case PKT_READ:
      // Only the first page is translated here; the others are translated as they are read.
      return missesRemote(world, qp.host, packets.rkey[p], packets.addr[p], 1);
    case P.PKT_COMPARE_SWAP:
    case P.PKT_FETCH_ADD:
      return missesRemote(world, qp.host, packets.rkey[p], packets.addr[p], 8);
    case PKT_RESPONSE:
      return (
        qp.una !== qp.started && missesLocal(world, qp, qp.sq, qp.una, qp.rdGot * qp.mtu, Math.max(length, 8))
      );
    case PKT_SEND:
    case PKT_DATAGRAM:
      return missesReceive(world, qp, p);
    default:
      return false;
  }
}

/** Checks the receive that is available at arrival. A packet that waits behind others may use a different one. */
function missesReceive(world: World, qp: Qp, p: number): boolean {
  const { packets } = world;
  const first = packets.kind[p] === PKT_DATAGRAM || (packets.flags[p] & FIRST) !== 0;
  const offset = first ? 0 : qp.times[qp.row + RECV_OFFSET];
  if (!first) return qp.receiving && missesLocal(world, qp, qp.rq, qp.rqDone, offset, packets.length[p]);
  const queue = qp.srq === null ? qp.rq : qp.srq.queue;
  const seq = qp.srq === null ? qp.rqTaken : queue.freed;
  return seq !== queue.posted && missesLocal(world, qp, queue, seq, offset, packets.length[p]);
}

function takesReceive(kind: number, flags: number): boolean {
  if (kind === PKT_SEND) return (flags & FIRST) !== 0;
  return kind === PKT_DATAGRAM || (kind === PKT_WRITE && (flags & HAS_IMM) !== 0);
}

/**
 * Receives are fetched a batch ahead of their use, so that fetching delays only the first packet after the
 * NIC ran out of them, or lost them to other queues.
 */
function fetchReceives(world: World, qp: Qp, p: number): void {
  const queue = qp.srq === null ? qp.rq : qp.srq.queue;
  const seq = qp.srq === null ? qp.rqTaken : queue.freed;
  const { wqeFetchBatch, wqeBytes } = world.params;
  const { receives } = world.hosts[qp.host].caches;
  const wasEvicted =
    receives !== null && !(qp.srq === null ? receives.touch(qp.qpn, 0) : receives.touch(qp.srq.number, 1));
  const ahead = Math.min((queue.posted - seq) | 0, wqeFetchBatch);
  // There is no receive to fetch, so the sender gets an RNR NAK at once.
  if (ahead === 0) return;
  const missing = ((queue.fetched - seq) | 0) <= 0 || wasEvicted;
  queue.fetched = (seq + ahead) | 0;
  const { pcie, receiver } = world.hosts[qp.host];
  receiver.counts[2]++;
  if (pcie.free) return;
  if (missing) pcie.readControl(ahead * wqeBytes);
  // Packets wait behind the first of their own queue pair anyway; with a shared queue, packets of other queue
  // pairs come between.
  const { srq } = qp;
  if (srq !== null && missing) srq.fetchedNs[0] = pcie.done[0];
  if (srq === null && !missing) return;
  const waitNs = (srq === null ? pcie.done[0] : srq.fetchedNs[0]) - world.clock[0];
  if (waitNs > 0) world.packets.readyNs[p] += waitNs;
}
