/**
 * A cycle model of Tassel's scheduler (APNet 2023, sections 3.1 and 3.2) at 250 MHz. It stands alone: queue pairs,
 * doorbells, rates and credits go in, packets come out. In each tick, in this order:
 *
 * 1. System time advances.
 * 2. The WQEs of a fetch that began a PCIe round trip ago arrive. The packets that start within the coming period are
 *    tagged and enter the timing wheel; the other WQEs are dropped and fetched again (3.2.3).
 * 3. The P-heap begins an operation, if it may: it takes in a queue pair, or gives out one that is due (3.1.1).
 * 4. The head of the schedule queue is fetched.
 * 5. Packets whose start time has come move from the wheel to the list ordered by finish time.
 * 6. If the link is idle, the first of that list leaves (3.1.3).
 *
 * The stages between the schedule queue and the wheel count as part of the PCIe round trip of 1 us. Ticks without any
 * work are skipped; the result is the same as without. Limits of the paper's structure:
 *
 * - A queue pair has one fetch at a time, of at most n packets. It reaches n packets/us, so n = 8 requires packets of
 *   1563 B for 100 Gbps. One that falls behind its rate for that reason catches up later with larger packets. Its rate
 *   counts in Phi nevertheless: others do not get what it leaves of the link while Phi is above 1.
 * - Packets are in order of finish times only among the k descriptors. When thousands of queue pairs are due at once,
 *   the others wait in the schedule queue, first come, first served.
 * - The P-heap has one place per queue pair and cannot delete. An entry that a higher rate outdates stays until its
 *   time; a queue pair has at most one of them. If there is no place for a new entry, the queue pair goes round the
 *   schedule queue, which costs fetches, not accuracy.
 */
import { InvalidArgumentError } from '../../verbs/errors.ts';
import { Descriptors } from './descriptors.ts';
import { FinishList } from './finish-list.ts';
import { FlowTags, TICK_NS } from './flow-tags.ts';
import { KEY_OF_MINIMUM, OPERATION_CYCLES, PHeap } from './p-heap.ts';
import { type PacketSizes, SendQueues } from './send-queues.ts';
import { isAfter, PART, SystemTime } from './system-time.ts';
import { TimingWheel, WHEEL_SLOTS } from './timing-wheel.ts';

/** The PCIe round trip, which is the scheduling period: 1 us. */
export const PERIOD_TICKS = WHEEL_SLOTS;

/** Cycles between two packets on the wire (3.2.2), and between two visits, which take two operations of the P-heap. */
const PACKET_TICKS = 4;
const VISIT_TICKS = 2 * OPERATION_CYCLES;

/** Cycles by which a dormant queue pair is woken earlier: for the P-heap, and another visit that comes first. */
const WAKE_TICKS = OPERATION_CYCLES + VISIT_TICKS + 2;

/** What the model is given; the paper's values are the defaults. */
export interface SchedulerOptions extends Partial<PacketSizes> {
  /** Number of queue pairs, from 0. */
  readonly queuePairs: number;
  readonly linkBps?: number;
  /** n: the most WQEs that a visit fetches, and packets that it tags. */
  readonly wqesPerVisit?: number;
  /** k. */
  readonly descriptors?: number;
  readonly time?: SystemTime;
}

/** Called when a packet leaves, at `scheduler.tick[0]`. `bytes` are those on the wire. It must not call back. */
export type OnDeparture = (qp: number, bytes: number) => void;

// Scheduling states of a queue pair (3.2.1).
/** It has WQEs. */
const ACTIVE = 1;
/** It is not in the schedule queue, being fetched, or dormant. */
const READY = 2;
const CREDITS = 4;
const SCHEDULABLE = ACTIVE | READY | CREDITS;
/** Its next packet starts now at the earliest, because it could not send before. */
const FRESH = 8;
/** It waits until the P-heap takes it in. */
const TO_HEAP = 16;
/** It is dormant: its next packet starts after the coming period. */
const DORMANT = 32;
/** Its rate counts in Phi: it has packets to send, or packets that have not left. */
const COUNTED = 64;
/** An entry of the P-heap is valid, and one is not any more. */
const IN_HEAP = 128;
const STALE = 256;

export class TasselScheduler {
  /** [0] ticks since the beginning. */
  readonly tick = new Float64Array(1);
  readonly time: SystemTime;
  readonly heap: PHeap;
  /** Fetches so far, of which some found no urgent packet. */
  fetches = 0;
  protected readonly tags: FlowTags;
  private readonly linkBps: number;
  private readonly wqesPerVisit: number;
  private readonly onDeparture: OnDeparture;
  private readonly queues: SendQueues;
  private readonly wheel: TimingWheel;
  private readonly descriptors: Descriptors;
  private readonly finishList: FinishList;
  private readonly states: Uint16Array;
  /** 0 or 1: of the two entries that a queue pair may have, the valid one has this version. */
  private readonly versions: Uint8Array;
  /** Key of the valid entry of queue pair q, at index 2q. */
  private readonly heapKeys: Float64Array;
  /** Packets in the wheel and in the list. */
  private readonly inTimeline: Int32Array;
  private readonly credits: Float64Array;
  private readonly scheduleQueue: QpRing;
  private readonly toHeap: QpRing;
  private readonly fetching: QpRing;
  private readonly fetchTicks: Float64Array;
  private readonly activation = new Float64Array(2);
  /** [0] the tick of the next fetch at the earliest; of the latest packet [1] the tick, and [2] how long it occupies the link. */
  private readonly link = new Float64Array([0, -PACKET_TICKS, 0]);
  private readonly ticksPerByte: number;

  constructor(options: SchedulerOptions, onDeparture: OnDeparture) {
    const { queuePairs, linkBps = 100e9, descriptors = 60 } = options;
    const { mtuBytes = 4096, headerBytes = 82, rethBytes = 16 } = options;
    this.linkBps = linkBps;
    this.ticksPerByte = 8e9 / linkBps / TICK_NS;
    this.wqesPerVisit = options.wqesPerVisit ?? 8;
    this.onDeparture = onDeparture;
    this.time = options.time ?? new SystemTime(linkBps);
    this.tags = new FlowTags(queuePairs, this.time);
    this.queues = new SendQueues(queuePairs, { mtuBytes, headerBytes, rethBytes });
    this.wheel = new TimingWheel(this.time);
    this.heap = new PHeap(queuePairs);
    this.descriptors = new Descriptors(descriptors, PERIOD_TICKS);
    this.finishList = new FinishList(descriptors, this.descriptors);
    this.states = new Uint16Array(queuePairs).fill(READY | CREDITS | FRESH);
    this.versions = new Uint8Array(queuePairs);
    this.heapKeys = new Float64Array(2 * queuePairs);
    this.inTimeline = new Int32Array(queuePairs);
    this.credits = new Float64Array(queuePairs).fill(Number.POSITIVE_INFINITY);
    this.scheduleQueue = new QpRing(queuePairs);
    this.toHeap = new QpRing(queuePairs);
    this.fetching = new QpRing(Math.ceil(PERIOD_TICKS / VISIT_TICKS) + 1);
    this.fetchTicks = new Float64Array(queuePairs);
    this.tags.rateBps.fill(linkBps);
  }

  /** A doorbell: a queue pair has more messages, of this many bytes each. */
  doorbell(qp: number, messages: number, bytes: number): void {
    if (!(messages >= 0 && Number.isInteger(messages) && bytes >= 0 && Number.isInteger(bytes))) {
      throw new InvalidArgumentError(
        `a doorbell requires whole numbers of messages and bytes, got ${messages} and ${bytes}`,
      );
    }
    this.queues.post(qp, messages, bytes);
    if (this.queues.isEmpty(qp)) return;
    this.states[qp] |= ACTIVE;
    this.schedule(qp);
  }

  /** Sets the rate of a queue pair, in bit/s on the wire. Packets in the wheel keep their times, for at most 1 us. */
  setRate(qp: number, bps: number): void {
    if (!(bps >= 1 && bps <= this.linkBps)) {
      throw new InvalidArgumentError(
        `the rate of a queue pair must be from 1 bit/s to the ${this.linkBps} of the link, got ${bps}`,
      );
    }
    const rate = Math.round(bps);
    if ((this.states[qp] & COUNTED) !== 0) this.time.addRate(rate - this.tags.rateBps[qp]);
    this.rekey(qp, rate);
  }

  /** Sets the number of packets that congestion control lets a queue pair send. Infinity: no limit. */
  setCredits(qp: number, packets: number): void {
    if (!(packets >= 0)) {
      throw new InvalidArgumentError(`credits must be a number of packets of at least 0, got ${packets}`);
    }
    this.credits[qp] = Math.floor(packets);
    if (packets < 1) {
      this.states[qp] = (this.states[qp] | FRESH) & ~CREDITS;
      this.uncount(qp);
      return;
    }
    this.states[qp] |= CREDITS;
    this.schedule(qp);
  }

  /** Runs all ticks up to and including this one. */
  runUntil(tick: number): void {
    while (this.tick[0] < tick) {
      const ticks = Math.min(1 + this.idleTicks(), tick - this.tick[0]);
      this.tick[0] += ticks;
      this.time.advance(ticks);
      this.step();
    }
  }

  /** Ticks to come in which certainly nothing happens. */
  protected idleTicks(): number {
    const now = this.tick[0];
    const { link, heap } = this;
    if (this.finishList.count > 0 && this.linkFreeTick() <= now + 1) return 0;
    let next = Number.POSITIVE_INFINITY;
    if (this.finishList.count > 0) next = this.linkFreeTick();
    if (this.scheduleQueue.count > 0) next = Math.min(next, link[0]);
    if (this.fetching.count > 0) next = Math.min(next, this.fetchTicks[this.fetching.first]);
    if (this.toHeap.count > 0) next = Math.min(next, heap.freeCycle);
    let idle = Math.min(next - now - 1, this.wheel.ticksBefore());
    if (heap.count > 0) {
      // Until the wake-up of the first: its key, less a lead that is shorter in system time than in ticks.
      const due = this.time.ticksBefore(heap.keys, KEY_OF_MINIMUM) - PERIOD_TICKS - WAKE_TICKS - 2;
      idle = Math.min(idle, Math.max(due, heap.freeCycle - now - 1));
    }
    return Math.max(0, idle);
  }

  /** The packets not yet in the wheel take the new rate, and the dormant queue pair wakes up accordingly. */
  protected rekey(qp: number, rate: number): void {
    this.tags.setRate(qp, rate);
    if ((this.states[qp] & DORMANT) !== 0) this.sleep(qp);
  }

  private step(): void {
    if (this.fetching.count > 0 && this.fetchTicks[this.fetching.first] <= this.tick[0]) {
      this.visit(this.fetching.shift());
    }
    if (this.heap.freeCycle <= this.tick[0]) this.operateHeap();
    if (this.scheduleQueue.count > 0 && this.link[0] <= this.tick[0]) this.fetchWqes();
    const { wheel, finishList } = this;
    for (let d = wheel.takeDue(); d >= 0; d = wheel.takeDue()) finishList.add(d);
    if (finishList.count > 0 && this.linkFreeTick() <= this.tick[0]) this.transmit();
  }

  /** EMUX: an event changed the states of a queue pair, which joins the schedule queue if all of them allow it. */
  private schedule(qp: number): void {
    const state = this.states[qp];
    if ((state & (ACTIVE | CREDITS | COUNTED)) === (ACTIVE | CREDITS)) {
      this.states[qp] |= COUNTED;
      this.time.addRate(this.tags.rateBps[qp]);
    }
    if ((state & SCHEDULABLE) !== SCHEDULABLE) return;
    this.states[qp] &= ~READY;
    this.scheduleQueue.push(qp);
  }

  /** Begins to fetch the WQEs of the queue pair at the head. */
  private fetchWqes(): void {
    const qp = this.scheduleQueue.shift();
    this.fetches++;
    this.fetchTicks[qp] = this.tick[0] + PERIOD_TICKS;
    this.fetching.push(qp);
    this.link[0] = this.tick[0] + VISIT_TICKS;
  }

  /** WQEs have arrived: tags urgent packets and puts them into the wheel, drops the others. */
  private visit(qp: number): void {
    const { states, queues, tags, activation } = this;
    this.time.after(PERIOD_TICKS, activation, 0);
    if ((states[qp] & FRESH) !== 0) {
      states[qp] &= ~FRESH;
      tags.begin(qp);
    }
    let tagged = 0;
    while (tagged < this.wqesPerVisit && !queues.isEmpty(qp) && this.tagPacket(qp)) tagged++;
    states[qp] |= READY;
    // A queue pair that would be due before the P-heap had taken it in does not go there.
    this.time.after(PERIOD_TICKS + WAKE_TICKS, activation, 0);
    if (queues.isEmpty(qp)) states[qp] = (states[qp] | FRESH) & ~ACTIVE;
    else if (this.credits[qp] < 1) states[qp] = (states[qp] | FRESH) & ~CREDITS;
    else if (tagged < this.wqesPerVisit && isAfter(tags.finish, 2 * qp, activation, 0)) this.sleep(qp);
    else this.schedule(qp);
    if (this.inTimeline[qp] === 0) this.uncount(qp);
  }

  /** Tags the next packet and puts it into the wheel; false when it must wait for another visit. */
  private tagPacket(qp: number): boolean {
    const { tags, descriptors } = this;
    if (this.credits[qp] < 1 || isAfter(tags.finish, 2 * qp, this.activation, 0)) return false;
    const d = descriptors.take(this.tick);
    if (d < 0) return false;
    if (!this.wheel.insert(d, tags.finish, 2 * qp)) {
      descriptors.untake(d);
      return false;
    }
    const bytes = this.queues.packetBytes(qp);
    this.queues.takePacket(qp);
    tags.charge(qp, bytes);
    descriptors.qp[d] = qp;
    descriptors.bytes[d] = bytes;
    descriptors.finish[2 * d] = tags.finish[2 * qp];
    descriptors.finish[2 * d + PART] = tags.finish[2 * qp + PART];
    this.inTimeline[qp]++;
    this.credits[qp]--;
    return true;
  }

  /** A queue pair is dormant until its next packet starts within the coming period. */
  private sleep(qp: number): void {
    const state = this.states[qp];
    this.states[qp] = (state | DORMANT) & ~READY;
    if ((state & TO_HEAP) !== 0) return;
    // An entry that is due earlier wakes it up as well; then it sleeps again.
    if ((state & IN_HEAP) !== 0 && !isAfter(this.heapKeys, 2 * qp, this.tags.finish, 2 * qp)) return;
    this.states[qp] |= TO_HEAP;
    this.toHeap.push(qp);
  }

  private operateHeap(): void {
    const { heap } = this;
    if (this.toHeap.count > 0) this.enqueue(this.toHeap.shift());
    else if (heap.count > 0) {
      this.time.after(PERIOD_TICKS + WAKE_TICKS, this.activation, 0);
      if (!isAfter(heap.keys, KEY_OF_MINIMUM, this.activation, 0)) this.dequeue();
    }
  }

  private enqueue(qp: number): void {
    const { states, heap } = this;
    const { finish } = this.tags;
    const state = states[qp];
    states[qp] &= ~TO_HEAP;
    if ((state & DORMANT) === 0) return;
    if (heap.isFull || ((state & IN_HEAP) !== 0 && (state & STALE) !== 0)) {
      this.wake(qp);
      return;
    }
    if ((state & IN_HEAP) !== 0) {
      states[qp] |= STALE;
      this.versions[qp] ^= 1;
    }
    states[qp] |= IN_HEAP;
    this.heapKeys[2 * qp] = finish[2 * qp];
    this.heapKeys[2 * qp + PART] = finish[2 * qp + PART];
    heap.enqueue(qp, this.versions[qp], finish, 2 * qp, this.tick[0]);
  }

  private dequeue(): void {
    const { states, heap } = this;
    const qp = heap.first;
    const isValid = heap.firstVersion === this.versions[qp];
    heap.dequeue(this.tick[0]);
    states[qp] &= isValid ? ~IN_HEAP : ~STALE;
    if (!isValid || (states[qp] & (DORMANT | TO_HEAP)) !== DORMANT) return;
    if (isAfter(this.tags.finish, 2 * qp, this.activation, 0)) this.sleep(qp);
    else this.wake(qp);
  }

  private wake(qp: number): void {
    this.states[qp] = (this.states[qp] | READY) & ~DORMANT;
    this.schedule(qp);
  }

  /** The link is idle: the packet with the smallest finish time leaves. */
  private transmit(): void {
    const { descriptors, link } = this;
    const d = this.finishList.take();
    const qp = descriptors.qp[d];
    const bytes = descriptors.bytes[d];
    // The deduced state keeps fractions of a tick, which the link's own buffer makes up for.
    link[2] = Math.max(link[2] - (this.tick[0] - link[1]), -1) + bytes * this.ticksPerByte;
    link[1] = this.tick[0];
    descriptors.left(d, this.tick);
    this.inTimeline[qp]--;
    if (this.inTimeline[qp] === 0 && (this.states[qp] & (ACTIVE | CREDITS)) !== (ACTIVE | CREDITS))
      this.uncount(qp);
    this.onDeparture(qp, bytes);
  }

  /** The tick from which the link is idle. */
  private linkFreeTick(): number {
    return this.link[1] + Math.max(PACKET_TICKS, Math.ceil(this.link[2]));
  }

  /** A queue pair has nothing to send any more, or may not. */
  private uncount(qp: number): void {
    if ((this.states[qp] & COUNTED) === 0 || this.inTimeline[qp] > 0) return;
    if ((this.states[qp] & (ACTIVE | CREDITS)) === (ACTIVE | CREDITS)) return;
    this.states[qp] &= ~COUNTED;
    this.time.addRate(-this.tags.rateBps[qp]);
  }
}

/** A FIFO of queue pairs; each is in it at most once. */
class QpRing {
  count = 0;
  private readonly qps: Int32Array;
  private head = 0;

  constructor(size: number) {
    this.qps = new Int32Array(size);
  }

  get first(): number {
    return this.qps[this.head];
  }

  push(qp: number): void {
    let i = this.head + this.count++;
    if (i >= this.qps.length) i -= this.qps.length;
    this.qps[i] = qp;
  }

  shift(): number {
    const qp = this.qps[this.head];
    if (++this.head === this.qps.length) this.head = 0;
    this.count--;
    return qp;
  }
}
