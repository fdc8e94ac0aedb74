/** Puts one policy between an application and a provider: the verbs that it overrides. */
import {
  EBUSY,
  ENOMEM,
  IBV_QP_ACCESS_FLAGS,
  IBV_QP_AV,
  IBV_QP_STATE,
  IBV_QPS_ERR,
  IBV_QPS_RESET,
  IBV_QPS_RTS,
  IBV_QPS_SQE,
  IBV_QPT_RC,
} from '../verbs/constants.ts';
import { BusyError, ConfigError, NoResourcesError, UnsupportedError } from '../verbs/errors.ts';
import { gidToBytes, gidToString } from '../verbs/gid.ts';
import { handleIndex } from '../verbs/handles.ts';
import type { Adopt, PolicyState, Provider } from '../verbs/provider.ts';
import type { AhAttr, CqInfo, CqOptions, OpenOptions, QpAttr, QpInfo, QpInitAttr } from '../verbs/types.ts';
import type { Interceptor } from './compose.ts';
import { ShimContext } from './context.ts';
import type { CoordinatorPort, Grant, Usage } from './coordinator-port.ts';
import { addCounts, COLUMNS, named, totalOf, usageOf } from './counters.ts';
import { ShimCq } from './cq-ledger.ts';
import { DeviceEvents } from './device-events.ts';
import { Events } from './events.ts';
import { Feeder, LIMITER_TOKENS } from './feeder.ts';
import { gateOf } from './gate.ts';
import { Limiter, type LimiterHost } from './limiter.ts';
import { queryMw } from './memory-window-keys.ts';
import { Peers, TAIL_SLOTS } from './peer/peers.ts';
import type { Policy } from './policy.ts';
import { Polling } from './polling.ts';
import { Posting } from './posting.ts';
import { ShimQp } from './qp-ledger.ts';
import { Tables } from './tables.ts';

/** Queue pairs of one CQ that can be shaped to the full at the same time. */
const SHAPED_QPS_PER_CQ = 16;

/** What a shim is told beside its policy. */
export interface ShimOptions {
  /** Who knows the other tenants; without one, reports go nowhere and no grants come. */
  coordinator?: CoordinatorPort;
}

/**
 * Makes an interceptor of a policy.
 * @throws UnsupportedError at compose time when the policy needs WAIT and the provider has none, or when it
 * needs a coordinator and there is none
 */
export function createShim(makePolicy: () => Policy, options: ShimOptions = {}): Interceptor {
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
      if (policy.needs.coordinator === true && options.coordinator === undefined) {
        throw new UnsupportedError(
          `policy '${name}' needs a coordinator: give one to createShim, in its options`,
        );
      }
      const shim = new Shim(policy, next, options.coordinator ?? null);
      return { ...shim.verbs(), adopt: shim.adopter() };
    },
    gate: () => gateOf(makePolicy()),
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
  private readonly coordinator: CoordinatorPort | null;
  private readonly contexts = new Map<number, ShimContext>();
  // By handle: whose children they are.
  private readonly pds = new Map<number, ShimContext>();
  private readonly channels = new Map<number, ShimContext>();
  private readonly xrcds = new Map<number, ShimContext>();
  private readonly limiterHost: LimiterHost = {
    nowNs: ({ handle }) => this.next.nowNs(handle),
    requestsPerS: (context) => this.coordinator?.maxRequestsPerSOf?.(context) ?? Number.POSITIVE_INFINITY,
    wakeAt: (context, atNs) => this.feeder.timers.set(context, atNs, LIMITER_TOKENS + context.index, false),
    feed: (qp) => this.feeder.feed(qp),
  };
  /** What the queue pairs counted that are gone. */
  private readonly gone = new Float64Array(COLUMNS);

  constructor(policy: Policy, next: Provider, coordinator: CoordinatorPort | null) {
    this.policy = policy;
    this.next = next;
    this.coordinator = coordinator;
    this.events = new Events(next, this.tables, {
      look: (cq) => this.polling.look(cq),
      feedAll: (cq) => this.feeder.feedAll(cq),
      internalEvent: (cq) => {
        this.feeder.resources.event(cq);
        this.feeder.drain();
      },
    });
    this.deviceEvents = new DeviceEvents(next, (qp) => this.failed(qp));
    this.feeder = new Feeder({
      policy,
      next,
      tables: this.tables,
      events: this.events,
      deviceEvents: this.deviceEvents,
      coordinator,
      channel: (context) => {
        const channel = this.channelOf(context);
        this.events.listen(channel);
        return channel;
      },
      serve: (index) => this.contextAt(index)?.limiter?.serve(),
      counts: this.gone,
    });
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
      allocPd: (context) => this.adopt(this.pds, context, next.allocPd(context)),
      deallocPd: (pd) => {
        next.deallocPd(pd);
        this.release(this.pds, pd);
      },
      openXrcd: (context) => this.adopt(this.xrcds, context, next.openXrcd(context)),
      closeXrcd: (xrcd) => {
        next.closeXrcd(xrcd);
        this.release(this.xrcds, xrcd);
      },
      createCompChannel: (context) => this.adopt(this.channels, context, next.createCompChannel(context)),
      createCq: (context, cqe, channel, options) => this.createCq(context, cqe, channel, options),
      resizeCq: (cq, cqe) => this.resizeCq(cq, cqe),
      destroyCq: (cq) => this.destroyCq(cq),
      reqNotifyCq: (cq, solicitedOnly) => events.reqNotifyCq(cq, solicitedOnly),
      watchCompChannel: (channel, listener) => events.watch(channel, listener),
      destroyCompChannel: (channel) => {
        next.destroyCompChannel(channel);
        events.forget(channel);
        this.release(this.channels, channel);
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
      ...(this.coordinator !== null && { yieldContext: (handle) => this.yieldContext(handle) }),
      configurePolicy: (name, changes) => this.configure(name, changes),
      ...(this.policy.inspect !== undefined && { policyStates: () => this.policyStates() }),
    };
  }

  /** The innermost first: what it refuses, nobody has taken. */
  private configure(name: string, changes: Readonly<Record<string, unknown>>): void {
    const { policy, next } = this;
    const isBelow = next.interceptors.includes(name);
    if (isBelow) next.configurePolicy?.(name, changes);
    if (policy.name === name && policy.configure !== undefined) {
      this.feeder.configure(changes);
      this.posting.limits();
    } else if (policy.name === name) {
      throw new ConfigError(`${name}: its options cannot change while it runs`);
    } else if (!isBelow) {
      if (next.configurePolicy === undefined) throw new ConfigError(`there is no policy '${name}' that runs`);
      next.configurePolicy(name, changes);
    }
  }

  private policyStates(): PolicyState[] {
    const { policy, next } = this;
    const own = (policy.inspect?.() ?? []).map((state) => ({ policy: policy.name, ...state }));
    return [...own, ...(next.policyStates?.() ?? [])];
  }

  /** Counts of what bypassed it: of queue pairs of which nothing was ever held, and of any CQ. */
  adopter(): Adopt {
    const { tables } = this;
    const below = this.next.adopt;
    return {
      qp(handle, posted, freed, lastSignaled) {
        const qp = tables.qp(handle);
        if (qp !== undefined && !qp.translated) {
          qp.appPosted = posted;
          qp.realPosted = posted;
          if (((freed - qp.realFreed) | 0) > 0) qp.realFreed = freed;
          if (((freed - qp.appFreed) | 0) > 0) qp.appFreed = freed;
          qp.lastSignaled = lastSignaled;
        }
        below?.qp(handle, posted, freed, lastSignaled);
      },
      cq(handle, produced) {
        const cq = tables.cq(handle);
        if (cq !== undefined) cq.produced = (cq.produced + produced) | 0;
        below?.cq(handle, produced);
      },
    };
  }

  /** An object of the application's that keeps its context open. */
  private adopt(of: Map<number, ShimContext>, context: number, handle: number): number {
    const state = this.contexts.get(context);
    if (state !== undefined) {
      state.children++;
      of.set(handle, state);
    }
    return handle;
  }

  private release(of: Map<number, ShimContext>, handle: number): void {
    const state = of.get(handle);
    if (state !== undefined) state.children--;
    of.delete(handle);
  }

  private openDevice(device: string, options?: OpenOptions): number {
    const handle = this.next.openDevice(device, options);
    const { maxQpWr, maxCqe } = this.next.queryDevice(handle);
    const tenant = options?.tenant ?? '';
    const context = new ShimContext({
      index: handleIndex(handle),
      handle,
      device,
      tenant,
      nic: this.next.describeNic?.(handle) ?? null,
      maxQpWr,
      maxCqe,
      watch: (isWatched) => this.feeder.timers.watch(isWatched),
    });
    this.contexts.set(handle, context);
    try {
      this.feeder.setup(context);
      const { coordinator } = this;
      if (coordinator !== null) {
        this.next.yieldContext?.(handle);
        const granted = (grant: Grant) => this.feeder.granted(context, grant);
        context.unsubscribe = coordinator.subscribe(context, granted, {
          usage: () => this.usage(context),
          limited: () => this.limit(context),
        });
      }
    } catch (error) {
      this.closeDevice(handle);
      throw error;
    }
    return handle;
  }

  /** @throws NoResourcesError */
  private requireQps(context: ShimContext): void {
    const most = context.isInner ? undefined : this.coordinator?.maxQpsOf?.(context);
    if (most === undefined || context.qps.size < most) return;
    const text =
      `createQp: the limit of the host's daemon for this tenant (maxQps) leaves this context ${most} queue pairs, ` +
      `and it has ${context.qps.size}: close others of the tenant's, or have the limit raised`;
    throw new NoResourcesError(text, { verb: 'createQp', errno: ENOMEM });
  }

  /** The coordinator has set, changed or taken away a limit. */
  private limit(context: ShimContext): void {
    const { limiter } = context;
    if (context.isInner || context.closed) return;
    const isLimited = this.limiterHost.requestsPerS(context) < Number.POSITIVE_INFINITY;
    if (limiter !== null) {
      if (!isLimited) context.limiter = null;
      if (isLimited) limiter.serve();
      else limiter.end();
    } else if (isLimited) {
      for (const qp of context.qps) {
        qp.licensed = qp.appPosted;
        qp.plainBelow = 0;
      }
      context.limiter = new Limiter(context, this.limiterHost);
    }
  }

  private contextAt(index: number): ShimContext | undefined {
    for (const context of this.contexts.values()) if (context.index === index) return context;
    return undefined;
  }

  private yieldContext(handle: number): void {
    const context = this.contexts.get(handle);
    if (context !== undefined) context.isInner = true;
    this.next.yieldContext?.(handle);
  }

  /** What the context has done; how long its next request takes will show the next time. */
  private usage(context: ShimContext): Usage | null {
    if (context.isInner) return null;
    context.sample.arm();
    return usageOf(context);
  }

  private closeDevice(handle: number): void {
    const context = this.contexts.get(handle);
    // While the application has children of it, the provider refuses; what is the shim's stays until then.
    if (context !== undefined && context.children === 0) {
      this.feeder.resources.close(context);
      if (context.ownChannel !== 0) {
        this.next.destroyCompChannel(context.ownChannel);
        this.events.forget(context.ownChannel);
        context.ownChannel = 0;
      }
    }
    this.next.closeDevice(handle);
    if (context === undefined) return;
    context.closed = true;
    context.unsubscribe?.();
    context.sample.end();
    this.feeder.timers.forget(context);
    this.contexts.delete(handle);
    this.deviceEvents.forget(handle);
  }

  private createCq(context: number, cqe: number, appChannel: number, options?: CqOptions): CqInfo {
    const owner = this.contexts.get(context);
    if (owner === undefined) return this.next.createCq(context, cqe, appChannel, options);
    const channel = appChannel !== 0 ? appChannel : this.channelOf(owner);
    const info = this.next.createCq(context, this.enlarged(cqe, owner), channel, options);
    const fields = { handle: info.handle, appCqe: cqe, realCqe: info.cqe, owner, channel, appChannel };
    this.tables.cqs[handleIndex(info.handle)] = new ShimCq(fields);
    owner.children++;
    return { handle: info.handle, cqe };
  }

  /** What is to be asked for, so that internal completions have room beside the application's. */
  private enlarged(cqe: number, { maxCqe }: ShimContext): number {
    const room = 2 * this.slots * SHAPED_QPS_PER_CQ;
    return Number.isInteger(cqe) && cqe >= 1 && cqe <= maxCqe ? Math.min(maxCqe, cqe + room) : cqe;
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
  private channelOf(context: ShimContext): number {
    if (context.ownChannel === 0) context.ownChannel = this.next.createCompChannel(context.handle);
    return context.ownChannel;
  }

  private destroyCq(handle: number): void {
    this.next.destroyCq(handle);
    const cq = this.tables.cq(handle);
    if (cq === undefined) return;
    cq.owner.children--;
    this.tables.cqs[handleIndex(handle)] = undefined;
    // What waits for it will wait no more: it fails.
    for (const qp of cq.waiters) this.feeder.feed(qp);
  }

  private createQp(pd: number, attr: QpInitAttr): QpInfo {
    const context = this.pds.get(pd);
    // Where the device executes ENABLE, it counts its requests: there, one must stay one.
    const isBelow = attr?.managed === true && this.policy.crossChannel !== true;
    const isShaped = Number.isInteger(attr?.cap?.maxSendWr) && attr.cap.maxSendWr > 0;
    if (context === undefined || !isShaped || isBelow) return this.next.createQp(pd, attr);
    const sendCq = this.tables.cq(attr.sendCq);
    const recvCq = this.tables.cq(attr.recvCq);
    if (sendCq === undefined || recvCq === undefined) return this.next.createQp(pd, attr);
    if (this.policy.admitQp?.(context, attr.qpType) === false) {
      const text = `createQp: policy '${this.policy.name}' refused it: the tenant is over its limit`;
      throw new NoResourcesError(text, { verb: 'createQp', errno: ENOMEM });
    }
    this.requireQps(context);
    return this.shapedQp(pd, attr, context, sendCq, recvCq);
  }

  /** A queue pair with room for the shim's own requests beside the application's. */
  private shapedQp(
    pd: number,
    attr: QpInitAttr,
    context: ShimContext,
    sendCq: ShimCq,
    recvCq: ShimCq,
  ): QpInfo {
    const { cap } = attr;
    const enlarged = Math.min(context.maxQpWr, cap.maxSendWr + 2 * this.slots);
    const maxSendWr = cap.maxSendWr > context.maxQpWr ? cap.maxSendWr : enlarged;
    const info = this.next.createQp(pd, { ...attr, managed: false, cap: { ...cap, maxSendWr } });
    const depths = {
      app: cap.maxSendWr,
      real: info.cap.maxSendWr,
      recv: info.cap.maxRecvWr,
      sges: info.cap.maxSendSge,
      inlineBytes: info.cap.maxInlineData,
    };
    const index = handleIndex(info.handle);
    const qp = new ShimQp(index, info, pd, attr, depths, sendCq, recvCq);
    try {
      this.feeder.resources.addTwins(qp);
    } catch (error) {
      this.next.destroyQp(info.handle);
      throw error;
    }
    this.tables.qps[index] = qp;
    context.qps.add(qp);
    this.countQps(context);
    sendCq.addUser(qp);
    if (recvCq !== sendCq) recvCq.addUser(qp);
    this.feeder.changed(qp, 'created');
    this.feeder.drain();
    return { ...info, cap: { ...info.cap, maxSendWr: cap.maxSendWr } };
  }

  private countQps(context: ShimContext): void {
    if (!context.isInner) this.coordinator?.countQps?.(context, context.qps.size);
  }

  /** Completions that a RESET or the end of a queue pair would take away are counted by WAITs before. */
  private countCompletions(qp: ShimQp): void {
    if (this.policy.crossChannel !== true) return;
    this.polling.look(qp.sendCq);
    if (qp.recvCq !== qp.sendCq) this.polling.look(qp.recvCq);
  }

  /** Where the queue pair is, and where its peer. */
  private addressed(qp: ShimQp, ah: AhAttr | undefined): void {
    const { dgid = '', sgidIndex = 0, portNum = 1 } = ah ?? {};
    qp.dgid = dgid === '' ? '' : gidToString(gidToBytes(dgid));
    qp.sgid = dgid === '' ? '' : qp.context.gidOf(portNum, sgidIndex, this.next);
  }

  private modifyQp(handle: number, attr: QpAttr, mask: number): void {
    const qp = this.tables.qp(handle);
    const resets = (mask & IBV_QP_STATE) !== 0 && attr?.qpState === IBV_QPS_RESET;
    if (qp !== undefined && resets) this.countCompletions(qp);
    const mends = qp !== undefined && attr?.qpState === IBV_QPS_RTS && this.isInSqe(qp);
    this.next.modifyQp(handle, attr, mask);
    if (qp === undefined) return;
    if ((mask & IBV_QP_ACCESS_FLAGS) !== 0) qp.accessFlags = attr.qpAccessFlags ?? 0;
    if ((mask & IBV_QP_AV) !== 0) this.addressed(qp, attr.ah);
    this.peers?.modified(qp, attr, mask);
    if ((mask & IBV_QP_STATE) === 0) return;
    qp.state = attr.qpState ?? qp.state;
    qp.countWaiting();
    this.feeder.changed(qp, 'state');
    if (attr.qpState === IBV_QPS_RTS) {
      // Out of SQD what is held goes on; out of SQE the queue pair is whole again.
      if (mends) this.feeder.mended(qp);
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
    this.feeder.drain();
  }

  /** Whether the device has moved an unreliable queue pair to SQE, known here or not. */
  private isInSqe(qp: ShimQp): boolean {
    if (qp.type === IBV_QPT_RC || qp.state < IBV_QPS_RTS) return false;
    return this.next.queryQp(qp.handle).attr.qpState === IBV_QPS_SQE;
  }

  /** The device has moved it to ERR: it flushes what it has, and what is held is to be flushed as well. */
  private failed(handle: number): void {
    const qp = this.tables.qp(handle);
    if (qp === undefined || qp.broken || this.next.queryQp(handle).attr.qpState !== IBV_QPS_ERR) return;
    this.feeder.broke(qp);
    this.feeder.feed(qp);
  }

  private queryQp(handle: number): { attr: QpAttr; init: QpInitAttr } {
    const answer = this.next.queryQp(handle);
    const qp = this.tables.qp(handle);
    if (qp === undefined) return answer;
    const cap = { ...answer.init.cap, maxSendWr: qp.appDepth };
    const init = { ...answer.init, cap, ...(qp.managed && { managed: true }) };
    return { attr: { ...answer.attr, cap }, init };
  }

  private destroyQp(handle: number): void {
    const qp = this.tables.qp(handle);
    if (qp !== undefined) this.countCompletions(qp);
    this.next.destroyQp(handle);
    if (qp === undefined) return;
    this.feeder.resources.dropTwins(qp);
    addCounts(this.gone, qp.counts);
    addCounts(qp.context.gone, qp.counts);
    if (qp.ownAh !== 0) this.next.destroyAh(qp.ownAh);
    this.peers?.forget(qp);
    this.feeder.unlist(qp);
    qp.sendCq.extra -= qp.extra;
    if (qp.translated) qp.sendCq.translatedQps--;
    qp.sendCq.removeUser(qp);
    qp.recvCq.removeUser(qp);
    qp.sendCq.forget(handle);
    qp.recvCq.forget(handle);
    this.tables.qps[handleIndex(handle)] = undefined;
    qp.purge();
    qp.context.qps.delete(qp);
    this.countQps(qp.context);
    this.feeder.changed(qp, 'destroyed');
    this.feeder.drain();
  }
}
