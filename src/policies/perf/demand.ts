/**
 * What the tenants of a device take of its link. A tenant of large messages that takes less than its share leaves the
 * rest to others: it is none of the sharers. Conversely, tenants of small messages that fill the link share it, too.
 */
import { IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import { egressBytes, ROCE } from '../kit/wire.ts';
import { BANDWIDTH, DELAY, IDLE, MESSAGES } from './columns.ts';
import type { TenantReports } from './tenant-reports.ts';

/** A tenant with less than this part of its share does not need the rest. Rates of a few messages per sample vary. */
const SATED = 0.7;
/** What is left to a sated tenant, relative to what it sends, so that it can grow. */
export const GROWTH = 1.25;
/** From this part of the link on, it is full, and stays so down to the other part: 0_WAITs leave 1 % of it. */
const FULL = 0.975;
const STILL_FULL = 0.9;
/** Large messages leave up to this part of the link to small ones, which need not be paced then (wait-pacer.ts). */
export const MOST_SMALL = 0.5;
/** A sated tenant of messages up to this size, or of one at a time, suffers from queues as those of small messages do. */
const SHORT_BYTES = 4096;
/** Messages per microsecond that occupy a queue pair (ConnectX-6: 12.4), and bytes of headers of each. */
const QP_MESSAGES_PER_US = 10;
const HEADER_BYTES = egressBytes(ROCE, IBV_WR_RDMA_WRITE, 0);

/** The role of a tenant at the link. */
export const ABSENT = 0;
/** Small messages, or large ones that are as rare. */
export const SMALL_MESSAGES = 1;
/** Large messages, fewer than its share of the link. */
export const LIGHT = 2;
/** Large messages, as many as its share of the link and more. */
export const HEAVY = 3;
/** Small messages that fill the link, at the expense of the delay of others. */
export const FILLING = 4;

/** The roles of the tenants at one device. */
export class Demand {
  // By tenant.
  roles = new Uint8Array(0);
  /** Those that fill the link as of the last decision. */
  private filled = new Uint8Array(0);
  private version = -1;
  private weighs = false;
  private hasHeavy = false;
  private readonly reports: TenantReports;

  constructor(reports: TenantReports) {
    this.reports = reports;
  }

  /**
   * Gives tenants roles by what they send, each among those whose messages leave by the same way.
   * @param linkGbps 0: by their classes alone, whatever they send
   * @param version of the indices of tenants
   */
  weigh(linkGbps: number, version: number): void {
    const { classes, length } = this.reports;
    if (this.roles.length < length) {
      this.roles = new Uint8Array(2 * length);
      this.filled = new Uint8Array(2 * length);
    }
    if (version !== this.version) this.filled.fill(0);
    this.version = version;
    for (let tenant = 0; tenant < length; tenant++) this.roles[tenant] = roleOf(classes[tenant]);
    this.weighs = linkGbps > 0;
    if (!this.weighs) return;
    this.weighPath(linkGbps, 0);
    this.weighPath(linkGbps, 1);
    this.hasHeavy = this.roles.subarray(0, length).includes(HEAVY);
  }

  /**
   * The queue pairs that a tenant's small messages would occupy. Next to large messages, where they are fewer than the
   * tenant could send, and for a tenant of which nothing is known: 1.
   */
  busyQpsOf(tenant: number): number {
    if (!this.weighs || this.hasHeavy) return 1;
    const { wireGbps, meanBytes } = this.reports;
    return (wireGbps[tenant] * 125) / (meanBytes[tenant] + HEADER_BYTES) / QP_MESSAGES_PER_US;
  }

  private weighPath(linkGbps: number, path: number): void {
    const { roles, filled, reports } = this;
    const { loops, length } = reports;
    const isFull = this.isFull(linkGbps, path);
    let [restGbps, heavy] = [linkGbps, 0];
    for (let tenant = 0; tenant < length; tenant++) {
      if (loops[tenant] !== path || roles[tenant] === ABSENT) continue;
      if (roles[tenant] === SMALL_MESSAGES && isFull && this.mayFill(tenant)) roles[tenant] = FILLING;
      if (roles[tenant] >= HEAVY) heavy++;
      else restGbps -= reports.wireGbps[tenant];
    }
    for (let hasChanged = true; hasChanged && heavy > 0; ) {
      hasChanged = false;
      for (let tenant = 0; tenant < length; tenant++) {
        if (loops[tenant] !== path || roles[tenant] < HEAVY) continue;
        const demand = this.demandOf(tenant);
        if (demand >= (SATED * Math.max(0, restGbps)) / heavy) continue;
        roles[tenant] = roles[tenant] === HEAVY && !this.isShort(tenant) ? LIGHT : SMALL_MESSAGES;
        restGbps -= GROWTH * demand;
        heavy--;
        hasChanged = true;
      }
    }
    for (let tenant = 0; tenant < length; tenant++) {
      if (loops[tenant] === path) filled[tenant] = roles[tenant] === FILLING ? 1 : 0;
    }
  }

  /** Whether tenants of small messages, for the most part, fill the link while one of the tenants waits for each answer. */
  private isFull(linkGbps: number, path: number): boolean {
    const { loops, length, classes, wireGbps, awaitsAnswers } = this.reports;
    let [sum, sumOfSmall, waiting, wasFull] = [0, 0, 0, 0];
    for (let tenant = 0; tenant < length; tenant++) {
      if (loops[tenant] !== path || classes[tenant] === IDLE) continue;
      sum += wireGbps[tenant];
      if (this.mayFill(tenant)) sumOfSmall += wireGbps[tenant];
      wasFull |= this.filled[tenant];
      if (awaitsAnswers[tenant] === 1 || (classes[tenant] === DELAY && !this.mayFill(tenant))) waiting++;
    }
    if (sumOfSmall < linkGbps * MOST_SMALL) return false;
    return waiting > 0 && sum >= linkGbps * (wasFull === 1 ? STILL_FULL : FULL);
  }

  private mayFill(tenant: number): boolean {
    const { classes, awaitsAnswers } = this.reports;
    if (awaitsAnswers[tenant] === 1) return false;
    return classes[tenant] === MESSAGES || (classes[tenant] === DELAY && this.reports.isMulti(tenant));
  }

  /** Tenants of small messages are outstanding all the time, whatever they need. */
  private demandOf(tenant: number): number {
    const { wireGbps, demandGbps } = this.reports;
    const isKnown = this.roles[tenant] === FILLING || this.isShort(tenant);
    return isKnown ? wireGbps[tenant] : Math.max(wireGbps[tenant], demandGbps[tenant]);
  }

  private isShort(tenant: number): boolean {
    const { meanBytes, queueLength } = this.reports;
    return meanBytes[tenant] <= SHORT_BYTES && (queueLength[tenant] <= 1 || this.isRare(tenant));
  }

  /** Whether it did not always wait for the link. */
  private isRare(tenant: number): boolean {
    return this.reports.demandGbps[tenant] <= this.reports.wireGbps[tenant];
  }
}

function roleOf(of: number): number {
  if (of === IDLE) return ABSENT;
  return of === BANDWIDTH ? HEAVY : SMALL_MESSAGES;
}
