/**
 * Tassel as the rate limiter of a NIC (`rateLimiter: 'tassel'`): start and finish times of the packets of all limited
 * queue pairs of a port, in its system time. Rates are exact to a tick of 4 ns, and every queue pair has a limiter. The
 * arithmetic is that of the cycle model (../../tassel). A queue pair is limited by a verb, by congestion control, or by
 * both; then the lower rate counts. Congestion control limits requests and responses to READs, a verb only requests.
 *
 * What differs from the cycle model: the NIC of the simulation has its own fetches of WQEs and its own FIFO, so that
 * wheel and P-heap are one exact heap here, and no descriptor is ever missing.
 */
import { fitColumn } from '../../../shim/tables.ts';
import { EV_TAGS } from '../../kernel/event-kinds.ts';
import type { EventQueue } from '../../kernel/event-queue.ts';
import { FlowTags, TICK_NS } from '../../tassel/flow-tags.ts';
import { PERIOD_TICKS } from '../../tassel/scheduler.ts';
import { PART, SystemTime } from '../../tassel/system-time.ts';
import { type Qp, ROLE_REQUEST, type Sender } from '../../transport/qp.ts';
import { hasWork } from '../../transport/request-info.ts';
import { IdList } from '../palos/id-list.ts';
import { TurnOrder } from '../palos/turn-order.ts';

const NONE = -1;

/** Where packets of limited queue pairs wait after their start time; told when a queue pair ends. */
export interface EligiblePackets {
  drop(member: number): void;
}

/** The limited queue pairs of a port, by member number. */
export class LinkTags {
  readonly time: SystemTime;
  private readonly port: number;
  private readonly clock: Float64Array;
  private readonly events: EventQueue;
  private readonly tags: FlowTags;
  private readonly qps: (Qp | null)[] = [];
  private readonly freeMembers: number[] = [];
  private readonly eligible: EligiblePackets[] = [];
  /** By member: the limit set by a verb, in bit/s. Infinity: none. */
  private limits: Float64Array = new Float64Array(16);
  /** By member: whether any rate applies, and whether it counts in Phi. */
  private isLimited: Uint8Array = new Uint8Array(16);
  private isActive: Uint8Array = new Uint8Array(16);
  /** Members whose next packet may not start yet, by start time. */
  private readonly held = new TurnOrder();
  /** Active members that have sent their packet, until they have another one. */
  private readonly away = new IdList();
  /** [0] the tick up to which system time has advanced; [1] the time of the pending event, in ns. */
  private readonly times = new Float64Array(2);
  /** [0] a rate in Gbit/s. */
  private readonly gbps = new Float64Array(1);

  constructor(port: number, linkGbps: number, clock: Float64Array, events: EventQueue) {
    this.port = port;
    this.clock = clock;
    this.events = events;
    this.time = new SystemTime(Math.round(linkGbps * 1e9));
    this.tags = new FlowTags(16, this.time);
  }

  addEligible(packets: EligiblePackets): void {
    this.eligible.push(packets);
  }

  /** Sets the limit of a queue pair, in units of 1000 bit/s (0: none), which acts at once. */
  limit(qp: Qp, kbps: number): void {
    const member = this.memberOf(qp);
    this.limits[member] = kbps === 0 ? Number.POSITIVE_INFINITY : kbps * 1000;
    this.rateChanged(qp);
  }

  /** The limit or congestion control of a queue pair has changed. */
  rateChanged(qp: Qp): void {
    const member = this.memberOf(qp);
    this.advance();
    this.updateRate(member);
    if (this.held.has(member)) this.requeue(member);
    this.arm();
  }

  /** A queue pair is reset or destroyed. */
  release(qp: Qp): void {
    const member = qp.tagMember;
    if (member === NONE || this.qps[member] !== qp) return;
    this.advance();
    this.deactivate(member);
    this.held.remove(member);
    for (const packets of this.eligible) packets.drop(member);
    this.qps[member] = null;
    this.freeMembers.push(member);
    qp.tagMember = NONE;
    this.arm();
  }

  /** Whether the next packet of a sender, which has one, may go now. */
  mayGo(sender: Sender): boolean {
    const member = this.memberOf(sender.qp);
    this.advance();
    this.updateRate(member);
    if (!this.isPaced(sender)) return true;
    this.away.remove(member);
    if (this.isActive[member] === 0) {
      this.isActive[member] = 1;
      this.time.addRate(this.tags.rateBps[member]);
      this.tags.begin(member);
    }
    return this.tags.isEligible(member);
  }

  /** Holds back a sender whose packet may not go: the port gets EV_TAGS when it may. */
  hold(sender: Sender): void {
    const member = sender.qp.tagMember;
    if (!this.held.has(member)) this.requeue(member);
    this.arm();
  }

  /** Takes a queue pair that is held back no longer; null: none. */
  takeDue(): Qp | null {
    this.advance();
    const { held } = this;
    const member = held.first;
    if (member !== NONE && (this.isLimited[member] === 0 || this.tags.isEligible(member))) {
      held.remove(member);
      this.leave(member);
      return this.qps[member];
    }
    this.arm();
    return null;
  }

  /** A packet was admitted to the port; `bytes` counts its headers. */
  count(sender: Sender, bytes: number): void {
    const member = sender.qp.tagMember;
    if (this.isActive[member] === 0 || !this.isPaced(sender)) return;
    this.advance();
    this.tags.charge(member, bytes);
    this.tags.limitLag(member, PERIOD_TICKS);
    this.leave(member);
    this.dropIdle();
  }

  /** A member has sent its packet, or has none any more. It is away until mayGo() is asked about the next one. */
  leave(member: number): void {
    if (this.isActive[member] === 1 && !this.away.has(member)) this.away.add(member);
  }

  /** Whether a rate applies to a sender. */
  isPaced({ qp, role }: Sender): boolean {
    const member = qp.tagMember;
    if (member === NONE || this.isLimited[member] === 0) return false;
    return role === ROLE_REQUEST || qp.congestion?.limiting === true;
  }

  /** Writes the finish time of a packet of this many bytes to `out[i]`, in ticks of system time. */
  readFinish(member: number, bytes: number, out: Float64Array, i: number): void {
    const { finish, rateBps } = this.tags;
    const ticks = (bytes * 8e9) / TICK_NS / rateBps[member];
    out[i] = finish[2 * member] + finish[2 * member + PART] / 2 ** 32 + ticks;
  }

  /** The member of a queue pair, which may be new on this port. */
  private memberOf(qp: Qp): number {
    if (qp.tagMember !== NONE && this.qps[qp.tagMember] === qp) return qp.tagMember;
    const member = this.freeMembers.pop() ?? this.qps.length;
    this.qps[member] = qp;
    this.tags.fit(member);
    this.limits = fitColumn(this.limits, member);
    this.isLimited = fitColumn(this.isLimited, member);
    this.isActive = fitColumn(this.isActive, member);
    this.held.fit(member);
    this.away.fit(member);
    this.limits[member] = Number.POSITIVE_INFINITY;
    this.isLimited[member] = 0;
    this.tags.rateBps[member] = 1;
    this.tags.finish.fill(0, 2 * member, 2 * member + 2);
    qp.tagMember = member;
    return member;
  }

  /** Brings system time to the tick of the clock. */
  private advance(): void {
    const { times } = this;
    const tick = Math.floor(this.clock[0] / TICK_NS);
    if (tick === times[0]) return;
    this.time.advance(tick - times[0]);
    times[0] = tick;
  }

  private updateRate(member: number): void {
    const { congestion } = this.qps[member] as Qp;
    let bps = this.limits[member];
    if (congestion !== null) {
      congestion.catchUp(this.clock);
      congestion.readRate(this.gbps);
      bps = Math.min(bps, Math.round(this.gbps[0] * 1e9));
    }
    if (bps === Number.POSITIVE_INFINITY) {
      this.deactivate(member);
      this.isLimited[member] = 0;
      return;
    }
    this.isLimited[member] = 1;
    const { rateBps } = this.tags;
    if (rateBps[member] === bps) return;
    if (this.isActive[member] === 1) this.time.addRate(bps - rateBps[member]);
    this.tags.setRate(member, bps);
  }

  /** Puts a member where its start time belongs among those held back. */
  private requeue(member: number): void {
    const { held } = this;
    held.due[member] = this.tags.finish[2 * member];
    held.place[member] = this.tags.finish[2 * member + PART];
    if (held.has(member)) held.moved(member);
    else held.add(member);
  }

  private deactivate(member: number): void {
    this.away.remove(member);
    if (this.isActive[member] === 0) return;
    this.isActive[member] = 0;
    this.time.addRate(-this.tags.rateBps[member]);
  }

  /** Members that are away and have no work do not count in Phi. One with work goes to the end of the list. */
  private dropIdle(): void {
    const { away } = this;
    for (let member = away.first; member !== NONE; member = away.first) {
      const { requests, replies } = this.qps[member] as Qp;
      if (hasWork(requests) || hasWork(replies)) {
        away.remove(member);
        away.add(member);
        break;
      }
      this.deactivate(member);
    }
    this.arm();
  }

  /** Schedules an event for when the first held member may send. */
  private arm(): void {
    const member = this.held.first;
    if (member === NONE) return;
    const { times, events } = this;
    const ticks = this.isLimited[member] === 0 ? 0 : this.time.ticksUntil(this.tags.finish, 2 * member);
    const dueNs = Math.max(this.clock[0], (times[0] + ticks) * TICK_NS);
    if (times[1] > this.clock[0] && times[1] <= dueNs) return;
    times[1] = dueNs;
    events.due[0] = dueNs;
    events.push(EV_TAGS, this.port, 0, 0);
  }
}
