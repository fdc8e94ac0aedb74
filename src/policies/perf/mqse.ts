/**
 * PeRF's multi-QP scheduling engine (MQSE): of the queue pairs of one context only so many send at once, in turns of
 * some bytes, so that many queue pairs get no more than one (PeRF, USENIX ATC 2024, section 3.3).
 *
 * A turn is, on its queue pair: WAIT(PCC), requests, ENABLE(PCQ). The WAIT takes a ticket; ENABLEs let tickets through
 * in the order in which they were taken. So PAUSE and RESUME of the paper fall together: whoever wants to go takes a
 * ticket, and a queue pair that has nothing to send takes none. Turns are posted ahead, so that the device goes from
 * one to the next by itself. The turn that was begun last stays open: nobody waits for its end, and it goes on for
 * as long as that is so.
 */
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import { IBV_QPS_RESET, IBV_QPT_RC, IBV_QPT_UC, IBV_WC_SUCCESS } from '../../verbs/constants.ts';
import { Pcq } from './pcq.ts';

/** What one turn may still issue. */
export interface Quota {
  bytes: number;
  requests: number;
  /** Places of the device's queue: pieces and 0_WAITs take them, too. */
  slots: number;
}

/** Who issues requests in a turn: cuts them, passes them on. */
export interface MessageEngine {
  /** Issues what may be issued outside of turns. */
  feed(qp: QpView, out: Actions): void;
  /**
   * Issues of the oldest held requests what `quota` allows, and takes it off: as long as there are bytes, requests
   * and slots. One request may take more bytes than are left. Stops before a WAIT for completions or an ENABLE.
   */
  issue(qp: QpView, out: Actions, quota: Quota): void;
  /** Bytes that take as long as the next turn needs to be let go; absent, or 0: as the options say. */
  aheadBytes?(qp: QpView, out: Actions): number;
  /** Whether nothing of it may be issued now; it will be fed when that is over. */
  holds?(qp: QpView, out: Actions): boolean;
}

/** How long a turn is. */
interface TurnLimits {
  /** Bytes, and requests, of a turn; it ends with the first that is reached. */
  turnBytes: number;
  turnRequests: number;
  /** The next turn is let go so many bytes, or requests, before the end of one: its way through PCQ takes time. */
  aheadBytes: number;
  aheadRequests: number;
}

/** Knobs of the turns. Where WAIT is emulated a turn has four times the bytes, and twice the requests. */
export interface MqseOptions extends TurnLimits {
  /** A turn that takes longer than this, and far longer than others, holds nobody up any more. */
  watchdogNs: number;
  /** Of the random choice of the queue pair that begins. */
  seed: number;
}

/** Bits of a token below the index: its kind. Kinds from MQSE_KINDS on are other engines'. */
export const TOKEN_BITS = 4;
export const MQSE_KINDS = 8;
const WAITED = 0;
const ENDED = 1;
const ZERO_WR = 2;
const SOFTWARE = 3;
const WATCHDOG = 4;

/** WAIT, a piece with its 0_WAITs, ENABLE. */
const MIN_SLOTS = 4;
/** Turns of one queue pair that are posted and not over. */
const TURNS_AHEAD = 2;
/**
 * Queue pairs that wait in the device, for each that may send. It reads what they begin with when they are posted, and
 * what is being sent waits behind that; and a tenant's slot lasts until all of them are over.
 */
const WAITING = 2;
/** A turn is long that takes so many times as long as others; the first one may take so many times `watchdogNs`. */
const LONG_TURN = 8;
const FIRST_TURN = 16;
const SMOOTHING = 0.125;
/** After so many turns in a row that took too long, the time without tickets grows no more. */
const MAX_STRIKES = 8;

/** Emulated, software lets the next turn go: it has to last longer. */
const EMULATED_BYTES = 4;
const EMULATED_REQUESTS = 2;

const NO_TURN = 0;
const OPEN = 1;
/** Without a ticket. */
const TICKETLESS = 2;

/** A queue pair that takes turns. */
class TurnTaker {
  readonly qp: QpView;
  readonly group: Group;
  phase = NO_TURN;
  readonly quota: Quota = { bytes: 0, requests: 0, slots: 0 };
  /** Bytes of its turn that follow the ENABLE. */
  aheadBytes = 0;
  /** Turns posted and not known to be over, and of these: those whose ENABLE is posted, those lent for. */
  turns = 0;
  closed = 0;
  lent = 0;
  /** Turns whose WAIT is not known to be over; and the number of the last ticket. */
  waits = 0;
  ticket = 0;
  /** Stands in the queue of those for whom the device has no place. */
  isQueued = false;
  /** Since when its turn goes on and others may wait for its end, as far as is known; what was in flight then. */
  sinceNs = 0.5;
  flyingBytes = 0.5;
  /** Turns in a row that took too long; until when it goes without tickets. */
  strikes = 0;
  ticketlessUntilNs = 0.5;

  constructor(qp: QpView, group: Group) {
    this.qp = qp;
    this.group = group;
  }
}

/** The queue pairs of one context. */
interface Group {
  readonly resources: Resources;
  pcq: Pcq | null;
  limits: Readonly<TurnLimits>;
  /** QNum_allow; 0: everybody sends as he likes. */
  allow: number;
  readonly takers: TurnTaker[];
  /** Whose turn is open, the oldest first. */
  readonly open: TurnTaker[];
  /** Who wants a turn and finds no place in the device. */
  readonly queue: TurnTaker[];
  isWatched: boolean;
  /** At the last look, some waited and nobody had a turn. */
  wasStalled: boolean;
  /** Turns whose WAIT is not known to be over. */
  waits: number;
  /** How long turns take, on average of the last ones; 0: none is over. */
  readonly turnNs: Float64Array;
}

/** The multi-QP scheduling engine: lets the queue pairs of a context send in turns. */
export class Mqse {
  private readonly engine: MessageEngine;
  private options: Readonly<MqseOptions>;
  private readonly groups: (Group | undefined)[] = [];
  /** By index of the queue pair. */
  private readonly takers: (TurnTaker | undefined)[] = [];
  private readonly qps: (QpView | undefined)[] = [];
  private random: number;

  constructor(engine: MessageEngine, options: MqseOptions) {
    this.engine = engine;
    this.options = options;
    this.random = options.seed | 1;
  }

  setup(resources: Resources): void {
    this.groups[resources.context.index] = {
      resources,
      pcq: null,
      limits: this.options,
      allow: 0,
      takers: [],
      open: [],
      queue: [],
      isWatched: false,
      wasStalled: false,
      waits: 0,
      turnNs: new Float64Array(1),
    };
  }

  /** Turns that begin from now on are so long. */
  configure(options: Readonly<MqseOptions>, out: Actions): void {
    this.options = options;
    for (const group of this.groups) {
      if (group === undefined) continue;
      group.limits = group.pcq !== null && out.wait === 'emulated' ? longer(options) : options;
    }
  }

  /** QNum_allow of a context, now and whenever it changes; 0: no turns. False: the device has no place for PCQ. */
  allow(context: ContextView, count: number, out: Actions): boolean {
    const group = this.groups[context.index];
    if (group === undefined || group.allow === count) return true;
    if (group.pcq === null && !this.createPcq(group, out)) return false;
    group.allow = count;
    const pcq = group.pcq!;
    if (count === 0) {
      this.dissolve(group, out);
    } else {
      pcq.allow(count, out);
    }
    this.feedAll(context, out);
    return true;
  }

  /** Whether this queue pair takes turns: then nothing of it goes straight, and `feed` is this engine's. */
  shapes(qp: QpView): boolean {
    const group = this.groups[qp.context.index];
    return group !== undefined && group.allow > 0 && (qp.type === IBV_QPT_RC || qp.type === IBV_QPT_UC);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    this.qps[qp.index] = change === 'destroyed' ? undefined : qp;
    const member = this.takers[qp.index];
    if (member === undefined) return;
    const { group } = member;
    if (change === 'destroyed' || qp.state === IBV_QPS_RESET) {
      this.discard(member, out);
    } else if (qp.broken && member.phase === OPEN) {
      // What is posted of it is flushed, and tells; an open turn has no end that would.
      this.leave(member);
      this.finish(member);
      group.pcq!.abandon(out);
    }
    if (change !== 'destroyed') return;
    this.takers[qp.index] = undefined;
    group.takers.splice(group.takers.indexOf(member), 1);
  }

  /** Issues what may be issued of a queue pair that takes turns. */
  feed(qp: QpView, out: Actions): void {
    const member = this.takerOf(qp);
    while (out.backlog(qp) > 0 && !this.isHeldByEngine(member, out)) {
      if (out.isCrossChannel(qp)) {
        // It may have to wait for one who waits for this turn.
        if (member.phase === OPEN) this.close(member, out);
        member.phase = NO_TURN;
        if (!out.execute(qp)) return;
        continue;
      }
      if (member.phase === NO_TURN && !this.begin(member, out)) return;
      if (!this.issue(member, out)) break;
    }
    if (member.phase === TICKETLESS) member.phase = NO_TURN;
    this.closeIdle(member, out);
  }

  /** Whether the engine holds it back: those who wait for the end of its turn do not wait for that. */
  private isHeldByEngine(member: TurnTaker, out: Actions): boolean {
    if (this.engine.holds?.(member.qp, out) !== true) return false;
    if (member.phase === OPEN && member.group.waits > member.waits) this.close(member, out);
    return true;
  }

  /** True: the token was one of these. */
  onInternal(token: number, status: number, out: Actions): boolean {
    const kind = token & ((1 << TOKEN_BITS) - 1);
    if (kind >= MQSE_KINDS) return false;
    const index = token >>> TOKEN_BITS;
    if (kind === ZERO_WR || kind === SOFTWARE) {
      const group = this.groups[index];
      if (group?.pcq == null) return true;
      group.pcq.onInternal(token, status, out);
      this.admitQueued(group, out);
      return true;
    }
    const member = this.takers[index];
    if (member === undefined) return true;
    if (kind === WAITED) this.onWaitDone(member, out);
    else this.onTurnEnded(member, status, out);
    this.admitQueued(member.group, out);
    this.feedMember(member.qp, out);
    this.closeIdle(member, out);
    return true;
  }

  /** True: the token was one of these. */
  onTimer(token: number, out: Actions): boolean {
    if ((token & ((1 << TOKEN_BITS) - 1)) !== WATCHDOG) return false;
    const group = this.groups[token >>> TOKEN_BITS];
    if (group !== undefined && group.allow > 0) this.checkTurns(group, out);
    return true;
  }

  /** False: not now; something that is under way will bring it back. */
  private begin(member: TurnTaker, out: Actions): boolean {
    const { qp, group } = member;
    const pcq = group.pcq!;
    if (member.turns >= TURNS_AHEAD || member.waits > 0 || member.isQueued) return false;
    const room = out.room(qp);
    if (pcq.hasFailed || (room < MIN_SLOTS && out.inflight(qp) === 0) || this.mayGoTicketless(member, out)) {
      return this.beginTicketless(member, out);
    }
    if (room < MIN_SLOTS) return false;
    if (!hasRoom(group)) {
      member.isQueued = true;
      group.queue.push(member);
      return false;
    }
    member.ticket = pcq.begin(qp, tokenOf(qp.index, WAITED), out);
    member.sinceNs = out.nowNs(qp.context);
    member.turns++;
    member.waits++;
    group.waits++;
    member.phase = OPEN;
    this.fill(member, out);
    for (let i = group.open.length - 1; i >= 0; i--) {
      const other = group.open[i];
      if (other.waits === 0 && out.backlog(other.qp) === 0) this.close(other, out);
    }
    group.open.push(member);
    while (pcq.isShort) this.closeAhead(group.open[0], out);
    if (group.takers.length > 1) this.startWatchdog(group, out);
    return true;
  }

  /** A turn without a ticket, of as much as may be under way. */
  private beginTicketless(member: TurnTaker, out: Actions): boolean {
    const { quota, group } = member;
    if (!mayContinue(member, out)) return false;
    member.phase = TICKETLESS;
    quota.bytes = group.limits.turnBytes;
    quota.requests = group.limits.turnRequests;
    return true;
  }

  /** False: nothing more can be issued for now. */
  private issue(member: TurnTaker, out: Actions): boolean {
    const { qp, quota, group } = member;
    if (quota.bytes <= 0 || quota.requests <= 0) {
      if (member.phase === TICKETLESS) {
        member.phase = NO_TURN;
        return true;
      }
      if (group.waits > member.waits || group.queue.length > 0) {
        this.closeAhead(member, out);
        return true;
      }
      // Nobody waits for its end: it goes on, once it is known to have begun.
      if (member.waits > 0 || !mayContinue(member, out)) return false;
      this.fill(member, out);
    }
    const room = out.room(qp);
    quota.slots = member.phase === OPEN ? room - 1 : room;
    if (quota.slots < 1) return false;
    this.engine.issue(qp, out, quota);
    return out.room(qp) < room;
  }

  /** The turn ends, and what the device sends of it while the next one begins goes after its end. */
  private closeAhead(member: TurnTaker, out: Actions): void {
    const { qp, quota, group } = member;
    this.close(member, out);
    // What was more than the quota is taken from that.
    quota.bytes += member.aheadBytes;
    quota.requests += group.limits.aheadRequests;
    quota.slots = out.room(qp);
    const isLeft = quota.bytes > 0 && quota.requests > 0 && quota.slots > 0;
    if (isLeft && out.backlog(qp) > 0 && !out.isCrossChannel(qp)) this.engine.issue(qp, out, quota);
  }

  /** Its turn ends with what it has issued. */
  private close(member: TurnTaker, out: Actions): void {
    this.leave(member);
    if (member.waits === 0) member.sinceNs = out.nowNs(member.qp.context);
    if (member.group.pcq!.close(member.qp, tokenOf(member.qp.index, ENDED), out)) member.closed++;
    else this.finish(member);
  }

  /** While others wait, a turn in which there is nothing to send is no turn. With one at a time, the next closes it. */
  private closeIdle(member: TurnTaker, out: Actions): void {
    const { group, qp } = member;
    if (member.phase !== OPEN || member.waits > 0 || group.allow < 2 || group.waits === 0) return;
    if (out.backlog(qp) === 0) this.close(member, out);
  }

  private leave(member: TurnTaker): void {
    const { open } = member.group;
    const at = open.indexOf(member);
    if (at >= 0) open.splice(at, 1);
    member.phase = NO_TURN;
  }

  /** One of its turns is over. */
  private finish(member: TurnTaker): void {
    member.turns--;
    if (member.lent === 0) {
      member.strikes = 0;
      return;
    }
    member.lent--;
    member.group.pcq!.takeBack();
  }

  private onWaitDone(member: TurnTaker, out: Actions): void {
    if (member.waits === 0) return;
    member.sinceNs = out.nowNs(member.qp.context);
    member.waits--;
    member.group.waits--;
  }

  private onTurnEnded(member: TurnTaker, status: number, out: Actions): void {
    if (member.closed === 0) return;
    member.closed--;
    const { turnNs, resources } = member.group;
    const tookNs = out.nowNs(resources.context) - member.sinceNs;
    if (member.lent === 0)
      turnNs[0] = turnNs[0] === 0 ? tookNs : turnNs[0] + (tookNs - turnNs[0]) * SMOOTHING;
    this.finish(member);
    if (status !== IBV_WC_SUCCESS) member.group.pcq!.writeOff(1, out);
  }

  /** Everything posted of it is gone, and nobody will tell. */
  private discard(member: TurnTaker, out: Actions): void {
    const { group } = member;
    const pcq = group.pcq!;
    const wasOpen = member.phase === OPEN;
    this.leave(member);
    const queued = group.queue.indexOf(member);
    if (queued >= 0) group.queue.splice(queued, 1);
    member.isQueued = false;
    for (; member.lent > 0; member.lent--) pcq.takeBack();
    group.waits -= member.waits;
    const died = member.closed;
    member.waits = 0;
    member.closed = 0;
    member.turns = 0;
    if (wasOpen) pcq.abandon(out);
    if (died > 0) pcq.writeOff(died, out);
    this.admitQueued(group, out);
  }

  /** No more turns: what is posted of them is let through. */
  private dissolve(group: Group, out: Actions): void {
    for (const member of [...group.open]) {
      this.leave(member);
      this.finish(member);
    }
    for (const member of group.queue.splice(0)) member.isQueued = false;
    group.pcq!.release(out);
  }

  private admitQueued(group: Group, out: Actions): void {
    while (group.queue.length > 0 && hasRoom(group)) {
      const member = group.queue.shift()!;
      member.isQueued = false;
      this.feedMember(member.qp, out);
    }
  }

  /** Feeds all queue pairs of a context that hold requests; which one first, chance decides. */
  private feedAll(context: ContextView, out: Actions): void {
    const { qps } = this;
    this.random = (Math.imul(this.random, 1664525) + 1013904223) | 0;
    const first = (this.random >>> 8) % Math.max(1, qps.length);
    for (let i = 0; i < qps.length; i++) {
      const qp = qps[(first + i) % qps.length];
      if (qp !== undefined && qp.context === context) this.feedMember(qp, out);
    }
  }

  private feedMember(qp: QpView, out: Actions): void {
    if (qp.broken || out.backlog(qp) === 0) return;
    if (this.shapes(qp)) this.feed(qp, out);
    else this.engine.feed(qp, out);
  }

  private startWatchdog(group: Group, out: Actions): void {
    if (group.isWatched) return;
    group.isWatched = true;
    const { context } = group.resources;
    out.timer(context, out.nowNs(context) + this.options.watchdogNs, tokenOf(context.index, WATCHDOG));
  }

  /** Whose turn takes far longer than others' do holds nobody up any more. */
  private checkTurns(group: Group, out: Actions): void {
    group.isWatched = false;
    if (group.waits === 0 && group.queue.length === 0) return;
    const pcq = group.pcq!;
    const { watchdogNs } = this.options;
    const nowNs = out.nowNs(group.resources.context);
    // Before any is over: what is in the queues from before the turns has to go first.
    const turnNs = group.turnNs[0];
    const limitNs = turnNs === 0 ? FIRST_TURN * watchdogNs : Math.max(watchdogNs, LONG_TURN * turnNs);
    let stands = false;
    let holds = false;
    for (const member of group.takers) {
      if (member.waits > 0 && !pcq.isDue(member.ticket)) stands = true;
      if (!this.isHolding(member, nowNs, out)) continue;
      holds = true;
      if (member.lent > 0 || member.phase === OPEN || nowNs - member.sinceNs <= limitNs) continue;
      member.lent++;
      member.strikes = Math.min(member.strikes + 1, MAX_STRIKES);
      member.ticketlessUntilNs = nowNs + Math.max(watchdogNs, limitNs) * 2 ** member.strikes;
      pcq.lend(out);
    }
    // Nobody has a turn: one that was lost with a queue pair is made good.
    const isLost = stands && !holds;
    if (isLost && group.wasStalled) pcq.forceNext(out);
    group.wasStalled = isLost;
    this.startWatchdog(group, out);
  }

  /** Whether it has its turn; `sinceNs` is kept for one that waits, or has to send what was there before. */
  private isHolding(member: TurnTaker, nowNs: number, out: Actions): boolean {
    if (member.turns === 0) return false;
    if (member.turns > member.waits) return true;
    const isDue = member.group.pcq!.isDue(member.ticket);
    const flyingBytes = out.inflightBytes(member.qp);
    if (!isDue || flyingBytes !== member.flyingBytes) member.sinceNs = nowNs;
    member.flyingBytes = flyingBytes;
    return isDue;
  }

  /** What a turn has up to its ENABLE. */
  private fill(member: TurnTaker, out: Actions): void {
    const { quota, qp } = member;
    const { turnBytes, turnRequests, aheadBytes, aheadRequests } = member.group.limits;
    const wanted = this.engine.aheadBytes?.(qp, out) ?? 0;
    member.aheadBytes = wanted > 0 ? Math.min(wanted, turnBytes >> 2) : aheadBytes;
    quota.bytes = turnBytes - member.aheadBytes;
    quota.requests = turnRequests - aheadRequests;
  }

  private mayGoTicketless(member: TurnTaker, out: Actions): boolean {
    return member.strikes > 0 && out.nowNs(member.qp.context) < member.ticketlessUntilNs;
  }

  private createPcq(group: Group, out: Actions): boolean {
    const { resources } = group;
    const { index } = resources.context;
    try {
      const tokens = { zeroWr: tokenOf(index, ZERO_WR), software: tokenOf(index, SOFTWARE) };
      group.pcq = new Pcq(resources, tokens, out);
      if (out.wait === 'emulated') group.limits = longer(this.options);
      return true;
    } catch {
      return false;
    }
  }

  private takerOf(qp: QpView): TurnTaker {
    const known = this.takers[qp.index];
    if (known !== undefined) return known;
    const group = this.groups[qp.context.index]!;
    const member = new TurnTaker(qp, group);
    this.takers[qp.index] = member;
    group.takers.push(member);
    return member;
  }
}

/** Whether one more may wait for its turn in the device. */
function hasRoom({ waits, allow, pcq }: Group): boolean {
  return waits < allow * WAITING && pcq!.hasRoom;
}

/** Whether so little is under way that a turn that nobody limits goes on. */
function mayContinue({ qp, group }: TurnTaker, out: Actions): boolean {
  const { turnBytes, turnRequests } = group.limits;
  return out.inflight(qp) < TURNS_AHEAD * turnRequests && out.inflightBytes(qp) < TURNS_AHEAD * turnBytes;
}

function longer({ turnBytes, turnRequests, aheadBytes, aheadRequests }: TurnLimits): TurnLimits {
  return {
    turnBytes: turnBytes * EMULATED_BYTES,
    turnRequests: turnRequests * EMULATED_REQUESTS,
    aheadBytes: aheadBytes * EMULATED_BYTES,
    aheadRequests: aheadRequests * EMULATED_REQUESTS,
  };
}

function tokenOf(index: number, kind: number): number {
  return (index << TOKEN_BITS) | kind;
}
