/**
 * Responses to messages of the connection manager. Senders are assumed to be hostile: a message counts for an exchange only
 * if it comes from the peer's address and names the communication IDs of the exchange. The response in each state is the
 * kernel's.
 */
import {
  CMA_HEADER_BYTES,
  type CmaHeader,
  type CmMessage,
  cmaHeaderOf,
  decodeCm,
  encodeCm,
} from '../../../roce/cm-messages.ts';
import * as C from '../../../verbs/constants.ts';
import { ANY_HOST } from '../../sim/addresses.ts';
import type { CmId, FullConnParam } from '../../sim/cm/objects.ts';
import { addressOf } from '../devices.ts';
import * as X from './exchange.ts';
import type { Link } from './links.ts';

const RC = 0;
/** 4.096 us * 2^24 = 69 s: how long a client waits for a program that has its request. */
const SERVICE_TIMEOUT = 24;
const PORT_MASK = 0xffff;

/** The ID of a service: port space and port. */
interface Service {
  readonly serviceIdHi: number;
  readonly serviceIdLo: number;
}

export class CmInbound {
  private readonly exchange: X.SoftExchange;

  constructor(exchange: X.SoftExchange) {
    this.exchange = exchange;
  }

  /** A datagram arrived at queue pair 1 of `host`. Returns false if it is malformed. */
  receive(host: number, from: string, mad: Uint8Array): boolean {
    const message = decodeCm(mad);
    if (message === null) return false;
    switch (message.kind) {
      case 'REQ':
        this.onReq(host, from, message);
        break;
      case 'SIDR_REQ':
        this.onSidrReq(host, from, message);
        break;
      case 'SIDR_REP':
        this.onSidrRep(host, from, message);
        break;
      case 'REJ':
        this.onRej(host, from, message);
        break;
      case 'REP':
        this.onRep(host, from, message);
        break;
      default:
        this.onOther(host, from, message);
    }
    return true;
  }

  private onReq(host: number, from: string, m: CmMessage<'REQ'>): void {
    const { exchange } = this;
    const { links, outlet } = exchange;
    const known = links.remote(host, C.RDMA_PS_TCP, from, m.localCommId);
    if (known !== undefined) {
      // The program has not answered yet, or the answer was lost.
      if (known.id.link === 'REQ_RCVD') this.sendMra(known, X.TO_REQ);
      else if (known.id.link === 'REP_SENT' || known.id.link === 'over') exchange.sendAgain(known);
      return;
    }
    const refuse = (reason: number) => this.answerUnknown(host, from, m, X.TO_REQ, reason, m.localCommId);
    const listener = this.listenerFor(host, C.RDMA_PS_TCP, m);
    const header = cmaHeaderOf(m.privateData);
    const stale = links.withQueuePair(host, C.RDMA_PS_TCP, from, m.localQpn);
    if (m.transport !== RC) refuse(X.REJ_INVALID_TRANSPORT);
    else if (listener === undefined) refuse(X.REJ_INVALID_SERVICE_ID);
    else if (stale !== undefined && stale.id.link !== 'over') {
      refuse(X.REJ_STALE_CONN);
      // If the peer has forgotten the old connection, its answer ends it here, too.
      if (stale.id.link === 'ESTABLISHED') exchange.disconnect(stale.id);
    } else if (m.localGid !== from || m.remoteGid !== outlet.gidOf(host)) refuse(X.REJ_INVALID_GID);
    else if (m.pathMtu < C.IBV_MTU_256 || m.pathMtu > outlet.mtuCode(host)) refuse(X.REJ_INVALID_MTU);
    else if (header === null) refuse(X.REJ_CONSUMER_DEFINED);
    else if (this.hasRoom(listener, from)) {
      const id = this.newId(host, from, listener, header);
      id.remotePsn = m.startingPsn;
      const link = links.addIncoming(id, from, m.pathMtu, m.localCommId);
      links.setQueuePair(link, m.localQpn);
      link.transaction = m.transaction;
      id.remoteParam = { ...paramOf(m, CMA_HEADER_BYTES), retryCount: m.retryCount };
      this.emitRequest(id, listener, true);
    }
  }

  private onSidrReq(host: number, from: string, m: CmMessage<'SIDR_REQ'>): void {
    const { exchange } = this;
    const known = exchange.links.remote(host, C.RDMA_PS_UDP, from, m.requestId);
    if (known !== undefined) {
      if (known.id.link === 'over') exchange.sendAgain(known);
      return;
    }
    const listener = this.listenerFor(host, C.RDMA_PS_UDP, m);
    const header = cmaHeaderOf(m.privateData);
    if (listener === undefined || header === null) {
      const { requestId, transaction } = m;
      const status = listener === undefined ? X.SIDR_UNSUPPORTED : X.SIDR_REJECT;
      exchange.outlet.send(host, from, encodeCm({ kind: 'SIDR_REP', requestId, transaction, status }));
      return;
    }
    if (!this.hasRoom(listener, from)) return;
    const id = this.newId(host, from, listener, header);
    const link = exchange.links.addIncoming(id, from, exchange.outlet.mtuCode(host), m.requestId);
    link.transaction = m.transaction;
    id.remoteParam = { ...NO_PARAM, privateData: m.privateData.subarray(CMA_HEADER_BYTES) };
    this.emitRequest(id, listener, false);
  }

  private onSidrRep(host: number, from: string, m: CmMessage<'SIDR_REP'>): void {
    const link = this.exchange.links.local(host, from, m.requestId);
    if (link?.id.link !== 'REQ_SENT' || link.id.portSpace !== C.RDMA_PS_UDP) return;
    this.exchange.endRequest(link);
    const { objects } = this.exchange;
    const { status, privateData, qpn: qpNum, qkey } = m;
    if (status !== X.SIDR_ACCEPTED) {
      objects.emit(link.id, C.RDMA_CM_EVENT_UNREACHABLE, { status, privateData });
      return;
    }
    const ah = { dgid: from, sgidIndex: 0, hopLimit: 64, portNum: 1 };
    objects.emit(link.id, C.RDMA_CM_EVENT_ESTABLISHED, { privateData, ud: { ah, qpNum, qkey } });
  }

  private onRep(host: number, from: string, m: CmMessage<'REP'>): void {
    const { exchange } = this;
    const link = exchange.links.local(host, from, m.remoteCommId);
    if (link === undefined) {
      this.answerUnknown(host, from, m, X.TO_REP, X.REJ_INVALID_COMM_ID, m.localCommId, m.remoteCommId);
      return;
    }
    const { id } = link;
    if (id.portSpace !== C.RDMA_PS_TCP) return;
    if (id.link === 'REQ_SENT') {
      exchange.stop(link);
      link.remoteId = m.localCommId;
      link.transaction = m.transaction;
      exchange.links.setQueuePair(link, m.localQpn);
      id.link = 'REP_RCVD';
      id.remotePsn = m.startingPsn;
      id.remoteParam = { ...paramOf(m, 0), retryCount: id.localParam?.retryCount ?? 7 };
      const { privateData, ...conn } = id.remoteParam;
      exchange.objects.emit(id, C.RDMA_CM_EVENT_CONNECT_RESPONSE, { privateData, conn });
    } else if (link.remoteId !== m.localCommId) return;
    else if (id.link === 'REP_RCVD') this.sendMra(link, X.TO_REP);
    else if (id.link === 'ESTABLISHED' || id.link === 'over') exchange.sendAgain(link);
  }

  private onRej(host: number, from: string, m: CmMessage<'REJ'>): void {
    const { exchange } = this;
    // A client that gives up may not know the communication ID of the other end.
    const link =
      exchange.links.local(host, from, m.remoteCommId) ??
      exchange.links.remote(host, C.RDMA_PS_TCP, from, m.localCommId);
    if (link === undefined || link.id.portSpace !== C.RDMA_PS_TCP) return;
    if (link.remoteId !== 0 && m.localCommId !== link.remoteId && m.message !== X.TO_REQ) return;
    const { id } = link;
    if (id.link === 'ESTABLISHED' && m.localCommId === link.remoteId) {
      // The peer gave up before this end's confirmation (RTU) arrived there.
      exchange.enterTimewait(link);
      id.state = 'disconnected';
    } else if (['REQ_SENT', 'REQ_RCVD', 'REP_SENT', 'REP_RCVD'].includes(id.link)) exchange.endRequest(link);
    else return;
    const { reason: status, privateData } = m;
    exchange.objects.emit(id, C.RDMA_CM_EVENT_REJECTED, { status, privateData });
  }

  /** Messages that name both communication IDs of an exchange. */
  private onOther(host: number, from: string, m: CmMessage<'MRA' | 'RTU' | 'DREQ' | 'DREP'>): void {
    const { exchange } = this;
    const link = exchange.links.local(host, from, m.remoteCommId);
    if (link !== undefined && link.remoteId === 0 && m.kind === 'MRA') link.remoteId = m.localCommId;
    if (link === undefined || link.remoteId !== m.localCommId) {
      if (m.kind === 'DREQ') this.answerDreq(host, from, m);
      return;
    }
    const { id } = link;
    if (m.kind === 'RTU') exchange.established(id);
    else if (m.kind === 'MRA') this.onMra(link, m);
    else if (m.kind === 'DREQ') this.onDreq(link, m);
    else if (link.release !== null) exchange.forget(link);
    else if (id.link === 'DREQ_SENT' || id.link === 'DREQ_RCVD') {
      exchange.enterTimewait(link);
      exchange.disconnected(id);
    }
  }

  /** The peer requires more time. */
  private onMra(link: Link, { message, serviceTimeout }: CmMessage<'MRA'>): void {
    const waits =
      (message === X.TO_REQ && link.id.link === 'REQ_SENT') ||
      (message === X.TO_REP && link.id.link === 'REP_SENT');
    if (!waits || link.extended) return;
    link.extended = true;
    this.exchange.expectAnswer(link, 4096 * 2 ** Math.min(serviceTimeout, SERVICE_TIMEOUT));
  }

  private onDreq(link: Link, m: CmMessage<'DREQ'>): void {
    const { exchange } = this;
    const { id } = link;
    if (id.localParam === null || m.remoteQpn !== id.localParam.qpNum) return;
    link.transaction = m.transaction;
    // Only a connected peer disconnects, so its confirmation (RTU) was lost if this end still awaits it.
    exchange.established(id);
    if (link.release !== null) {
      exchange.send(link, { kind: 'DREP', ...exchange.idsOf(link) });
      exchange.forget(link);
    } else if (id.link === 'TIMEWAIT' || id.link === 'over') {
      exchange.send(link, { kind: 'DREP', ...exchange.idsOf(link) });
    } else if (id.link === 'ESTABLISHED' || id.link === 'DREQ_SENT') {
      exchange.stop(link);
      id.link = 'DREQ_RCVD';
      exchange.disconnected(id);
    }
  }

  /** Answers for a connection that this end has forgotten, so that the peer does not wait. */
  private answerDreq(host: number, from: string, m: CmMessage<'DREQ'>): void {
    const { transaction, remoteCommId: localCommId, localCommId: remoteCommId } = m;
    this.exchange.outlet.send(host, from, encodeCm({ kind: 'DREP', transaction, localCommId, remoteCommId }));
  }

  private answerUnknown(
    host: number,
    from: string,
    { transaction }: CmMessage,
    message: number,
    reason: number,
    remoteCommId: number,
    localCommId = 0,
  ): void {
    const fields = { transaction, message, reason, localCommId, remoteCommId };
    this.exchange.outlet.send(host, from, encodeCm({ kind: 'REJ', ...fields }));
  }

  private sendMra(link: Link, message: number): void {
    const { exchange } = this;
    const mra = { kind: 'MRA', ...exchange.idsOf(link), message, serviceTimeout: SERVICE_TIMEOUT } as const;
    exchange.outlet.send(link.id.host, link.remoteGid, encodeCm(mra));
  }

  private listenerFor(host: number, portSpace: number, service: Service): CmId | undefined {
    const { serviceIdHi, serviceIdLo } = service;
    const port = serviceIdLo & PORT_MASK;
    if (serviceIdHi !== 0 || serviceIdLo >>> 16 !== portSpace) return undefined;
    const bound = this.exchange.objects.boundTo(portSpace, port);
    const open = bound.filter((other) => other.state === 'listening');
    return open.find((l) => l.host === host) ?? open.find((l) => l.host === ANY_HOST);
  }

  private hasRoom(listener: CmId, from: string): boolean {
    const { pending } = listener.channel;
    const undelivered = pending.filter((event) => event.listenId === listener.handle).length;
    return undelivered < listener.backlog && this.exchange.links.hasRoomFor(from);
  }

  private newId(host: number, from: string, listener: CmId, { port }: CmaHeader): CmId {
    const { objects, outlet } = this.exchange;
    const id = objects.addId(listener.channel, listener.portSpace);
    id.state = 'connecting or connected';
    id.link = 'REQ_RCVD';
    id.incoming = true;
    id.unclaimed = true;
    id.host = host;
    id.port = listener.port;
    id.remoteAddress = addressOf(from);
    id.remotePort = port;
    outlet.hold(id, host);
    return id;
  }

  private emitRequest(id: CmId, listener: CmId, withParam: boolean): void {
    const { privateData, ...conn } = id.remoteParam as FullConnParam;
    this.exchange.objects.emit(id, C.RDMA_CM_EVENT_CONNECT_REQUEST, {
      listenId: listener.handle,
      privateData,
      ...(withParam && { conn }),
    });
  }
}

const NO_PARAM: FullConnParam = {
  privateData: new Uint8Array(0),
  responderResources: 0,
  initiatorDepth: 0,
  flowControl: 0,
  retryCount: 0,
  rnrRetryCount: 0,
  srq: false,
  qpNum: 0,
};

/** The peer's parameters without its retry count. What one end initiates, the other serves. */
function paramOf(m: CmMessage<'REQ' | 'REP'>, skip: number): Omit<FullConnParam, 'retryCount'> {
  return {
    privateData: m.privateData.subarray(skip),
    responderResources: m.initiatorDepth,
    initiatorDepth: m.responderResources,
    flowControl: m.flowControl,
    rnrRetryCount: m.rnrRetryCount,
    srq: m.srq === 1,
    qpNum: m.localQpn,
  };
}
