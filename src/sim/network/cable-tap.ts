/**
 * Taps the cables of a simulation: an observer learns of each packet that a host or a switch puts on a cable. A tap replaces
 * methods of the objects of one world. Worlds without a tap are unchanged, so it costs them nothing.
 */
import type { Port } from '../egress/port.ts';
import * as P from '../kernel/packets.ts';
import { TRACE_CNP } from '../kernel/trace-hash.ts';
import type { Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import { CNP_BYTES } from './dcqcn.ts';
import type { SwitchPort } from './switch-port.ts';
import type { SwitchNetwork } from './switches.ts';

/** For Transmission.packet: a congestion notification, which is no packet of the pool. */
export const NOTIFICATION = -1;
/** For Transmission.to: the cables of all hosts with members of a group. */
export const EVERYWHERE = -1;

/**
 * A packet on a cable, valid during the call. The ends of cables have numbers: first those at hosts, by host, then those at
 * switches, by SwitchPort.id.
 */
export interface Transmission {
  /** Its row in the pool of packets; NOTIFICATION. */
  packet: number;
  /** The queue pair that sent it, and the host it is for (MULTICAST for a group). */
  source: Qp;
  toHost: number;
  /** The ends of the cable. */
  from: number;
  to: number;
  /** When its first and its last bit leave, and when the last bit arrives. */
  startNs: number;
  leftNs: number;
  arrivesNs: number;
  /** Its size in the model, with headers and gap. */
  wireBytes: number;
  /** It never arrives. */
  isLost: boolean;
}

/** Observes cables. */
export interface CableObserver {
  sent(transmission: Transmission): void;
}

/** The names of the ends of all cables, by number: 'host0', 'switch0.3'. */
export function cableEnds({ hosts, switchNetwork }: World): string[] {
  const ofSwitches = switchNetwork?.ports.map(({ id, sw }) => `switch${sw.index}.${id - sw.base}`) ?? [];
  return [...hosts.map(({ index }) => `host${index}`), ...ofSwitches];
}

/** Calls the observer for each packet on a cable from now on; loopbacks inside of NICs are no cables. */
export function tapCables(world: World, observer: CableObserver): void {
  const tap = new CableTap(world, observer);
  tap.tapLoss();
  tap.tapHosts();
  if (world.switchNetwork !== null) for (const port of world.switchNetwork.ports) tap.tapSwitchPort(port);
}

class CableTap {
  private readonly world: World;
  private readonly observer: CableObserver;
  private readonly now: Transmission;
  /** What world.isLost drew last. */
  private isLost = false;
  /** The queue pair whose NIC is about to send a congestion notification. */
  private notifier: Qp | undefined;

  constructor(world: World, observer: CableObserver) {
    this.world = world;
    this.observer = observer;
    // The source is set before each call.
    this.now = { packet: 0, toHost: 0, from: 0, to: 0, isLost: false, wireBytes: 0 } as Transmission;
    Object.assign(this.now, { startNs: 0, leftNs: 0, arrivesNs: 0 });
  }

  /** Remembers each draw of whether a packet is lost, and reports congestion notifications, which are drawn too. */
  tapLoss(): void {
    const { world } = this;
    const { trace } = world;
    const isLost = world.isLost.bind(world);
    const add = trace.add.bind(trace);
    trace.add = (kind, qp, psn) => {
      add(kind, qp, psn);
      if (kind === TRACE_CNP) this.notifier = world.qps[qp];
    };
    world.isLost = (from, to) => {
      this.isLost = isLost(from, to);
      if (this.notifier !== undefined) this.notification(this.notifier);
      this.notifier = undefined;
      return this.isLost;
    };
  }

  /** Reports what hosts send. */
  tapHosts(): void {
    const { world } = this;
    const launch = world.launch.bind(world);
    world.launch = (port, p, qp, basePsn, toHost) => {
      launch(port, p, qp, basePsn, toHost);
      // The row of a packet that was lost has been released, but not reused.
      this.fromPort(port, p, qp, toHost, this.isLost);
    };
    this.tapAcknowledgements();
    for (const port of world.ports) {
      const send = port.send.bind(port);
      port.send = (p, events) => {
        const { kind, source } = world.packets;
        const qp = kind[p] === P.PKT_ACK ? world.qps[source[p]] : undefined;
        if (qp !== undefined) this.fromPort(port, p, qp, qp.peerHost, false);
        send(p, events);
      };
    }
  }

  /** Reports acknowledgements that are not packets, as if they were: those that take no bandwidth, and lost ones. */
  private tapAcknowledgements(): void {
    const { world } = this;
    const { packets: pool, events, clock } = world;
    const acknowledge = world.acknowledge.bind(world);
    world.acknowledge = (qp, psn, syndrome, peerEpoch) => {
      const { live } = pool;
      acknowledge(qp, psn, syndrome, peerEpoch);
      if (pool.live !== live || qp.peerHost === qp.host) return;
      const p = pool.take();
      pool.kind[p] = P.PKT_ACK;
      pool.flags[p] = 0;
      pool.source[p] = qp.qpn;
      pool.dest[p] = qp.peer;
      pool.psn[p] = psn;
      pool.length[p] = 0;
      pool.imm[p] = syndrome;
      const leftNs = this.isLost ? 0 : events.due[0] - world.params.propagationNs;
      this.fromHost(p, qp, qp.peerHost, Math.max(clock[0], leftNs), world.params.ackBytes, this.isLost);
      pool.release(p);
    };
  }

  /** A packet leaves the port of a host, the last bit at port.busyUntil. */
  private fromPort(port: Port, p: number, qp: Qp, toHost: number, isLost: boolean): void {
    if ((port.id & 1) === 0) this.fromHost(p, qp, toHost, port.busyUntil, port.lastBytes, isLost);
  }

  private fromHost(p: number, qp: Qp, toHost: number, leftNs: number, bytes: number, isLost: boolean): void {
    const { world, now } = this;
    const { switchNetwork } = world;
    const host = world.hosts[qp.host];
    if (host.dead || !host.linkUp) return;
    now.packet = p;
    now.source = qp;
    now.toHost = toHost;
    now.from = qp.host;
    now.to = switchNetwork === null ? Math.max(toHost, EVERYWHERE) : this.endAt(switchNetwork, qp.host);
    now.wireBytes = bytes;
    now.isLost = isLost;
    this.report(leftNs, leftNs + world.params.propagationNs);
  }

  /** The number of the switch's end of a host's cable. */
  private endAt(switchNetwork: SwitchNetwork, host: number): number {
    return this.world.hosts.length + switchNetwork.portOfHost(host).id;
  }

  /** Congestion notifications take the time of an idle path, past the queues of switches. */
  private notification(qp: Qp): void {
    const { world, now } = this;
    now.packet = NOTIFICATION;
    now.source = qp;
    now.toHost = now.to = qp.peerHost;
    now.from = qp.host;
    now.wireBytes = CNP_BYTES;
    now.isLost = this.isLost;
    const delayNs = world.switchNetwork?.emptyPathNs(qp.host, qp.peerHost, CNP_BYTES) ?? 0;
    this.report(world.clock[0], world.clock[0] + delayNs - world.params.rxNs);
  }

  /** Reports what a switch sends. */
  tapSwitchPort(port: SwitchPort): void {
    const { world, now } = this;
    const { packets: pool, hosts } = world;
    const send = port.send.bind(port);
    port.send = (p, events, clock) => {
      const qp = world.qps[pool.source[p]];
      send(p, events, clock);
      if (qp === undefined) return;
      now.packet = p;
      now.source = qp;
      now.toHost = world.switchNetwork?.receiverOf(p) ?? 0;
      now.from = hosts.length + port.id;
      now.to = port.peer === null ? port.host : hosts.length + port.peer.id;
      now.wireBytes = world.switchNetwork?.sizeOf(p) ?? 0;
      now.isLost = false;
      this.report(clock[0], clock[0] + world.params.propagationNs);
    };
  }

  private report(leftNs: number, arrivesNs: number): void {
    const { now } = this;
    now.leftNs = leftNs;
    now.startNs = leftNs - (now.wireBytes * 8) / this.world.params.linkGbps;
    now.arrivesNs = arrivesNs;
    this.observer.sent(now);
  }
}
