/**
 * The hot verbs of the front: requests that concern no policy go straight to the device, the others into the
 * lanes.
 */

import type { Gate } from '../../shim/gate.ts';
import { crossChannelReason, enableIndexAfter, isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { EINVAL, ENOMEM, ISO_WR_WAIT } from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { RingInfo } from '../../verbs/types.ts';
import type { FrontCq, FrontQp } from './front-objects.ts';
import type { WorkerLink } from './link.ts';
import * as P from './protocol.ts';

/** A ring of the application. */
interface KnownRing {
  readonly info: RingInfo;
  readonly words: Uint32Array;
}

export class FrontData {
  // By handle index; each kind of object has its own indices.
  readonly qps: (FrontQp | undefined)[] = [];
  readonly cqs: (FrontCq | undefined)[] = [];
  private readonly wrRings: (KnownRing | undefined)[] = [];
  private readonly wcRings: (KnownRing | undefined)[] = [];
  /** Total number of sends that went straight to the device. */
  readonly straight = new Float64Array(1);
  private readonly next: Provider;
  link: WorkerLink;
  readonly gate: Gate | null;
  private readonly host: { posted(): void; fail(qp: FrontQp): void };
  /** Whether the worker does nothing on its own and polls only when the application does. */
  private readonly lockstep: boolean;

  constructor(
    next: Provider,
    link: WorkerLink,
    gate: Gate | null,
    lockstep: boolean,
    host: { posted(): void; fail(qp: FrontQp): void },
  ) {
    this.next = next;
    this.link = link;
    this.gate = gate;
    this.lockstep = lockstep;
    this.host = host;
  }

  qp(handle: number): FrontQp | undefined {
    const qp = this.qps[handleIndex(handle)];
    return qp !== undefined && qp.handle === handle ? qp : undefined;
  }

  cq(handle: number): FrontCq | undefined {
    const cq = this.cqs[handleIndex(handle)];
    return cq !== undefined && cq.handle === handle ? cq : undefined;
  }

  addRing(kind: 'wr' | 'wc', info: RingInfo): RingInfo {
    const rings = kind === 'wr' ? this.wrRings : this.wcRings;
    rings[handleIndex(info.handle)] = { info, words: new Uint32Array(info.memory) };
    return info;
  }

  removeRing(handle: number): void {
    for (const rings of [this.wrRings, this.wcRings]) {
      if (rings[handleIndex(handle)]?.info.handle === handle) rings[handleIndex(handle)] = undefined;
    }
  }

  postSend(handle: number, ring: number, start: number, count: number): number {
    const qp = this.qps[handleIndex(handle)];
    const known = this.wrRings[handleIndex(ring)];
    if (qp === undefined || qp.handle !== handle || known === undefined) {
      return this.next.postSend(handle, ring, start, count);
    }
    const { info, words } = known;
    if (info.handle !== ring || !L.within(info.capacity, start, count)) {
      return this.next.postSend(handle, ring, start, count);
    }
    const room = (qp.appDepth - (qp.appPosted - qp.freed)) | 0;
    const accepted = Math.min(count, room);
    let n = 0;
    if (!qp.isShaped && !qp.managed && this.gate !== null) {
      const straight = this.gate.straight(qp, words, start, accepted);
      if (straight > 0) {
        n = this.next.postSend(handle, ring, start, straight);
        qp.countStraight(words, start, n);
        this.straight[0] += n;
        if (n < straight) return n;
      }
    }
    if (n < accepted) n += this.enqueue(qp, known, start + n, accepted - n);
    if (n === count) refuse(words, 0, L.REASON_NONE);
    else if (n === accepted) refuse(words, ENOMEM, L.REASON_QUEUE_FULL);
    return n;
  }

  postRecv(handle: number, ring: number, start: number, count: number): number {
    const qp = this.qps[handleIndex(handle)];
    const known = this.wrRings[handleIndex(ring)];
    if (qp === undefined || qp.handle !== handle || qp.hasSrq || known === undefined) {
      return this.next.postRecv(handle, ring, start, count);
    }
    const { info, words } = known;
    if (info.handle !== ring || !L.within(info.capacity, start, count)) {
      return this.next.postRecv(handle, ring, start, count);
    }
    // While completions wait in the queue, their receives still occupy room.
    const room = qp.recvCq.isShaped ? (qp.recvDepth - (qp.recvPosted - qp.recvFreed)) | 0 : count;
    const taken = this.next.postRecv(handle, ring, start, Math.min(room, count));
    qp.recvPosted = (qp.recvPosted + taken) | 0;
    if (taken === room && taken < count) refuse(words, ENOMEM, L.REASON_QUEUE_FULL);
    return taken;
  }

  pollCq(handle: number, ring: number, start: number, max: number): number {
    const cq = this.cqs[handleIndex(handle)];
    const known = this.wcRings[handleIndex(ring)];
    if (cq === undefined || cq.handle !== handle || known === undefined || known.info.handle !== ring) {
      return this.next.pollCq(handle, ring, start, max);
    }
    const { info, words } = known;
    if (!L.within(info.capacity, start, max)) {
      return this.next.pollCq(handle, ring, start, max);
    }
    let n: number;
    if (cq.queue[P.OWNER] === P.BY_APPLICATION) {
      n = this.next.pollCq(handle, ring, start, max);
      cq.queue[P.PRODUCED] = (cq.queue[P.PRODUCED] + n) | 0;
    } else {
      n = cq.take(words, L.slotAt(start), max);
      if (n < max) n += this.pollWorker(cq, words, L.slotAt(start + n), max - n);
    }
    this.markFreed(words, start, n);
    return n;
  }

  /** Validates like the device, which never sees requests that the policy executes itself. */
  validateSend(handle: number, ring: number, index: number): number {
    const known = this.wrRings[handleIndex(ring)];
    const qp = this.qp(handle);
    if (known?.info.handle !== ring || qp === undefined || !L.within(known.info.capacity, index, 1)) {
      return this.next.validateSend(handle, ring, index);
    }
    const { words } = known;
    const at = L.slotAt(index);
    const opcode = words[at + L.WR_OP] & 0xff;
    if (this.gate?.executes(opcode) !== true) return this.next.validateSend(handle, ring, index);
    const reason = crossChannelReason(this, qp, words, at);
    if (reason === L.REASON_NONE) return 0;
    refuse(words, EINVAL, reason);
    return EINVAL;
  }

  /**
   * Makes the worker poll this CQ from now on. Called in the application's own call, which owned the CQ until
   * now.
   */
  claim(cq: FrontCq): void {
    if (!cq.isShaped) Atomics.store(cq.queue, P.OWNER, P.BY_WORKER);
  }

  /** Drops the waiting completions of a destroyed or reset queue pair. */
  purge(qp: FrontQp): void {
    qp.purge();
    qp.sendCq.purge(qp.handle);
    qp.recvCq.purge(qp.handle);
  }

  private enqueue(qp: FrontQp, { info, words }: KnownRing, start: number, count: number): number {
    let n = 0;
    while (n < count) {
      if (this.validateSend(qp.handle, info.handle, start + n) !== 0) {
        // As with any post that names detached memory, the queue pair fails.
        if (words[L.HDR_REASON] === L.REASON_DETACHED) this.host.fail(qp);
        break;
      }
      if (!qp.isShaped) this.shape(qp);
      const at = L.slotAt(start + n);
      qp.put(words, start + n, info.capacity, info.extBytes);
      if (isCrossChannel(words, at)) this.noteTarget(qp, words, at);
      n++;
    }
    if (n > 0) this.publishLane(qp);
    return n;
  }

  /**
   * A WAIT counts completions of another CQ, so the worker must see them. An ENABLE counts on from the
   * previous one.
   */
  private noteTarget(qp: FrontQp, words: Uint32Array, at: number): void {
    const target = words[at + L.WR_TARGET];
    if ((words[at + L.WR_OP] & 0xff) === ISO_WR_WAIT) {
      const cq = this.cq(target);
      if (cq !== undefined) this.claim(cq);
      return;
    }
    const managed = this.qp(target);
    if (managed === undefined) return;
    managed.enableIndex = enableIndexAfter(managed, managed === qp, words[at + L.WR_COUNT]);
  }

  private shape(qp: FrontQp): void {
    qp.shape();
    for (const cq of [qp.sendCq, qp.recvCq]) {
      if (cq.isShaped) continue;
      // The worker will see completions of other queue pairs on this CQ, and must know their sequence
      // numbers.
      for (const other of this.qps) if (other?.sendCq === cq && !other.isShaped) other.publish();
      this.claim(cq);
    }
  }

  /** Notifies the worker that this lane has sends. */
  private publishLane(qp: FrontQp): void {
    qp.publish();
    this.link.markLane(qp.index);
    this.host.posted();
  }

  private pollWorker(cq: FrontCq, words: Uint32Array, at: number, max: number): number {
    if (this.lockstep) this.link.callWords(P.CALL_POLL, cq.handle, max);
    else if (this.link.dead) this.link.callWords(P.CALL_SYNC, 0, 0);
    else this.link.wake();
    return cq.take(words, at, max);
  }

  /** After completions were handed over: their requests no longer occupy room. */
  private markFreed(words: Uint32Array, start: number, n: number): void {
    for (let i = 0; i < n; i++) {
      const at = L.slotAt(start + i);
      const handle = words[at + L.WC_QP];
      const qp = this.qps[handleIndex(handle)];
      if (qp === undefined || qp.handle !== handle) continue;
      const freed = (words[at + L.WC_SEQ] + 1) | 0;
      if ((words[at + L.WC_OP] & L.WC_RECV_SIDE) === 0) qp.freed = freed;
      else if (!qp.hasSrq) qp.recvFreed = freed;
    }
  }
}

function refuse(words: Uint32Array, errno: number, reason: number): void {
  words[L.HDR_ERRNO] = errno;
  words[L.HDR_REASON] = reason;
}
