/**
 * A port of a switch in both directions: the egress queue with its cable, and the share of the switch's buffer used by
 * packets that arrived here.
 */

import { EV_HOP, EV_SWITCH_OUT } from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import { RandomStream } from '../kernel/random.ts';
import type { NicParams } from '../profile/params.ts';
import { Flight } from './flight.ts';
import type { PauseThresholds } from './pfc.ts';

// Indexes of SwitchPort.counts.
/** Bytes and packets sent. */
export const OUT_BYTES = 0;
export const OUT_PACKETS = 1;
/** Packets and bytes dropped for lack of room. */
export const DROPS = 2;
export const DROPPED_BYTES = 3;
export const MARKS = 4;
/** Pause frames sent to the other end. */
export const PAUSES = 5;
/** Bytes received, including dropped ones. */
export const IN_BYTES = 6;

/** A switch. All its ports share one buffer. */
export class Switch {
  readonly index: number;
  /** Number of its first port. */
  readonly base: number;
  readonly bufferBytes: number;
  /** Null without PFC. */
  readonly pause: PauseThresholds | null;
  used = 0;
  maxUsed = 0;

  constructor(index: number, base: number, bufferBytes: number, pause: PauseThresholds | null) {
    this.index = index;
    this.base = base;
    this.bufferBytes = bufferBytes;
    this.pause = pause;
  }
}

export class SwitchPort {
  /** Unique across all switches. */
  readonly id: number;
  readonly sw: Switch;
  /** Host at the other end of the cable; -1 for a switch. */
  readonly host: number;
  /** Port at the other end of the cable; null for a host. */
  peer: SwitchPort | null = null;
  /** Bytes in the egress queue, including the packet being sent. */
  queuedBytes = 0;
  maxQueuedBytes = 0;
  /** Whether a packet is being sent. */
  busy = false;
  /** Whether the other end of the cable requested a pause. */
  paused = false;
  /** Bytes in the switch that arrived through this port. */
  heldBytes = 0;
  maxHeldBytes = 0;
  /** Whether this port requested a pause from the other end. */
  pausing = false;
  /** Null if packets are not ECN-marked. */
  readonly ecn: EcnMarker | null;
  readonly counts = new Float64Array(7);
  /** Wire time per byte, and delay from the last bit sent to the next station. */
  private readonly nsPerByte: number;
  private readonly delayNs: number;
  /** The egress queue: a ring of packets. */
  private packets = new Int32Array(64);
  private first = 0;
  private length = 0;
  private readonly flight = new Flight();

  constructor(id: number, sw: Switch, host: number, gbps: number, delayNs: number, ecn: EcnMarker | null) {
    this.id = id;
    this.sw = sw;
    this.host = host;
    this.nsPerByte = 8 / gbps;
    this.delayNs = delayNs;
    this.ecn = ecn;
  }

  get empty(): boolean {
    return this.length === 0;
  }

  get head(): number {
    return this.packets[this.first];
  }

  push(p: number): void {
    if (this.length === this.packets.length) this.grow();
    this.packets[(this.first + this.length) & (this.packets.length - 1)] = p;
    this.length = (this.length + 1) | 0;
  }

  shift(): number {
    const p = this.packets[this.first];
    this.first = (this.first + 1) & (this.packets.length - 1);
    this.length = (this.length - 1) | 0;
    return p;
  }

  /** Starts sending the packet at the head. */
  begin(bytes: number, events: EventQueue, clock: Float64Array): void {
    this.busy = true;
    events.due[0] = clock[0] + bytes * this.nsPerByte;
    events.push(EV_SWITCH_OUT, this.id, 0, 0);
  }

  /** Puts a packet on the cable when its last bit has left. */
  send(p: number, events: EventQueue, clock: Float64Array): void {
    events.due[0] = clock[0] + this.delayNs;
    events.reserve();
    this.flight.add(p, events.due);
    if (this.flight.count === 1) events.insert(EV_HOP, this.id, 0, 0);
  }

  /** Takes the packet that reached the other end of the cable. */
  arrived(events: EventQueue): number {
    const p = this.flight.take(events.due);
    if (this.flight.count > 0) events.insert(EV_HOP, this.id, 0, 0);
    return p;
  }

  private grow(): void {
    const { packets: ring, first } = this;
    const larger = new Int32Array(ring.length * 2);
    for (let i = 0; i < this.length; i++) larger[i] = ring[(first + i) & (ring.length - 1)];
    this.packets = larger;
    this.first = 0;
  }
}

const TWO32 = 4294967296;

export class EcnMarker {
  private readonly kminBytes: number;
  private readonly kmaxBytes: number;
  /** Probability per byte above Kmin, times 2^32. */
  private readonly slope: number;
  private readonly random: RandomStream;

  constructor(params: Readonly<NicParams>, seed: number, port: number) {
    this.kminBytes = params.ecnKminBytes;
    this.kmaxBytes = Math.max(params.ecnKmaxBytes, params.ecnKminBytes);
    this.slope = (params.ecnPmax * TWO32) / (this.kmaxBytes - this.kminBytes);
    this.random = new RandomStream(seed, 'ecn', port);
  }

  marks(queueBytes: number): boolean {
    if (queueBytes <= this.kminBytes) return false;
    if (queueBytes >= this.kmaxBytes) return true;
    return this.random.u32() < (queueBytes - this.kminBytes) * this.slope;
  }
}
