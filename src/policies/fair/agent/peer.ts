/** What the agent of fair knows of another host, and what it has sent to that host. */
import type { Demand, Levels, Limits, Load } from './messages.ts';

/** A message of a host is valid until so many more are overdue. */
const OVERDUE_PERIODS = 4;
/** The least relative change that is sent: of measured rates, and of weights and levels, which are exact. */
const DEMAND_CHANGE = 0.1;
const LEVEL_CHANGE = 0.02;
/** The same of measured rates while there is no limit: each message delays short ones of the tenants. */
const FREE_CHANGE = 0.25;
/** Unchanged messages are repeated after half of the time for which they are valid. */
const REPEAT_PERIODS = OVERDUE_PERIODS / 2;

/** Another host. */
export class Peer {
  /** What it sends here and READs from here; null: nothing, as far as is known. */
  demand: Demand | null = null;
  /** What a unit of weight may use of its link; null: no limit is known. */
  allowed: Limits | null = null;
  private demandEndsNs = 0;
  private allowedEndsNs = 0;
  /** The times of its last messages, by its own clock. */
  private askedNs = -1;
  private answeredNs = -1;
  /** What was last sent to it; null: nothing, or that the demand or the limits have ended. */
  private sentDemand: Demand | null = null;
  private sentLevels: Levels | null = null;

  /** It reports what it sends here and READs from here. Returns false for an outdated report. */
  asks(demand: Demand, nowNs: number): boolean {
    if (this.demand !== null && demand.sentNs <= this.askedNs) return false;
    this.askedNs = demand.sentNs;
    this.demandEndsNs = nowNs + OVERDUE_PERIODS * demand.periodNs;
    const isIdle = isNothing(demand.out) && isNothing(demand.in);
    this.demand = isIdle ? null : demand;
    return true;
  }

  /** It answers with what the tenants of this host may use of its link. Returns false for an outdated answer. */
  answers(levels: Levels, periodNs: number, nowNs: number): boolean {
    if (this.allowed !== null && levels.sentNs <= this.answeredNs) return false;
    this.answeredNs = levels.sentNs;
    this.allowedEndsNs = nowNs + OVERDUE_PERIODS * periodNs;
    this.allowed = levels.outPerNs + levels.inPerNs > 0 ? levels : null;
    return true;
  }

  expire(nowNs: number): void {
    if (nowNs > this.demandEndsNs) this.demand = null;
    if (nowNs > this.allowedEndsNs) this.allowed = null;
  }

  /** The host has left. */
  forget(): void {
    this.demand = null;
    this.allowed = null;
    this.sentDemand = null;
    this.sentLevels = null;
    this.askedNs = -1;
    this.answeredNs = -1;
  }

  /** Whether the last report to it says that something is sent to it or READ from it. */
  get hasAsked(): boolean {
    return this.sentDemand !== null;
  }

  /** Whether to send this report. If so, it counts as sent. */
  isDemandDue(demand: Demand): boolean {
    const { sentDemand, allowed } = this;
    const isFree = allowed === null;
    const isIdle = isNothing(demand.out) && isNothing(demand.in);
    const isDue =
      sentDemand === null
        ? !isIdle
        : isIdle ||
          // The peer answers as often as it is asked, so the limits that it now sets would end before it repeats them.
          demand.periodNs < sentDemand.periodNs ||
          demand.sentNs - sentDemand.sentNs >= REPEAT_PERIODS * sentDemand.periodNs ||
          differ(demand.out, sentDemand.out, isFree) ||
          differ(demand.in, sentDemand.in, isFree);
    if (isDue) this.sentDemand = isIdle ? null : demand;
    return isDue;
  }

  /** Whether to answer with these levels. If so, they count as sent. */
  isAnswerDue(levels: Levels): boolean {
    const { sentLevels, demand } = this;
    const isFree = demand === null || levels.outPerNs + levels.inPerNs === 0;
    const isDue =
      sentLevels === null
        ? !isFree
        : isFree ||
          levels.sentNs - sentLevels.sentNs >= REPEAT_PERIODS * demand.periodNs ||
          changes(levels.outPerNs, sentLevels.outPerNs, LEVEL_CHANGE) ||
          changes(levels.inPerNs, sentLevels.inPerNs, LEVEL_CHANGE);
    if (isDue) this.sentLevels = isFree ? null : levels;
    return isDue;
  }
}

/** Whether nothing loads the link. */
export const isNothing = ({ weight, hungryPerNs, otherPerNs }: Load): boolean =>
  weight + hungryPerNs + otherPerNs === 0;

const changes = (now: number, before: number, least: number): boolean =>
  Math.abs(now - before) > least * Math.max(now, before);

function differ(now: Load, before: Load, isFree: boolean): boolean {
  const { weight, hungryPerNs, otherPerNs } = before;
  // Changes of a small rate next to a large one do not matter.
  const total = now.hungryPerNs + now.otherPerNs + hungryPerNs + otherPerNs;
  const least = isFree ? FREE_CHANGE : DEMAND_CHANGE;
  const isFar = (a: number, b: number) => Math.abs(a - b) > least * total;
  // Without a limit, there will be none because of less weight.
  const isOther = (!isFree || now.weight > weight) && changes(now.weight, weight, LEVEL_CHANGE);
  return isOther || isFar(now.hungryPerNs, hungryPerNs) || isFar(now.otherPerNs, otherPerNs);
}
