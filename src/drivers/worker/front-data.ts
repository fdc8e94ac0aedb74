/** The hot verbs of the front: what concerns no policy goes straight to the device, the rest into the lanes. */

import type { Gate } from '../../shim/gate.ts';
import { crossChannelReason, enableIndexAfter, isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { EINVAL, ENOMEM, ISO_WR_WAIT } from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider, RingInfo } from '../../verbs/provider.ts';
import type { FrontCq, FrontQp } from './front-objects.ts';
import type { Link } from './link.ts';
import * as P from './protocol.ts';

/** A ring of the application's. */
interface KnownRing {
  readonly info: RingInfo;
  readonly words: Uint32Array;
}

export class FrontData {
  // By handle index, of which each kind of object counts its own.
  readonly qps: (FrontQp | undefined)[] = [];
  readonly cqs: (FrontCq | undefined)[] = [];
  private readonly wrRings: (KnownRing | undefined)[] = [];
  private readonly wcRings: (KnownRing | undefined)[] = [];
  /** Sends that went straight to the device, in all. */
  readonly straight = new Float64Array(1);
  private readonly next: Provider;
  link: Link;
  readonly gate: Gate | null;
  private readonly host: { posted(): void; fail(qp: FrontQp): void };
  /** The worker does nothing by itself: it polls when the application does. */
  private readonly lockstep: boolean;

  constructor(
    next: Provider,
    link: Link,
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
    const places = (qp.appDepth - (qp.appPosted - qp.freed)) | 0;
    const most = Math.min(count, places);
    let n = 0;
    if (!qp.shaped && !qp.managed && this.gate !== null) {
      const straight = this.gate.straight(qp, words, start, most);
      if (straight > 0) {
        n = this.next.postSend(handle, ring, start, straight);
        qp.countStraight(words, start, n);
        this.straight[0] += n;
        if (n < straight) return n;
      }
    }
    if (n < most) n += this.hold(qp, known, start + n, most - n);
    if (n === count) refuse(words, 0, L.REASON_NONE);
    else if (n === most) refuse(words, ENOMEM, L.REASON_QUEUE_FULL);
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
    // While completions wait in the queue, their receives keep their places.
    const places = qp.recvCq.shaped ? (qp.recvDepth - (qp.recvPosted - qp.recvFreed)) | 0 : count;
    const taken = this.next.postRecv(handle, ring, start, Math.min(places, count));
    qp.recvPosted = (qp.recvPosted + taken) | 0;
    if (taken === places && taken < count) refuse(words, ENOMEM, L.REASON_QUEUE_FULL);
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
    this.count(words, start, n);
    return n;
  }

  /** As the device would; requests that the policy executes itself never reach it. */
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

  /** The worker polls this CQ from now on: in the application's own call, which is its owner until here. */
  claim(cq: FrontCq): void {
    if (!cq.shaped) Atomics.store(cq.queue, P.OWNER, P.BY_WORKER);
  }

  /** What waits of a destroyed or reset queue pair is dropped. */
  forget(qp: FrontQp): void {
    qp.purge();
    qp.sendCq.forget(qp.handle);
    qp.recvCq.forget(qp.handle);
  }

  private hold(qp: FrontQp, { info, words }: KnownRing, start: number, count: number): number {
    let n = 0;
    while (n < count) {
      if (this.validateSend(qp.handle, info.handle, start + n) !== 0) {
        // As at a post that names memory which went away: the queue pair fails.
        if (words[L.HDR_REASON] === L.REASON_DETACHED) this.host.fail(qp);
        break;
      }
      if (!qp.shaped) this.shape(qp);
      const at = L.slotAt(start + n);
      qp.put(words, start + n, info.capacity, info.extBytes);
      if (isCrossChannel(words, at)) this.noteTarget(qp, words, at);
      n++;
    }
    if (n > 0) this.hand(qp);
    return n;
  }

  /** A WAIT counts the completions of another CQ: whoever waits has to see them. An ENABLE counts on from the last. */
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
      if (cq.shaped) continue;
      // The worker will see completions of the others on it too, and has to know their numbers.
      for (const other of this.qps) if (other?.sendCq === cq && !other.shaped) other.publish();
      this.claim(cq);
    }
  }

  /** Tells the worker that this lane has sends. */
  private hand(qp: FrontQp): void {
    qp.publish();
    this.link.handLane(qp.index);
    this.host.posted();
  }

  private pollWorker(cq: FrontCq, words: Uint32Array, at: number, max: number): number {
    if (this.lockstep) this.link.callWords(P.CALL_POLL, cq.handle, max);
    else if (this.link.dead) this.link.callWords(P.CALL_SYNC, 0, 0);
    else this.link.wake();
    return cq.take(words, at, max);
  }

  /** Completions were handed over: the places of their requests are free. */
  private count(words: Uint32Array, start: number, n: number): void {
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
