/**
 * Makes completions fail, get lost, arrive late or change order. All completions of a queue pass through a pending
 * list. A failed one moves its queue pair to ERR and flushes the outstanding requests behind it, as on a device.
 */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { QpAttr } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import { KnownRing, type Rings } from '../rings.ts';
import type { FaultPlan, InjectionListener } from './options.ts';
import { SendLog } from './send-log.ts';

const SCRATCH_SLOTS = 64;

/** A completion on its way from the device to the application. */
interface PendingCompletion {
  readonly words: Uint32Array;
  readonly dueNs: number;
}

interface FaultyCq {
  readonly context: number;
  readonly channel: number;
  readonly pending: PendingCompletion[];
  /** A completion that waits until one of another work queue has overtaken it. */
  overtaken: Uint32Array | null;
  armed: boolean;
}

/** Whether two completions belong to the same work queue, within which order is guaranteed. */
function sameQueue(a: Uint32Array, b: Uint32Array): boolean {
  return a[L.WC_QP] === b[L.WC_QP] && ((a[L.WC_OP] ^ b[L.WC_OP]) & L.WC_RECV_SIDE) === 0;
}

export class CompletionFaults {
  private readonly next: Provider;
  private readonly rings: Rings;
  private readonly plan: FaultPlan;
  private readonly onInject: InjectionListener;
  private readonly random: () => number;
  private readonly cqs = new Map<number, FaultyCq>();
  private readonly listeners = new Map<number, (cq: number) => void>();
  private readonly log: SendLog;
  /** Queue pairs that a failed completion moved to ERR, with the side (send or receive) of that completion. */
  private readonly failed = new Map<number, number>();
  private scratch: KnownRing | null = null;
  private count = 0;

  constructor(next: Provider, rings: Rings, plan: FaultPlan, onInject: InjectionListener) {
    this.next = next;
    this.rings = rings;
    this.plan = plan;
    this.onInject = onInject;
    this.random = randomFrom(plan.seed);
    this.log = new SendLog(rings);
  }

  verbs(): Partial<Verbs> {
    const { next, log } = this;
    const verbs: Partial<Verbs> = {
      createCq: (context, cqe, channel, options) => {
        const info = next.createCq(context, cqe, channel, options);
        this.cqs.set(info.handle, { context, channel, pending: [], overtaken: null, armed: false });
        return info;
      },
      destroyCq: (cq) => {
        next.destroyCq(cq);
        this.cqs.delete(cq);
        if (this.cqs.size === 0) this.freeScratch();
      },
      reqNotifyCq: (cq, solicitedOnly) => {
        next.reqNotifyCq(cq, solicitedOnly);
        const state = this.cqs.get(cq);
        if (state !== undefined) state.armed = true;
      },
      watchCompChannel: (channel, listener) => this.watch(channel, listener),
      modifyQp: (qp, attr, mask) => this.modifyQp(qp, attr, mask),
      destroyQp: (qp) => {
        next.destroyQp(qp);
        this.failed.delete(qp);
        this.log.remove(qp);
      },
      pollCq: (cq, ring, start, max) => this.pollCq(cq, ring, start, max),
    };
    if (this.plan.completion !== 'error') return verbs;
    verbs.postSend = (qp, ring, start, count) => {
      const posted = next.postSend(qp, ring, start, count);
      log.posted(qp, ring, start, posted);
      return posted;
    };
    return verbs;
  }

  private watch(channel: number, listener: ((cq: number) => void) | null): void {
    if (listener !== null && typeof listener !== 'function') {
      // The provider reports what is wrong with the listener.
      this.next.watchCompChannel(channel, listener);
      return;
    }
    if (listener === null) this.listeners.delete(channel);
    else this.listeners.set(channel, (cq) => this.notify(cq, listener));
    this.next.watchCompChannel(channel, this.listeners.get(channel) ?? null);
  }

  private notify(cq: number, listener: (cq: number) => void): void {
    const state = this.cqs.get(cq);
    if (state !== undefined) state.armed = false;
    listener(cq);
  }

  private modifyQp(qp: number, attr: QpAttr, mask: number): void {
    this.next.modifyQp(qp, attr, mask);
    if ((mask & C.IBV_QP_STATE) === 0 || attr.qpState !== C.IBV_QPS_RESET) return;
    this.failed.delete(qp);
    this.log.clear(qp);
    for (const cq of this.cqs.values()) {
      cq.pending.splice(0, cq.pending.length, ...cq.pending.filter(({ words }) => words[L.WC_QP] !== qp));
      if (cq.overtaken !== null && cq.overtaken[L.WC_QP] === qp) cq.overtaken = null;
    }
  }

  private pollCq(handle: number, ring: number, start: number, max: number): number {
    const cq = this.cqs.get(handle);
    const to = this.rings.wc(ring);
    // The provider reports wrong arguments.
    if (cq === undefined || to === undefined || !(max > 0 && start >= 0 && start + max <= to.info.capacity)) {
      return this.next.pollCq(handle, ring, start, max);
    }
    this.fetch(handle, cq);
    const nowNs = this.next.nowNs(cq.context);
    let given = 0;
    // A late completion holds back those behind it, which preserves the order.
    while (given < max && cq.pending.length > 0 && cq.pending[0].dueNs <= nowNs) {
      to.words.set((cq.pending.shift() as PendingCompletion).words, L.slotAt(start + given++));
    }
    return given;
  }

  private fetch(handle: number, cq: FaultyCq): void {
    const { info, words } = this.scratchRing();
    const count = this.next.pollCq(handle, info.handle, 0, info.capacity);
    for (let i = 0; i < count; i++) {
      const at = L.slotAt(i);
      this.take(handle, cq, words.slice(at, at + L.SLOT_WORDS));
    }
    // No other completion arrived that could overtake it; holding it longer would be a delay.
    if (cq.overtaken !== null && cq.pending.length === 0) this.releaseOvertaken(cq);
  }

  private take(handle: number, cq: FaultyCq, words: Uint32Array): void {
    const side = words[L.WC_OP] & L.WC_RECV_SIDE;
    if (side === 0 && !this.log.completed(words)) return;
    if (this.failed.get(words[L.WC_QP]) === side) this.flush(words);
    if (!this.isChosen()) {
      this.deliver(cq, words);
      return;
    }
    this.onInject({ what: 'completion', number: this.count });
    if (this.plan.completion === 'error') this.fail(cq, words);
    else if (this.plan.completion === 'delay') this.delay(handle, cq, words);
    else if (this.plan.completion === 'reorder') this.reorder(cq, words);
  }

  private isChosen(): boolean {
    const { nth, probability, persistent } = this.plan;
    this.count++;
    if (probability !== undefined) return this.random() < probability;
    return persistent ? this.count >= (nth ?? 1) : this.count === (nth ?? 1);
  }

  private deliver(cq: FaultyCq, words: Uint32Array, dueNs = 0): void {
    // Only a completion of another work queue may overtake.
    const first = cq.overtaken !== null && sameQueue(cq.overtaken, words);
    if (first) this.releaseOvertaken(cq);
    cq.pending.push({ words, dueNs });
    if (!first) this.releaseOvertaken(cq);
  }

  private releaseOvertaken(cq: FaultyCq): void {
    if (cq.overtaken === null) return;
    cq.pending.push({ words: cq.overtaken, dueNs: 0 });
    cq.overtaken = null;
  }

  private reorder(cq: FaultyCq, words: Uint32Array): void {
    if (cq.overtaken === null) cq.overtaken = words;
    else this.deliver(cq, words);
  }

  private delay(handle: number, cq: FaultyCq, words: Uint32Array): void {
    const { delayNs } = this.plan;
    this.deliver(cq, words, this.next.nowNs(cq.context) + delayNs);
    void this.next.sleep(cq.context, delayNs).then(() => {
      if (cq.armed && this.cqs.get(handle) === cq) this.listeners.get(cq.channel)?.(handle);
    });
  }

  /** Fails a completion, unless it or its queue pair has already failed. */
  private fail(cq: FaultyCq, words: Uint32Array): void {
    const qp = words[L.WC_QP];
    const side = words[L.WC_OP] & L.WC_RECV_SIDE;
    if ((words[L.WC_OP] & 0xff) !== C.IBV_WC_SUCCESS || this.failed.has(qp)) {
      this.deliver(cq, words);
      return;
    }
    words[L.WC_OP] = this.plan.status | side;
    words[L.WC_BYTE_LEN] = 0;
    words[L.WC_IMM] = 0;
    this.deliver(cq, words);
    this.failed.set(qp, side);
    this.next.modifyQp(qp, { qpState: C.IBV_QPS_ERR }, C.IBV_QP_STATE);
    if (side !== 0) return;
    // The device does not report unsignaled requests that it completed, so they are flushed here.
    for (const flushed of this.log.flush(words)) this.deliver(cq, flushed);
  }

  private flush(words: Uint32Array): void {
    words[L.WC_OP] = C.IBV_WC_WR_FLUSH_ERR | (words[L.WC_OP] & L.WC_RECV_SIDE);
    words[L.WC_BYTE_LEN] = 0;
    words[L.WC_IMM] = 0;
  }

  private scratchRing(): KnownRing {
    this.scratch ??= new KnownRing(this.next.createWcRing(SCRATCH_SLOTS));
    return this.scratch;
  }

  private freeScratch(): void {
    if (this.scratch !== null) this.next.destroyRing(this.scratch.info.handle);
    this.scratch = null;
  }
}

/** Seeded random numbers in [0, 1) (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 4294967296;
  };
}
