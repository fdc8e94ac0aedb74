/**
 * The simulation as its users drive it: objects, time and faults. Each step takes one event from the queue
 * and dispatches it; ports that got work are served afterwards.
 */
import * as C from '../verbs/constants.ts';
import { NoResourcesError } from '../verbs/errors.ts';
import { mtuBytes } from '../verbs/names.ts';
import type { QpAttr, QpCap } from '../verbs/types.ts';
import { dispatch } from './dispatch.ts';
import type { MakeQpScheduler } from './egress/make-scheduler.ts';
import { changeRate, endPacing } from './egress/rate-limiters.ts';
import { runKickedPorts } from './egress/round.ts';
import { ALL_CLASSES, type StoppablePort } from './egress/stoppable-port.ts';
import { DoubleRows } from './kernel/double-rows.ts';
import * as K from './kernel/event-kinds.ts';
import type { EventQueue } from './kernel/event-queue.ts';
import type { Group } from './network/address.ts';
import { enterGroup, enterWorld } from './network/inbound.ts';
import { layoutOf, type TopologyName, type TopologyOptions } from './network/topology.ts';
import type { Uplink } from './network/uplink.ts';
import { noteState } from './nic/context-caches.ts';
import { dropWaiting } from './nic/receive-pipeline.ts';
import type { NicParams } from './profile/params.ts';
import { MINIMAL_NIC } from './profile/profiles.ts';
import { Cq } from './queues/cq.ts';
import { Srq, type SrqOptions } from './queues/srq.ts';
import { beginDrain, queueTimerAgain } from './transport/acknowledgements.ts';
import { failQp, flushSends } from './transport/failure.ts';
import { DEADLINE, Qp, TIMEOUT, TIMES } from './transport/qp.ts';
import { tryStart } from './transport/request-start.ts';
import { failWaiters } from './transport/wait.ts';
import { leaveSrq } from './transport/xrc.ts';
import { World, type WorldHooks } from './world.ts';

export interface SimulationOptions {
  hosts?: number;
  params?: Readonly<NicParams>;
  seed?: number;
  /** Probability that a link loses a packet, for every link. */
  loss?: number;
  /**
   * Probabilities that a packet is late by reorderDelayNs (default 2000), and that it arrives twice, for
   * every link.
   */
  reorder?: number;
  reorderDelayNs?: number;
  duplicate?: number;
  /** Whether payload bytes are copied. Default true; timing is the same. */
  payload?: boolean;
  /** A scheduler of queue pairs instead of the one that `params` name. */
  qpScheduler?: MakeQpScheduler;
  /** How the hosts are wired. Default 'direct': cables without switches. */
  topology?: TopologyName | TopologyOptions;
  /** A real network instead of cables between the hosts. Default: none. */
  uplink?: Uplink | null;
}

export interface QpRequest {
  host: number;
  /** 0 for XRC_RECV, which has no protection domain. */
  pd: number;
  cap: QpCap;
  /** Absent for XRC_RECV. */
  sendCq?: Cq;
  recvCq?: Cq;
  /** IBV_QPT_*. Default RC. */
  type?: number;
  srq?: Srq | null;
  xrcd?: number;
  sqSigAll?: boolean;
  managed?: boolean;
  /** Whether it receives the messages of a policy's agent (agentLoss). */
  isAgent?: boolean;
}

const NO_HOOKS: WorldHooks = {
  completionEvent() {},
  call() {},
  alarm() {},
  asyncEvent() {},
  actor() {},
  cqOf: () => undefined,
  qpOf: () => undefined,
  ahOf: () => undefined,
  windowOf: () => undefined,
  regionOf: () => undefined,
};

const LAST_QPN = 0xffffff;
/** Default delay of a late packet. */
export const REORDER_DELAY_NS = 2000;

export class Simulation {
  readonly world: World;
  /** Completion queue of queue pairs without completions. */
  private readonly noCq = new Cq(0, 0, 1);
  private readonly rows = new DoubleRows(TIMES);

  constructor(options: SimulationOptions = {}) {
    const { hosts = 2, params = MINIMAL_NIC, seed = 1, loss = 0, payload = true } = options;
    const layout = layoutOf(options.topology ?? 'direct', hosts);
    const { uplink = null } = options;
    this.world = new World(
      params,
      hosts,
      seed,
      payload,
      { ...NO_HOOKS },
      layout,
      options.qpScheduler,
      uplink,
    );
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
      throw new NoResourcesError('createQp: all 2^24 queue pair numbers of this fabric have been used');
    const {
      sqSigAll = false,
      managed = false,
      isAgent = false,
      type = C.IBV_QPT_RC,
      srq = null,
      xrcd = 0,
    } = request;
    const { sendCq = this.noCq, recvCq = this.noCq } = request;
    const { rows } = this;
    const qp = new Qp({ ...request, qpn, sqSigAll, managed, isAgent, type, srq, xrcd, sendCq, recvCq, rows });
    // A datagram is one packet of at most the port's MTU.
    if (type === C.IBV_QPT_UD) qp.setMtu(this.world.hosts[qp.host].mtuBytes);
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
    if (srq.xrcd !== 0) for (const qp of this.world.qps) if (qp?.srq === srq) leaveSrq(qp, this.noCq);
  }

  destroyQp(qp: Qp): void {
    endPacing(this.world, qp);
    qp.reset();
    for (const port of this.world.ports) for (const sender of [qp.requests, qp.replies]) port.remove(sender);
    this.world.hosts[qp.host].weights?.remove(qp);
    qp.state = C.IBV_QPS_RESET;
    noteState(this.world, qp);
    dropWaiting(this.world, qp);
    this.world.qps[qp.qpn] = undefined;
    purge(qp);
    for (const cq of [qp.sendCq, qp.recvCq]) cq.qps.delete(qp);
  }

  /** Applies a modify that passed the state table. `peerHost` is the host that attr.ah leads to, or -1. */
  modifyQp(qp: Qp, attr: QpAttr, mask: number, to: number, peerHost: number): void {
    const from = qp.state;
    if (to === C.IBV_QPS_RESET) {
      endPacing(this.world, qp);
      qp.reset();
      purge(qp);
      qp.state = to;
      noteState(this.world, qp);
      return;
    }
    Object.assign(qp.attr, attr);
    qp.remoteAccess = qp.attr.qpAccessFlags ?? 0;
    if ((mask & C.IBV_QP_AV) !== 0) {
      qp.peerHost = peerHost;
      qp.sl = attr.ah?.sl ?? 0;
    }
    if ((mask & C.IBV_QP_DEST_QPN) !== 0) qp.peer = attr.destQpNum ?? 0;
    if ((mask & C.IBV_QP_PATH_MTU) !== 0)
      qp.setMtu(Math.min(mtuBytes(attr.pathMtu ?? C.IBV_MTU_1024), this.world.hosts[qp.host].mtuBytes));
    if ((mask & C.IBV_QP_RQ_PSN) !== 0) qp.ePsn = qp.rqBasePsn = (attr.rqPsn ?? 0) & 0xffffff;
    if ((mask & C.IBV_QP_SQ_PSN) !== 0) qp.sndPsn = qp.unaPsn = qp.sqBasePsn = (attr.sqPsn ?? 0) & 0xffffff;
    if ((mask & C.IBV_QP_MAX_DEST_RD_ATOMIC) !== 0) qp.setResponderResources(attr.maxDestRdAtomic ?? 0);
    if ((mask & C.IBV_QP_TIMEOUT) !== 0) {
      const timeout = attr.timeout ?? 0;
      // 0 means an infinite timeout.
      qp.times[qp.row + TIMEOUT] = timeout === 0 ? Number.POSITIVE_INFINITY : 4096 * 2 ** timeout;
    }
    if ((mask & C.IBV_QP_RETRY_CNT) !== 0) qp.retriesLeft = attr.retryCnt ?? 0;
    if ((mask & C.IBV_QP_RNR_RETRY) !== 0) qp.rnrRetriesLeft = attr.rnrRetry ?? 0;
    if ((mask & C.IBV_QP_RATE_LIMIT) !== 0) this.setRate(qp, attr.rateLimitKbps ?? 0, 0);
    if (to === C.IBV_QPS_ERR) {
      failQp(this.world, qp);
      qp.state = to;
      return;
    }
    // Requests that were posted in SQE are flushed, even if the event that flushes them is still to come.
    if (from === C.IBV_QPS_SQE) flushSends(this.world, qp);
    qp.state = to;
    noteState(this.world, qp);
    if (to === C.IBV_QPS_SQD && from !== to) {
      beginDrain(this.world, qp, (mask & C.IBV_QP_EN_SQD_ASYNC_NOTIFY) !== 0 && attr.enSqdAsyncNotify !== 0);
    }
    if (to === C.IBV_QPS_RTS) qp.drainNotify = false;
    if (to === C.IBV_QPS_RTS) tryStart(this.world, qp);
    runKickedPorts(this.world);
  }

  /**
   * Limits the sending rate of a queue pair, headers included, in units of 1000 bit/s; 0 removes the limit.
   * `burstBytes` may exceed the rate. @throws NoResourcesError when no limiter is free
   */
  setRate(qp: Qp, kbps: number, burstBytes: number): void {
    changeRate(this.world, qp, kbps, burstBytes);
    qp.attr.rateLimitKbps = kbps;
    runKickedPorts(this.world);
  }

  /**
   * Switches a host off: it sends and receives nothing from now on. Its listeners get IBV_EVENT_DEVICE_FATAL
   * and nothing after that.
   */
  kill(host: number): void {
    const { world } = this;
    if (world.hosts[host].dead) return;
    world.hooks.asyncEvent(host, C.IBV_EVENT_DEVICE_FATAL, 0);
    world.hosts[host].dead = true;
    world.noteLinks();
    if (!world.stoppable) return;
    // Packets waiting in its ports are discarded.
    for (const port of [world.ports[host * 2], world.ports[host * 2 + 1]]) world.kick(port);
    runKickedPorts(this.world);
  }

  /** Plugs or unplugs the cable of a host. */
  setLink(host: number, up: boolean): void {
    const { world } = this;
    if (world.hosts[host].linkUp === up) return;
    world.hosts[host].linkUp = up;
    world.noteLinks();
    if (!world.hosts[host].dead) {
      world.hooks.asyncEvent(host, up ? C.IBV_EVENT_PORT_ACTIVE : C.IBV_EVENT_PORT_ERR, 1);
    }
  }

  /** Pauses a stoppable port, or one class of it, after the packet on its wire, or resumes it. */
  setPaused(port: number, paused: boolean, cls: number = ALL_CLASSES): void {
    const it = this.world.ports[port] as StoppablePort;
    if (paused) it.pause(cls);
    else it.resume(cls);
    this.world.kick(it);
    runKickedPorts(this.world);
  }

  /** The uplink of a host has room again. */
  resume(host: number): void {
    const port = this.world.ports[host * 2];
    port.waiting = false;
    this.world.kick(port);
    runKickedPorts(this.world);
  }

  /**
   * A packet of the pool arrived from outside at `host`, from address `from` of the uplink, for a queue pair of this type
   * (IBV_QPT_*). The caller releases it. Returns false if it was dropped.
   */
  receive(host: number, from: number, type: number, p: number): boolean {
    const accepted = enterWorld(this.world, host, from, type, p);
    runKickedPorts(this.world);
    return accepted;
  }

  /**
   * Datagram `p` of the pool arrived from outside at `host`, for a multicast group. Returns the number of queue pairs of the
   * host that it was delivered to.
   */
  receiveGroup(host: number, group: Group, p: number): number {
    const count = enterGroup(this.world, host, group, p);
    runKickedPorts(this.world);
    return count;
  }

  /** Time of the next event; Infinity when there is none. */
  nextNs(): number {
    return this.nextQueue().headTime();
  }

  /** Writes nextNs() to `to[0]`: V8 allocates a double that a function returns. */
  readNextNs(to: Float64Array): void {
    this.nextQueue().readHeadTime(to);
  }

  /** The queue with the next event; the queue is empty when there is none. Removes stale timers that precede it. */
  private nextQueue(): EventQueue {
    const { events, timers } = this.world;
    return timers.size > 0 && timers.precedes(events) ? this.afterStaleTimers() : events;
  }

  /** The same, once a timer precedes all other events; separate, so that V8 inlines the common case. */
  private afterStaleTimers(): EventQueue {
    const { events, timers, qps } = this.world;
    while (timers.size > 0 && timers.precedes(events)) {
      const qp = qps[timers.headA()];
      // A due timer is a real event. A stale timer is queued again or dropped.
      const isEarly = qp !== undefined && timers.headPrecedes(qp.times, qp.row + DEADLINE);
      if (qp?.timerQueued && !isEarly) return timers;
      timers.pop();
      if (isEarly) queueTimerAgain(this.world, qp);
    }
    return events;
  }

  /** Runs one event. Returns false when the queue is empty. */
  step(): boolean {
    const events = this.nextQueue();
    if (events.size === 0 || events.headTime() === Number.POSITIVE_INFINITY) return false;
    this.execute(events);
    return true;
  }

  /** Runs one event if it is due at `timeNs` or earlier. Returns false otherwise. */
  stepBy(timeNs: number): boolean {
    const events = this.nextQueue();
    if (events.size === 0 || !(events.headTime() <= timeNs)) return false;
    this.execute(events);
    return true;
  }

  /** Executes the first event of a queue. */
  private execute(events: EventQueue): void {
    const { world } = this;
    events.pop();
    world.eventCount[0]++;
    // With a clock of its own, the world may have moved past the event.
    if (events.time > world.clock[0]) world.clock[0] = events.time;
    dispatch(world, events.kind, events.a, events.b, events.c);
    runKickedPorts(this.world);
    // An indexed loop: V8 allocates the iterator of for-of.
    if (world.greedy) for (let host = 0; host < world.units.length; host++) world.units[host].settle();
  }

  /** Runs all events that are due at the time of the clock. Allocates nothing. */
  runDue(): void {
    const { clock } = this.world;
    for (let queue = this.nextQueue(); queue.isDue(clock, 0); queue = this.nextQueue()) this.execute(queue);
  }

  /** Runs all events up to `timeNs` and sets the clock to it. */
  runUntil(timeNs: number): void {
    while (this.stepBy(timeNs));
    if (timeNs > this.world.clock[0]) this.world.clock[0] = timeNs;
  }

  /** Runs until the event queue is empty. */
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
}

/** Discards the completions of a queue pair. Those of an XRC_RECV belong to shared receive queues, and stay. */
function purge(qp: Qp): void {
  if (qp.type === C.IBV_QPT_XRC_RECV) return;
  qp.sendCq.purge(qp.qpn);
  qp.recvCq.purge(qp.qpn);
}
