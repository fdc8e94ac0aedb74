/**
 * The simulation as its users drive it: objects, posts, polls, time and faults. One event at a time is
 * taken from the queue and given to the part that it belongs to; ports that got work then run their round.
 */
import * as C from '../verbs/constants.ts';
import { NoResourcesError } from '../verbs/errors.ts';
import { mtuBytes } from '../verbs/names.ts';
import type { QpAttr, QpCap } from '../verbs/provider.ts';
import { Cq } from './cq.ts';
import { beginDrain } from './drain.ts';
import type { EgressPort } from './egress.ts';
import { failQp, flush, flushSends } from './failure.ts';
import * as K from './kinds.ts';
import { countsUp, onPeriod } from './moderation.ts';
import { Network, type NetworkHooks } from './network.ts';
import { countPacket, joinPort, onPace, Pace, setPace } from './pace.ts';
import { PKT_DATAGRAM, PKT_RESPONSE } from './packets.ts';
import { MINIMAL_NIC, type NicParams } from './params.ts';
import { DEADLINE, Qp, ROLE_REQUEST, TIMEOUT } from './qp.ts';
import {
  nextRequest,
  nextRequestBytes,
  onAck,
  onResponse,
  onStep,
  onTimeout,
  startTimer,
  timerIsDue,
  tryStart,
} from './requester.ts';
import { nextResponse, nextResponseBytes, onRequest, onResponseStep, responseSent } from './responder.ts';
import { Srq, type SrqOptions } from './srq.ts';
import { onDatagram, requestSent } from './unreliable.ts';
import { failWaiters, wakeWaiters } from './wait.ts';

export interface SimulationOptions {
  hosts?: number;
  params?: Readonly<NicParams>;
  seed?: number;
  /** Probability of loss of each packet, on every link. */
  loss?: number;
  /** Whether payload bytes are moved. Default true; timing is the same. */
  payload?: boolean;
}

export interface QpRequest {
  host: number;
  /** XRC_RECV: 0, as there is none. */
  pd: number;
  cap: QpCap;
  /** XRC_RECV has neither. */
  sendCq?: Cq;
  recvCq?: Cq;
  /** IBV_QPT_*; default RC. */
  type?: number;
  srq?: Srq | null;
  xrcd?: number;
  sqSigAll?: boolean;
  managed?: boolean;
}

const NO_HOOKS: NetworkHooks = {
  completionEvent() {},
  call() {},
  raised() {},
  actor() {},
  cqOf: () => undefined,
  qpOf: () => undefined,
  ahOf: () => undefined,
  windowOf: () => undefined,
  regionOf: () => undefined,
};

const LAST_QPN = 0xffffff;

export class Simulation {
  readonly net: Network;
  /** Where queue pairs complete that never do. */
  private readonly noCq = new Cq(0, 0, 1);

  constructor(options: SimulationOptions = {}) {
    const { hosts = 2, params = MINIMAL_NIC, seed = 1, loss = 0, payload = true } = options;
    this.net = new Network(params, hosts, seed, payload, { ...NO_HOOKS });
    for (const host of this.net.hosts) this.net.setLoss(host, loss);
  }

  get nowNs(): number {
    return this.net.clock[0];
  }

  createCq(host: number, cqe: number, stamped = false): Cq {
    const cq = new Cq(this.net.cqs.length, host, cqe, stamped);
    this.net.cqs.push(cq);
    return cq;
  }

  destroyCq(cq: Cq): void {
    this.net.cqs[cq.id] = undefined;
    failWaiters(this.net, cq);
  }

  createQp(request: QpRequest): Qp {
    const qpn = this.net.qps.length;
    if (qpn > LAST_QPN)
      throw new NoResourcesError('createQp: all 2^24 queue pair numbers of this network were used');
    const { sqSigAll = false, managed = false, type = C.IBV_QPT_RC, srq = null, xrcd = 0 } = request;
    const { sendCq = this.noCq, recvCq = this.noCq } = request;
    const qp = new Qp({ ...request, qpn, sqSigAll, managed, type, srq, xrcd, sendCq, recvCq });
    // A datagram is one packet, of the port's size.
    if (type === C.IBV_QPT_UD) qp.mtu = this.net.params.mtuBytes;
    this.net.qps.push(qp);
    qp.sendCq.qps.add(qp);
    qp.recvCq.qps.add(qp);
    return qp;
  }

  createSrq(request: Omit<SrqOptions, 'number'>): Srq {
    const srq = new Srq({ ...request, number: this.net.srqs.length });
    this.net.srqs.push(srq);
    return srq;
  }

  destroySrq(srq: Srq): void {
    this.net.srqs[srq.number] = undefined;
  }

  destroyQp(qp: Qp): void {
    qp.reset();
    qp.state = C.IBV_QPS_RESET;
    this.net.qps[qp.qpn] = undefined;
    for (const cq of [qp.sendCq, qp.recvCq]) {
      cq.purge(qp.qpn);
      cq.qps.delete(qp);
    }
  }

  /** Applies a modify that was checked against the state table. `peerHost` is where attr.ah leads, -1 nowhere. */
  modifyQp(qp: Qp, attr: QpAttr, mask: number, to: number, peerHost: number): void {
    const from = qp.state;
    if (to === C.IBV_QPS_RESET) {
      qp.reset();
      qp.sendCq.purge(qp.qpn);
      qp.recvCq.purge(qp.qpn);
      qp.state = to;
      return;
    }
    Object.assign(qp.attr, attr);
    if ((mask & C.IBV_QP_AV) !== 0) qp.peerHost = peerHost;
    if ((mask & C.IBV_QP_DEST_QPN) !== 0) qp.peer = attr.destQpNum ?? 0;
    if ((mask & C.IBV_QP_PATH_MTU) !== 0) qp.mtu = mtuBytes(attr.pathMtu ?? C.IBV_MTU_1024);
    if ((mask & C.IBV_QP_RQ_PSN) !== 0) qp.ePsn = qp.rqBasePsn = (attr.rqPsn ?? 0) & 0xffffff;
    if ((mask & C.IBV_QP_SQ_PSN) !== 0) qp.sndPsn = qp.unaPsn = qp.sqBasePsn = (attr.sqPsn ?? 0) & 0xffffff;
    if ((mask & C.IBV_QP_MAX_DEST_RD_ATOMIC) !== 0) qp.setResponderResources(attr.maxDestRdAtomic ?? 0);
    if ((mask & C.IBV_QP_TIMEOUT) !== 0) {
      const timeout = attr.timeout ?? 0;
      // 0 stands for never.
      qp.times[TIMEOUT] = timeout === 0 ? Number.POSITIVE_INFINITY : 4096 * 2 ** timeout;
    }
    if ((mask & C.IBV_QP_RETRY_CNT) !== 0) qp.retriesLeft = attr.retryCnt ?? 0;
    if ((mask & C.IBV_QP_RNR_RETRY) !== 0) qp.rnrRetriesLeft = attr.rnrRetry ?? 0;
    if ((mask & C.IBV_QP_RATE_LIMIT) !== 0) this.setRate(qp, attr.rateLimitKbps ?? 0, 0);
    if (to === C.IBV_QPS_ERR) {
      failQp(this.net, qp);
      qp.state = to;
      return;
    }
    qp.state = to;
    if (to === C.IBV_QPS_SQD && from !== to) {
      beginDrain(this.net, qp, (mask & C.IBV_QP_EN_SQD_ASYNC_NOTIFY) !== 0 && attr.enSqdAsyncNotify !== 0);
    }
    if (to === C.IBV_QPS_RTS) qp.drainNotify = false;
    if (to === C.IBV_QPS_RTS) tryStart(this.net, qp);
    this.runKicked();
  }

  /** Limits what a queue pair sends, in 1000 bits a second, headers included (0: no limit); `burstBytes` may go ahead. */
  setRate(qp: Qp, kbps: number, burstBytes: number): void {
    qp.attr.rateLimitKbps = kbps;
    setPace(this.net, qp, kbps === 0 ? null : new Pace(kbps, burstBytes, this.nowNs));
    this.runKicked();
  }

  /** The host is no more: nothing leaves it and nothing arrives. Who listens there hears that, and no more. */
  kill(host: number): void {
    const { net } = this;
    if (net.hosts[host].dead) return;
    net.hooks.raised(host, C.IBV_EVENT_DEVICE_FATAL, 0);
    net.hosts[host].dead = true;
  }

  /** Plugs the cable of a host in, or pulls it. */
  setLink(host: number, up: boolean): void {
    const { net } = this;
    if (net.hosts[host].linkUp === up) return;
    net.hosts[host].linkUp = up;
    if (!net.hosts[host].dead) {
      net.hooks.raised(host, up ? C.IBV_EVENT_PORT_ACTIVE : C.IBV_EVENT_PORT_ERR, 1);
    }
  }

  /** Time of the next event; Infinity when there is none. Stale timers are dropped on the way. */
  nextNs(): number {
    const { net } = this;
    const { events } = net;
    while (events.size > 0 && events.headKind() === K.EV_TIMEOUT) {
      const qp = net.qps[events.headA()];
      const at = events.headTime();
      // A timer that is due is a real event; a stale one goes back, or away.
      if (qp?.timerQueued && qp.times[DEADLINE] <= at) break;
      events.pop();
      if (qp !== undefined) timerIsDue(net, qp, at);
    }
    return events.headTime();
  }

  /** Runs one event; false when there was none. */
  step(): boolean {
    if (this.nextNs() === Number.POSITIVE_INFINITY) return false;
    const { net } = this;
    const { events } = net;
    events.pop();
    net.clock[0] = events.time;
    this.dispatch(events.kind, events.a, events.b, events.c);
    this.runKicked();
    return true;
  }

  /** Runs all events up to this time, and sets the clock to it. */
  runUntil(timeNs: number): void {
    while (this.nextNs() <= timeNs) this.step();
    if (timeNs > this.net.clock[0]) this.net.clock[0] = timeNs;
  }

  /** Runs until nothing is left to happen. */
  run(): void {
    while (this.step());
  }

  /** Calls hooks.call(token) after a delay. */
  call(delayNs: number, token: number): void {
    this.net.events.due[0] = this.net.clock[0] + delayNs;
    this.net.events.push(K.EV_CALL, token, 0, 0);
  }

  /** Calls hooks.actor(actor, b) after a delay. */
  wake(delayNs: number, actor: number, b: number): void {
    this.net.events.due[0] = this.net.clock[0] + delayNs;
    this.net.events.push(K.EV_ACTOR, actor, b, 0);
  }

  private dispatch(kind: number, a: number, b: number, c: number): void {
    const { net } = this;
    switch (kind) {
      case K.EV_ARRIVE:
        this.arrive(net.ports[a].arrived(net.events));
        return;
      case K.EV_COMPLETION:
        this.reveal(a);
        return;
      case K.EV_ROOM:
        net.ports[a].waiting = false;
        this.round(net.ports[a]);
        return;
      case K.EV_CALL:
        net.observable++;
        net.hooks.call(a);
        return;
      case K.EV_ACTOR:
        net.hooks.actor(a, b);
        return;
      case K.EV_MODERATION:
        if (net.cqs[a] !== undefined) onPeriod(net, net.cqs[a], b);
        return;
      case K.EV_CQ_OVERFLOW:
        this.overflow(a);
        return;
    }
    const qp = net.qps[a];
    if (qp !== undefined && !net.hosts[qp.host].dead) this.dispatchQp(kind, qp, b, c);
  }

  /** Events of one queue pair; those of an earlier incarnation or course of it are ignored. */
  private dispatchQp(kind: number, qp: Qp, b: number, c: number): void {
    const { net } = this;
    switch (kind) {
      case K.EV_STEP:
        if (b === qp.token) onStep(net, qp);
        return;
      case K.EV_ACK:
        if (c === qp.epoch) onAck(net, qp, b & 0xffffff, b >>> 24);
        return;
      case K.EV_DOORBELL:
        // Of what was flushed meanwhile there is nothing to fetch.
        if (c !== qp.epoch || qp.state >= C.IBV_QPS_SQE || ((b - qp.available) | 0) <= 0) return;
        qp.available = b;
        tryStart(net, qp);
        return;
      case K.EV_RESPONSE_STEP:
        if (b === qp.respToken) onResponseStep(net, qp);
        return;
      case K.EV_TIMEOUT:
        onTimeout(net, qp);
        return;
      case K.EV_RNR:
        if (c !== qp.epoch || !qp.rnrWait) return;
        qp.rnrWait = false;
        tryStart(net, qp);
        return;
      case K.EV_FLUSH:
        if (c !== qp.epoch) return;
        if (qp.state === C.IBV_QPS_ERR) flush(net, qp);
        else if (qp.state === C.IBV_QPS_SQE) flushSends(net, qp);
        return;
      case K.EV_PACE:
        if (c === qp.epoch) onPace(net, qp);
    }
  }

  private arrive(p: number): void {
    const { net } = this;
    if (net.packets.kind[p] === PKT_DATAGRAM) onDatagram(net, p);
    else this.arriveConnected(p);
    net.packets.release(p);
  }

  private arriveConnected(p: number): void {
    const { net } = this;
    const pool = net.packets;
    const qp = net.qps[pool.dest[p]];
    const source = net.qps[pool.source[p]];
    // Of a connection that is no more, or to a host that is no more, or led astray: it vanishes.
    const alive = qp !== undefined && source !== undefined && source.epoch === pool.epoch[p];
    if (alive && qp.peerType === source.type && qp.host === source.peerHost && !net.hosts[qp.host].dead) {
      if (pool.kind[p] === PKT_RESPONSE) onResponse(net, qp, p);
      else onRequest(net, qp, p);
    }
  }

  /** A completion was lost: nobody can trust the queue any more, nor the queue pairs that complete there. */
  private overflow(id: number): void {
    const { net } = this;
    const cq = net.cqs[id];
    if (cq === undefined) return;
    net.raise(C.IBV_EVENT_CQ_ERR, cq);
    for (const qp of [...cq.qps]) {
      net.raise(C.IBV_EVENT_QP_FATAL, qp);
      failQp(net, qp);
    }
  }

  private reveal(id: number): void {
    const { net } = this;
    const cq = net.cqs[id];
    if (cq === undefined) return;
    const wanted = cq.reveal();
    const event = wanted && (cq.moderation === null || countsUp(net, cq, cq.moderation));
    net.observable++;
    if (cq.waiters.length > 0) wakeWaiters(net, cq);
    if (event) net.hooks.completionEvent(cq);
    if (cq.actor >= 0) net.hooks.actor(cq.actor, 0);
  }

  private runKicked(): void {
    const { kicked } = this.net;
    for (let port = kicked.pop(); port !== undefined; port = kicked.pop()) {
      port.kicked = false;
      if (!port.waiting) this.round(port);
    }
  }

  /** Admits packets, one of each sender in turn, as long as the head's packet fits. */
  private round(port: EgressPort): void {
    const { net } = this;
    for (let sender = port.head; sender !== null; sender = port.head) {
      const { qp } = sender;
      const request = sender.role === ROLE_REQUEST;
      const bytes = request ? nextRequestBytes(net, qp) : nextResponseBytes(net, qp);
      if (bytes >= 0 && !port.fits(bytes, net.events)) return;
      port.leave();
      if (bytes < 0) continue;
      const p = request ? nextRequest(net, qp) : nextResponse(net, qp);
      if (p < 0) continue;
      port.admit(bytes);
      net.launch(port, p, qp, request ? qp.sqBasePsn : qp.rqBasePsn);
      if (request) {
        if (qp.unreliable) requestSent(net, qp, port);
        else startTimer(net, qp, port);
      } else responseSent(net, qp, port);
      if (request && qp.pace !== null) {
        countPacket(net, qp.pace, bytes);
        if (nextRequestBytes(net, qp) >= 0) joinPort(net, qp);
      } else if ((request ? nextRequestBytes(net, qp) : nextResponseBytes(net, qp)) >= 0) port.join(sender);
    }
  }
}
