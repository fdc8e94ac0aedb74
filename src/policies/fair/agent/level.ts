/**
 * Divides one direction of a link among hosts and tenants that cannot see each other: those of its own host, and those of
 * other hosts that send to it or READ from it. Each may use the same amount per unit of weight, the level, and what one
 * does not need is for the others (weighted max-min fairness).
 */
import type { Load } from './messages.ts';

/** The link is contended if this part of it is used. */
const BUSY = 0.9;
/** While less than this is used, the level rises, each time by this factor: somebody is held back in vain. */
const IDLE = 0.85;
const RISE = 1.25;
/** Whoever stays below this part of what it may use, for so many decisions in a row, is held up by something else ... */
const BELOW = 0.8;
const PATIENCE = 4;
/** ... and is expected to use this many times what it has used, as whoever has no more to send. */
export const GROWTH = 1.25;
/** The least level, as a part of the link: nobody is shut out. */
const LEAST_PART = 2 ** -12;

/** What somebody needs at most. */
export interface Need {
  readonly weight: number;
  readonly perNs: number;
}

/**
 * The level up to which all may use something that has this rate, in proportion to their weights. It is that rate if they
 * need less together.
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
  /** By what loads the link: decisions in a row for which it has stayed below the level. */
  private readonly below = new Map<string, number>();

  /**
   * Decides anew.
   * @param loads by host or tenant
   * @param capacityPerNs of the link, in bytes on the wire
   */
  decide(loads: ReadonlyMap<string, Load>, capacityPerNs: number): void {
    for (const key of this.below.keys()) if (!loads.has(key)) this.below.delete(key);
    let [totalPerNs, weight, leastWeight] = [0, 0, Number.POSITIVE_INFINITY];
    for (const load of loads.values()) {
      totalPerNs += load.hungryPerNs + load.otherPerNs;
      weight += load.weight;
      if (load.weight > 0) leastWeight = Math.min(leastWeight, load.weight);
    }
    const isFree = totalPerNs < (this.perWeight > 0 ? IDLE : BUSY) * capacityPerNs;
    if (weight === 0 || loads.size < 2 || (isFree && this.perWeight === 0)) this.end();
    else if (isFree) {
      this.perWeight *= RISE;
      if (this.perWeight * leastWeight >= capacityPerNs) this.end();
    } else {
      const perNs = this.fill(loads, capacityPerNs);
      this.perWeight = Math.max(perNs, (LEAST_PART * capacityPerNs) / weight);
    }
  }

  private end(): void {
    this.perWeight = 0;
    this.below.clear();
  }

  /** The level at which the link is just full. */
  private fill(loads: ReadonlyMap<string, Load>, capacityPerNs: number): number {
    let leftPerNs = capacityPerNs;
    const needs: Need[] = [];
    for (const [key, load] of loads) {
      leftPerNs -= load.otherPerNs;
      if (load.weight > 0) needs.push({ weight: load.weight, perNs: this.needOf(key, load) });
    }
    return levelOf(needs, leftPerNs);
  }

  /** What those with more to send are expected to use at most. */
  private needOf(key: string, { weight, hungryPerNs }: Load): number {
    const isBelow = this.perWeight > 0 && hungryPerNs < BELOW * weight * this.perWeight;
    const times = isBelow ? (this.below.get(key) ?? 0) + 1 : 0;
    this.below.set(key, times);
    return times >= PATIENCE ? GROWTH * hungryPerNs : Number.POSITIVE_INFINITY;
  }
}
