/**
 * Turns of datagram queue pairs, which cannot use WAIT and ENABLE: software limits how many of a context send at
 * once, and begins the next turn. An empty datagram to a sink (Actions.zeroSends), queued a little before the end of
 * a turn, reports that it is nearly over, so the wire has work during the handover. These turns are longer than those
 * that the device ends by itself.
 */
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources, ResourceView } from '../../shim/resources.ts';
import { IBV_QPS_RESET, IBV_QPS_RTS, IBV_QPT_UD } from '../../verbs/constants.ts';
import { type Quota, TOKEN_BITS } from './mqse.ts';

/** Lengths of turns. */
export interface SoftwareTurnOptions {
  /** Limits of a turn that the device ends. */
  readonly turnBytes: number;
  readonly turnRequests: number;
  /** A turn that takes longer than this no longer blocks others. */
  readonly watchdogNs: number;
}

/** Issues requests. */
export interface SoftwareTurnEngine {
  /** Issues the oldest held requests within `quota` (mqse.ts: MessageEngine). */
  issue(qp: QpView, out: Actions, quota: Quota): void;
  /** Bytes sent while the device starts the next turn (mqse.ts); 0 if unknown. */
  aheadBytes(qp: QpView, out: Actions): number;
  /** Feeds a queue pair that may send. */
  feed(qp: QpView, out: Actions): void;
}

/** Kinds of a token (mqse.ts: TOKEN_BITS). */
export const SOFTWARE_TURN_ENDED = 9;
export const SOFTWARE_TURN_WATCHDOG = 10;

/** Software turns are longer by these factors in bytes and requests; the part AHEAD follows the mark. */
const BYTES_FACTOR = 4;
const REQUESTS_FACTOR = 2;
const AHEAD = 0.125;
/** Handover time of software, as a multiple of the device's. */
const HANDOVER_FACTOR = 2;
/** Slots kept free for the handover. */
const AHEAD_SLOTS = 40;

const IDLE = 0;
/** Whether it is in the queue of its group. */
const WAITING = 1;
const OPEN = 2;
/** Whether the mark of its end is posted. */
const ENDING = 3;

class DatagramQp {
  readonly qp: QpView;
  readonly group: Group;
  phase = IDLE;
  readonly quota: Quota = { bytes: 0, requests: 0, slots: 0 };
  /** Marks of turns that ended without them. */
  staleMarks = 0;
  sinceNs = 0.5;

  constructor(qp: QpView, group: Group) {
    this.qp = qp;
    this.group = group;
  }
}

/** The datagram queue pairs of one context. */
interface Group {
  readonly resources: Resources;
  sink: ResourceView | null;
  /** 0 means no turns. */
  allow: number;
  readonly active: DatagramQp[];
  readonly queue: DatagramQp[];
  readonly qps: DatagramQp[];
}

/** Schedules the turns of datagram queue pairs, which MQSE cannot shape. */
export class SoftwareTurns {
  private readonly engine: SoftwareTurnEngine;
  private readonly options: SoftwareTurnOptions;
  /** Groups by context. */
  private readonly groups: (Group | undefined)[] = [];
  /** Members by queue pair. */
  private readonly qps: (DatagramQp | undefined)[] = [];

  constructor(engine: SoftwareTurnEngine, options: SoftwareTurnOptions) {
    this.engine = engine;
    this.options = options;
  }

  setup(resources: Resources): void {
    const { index } = resources.context;
    this.groups[index] = { resources, sink: null, allow: 0, active: [], queue: [], qps: [] };
  }

  /** The sink of this queue pair's empty datagrams; null if there is none. */
  sinkOf(qp: QpView): ResourceView | null {
    return this.groups[qp.context.index]?.sink ?? null;
  }

  /** Whether this queue pair takes turns, so that none of its requests goes straight to the device. */
  shapes(qp: QpView): boolean {
    if (qp.type !== IBV_QPT_UD) return false;
    const group = this.groups[qp.context.index];
    return group !== undefined && group.allow > 0 && group.sink !== null;
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') {
      if (qp.type === IBV_QPT_UD) this.add(qp);
      return;
    }
    const member = this.qps[qp.index];
    if (member === undefined) return;
    // Outside RTS a queue pair sends nothing; RESET discards its marks.
    if (change === 'destroyed' || qp.state !== IBV_QPS_RTS || qp.broken) this.abandon(member, out);
    if (change === 'destroyed' || qp.state === IBV_QPS_RESET) member.staleMarks = 0;
    if (change !== 'destroyed') return;
    this.qps[qp.index] = undefined;
    const { qps } = member.group;
    qps.splice(qps.indexOf(member), 1);
  }

  private add(qp: QpView): void {
    const group = this.groups[qp.context.index];
    if (group === undefined) return;
    const member = new DatagramQp(qp, group);
    this.qps[qp.index] = member;
    group.qps.push(member);
    try {
      group.sink ??= group.resources.sink();
    } catch {
      // Without a sink, datagrams go to the device unshaped.
    }
  }

  /** Sets how many queue pairs of a context may send at once; 0 for all. */
  allow({ index }: ContextView, count: number, out: Actions): void {
    const group = this.groups[index];
    if (group === undefined || group.allow === count) return;
    group.allow = count;
    if (count > 0) {
      this.advance(group, out);
      return;
    }
    for (const member of group.qps) {
      if (member.phase === ENDING) member.staleMarks++;
      member.phase = IDLE;
    }
    group.active.length = 0;
    group.queue.length = 0;
    for (const { qp } of [...group.qps]) if (out.backlog(qp) > 0) this.engine.feed(qp, out);
  }

  /** Issues what a queue pair in turns may send now. */
  feed(qp: QpView, out: Actions): void {
    const member = this.qps[qp.index];
    if (member === undefined) return;
    while (out.backlog(qp) > 0) {
      if (out.isCrossChannel(qp)) {
        // The request may wait for a queue pair that itself waits for this turn.
        if (member.phase !== IDLE) this.abandon(member, out);
        if (!out.execute(qp)) return;
        continue;
      }
      if (member.phase === IDLE) this.requestTurn(member, out);
      if (member.phase !== OPEN || !this.issue(member, out)) return;
    }
    if (member.phase === OPEN && hasWaiting(member.group)) this.close(member, out);
  }

  /** Returns whether the token belongs to this engine. */
  onInternal(token: number, out: Actions): boolean {
    if ((token & ((1 << TOKEN_BITS) - 1)) !== SOFTWARE_TURN_ENDED) return false;
    const member = this.qps[token >>> TOKEN_BITS];
    if (member === undefined) return true;
    if (member.staleMarks > 0) member.staleMarks--;
    else if (member.phase === ENDING) this.endTurn(member, out);
    return true;
  }

  /** Abandons turns that take too long. */
  onTimer(token: number, out: Actions): boolean {
    if ((token & ((1 << TOKEN_BITS) - 1)) !== SOFTWARE_TURN_WATCHDOG) return false;
    const group = this.groups[token >>> TOKEN_BITS];
    if (group === undefined || group.queue.length === 0) return true;
    const nowNs = out.nowNs(group.resources.context);
    for (const member of [...group.active]) {
      if (nowNs - member.sinceNs >= this.options.watchdogNs) this.abandon(member, out);
    }
    if (group.queue.length > 0) this.startWatchdog(group, out);
    return true;
  }

  /** Begins or queues a turn. */
  private requestTurn(member: DatagramQp, out: Actions): void {
    const { group } = member;
    if (group.active.length < group.allow) {
      this.beginTurn(member, out);
      return;
    }
    member.phase = WAITING;
    group.queue.push(member);
    // An idle queue pair triggers nothing that would end its turn.
    for (const other of [...group.active]) {
      if (other.phase === OPEN && out.backlog(other.qp) === 0) this.close(other, out);
    }
    if (group.queue.length === 1) this.startWatchdog(group, out);
  }

  private beginTurn(member: DatagramQp, out: Actions): void {
    const { group } = member;
    member.phase = OPEN;
    member.sinceNs = out.nowNs(group.resources.context);
    this.fill(member.quota, 1 - AHEAD);
    group.active.push(member);
  }

  private fill(quota: Quota, part: number): void {
    quota.bytes = Math.ceil(this.options.turnBytes * BYTES_FACTOR * part);
    quota.requests = Math.ceil(this.options.turnRequests * REQUESTS_FACTOR * part);
  }

  /** Returns false if it can issue no more now. */
  private issue(member: DatagramQp, out: Actions): boolean {
    const { qp, quota, group } = member;
    if (quota.bytes <= 0 || quota.requests <= 0) {
      if (hasWaiting(group)) {
        this.close(member, out);
        return false;
      }
      // If none is waiting, it continues with at most one turn in flight.
      if (!this.mayFly(qp, out)) return false;
      this.fill(quota, 1 - AHEAD);
    }
    const room = out.room(qp);
    // Keep slots for the mark and what follows it, if possible.
    quota.slots = room - 1 - AHEAD_SLOTS;
    if (quota.slots < 1 && out.inflight(qp) === 0) quota.slots = Math.min(room, Math.max(1, room - 1));
    if (quota.slots < 1) return false;
    this.engine.issue(qp, out, quota);
    return out.room(qp) < room;
  }

  private mayFly(qp: QpView, out: Actions): boolean {
    const { turnBytes, turnRequests } = this.options;
    return (
      out.inflightBytes(qp) < turnBytes * BYTES_FACTOR && out.inflight(qp) < turnRequests * REQUESTS_FACTOR
    );
  }

  /** Ends a turn after the requests in flight. */
  private close(member: DatagramQp, out: Actions): void {
    const { qp, quota, group } = member;
    if (out.inflight(qp) === 0 || out.room(qp) < 1) {
      // If it is not over, completions lead here again.
      if (out.inflight(qp) === 0 || out.backlog(qp) === 0) this.endTurn(member, out);
      return;
    }
    member.phase = ENDING;
    out.zeroSends(qp, group.sink!, 1, (qp.index << TOKEN_BITS) | SOFTWARE_TURN_ENDED);
    this.fill(quota, AHEAD);
    quota.bytes = HANDOVER_FACTOR * this.engine.aheadBytes(qp, out) || quota.bytes;
    quota.slots = out.room(qp);
    if (quota.slots > 0 && out.backlog(qp) > 0 && !out.isCrossChannel(qp)) this.engine.issue(qp, out, quota);
  }

  /** Ends a turn before its mark arrives. */
  private abandon(member: DatagramQp, out: Actions): void {
    if (member.phase === ENDING) member.staleMarks++;
    this.endTurn(member, out);
  }

  /**
   * Takes away the queue pair's turn or its place in the queue; if it has requests to send, it queues for the next
   * turn.
   */
  private endTurn(member: DatagramQp, out: Actions): void {
    const { group, qp } = member;
    remove(group.active, member);
    remove(group.queue, member);
    member.phase = IDLE;
    this.advance(group, out);
    const wants = group.allow > 0 && qp.state === IBV_QPS_RTS && !qp.broken && out.backlog(qp) > 0;
    if (wants && member.phase === IDLE && !out.isCrossChannel(qp)) this.engine.feed(qp, out);
  }

  /** Begins the next turns. */
  private advance(group: Group, out: Actions): void {
    while (group.queue.length > 0 && group.active.length < group.allow) {
      const next = group.queue.shift()!;
      next.phase = IDLE;
      if (next.qp.broken || out.backlog(next.qp) === 0) continue;
      this.beginTurn(next, out);
      this.engine.feed(next.qp, out);
    }
  }

  private startWatchdog({ resources: { context } }: Group, out: Actions): void {
    const atNs = out.nowNs(context) + this.options.watchdogNs;
    out.timer(context, atNs, (context.index << TOKEN_BITS) | SOFTWARE_TURN_WATCHDOG);
  }
}

/** Whether a turn should end for another. */
function hasWaiting(group: Group): boolean {
  return group.queue.length > 0 || group.active.length > group.allow;
}

function remove(from: DatagramQp[], member: DatagramQp): void {
  const at = from.indexOf(member);
  if (at >= 0) from.splice(at, 1);
}
