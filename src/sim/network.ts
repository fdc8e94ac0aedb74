/** What the parts of the simulation share: the clock, the event queue, the tables of objects, the wires. */
import * as C from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import { type Ah, EVERYBODY, Groups } from './address.ts';
import type { Cq } from './cq.ts';
import { EgressPort } from './egress.ts';
import { EventQueue } from './events.ts';
import { EV_COMPLETION, EV_CQ_OVERFLOW } from './kinds.ts';
import { type Region, RegionTable } from './memory.ts';
import { PacketPool } from './packets.ts';
import type { NicParams } from './params.ts';
import { type Qp, RESPONSE_END, type Sender } from './qp.ts';
import { RandomStream } from './random.ts';
import type { Srq } from './srq.ts';
import { TRACE_ACK, TRACE_COMPLETION, TRACE_LOST, TRACE_PACKET, Trace } from './trace.ts';
import type { Window } from './windows.ts';

/** A machine with one NIC on one link. */
export interface Host {
  readonly index: number;
  /** Nothing leaves it and nothing arrives. */
  dead: boolean;
  linkUp: boolean;
  /** Probability of loss on its link, of each packet and acknowledgement in either direction, times 2^32. */
  lossThreshold: number;
  readonly random: RandomStream;
}

/** What the outside may hear of. Called from events: they must not call back into the simulation's posts. */
export interface NetworkHooks {
  /** An armed completion queue has its event. */
  completionEvent(cq: Cq): void;
  /** Something that was scheduled with `call` is due. */
  call(token: number): void;
  /**
   * An asynchronous event of a host: `element` is the handle of the queue pair, completion queue or shared
   * receive queue that it is about, a port number, or 0 for the device.
   */
  raised(host: number, event: number, element: number): void;
  /** An application inside the simulation is due. */
  actor(actor: number, b: number): void;
  /** Objects by the handles that work requests name. */
  cqOf(handle: number): Cq | undefined;
  qpOf(handle: number): Qp | undefined;
  ahOf(handle: number): Ah | undefined;
  windowOf(handle: number): Window | undefined;
  regionOf(handle: number): Region | undefined;
}

const TWO32 = 4294967296;

export class Network {
  readonly params: Readonly<NicParams>;
  readonly events = new EventQueue();
  readonly packets = new PacketPool();
  readonly regions = new RegionTable();
  /** [0] now, in nanoseconds. */
  readonly clock = new Float64Array(1);
  readonly trace = new Trace(this.clock);
  readonly hosts: Host[] = [];
  /** Two of each host: the link and the loopback. */
  readonly ports: EgressPort[] = [];
  /** By number; numbers are unique in the whole network and never come back. */
  readonly qps: (Qp | undefined)[] = [undefined];
  readonly cqs: (Cq | undefined)[] = [undefined];
  readonly srqs: (Srq | undefined)[] = [undefined];
  readonly groups = new Groups();
  readonly windows: (Window | undefined)[] = [undefined];
  /** Whether payload bytes are moved; timing does not depend on it. */
  readonly payload: boolean;
  hooks: NetworkHooks;
  /** Things that an application could see, so far: completions made visible and calls. */
  observable = 0;
  /** Packets admitted and dropped since the beginning. */
  readonly packetCount = new Float64Array(2);
  /** Ports whose round is to be run when the current event is done. */
  readonly kicked: EgressPort[] = [];

  constructor(
    params: Readonly<NicParams>,
    hostCount: number,
    seed: number,
    payload: boolean,
    hooks: NetworkHooks,
  ) {
    this.params = params;
    this.payload = payload;
    this.hooks = hooks;
    for (let index = 0; index < hostCount; index++) {
      this.hosts.push({
        index,
        dead: false,
        linkUp: true,
        lossThreshold: 0,
        random: new RandomStream(seed, 'loss', index),
      });
      for (const gbps of [params.linkGbps, params.loopbackGbps]) {
        this.ports.push(new EgressPort(this.ports.length, params, gbps, this.clock));
      }
    }
  }

  /** Raises an affiliated asynchronous event (IBV_EVENT_*), unless its host is no more. */
  raise(event: number, about: { readonly host: number; readonly handle: number }): void {
    if (!this.hosts[about.host].dead) this.hooks.raised(about.host, event, about.handle);
  }

  get nowNs(): number {
    return this.clock[0];
  }

  setLoss(host: Host, probability: number): void {
    host.lossThreshold = probability * TWO32;
  }

  /** The egress port that a connected queue pair sends through. */
  portOf(qp: Qp): EgressPort {
    return this.ports[qp.host * 2 + (qp.peerHost === qp.host ? 1 : 0)];
  }

  /** A sender has packets: it joins the round of its port. */
  join(sender: Sender): void {
    const port = this.portOf(sender.qp);
    port.join(sender);
    if (port.waiting || port.kicked) return;
    port.kicked = true;
    this.kicked.push(port);
  }

  /** Sends a packet of this queue pair that was just admitted to a port; its PSN counts from `basePsn`. */
  launch(port: EgressPort, p: number, qp: Qp, basePsn: number): void {
    const pool = this.packets;
    this.packetCount[0]++;
    const from = this.hosts[port.id >> 1];
    const psn = (pool.psn[p] - basePsn) & 0xffffff;
    if (this.isLost(from, qp.peerHost)) {
      this.packetCount[1]++;
      this.trace.add(TRACE_LOST, qp.qpn, psn);
      pool.release(p);
      return;
    }
    this.trace.add(TRACE_PACKET, qp.qpn, psn);
    port.send(p, this.events);
  }

  /** Sends an acknowledgement event; it never overtakes the responses of its queue pair. */
  acknowledge(qp: Qp, kind: number, psn: number, syndrome: number, peerEpoch: number): void {
    const from = this.hosts[qp.host];
    const lost = this.isLost(from, qp.peerHost);
    this.trace.add(lost ? TRACE_LOST : TRACE_ACK, qp.qpn, (psn - qp.rqBasePsn) & 0xffffff);
    if (lost) return;
    const at = this.clock[0] + this.params.ackReturnNs;
    const after = qp.times[RESPONSE_END] + this.params.oneWayNs;
    this.events.due[0] = Math.max(at, after);
    this.events.push(kind, qp.peer, psn | (syndrome << 24), peerEpoch);
  }

  /** Writes a completion; it becomes visible a little later. */
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
    const failed = (op & 0xff) !== C.IBV_WC_SUCCESS;
    this.trace.add(TRACE_COMPLETION, qp.qpn, seq ^ (op & L.WC_RECV_SIDE));
    if (
      cq.overflowed ||
      !cq.write(idLo, idHi, op, byteLen, imm, qp, seq, failed ? op & 0xff : qp.srcQp, solicited)
    ) {
      if (first) {
        this.events.due[0] = this.clock[0];
        this.events.push(EV_CQ_OVERFLOW, cq.id, 0, 0);
      }
      return;
    }
    if (cq.stamped) cq.stamp(this.clock[0]);
    this.events.due[0] = this.clock[0] + this.params.cqeWriteNs;
    this.events.push(EV_COMPLETION, cq.id, 0, 0);
  }

  private isLost(from: Host, toIndex: number): boolean {
    if (from.dead) return true;
    if (from.index === toIndex) return false;
    const to = this.hosts[toIndex];
    // A copy for everybody is on its own from the switch on (losesArrival).
    if (to === undefined) return toIndex !== EVERYBODY || !from.linkUp || drops(from);
    if (to.dead || !from.linkUp || !to.linkUp) return true;
    return drops(from) || drops(to);
  }

  /** Whether a packet for everybody, which left `fromIndex`, is lost on the link of this host. */
  losesArrival(fromIndex: number, toIndex: number): boolean {
    const to = this.hosts[toIndex];
    // The NIC that sent it hands copies to its own queue pairs.
    if (fromIndex === toIndex) return to.dead;
    return to.dead || !to.linkUp || drops(to);
  }
}

function drops(host: Host): boolean {
  return host.lossThreshold > 0 && host.random.u32() < host.lossThreshold;
}
