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
import { World, type WorldHooks } from './world.ts';

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

const NO_HOOKS: WorldHooks = {
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
  readonly world: World;
  /** Where queue pairs complete that never do. */
  private readonly noCq = new Cq(0, 0, 1);

  constructor(options: SimulationOptions = {}) {
    const { hosts = 2, params = MINIMAL_NIC, seed = 1, loss = 0, payload = true } = options;
    const layout = layoutOf(options.topology ?? 'direct', hosts);
    this.world = new World(params, hosts, seed, payload, { ...NO_HOOKS }, layout);
    const { reorder = 0, reorderDelayNs = REORDER_DELAY_NS, duplicate = 0 } = options;
    for (const host of this.world.hosts) {
      this.world.setLoss(host, loss);
      this.world.faults.setReorder(host.index, reorder, reorderDelayNs);
      this.world.faults.setDuplicate(host.index, duplicate);
    }
  }

  get nowNs(): number {
    return this.world.clock[0];
  }

  createCq(host: number, cqe: number, stamped = false): Cq {
    const cq = new Cq(this.world.cqs.length, host, cqe, stamped);
    this.world.cqs.push(cq);
    return cq;
  }

  destroyCq(cq: Cq): void {
    this.world.cqs[cq.id] = undefined;
    failWaiters(this.world, cq);
  }

  createQp(request: QpRequest): Qp {
    const qpn = this.world.qps.length;
    if (qpn > LAST_QPN)
      throw new NoResourcesError('createQp: all 2^24 queue pair numbers of this network were used');
    const { sqSigAll = false, managed = false, type = C.IBV_QPT_RC, srq = null, xrcd = 0 } = request;
    const { sendCq = this.noCq, recvCq = this.noCq } = request;
    const qp = new Qp({ ...request, qpn, sqSigAll, managed, type, srq, xrcd, sendCq, recvCq });
    // A datagram is one packet, of the port's size.
    if (type === C.IBV_QPT_UD) qp.mtu = this.world.params.mtuBytes;
    this.world.qps.push(qp);
    qp.sendCq.qps.add(qp);
    qp.recvCq.qps.add(qp);
    return qp;
  }

  createSrq(request: Omit<SrqOptions, 'number'>): Srq {
    const srq = new Srq({ ...request, number: this.world.srqs.length });
    this.world.srqs.push(srq);
    return srq;
  }

  destroySrq(srq: Srq): void {
    this.world.srqs[srq.number] = undefined;
  }

  destroyQp(qp: Qp): void {
    freeLimiter(qp);
    qp.reset();
    for (const port of this.world.ports) for (const sender of [qp.requests, qp.replies]) port.forget(sender);
    qp.state = C.IBV_QPS_RESET;
    noteState(this.world, qp);
    forget(this.world, qp);
    this.world.qps[qp.qpn] = undefined;
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
      noteState(this.world, qp);
      return;
    }
    Object.assign(qp.attr, attr);
    if ((mask & C.IBV_QP_AV) !== 0) {
      qp.peerHost = peerHost;
      qp.sl = attr.ah?.sl ?? 0;
    }
    if ((mask & C.IBV_QP_DEST_QPN) !== 0) qp.peer = attr.destQpNum ?? 0;
    if ((mask & C.IBV_QP_PATH_MTU) !== 0)
      qp.mtu = Math.min(mtuBytes(attr.pathMtu ?? C.IBV_MTU_1024), this.world.params.mtuBytes);
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
      failQp(this.world, qp);
      qp.state = to;
      return;
    }
    qp.state = to;
    noteState(this.world, qp);
    if (to === C.IBV_QPS_SQD && from !== to) {
      beginDrain(this.world, qp, (mask & C.IBV_QP_EN_SQD_ASYNC_NOTIFY) !== 0 && attr.enSqdAsyncNotify !== 0);
    }
    if (to === C.IBV_QPS_RTS) qp.drainNotify = false;
    if (to === C.IBV_QPS_RTS) tryStart(this.world, qp);
    this.runKicked();
  }

  /** Limits what a queue pair sends, in 1000 bits a second, headers included (0: no limit); `burstBytes` may go ahead. @throws NoResourcesError no limiter is free */
  setRate(qp: Qp, kbps: number, burstBytes: number): void {
    changeRate(this.world, qp, kbps, burstBytes);
    qp.attr.rateLimitKbps = kbps;
    this.runKicked();
  }

  /** The host is no more: nothing leaves it and nothing arrives. Who listens there hears that, and no more. */
  kill(host: number): void {
    const { world } = this;
    if (world.hosts[host].dead) return;
    world.hooks.raised(host, C.IBV_EVENT_DEVICE_FATAL, 0);
    world.hosts[host].dead = true;
    if (!world.stoppable) return;
    // What waits in its ports never leaves.
    for (const port of [world.ports[host * 2], world.ports[host * 2 + 1]]) world.kick(port);
    this.runKicked();
  }

  /** Plugs the cable of a host in, or pulls it. */
  setLink(host: number, up: boolean): void {
    const { world } = this;
    if (world.hosts[host].linkUp === up) return;
    world.hosts[host].linkUp = up;
    if (!world.hosts[host].dead) {
      world.hooks.raised(host, up ? C.IBV_EVENT_PORT_ACTIVE : C.IBV_EVENT_PORT_ERR, 1);
    }
  }

  /** Stops a port (stoppable ones only) or one class of it when the packet on its wire is out, or lets it go on. */
  setPaused(port: number, paused: boolean, cls: number = ALL_CLASSES): void {
    const it = this.world.ports[port] as StoppablePort;
    if (paused) it.pause(cls);
    else it.resume(cls);
    this.world.kick(it);
    this.runKicked();
  }

  /** Time of the next event; Infinity when there is none. */
  nextNs(): number {
    this.dropStale();
    return this.world.events.headTime();
  }

  /** Takes stale timers off the head of the queue. */
  private dropStale(): void {
    const { world } = this;
    const { events } = world;
    while (events.size > 0 && events.headKind() === K.EV_TIMEOUT) {
      const qp = world.qps[events.headA()];
      const at = events.headTime();
      // A timer that is due is a real event; a stale one goes back, or away.
      if (qp?.timerQueued && qp.times[DEADLINE] <= at) break;
      events.pop();
      if (qp !== undefined) timerIsDue(world, qp, at);
    }
  }

  /** Runs one event; false when there was none. */
  step(): boolean {
    return this.stepBy(Number.MAX_VALUE);
  }

  /** Runs one event if it is due by this time; false when there was none. */
  stepBy(timeNs: number): boolean {
    this.dropStale();
    const { world } = this;
    const { events } = world;
    if (events.size === 0 || !(events.headTime() <= timeNs)) return false;
    events.pop();
    world.eventCount[0]++;
    world.clock[0] = events.time;
    this.dispatch(events.kind, events.a, events.b, events.c);
    this.runKicked();
    // Without an iterator, which V8 allocates.
    if (world.greedy) for (let host = 0; host < world.units.length; host++) world.units[host].settle();
    return true;
  }

  /** Runs all events up to this time, and sets the clock to it. */
  runUntil(timeNs: number): void {
    while (this.stepBy(timeNs));
    if (timeNs > this.world.clock[0]) this.world.clock[0] = timeNs;
  }

  /** Runs until nothing is left to happen. */
  run(): void {
    while (this.step());
  }

  /** Calls hooks.call(token) after a delay. */
  call(delayNs: number, token: number): void {
    this.world.events.due[0] = this.world.clock[0] + delayNs;
    this.world.events.push(K.EV_CALL, token, 0, 0);
  }

  /** Calls hooks.actor(actor, b) after a delay. */
  wake(delayNs: number, actor: number, b: number): void {
    this.world.events.due[0] = this.world.clock[0] + delayNs;
    this.world.events.push(K.EV_ACTOR, actor, b, 0);
  }

  private dispatch(kind: number, a: number, b: number, c: number): void {
    const { world } = this;
    switch (kind) {
      case K.EV_ARRIVE:
        this.offCable(a, world.ports[a].arrived(world.events));
        return;
      case K.EV_LATE:
        this.deliver(a);
        return;
      case K.EV_RECEIVE:
        this.receive(world.qps[a]);
        return;
      case K.EV_COMPLETION:
        this.reveal(a);
        return;
      case K.EV_ROOM:
        world.ports[a].waiting = false;
        this.round(world.ports[a] as EgressPort);
        return;
      case K.EV_DEPART:
        onDeparted(world, world.ports[a] as StoppablePort);
        return;
      case K.EV_WIRE:
        world.kick(world.ports[a]);
        return;
      case K.EV_CALL:
        world.observable++;
        world.hooks.call(a);
        return;
      case K.EV_ACTOR:
        world.hooks.actor(a, b);
        return;
      case K.EV_MODERATION:
        if (world.cqs[a] !== undefined) onPeriod(world, world.cqs[a], b);
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
        this.dispatchSwitch(kind, world.fabric as Fabric, a, b);
        return;
    }
    const qp = world.qps[a];
    if (qp !== undefined && !world.hosts[qp.host].dead) this.dispatchQp(kind, qp, b, c);
  }

  private stepDone(host: number, unit: number, generation: number): void {
    const { world } = this;
    const sender = world.units[host].stepDone(unit, generation);
    if (sender === null || world.hosts[host].dead) return;
    if (sender.role === ROLE_REQUEST) onStep(world, sender.qp);
    else onResponseStep(world, sender.qp);
  }

  /** Events of one queue pair; those of an earlier incarnation or course of it are ignored. */
  private dispatchQp(kind: number, qp: Qp, b: number, c: number): void {
    const { world } = this;
    switch (kind) {
      case K.EV_STEP:
        if (b === qp.token) onStep(world, qp);
        return;
      case K.EV_ACK:
        if (c === qp.epoch) onAck(world, qp, b & 0xffffff, b >>> 24);
        return;
      case K.EV_DOORBELL:
        // Of what was flushed meanwhile there is nothing to fetch.
        if (c !== qp.epoch || qp.state >= C.IBV_QPS_SQE || ((b - qp.rung) | 0) <= 0) return;
        ring(world, qp, b);
        tryStart(world, qp);
        return;
      case K.EV_FETCHED:
        if (c !== qp.epoch || qp.state >= C.IBV_QPS_SQE || ((b - qp.available) | 0) <= 0) return;
        arrived(world, qp, b);
        tryStart(world, qp);
        return;
      case K.EV_PAYLOAD:
        if (b === qp.token) onPayload(world, qp);
        return;
      case K.EV_RESPONSE_PAYLOAD:
        if (b === qp.respToken) onResponsePayload(world, qp);
        return;
      case K.EV_RESPONSE_STEP:
        if (b === qp.respToken) onResponseStep(world, qp);
        return;
      case K.EV_TIMEOUT:
        onTimeout(world, qp);
        return;
      case K.EV_RNR:
        if (c !== qp.epoch || !qp.rnrWait) return;
        qp.rnrWait = false;
        tryStart(world, qp);
        return;
      case K.EV_FLUSH:
        if (c !== qp.epoch) return;
        if (qp.state === C.IBV_QPS_ERR) flush(world, qp);
        else if (qp.state === C.IBV_QPS_SQE) flushSends(world, qp);
        return;
      case K.EV_PACE:
        if (c === qp.epoch) onPace(world, qp, b);
        return;
      case K.EV_CNP:
        if (c === qp.epoch) notified(world, qp);
        return;
      case K.EV_RATE:
        if (c === qp.epoch) onRate(world, qp, b);
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
        else setPaused(this.world, host, b === 1);
        return;
      }
      case K.EV_COPY:
        this.arrive(a);
    }
  }

  /** A packet is at the other end of the cable of a host's port, or back from its loopback. */
  private offCable(port: number, p: number): void {
    const { fabric } = this.world;
    if (fabric !== null && (port & 1) === 0) enter(this.world, fabric, p);
    else this.arrive(p);
  }

  /** A packet is at the end of its way. */
  private arrive(p: number): void {
    const { world } = this;
    const { faults } = world;
    if (faults.on) {
      const copy = faults.copyOf(world, p);
      if (copy >= 0) world.fabric?.tagCopy(copy, p);
      if (!faults.holds(world, p)) this.deliver(p);
      if (copy >= 0) this.deliver(copy);
      return;
    }
    this.deliver(p);
  }

  /** A packet is in the NIC: it is executed as soon as the receiver has time for it. */
  private deliver(p: number): void {
    const { world } = this;
    if (world.receives) {
      const qp = world.packets.kind[p] === PKT_DATAGRAM ? this.datagramFor(p) : this.connectedTo(p);
      if (qp !== undefined && mustWait(world, qp, p)) return;
    }
    this.execute(p);
  }

  /** Packets of a queue pair have waited long enough. */
  private receive(qp: Qp | undefined): void {
    if (qp === undefined) return;
    for (let p = takeReady(this.world, qp); p >= 0; p = takeReady(this.world, qp)) this.execute(p);
  }

  private execute(p: number): void {
    const { world } = this;
    if (world.packets.kind[p] === PKT_DATAGRAM)
      onDatagram(world, p, world.fabric === null ? EVERYBODY : world.fabric.receiverOf(p));
    else this.executeConnected(p);
    world.packets.release(p);
  }

  /** The one queue pair that a datagram is for; a multicast is for many. */
  private datagramFor(p: number): Qp | undefined {
    const { world } = this;
    const ah = world.packets.ah[p]!;
    const qp = ah.group === null ? world.qps[world.packets.dest[p]] : undefined;
    return qp?.type === C.IBV_QPT_UD && qp.host === ah.peerHost && !world.hosts[qp.host].dead
      ? qp
      : undefined;
  }

  /** The queue pair that a packet of a connection is for. */
  private connectedTo(p: number): Qp | undefined {
    const { world } = this;
    const pool = world.packets;
    const qp = world.qps[pool.dest[p]];
    const source = world.qps[pool.source[p]];
    // Of a connection that is no more, or to a host that is no more, or led astray: it vanishes.
    if (qp === undefined || source === undefined || source.epoch !== pool.epoch[p]) return undefined;
    const meant = qp.peerType === source.type && qp.host === source.peerHost;
    return meant && !world.hosts[qp.host].dead ? qp : undefined;
  }

  private executeConnected(p: number): void {
    const { world } = this;
    const pool = world.packets;
    const qp = this.connectedTo(p);
    if (qp === undefined) return;
    const kind = pool.kind[p];
    if (kind === PKT_ACK) {
      if (pool.rkey[p] === qp.epoch) onAck(world, qp, pool.psn[p], pool.imm[p]);
      return;
    }
    if ((pool.flags[p] & CONGESTED) !== 0) congested(world, qp, world.qps[pool.source[p]]!);
    const { pcie } = world.hosts[qp.host];
    if (!pcie.free && pool.length[p] > 0) pcie.write(pool.length[p]);
    if (kind === PKT_RESPONSE) onResponse(world, qp, p);
    else onRequest(world, qp, p);
  }

  /** A completion was lost: nobody can trust the queue any more, nor the queue pairs that complete there. */
  private overflow(id: number): void {
    const { world } = this;
    const cq = world.cqs[id];
    if (cq === undefined) return;
    world.raise(C.IBV_EVENT_CQ_ERR, cq);
    for (const qp of [...cq.qps]) {
      world.raise(C.IBV_EVENT_QP_FATAL, qp);
      failQp(world, qp);
    }
  }

  private reveal(id: number): void {
    const { world } = this;
    const cq = world.cqs[id];
    if (cq === undefined) return;
    const wanted = cq.reveal();
    const event = wanted && (cq.moderation === null || countsUp(world, cq, cq.moderation));
    world.observable++;
    if (cq.waiters.length > 0) wakeWaiters(world, cq);
    if (event) world.hooks.completionEvent(cq);
    if (cq.actor >= 0) world.hooks.actor(cq.actor, 0);
  }

  private runKicked(): void {
    if (this.world.stoppable) {
      runStoppable(this.world);
      return;
    }
    const { kicked } = this.world;
    for (let port = kicked.pop(); port !== undefined; port = kicked.pop()) {
      port.kicked = false;
      if (!port.waiting) this.round(port as EgressPort);
    }
  }

  /** Admits packets, one of each sender in turn, as long as the head's packet fits. */
  private round(port: EgressPort): void {
    const { world } = this;
    const { ring } = port;
    for (let sender = ring.head; sender !== null; sender = ring.head) {
      const { qp } = sender;
      const request = sender.role === ROLE_REQUEST;
      const bytes = request ? nextRequestBytes(world, qp) : nextResponseBytes(world, qp);
      if (bytes >= 0 && !port.fits(bytes, world.events)) return;
      ring.leave();
      if (bytes < 0) continue;
      const { turn } = sender;
      const turnOver = turn !== null && turn.unit >= 0 && world.units[qp.host].sent(turn, bytes);
      const p = request ? nextRequest(world, qp) : nextResponse(world, qp);
      if (p < 0) continue;
      port.admit(bytes, world.notBefore);
      world.launch(port, p, qp, request ? qp.sqBasePsn : qp.rqBasePsn, qp.peerHost);
      if (request) {
        if (qp.unreliable) requestSent(world, qp, port);
        else startTimer(world, qp, port);
      } else responseSent(world, qp, port);
      rejoin(world, sender, bytes, turnOver);
    }
  }
}
