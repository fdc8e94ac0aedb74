/**
 * The state that all parts of the simulation share: the clock, the event queue, the tables of objects and the
 * wires.
 */
import * as C from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import { EgressPort } from './egress/fifo-port.ts';
import { classSchedulerOf, type MakeQpScheduler, qpSchedulerOf } from './egress/make-scheduler.ts';
import { NicWeights } from './egress/palos/nic-weights.ts';
import type { Port } from './egress/port.ts';
import { Limiters } from './egress/rate-limiters.ts';
import { StoppablePort } from './egress/stoppable-port.ts';
import { LinkTags } from './egress/tassel/link-tags.ts';
import { PacedRound } from './egress/tassel/paced-round.ts';
import { UplinkPort } from './egress/uplink-port.ts';
import { DoubleRows } from './kernel/double-rows.ts';
import * as K from './kernel/event-kinds.ts';
import { EventQueue } from './kernel/event-queue.ts';
import * as P from './kernel/packets.ts';
import { PacketPool } from './kernel/packets.ts';
import { RandomStream } from './kernel/random.ts';
import * as T from './kernel/trace-hash.ts';
import { Trace } from './kernel/trace-hash.ts';
import { type Region, RegionTable } from './memory/memory.ts';
import type { Window } from './memory/memory-windows.ts';
import * as A from './network/address.ts';
import { type Ah, Groups } from './network/address.ts';
import { LinkFaults } from './network/link-faults.ts';
import { SwitchNetwork } from './network/switches.ts';
import type { Layout } from './network/topology.ts';
import type { PartialMessage, Uplink } from './network/uplink.ts';
import * as U from './network/uplink.ts';
import { CommandQueue } from './nic/command-queue.ts';
import { NicCaches } from './nic/context-caches.ts';
import { Pcie } from './nic/pcie.ts';
import { Units } from './nic/processing-units.ts';
import { Receiver, receiverWaits } from './nic/receive-pipeline.ts';
import type { NicParams } from './profile/params.ts';
import type { Cq } from './queues/cq.ts';
import type { Srq } from './queues/srq.ts';
import type { Qp, Sender } from './transport/qp.ts';
import * as Q from './transport/qp.ts';
import * as R from './transport/request-info.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { sendingLevel } = R;
const { isRemote } = U;
const { IBV_QPS_ERR, IBV_WC_SUCCESS } = C;
const { WC_RECV_SIDE } = L;
const { EV_ACK, EV_COMPLETION, EV_CQ_OVERFLOW } = K;
const { PKT_ACK } = P;
const { TRACE_ACK, TRACE_COMPLETION, TRACE_LOST, TRACE_PACKET } = T;
const { MULTICAST } = A;
const { RESPONSE_END, RUNS } = Q;

/** A machine with one NIC on one link. */
export interface Host {
  readonly index: number;
  /** Whether the host is switched off, so that it sends and receives nothing. */
  dead: boolean;
  linkUp: boolean;
  /** Bytes per packet at most: the port's active MTU. */
  mtuBytes: number;
  /** Probability that its link loses a packet or an acknowledgement, in either direction, times 2^32. */
  lossThreshold: number;
  readonly random: RandomStream;
  readonly pcie: Pcie;
  readonly limiters: Limiters;
  /** Null unless its scheduler uses weights. */
  readonly weights: NicWeights | null;
  readonly caches: NicCaches;
  readonly receiver: Receiver;
  readonly commands: CommandQueue;
}

/** Callbacks out of the simulation. They run inside events and must not post requests. */
export interface WorldHooks {
  /** An armed completion queue raised its event. */
  completionEvent(cq: Cq): void;
  /** The delay of a `call` is over. */
  call(token: number): void;
  /** A deadline of this alarm has passed. */
  alarm(number: number): void;
  /**
   * A host raised an asynchronous event. `element` is the handle of the queue pair, completion queue or
   * shared receive queue concerned, a port number, or 0 for the device.
   */
  asyncEvent(host: number, event: number, element: number): void;
  /** An application inside the simulation is due to run. */
  actor(actor: number, b: number): void;
  /** Functions that look up objects by the handles in work requests. */
  cqOf(handle: number): Cq | undefined;
  qpOf(handle: number): Qp | undefined;
  ahOf(handle: number): Ah | undefined;
  windowOf(handle: number): Window | undefined;
  regionOf(handle: number): Region | undefined;
}

const TWO32 = 4294967296;

export class World {
  readonly params: Readonly<NicParams>;
  readonly events = new EventQueue();
  /**
   * Retry timers, which rarely fire: each waiting queue pair has one, and among other events they would deepen the heap. Their
   * order among events of the same time is that of `events`.
   */
  readonly timers = new EventQueue();
  readonly packets = new PacketPool();
  readonly regions: RegionTable;
  /** [0] the current time in nanoseconds. */
  readonly clock = new Float64Array(1);
  /** [0] how far the posting CPU is ahead of the clock; set by applications inside the simulation. */
  readonly cpuAhead = new Float64Array(1);
  readonly trace = new Trace(this.clock);
  readonly hosts: Host[] = [];
  /** Whether any host is dead, unplugged or loses packets. */
  private linksFail = false;
  /** Two ports per host: the link, then the loopback. */
  readonly ports: Port[] = [];
  /** Whether all ports are StoppablePorts; otherwise all are EgressPorts. */
  readonly stoppable: boolean;
  /** The tags of each port; empty unless Tassel is the rate limiter. */
  private readonly linkTags: LinkTags[] = [];
  /** Indexed by number. Numbers are unique across all hosts and never reused. */
  readonly qps: (Qp | undefined)[] = [undefined];
  readonly cqs: (Cq | undefined)[] = [undefined];
  /** For the rows of queue pairs that send (Qp.runs). */
  readonly runRows = new DoubleRows(RUNS);
  readonly srqs: (Srq | undefined)[] = [undefined];
  readonly groups = new Groups();
  readonly windows: (Window | undefined)[] = [undefined];
  readonly faults: LinkFaults;
  /** Whether packets can ever wait in a receiver. */
  readonly receives: boolean;
  private readonly agentRandom: RandomStream;
  /** Whether payload bytes are copied. Timing does not depend on it. */
  readonly payload: boolean;
  hooks: WorldHooks;
  /** Number of events so far that an application could observe: completions made visible, calls and alarms. */
  observable = 0;
  /** [0] events processed so far. */
  readonly eventCount = new Float64Array(1);
  /** Packets [0] admitted and [1] dropped so far. */
  readonly packetCount = new Float64Array(2);
  /** [0] congestion notifications sent so far. */
  readonly cnpCount = new Float64Array(1);
  /** The switches between the hosts; null when there are none. */
  readonly switchNetwork: SwitchNetwork | null;
  /**
   * Bytes of an acknowledgement on the wire; 0 when it is not a packet. With switches it always is one, or it
   * would overtake data.
   */
  private readonly ackBytes: number;
  /** Indexed by host; empty when the number of processing units is unlimited. */
  readonly units: Units[] = [];
  /** Whether a unit keeps its queue pair while that queue pair sends. */
  readonly greedy: boolean;
  /** [0] duration of the step that began most recently. */
  readonly stepNs = new Float64Array(1);
  /** [0] earliest departure of the most recent packet: its payload has arrived by then. */
  readonly notBefore = new Float64Array(1);
  /** Ports to serve when the current event is done. */
  readonly kicked: Port[] = [];
  private readonly makeQpScheduler: MakeQpScheduler;
  /** The real network that replaces the hosts' cables; null: there is none. */
  private readonly uplink: Uplink | null;
  /** By number of the queue pair: the messages of peers outside of the simulation that have arrived in part. */
  readonly partials: PartialMessage[] = [];
  /** Whether a scheduler distinguishes senders with work from others. */
  private readonly reportsWork: boolean;
  /** Ports whose scheduler holds back a waiting packet. */
  readonly held: StoppablePort[] = [];

  constructor(
    params: Readonly<NicParams>,
    hostCount: number,
    seed: number,
    payload: boolean,
    hooks: WorldHooks,
    layout: Layout | null = null,
    makeQpScheduler: MakeQpScheduler = qpSchedulerOf,
    uplink: Uplink | null = null,
  ) {
    this.params = params;
    this.uplink = uplink;
    this.payload = payload;
    this.regions = new RegionTable(
      (region, sign) => this.hosts[region.host].caches.count(region, sign),
      payload,
    );
    this.agentRandom = new RandomStream(seed, 'agents');
    this.hooks = hooks;
    this.greedy = params.scheduler === 'greedy';
    this.makeQpScheduler = makeQpScheduler;
    this.stoppable = classSchedulerOf(params).classes > 1 || (layout !== null && params.pfcXoffBytes > 0);
    this.faults = new LinkFaults(hostCount, seed);
    this.receives = receiverWaits(params);
    for (let index = 0; index < hostCount; index++) {
      const pcie = new Pcie(params, this.clock, new RandomStream(seed, 'pcie', index));
      this.hosts.push({
        index,
        dead: false,
        linkUp: true,
        mtuBytes: params.mtuBytes,
        lossThreshold: 0,
        random: new RandomStream(seed, 'loss', index),
        limiters: new Limiters(params, new RandomStream(seed, 'limiter', index)),
        weights: params.scheduler === 'palos' ? new NicWeights(params, this.clock) : null,
        pcie,
        caches: new NicCaches(params, pcie, this.clock),
        receiver: new Receiver(params, this.clock),
        commands: new CommandQueue(this.clock),
      });
      if (Number.isFinite(params.processingUnits)) this.units.push(new Units(this, index));
      for (const gbps of [params.linkGbps, params.loopbackGbps]) {
        this.ports.push(this.makePort(gbps, this.hosts[index].weights));
      }
    }
    this.reportsWork = this.stoppable || this.ports.some((port) => port.schedulerOf(0)?.began !== undefined);
    this.switchNetwork = layout === null ? null : new SwitchNetwork(this, layout, seed);
    this.ackBytes = params.ackBytes > 0 || layout === null ? params.ackBytes : params.headerBytes;
    if (this.switchNetwork === null) return;
    for (const port of this.ports) if (isLink(port)) port.setOneWay(this.switchNetwork.entryNs);
  }

  private makePort(gbps: number, weights: NicWeights | null): Port {
    const { params, clock } = this;
    const id = this.ports.length;
    let make = () => this.makeQpScheduler(params, weights);
    if (params.rateLimiter === 'tassel') {
      const tags = new LinkTags(id, gbps, clock, this.events);
      this.linkTags.push(tags);
      make = () => new PacedRound(params, tags, this.makeQpScheduler(params, weights));
    }
    const { uplink } = this;
    if (uplink !== null && (id & 1) === 0) {
      return new UplinkPort(id, params, clock, make(), uplink, this.packets);
    }
    if (!this.stoppable) return new EgressPort(id, params, gbps, clock, make());
    return new StoppablePort(id, params, gbps, clock, classSchedulerOf(params), make);
  }

  /** Raises an affiliated asynchronous event (IBV_EVENT_*) unless the host is dead. */
  raise(event: number, about: { readonly host: number; readonly handle: number }): void {
    if (!this.hosts[about.host].dead) this.hooks.asyncEvent(about.host, event, about.handle);
  }

  get nowNs(): number {
    return this.clock[0];
  }

  setLoss(host: Host, probability: number): void {
    host.lossThreshold = probability * TWO32;
    this.noteLinks();
  }

  /** The state of a host or of its link changed. */
  noteLinks(): void {
    this.linksFail = this.hosts.some((host) => host.dead || !host.linkUp || host.lossThreshold > 0);
  }

  /** The egress port through which a connected queue pair sends. */
  portOf(qp: Qp): Port {
    return this.ports[qp.host * 2 + (qp.peerHost === qp.host ? 1 : 0)];
  }

  /** The tags of that port; null: Tassel is not the rate limiter. */
  tagsOf(qp: Qp): LinkTags | null {
    return this.linkTags.length === 0 ? null : this.linkTags[this.portOf(qp).id];
  }

  /** The tags of a port. Tassel must be the rate limiter. */
  tagsOfPort(port: number): LinkTags {
    return this.linkTags[port];
  }

  /** Adds a sender that has packets to the round of its port. */
  join(sender: Sender): void {
    const port = this.portOf(sender.qp);
    port.join(sender);
    if (!port.waiting) this.kick(port);
  }

  /** Puts a port on the list to serve when the current event is done. */
  kick(port: Port): void {
    if (port.kicked) return;
    port.kicked = true;
    this.kicked.push(port);
  }

  /** Reports that a sender has work, so that strict schedulers keep the wire free for it. */
  began(sender: Sender): void {
    if (!this.reportsWork) return;
    const level = sendingLevel(sender);
    if (level >= 0) this.portOf(sender.qp).began(sender, level);
  }

  /**
   * Sends the packet of this queue pair that the port just admitted. Its traced PSN counts from `basePsn`.
   */
  launch(port: Port, p: number, qp: Qp, basePsn: number, toHost: number): void {
    const pool = this.packets;
    this.packetCount[0]++;
    const from = this.hosts[port.id >> 1];
    const psn = (pool.psn[p] - basePsn) & 0xffffff;
    qp.departures?.add(port.busyUntil, from.index, psn, pool.length[p], port.lastBytes);
    if (this.isLost(from, toHost)) {
      this.packetCount[1]++;
      this.trace.add(TRACE_LOST, qp.qpn, psn);
      pool.outside[p] = null;
      pool.release(p);
      return;
    }
    this.trace.add(TRACE_PACKET, qp.qpn, psn);
    if (this.switchNetwork !== null && isLink(port))
      this.switchNetwork.tag(p, port.lastBytes, from.index, toHost);
    port.send(p, this.events);
  }

  /** Sends an acknowledgement, which never overtakes the responses of its queue pair. */
  acknowledge(qp: Qp, psn: number, syndrome: number, peerEpoch: number): void {
    const from = this.hosts[qp.host];
    const lost = this.isLost(from, qp.peerHost);
    this.trace.add(lost ? TRACE_LOST : TRACE_ACK, qp.qpn, (psn - qp.rqBasePsn) & 0xffffff);
    if (lost) return;
    // An acknowledgement without bandwidth must not overtake responses either.
    if (this.ackBytes > 0 || qp.repliesInPort > 0) {
      this.sendAckPacket(qp, psn, syndrome, peerEpoch);
      return;
    }
    const at = this.clock[0] + this.params.ackReturnNs;
    const after = qp.times[qp.row + RESPONSE_END] + this.params.propagationNs;
    this.events.due[0] = Math.max(at, after);
    const what = psn | (syndrome << 24);
    if (this.faults.enabled)
      this.faults.acknowledge(this.events, qp.host, qp.peerHost, qp.peer, what, peerEpoch);
    else this.events.push(EV_ACK, qp.peer, what, peerEpoch);
  }

  /** Acknowledgements skip the round: they join the end of the port's FIFO even when it is full. */
  private sendAckPacket(qp: Qp, psn: number, syndrome: number, peerEpoch: number): void {
    const pool = this.packets;
    const p = pool.take();
    pool.kind[p] = PKT_ACK;
    pool.flags[p] = 0;
    pool.source[p] = qp.qpn;
    pool.epoch[p] = qp.epoch;
    pool.dest[p] = qp.peer;
    pool.psn[p] = psn;
    pool.length[p] = 0;
    pool.imm[p] = syndrome;
    pool.rkey[p] = peerEpoch;
    const port = this.portOf(qp);
    this.notBefore[0] = 0;
    if (this.switchNetwork !== null && isLink(port))
      this.switchNetwork.tag(p, this.ackBytes, qp.host, qp.peerHost);
    if (this.stoppable) {
      const stoppable = port as StoppablePort;
      stoppable.enqueue(p, this.ackBytes, stoppable.classOf(qp.sl), this.notBefore);
      this.kick(port);
      return;
    }
    (port as EgressPort).admit(this.ackBytes, this.notBefore);
    port.send(p, this.events);
  }

  /** Writes a completion, which becomes visible a little later. */
  complete(
    cq: Cq,
    idLo: number,
    idHi: number,
    op: number,
    byteLen: number,
    imm: number,
    qp: Qp,
    seq: number,
    solicited: boolean,
  ): void {
    if (this.hosts[cq.host].dead) return;
    const first = !cq.overflowed;
    const failed = (op & 0xff) !== IBV_WC_SUCCESS;
    this.trace.add(TRACE_COMPLETION, qp.qpn, seq ^ (op & WC_RECV_SIDE));
    if (
      cq.overflowed ||
      !cq.write(idLo, idHi, op, byteLen, imm, qp, seq, failed ? op & 0xff : qp.srcQp, solicited)
    ) {
      // Each queue pair that loses a completion fails, also one that begins to use the queue later.
      if (first || qp.state !== IBV_QPS_ERR) {
        this.events.due[0] = this.clock[0];
        this.events.push(EV_CQ_OVERFLOW, cq.id, qp.qpn, qp.epoch);
      }
      return;
    }
    if (cq.stamped) cq.stamp(this.clock[0]);
    const { pcie } = this.hosts[cq.host];
    let from = this.clock[0];
    if (!pcie.free) {
      pcie.write(this.params.cqeBytes);
      from = pcie.done[0];
    }
    this.events.due[0] = from + this.params.cqeWriteNs;
    this.events.push(EV_COMPLETION, cq.id, 0, 0);
  }

  /** Draws whether the links of the two hosts lose the packet that is sent now. */
  isLost(from: Host, toIndex: number): boolean {
    const isCertain = !this.linksFail && toIndex >= 0 && toIndex < this.hosts.length;
    return !isCertain && this.drawLoss(from, toIndex);
  }

  private drawLoss(from: Host, toIndex: number): boolean {
    if (from.dead) return true;
    if (from.index === toIndex) return false;
    if (isRemote(toIndex)) return !from.linkUp || drops(from);
    const to = this.hosts[toIndex];
    // Each copy of a multicast packet is drawn separately behind the first switch (losesArrival).
    if (to === undefined) return toIndex !== MULTICAST || !from.linkUp || drops(from);
    if (to.dead || !from.linkUp || !to.linkUp) return true;
    return drops(from) || drops(to);
  }

  /** Draws whether a message of a policy's agent is lost. */
  losesAgentMessage(): boolean {
    const { agentLoss } = this.params;
    return agentLoss > 0 && this.agentRandom.next() < agentLoss;
  }

  /** Draws whether the link of this host loses its copy of a multicast packet from `fromIndex`. */
  losesArrival(fromIndex: number, toIndex: number): boolean {
    const to = this.hosts[toIndex];
    // The sending NIC hands copies to its own queue pairs without using the link.
    if (fromIndex === toIndex) return to.dead;
    return to.dead || !to.linkUp || drops(to);
  }
}

/** Loopback ports have odd numbers. */
function isLink(port: Port): boolean {
  return (port.id & 1) === 0;
}

function drops(host: Host): boolean {
  return host.lossThreshold > 0 && host.random.u32() < host.lossThreshold;
}
