/** Puts one policy between an application and a provider: the verbs that it overrides. */
import {
  EINVAL,
  ENOMEM,
  IBV_QP_STATE,
  IBV_QPS_ERR,
  IBV_QPS_RESET,
  IBV_QPS_RTS,
  IBV_QPT_RC,
  IBV_WC_SUCCESS,
} from '../verbs/constants.ts';
import { UnsupportedError } from '../verbs/errors.ts';
import { handleIndex } from '../verbs/handles.ts';
import * as L from '../verbs/layout.ts';
import type { CompletionListener, Provider, QpAttr, QpInitAttr, RingInfo, Verbs } from '../verbs/provider.ts';
import { ARM_ANY, ARM_NONE, ARM_SOLICITED, ShimCq, settleSend } from './completion.ts';
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

/** A completion channel: the device's events go through the shim, the application's are told or kept. */
interface ChannelState {
  listener: CompletionListener | null;
  /** Whether the shim listens to the device's channel: from the first time that it needs to. */
  watched: boolean;
  /** CQs with events that nobody has listened for yet. */
  pending: number[];
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
  private readonly channels = new Map<number, ChannelState>();
  private scratch: { handle: number; words: Uint32Array } | null = null;
  private feeding = false;

  constructor(policy: Policy, next: Provider) {
    this.policy = policy;
    this.next = next;
    this.issuer = new Issuer(next, {
      cq: (handle) => this.cq(handle),
      refused: (qp) => this.refused(qp),
      arm: (cq) => this.arm(cq, ARM_ANY),
      synthesised: (cq) => this.synthesised(cq),
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
        this.channels.delete(channel);
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
      postRecv: (qp, ring, start, count) => this.postRecv(qp, ring, start, count),
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
      this.channels.delete(state.ownChannel);
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
    const state = this.contexts.get(this.pdContext.get(pd) ?? 0);
    // ENABLE counts the requests of a managed queue pair: there, one must stay one.
    if (state === undefined || !(attr?.cap?.maxSendWr > 0) || attr.managed === true) {
      return this.next.createQp(pd, attr);
    }
    const sendCq = this.cq(attr.sendCq);
    const recvCq = this.cq(attr.recvCq);
    const { cap } = attr;
    if (sendCq === undefined || recvCq === undefined) return this.next.createQp(pd, attr);
    const enlarged = Math.min(state.maxQpWr, cap.maxSendWr + 2 * this.policy.slots);
    const maxSendWr = cap.maxSendWr > state.maxQpWr ? cap.maxSendWr : enlarged;
    const info = this.next.createQp(pd, { ...attr, cap: { ...cap, maxSendWr } });
    const depths = {
      app: cap.maxSendWr,
      real: info.cap.maxSendWr,
      recv: info.cap.maxRecvWr,
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
    qp.state = attr.qpState ?? qp.state;
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

  /** Straight down, but while the shim keeps completed receives, theirs are not places to post to. */
  private postRecv(handle: number, ring: number, start: number, count: number): number {
    const qp = this.qps[handle & 0x3ffff];
    if (qp === undefined || qp.handle !== handle) return this.next.postRecv(handle, ring, start, count);
    const places = qp.recvsKept === 0 ? count : (qp.recvDepth - (qp.recvPosted - qp.recvFreed)) | 0;
    const taken = this.next.postRecv(handle, ring, start, Math.min(places, count));
    qp.recvPosted = (qp.recvPosted + taken) | 0;
    const words = this.wrWords[ring & 0x3ffff];
    if (taken === places && taken < count && words !== undefined) refuse(words, ENOMEM, L.REASON_QUEUE_FULL);
    return taken;
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
    const qp = this.qp(handle);
    const at = L.slotAt(index);
    if (
      words === undefined ||
      qp === undefined ||
      this.policy.executes?.(words[at + L.WR_OP] & 0xff) !== true
    ) {
      return this.next.validateSend(handle, ring, index);
    }
    const target = this.cq(words[at + L.WR_TARGET]);
    const reason = qp.state < IBV_QPS_RTS ? L.REASON_STATE : L.REASON_TARGET;
    if (reason === L.REASON_TARGET && target !== undefined) return 0;
    refuse(words, EINVAL, reason);
    return EINVAL;
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
    this.arm(qp.sendCq, ARM_ANY);
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
    if (arrived > 0) {
      this.feedAll(cq);
      if (n < max && cq.fifoCount > 0) n += this.drain(cq, words, start + n, max - n);
    }
    return n;
  }

  /** Rewrites `raw` completions in place; returns how many are the application's. */
  private settle(cq: ShimCq, words: Uint32Array, start: number, raw: number, delivered: boolean): number {
    let kept = 0;
    let notable = false;
    const watchful = cq.appArmed !== ARM_NONE && cq.translatedQps > 0;
    for (let i = 0; i < raw; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      const op = words[at + L.WC_OP];
      if ((op & L.WC_RECV_SIDE) === 0) {
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
      } else if ((op & 0xff) !== IBV_WC_SUCCESS) {
        this.receiveFailed(words[at + L.WC_QP]);
      }
      // Whether a receive was solicited does not show: better one event too many than one too few.
      if (watchful) notable ||= cq.appArmed === ARM_ANY || (op & (L.WC_RECV_SIDE | 0xff)) !== 0;
      const to = L.HEADER_WORDS + (start + kept) * L.SLOT_WORDS;
      if (to !== at) words.copyWithin(to, at, at + L.SLOT_WORDS);
      kept++;
    }
    cq.produced = (cq.produced + kept) | 0;
    if (notable) cq.due = true;
    return kept;
  }

  /** A failed receive takes the whole queue pair to ERR, with nothing on the send side to say so. */
  private receiveFailed(handle: number): void {
    const qp = this.qp(handle);
    if (qp === undefined || qp.broken || qp.type !== IBV_QPT_RC) return;
    qp.broken = true;
    if (qp.backlog > 0) this.feed(qp);
  }

  private drain(cq: ShimCq, words: Uint32Array, start: number, max: number): number {
    const n = cq.shift(words, L.HEADER_WORDS + start * L.SLOT_WORDS, max);
    for (let i = 0; i < n; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      const qp = this.qp(words[at + L.WC_QP]);
      if (qp === undefined) continue;
      const freed = (words[at + L.WC_SEQ] + 1) | 0;
      if ((words[at + L.WC_OP] & L.WC_RECV_SIDE) === 0) {
        qp.appFreed = freed;
      } else {
        qp.recvFreed = freed;
        qp.recvsKept--;
      }
    }
    return n;
  }

  private feedAll(cq: ShimCq): void {
    if (this.feeding) return;
    this.feeding = true;
    try {
      for (let i = cq.backlogged.length - 1; i >= 0; i--) {
        if (i < cq.backlogged.length) this.feed(cq.backlogged[i]);
      }
      while (cq.waiters.length > 0) {
        const waiting = cq.waiters.splice(0);
        const before = cq.produced;
        for (const qp of waiting) this.feed(qp);
        if (cq.produced === before) break;
      }
    } finally {
      this.feeding = false;
    }
  }

  private reqNotifyCq(handle: number, solicitedOnly: boolean): void {
    const cq = this.cq(handle);
    if (cq === undefined) {
      this.next.reqNotifyCq(handle, solicitedOnly);
      return;
    }
    // Only what arrives from here on is worth an event.
    if (cq.translatedQps > 0) this.pollForShim(cq);
    if (cq.due && cq.appArmed === ARM_ANY) cq.owed++;
    if (cq.due) cq.appArmed = ARM_NONE;
    cq.due = false;
    // Asking for any completion is not taken back by asking for less.
    if (cq.appArmed !== ARM_ANY) cq.appArmed = solicitedOnly ? ARM_SOLICITED : ARM_ANY;
    const level = this.levelOf(cq);
    if (cq.realArmed !== ARM_ANY) cq.realArmed = level;
    this.next.reqNotifyCq(handle, level === ARM_SOLICITED);
  }

  /** What the device is to be asked for: whoever waits for held requests wants to hear of everything. */
  private levelOf(cq: ShimCq): number {
    if (cq.backlogged.length > 0 || cq.waiters.length > 0) return ARM_ANY;
    return cq.due ? ARM_NONE : cq.appArmed;
  }

  private arm(cq: ShimCq, level: number): void {
    if (level === ARM_ANY) this.listen(cq.channel);
    if (level === ARM_NONE || cq.realArmed === ARM_ANY || cq.realArmed === level) return;
    cq.realArmed = level;
    this.next.reqNotifyCq(cq.handle, level === ARM_SOLICITED);
  }

  private channelState(channel: number): ChannelState {
    let state = this.channels.get(channel);
    if (state === undefined) {
      state = { listener: null, watched: false, pending: [] };
      this.channels.set(channel, state);
    }
    return state;
  }

  private listen(channel: number): void {
    const state = this.channelState(channel);
    if (state.watched) return;
    state.watched = true;
    this.next.watchCompChannel(channel, (cq) => this.onEvent(cq));
  }

  private watch(channel: number, listener: CompletionListener | null): void {
    const needed = this.cqs.some((cq) => cq?.channel === channel && this.levelOf(cq) === ARM_ANY);
    const stays = listener !== null || needed;
    this.next.watchCompChannel(channel, stays ? (cq) => this.onEvent(cq) : null);
    const state = this.channelState(channel);
    state.watched = stays;
    state.listener = listener;
    const cq = state.pending.map((handle) => this.cq(handle)).find((one) => one !== undefined);
    if (listener !== null && cq !== undefined) this.soon(cq, () => this.tell(state));
  }

  /** A completion event: the application's, the shim's, or both. */
  private onEvent(handle: number): void {
    const cq = this.cq(handle);
    if (cq === undefined) return;
    cq.realArmed = ARM_NONE;
    if (cq.translatedQps === 0 && cq.waiters.length === 0) {
      // Nothing of the shim's: each event is the application's own.
      if (cq.owed === 0) cq.due = cq.appArmed !== ARM_NONE;
    } else {
      this.pollForShim(cq);
      // What arrives between that poll and the next arming would wake nobody: arm, then look again.
      const level = this.levelOf(cq);
      if (level !== ARM_NONE) {
        this.arm(cq, level);
        this.pollForShim(cq);
      }
    }
    this.raise(cq);
  }

  private pollForShim(cq: ShimCq): void {
    this.scratch ??= this.makeScratch();
    const { handle, words } = this.scratch;
    let raw = SCRATCH_SLOTS;
    while (raw === SCRATCH_SLOTS) {
      raw = this.next.pollCq(cq.handle, handle, 0, SCRATCH_SLOTS);
      const kept = this.settle(cq, words, 0, raw, false);
      for (let i = 0; i < kept; i++) this.keep(cq, words, L.HEADER_WORDS + i * L.SLOT_WORDS);
      if (raw > 0) this.feedAll(cq);
    }
  }

  /** Until the application has polled it, a receive keeps its place in the queue. */
  private keep(cq: ShimCq, words: Uint32Array, at: number): void {
    cq.push(words, at);
    const qp = this.qp(words[at + L.WC_QP]);
    if (qp === undefined || (words[at + L.WC_OP] & L.WC_RECV_SIDE) === 0) return;
    if (qp.recvsKept === 0) qp.recvFreed = words[at + L.WC_SEQ] | 0;
    qp.recvsKept++;
  }

  /** A policy completed a request itself: no event of the device tells of it. */
  private synthesised(cq: ShimCq): void {
    if (cq.appArmed === ARM_ANY) cq.due = true;
    if (cq.due || cq.waiters.length > 0) this.soon(cq, () => this.onSynthesised(cq));
  }

  private onSynthesised(cq: ShimCq): void {
    if (this.cq(cq.handle) !== cq) return;
    this.feedAll(cq);
    this.raise(cq);
  }

  /** On a stack of its own, not inside the application's call. */
  private soon(cq: ShimCq, action: () => void): void {
    void this.next.sleep(cq.context, 0).then(action);
  }

  /** Comes last wherever it is called: the application may do anything in its listener, and throw. */
  private raise(cq: ShimCq): void {
    let events = cq.owed;
    cq.owed = 0;
    if (cq.due) {
      cq.due = false;
      cq.appArmed = ARM_NONE;
      events++;
    }
    if (events === 0 || cq.appChannel === 0) return;
    const state = this.channelState(cq.appChannel);
    for (let i = 0; i < events; i++) state.pending.push(cq.handle);
    this.tell(state);
  }

  private tell(state: ChannelState): void {
    while (state.listener !== null) {
      const handle = state.pending.shift();
      if (handle === undefined) return;
      const cq = this.cq(handle);
      if (cq === undefined) continue;
      try {
        state.listener(handle);
      } catch (error) {
        if (state.pending.length > 0) this.soon(cq, () => this.tell(state));
        throw error;
      }
    }
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
