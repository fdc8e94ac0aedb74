/**
 * The exchange between two identifiers: REQ, REP, RTU; REJ; DREQ, DREP; SIDR for datagrams. Each message is
 * an event of virtual time. The reaction in each state is that of the IB CM in the Linux kernel.
 */
import * as C from '../../../verbs/constants.ts';
import type { AhAttr } from '../../../verbs/types.ts';
import { ANY_HOST, gidOf } from '../addresses.ts';
import type { TimePump } from '../time-pump.ts';
import type { CmExchange } from './manager.ts';
import type { CmId, CmObjects, FullConnParam } from './objects.ts';
import { limitsOf, mirrored, padded } from './private-data.ts';

/** Reasons of a REJ (ib_cm_rej_reason). */
const REJ_TIMEOUT = 4;
const REJ_INVALID_SERVICE_ID = 8;
const REJ_CONSUMER_DEFINED = 28;
/** Status of a SIDR reply (ib_cm_sidr_status). */
const SIDR_UNSUPPORTED = 1;
const SIDR_REJECT = 2;

/** Retries of a REQ that a full backlog dropped. */
const RETRIES = 15;
/** Durations in message delays: before a REQ is sent again, and spent in TIMEWAIT. */
const RETRY_MESSAGES = 8;
const TIMEWAIT_MESSAGES = 4;

export function ahTo(host: number): AhAttr {
  return { dgid: gidOf(host), sgidIndex: 1, hopLimit: 64, portNum: 1 };
}

export class CmProtocol implements CmExchange {
  private readonly pump: TimePump;
  private readonly objects: CmObjects;
  private readonly delayNs: number;

  constructor(pump: TimePump, objects: CmObjects) {
    this.pump = pump;
    this.objects = objects;
    this.delayNs = pump.sim.world.params.rendezvousNs;
  }

  /** Calls `action` after this many message delays, if the identifier still exists. */
  later(id: CmId, messages: number, action: () => void): void {
    this.pump.after(messages * this.delayNs, () => {
      if (id.alive) action();
    });
  }

  reachable(host: number): boolean {
    if (host === ANY_HOST) return true;
    const { dead, linkUp } = this.pump.sim.world.hosts[host];
    return !dead && linkUp;
  }

  connect(id: CmId, param: FullConnParam): void {
    id.state = 'connecting or connected';
    id.link = 'REQ_SENT';
    id.localParam = param;
    this.sendRequest(id, RETRIES);
  }

  accept(id: CmId, param: FullConnParam): void {
    id.localParam = param;
    const data = padded(param.privateData, limitsOf(id).reply);
    if (id.portSpace === C.RDMA_PS_UDP) {
      id.link = 'over';
      const ud = { ah: ahTo(id.host), qpNum: param.qpNum, qkey: C.RDMA_UDP_QKEY };
      this.sendToPeer(id, (peer) => {
        if (peer.link !== 'REQ_SENT') return;
        peer.link = 'over';
        this.objects.emit(peer, C.RDMA_CM_EVENT_ESTABLISHED, { privateData: data, ud });
      });
      return;
    }
    id.link = 'REP_SENT';
    this.sendToPeer(id, (peer) => {
      if (peer.link !== 'REQ_SENT') return;
      peer.link = 'REP_RCVD';
      peer.remotePsn = id.psn;
      peer.remoteParam = mirrored(param, data.length);
      const { privateData, ...conn } = peer.remoteParam;
      this.objects.emit(peer, C.RDMA_CM_EVENT_CONNECT_RESPONSE, { privateData, conn });
    });
  }

  /** Sends an RTU: both sides are ready. */
  establish(id: CmId): void {
    id.link = 'ESTABLISHED';
    this.sendToPeer(id, (peer) => this.established(peer));
  }

  /** The connection is established by an RTU, or by data that arrived first (rdma_notify). */
  established(id: CmId): void {
    if (id.link !== 'REP_SENT') return;
    id.link = 'ESTABLISHED';
    this.objects.emit(id, C.RDMA_CM_EVENT_ESTABLISHED);
  }

  reject(id: CmId, data: Uint8Array): void {
    id.link = 'over';
    this.sendReject(id, REJ_CONSUMER_DEFINED, SIDR_REJECT, data);
  }

  /** Sends a DREQ, or the reply to the peer's. In any other state it does nothing, like librdmacm. */
  disconnect(id: CmId): void {
    if (id.link === 'ESTABLISHED') {
      id.link = 'DREQ_SENT';
      this.sendToPeer(
        id,
        (peer) => this.onDreq(peer),
        () => this.onDrep(id),
      );
    } else if (id.link === 'DREQ_RCVD') {
      this.sendToPeer(id, (peer) => this.onDrep(peer));
      this.enterTimewait(id);
    }
  }

  /** Notifies the peer of an identifier that is destroyed. */
  abandon(id: CmId): void {
    const { link } = id;
    id.link = 'over';
    if (link === 'REQ_RCVD' || link === 'REP_SENT' || link === 'REP_RCVD') {
      this.sendReject(id, REJ_CONSUMER_DEFINED, SIDR_REJECT, new Uint8Array(0));
    } else if (link === 'REQ_SENT' && id.portSpace === C.RDMA_PS_TCP) {
      this.sendReject(id, REJ_TIMEOUT, 0, new Uint8Array(0));
    } else if (link === 'ESTABLISHED') {
      this.sendToPeer(id, (peer) => this.onDreq(peer));
    } else if (link === 'DREQ_RCVD') {
      this.sendToPeer(id, (peer) => this.onDrep(peer));
    }
  }

  /** Notifies the peers of a host that died. */
  hostDied(host: number): void {
    for (const id of [...this.objects.ids.values()]) {
      if (id.remoteHost !== host || id.host === host) continue;
      this.later(id, 1, () => this.peerUnreachable(id));
    }
  }

  private peerUnreachable(id: CmId): void {
    const { link } = id;
    const status = -C.ETIMEDOUT;
    const waiting = link === 'REQ_SENT' || link === 'REP_SENT';
    const live = link === 'REP_RCVD' || link === 'ESTABLISHED' || link === 'DREQ_SENT';
    if (!waiting && !live) return;
    id.link = 'over';
    if (live) id.state = 'disconnected';
    const event = waiting ? C.RDMA_CM_EVENT_UNREACHABLE : C.RDMA_CM_EVENT_DISCONNECTED;
    this.objects.emit(id, event, { status });
  }

  private sendRequest(id: CmId, retries: number): void {
    this.pump.after(this.delayNs, () => {
      if (id.link !== 'REQ_SENT') return;
      if (!this.reachable(id.remoteHost) || !this.reachable(id.host)) {
        this.later(id, 1, () => this.peerUnreachable(id));
        return;
      }
      const listener = this.listenerFor(id);
      if (listener === undefined) this.refuse(id);
      else if (undeliveredRequests(listener) < listener.backlog) this.onRequest(id, listener);
      else if (retries > 0) this.later(id, RETRY_MESSAGES, () => this.sendRequest(id, retries - 1));
      else this.peerUnreachable(id);
    });
  }

  /** No identifier listens on that port. */
  private refuse(id: CmId): void {
    this.later(id, 1, () => this.onReject(id, REJ_INVALID_SERVICE_ID, SIDR_UNSUPPORTED, new Uint8Array(0)));
  }

  private onRequest(caller: CmId, listener: CmId): void {
    const id = this.objects.addId(listener.channel, listener.portSpace);
    id.state = 'connecting or connected';
    id.link = 'REQ_RCVD';
    id.incoming = true;
    id.unclaimed = true;
    id.host = caller.remoteHost;
    id.port = listener.port;
    id.remoteHost = caller.host;
    id.remotePort = caller.port;
    id.peer = caller;
    caller.peer = id;
    id.remotePsn = caller.psn;
    id.remoteParam = mirrored(caller.localParam as FullConnParam, limitsOf(id).request);
    const { privateData, ...conn } = id.remoteParam;
    const tcp = id.portSpace === C.RDMA_PS_TCP ? { conn } : {};
    this.objects.emit(id, C.RDMA_CM_EVENT_CONNECT_REQUEST, {
      listenId: listener.handle,
      privateData,
      ...tcp,
    });
  }

  private sendReject(id: CmId, reason: number, sidr: number, data: Uint8Array): void {
    this.sendToPeer(id, (peer) => this.onReject(peer, reason, sidr, data));
  }

  private onReject(id: CmId, reason: number, sidr: number, data: Uint8Array): void {
    if (!['REQ_SENT', 'REQ_RCVD', 'REP_SENT', 'REP_RCVD'].includes(id.link)) return;
    id.link = 'over';
    const udp = id.portSpace === C.RDMA_PS_UDP;
    // A SIDR rejection is reported as an unreachable peer.
    this.objects.emit(id, udp ? C.RDMA_CM_EVENT_UNREACHABLE : C.RDMA_CM_EVENT_REJECTED, {
      status: udp ? sidr : reason,
      privateData: padded(data, limitsOf(id).reject),
    });
  }

  private onDreq(id: CmId): void {
    if (id.link === 'TIMEWAIT' || id.link === 'over') {
      this.sendToPeer(id, (peer) => this.onDrep(peer));
    } else if (id.link === 'ESTABLISHED' || id.link === 'REP_SENT' || id.link === 'DREQ_SENT') {
      id.link = 'DREQ_RCVD';
      this.disconnected(id);
    }
  }

  private onDrep(id: CmId): void {
    if (id.link !== 'DREQ_SENT' && id.link !== 'DREQ_RCVD') return;
    this.enterTimewait(id);
    this.disconnected(id);
  }

  private disconnected(id: CmId): void {
    if (id.state === 'disconnected') return;
    id.state = 'disconnected';
    this.objects.emit(id, C.RDMA_CM_EVENT_DISCONNECTED);
  }

  private enterTimewait(id: CmId): void {
    id.link = 'TIMEWAIT';
    this.later(id, TIMEWAIT_MESSAGES, () => {
      id.link = 'over';
      this.objects.emit(id, C.RDMA_CM_EVENT_TIMEWAIT_EXIT);
    });
  }

  /** Sends a message to the peer. `gone` runs when the peer's identifier was destroyed. */
  private sendToPeer(id: CmId, action: (peer: CmId) => void, gone: () => void = () => {}): void {
    this.pump.after(this.delayNs, () => {
      const { peer } = id;
      if (peer === null) return;
      if (!this.reachable(id.host) || !this.reachable(peer.host)) {
        // Messages that expect a reply time out; others are lost silently.
        if (id.link === 'REP_SENT' || id.link === 'DREQ_SENT')
          this.later(id, 1, () => this.peerUnreachable(id));
      } else if (peer.alive) action(peer);
      else this.later(id, 1, gone);
    });
  }

  private listenerFor(id: CmId): CmId | undefined {
    const bound = this.objects.boundTo(id.portSpace, id.remotePort);
    const open = bound.filter((other) => other.state === 'listening');
    return open.find((l) => l.host === id.remoteHost) ?? open.find((l) => l.host === ANY_HOST);
  }
}

function undeliveredRequests(listener: CmId): number {
  return listener.channel.pending.filter((event) => event.listenId === listener.handle).length;
}
