/**
 * The exchange of messages with the peers of identifiers (InfiniBand Architecture Specification, volume 1, 12.9): REQ, REP,
 * RTU; MRA; REJ; DREQ, DREP; SIDR for datagrams. It has no clock and no socket, and uses those of CmOutlet. inbound.ts
 * responds to messages.
 */
import { type CmDraft, type CmKind, encodeCm, withCmaHeader } from '../../../roce/cm-messages.ts';
import * as C from '../../../verbs/constants.ts';
import { gidToBytes } from '../../../verbs/gid.ts';
import type { CmExchange } from '../../sim/cm/manager.ts';
import type { CmId, CmObjects, FullConnParam } from '../../sim/cm/objects.ts';
import { LIMITS } from '../../sim/limits.ts';
import { type Link, Links } from './links.ts';

/** What the exchange requires of its environment. */
export interface CmOutlet {
  /** Sends a datagram from queue pair 1 of a host; it may be lost. */
  send(host: number, remoteGid: string, mad: Uint8Array): void;
  /** Calls `action` after a delay, never within this call. */
  after(delayNs: number, action: () => void): void;
  /** 32 random bits, unsigned. */
  random(): number;
  /** The GID of a host, as text. */
  gidOf(host: number): string;
  /** Code of the largest path MTU of a host. */
  mtuCode(host: number): number;
  /** Keeps a host receiving for an identifier that a request has created. */
  hold(id: CmId, host: number): void;
  /** Keeps a host receiving, and the process alive, until the returned function is called. */
  linger(host: number): () => void;
}

/** Reasons of a REJ. */
export const REJ_TIMEOUT = 4;
export const REJ_INVALID_COMM_ID = 6;
export const REJ_INVALID_SERVICE_ID = 8;
export const REJ_INVALID_TRANSPORT = 9;
export const REJ_STALE_CONN = 10;
export const REJ_INVALID_GID = 12;
export const REJ_INVALID_MTU = 26;
export const REJ_CONSUMER_DEFINED = 28;
/** What a REJ or MRA answers. */
export const TO_REQ = 0;
export const TO_REP = 1;
export const TO_OTHER = 2;
/** Status of a SIDR_REP. */
export const SIDR_ACCEPTED = 0;
export const SIDR_UNSUPPORTED = 1;
export const SIDR_REJECT = 2;

export const DEFAULT_PKEY = 0xffff;
/** The LID that stands for "none", because RoCE has no LIDs. */
const NO_LID = 0xffff;
const HOP_LIMIT = 64;
/** 4.096 us * 2^18 = 1.07 s: the response timeout that this end grants the peer, and announces for itself. */
const RESPONSE_TIMEOUT = 18;
/** 4.096 us * 2^14 = 67 ms: the acknowledgement timeout of connections. */
const ACK_TIMEOUT = 14;
/**
 * How often an unanswered message is sent again: after 100 ms, and then each time after twice as long, at most 1 s. That
 * takes less than the 10 s that connect() waits.
 */
const RETRIES = 10;
/**
 * The same for the message that a destroyed identifier leaves behind: it is sent for the last time after 1.5 s, because a
 * peer that has ended does not answer, and the device stays open meanwhile.
 */
const LINGER_RETRIES = 4;
/** How often the peer may send its answer again. */
const PEER_RETRIES = 15;
const FIRST_RETRY_NS = 100e6;
const LAST_RETRY_NS = 1e9;
/** How long an ended connection stays known. */
const TIMEWAIT_NS = 250e6;
/** The RDMA CM annex (A11) numbers services by port space and port. */
const PORT_BITS = 16;

/** The GUID of a device in messages, derived from its address, because two hosts must not have the same GUID. */
export function guidOf(gid: string): { guidHi: number; guidLo: number } {
  const bytes = gidToBytes(gid);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return {
    guidHi: (view.getUint32(0) ^ view.getUint32(8)) >>> 0,
    guidLo: (view.getUint32(4) ^ view.getUint32(12)) >>> 0,
  };
}

/** The GID of an address as text. */
export function gidOfAddress(address: string): string {
  return address.includes(':') ? address : `::ffff:${address}`;
}

/** A count within the limit of the device. RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH request that limit. */
const granted = (count: number): number => Math.min(count, LIMITS.maxQpRdAtom);

export class SoftExchange implements CmExchange {
  readonly links: Links;
  readonly objects: CmObjects;
  readonly outlet: CmOutlet;

  constructor(objects: CmObjects, outlet: CmOutlet) {
    this.objects = objects;
    this.outlet = outlet;
    this.links = new Links(() => outlet.random());
  }

  later(id: CmId, _messages: number, action: () => void): void {
    this.outlet.after(0, () => {
      if (id.alive) action();
    });
  }

  /** Code of the path MTU of an identifier. */
  mtuCodeOf(id: CmId): number {
    return this.links.of(id)?.mtuCode ?? this.outlet.mtuCode(id.host);
  }

  connect(id: CmId, param: FullConnParam): void {
    const { outlet } = this;
    const gid = outlet.gidOf(id.host);
    const remoteGid = gidOfAddress(id.remoteAddress ?? '');
    const link = this.links.add(id, remoteGid, outlet.mtuCode(id.host));
    id.state = 'connecting or connected';
    id.link = 'REQ_SENT';
    id.localParam = limited(param);
    const service = { serviceIdHi: 0, serviceIdLo: id.portSpace * 2 ** PORT_BITS + id.remotePort };
    const privateData = withCmaHeader({ port: id.port, source: gid, dest: remoteGid }, param.privateData);
    if (id.portSpace === C.RDMA_PS_UDP) {
      const request = { requestId: link.localId, pkey: DEFAULT_PKEY, ...service, privateData };
      this.send(link, { kind: 'SIDR_REQ', ...request });
    } else this.send(link, { kind: 'REQ', ...service, privateData, ...requestOf(link, gid, id.localParam) });
    this.expectAnswer(link);
  }

  accept(id: CmId, param: FullConnParam): void {
    const link = this.links.of(id);
    if (link === undefined) return;
    const { privateData, qpNum } = param;
    id.localParam = limited(param);
    if (id.portSpace === C.RDMA_PS_UDP) {
      this.endRequest(link);
      const address = { status: SIDR_ACCEPTED, qpn: qpNum, qkey: C.RDMA_UDP_QKEY };
      this.send(link, { kind: 'SIDR_REP', requestId: link.remoteId, ...address, privateData });
      return;
    }
    id.link = 'REP_SENT';
    const { responderResources, initiatorDepth, rnrRetryCount } = id.localParam;
    this.send(link, {
      kind: 'REP',
      ...this.idsOf(link),
      ...{ localQpn: qpNum, startingPsn: id.psn, responderResources, initiatorDepth, rnrRetryCount },
      ...{ flowControl: param.flowControl & 1, srq: Number(param.srq), privateData },
      ...guidOf(this.outlet.gidOf(id.host)),
    });
    this.expectAnswer(link);
  }

  establish(id: CmId): void {
    const link = this.links.of(id);
    id.link = 'ESTABLISHED';
    if (link !== undefined) this.send(link, { kind: 'RTU', ...this.idsOf(link) });
  }

  established(id: CmId): void {
    if (id.link !== 'REP_SENT') return;
    id.link = 'ESTABLISHED';
    const link = this.links.of(id);
    if (link !== undefined) {
      this.links.settle(link);
      this.stop(link);
    }
    this.objects.emit(id, C.RDMA_CM_EVENT_ESTABLISHED);
  }

  reject(id: CmId, data: Uint8Array): void {
    const link = this.links.of(id);
    if (link !== undefined) this.refuse(link, REJ_CONSUMER_DEFINED, data);
  }

  disconnect(id: CmId): void {
    const link = this.links.of(id);
    if (link === undefined) return;
    if (id.link === 'ESTABLISHED') {
      id.link = 'DREQ_SENT';
      this.sendDreq(link);
      this.expectAnswer(link);
    } else if (id.link === 'DREQ_RCVD') {
      this.send(link, { kind: 'DREP', ...this.idsOf(link) });
      this.enterTimewait(link);
    }
  }

  /** Sends the peer one message, as the kernel does, and repeats only the one that ends a connection. */
  abandon(id: CmId): void {
    const link = this.links.of(id);
    const { link: state } = id;
    id.link = 'over';
    if (link === undefined) return;
    if (state === 'ESTABLISHED' || state === 'DREQ_SENT') {
      this.linger(link, state);
      return;
    }
    if (state === 'REQ_RCVD' || state === 'REP_SENT' || state === 'REP_RCVD') {
      id.link = state;
      this.refuse(link, REJ_CONSUMER_DEFINED, new Uint8Array(0));
    } else if (state === 'REQ_SENT' && id.portSpace === C.RDMA_PS_TCP) this.sendTimeout(link, TO_REQ);
    else if (state === 'DREQ_RCVD') this.send(link, { kind: 'DREP', ...this.idsOf(link) });
    this.links.remove(link);
  }

  /** Repeats the message that ends a connection until the peer answers, although the identifier is gone. */
  private linger(link: Link, state: 'ESTABLISHED' | 'DREQ_SENT'): void {
    link.id.link = 'DREQ_SENT';
    link.release = this.outlet.linger(link.id.host);
    if (state === 'DREQ_SENT') return;
    this.sendDreq(link);
    this.expectAnswer(link);
  }

  /** The peer of a destroyed identifier has answered, or has had time to. */
  forget(link: Link): void {
    this.stop(link);
    this.links.remove(link);
    link.release?.();
    link.release = null;
  }

  /** Both communication IDs of an exchange, and its transaction ID. */
  idsOf({ localId, remoteId, transaction }: Link) {
    return { localCommId: localId, remoteCommId: remoteId, transaction };
  }

  /** Sends a message to the peer, and keeps it for repetitions. */
  send<K extends CmKind>(link: Link, message: CmDraft<K>): void {
    link.last = encodeCm({ transaction: link.transaction, ...message });
    link.extended = false;
    this.sendAgain(link);
  }

  sendAgain({ id, remoteGid, last }: Link): void {
    if (last !== null) this.outlet.send(id.host, remoteGid, last);
  }

  /** Repeats the last message until stop(), for the first time after `delayNs`, which the peer may have set. */
  expectAnswer(link: Link, delayNs = FIRST_RETRY_NS): void {
    link.tries = 0;
    this.startTimer(link, delayNs);
  }

  stop(link: Link): void {
    link.timer++;
  }

  private startTimer(link: Link, delayNs: number): void {
    const timer = ++link.timer;
    this.outlet.after(delayNs, () => {
      if (link.timer !== timer) return;
      if (link.release !== null) this.onLingerTimeout(link);
      else if (link.id.alive) this.onTimeout(link);
    });
  }

  private onTimeout(link: Link): void {
    const { id } = link;
    if (id.link === 'TIMEWAIT') {
      id.link = 'over';
      this.objects.emit(id, C.RDMA_CM_EVENT_TIMEWAIT_EXIT);
    } else if (link.tries < RETRIES) this.retry(link);
    else this.giveUp(link);
  }

  private onLingerTimeout(link: Link): void {
    if (link.tries < LINGER_RETRIES) this.retry(link);
    if (link.tries >= LINGER_RETRIES) this.forget(link);
  }

  private retry(link: Link): void {
    link.tries++;
    this.sendAgain(link);
    this.startTimer(link, Math.min(FIRST_RETRY_NS * 2 ** link.tries, LAST_RETRY_NS));
  }

  private giveUp(link: Link): void {
    const { id } = link;
    const status = -C.ETIMEDOUT;
    if (id.link === 'DREQ_SENT') {
      this.enterTimewait(link);
      this.disconnected(id, status);
      return;
    }
    if (id.portSpace === C.RDMA_PS_TCP) this.sendTimeout(link, id.link === 'REQ_SENT' ? TO_REQ : TO_REP);
    this.endRequest(link);
    this.objects.emit(id, C.RDMA_CM_EVENT_UNREACHABLE, { status });
  }

  /** Notifies the peer that its answer has not arrived. */
  private sendTimeout(link: Link, message: number): void {
    const { guidHi: infoHi, guidLo: infoLo } = guidOf(this.outlet.gidOf(link.id.host));
    const info = { infoBytes: 8, infoHi, infoLo };
    this.send(link, { kind: 'REJ', ...this.idsOf(link), message, reason: REJ_TIMEOUT, ...info });
  }

  private refuse(link: Link, reason: number, privateData: Uint8Array): void {
    const { id } = link;
    const message = id.link === 'REQ_RCVD' ? TO_REQ : id.link === 'REP_RCVD' ? TO_REP : TO_OTHER;
    this.endRequest(link);
    if (id.portSpace === C.RDMA_PS_UDP) {
      this.send(link, { kind: 'SIDR_REP', requestId: link.remoteId, status: SIDR_REJECT, privateData });
    } else this.send(link, { kind: 'REJ', ...this.idsOf(link), message, reason, privateData });
  }

  /** Ends a request: there will be no connection, or none is needed. */
  endRequest(link: Link): void {
    link.id.link = 'over';
    this.links.settle(link);
    this.stop(link);
  }

  sendDreq(link: Link): void {
    this.send(link, { kind: 'DREQ', ...this.idsOf(link), remoteQpn: link.remoteQpn });
  }

  disconnected(id: CmId, status = 0): void {
    if (id.state === 'disconnected') return;
    id.state = 'disconnected';
    this.objects.emit(id, C.RDMA_CM_EVENT_DISCONNECTED, { status });
  }

  enterTimewait(link: Link): void {
    link.id.link = 'TIMEWAIT';
    this.startTimer(link, TIMEWAIT_NS);
  }
}

function limited(param: FullConnParam): FullConnParam {
  const { responderResources, initiatorDepth } = param;
  return {
    ...param,
    responderResources: granted(responderResources),
    initiatorDepth: granted(initiatorDepth),
  };
}

/** The fields of a REQ besides service and private data. */
function requestOf(link: Link, gid: string, param: FullConnParam) {
  return {
    localCommId: link.localId,
    ...guidOf(gid),
    localQpn: param.qpNum,
    responderResources: param.responderResources,
    initiatorDepth: param.initiatorDepth,
    remoteResponseTimeout: RESPONSE_TIMEOUT,
    localResponseTimeout: RESPONSE_TIMEOUT,
    flowControl: param.flowControl & 1,
    startingPsn: link.id.psn,
    retryCount: param.retryCount,
    rnrRetryCount: param.rnrRetryCount,
    pkey: DEFAULT_PKEY,
    pathMtu: link.mtuCode,
    maxRetries: PEER_RETRIES,
    srq: Number(param.srq),
    localLid: NO_LID,
    remoteLid: NO_LID,
    localGid: gid,
    remoteGid: link.remoteGid,
    hopLimit: HOP_LIMIT,
    ackTimeout: ACK_TIMEOUT,
  };
}
