/**
 * Divides one direction of a host's link among the tenants of that host and the other hosts that send to it or READ
 * from it, which cannot see each other. Each may use the same amount per unit of weight: the level. The others may use
 * what one of them does not need (weighted max-min fairness).
 */
import type { Load } from './messages.ts';

/** The link is contended if this part of it is used. */
const BUSY = 0.9;
/** The part of the link that is divided. With the rest, the queue in front of the link drains. */
const USABLE = 0.98;
/**
 * The level is multiplied by a factor, because some hosts or tenants may be held up elsewhere and leave room for the
 * others. The factor rises while less than the part IDLE of the link is used, and falls, down to 1, while more than the
 * part FULL is.
 */
const IDLE = 0.9;
const FULL = 0.95;
const RISE = 1.2;
const FALL = 0.9;
/** The time between two changes of the factor: reports reflect a change within about this time. */
const PERIOD_NS = 2.5e5;
/**
 * If the link is not full at any level, it is not what holds up those that use it, and levels only do harm. There is none
 * then for some time: twice as long each time, until levels have kept the link full for so many changes.
 */
const REST_NS = 1e7;
const MOST_REST_NS = 1e9;
const FULL_PERIODS = 40;
/** No host or tenant counts for more than this many times the weight of all others, whatever weight it claims. */
const MOST_TIMES = 16;
/**
 * The least part of the link that is divided among hosts and tenants that have more to send, whatever the others claim to
 * use. Those that do use so much are limited as well, and then have more to send, too.
 */
const LEAST_PART = 1 / (1 + MOST_TIMES);

/** The weight of a host, tenant or context, and the most that it needs. */
export interface Need {
  readonly weight: number;
  readonly perNs: number;
}

/**
 * The level that divides this rate in proportion to the weights. It is the rate itself if they need no more than that
 * together.
 */
export function levelOf(needs: readonly Need[], perNs: number): number {
  let leftPerNs = perNs;
  let weight = needs.reduce((sum, need) => sum + need.weight, 0);
  const sorted = [...needs].sort((a, b) => a.perNs / a.weight - b.perNs / b.weight);
  for (const need of sorted) {
    if (need.perNs * weight >= leftPerNs * need.weight) return leftPerNs / weight;
    leftPerNs -= need.perNs;
    weight -= need.weight;
  }
  return perNs;
}

/** The level of one direction of a link. */
export class Level {
  /** In bytes on the wire per nanosecond, for a unit of weight; 0: no limit. */
  perWeight = 0;
  private factor = 1;
  private changedNs = 0;
  /** Until when there is no level, and how long it will be the next time. */
  private restsUntilNs = 0;
  private restNs = REST_NS;
  /** Changes for which the link has been full. */
  private fullPeriods = 0;

  /**
   * Decides on a new level.
   * @param loads by host or tenant
   * @param capacityPerNs of the link, in bytes on the wire
   */
  decide(loads: ReadonlyMap<string, Load>, capacityPerNs: number, nowNs: number): void {
    const believed = boundedWeights(loads);
    let [totalPerNs, othersPerNs, weight, leastWeight] = [0, 0, 0, Number.POSITIVE_INFINITY];
    for (const load of believed) {
      totalPerNs += load.hungryPerNs + load.otherPerNs;
      othersPerNs += load.otherPerNs;
      weight += load.weight;
      if (load.weight > 0) leastWeight = Math.min(leastWeight, load.weight);
    }
    const usedPart = totalPerNs / capacityPerNs;
    const isFree = this.perWeight === 0 && (usedPart < BUSY || nowNs < this.restsUntilNs);
    if (weight === 0 || loads.size < 2 || isFree) {
      this.end();
      return;
    }
    if (this.perWeight > 0 && nowNs - this.changedNs >= PERIOD_NS) this.adjust(usedPart, nowNs);
    const leftPerNs = Math.max(USABLE * capacityPerNs - othersPerNs, LEAST_PART * capacityPerNs);
    this.perWeight = (this.factor * leftPerNs) / weight;
    if (this.perWeight * leastWeight < capacityPerNs) return;
    this.end();
    this.restsUntilNs = nowNs + this.restNs;
    this.restNs = Math.min(MOST_REST_NS, 2 * this.restNs);
  }

  private adjust(usedPart: number, nowNs: number): void {
    this.changedNs = nowNs;
    this.fullPeriods = usedPart < IDLE ? 0 : this.fullPeriods + 1;
    if (this.fullPeriods >= FULL_PERIODS) this.restNs = REST_NS;
    if (usedPart < IDLE) this.factor *= RISE;
    else if (usedPart > FULL) this.factor = Math.max(1, FALL * this.factor);
  }

  private end(): void {
    this.perWeight = 0;
    this.factor = 1;
    this.fullPeriods = 0;
  }
}

/** The loads, with weights bounded by MOST_TIMES. */
function boundedWeights(loads: ReadonlyMap<string, Load>): Load[] {
  const all = [...loads.values()];
  const total = all.reduce((sum, { weight }) => sum + weight, 0);
  return all.map((load) => {
    const others = total - load.weight;
    return { ...load, weight: others > 0 ? Math.min(load.weight, MOST_TIMES * others) : load.weight };
  });
}
