/**
 * PeRF's multi-QP scheduling engine (MQSE): only QNum_allow queue pairs of a context send at a time, in turns of limited
 * size, so that many queue pairs get no more bandwidth than one (PeRF, USENIX ATC 2024, section 3.3).
 *
 * A turn on its queue pair is WAIT(PCC), requests, ENABLE(PCQ). The WAIT takes a ticket, and each ENABLE releases the
 * next ticket in order. This merges PAUSE and RESUME of the paper: a queue pair that has data takes a ticket, and an
 * idle one takes none. Turns are posted ahead, so the device goes from one to the next without software. The last turn
 * stays open, and goes on, until another queue pair waits for its end.
 */
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import { IBV_QPS_RESET, IBV_QPT_RC, IBV_QPT_UC, IBV_WC_SUCCESS } from '../../verbs/constants.ts';
import { Pcq } from './pcq.ts';
import {
  type Group,
  NO_TURN,
  OPEN,
  type Quota,
  TICKETLESS,
  type TurnLimits,
  TurnTaker,
} from './turn-takers.ts';
import { checkTurns, startWatchdog } from './turn-watchdog.ts';

export type { Quota } from './turn-takers.ts';

/** Cuts and issues the requests of a queue pair. */
export interface MessageEngine {
  /** Issues requests of a queue pair that takes no turns. */
  feed(qp: QpView, out: Actions): void;
  /**
   * Issues the oldest held requests and subtracts them from `quota`, until bytes, requests or slots run out. The last
   * request may take more bytes than are left. Stops before a WAIT for completions or an ENABLE.
   */
  issue(qp: QpView, out: Actions, quota: Quota): void;
  /** Bytes sent while the device starts the next turn; absent or 0: `TurnLimits.aheadBytes`. */
  aheadBytes?(qp: QpView, out: Actions): number;
  /** Whether the queue pair must not send now. The engine feeds it when it may send again. */
  holds?(qp: QpView, out: Actions): boolean;
}

/** Options of MQSE. Where WAIT is emulated, turns have four times the bytes and twice the requests. */
export interface MqseOptions extends TurnLimits {
  /** A turn that takes longer than this, and far longer than others, no longer blocks them. */
  watchdogNs: number;
  /** Seed of the random choice of the first queue pair. */
  seed: number;
}

/** The low bits of a token are its kind, the others an index. Kinds from MQSE_KINDS on belong to other engines. */
export const TOKEN_BITS = 4;
export const MQSE_KINDS = 8;
const WAITED = 0;
const ENDED = 1;
const ZERO_WR = 2;
const SOFTWARE = 3;
const WATCHDOG = 4;

/** WAIT, a piece, its 0_WAITs, ENABLE. */
const MIN_SLOTS = 4;
/** Posted turns of one queue pair that are not over. */
const TURNS_AHEAD = 2;
/**
 * Queue pairs that wait in the device for each one that may send. More would cost: the device fetches their first
 * requests ahead of the data being sent, and a tenant slot lasts until all of them are over.
 */
const WAITING_PER_ALLOWED = 2;
/** Weight of the last turn in the average duration. */
const SMOOTHING = 0.125;
/** Turns are longer with an emulated WAIT, as software then starts the next one. */
const EMULATED_BYTES = 4;
const EMULATED_REQUESTS = 2;

/**
 * Chooses at random the queue pair that is fed first. All engines of a simulation share one instance, so the seed
 * reproduces a run exactly, on any number of hosts.
 */
export class FirstTurns {
  private random: number;
  /** One more than the largest index of a queue pair. */
  private limit = 1;

  constructor(seed: number) {
    this.random = seed | 1;
  }

  /** Adds a queue pair with this index. */
  include(index: number): void {
    this.limit = Math.max(this.limit, index + 1);
  }

  /** The index to begin with; it may belong to no queue pair. */
  draw(): number {
    this.random = (Math.imul(this.random, 1664525) + 1013904223) | 0;
    return (this.random >>> 8) % this.limit;
  }
}

/** The multi-QP scheduling engine: the queue pairs of a context send in turns. */
export class Mqse {
  private readonly engine: MessageEngine;
  private options: Readonly<MqseOptions>;
  private readonly groups: (Group | undefined)[] = [];
  /** By index of the queue pair. */
  private readonly takers: (TurnTaker | undefined)[] = [];
  private readonly qps: (QpView | undefined)[] = [];
  private readonly firstTurns: FirstTurns;

  constructor(engine: MessageEngine, options: MqseOptions, firstTurns = new FirstTurns(options.seed)) {
    this.engine = engine;
    this.options = options;
    this.firstTurns = firstTurns;
  }

  setup(resources: Resources): void {
    this.groups[resources.context.index] = {
      resources,
      watchdogToken: tokenOf(resources.context.index, WATCHDOG),
      pcq: null,
      limits: this.options,
      allow: 0,
      takers: [],
      open: [],
      queue: [],
      isWatched: false,
      wasStalled: false,
      pendingWaits: 0,
      turnNs: new Float64Array(1),
    };
  }

  /** New limits apply from the next turn. */
  configure(options: Readonly<MqseOptions>, out: Actions): void {
    this.options = options;
    for (const group of this.groups) {
      if (group === undefined) continue;
      group.limits = group.pcq !== null && out.wait === 'emulated' ? longerTurns(options) : options;
    }
  }

  /** Sets QNum_allow of a context; 0 means no turns. Returns false if the device cannot create PCQ. */
  allow(context: ContextView, count: number, out: Actions): boolean {
    const group = this.groups[context.index];
    if (group === undefined || group.allow === count) return true;
    if (group.pcq === null && !this.createPcq(group, out)) return false;
    group.allow = count;
    const pcq = group.pcq!;
    if (count === 0) {
      this.endAllTurns(group, out);
    } else {
      pcq.allow(count, out);
    }
    this.feedAll(context, out);
    return true;
  }

  /** Whether a queue pair takes turns: then all of its requests go through `feed`. */
  shapes(qp: QpView): boolean {
    const group = this.groups[qp.context.index];
    return group !== undefined && group.allow > 0 && (qp.type === IBV_QPT_RC || qp.type === IBV_QPT_UC);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    this.qps[qp.index] = change === 'destroyed' ? undefined : qp;
    this.firstTurns.include(qp.index);
    const taker = this.takers[qp.index];
    if (taker === undefined) return;
    const { group } = taker;
    if (change === 'destroyed' || qp.state === IBV_QPS_RESET) {
      this.discard(taker, out);
    } else if (qp.broken && taker.phase === OPEN) {
      // Flushed ENABLEs end the closed turns through onInternal; an open turn has none.
      this.removeFromOpen(taker);
      this.finishTurn(taker);
      group.pcq!.abandon(out);
    }
    if (change !== 'destroyed') return;
    this.takers[qp.index] = undefined;
    group.takers.splice(group.takers.indexOf(taker), 1);
  }

  /** Issues requests of a queue pair that takes turns. */
  feed(qp: QpView, out: Actions): void {
    const taker = this.takerOf(qp);
    while (out.backlog(qp) > 0 && !this.isHeldByEngine(taker, out)) {
      if (out.isCrossChannel(qp)) {
        // The request may wait for a queue pair that itself waits for the end of this turn.
        if (taker.phase === OPEN) this.close(taker, out);
        taker.phase = NO_TURN;
        if (!out.execute(qp)) return;
        continue;
      }
      if (taker.phase === NO_TURN && !this.begin(taker, out)) return;
      if (!this.issue(taker, out)) break;
    }
    if (taker.phase === TICKETLESS) taker.phase = NO_TURN;
    this.closeIdle(taker, out);
  }

  /** Whether the engine holds the queue pair. Its turn then ends if other queue pairs wait for it. */
  private isHeldByEngine(taker: TurnTaker, out: Actions): boolean {
    if (this.engine.holds?.(taker.qp, out) !== true) return false;
    if (taker.phase === OPEN && taker.group.pendingWaits > taker.pendingWaits) this.close(taker, out);
    return true;
  }

  /** Returns whether the token belongs to this engine. */
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
    const taker = this.takers[index];
    if (taker === undefined) return true;
    if (kind === WAITED) this.onWaitDone(taker, out);
    else this.onTurnEnded(taker, status, out);
    this.admitQueued(taker.group, out);
    this.feedQp(taker.qp, out);
    this.closeIdle(taker, out);
    return true;
  }

  /** Returns whether the token belongs to this engine. */
  onTimer(token: number, out: Actions): boolean {
    if ((token & ((1 << TOKEN_BITS) - 1)) !== WATCHDOG) return false;
    const group = this.groups[token >>> TOKEN_BITS];
    if (group !== undefined && group.allow > 0) checkTurns(group, this.options.watchdogNs, out);
    return true;
  }

  /** Begins a turn. Returns false if it cannot yet; a completion or a released ticket then triggers another feed. */
  private begin(taker: TurnTaker, out: Actions): boolean {
    const { qp, group } = taker;
    const pcq = group.pcq!;
    if (taker.turns >= TURNS_AHEAD || taker.pendingWaits > 0 || taker.isQueued) return false;
    const room = out.room(qp);
    if (pcq.hasFailed || (room < MIN_SLOTS && out.inflight(qp) === 0) || this.isTicketless(taker, out)) {
      return this.beginTicketless(taker, out);
    }
    if (room < MIN_SLOTS) return false;
    if (!hasRoom(group)) {
      taker.isQueued = true;
      group.queue.push(taker);
      return false;
    }
    taker.ticket = pcq.begin(qp, tokenOf(qp.index, WAITED), out);
    taker.sinceNs = out.nowNs(qp.context);
    taker.turns++;
    taker.pendingWaits++;
    group.pendingWaits++;
    taker.phase = OPEN;
    this.fill(taker, out);
    for (let i = group.open.length - 1; i >= 0; i--) {
      const other = group.open[i];
      if (other.pendingWaits === 0 && out.backlog(other.qp) === 0) this.close(other, out);
    }
    group.open.push(taker);
    while (pcq.hasExcessTurns) this.closeAhead(group.open[0], out);
    if (group.takers.length > 1) startWatchdog(group, this.options.watchdogNs, out);
    return true;
  }

  /** Begins a turn without a ticket. Only the amount in flight limits it. */
  private beginTicketless(taker: TurnTaker, out: Actions): boolean {
    const { quota, group } = taker;
    if (!mayContinue(taker, out)) return false;
    taker.phase = TICKETLESS;
    quota.bytes = group.limits.turnBytes;
    quota.requests = group.limits.turnRequests;
    return true;
  }

  /** Issues requests in the current turn. Returns false if it can issue no more now. */
  private issue(taker: TurnTaker, out: Actions): boolean {
    const { qp, quota, group } = taker;
    if (quota.bytes <= 0 || quota.requests <= 0) {
      if (taker.phase === TICKETLESS) {
        taker.phase = NO_TURN;
        return true;
      }
      if (group.pendingWaits > taker.pendingWaits || group.queue.length > 0) {
        this.closeAhead(taker, out);
        return true;
      }
      // No queue pair waits for its end, so the turn continues once its own WAIT is over.
      if (taker.pendingWaits > 0 || !mayContinue(taker, out)) return false;
      this.fill(taker, out);
    }
    const room = out.room(qp);
    quota.slots = taker.phase === OPEN ? room - 1 : room;
    if (quota.slots < 1) return false;
    this.engine.issue(qp, out, quota);
    return out.room(qp) < room;
  }

  /** Closes a turn, then issues the requests that the device sends while the next turn starts. */
  private closeAhead(taker: TurnTaker, out: Actions): void {
    const { qp, quota, group } = taker;
    this.close(taker, out);
    // An overdraft of the quota (a negative rest) reduces this part.
    quota.bytes += taker.aheadBytes;
    quota.requests += group.limits.aheadRequests;
    quota.slots = out.room(qp);
    const isLeft = quota.bytes > 0 && quota.requests > 0 && quota.slots > 0;
    if (isLeft && out.backlog(qp) > 0 && !out.isCrossChannel(qp)) this.engine.issue(qp, out, quota);
  }

  /** Ends a turn with what it has issued. */
  private close(taker: TurnTaker, out: Actions): void {
    this.removeFromOpen(taker);
    if (taker.pendingWaits === 0) taker.sinceNs = out.nowNs(taker.qp.context);
    if (taker.group.pcq!.close(taker.qp, tokenOf(taker.qp.index, ENDED), out)) taker.closedTurns++;
    else this.finishTurn(taker);
  }

  /** Closes an idle turn while others wait. With one turn at a time, `begin` of the next one does that. */
  private closeIdle(taker: TurnTaker, out: Actions): void {
    const { group, qp } = taker;
    if (taker.phase !== OPEN || taker.pendingWaits > 0 || group.allow < 2 || group.pendingWaits === 0) return;
    if (out.backlog(qp) === 0) this.close(taker, out);
  }

  private removeFromOpen(taker: TurnTaker): void {
    const { open } = taker.group;
    const at = open.indexOf(taker);
    if (at >= 0) open.splice(at, 1);
    taker.phase = NO_TURN;
  }

  /** Accounts for the end of one turn. */
  private finishTurn(taker: TurnTaker): void {
    taker.turns--;
    if (taker.lentTurns === 0) {
      taker.strikes = 0;
      return;
    }
    taker.lentTurns--;
    taker.group.pcq!.takeBack();
  }

  private onWaitDone(taker: TurnTaker, out: Actions): void {
    if (taker.pendingWaits === 0) return;
    taker.sinceNs = out.nowNs(taker.qp.context);
    taker.pendingWaits--;
    taker.group.pendingWaits--;
  }

  private onTurnEnded(taker: TurnTaker, status: number, out: Actions): void {
    if (taker.closedTurns === 0) return;
    taker.closedTurns--;
    const { turnNs, resources } = taker.group;
    const tookNs = out.nowNs(resources.context) - taker.sinceNs;
    if (taker.lentTurns === 0)
      turnNs[0] = turnNs[0] === 0 ? tookNs : turnNs[0] + (tookNs - turnNs[0]) * SMOOTHING;
    this.finishTurn(taker);
    if (status !== IBV_WC_SUCCESS) taker.group.pcq!.writeOff(1, out);
  }

  /** Drops all turns of a queue pair whose posted requests vanished without completions. */
  private discard(taker: TurnTaker, out: Actions): void {
    const { group } = taker;
    const pcq = group.pcq!;
    const wasOpen = taker.phase === OPEN;
    this.removeFromOpen(taker);
    const queued = group.queue.indexOf(taker);
    if (queued >= 0) group.queue.splice(queued, 1);
    taker.isQueued = false;
    for (; taker.lentTurns > 0; taker.lentTurns--) pcq.takeBack();
    group.pendingWaits -= taker.pendingWaits;
    const lostEnables = taker.closedTurns;
    taker.pendingWaits = 0;
    taker.closedTurns = 0;
    taker.turns = 0;
    if (wasOpen) pcq.abandon(out);
    if (lostEnables > 0) pcq.writeOff(lostEnables, out);
    this.admitQueued(group, out);
  }

  /** Ends all turns and releases every posted WAIT. */
  private endAllTurns(group: Group, out: Actions): void {
    for (const taker of [...group.open]) {
      this.removeFromOpen(taker);
      this.finishTurn(taker);
    }
    for (const taker of group.queue.splice(0)) taker.isQueued = false;
    group.pcq!.release(out);
  }

  private admitQueued(group: Group, out: Actions): void {
    while (group.queue.length > 0 && hasRoom(group)) {
      const taker = group.queue.shift()!;
      taker.isQueued = false;
      this.feedQp(taker.qp, out);
    }
  }

  /** Feeds all queue pairs of a context that hold requests, from a random one on. */
  private feedAll(context: ContextView, out: Actions): void {
    const { qps } = this;
    const first = this.firstTurns.draw();
    for (const qp of [...qps.slice(first), ...qps.slice(0, first)]) {
      if (qp !== undefined && qp.context === context) this.feedQp(qp, out);
    }
  }

  private feedQp(qp: QpView, out: Actions): void {
    if (qp.broken || out.backlog(qp) === 0) return;
    if (this.shapes(qp)) this.feed(qp, out);
    else this.engine.feed(qp, out);
  }

  /** Sets the quota of a turn up to its ENABLE. */
  private fill(taker: TurnTaker, out: Actions): void {
    const { quota, qp } = taker;
    const { turnBytes, turnRequests, aheadBytes, aheadRequests } = taker.group.limits;
    const wanted = this.engine.aheadBytes?.(qp, out) ?? 0;
    taker.aheadBytes = wanted > 0 ? Math.min(wanted, turnBytes >> 2) : aheadBytes;
    quota.bytes = turnBytes - taker.aheadBytes;
    quota.requests = turnRequests - aheadRequests;
  }

  private isTicketless(taker: TurnTaker, out: Actions): boolean {
    return taker.strikes > 0 && out.nowNs(taker.qp.context) < taker.ticketlessUntilNs;
  }

  private createPcq(group: Group, out: Actions): boolean {
    const { resources } = group;
    const { index } = resources.context;
    try {
      const tokens = { zeroWr: tokenOf(index, ZERO_WR), software: tokenOf(index, SOFTWARE) };
      group.pcq = new Pcq(resources, tokens, out);
      if (out.wait === 'emulated') group.limits = longerTurns(this.options);
      return true;
    } catch {
      return false;
    }
  }

  private takerOf(qp: QpView): TurnTaker {
    const known = this.takers[qp.index];
    if (known !== undefined) return known;
    const group = this.groups[qp.context.index]!;
    const taker = new TurnTaker(qp, group);
    this.takers[qp.index] = taker;
    group.takers.push(taker);
    return taker;
  }
}

/** Whether one more queue pair may wait for its turn in the device. */
function hasRoom({ pendingWaits, allow, pcq }: Group): boolean {
  return pendingWaits < allow * WAITING_PER_ALLOWED && pcq!.hasRoom;
}

/** Whether few enough requests are in flight for a turn without an end to continue. */
function mayContinue({ qp, group }: TurnTaker, out: Actions): boolean {
  const { turnBytes, turnRequests } = group.limits;
  return out.inflight(qp) < TURNS_AHEAD * turnRequests && out.inflightBytes(qp) < TURNS_AHEAD * turnBytes;
}

function longerTurns({ turnBytes, turnRequests, aheadBytes, aheadRequests }: TurnLimits): TurnLimits {
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
