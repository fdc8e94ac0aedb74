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
  IBV_QPT_XRC_SEND,
} from '../verbs/constants.ts';
import { BusyError, NoResourcesError, UnsupportedError } from '../verbs/errors.ts';
import { gidToBytes, gidToString } from '../verbs/gid.ts';
import { handleIndex } from '../verbs/handles.ts';
import { LABEL_BITS, maskedLabels } from '../verbs/labels.ts';
import type { Adopt, PeerVerbs, Provider } from '../verbs/provider.ts';
import type { AhAttr, CqInfo, CqOptions, QpAttr, QpInfo, QpInitAttr } from '../verbs/types.ts';
import { assertDestroyed, assertLedger } from './assertions.ts';
import type { Interceptor } from './compose.ts';
import type { ShimContext } from './context.ts';
import { Contexts } from './contexts.ts';
import type { CoordinatorPort } from './coordinator-port.ts';
import { addCounts, COLUMNS, toCounters, totalOf } from './counters.ts';
import { CqLedger } from './cq-ledger.ts';
import { DeviceEvents } from './device-events.ts';
import { Events } from './events.ts';
import { Feeder } from './feeder.ts';
import { gateOf } from './gate.ts';
import { RateLimits } from './limits/rate-limits.ts';
import { queryMw } from './memory-window-keys.ts';
import { Peers, TAIL_SLOTS } from './peer/peers.ts';
import { Regions } from './peer/regions.ts';
import { Twins } from './peer/twins.ts';
import { type Policy, requirePolicy } from './policy.ts';
import { policyVerbs } from './policy-verbs.ts';
import { Polling } from './polling.ts';
import { Posting } from './posting.ts';
import { QpLedger } from './qp-ledger.ts';
import { sharingOf } from './sharing/of-shim.ts';
import type { Sharing } from './sharing/sharing.ts';
import { Tables } from './tables.ts';
import { Standby, type StandbyOptions } from './wait/standby.ts';

/** Queue pairs of one CQ that can all have their maximum of internal requests at the same time. */
const SHAPED_QPS_PER_CQ = 16;

/** Options of a shim. */
export interface ShimOptions {
  /** The coordinator of the device's tenants; without one, no grants come. */
  coordinator?: CoordinatorPort;
}

/**
 * Makes an interceptor of a policy.
 * @throws ConfigError when a required member of the policy is missing or wrong; at compose time, UnsupportedError when the
 *   policy needs WAIT and the provider has none, or when it needs a coordinator and there is none
 */
export function createShim(makePolicy: () => Policy, options: ShimOptions = {}): Interceptor {
  const { name } = requirePolicy(makePolicy());
  return {
    name,
    wrap(next) {
      const policy = makePolicy();
      if (policy.needs.wait === 'required' && next.wait === 'none') {
        throw new UnsupportedError(
          `policy '${name}' requires WAIT, which provider '${next.name}' does not support`,
        );
      }
      if (policy.needs.coordinator === true && options.coordinator === undefined) {
        throw new UnsupportedError(
          `policy '${name}' requires a coordinator: pass one in the options of createShim`,
        );
      }
      return new Shim(policy, next, options.coordinator ?? null).overrides();
    },
    gate: () => gateOf(makePolicy()),
  };
}

/** Makes an interceptor of a policy that emulates WAIT, for directly below another shim: it sleeps until it is needed. */
export function createStandbyShim(makePolicy: () => Policy, options: StandbyOptions): Interceptor {
  return {
    name: makePolicy().name,
    wrap: (next) => new Shim(makePolicy(), next, null).standbyOverrides(options),
    gate: () => gateOf(makePolicy()),
  };
}

class Shim {
  readonly policy: Policy;
  readonly next: Provider;
  readonly tables = new Tables();
  readonly events: Events;
  readonly deviceEvents: DeviceEvents;
  readonly feeder: Feeder;
  readonly posting: Posting;
  readonly polling: Polling;
  /** Null: the policy never cuts messages that take a receive. */
  private readonly peers: Peers | null;
  readonly regions: Regions;
  /** Null: the policy has no `setup`, in which it could ask for twins. */
  private readonly twins: Twins | null;
  /** Null: the policy lets no queue pair share another one. */
  private readonly sharing: Sharing | null;
  /** Internal requests that a queue pair may have in addition to the application's own. */
  private readonly slots: number;
  readonly contexts: Contexts;
  private readonly coordinator: CoordinatorPort | null;
  private readonly rates: RateLimits;
  /** Counts of the queue pairs that were destroyed, and of requests that belong to none. */
  private readonly destroyedCounts = new Float64Array(COLUMNS);

  constructor(policy: Policy, next: Provider, coordinator: CoordinatorPort | null) {
    this.policy = policy;
    this.next = next;
    this.coordinator = coordinator;
    this.contexts = new Contexts(next, coordinator, this);
    this.events = new Events(next, this.tables, {
      pollForShim: (cq) => this.polling.pollForShim(cq),
      feedAll: (cq) => this.feeder.feedAll(cq),
      completionLimits: () => this.feeder.completionLimits,
      internalEvent: (cq) => {
        this.sharing?.event(cq);
        this.feeder.resources.event(cq);
        this.feeder.drain();
      },
    });
    this.deviceEvents = new DeviceEvents(
      next,
      (qp) => this.onDeviceFailure(qp),
      (element, event, isFailure) =>
        this.feeder.resources.asyncEvent(element, isFailure) ||
        this.sharing?.asyncEvent(element, event, isFailure) === true,
    );
    this.sharing = sharingOf(this);
    this.feeder = new Feeder({
      policy,
      next,
      tables: this.tables,
      events: this.events,
      deviceEvents: this.deviceEvents,
      sharing: this.sharing,
      channel: (context) => this.ownChannel(context),
      serve: (index) => this.contexts.serve(index),
      counts: this.destroyedCounts,
    });
    this.rates = new RateLimits(policy.limitsRates === true, next, this.tables, this.feeder);
    this.posting = new Posting(policy, next, this.tables, this.feeder);
    this.polling = new Polling(next, this.tables, this.feeder);
    const { slots, splitsAboveBytes } = policy;
    this.peers = splitsAboveBytes === undefined ? null : new Peers(next, this.tables, splitsAboveBytes);
    this.regions = this.peers?.regions ?? new Regions(next, () => {});
    this.twins = policy.setup === undefined ? null : this.makeTwins();
    this.slots = slots + (this.peers === null ? 0 : TAIL_SLOTS);
    next.standby?.whenWoken(() => this.feeder.report());
  }

  private makeTwins(): Twins {
    const { policy, next, tables, feeder } = this;
    return new Twins({
      policyName: policy.name,
      next,
      tables,
      keeper: feeder.resources,
      below: this.peers?.verbs() ?? next,
      changed: (qp) => {
        feeder.deferChange(qp, 'state');
        feeder.drain();
      },
    });
  }

  /** A channel of the context that the shim listens to. */
  ownChannel(context: ShimContext): number {
    const channel = this.contexts.channelOf(context);
    this.events.listen(channel);
    return channel;
  }

  /** What describes queue pairs to peers, below sharing. */
  get peerVerbs(): PeerVerbs {
    return { ...this.next, ...this.peers?.verbs(), ...this.twins?.verbs() };
  }

  overrides(): ReturnType<Interceptor['wrap']> {
    // An emulation on standby serves the shim directly above it only.
    const own = this.next.standby === undefined ? {} : { standby: undefined };
    return { ...this.verbs(), ...own, adopt: this.adopter() };
  }

  standbyOverrides(options: StandbyOptions): ReturnType<Interceptor['wrap']> {
    return new Standby(this.next, this.tables, this.overrides(), options).overrides();
  }

  private verbs(): ReturnType<Interceptor['wrap']> {
    const { next, tables, events, posting, polling, contexts } = this;
    const { groups } = contexts;
    return {
      ...this.peers?.verbs(),
      ...this.twins?.verbs(),
      ...(this.sharing !== null && { ...this.regions.verbs(), ...this.sharing.verbs() }),
      openDevice: (name, options) => contexts.open(name, options),
      setLabels: (context, change) => contexts.setLabels(context, change),
      createGroup: (context, name, weight) => groups.create(contexts.get(context), context, name, weight),
      setGroup: (context, name, weight) => groups.change(contexts.get(context), context, name, weight),
      destroyGroup: (context, name) => groups.destroy(contexts.get(context), context, name),
      closeDevice: (context) => contexts.close(context),
      ...this.deviceEvents.verbs(),
      allocPd: (context) => contexts.adopt(contexts.pds, context, next.allocPd(context)),
      deallocPd: (pd) => {
        next.deallocPd(pd);
        contexts.release(contexts.pds, pd);
      },
      openXrcd: (context) => contexts.adopt(contexts.xrcds, context, next.openXrcd(context)),
      closeXrcd: (xrcd) => {
        next.closeXrcd(xrcd);
        contexts.release(contexts.xrcds, xrcd);
      },
      createCompChannel: (context) =>
        contexts.adopt(contexts.channels, context, next.createCompChannel(context)),
      createCq: (context, cqe, channel, options) => this.createCq(context, cqe, channel, options),
      resizeCq: (cq, cqe) => this.resizeCq(cq, cqe),
      modifyCq: (cq, maxCount, periodUs) => events.modifyCq(cq, maxCount, periodUs),
      destroyCq: (cq) => this.destroyCq(cq),
      reqNotifyCq: (cq, solicitedOnly) => events.reqNotifyCq(cq, solicitedOnly),
      watchCompChannel: (channel, listener) => events.watch(channel, listener),
      destroyCompChannel: (channel) => {
        next.destroyCompChannel(channel);
        events.forget(channel);
        contexts.release(contexts.channels, channel);
      },
      createQp: (pd, attr) => this.createQp(pd, attr),
      modifyQp: (qp, attr, mask) => this.modifyQp(qp, attr, mask),
      modifyQpRateLimit: (qp, limit) => this.rates.modifyQpRateLimit(qp, limit),
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
        { name: this.policy.name, ...toCounters(totalOf(this.destroyedCounts, tables.qps)) },
        ...(next.counters?.() ?? []),
      ],
      ...(this.coordinator !== null && { yieldContext: (handle) => contexts.yieldContext(handle) }),
      ...policyVerbs(this),
      pieceQps: (qp) => [...(tables.qp(qp)?.pieceQps ?? []), ...(next.pieceQps?.(qp) ?? [])],
    };
  }

  /** Takes over the counts of requests that bypassed the shim, on queue pairs that never held any, and of completions. */
  adopter(): Adopt {
    const { tables } = this;
    const below = this.next.adopt;
    return {
      qp(handle, posted, freed, lastSignaled) {
        tables.qp(handle)?.adopt(posted, freed, lastSignaled);
        below?.qp(handle, posted, freed, lastSignaled);
      },
      cq(handle, produced) {
        tables.countProduced(handle, produced);
        below?.cq(handle, produced);
      },
    };
  }

  private createCq(context: number, cqe: number, appChannel: number, options?: CqOptions): CqInfo {
    const owner = this.contexts.get(context);
    if (owner === undefined) return this.next.createCq(context, cqe, appChannel, options);
    const channel = appChannel !== 0 ? appChannel : this.contexts.channelOf(owner);
    const info = this.next.createCq(context, this.enlarged(cqe, owner), channel, options);
    const fields = { handle: info.handle, appCqe: cqe, realCqe: info.cqe, owner, channel, appChannel };
    this.tables.cqs[handleIndex(info.handle)] = new CqLedger(fields);
    owner.children++;
    return { handle: info.handle, cqe };
  }

  /** The size to request, so that internal completions fit in addition to the application's. */
  private enlarged(cqe: number, { maxCqe }: ShimContext): number {
    const room = 2 * this.slots * SHAPED_QPS_PER_CQ;
    return Number.isInteger(cqe) && cqe >= 1 && cqe <= maxCqe ? Math.min(maxCqe, cqe + room) : cqe;
  }

  private resizeCq(handle: number, cqe: number): number {
    const cq = this.tables.cq(handle);
    const state = this.contexts.get(cq?.context ?? 0);
    if (cq === undefined || state === undefined) return this.next.resizeCq(handle, cqe);
    if (cqe >= 1 && cqe < cq.appCqe) {
      // The device's own check would include the shim's spare entries: fetch all completions, and check here.
      this.polling.pollForShim(cq);
      if (cqe < cq.fifoCount) {
        const text = `resizeCq: ${cq.fifoCount} completions wait to be polled, which do not fit into ${cqe} entries`;
        throw new BusyError(text, { verb: 'resizeCq', errno: EBUSY });
      }
    }
    cq.realCqe = this.next.resizeCq(handle, this.enlarged(cqe, state));
    cq.appCqe = cqe;
    return cqe;
  }

  private destroyCq(handle: number): void {
    this.next.destroyCq(handle);
    this.deviceEvents.drop(handle);
    const cq = this.tables.cq(handle);
    if (cq === undefined) return;
    cq.owner.children--;
    this.tables.cqs[handleIndex(handle)] = undefined;
    // WAITs on it fail.
    for (const qp of cq.waiters) this.feeder.feed(qp);
  }

  private createQp(pd: number, attr: QpInitAttr): QpInfo {
    const context = this.contexts.pds.get(pd);
    // A device that executes ENABLE counts the queue pair's requests: the shim must not add or cut any.
    const isBelow = attr?.managed === true && this.policy.crossChannel !== true;
    const isShaped = Number.isInteger(attr?.cap?.maxSendWr) && attr.cap.maxSendWr > 0;
    const sendCq = this.tables.cq(attr?.sendCq);
    // An XRC_SEND has no receives, and may have no CQ for them.
    const recvCq = this.tables.cq(attr?.qpType === IBV_QPT_XRC_SEND ? attr.sendCq : attr?.recvCq);
    if (context === undefined || !isShaped || isBelow || sendCq === undefined || recvCq === undefined) {
      return this.tables.addUnshaped(attr, this.next.createQp(pd, attr));
    }
    if (this.policy.admitQp?.(context, attr.qpType) === false) {
      const text = `createQp: policy '${this.policy.name}' refused the queue pair: the tenant is over its limit`;
      throw new NoResourcesError(text, { verb: 'createQp', errno: ENOMEM });
    }
    this.contexts.checkQpLimit(context);
    return this.shapedQp(pd, attr, context, sendCq, recvCq);
  }

  /** Creates a queue pair with room for internal requests in addition to the application's. */
  private shapedQp(
    pd: number,
    attr: QpInitAttr,
    context: ShimContext,
    sendCq: CqLedger,
    recvCq: CqLedger,
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
    const qp = new QpLedger(index, info, pd, attr, depths, sendCq, recvCq);
    try {
      this.feeder.resources.addTwins(qp);
    } catch (error) {
      this.next.destroyQp(info.handle);
      throw error;
    }
    this.tables.qps[index] = qp;
    context.qps.add(qp);
    this.contexts.countQps(context);
    sendCq.addUser(qp);
    if (recvCq !== sendCq) recvCq.addUser(qp);
    this.sharing?.created(qp);
    this.feeder.deferChange(qp, 'created');
    this.feeder.drain();
    assertLedger(qp, 'createQp');
    return { ...info, cap: { ...info.cap, maxSendWr: cap.maxSendWr } };
  }

  /** Before a RESET or its end: ends its sharing, and counts completions, for WAITs, that would be dropped. */
  private finish(qp: QpLedger): void {
    this.sharing?.finish(qp);
    if (this.policy.crossChannel !== true) return;
    this.polling.pollForShim(qp.sendCq);
    if (qp.recvCq !== qp.sendCq) this.polling.pollForShim(qp.recvCq);
  }

  /** Notes the GIDs of the queue pair and of its peer. */
  private setPath(qp: QpLedger, ah: AhAttr | undefined): void {
    const { dgid = '', sgidIndex = 0, portNum = 1 } = ah ?? {};
    qp.dgid = dgid === '' ? '' : gidToString(gidToBytes(dgid));
    qp.sgid = dgid === '' ? '' : qp.context.gidOf(portNum, sgidIndex, this.next);
  }

  /** The application has changed labels of this queue pair. */
  private setLabels(qp: QpLedger, attr: QpAttr, mask: number): void {
    this.feeder.relabel(qp, maskedLabels(attr, mask));
    this.feeder.drain();
  }

  private modifyQp(handle: number, attr: QpAttr, mask: number): void {
    const qp = this.tables.qp(handle);
    const resets = (mask & IBV_QP_STATE) !== 0 && attr?.qpState === IBV_QPS_RESET;
    if (qp !== undefined && resets) this.finish(qp);
    const leavesSqe = qp !== undefined && attr?.qpState === IBV_QPS_RTS && this.isInSqe(qp);
    this.rates.modifyQp(handle, attr, mask);
    if (resets) this.tables.forgetKept(handle);
    if (qp === undefined) return;
    if ((mask & IBV_QP_ACCESS_FLAGS) !== 0) {
      qp.accessFlags = attr.qpAccessFlags ?? 0;
      this.twins?.setAccess(qp);
      this.sharing?.setAccess(qp);
    }
    if ((mask & IBV_QP_AV) !== 0) this.setPath(qp, attr.ah);
    this.peers?.modified(qp, attr, mask);
    if ((mask & LABEL_BITS) !== 0) this.setLabels(qp, attr, mask);
    if ((mask & IBV_QP_STATE) === 0) return;
    qp.state = attr.qpState ?? qp.state;
    qp.countWaiting();
    if (attr.qpState === IBV_QPS_ERR || resets) this.feeder.resources.endTwins(qp);
    this.twins?.connect(qp);
    this.sharing?.modified(qp, attr);
    this.feeder.deferChange(qp, 'state');
    if (attr.qpState === IBV_QPS_RTS) {
      // After SQD held requests continue; after SQE the queue pair is usable again.
      if (leavesSqe) this.feeder.leaveSqe(qp);
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
    if (this.tables.qp(handle) === qp) assertLedger(qp, 'modifyQp');
  }

  /** Whether the device has moved an unreliable queue pair to SQE, even if the shim has not noticed yet. */
  private isInSqe(qp: QpLedger): boolean {
    if (qp.type === IBV_QPT_RC || qp.state < IBV_QPS_RTS) return false;
    return this.next.queryQp(qp.handle).attr.qpState === IBV_QPS_SQE;
  }

  /** The device reports a failure. If the queue pair is in ERR, held requests must be flushed, too. */
  private onDeviceFailure(handle: number): void {
    const qp = this.tables.qp(handle);
    if (qp === undefined || qp.broken || this.next.queryQp(handle).attr.qpState !== IBV_QPS_ERR) return;
    this.feeder.markFailed(qp);
    this.feeder.feed(qp);
  }

  private queryQp(handle: number): { attr: QpAttr; init: QpInitAttr } {
    const answer = this.next.queryQp(handle);
    const qp = this.tables.qp(handle);
    if (qp === undefined) return answer;
    const cap = { ...answer.init.cap, maxSendWr: qp.appDepth };
    const init = { ...answer.init, cap, ...(qp.managed && { managed: true }) };
    const { qpWeight, group, traffic } = qp.labels;
    const attr = { ...answer.attr, cap, qpWeight, group, traffic, ...this.rates.attrOf(qp) };
    return { attr, init };
  }

  private destroyQp(handle: number): void {
    const qp = this.tables.qp(handle);
    if (qp !== undefined) this.finish(qp);
    this.next.destroyQp(handle);
    this.deviceEvents.drop(handle);
    this.tables.removeUnshaped(handle);
    if (qp === undefined) return;
    this.feeder.resources.endTwins(qp);
    this.feeder.resources.dropTwins(qp);
    this.sharing?.destroyed(qp);
    addCounts(this.destroyedCounts, qp.counts);
    addCounts(qp.context.destroyedCounts, qp.counts);
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
    this.contexts.countQps(qp.context);
    this.feeder.deferChange(qp, 'destroyed');
    this.feeder.drain();
    assertDestroyed(qp, this.feeder.issuer.writing);
  }
}
