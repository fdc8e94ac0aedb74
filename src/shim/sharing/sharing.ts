/**
 * Shared queue pairs: requests of several reliable connections of the application go to the device over one carrier, so
 * that fewer contexts are in use at a time. Each connection keeps its own queue pair for what carriers do not take.
 *
 * The two ends exchange the addresses of their carriers, and agree on receives (two-sided.ts). Each decides alone over
 * which carrier it sends.
 */
import {
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_EVENT_SQ_DRAINED,
  IBV_QPS_ERR,
  IBV_QPS_INIT,
  IBV_QPS_RESET,
  IBV_QPS_RTR,
  IBV_QPS_RTS,
  IBV_QPS_SQD,
  IBV_QPT_RC,
  IBV_WC_WR_FLUSH_ERR,
} from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import type { PeerVerbs } from '../../verbs/provider.ts';
import type { QpAttr } from '../../verbs/types.ts';
import type { ShimContext } from '../context.ts';
import { decodeChunks, TwinChunk, withChunk, withoutChunk } from '../peer/chunks.ts';
import { pathOf } from '../peer/path.ts';
import type { QpLedger } from '../qp-ledger.ts';
import { Anchor, DONE, FAILED, LEAVE } from './anchor.ts';
import { BOUNCES, Bounce } from './bounce.ts';
import { Carriage, type CarriageHost } from './carriage.ts';
import type { Carrier } from './carrier.ts';
import { ALONE, JOINED } from './exchange.ts';
import { isUnexecuted } from './failures.ts';
import { Groups } from './groups.ts';
import { Lanes } from './lanes.ts';
import { CARRIED, type DeviceLoad, LEFT, Membership, OWN } from './membership.ts';
import { reclaim } from './reclaim.ts';
import { TwoSided, type TwoSidedHost } from './two-sided.ts';

/** The most polls for the requests of a queue pair that is reset or destroyed. */
const MOST_POLLS = 20_000;
const REMOTE = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
/** Distinguishes carriers from twins (TwinChunk). */
const KIND = -1;

/** The functions of the shim that sharing uses. */
export interface SharingHost extends Omit<CarriageHost, 'failed' | 'arrived'>, TwoSidedHost {
  readonly policyName: string;
  /** The most connections that share a carrier. */
  readonly most: number;
  /** Whether they share even if the cache of the device has room, and always in groups of `most`. */
  readonly always: boolean;
  /** The layers below, or the parts of this shim that describe something else. */
  readonly below: PeerVerbs;
  /** A completion channel of the context that the shim listens to. */
  channel(context: ShimContext): number;
  listen(context: ShimContext): void;
  toRts(carrier: Carrier, path: QpAttr, access: number): void;
  toErr(carrier: Carrier): void;
  /** Moves a queue pair to ERR, with everything that it holds. */
  fail(qp: QpLedger): void;
}

/** A protection domain with carriers. */
interface Domain {
  readonly context: ShimContext;
  /** By remote access. */
  readonly anchors: Map<number, Anchor>;
  /** Null if the device could not create its shared receive queue. */
  readonly bounce: Bounce | null;
  readonly carriers: Set<Carrier>;
  members: number;
}

export class Sharing {
  private readonly host: SharingHost;
  readonly twoSided: TwoSided;
  private readonly chunk: TwinChunk;
  private readonly carriages = new Map<ShimContext, Carriage>();
  private readonly domains = new Map<number, Domain>();
  private readonly groups: Groups;
  readonly lanes: Lanes;
  private readonly loads = new Map<string, DeviceLoad>();

  constructor(host: SharingHost) {
    this.host = host;
    this.chunk = new TwinChunk(host.policyName, KIND);
    this.groups = new Groups(host);
    this.twoSided = new TwoSided(host);
    this.lanes = new Lanes(this.groups, this.twoSided);
  }

  verbs(): PeerVerbs {
    return {
      describePeer: (qp) => this.describe(qp),
      setPeer: (qp, description) => this.set(qp, description),
    };
  }

  private loadOf({ device }: ShimContext): DeviceLoad {
    let load = this.loads.get(device);
    if (load === undefined) {
      load = { qps: 0 };
      this.loads.set(device, load);
    }
    return load;
  }

  created(qp: QpLedger): void {
    this.loadOf(qp.context).qps++;
  }

  private describe(handle: number): Uint8Array | null {
    const { below, tables } = this.host;
    const description = below.describePeer?.(handle) ?? null;
    const qp = tables.qp(handle);
    if (qp === undefined) return description;
    const own = this.join(qp)?.own;
    if (own === undefined || own.retired) return description;
    const { anchor } = own.slot;
    const { qpNum, slot } = own;
    const holdsReceives = qp.share?.exchange != null;
    const address = { qpNum, bufferAddr: anchor.addressOf(slot), rkey: anchor.rkey, holdsReceives };
    return withChunk(description, this.chunk.kind, this.chunk.encode(address));
  }

  private set(handle: number, bytes: Uint8Array | null): void {
    const { below, tables } = this.host;
    const chunks = decodeChunks(bytes);
    const qp = tables.qp(handle);
    const own = qp === undefined ? undefined : this.join(qp)?.own;
    if (own !== undefined && !own.connected && !own.failed) {
      own.peer = this.chunk.decode(chunks.get(this.chunk.kind) ?? []);
      if (own.peer?.rkey === 0) own.peer = null;
    }
    if (qp?.share?.exchange != null) this.twoSided.set(qp.share.exchange, qp.share.own.peer);
    below.setPeer?.(handle, withoutChunk(chunks, this.chunk.kind));
    if (qp !== undefined) this.connect(qp);
  }

  /** Makes the connection a member, if it may be one. */
  private join(qp: QpLedger): Membership | null {
    if (qp.share !== null) return qp.share;
    const { type, managed, state, appPosted, sendBase } = qp;
    if (type !== IBV_QPT_RC || managed || state < IBV_QPS_INIT || appPosted !== sendBase) return null;
    try {
      qp.share = this.makeMember(qp);
    } catch (error) {
      // Without a carrier, the queue pair works as any other.
      if (!(error instanceof IsoverbsError)) throw error;
    }
    return qp.share;
  }

  private makeMember(qp: QpLedger): Membership | null {
    const { context, pd } = qp;
    const access = qp.accessFlags & REMOTE;
    const domain = this.domainOf(pd, context);
    let anchor = domain.anchors.get(access);
    if (anchor === undefined) {
      anchor = new Anchor(this.host.next, pd);
      domain.anchors.set(access, anchor);
    }
    const slot = anchor.take();
    if (slot === null) return null;
    let carrier: Carrier;
    try {
      carrier = this.carriageOf(context).add(qp, slot, domain.bounce);
    } catch (error) {
      anchor.give(slot);
      this.collect(pd, domain);
      throw error;
    }
    domain.carriers.add(carrier);
    domain.members++;
    const member = new Membership(carrier, this.loadOf(context), access);
    member.exchange = this.twoSided.join(qp, domain.bounce, slot);
    return member;
  }

  private domainOf(pd: number, context: ShimContext): Domain {
    let domain = this.domains.get(pd);
    if (domain === undefined) {
      const bounce = this.makeBounce(pd, context);
      domain = { context, anchors: new Map(), bounce, carriers: new Set(), members: 0 };
      this.domains.set(pd, domain);
    }
    return domain;
  }

  private makeBounce(pd: number, context: ShimContext): Bounce | null {
    try {
      const bounce = new Bounce(this.host.next, pd);
      this.carriageOf(context).receive(BOUNCES);
      return bounce;
    } catch (error) {
      if (error instanceof IsoverbsError) return null;
      throw error;
    }
  }

  private carriageOf(context: ShimContext): Carriage {
    const { host } = this;
    if (context.carriage === null) {
      host.listen(context);
      const failed = (carrier: Carrier, seq: number, status: number) => this.failed(carrier, seq, status);
      const arrived = (carrier: Carrier, words: Uint32Array, index: number) =>
        this.twoSided.arrived(context.carriage!, carrier, words, index);
      context.carriage = new Carriage({ ...host, failed, arrived }, context, host.channel(context));
      this.carriages.set(context, context.carriage);
    }
    return context.carriage;
  }

  /** Connects the carrier of a queue pair, and finds the group of the connection. */
  private connect(qp: QpLedger): void {
    const { share, state } = qp;
    if (share === null || qp.broken || state < IBV_QPS_RTR || state > IBV_QPS_SQD) return;
    const { own } = share;
    if (own.peer === null || own.retired || own.failed) return;
    const { attr } = this.host.next.queryQp(qp.handle);
    if (!own.connected) {
      try {
        // The shim sends only as many messages as receives are announced: RNR ends as soon as the peer's shim has polled.
        const path = { ...pathOf(attr, state), destQpNum: own.peer.qpNum, rnrRetry: 7, minRnrTimer: 1 };
        this.host.toRts(own, path, share.accessFlags);
        own.connected = true;
      } catch (error) {
        if (!(error instanceof IsoverbsError)) throw error;
        own.peer = null;
        return;
      }
    }
    if (state !== IBV_QPS_RTS || share.state !== OWN || share.group !== null) return;
    qp.plainBelow = 0;
    share.group = this.groups.groupOf(qp, attr);
    const { exchange } = share;
    if (exchange !== null) exchange.isPatient = attr.rnrRetry === 7;
    if (exchange !== null && qp.appPosted !== qp.sendBase) exchange.status = ALONE;
    share.group.members++;
    share.group.carriers.push(own);
  }

  /** Posts the first `n` slots of a ring on the carrier of the queue pair. Returns how many the device took. */
  post(qp: QpLedger, ring: number, words: Uint32Array, n: number): number {
    return qp.context.carriage!.post(qp.share!.carrier!, qp, ring, words, n);
  }

  /**
   * Request `seq` of the carrier has failed. If it and those after it were certainly not executed, their queue pairs post
   * them again themselves; otherwise, these queue pairs fail.
   */
  private failed(carrier: Carrier, seq: number, status: number): void {
    if (!carrier.connected) return;
    carrier.connected = false;
    carrier.failed = true;
    carrier.freed = seq;
    this.notifyOfFailure(carrier);
    const isSafe = isUnexecuted(this.host.tables, carrier, seq, status);
    for (const qp of this.host.tables.qps) {
      if (qp?.share?.carrier !== carrier) continue;
      const first = carrier.orphan(qp);
      const hasLost = first !== qp.realPosted;
      reclaim(qp, first);
      this.leaveFailed(qp.share, status);
      if (isSafe || !hasLost || qp.broken) this.host.resume(qp);
      else this.twoSided.fail(qp, qp.share);
    }
    carrier.freed = carrier.posted;
    for (const qp of this.host.tables.qps) {
      const exchange = qp?.share?.exchange;
      if (exchange?.via !== carrier || !exchange.isWaiting) continue;
      qp!.share!.failStatus = status;
      this.twoSided.askAgain(qp!, qp!.share!);
    }
  }

  /** A while ago, connections of the context with this index waited for their peers. */
  look(index: number): void {
    for (const [context, carriage] of this.carriages) {
      if (context.index !== index) continue;
      carriage.isWatched = false;
      for (const qp of this.host.tables.qps) {
        if (qp?.context === context && qp.share !== null && !qp.broken) this.twoSided.look(qp, qp.share);
      }
    }
  }

  /** Its carrier has failed. */
  private leaveFailed(share: Membership, status: number): void {
    const { exchange } = share;
    share.failStatus = status;
    if (exchange?.status !== JOINED) {
      share.leave();
      return;
    }
    share.pause();
    exchange.mustPart = true;
  }

  /** The queue pair has failed, or is reset or destroyed: it leaves its carrier once its requests there have ended. */
  abandon(qp: QpLedger): void {
    if (qp.share !== null) this.announceEnd(qp, qp.share);
    this.twoSided.release(qp, true);
  }

  /** Tells the peer, once, that the connection has ended here: also if its own requests go over carriers no more. */
  private announceEnd(qp: QpLedger, share: Membership): void {
    if (share.mustLeave) return;
    share.mustLeave = true;
    this.notifyOfLeave(share);
    this.twoSided.refuse(qp);
  }

  /** Whether a carrier still has requests of a failed queue pair, after which its other requests are flushed. */
  holdsUp(qp: QpLedger): boolean {
    const { share } = qp;
    if (share === null || share.carrier === null) return false;
    if (share.state === CARRIED && qp.realPosted !== qp.realFreed) return true;
    share.leave();
    return false;
  }

  /**
   * Waits until nothing of the queue pair is on its way, because the application may use its memory for something else
   * after it has reset or destroyed it. If that takes too long, the carrier fails, and with it all that it carries.
   */
  finish(qp: QpLedger): void {
    const { share } = qp;
    if (share === null) return;
    this.announceEnd(qp, share);
    share.exchange?.drop();
    if (share.state === LEFT) return;
    const { carrier } = share;
    const { carriage } = qp.context;
    if (carrier !== null && carriage !== null) {
      for (let polls = 0; polls < MOST_POLLS && carrier.has(qp.handle); polls++) carriage.poll();
      if (carrier.has(qp.handle)) {
        this.host.toErr(carrier);
        this.failed(carrier, carrier.freed, IBV_WC_WR_FLUSH_ERR);
      }
    }
    share.leave();
  }

  /** Over any carrier to the peer: that of the connection may have failed. */
  private notifyOfLeave(share: Membership): void {
    this.notify(share.own, LEAVE, this.twoSided.carrierForMail(share) ?? share.own);
  }

  private notify(own: Carrier, value: number, via: Carrier): void {
    const carriage = this.domains.get(own.pd)?.context.carriage;
    own.notified |= value;
    carriage?.writeByte(via, own, own.slot.anchor.valueAddress(own.notified));
  }

  /** Over another carrier: the requests of other connections that the peer sent over this one would time out. */
  private notifyOfFailure(carrier: Carrier): void {
    for (const qp of this.host.tables.qps) {
      const share = qp?.share ?? null;
      if (share === null || (share.own !== carrier && share.carrier !== carrier)) continue;
      const via = this.twoSided.carrierForMail(share);
      if (via === undefined) continue;
      this.notify(carrier, FAILED, via);
      return;
    }
  }

  /** The application has changed what its queue pair grants to the peer. */
  setAccess({ share, accessFlags }: QpLedger): void {
    if (share !== null && (accessFlags & REMOTE) !== share.accessFlags) this.notifyOfLeave(share);
  }

  /** The application has modified the state of the queue pair. */
  modified(qp: QpLedger, attr: QpAttr): void {
    const { share } = qp;
    if (share === null) return;
    if (attr.qpState === IBV_QPS_ERR) this.abandon(qp);
    if (attr.qpState === IBV_QPS_RESET) this.retire(share);
    this.connect(qp);
  }

  /** The application destroys the queue pair. */
  destroyed(qp: QpLedger): void {
    this.loadOf(qp.context).qps--;
    const { share } = qp;
    if (share === null) return;
    this.twoSided.forget(qp);
    this.retire(share);
    const domain = this.domains.get(qp.pd)!;
    domain.members--;
    this.collect(qp.pd, domain);
  }

  /** The connections that use the carrier keep it, but no further one may use it. */
  private retire({ own }: Membership): void {
    own.retired = true;
    this.groups.retire(own);
  }

  /** Destroys the carriers that neither end uses any more. */
  private collect(pd: number, { context, carriers, anchors, bounce, members }: Domain): void {
    for (const carrier of carriers) {
      if (members > 0 && !this.isDone(carrier)) continue;
      carriers.delete(carrier);
      context.carriage?.remove(carrier);
      carrier.slot.anchor.give(carrier.slot);
    }
    if (members > 0) return;
    for (const anchor of anchors.values()) anchor.close(this.host.next);
    if (bounce !== null) {
      bounce.close();
      context.carriage?.receive(-BOUNCES);
    }
    this.domains.delete(pd);
  }

  private isDone(carrier: Carrier): boolean {
    if (!carrier.retired || carrier.users > 0) return false;
    if (!carrier.connected) return true;
    if (!carrier.hasSentDone) {
      carrier.hasSentDone = true;
      this.notify(carrier, LEAVE | DONE, carrier);
    }
    return carrier.isIdle && (carrier.slot.anchor.valueOf(carrier.slot) & DONE) !== 0;
  }

  /**
   * The queue pair's own queue is drained (IBV_EVENT_SQ_DRAINED). Returns whether the event must wait until the carrier
   * has completed the requests of the queue pair.
   */
  private defersDrain(handle: number): boolean {
    const qp = this.host.tables.qp(handle);
    if (qp === undefined || qp.share === null || qp.share.carrier?.has(handle) !== true) return false;
    qp.share.isDrainDue = true;
    return true;
  }

  /** A completion event of a CQ that the application does not know. */
  event(cq: number): void {
    for (const carriage of this.carriages.values()) if (carriage.cq === cq) carriage.event();
  }

  /** An asynchronous event of a queue pair or CQ. Returns whether the application must not learn of it now. */
  asyncEvent(element: number, event: number, isFailure: boolean): boolean {
    if (event === IBV_EVENT_SQ_DRAINED && this.defersDrain(element)) return true;
    for (const carriage of this.carriages.values()) {
      const carrier = carriage.find(element);
      if (carrier === undefined && carriage.cq !== element) continue;
      if (carrier !== undefined && isFailure) {
        carriage.poll();
        this.failed(carrier, carrier.freed, IBV_WC_WR_FLUSH_ERR);
      }
      return true;
    }
    return false;
  }

  /** The context is about to be closed. */
  close(context: ShimContext): void {
    this.carriages.delete(context);
    context.carriage?.close();
    context.carriage = null;
  }
}
