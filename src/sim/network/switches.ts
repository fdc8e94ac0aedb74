/**
 * Store-and-forward switches with one FIFO per egress port and one buffer shared by all ports. Without PFC, a
 * queue may grow to the size of the free buffer (dynamic thresholds of Choudhury and Hahne, alpha 1), and
 * packets beyond that are dropped. With PFC, none are dropped. A packet costs three events per switch and
 * cable: it leaves the pipeline, it leaves the port, it arrives.
 */

import { EV_PAUSE } from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import { CONGESTED, type PacketPool } from '../kernel/packets.ts';
import type { NicParams } from '../profile/params.ts';
import { PauseThresholds } from './pfc.ts';
import {
  DROPPED_BYTES,
  DROPS,
  EcnMarker,
  IN_BYTES,
  MARKS,
  OUT_BYTES,
  OUT_PACKETS,
  PAUSES,
  Switch,
  SwitchPort,
} from './switch-port.ts';
import type { Layout } from './topology.ts';

/** The part of the world that switches need. */
export interface SwitchEnvironment {
  readonly params: Readonly<NicParams>;
  readonly events: EventQueue;
  readonly packets: PacketPool;
  readonly clock: Float64Array;
  readonly packetCount: Float64Array;
}

export class SwitchNetwork {
  readonly layout: Layout;
  readonly switches: Switch[] = [];
  /** The ports of all switches. */
  readonly ports: SwitchPort[] = [];
  /** By packet: size on the wire, sending host, receiving host, ingress port of its current switch. */
  private bytes = new Int32Array(0);
  private senders = new Int32Array(0);
  private receivers = new Int32Array(0);
  private ingress = new Int32Array(0);
  private readonly environment: SwitchEnvironment;

  /** @throws ConfigError when the buffer of a switch is too small for PFC on its ports */
  constructor(world: SwitchEnvironment, layout: Layout, seed: number) {
    this.environment = world;
    this.layout = layout;
    const { params } = world;
    // Without congestion control, packets are not ECN-capable (RFC 3168) and never marked.
    const marked = params.congestionControl !== 'none' && params.ecnKminBytes > 0;
    for (let s = 0; s < layout.switches; s++) {
      const count = layout.portsOf(s);
      const pause = params.pfcXoffBytes > 0 ? new PauseThresholds(params, count) : null;
      const sw = new Switch(s, this.ports.length, params.switchBufferBytes, pause);
      this.switches.push(sw);
      for (let i = 0; i < count; i++) {
        const { host } = layout.endOf(s, i);
        const delayNs = params.propagationNs + (host >= 0 ? params.rxNs : params.switchNs);
        const id = this.ports.length;
        const ecn = marked ? new EcnMarker(params, seed, id) : null;
        this.ports.push(new SwitchPort(id, sw, host, params.linkGbps, delayNs, ecn));
      }
    }
    for (const port of this.ports) {
      if (port.host >= 0) continue;
      const end = layout.endOf(port.sw.index, port.id - port.sw.base);
      port.peer = this.portAt(end.switch, end.port);
    }
  }

  /** Delay of a host's cable beyond wire time: its packets end in a switch. */
  get entryNs(): number {
    return this.environment.params.propagationNs + this.environment.params.switchNs;
  }

  portAt(sw: number, port: number): SwitchPort {
    return this.ports[this.switches[sw].base + port];
  }

  /** The switch port to which a host is connected. */
  portOfHost(host: number): SwitchPort {
    const leaf = this.layout.leafOf(host);
    return this.portAt(leaf, this.layout.route(leaf, host, host));
  }

  /** Time between two hosts for a packet of this size on an idle path. */
  emptyPathNs(from: number, to: number, bytes: number): number {
    const { propagationNs, switchNs, rxNs, linkGbps } = this.environment.params;
    const switches = this.layout.switchesBetween(from, to);
    return (switches + 1) * (propagationNs + (bytes * 8) / linkGbps) + switches * switchNs + rxNs;
  }

  /** Records what switches need to know of a packet that a host sends. */
  tag(p: number, bytes: number, from: number, to: number): void {
    if (p >= this.bytes.length) this.grow(p);
    this.bytes[p] = bytes;
    this.senders[p] = from;
    this.receivers[p] = to;
  }

  /** Records the same for a duplicate. */
  tagCopy(copy: number, p: number): void {
    this.tag(copy, this.bytes[p], this.senders[p], this.receivers[p]);
  }

  sizeOf(p: number): number {
    return this.bytes[p];
  }

  senderOf(p: number): number {
    return this.senders[p];
  }

  receiverOf(p: number): number {
    return this.receivers[p];
  }

  /** A packet passed the pipeline of the switch behind its ingress port. */
  receive(port: SwitchPort, p: number): void {
    const { events, clock, packets, packetCount } = this.environment;
    const { sw } = port;
    const bytes = this.bytes[p];
    const out = this.ports[sw.base + this.layout.route(sw.index, this.senders[p], this.receivers[p])];
    port.counts[IN_BYTES] += bytes;
    if (sw.pause === null && out.queuedBytes + bytes > sw.bufferBytes - sw.used - bytes) {
      out.counts[DROPS]++;
      out.counts[DROPPED_BYTES] += bytes;
      packetCount[1]++;
      packets.release(p);
      return;
    }
    if (out.ecn?.marks(out.queuedBytes)) {
      packets.flags[p] |= CONGESTED;
      out.counts[MARKS]++;
    }
    sw.used = (sw.used + bytes) | 0;
    if (sw.used > sw.maxUsed) sw.maxUsed = sw.used;
    out.queuedBytes = (out.queuedBytes + bytes) | 0;
    if (out.queuedBytes > out.maxQueuedBytes) out.maxQueuedBytes = out.queuedBytes;
    this.ingress[p] = port.id;
    port.heldBytes = (port.heldBytes + bytes) | 0;
    if (port.heldBytes > port.maxHeldBytes) port.maxHeldBytes = port.heldBytes;
    if (sw.pause !== null && !port.pausing && port.heldBytes > sw.pause.xoffBytes) this.pause(port, true);
    out.push(p);
    if (!out.busy && !out.paused) out.begin(bytes, events, clock);
  }

  /** The last bit of the packet at the head of a port's queue has left. */
  departed(id: number): void {
    const { events, clock } = this.environment;
    const out = this.ports[id];
    const { sw } = out;
    const p = out.shift();
    const bytes = this.bytes[p];
    out.busy = false;
    out.counts[OUT_BYTES] += bytes;
    out.counts[OUT_PACKETS]++;
    sw.used = (sw.used - bytes) | 0;
    out.queuedBytes = (out.queuedBytes - bytes) | 0;
    const port = this.ports[this.ingress[p]];
    port.heldBytes = (port.heldBytes - bytes) | 0;
    if (port.pausing && sw.pause !== null && port.heldBytes <= sw.pause.xonBytes) this.pause(port, false);
    out.send(p, events, clock);
    this.proceed(out);
  }

  /** Takes the packet at the end of a port's cable. Returns -1 when a switch received it. */
  hop(id: number): number {
    const out = this.ports[id];
    const p = out.arrived(this.environment.events);
    if (out.peer === null) return p;
    this.receive(out.peer, p);
    return -1;
  }

  /** Pauses a port of a switch after the packet being sent, or resumes it. */
  setPaused(port: SwitchPort, paused: boolean): void {
    port.paused = paused;
    this.proceed(port);
  }

  private proceed(out: SwitchPort): void {
    if (out.busy || out.paused || out.empty) return;
    out.begin(this.bytes[out.head], this.environment.events, this.environment.clock);
  }

  /** Sends a pause frame. It takes the propagation delay and never waits for a packet. */
  private pause(port: SwitchPort, paused: boolean): void {
    const { events, clock, params } = this.environment;
    port.pausing = paused;
    if (paused) port.counts[PAUSES]++;
    events.due[0] = clock[0] + params.propagationNs;
    events.push(EV_PAUSE, port.id, paused ? 1 : 0, 0);
  }

  private grow(p: number): void {
    const size = Math.max(64, 2 ** Math.ceil(Math.log2(p + 1)));
    for (const column of ['bytes', 'senders', 'receivers', 'ingress'] as const) {
      const larger = new Int32Array(size);
      larger.set(this[column]);
      this[column] = larger;
    }
  }
}
