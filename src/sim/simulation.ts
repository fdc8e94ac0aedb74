/**
 * The simulation as its users drive it: objects, posts, polls, time and faults. One event at a time is
 * taken from the queue and given to the part that it belongs to; ports that got work then run their round.
 */
import * as C from '../verbs/constants.ts';
import { NoResourcesError } from '../verbs/errors.ts';
import { mtuBytes } from '../verbs/names.ts';
import type { QpAttr, QpCap } from '../verbs/provider.ts';
import { onDeparted, runStoppable, setPaused } from './egress/class-round.ts';
import type { EgressPort } from './egress/fifo-port.ts';
import { changeRate, freeLimiter, onRate } from './egress/rate-limiters.ts';
import { onPace } from './egress/rate-pacing.ts';
import { rejoin } from './egress/rejoin.ts';
import { ALL_CLASSES, type StoppablePort } from './egress/stoppable-port.ts';
import * as K from './kernel/event-kinds.ts';
import { CONGESTED, PKT_ACK, PKT_DATAGRAM, PKT_RESPONSE } from './kernel/packets.ts';
import { EVERYBODY } from './network/address.ts';
import { congested, notified } from './network/cnp.ts';
import { enter } from './network/multicast.ts';
import type { Fabric } from './network/switches.ts';
import { layoutOf, type TopologyName, type TopologyOptions } from './network/topology.ts';
import { noteState } from './nic/context-caches.ts';
import { countsUp, onPeriod } from './nic/event-moderation.ts';
import { forget, mustWait, takeReady } from './nic/receive-pipeline.ts';
import { arrived, ring } from './nic/wqe-fetch.ts';
import type { NicParams } from './profile/params.ts';
import { MINIMAL_NIC } from './profile/profiles.ts';
import { Cq } from './queues/cq.ts';
import { Srq, type SrqOptions } from './queues/srq.ts';
import { failQp, flush, flushSends } from './transport/failure.ts';
import { DEADLINE, Qp, ROLE_REQUEST, TIMEOUT } from './transport/qp.ts';
import {
  nextRequest,
  nextRequestBytes,
  onAck,
  onPayload,
  onResponse,
  onStep,
  onTimeout,
  startTimer,
  timerIsDue,
  tryStart,
} from './transport/requester.ts';
import {
  nextResponse,
  nextResponseBytes,
  onRequest,
  onResponsePayload,
  onResponseStep,
  responseSent,
} from './transport/responder.ts';
import { beginDrain } from './transport/sqd.ts';
import { onDatagram, requestSent } from './transport/unreliable.ts';
import { failWaiters, wakeWaiters } from './transport/wait.ts';
import { Network, type NetworkHooks } from './world.ts';

export interface SimulationOptions {
  hosts?: number;
  params?: Readonly<NicParams>;
  seed?: number;
  /** Probability of loss of each packet, on every link. */
  loss?: number;
  /** Probability that a packet is late by reorderDelayNs (default 2000), and that it arrives twice, on every link. */
  reorder?: number;
  reorderDelayNs?: number;
  duplicate?: number;
  /** Whether payload bytes are moved. Default true; timing is the same. */
  payload?: boolean;
  /** What is between the hosts. Default: cables and no switch, 'direct'. */
  topology?: TopologyName | TopologyOptions;
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
/** How late a late packet is unless said. */
export const REORDER_DELAY_NS = 2000;

export class Simulation {
  readonly net: Network;
  /** Where queue pairs complete that never do. */
  private readonly noCq = new Cq(0, 0, 1);

  constructor(options: SimulationOptions = {}) {
    const { hosts = 2, params = MINIMAL_NIC, seed = 1, loss = 0, payload = true } = options;
    const layout = layoutOf(options.topology ?? 'direct', hosts);
    this.net = new Network(params, hosts, seed, payload, { ...NO_HOOKS }, layout);
    const { reorder = 0, reorderDelayNs = REORDER_DELAY_NS, duplicate = 0 } = options;
    for (const host of this.net.hosts) {
      this.net.setLoss(host, loss);
      this.net.faults.setReorder(host.index, reorder, reorderDelayNs);
      this.net.faults.setDuplicate(host.index, duplicate);
    }
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
    freeLimiter(qp);
    qp.reset();
    for (const port of this.net.ports) for (const sender of [qp.requests, qp.replies]) port.forget(sender);
    qp.state = C.IBV_QPS_RESET;
    noteState(this.net, qp);
    forget(this.net, qp);
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
      freeLimiter(qp);
      qp.reset();
      qp.sendCq.purge(qp.qpn);
      qp.recvCq.purge(qp.qpn);
      qp.state = to;
      noteState(this.net, qp);
      return;
    }
    Object.assign(qp.attr, attr);
    if ((mask & C.IBV_QP_AV) !== 0) {
      qp.peerHost = peerHost;
      qp.sl = attr.ah?.sl ?? 0;
    }
    if ((mask & C.IBV_QP_DEST_QPN) !== 0) qp.peer = attr.destQpNum ?? 0;
    if ((mask & C.IBV_QP_PATH_MTU) !== 0)
      qp.mtu = Math.min(mtuBytes(attr.pathMtu ?? C.IBV_MTU_1024), this.net.params.mtuBytes);
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
    noteState(this.net, qp);
    if (to === C.IBV_QPS_SQD && from !== to) {
      beginDrain(this.net, qp, (mask & C.IBV_QP_EN_SQD_ASYNC_NOTIFY) !== 0 && attr.enSqdAsyncNotify !== 0);
    }
    if (to === C.IBV_QPS_RTS) qp.drainNotify = false;
    if (to === C.IBV_QPS_RTS) tryStart(this.net, qp);
    this.runKicked();
  }

  /** Limits what a queue pair sends, in 1000 bits a second, headers included (0: no limit); `burstBytes` may go ahead. @throws NoResourcesError no limiter is free */
  setRate(qp: Qp, kbps: number, burstBytes: number): void {
    changeRate(this.net, qp, kbps, burstBytes);
    qp.attr.rateLimitKbps = kbps;
    this.runKicked();
  }

  /** The host is no more: nothing leaves it and nothing arrives. Who listens there hears that, and no more. */
  kill(host: number): void {
    const { net } = this;
    if (net.hosts[host].dead) return;
    net.hooks.raised(host, C.IBV_EVENT_DEVICE_FATAL, 0);
    net.hosts[host].dead = true;
    if (!net.stoppable) return;
    // What waits in its ports never leaves.
    for (const port of [net.ports[host * 2], net.ports[host * 2 + 1]]) net.kick(port);
    this.runKicked();
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

  /** Stops a port (stoppable ones only) or one class of it when the packet on its wire is out, or lets it go on. */
  setPaused(port: number, paused: boolean, cls: number = ALL_CLASSES): void {
    const it = this.net.ports[port] as StoppablePort;
    if (paused) it.pause(cls);
    else it.resume(cls);
    this.net.kick(it);
    this.runKicked();
  }

  /** Time of the next event; Infinity when there is none. */
  nextNs(): number {
    this.dropStale();
    return this.net.events.headTime();
  }

  /** Takes stale timers off the head of the queue. */
  private dropStale(): void {
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
  }

  /** Runs one event; false when there was none. */
  step(): boolean {
    return this.stepBy(Number.MAX_VALUE);
  }

  /** Runs one event if it is due by this time; false when there was none. */
  stepBy(timeNs: number): boolean {
    this.dropStale();
    const { net } = this;
    const { events } = net;
    if (events.size === 0 || !(events.headTime() <= timeNs)) return false;
    events.pop();
    net.eventCount[0]++;
    net.clock[0] = events.time;
    this.dispatch(events.kind, events.a, events.b, events.c);
    this.runKicked();
    // Without an iterator, which V8 allocates.
    if (net.greedy) for (let host = 0; host < net.units.length; host++) net.units[host].settle();
    return true;
  }

  /** Runs all events up to this time, and sets the clock to it. */
  runUntil(timeNs: number): void {
    while (this.stepBy(timeNs));
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
        this.offCable(a, net.ports[a].arrived(net.events));
        return;
      case K.EV_LATE:
        this.deliver(a);
        return;
      case K.EV_RECEIVE:
        this.receive(net.qps[a]);
        return;
      case K.EV_COMPLETION:
        this.reveal(a);
        return;
      case K.EV_ROOM:
        net.ports[a].waiting = false;
        this.round(net.ports[a] as EgressPort);
        return;
      case K.EV_DEPART:
        onDeparted(net, net.ports[a] as StoppablePort);
        return;
      case K.EV_WIRE:
        net.kick(net.ports[a]);
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
      case K.EV_UNIT:
        this.stepDone(a, b, c);
        return;
      case K.EV_HOP:
      case K.EV_SWITCH_OUT:
      case K.EV_PAUSE:
      case K.EV_COPY:
        this.dispatchSwitch(kind, net.fabric as Fabric, a, b);
        return;
    }
    const qp = net.qps[a];
    if (qp !== undefined && !net.hosts[qp.host].dead) this.dispatchQp(kind, qp, b, c);
  }

  private stepDone(host: number, unit: number, generation: number): void {
    const { net } = this;
    const sender = net.units[host].stepDone(unit, generation);
    if (sender === null || net.hosts[host].dead) return;
    if (sender.role === ROLE_REQUEST) onStep(net, sender.qp);
    else onResponseStep(net, sender.qp);
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
        if (c !== qp.epoch || qp.state >= C.IBV_QPS_SQE || ((b - qp.rung) | 0) <= 0) return;
        ring(net, qp, b);
        tryStart(net, qp);
        return;
      case K.EV_FETCHED:
        if (c !== qp.epoch || qp.state >= C.IBV_QPS_SQE || ((b - qp.available) | 0) <= 0) return;
        arrived(net, qp, b);
        tryStart(net, qp);
        return;
      case K.EV_PAYLOAD:
        if (b === qp.token) onPayload(net, qp);
        return;
      case K.EV_RESPONSE_PAYLOAD:
        if (b === qp.respToken) onResponsePayload(net, qp);
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
        if (c === qp.epoch) onPace(net, qp, b);
        return;
      case K.EV_CNP:
        if (c === qp.epoch) notified(net, qp);
        return;
      case K.EV_RATE:
        if (c === qp.epoch) onRate(net, qp, b);
    }
  }

  /** Something happens in a switch or on a cable of one. */
  private dispatchSwitch(kind: number, fabric: Fabric, a: number, b: number): void {
    switch (kind) {
      case K.EV_HOP: {
        const p = fabric.hop(a);
        if (p >= 0) this.arrive(p);
        return;
      }
      case K.EV_SWITCH_OUT:
        fabric.departed(a);
        return;
      case K.EV_PAUSE: {
        const { peer, host } = fabric.ports[a];
        if (peer !== null) fabric.setPaused(peer, b === 1);
        else setPaused(this.net, host, b === 1);
        return;
      }
      case K.EV_COPY:
        this.arrive(a);
    }
  }

  /** A packet is at the other end of the cable of a host's port, or back from its loopback. */
  private offCable(port: number, p: number): void {
    const { fabric } = this.net;
    if (fabric !== null && (port & 1) === 0) enter(this.net, fabric, p);
    else this.arrive(p);
  }

  /** A packet is at the end of its way. */
  private arrive(p: number): void {
    const { net } = this;
    const { faults } = net;
    if (faults.on) {
      const copy = faults.copyOf(net, p);
      if (copy >= 0) net.fabric?.tagCopy(copy, p);
      if (!faults.holds(net, p)) this.deliver(p);
      if (copy >= 0) this.deliver(copy);
      return;
    }
    this.deliver(p);
  }

  /** A packet is in the NIC: it is executed as soon as the receiver has time for it. */
  private deliver(p: number): void {
    const { net } = this;
    if (net.receives) {
      const qp = net.packets.kind[p] === PKT_DATAGRAM ? this.datagramFor(p) : this.connectedTo(p);
      if (qp !== undefined && mustWait(net, qp, p)) return;
    }
    this.execute(p);
  }

  /** Packets of a queue pair have waited long enough. */
  private receive(qp: Qp | undefined): void {
    if (qp === undefined) return;
    for (let p = takeReady(this.net, qp); p >= 0; p = takeReady(this.net, qp)) this.execute(p);
  }

  private execute(p: number): void {
    const { net } = this;
    if (net.packets.kind[p] === PKT_DATAGRAM)
      onDatagram(net, p, net.fabric === null ? EVERYBODY : net.fabric.receiverOf(p));
    else this.executeConnected(p);
    net.packets.release(p);
  }

  /** The one queue pair that a datagram is for; a multicast is for many. */
  private datagramFor(p: number): Qp | undefined {
    const { net } = this;
    const ah = net.packets.ah[p]!;
    const qp = ah.group === null ? net.qps[net.packets.dest[p]] : undefined;
    return qp?.type === C.IBV_QPT_UD && qp.host === ah.peerHost && !net.hosts[qp.host].dead ? qp : undefined;
  }

  /** The queue pair that a packet of a connection is for. */
  private connectedTo(p: number): Qp | undefined {
    const { net } = this;
    const pool = net.packets;
    const qp = net.qps[pool.dest[p]];
    const source = net.qps[pool.source[p]];
    // Of a connection that is no more, or to a host that is no more, or led astray: it vanishes.
    if (qp === undefined || source === undefined || source.epoch !== pool.epoch[p]) return undefined;
    const meant = qp.peerType === source.type && qp.host === source.peerHost;
    return meant && !net.hosts[qp.host].dead ? qp : undefined;
  }

  private executeConnected(p: number): void {
    const { net } = this;
    const pool = net.packets;
    const qp = this.connectedTo(p);
    if (qp === undefined) return;
    const kind = pool.kind[p];
    if (kind === PKT_ACK) {
      if (pool.rkey[p] === qp.epoch) onAck(net, qp, pool.psn[p], pool.imm[p]);
      return;
    }
    if ((pool.flags[p] & CONGESTED) !== 0) congested(net, qp, net.qps[pool.source[p]]!);
    const { pcie } = net.hosts[qp.host];
    if (!pcie.free && pool.length[p] > 0) pcie.write(pool.length[p]);
    if (kind === PKT_RESPONSE) onResponse(net, qp, p);
    else onRequest(net, qp, p);
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
    if (this.net.stoppable) {
      runStoppable(this.net);
      return;
    }
    const { kicked } = this.net;
    for (let port = kicked.pop(); port !== undefined; port = kicked.pop()) {
      port.kicked = false;
      if (!port.waiting) this.round(port as EgressPort);
    }
  }

  /** Admits packets, one of each sender in turn, as long as the head's packet fits. */
  private round(port: EgressPort): void {
    const { net } = this;
    const { ring } = port;
    for (let sender = ring.head; sender !== null; sender = ring.head) {
      const { qp } = sender;
      const request = sender.role === ROLE_REQUEST;
      const bytes = request ? nextRequestBytes(net, qp) : nextResponseBytes(net, qp);
      if (bytes >= 0 && !port.fits(bytes, net.events)) return;
      ring.leave();
      if (bytes < 0) continue;
      const { turn } = sender;
      const turnOver = turn !== null && turn.unit >= 0 && net.units[qp.host].sent(turn, bytes);
      const p = request ? nextRequest(net, qp) : nextResponse(net, qp);
      if (p < 0) continue;
      port.admit(bytes, net.notBefore);
      net.launch(port, p, qp, request ? qp.sqBasePsn : qp.rqBasePsn, qp.peerHost);
      if (request) {
        if (qp.unreliable) requestSent(net, qp, port);
        else startTimer(net, qp, port);
      } else responseSent(net, qp, port);
      rejoin(net, sender, bytes, turnOver);
    }
  }
}
