/** Puts one policy between an application and a provider: the verbs that it overrides. */
import { ENOMEM, IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_RESET } from '../verbs/constants.ts';
import { UnsupportedError } from '../verbs/errors.ts';
import { handleIndex } from '../verbs/handles.ts';
import * as L from '../verbs/layout.ts';
import type { CompletionListener, Provider, QpAttr, QpInitAttr, RingInfo, Verbs } from '../verbs/provider.ts';
import { ShimCq, settleSend } from './completion.ts';
import type { Interceptor } from './compose.ts';
import { Issuer } from './issue.ts';
import type { Policy } from './policy.ts';
import { ShimQp } from './queue.ts';

/** Queue pairs of one CQ that can be shaped to the full at the same time. */
const SHAPED_QPS_PER_CQ = 16;
const SCRATCH_SLOTS = 64;

interface ContextState {
  maxQpWr: number;
  maxCqe: number;
  /** Channel of the CQs that the application made without one. */
  ownChannel: number;
  cqs: number;
}

/**
 * Makes an interceptor of a policy.
 * @throws UnsupportedError at compose time when the policy needs WAIT and the provider has none
 */
export function createShim(makePolicy: () => Policy): Interceptor {
  const name = makePolicy().name;
  return {
    name,
    wrap(next) {
      const policy = makePolicy();
      if (policy.needs.wait === 'required' && next.wait === 'none') {
        throw new UnsupportedError(
          `policy '${name}' needs WAIT, which provider '${next.name}' does not have`,
        );
      }
      return new Shim(policy, next).verbs();
    },
  };
}

class Shim {
  private readonly policy: Policy;
  private readonly next: Provider;
  private readonly issuer: Issuer;
  private readonly qps: (ShimQp | undefined)[] = [];
  private readonly cqs: (ShimCq | undefined)[] = [];
  // By handle index; the two kinds of rings count their indices apart.
  private readonly wrRings: (RingInfo | undefined)[] = [];
  private readonly wrWords: (Uint32Array | undefined)[] = [];
  private readonly wcRings: (RingInfo | undefined)[] = [];
  private readonly wcWords: (Uint32Array | undefined)[] = [];
  private readonly contexts = new Map<number, ContextState>();
  private readonly pdContext = new Map<number, number>();
  private readonly listeners = new Map<number, CompletionListener | null>();
  private scratch: { handle: number; words: Uint32Array } | null = null;
  private feeding = false;

  constructor(policy: Policy, next: Provider) {
    this.policy = policy;
    this.next = next;
    this.issuer = new Issuer(next, {
      cq: (handle) => this.cq(handle),
      refused: (qp) => this.refused(qp),
      arm: (cq) => this.arm(cq),
    });
  }

  verbs(): Partial<Verbs> {
    return {
      openDevice: (name, options) => this.openDevice(name, options),
      closeDevice: (context) => this.closeDevice(context),
      allocPd: (context) => {
        const pd = this.next.allocPd(context);
        this.pdContext.set(pd, context);
        return pd;
      },
      deallocPd: (pd) => {
        this.next.deallocPd(pd);
        this.pdContext.delete(pd);
      },
      createCq: (context, cqe, channel) => this.createCq(context, cqe, channel),
      destroyCq: (cq) => this.destroyCq(cq),
      reqNotifyCq: (cq, solicitedOnly) => this.reqNotifyCq(cq, solicitedOnly),
      watchCompChannel: (channel, listener) => this.watch(channel, listener),
      destroyCompChannel: (channel) => {
        this.next.destroyCompChannel(channel);
        this.listeners.delete(channel);
      },
      createQp: (pd, attr) => this.createQp(pd, attr),
      modifyQp: (qp, attr, mask) => this.modifyQp(qp, attr, mask),
      queryQp: (qp) => this.queryQp(qp),
      destroyQp: (qp) => this.destroyQp(qp),
      createWrRing: (capacity, sges, inlineBytes) => {
        const info = this.next.createWrRing(capacity, sges, inlineBytes);
        this.wrRings[handleIndex(info.handle)] = info;
        this.wrWords[handleIndex(info.handle)] = new Uint32Array(info.memory);
        return info;
      },
      createWcRing: (capacity) => {
        const info = this.next.createWcRing(capacity);
        this.wcRings[handleIndex(info.handle)] = info;
        this.wcWords[handleIndex(info.handle)] = new Uint32Array(info.memory);
        return info;
      },
      destroyRing: (ring) => this.destroyRing(ring),
      validateSend: (qp, ring, index) => this.validateSend(qp, ring, index),
      postSend: (qp, ring, start, count) => this.postSend(qp, ring, start, count),
      pollCq: (cq, ring, start, max) => this.pollCq(cq, ring, start, max),
    };
  }

  // ---- control path

  private openDevice(name: string, options?: { tenant?: string }): number {
    const context = this.next.openDevice(name, options);
    const attr = this.next.queryDevice(context);
    this.contexts.set(context, { maxQpWr: attr.maxQpWr, maxCqe: attr.maxCqe, ownChannel: 0, cqs: 0 });
    return context;
  }

  private closeDevice(context: number): void {
    const state = this.contexts.get(context);
    if (state !== undefined && state.ownChannel !== 0 && state.cqs === 0) {
      this.next.destroyCompChannel(state.ownChannel);
      state.ownChannel = 0;
    }
    this.next.closeDevice(context);
    this.contexts.delete(context);
  }

  private createCq(context: number, cqe: number, appChannel: number): { handle: number; cqe: number } {
    const state = this.contexts.get(context);
    if (state === undefined) return this.next.createCq(context, cqe, appChannel);
    const room = 2 * this.policy.slots * SHAPED_QPS_PER_CQ;
    const wanted = cqe > state.maxCqe || cqe < 1 ? cqe : Math.min(state.maxCqe, cqe + room);
    const channel = appChannel !== 0 ? appChannel : this.channelOf(context, state);
    const info = this.next.createCq(context, wanted, channel);
    const fields = { handle: info.handle, appCqe: cqe, realCqe: info.cqe, context, channel, appChannel };
    this.cqs[handleIndex(info.handle)] = new ShimCq(fields);
    state.cqs++;
    return { handle: info.handle, cqe };
  }

  /** CQs without a channel get the shim's, so that held requests go on while the application does nothing. */
  private channelOf(context: number, state: ContextState): number {
    if (state.ownChannel === 0) {
      state.ownChannel = this.next.createCompChannel(context);
      this.next.watchCompChannel(state.ownChannel, (cq) => this.onEvent(cq));
    }
    return state.ownChannel;
  }

  private destroyCq(handle: number): void {
    this.next.destroyCq(handle);
    const cq = this.cq(handle);
    if (cq === undefined) return;
    const state = this.contexts.get(cq.context);
    if (state !== undefined) state.cqs--;
    this.cqs[handleIndex(handle)] = undefined;
  }

  private createQp(pd: number, attr: QpInitAttr) {
    const sendCq = this.cq(attr.sendCq);
    const recvCq = this.cq(attr.recvCq);
    const state = this.contexts.get(this.pdContext.get(pd) ?? 0);
    const { cap } = attr;
    if (sendCq === undefined || recvCq === undefined || state === undefined || !(cap.maxSendWr > 0)) {
      return this.next.createQp(pd, attr);
    }
    const enlarged = Math.min(state.maxQpWr, cap.maxSendWr + 2 * this.policy.slots);
    const maxSendWr = cap.maxSendWr > state.maxQpWr ? cap.maxSendWr : enlarged;
    const info = this.next.createQp(pd, { ...attr, cap: { ...cap, maxSendWr } });
    const depths = {
      app: cap.maxSendWr,
      real: info.cap.maxSendWr,
      sges: info.cap.maxSendSge,
      inlineBytes: info.cap.maxInlineData,
    };
    const index = handleIndex(info.handle);
    this.qps[index] = new ShimQp(index, info.handle, attr, depths, sendCq, recvCq);
    return { ...info, cap: { ...info.cap, maxSendWr: cap.maxSendWr } };
  }

  private modifyQp(handle: number, attr: QpAttr, mask: number): void {
    this.next.modifyQp(handle, attr, mask);
    const qp = this.qp(handle);
    if (qp === undefined || (mask & IBV_QP_STATE) === 0) return;
    if (attr.qpState === IBV_QPS_ERR) {
      qp.broken = true;
      this.feed(qp);
    } else if (attr.qpState === IBV_QPS_RESET) {
      this.unlist(qp);
      qp.purge();
      this.issuer.account(qp);
      qp.sendCq.forget(handle);
      qp.recvCq.forget(handle);
    }
  }

  private queryQp(handle: number): { attr: QpAttr; init: QpInitAttr } {
    const answer = this.next.queryQp(handle);
    const qp = this.qp(handle);
    if (qp === undefined) return answer;
    const cap = { ...answer.init.cap, maxSendWr: qp.appDepth };
    return { attr: { ...answer.attr, cap }, init: { ...answer.init, cap } };
  }

  private destroyQp(handle: number): void {
    this.next.destroyQp(handle);
    const qp = this.qp(handle);
    if (qp === undefined) return;
    this.unlist(qp);
    qp.sendCq.extra -= qp.extra;
    if (qp.translated) qp.sendCq.translatedQps--;
    qp.sendCq.forget(handle);
    qp.recvCq.forget(handle);
    this.qps[handleIndex(handle)] = undefined;
  }

  private destroyRing(ring: number): void {
    this.next.destroyRing(ring);
    const index = handleIndex(ring);
    if (this.wrRings[index]?.handle === ring) {
      this.wrRings[index] = undefined;
      this.wrWords[index] = undefined;
    } else if (this.wcRings[index]?.handle === ring) {
      this.wcRings[index] = undefined;
      this.wcWords[index] = undefined;
    }
  }

  // ---- posting

  private postSend(handle: number, ring: number, start: number, count: number): number {
    const qp = this.qps[handle & 0x3ffff];
    const words = this.wrWords[ring & 0x3ffff];
    if (qp === undefined || qp.handle !== handle || words === undefined) {
      return this.next.postSend(handle, ring, start, count);
    }
    const info = this.wrRings[ring & 0x3ffff]!;
    if (info.handle !== ring || !(start >= 0 && count >= 0 && start + count <= info.capacity)) {
      return this.next.postSend(handle, ring, start, count);
    }
    const places = (qp.appDepth - (qp.appPosted - qp.appFreed)) | 0;
    const most = Math.min(count, places);
    let n = 0;
    if (!qp.translated || qp.backlog === 0) {
      n = this.straight(qp, ring, words, info, start, this.policy.onload(qp, words, start, most));
      if (n < 0) return -1 - n;
    }
    if (n < most) n += this.holdRest(qp, words, info, start + n, most - n);
    if (n === most && n < count) refuse(words, ENOMEM, L.REASON_QUEUE_FULL);
    return n;
  }

  /** Requests that need nothing: from the application's own ring. -1 - n when the device took only n. */
  private straight(
    qp: ShimQp,
    ring: number,
    words: Uint32Array,
    info: RingInfo,
    start: number,
    count: number,
  ): number {
    if (count === 0) return 0;
    const taken = this.next.postSend(qp.handle, ring, start, count);
    if (!qp.translated) {
      qp.countStraight(words, start, taken);
    } else {
      for (let i = 0; i < taken; i++) {
        const ext = L.extAt(start + i, info.capacity, info.extBytes);
        qp.passThrough(words, L.HEADER_WORDS + (start + i) * L.SLOT_WORDS, ext);
      }
    }
    return taken === count ? taken : -1 - taken;
  }

  private holdRest(qp: ShimQp, words: Uint32Array, info: RingInfo, start: number, count: number): number {
    let n = 0;
    while (n < count) {
      if (this.validateSend(qp.handle, info.handle, start + n) !== 0) {
        // As at a post that names memory which went away: the queue pair fails.
        if (words[L.HDR_REASON] === L.REASON_DETACHED) this.refused(qp);
        break;
      }
      if (!qp.translated) this.beginTranslating(qp);
      const row = qp.appPosted & qp.mask;
      qp.hold(words, start + n, info.capacity, info.extBytes);
      this.policy.onHeld?.(qp, qp.held, row * qp.stride, this.issuer);
      n++;
    }
    if (n > 0) this.feed(qp);
    return n;
  }

  /** As the device would; requests that the policy executes itself never reach it. */
  private validateSend(handle: number, ring: number, index: number): number {
    const words = this.wrWords[ring & 0x3ffff];
    const opcode = words === undefined ? 0 : words[L.slotAt(index) + L.WR_OP] & 0xff;
    if (this.policy.executes?.(opcode) === true && this.qp(handle) !== undefined) return 0;
    return this.next.validateSend(handle, ring, index);
  }

  private beginTranslating(qp: ShimQp): void {
    qp.translate();
    qp.sendCq.translatedQps++;
    this.issuer.fit(qp.sges, qp.inlineBytes);
  }

  /** Lets the policy issue what it wants of this queue pair, as one batch. */
  private feed(qp: ShimQp): void {
    if (qp.backlog > 0) {
      if (qp.broken) this.issuer.flushHeld(qp);
      else this.policy.feed(qp, this.issuer);
    }
    this.issuer.post(qp);
    this.issuer.account(qp);
    if (qp.backlog === 0) {
      if (qp.inBacklogList) this.unlist(qp);
      return;
    }
    if (!qp.inBacklogList) {
      qp.inBacklogList = true;
      qp.sendCq.backlogged.push(qp);
    }
    this.arm(qp.sendCq);
  }

  private unlist(qp: ShimQp): void {
    qp.inBacklogList = false;
    const list = qp.sendCq.backlogged;
    const at = list.indexOf(qp);
    if (at >= 0) list.splice(at, 1);
    for (const cq of this.cqs) {
      const waiting = cq?.waiters.indexOf(qp) ?? -1;
      if (waiting >= 0) cq!.waiters.splice(waiting, 1);
    }
  }

  /** The device took less than it had room for, or the memory went away: as a device does, fail the queue pair. */
  private refused(qp: ShimQp): void {
    if (qp.broken) return;
    qp.broken = true;
    this.next.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
    this.issuer.flushHeld(qp);
  }

  // ---- polling and events

  private pollCq(handle: number, ring: number, start: number, max: number): number {
    const cq = this.cqs[handle & 0x3ffff];
    const words = this.wcWords[ring & 0x3ffff];
    const info = this.wcRings[ring & 0x3ffff];
    const inside =
      info !== undefined && info.handle === ring && start >= 0 && max >= 0 && start + max <= info.capacity;
    if (cq === undefined || cq.handle !== handle || words === undefined || !inside) {
      return this.next.pollCq(handle, ring, start, max);
    }
    let n = cq.fifoCount > 0 ? this.drain(cq, words, start, max) : 0;
    let arrived = 0;
    while (n < max) {
      const wanted = max - n;
      const raw = this.next.pollCq(handle, ring, start + n, wanted);
      arrived += raw;
      n += this.settle(cq, words, start + n, raw, true);
      if (raw < wanted) break;
    }
    if (arrived > 0) this.feedAll(cq);
    return n;
  }

  /** Rewrites `raw` completions in place; returns how many are the application's. */
  private settle(cq: ShimCq, words: Uint32Array, start: number, raw: number, delivered: boolean): number {
    let kept = 0;
    for (let i = 0; i < raw; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      if ((words[at + L.WC_OP] & L.WC_RECV_SIDE) === 0) {
        const handle = words[at + L.WC_QP];
        const qp = this.qps[handle & 0x3ffff];
        if (qp !== undefined && qp.handle === handle) {
          if (qp.translated) {
            if (!settleSend(qp, words, at)) continue;
          } else {
            qp.realFreed = (words[at + L.WC_SEQ] + 1) | 0;
          }
          if (delivered) qp.appFreed = (words[at + L.WC_SEQ] + 1) | 0;
        }
      }
      const to = L.HEADER_WORDS + (start + kept) * L.SLOT_WORDS;
      if (to !== at) words.copyWithin(to, at, at + L.SLOT_WORDS);
      kept++;
    }
    cq.produced = (cq.produced + kept) | 0;
    if (kept > 0 && cq.appArmed !== 0) cq.due = true;
    return kept;
  }

  private drain(cq: ShimCq, words: Uint32Array, start: number, max: number): number {
    const n = cq.shift(words, L.HEADER_WORDS + start * L.SLOT_WORDS, max);
    for (let i = 0; i < n; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      const qp = this.qp(words[at + L.WC_QP]);
      if (qp !== undefined && (words[at + L.WC_OP] & L.WC_RECV_SIDE) === 0) {
        qp.appFreed = (words[at + L.WC_SEQ] + 1) | 0;
      }
    }
    return n;
  }

  private feedAll(cq: ShimCq): void {
    if (this.feeding) return;
    this.feeding = true;
    for (let i = cq.backlogged.length - 1; i >= 0; i--) {
      if (i < cq.backlogged.length) this.feed(cq.backlogged[i]);
    }
    while (cq.waiters.length > 0) {
      const waiting = cq.waiters.splice(0);
      const before = cq.produced;
      for (const qp of waiting) this.feed(qp);
      if (cq.produced === before) break;
    }
    this.feeding = false;
  }

  private reqNotifyCq(handle: number, solicitedOnly: boolean): void {
    const cq = this.cq(handle);
    this.next.reqNotifyCq(handle, cq !== undefined && cq.backlogged.length > 0 ? false : solicitedOnly);
    if (cq === undefined) return;
    cq.appArmed = solicitedOnly ? 2 : 1;
    cq.due = false;
    cq.realArmed = true;
  }

  private arm(cq: ShimCq): void {
    if (cq.realArmed) return;
    cq.realArmed = true;
    this.next.reqNotifyCq(cq.handle, false);
  }

  private watch(channel: number, listener: CompletionListener | null): void {
    this.listeners.set(channel, listener);
    this.next.watchCompChannel(channel, listener === null ? null : (cq) => this.onEvent(cq));
  }

  /** A completion event: the application's, the shim's, or both. */
  private onEvent(handle: number): void {
    const cq = this.cq(handle);
    if (cq === undefined) return;
    cq.realArmed = false;
    if (cq.translatedQps === 0 && cq.waiters.length === 0) {
      this.raise(cq);
      return;
    }
    this.pollForShim(cq);
    // What arrives between that poll and the next arming would wake nobody: arm, then look again.
    if (cq.backlogged.length > 0 || cq.waiters.length > 0 || cq.appArmed !== 0) {
      this.arm(cq);
      this.pollForShim(cq);
    }
  }

  private pollForShim(cq: ShimCq): void {
    this.scratch ??= this.makeScratch();
    const { handle, words } = this.scratch;
    let raw = SCRATCH_SLOTS;
    while (raw === SCRATCH_SLOTS) {
      raw = this.next.pollCq(cq.handle, handle, 0, SCRATCH_SLOTS);
      const kept = this.settle(cq, words, 0, raw, false);
      for (let i = 0; i < kept; i++) cq.push(words, L.HEADER_WORDS + i * L.SLOT_WORDS);
      const before = cq.fifoCount;
      if (raw > 0) this.feedAll(cq);
      if (cq.fifoCount > before && cq.appArmed !== 0) cq.due = true;
    }
    if (cq.due) this.raise(cq);
  }

  private raise(cq: ShimCq): void {
    if (cq.appArmed === 0) return;
    cq.appArmed = 0;
    cq.due = false;
    this.listeners.get(cq.appChannel)?.(cq.handle);
  }

  private makeScratch(): { handle: number; words: Uint32Array } {
    const info = this.next.createWcRing(SCRATCH_SLOTS);
    return { handle: info.handle, words: new Uint32Array(info.memory) };
  }

  private qp(handle: number): ShimQp | undefined {
    const qp = this.qps[handleIndex(handle)];
    return qp !== undefined && qp.handle === handle ? qp : undefined;
  }

  private cq(handle: number): ShimCq | undefined {
    const cq = this.cqs[handleIndex(handle)];
    return cq !== undefined && cq.handle === handle ? cq : undefined;
  }
}

function refuse(words: Uint32Array, errno: number, reason: number): void {
  words[L.HDR_ERRNO] = errno;
  words[L.HDR_REASON] = reason;
}
