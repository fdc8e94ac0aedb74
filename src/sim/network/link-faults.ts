/**
 * Link faults other than loss: late packets, which others overtake, and duplicates. Each link has its own
 * random streams for both, separate from the one for losses, so that enabling one fault leaves the others
 * unchanged. Duplicates are never late.
 */

import { EV_ACK, EV_LATE } from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import * as P from '../kernel/packets.ts';
import { RandomStream } from '../kernel/random.ts';
import type { World } from '../world.ts';
import { MULTICAST } from './address.ts';

const TWO32 = 4294967296;
/** Operands of atomics, which are not part of a packet's length. */
const OPERAND_BYTES = 32;

export class LinkFaults {
  /** Whether any link has such faults. */
  enabled = false;
  /** [0] packets and acknowledgements delayed, [1] duplicates created. */
  readonly counts = new Float64Array(2);
  /** By host: probabilities times 2^32, and the delay of a late packet. */
  private readonly reorder: Float64Array;
  private readonly delayNs: Float64Array;
  private readonly duplicate: Float64Array;
  private readonly reorders: RandomStream[] = [];
  private readonly duplicates: RandomStream[] = [];
  /** [0] delay of the packet drawn last. */
  private readonly late = new Float64Array(1);

  constructor(hosts: number, seed: number) {
    this.reorder = new Float64Array(hosts);
    this.delayNs = new Float64Array(hosts);
    this.duplicate = new Float64Array(hosts);
    for (let index = 0; index < hosts; index++) {
      this.reorders.push(new RandomStream(seed, 'reorder', index));
      this.duplicates.push(new RandomStream(seed, 'duplicate', index));
    }
  }

  /** Makes each packet crossing the link of this host late by `delayNs` with this probability. */
  setReorder(host: number, probability: number, delayNs: number): void {
    this.reorder[host] = probability * TWO32;
    this.delayNs[host] = delayNs;
    this.updateEnabled();
  }

  /** Duplicates each packet crossing the link of this host with this probability. */
  setDuplicate(host: number, probability: number): void {
    this.duplicate[host] = probability * TWO32;
    this.updateEnabled();
  }

  /** Draws whether a packet between two hosts is late, and sets `late`. Both links count. */
  private isLate(from: number, to: number): boolean {
    this.late[0] = 0;
    if (from === to) return false;
    this.drawLate(from);
    if (to !== MULTICAST) this.drawLate(to);
    if (this.late[0] === 0) return false;
    this.counts[0]++;
    return true;
  }

  private drawLate(host: number): void {
    if (!(this.reorder[host] > 0) || this.reorders[host].u32() >= this.reorder[host]) return;
    this.late[0] += this.delayNs[host];
  }

  private isDuplicated(from: number, to: number): boolean {
    if (from === to) return false;
    // Both links always draw, so that the outcome of one does not shift the other's random stream.
    const first = this.drawDuplicate(from);
    const second = to !== MULTICAST && this.drawDuplicate(to);
    if (!first && !second) return false;
    this.counts[1]++;
    return true;
  }

  private drawDuplicate(host: number): boolean {
    return this.duplicate[host] > 0 && this.duplicates[host].u32() < this.duplicate[host];
  }

  /** A duplicate of a packet about to arrive, or -1. */
  copyOf(world: World, p: number): number {
    const pool = world.packets;
    const from = world.qps[pool.source[p]]?.host ?? -1;
    if (from < 0 || !this.isDuplicated(from, destination(world, p))) return -1;
    return pool.copy(p, pool.length[p] + OPERAND_BYTES);
  }

  /** Whether a packet about to arrive is late. If so, schedules its arrival. */
  delays(world: World, p: number): boolean {
    const from = world.qps[world.packets.source[p]]?.host ?? -1;
    if (from < 0 || !this.isLate(from, destination(world, p))) return false;
    world.events.due[0] = world.clock[0] + this.late[0];
    world.events.push(EV_LATE, p, 0, 0);
    return true;
  }

  /** Schedules an acknowledgement due at events.due[0]: possibly late, possibly twice. */
  acknowledge(events: EventQueue, from: number, to: number, a: number, b: number, c: number) {
    const { due } = events;
    const again = this.isDuplicated(from, to);
    const dueNs = due[0];
    if (this.isLate(from, to)) due[0] += this.late[0];
    events.push(EV_ACK, a, b, c);
    if (!again) return;
    due[0] = dueNs;
    events.push(EV_ACK, a, b, c);
  }

  private updateEnabled(): void {
    this.enabled = this.reorder.some((x) => x > 0) || this.duplicate.some((x) => x > 0);
  }
}

/** The destination host of a packet; MULTICAST for a group, which has no single link. */
function destination(world: World, p: number): number {
  const pool = world.packets;
  if (pool.kind[p] === P.PKT_DATAGRAM) return pool.ah[p]?.peerHost ?? MULTICAST;
  return world.qps[pool.dest[p]]?.host ?? MULTICAST;
}
