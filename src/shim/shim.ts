/** Puts one policy between an application and a provider: the verbs that it overrides. */
import { EBUSY, IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_RTS } from '../verbs/constants.ts';
import { BusyError, UnsupportedError } from '../verbs/errors.ts';
import { handleIndex } from '../verbs/handles.ts';
import type { CqInfo, CqOptions, Provider, QpAttr, QpInitAttr } from '../verbs/provider.ts';
import { ShimCq } from './completion.ts';
import type { Interceptor } from './compose.ts';
import { addCounts, COLUMNS, named, totalOf } from './counters.ts';
import { DeviceEvents } from './device-events.ts';
import { Events } from './events.ts';
import { Feeder } from './feeder.ts';
import { Peers, TAIL_SLOTS } from './peer/peers.ts';
import type { Policy } from './policy.ts';
import { Polling } from './polling.ts';
import { Posting } from './posting.ts';
import { ShimQp } from './queue.ts';
import { Tables } from './tables.ts';
import { queryMw } from './windows.ts';

/** Queue pairs of one CQ that can be shaped to the full at the same time. */
const SHAPED_QPS_PER_CQ = 16;

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
  private readonly tables = new Tables();
  private readonly events: Events;
  private readonly deviceEvents: DeviceEvents;
  private readonly feeder: Feeder;
  private readonly posting: Posting;
  private readonly polling: Polling;
  /** Null: the policy never cuts what takes a receive. */
  private readonly peers: Peers | null;
  /** Internal requests that a queue pair may have beside the application's own. */
  private readonly slots: number;
  private readonly contexts = new Map<number, ContextState>();
  private readonly pdContext = new Map<number, number>();
  /** What the queue pairs counted that are gone. */
  private readonly gone = new Float64Array(COLUMNS);

  constructor(policy: Policy, next: Provider) {
    this.policy = policy;
    this.next = next;
    this.events = new Events(next, this.tables, {
      look: (cq) => this.polling.look(cq),
      feedAll: (cq) => this.feeder.feedAll(cq),
    });
    this.deviceEvents = new DeviceEvents(next, (qp) => this.failed(qp));
    this.feeder = new Feeder(policy, next, this.tables, this.events, this.deviceEvents);
    this.posting = new Posting(policy, next, this.tables, this.feeder);
    this.polling = new Polling(next, this.tables, this.feeder);
    const { slots, splitsAboveBytes } = policy;
    this.peers = splitsAboveBytes === undefined ? null : new Peers(next, this.tables, splitsAboveBytes);
    this.slots = slots + (this.peers === null ? 0 : TAIL_SLOTS);
  }

  verbs(): ReturnType<Interceptor['wrap']> {
    const { next, tables, events, posting, polling } = this;
    return {
      ...this.peers?.verbs(),
      openDevice: (name, options) => this.openDevice(name, options),
      closeDevice: (context) => this.closeDevice(context),
      watchAsyncEvents: (context, listener) => this.deviceEvents.watch(context, listener),
      allocPd: (context) => {
        const pd = next.allocPd(context);
        this.pdContext.set(pd, context);
        return pd;
      },
      deallocPd: (pd) => {
        next.deallocPd(pd);
        this.pdContext.delete(pd);
      },
      createCq: (context, cqe, channel, options) => this.createCq(context, cqe, channel, options),
      resizeCq: (cq, cqe) => this.resizeCq(cq, cqe),
      destroyCq: (cq) => this.destroyCq(cq),
      reqNotifyCq: (cq, solicitedOnly) => events.reqNotifyCq(cq, solicitedOnly),
      watchCompChannel: (channel, listener) => events.watch(channel, listener),
      destroyCompChannel: (channel) => {
        next.destroyCompChannel(channel);
        events.forget(channel);
      },
      createQp: (pd, attr) => this.createQp(pd, attr),
      modifyQp: (qp, attr, mask) => this.modifyQp(qp, attr, mask),
      queryMw: (mw) => queryMw(next, tables, this.feeder, mw),
      queryQp: (qp) => this.queryQp(qp),
      destroyQp: (qp) => this.destroyQp(qp),
      createWrRing: (capacity, sges, inlineBytes) =>
        tables.addWrRing(next.createWrRing(capacity, sges, inlineBytes)),
      createWcRing: (capacity) => tables.addWcRing(next.createWcRing(capacity)),
      destroyRing: (ring) => {
        next.destroyRing(ring);
        tables.removeRing(ring);
      },
      validateSend: (qp, ring, index) => posting.validateSend(qp, ring, index),
      postSend: (qp, ring, start, count) => posting.postSend(qp, ring, start, count),
      postRecv: (qp, ring, start, count) => posting.postRecv(qp, ring, start, count),
      pollCq: (cq, ring, start, max) => polling.pollCq(cq, ring, start, max),
      counters: () => [
        { name: this.policy.name, ...named(totalOf(this.gone, tables.qps)) },
        ...(next.counters?.() ?? []),
      ],
    };
  }

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
      this.events.forget(state.ownChannel);
      state.ownChannel = 0;
    }
    this.next.closeDevice(context);
    this.contexts.delete(context);
    this.deviceEvents.forget(context);
  }

  private createCq(context: number, cqe: number, appChannel: number, options?: CqOptions): CqInfo {
    const state = this.contexts.get(context);
    if (state === undefined) return this.next.createCq(context, cqe, appChannel, options);
    const channel = appChannel !== 0 ? appChannel : this.channelOf(context, state);
    const info = this.next.createCq(context, this.enlarged(cqe, state), channel, options);
    const fields = { handle: info.handle, appCqe: cqe, realCqe: info.cqe, context, channel, appChannel };
    this.tables.cqs[handleIndex(info.handle)] = new ShimCq(fields);
    state.cqs++;
    return { handle: info.handle, cqe };
  }

  /** What is to be asked for, so that internal completions have room beside the application's. */
  private enlarged(cqe: number, { maxCqe }: ContextState): number {
    const room = 2 * this.slots * SHAPED_QPS_PER_CQ;
    return cqe > maxCqe || !(cqe >= 1) ? cqe : Math.min(maxCqe, cqe + room);
  }

  private resizeCq(handle: number, cqe: number): number {
    const cq = this.tables.cq(handle);
    const state = this.contexts.get(cq?.context ?? 0);
    if (cq === undefined || state === undefined) return this.next.resizeCq(handle, cqe);
    if (cqe >= 1 && cqe < cq.appCqe) {
      // The device's own check would count the shim's spare room: all that waits is fetched, and counted here.
      this.polling.look(cq);
      if (cqe < cq.fifoCount) {
        const text = `resizeCq: ${cq.fifoCount} completions wait to be polled, more than ${cqe} entries hold`;
        throw new BusyError(text, { verb: 'resizeCq', errno: EBUSY });
      }
    }
    cq.realCqe = this.next.resizeCq(handle, this.enlarged(cqe, state));
    cq.appCqe = cqe;
    return cqe;
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
    const cq = this.tables.cq(handle);
    if (cq === undefined) return;
    const state = this.contexts.get(cq.context);
    if (state !== undefined) state.cqs--;
    this.tables.cqs[handleIndex(handle)] = undefined;
  }

  private createQp(pd: number, attr: QpInitAttr) {
    const state = this.contexts.get(this.pdContext.get(pd) ?? 0);
    // ENABLE counts the requests of a managed queue pair: there, one must stay one.
    if (state === undefined || !(attr?.cap?.maxSendWr > 0) || attr.managed === true) {
      return this.next.createQp(pd, attr);
    }
    const sendCq = this.tables.cq(attr.sendCq);
    const recvCq = this.tables.cq(attr.recvCq);
    const { cap } = attr;
    if (sendCq === undefined || recvCq === undefined) return this.next.createQp(pd, attr);
    const enlarged = Math.min(state.maxQpWr, cap.maxSendWr + 2 * this.slots);
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
    this.tables.qps[index] = new ShimQp(index, info.handle, pd, attr, depths, sendCq, recvCq);
    return { ...info, cap: { ...info.cap, maxSendWr: cap.maxSendWr } };
  }

  private modifyQp(handle: number, attr: QpAttr, mask: number): void {
    this.next.modifyQp(handle, attr, mask);
    const qp = this.tables.qp(handle);
    if (qp === undefined) return;
    this.peers?.modified(qp, attr, mask);
    if ((mask & IBV_QP_STATE) === 0) return;
    qp.state = attr.qpState ?? qp.state;
    if (attr.qpState === IBV_QPS_RTS) {
      // Out of SQD what is held goes on; out of SQE the queue pair is whole again.
      qp.broken = false;
      this.feeder.feed(qp);
    }
    if (attr.qpState === IBV_QPS_ERR) {
      qp.broken = true;
      this.feeder.feed(qp);
    } else if (attr.qpState === IBV_QPS_RESET) {
      this.feeder.unlist(qp);
      this.peers?.forget(qp);
      qp.purge();
      this.feeder.issuer.account(qp);
      qp.sendCq.forget(handle);
      qp.recvCq.forget(handle);
    }
  }

  /** The device has moved it to ERR: it flushes what it has, and what is held is to be flushed as well. */
  private failed(handle: number): void {
    const qp = this.tables.qp(handle);
    if (qp === undefined || qp.broken || this.next.queryQp(handle).attr.qpState !== IBV_QPS_ERR) return;
    qp.broken = true;
    this.feeder.feed(qp);
  }

  private queryQp(handle: number): { attr: QpAttr; init: QpInitAttr } {
    const answer = this.next.queryQp(handle);
    const qp = this.tables.qp(handle);
    if (qp === undefined) return answer;
    const cap = { ...answer.init.cap, maxSendWr: qp.appDepth };
    return { attr: { ...answer.attr, cap }, init: { ...answer.init, cap } };
  }

  private destroyQp(handle: number): void {
    this.next.destroyQp(handle);
    const qp = this.tables.qp(handle);
    if (qp === undefined) return;
    addCounts(this.gone, qp.counts);
    if (qp.flushAh !== 0) this.next.destroyAh(qp.flushAh);
    this.peers?.forget(qp);
    this.feeder.unlist(qp);
    qp.sendCq.extra -= qp.extra;
    if (qp.translated) qp.sendCq.translatedQps--;
    qp.sendCq.forget(handle);
    qp.recvCq.forget(handle);
    this.tables.qps[handleIndex(handle)] = undefined;
  }
}
