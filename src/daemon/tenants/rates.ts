/**
 * Rates of the groups and queue pairs of tenants. The contexts of a tenant receive them, and report how many of their
 * queue pairs have each. Contexts with queue pairs in a group share its rate in equal parts; the rate of a queue pair is
 * its own.
 */
import { groupOfTarget, MAX_RATES } from '../../verbs/rate-targets.ts';
import type { GivenRates, TenantRow } from '../protocol.ts';
import type { Setting } from '../tenant-settings.ts';

/** The numbers of contexts that share the rates of one tenant are sent at most this often, ... */
const TURN_NS = 20e6;
/** ... and less often if its contexts together receive more rates than this: a tenant may have a thousand contexts. */
const RATES_PER_TURN = 4096;
/** Bounds the size of a row. */
const MAX_SHOWN = 8;

/** A context that has reported how many of its queue pairs have rates. */
export interface RatedSeat {
  readonly tenant: RatedTenant;
}

interface RatedTenant {
  readonly seats: ReadonlySet<RatedSeat>;
  readonly rates: TenantRates;
}

/** The rates of one tenant at one device. */
export class TenantRates {
  /** By target. */
  private gbps: ReadonlyMap<string, number> = new Map();
  private targets: readonly string[] = [];
  private version = 0;
  /** Rates that have no effect, because there are too many. */
  private excess = 0;
  /** By context: how many of its queue pairs have each rate. */
  private readonly reported = new Map<RatedSeat, ReadonlyMap<string, number>>();
  /** What contexts receive, until it changes. */
  private known: GivenRates | null = null;
  /** When the contexts may receive the numbers of those that share rates again. */
  dueNs = Number.NEGATIVE_INFINITY;

  /** Takes over the rates by the rules and an operator. @returns whether they have changed */
  fix(all: ReadonlyMap<string, number>): boolean {
    const gbps = new Map([...all].slice(0, MAX_RATES));
    this.excess = all.size - gbps.size;
    const isSame =
      gbps.size === this.gbps.size && [...gbps].every(([target, one]) => this.gbps.get(target) === one);
    if (isSame) return false;
    this.known = null;
    this.gbps = gbps;
    this.targets = [...gbps.keys()];
    this.version++;
    if (gbps.size === 0) this.reported.clear();
    return true;
  }

  /**
   * A context reports how many of its queue pairs have each rate of a version.
   * @returns whether the number of contexts that share a rate has changed
   */
  report(seat: RatedSeat, version: number, qps: readonly number[]): boolean {
    const { targets } = this;
    if (version !== this.version || targets.length === 0 || qps.length !== targets.length) return false;
    const before = this.reported.get(seat);
    const now = new Map(targets.map((target, i) => [target, qps[i]]));
    this.reported.set(seat, now);
    this.known = null;
    return targets.some(
      (target) => groupOfTarget(target) !== null && now.get(target)! > 0 !== (before?.get(target) ?? 0) > 0,
    );
  }

  /** @returns as `report` */
  leave(seat: RatedSeat): boolean {
    const before = this.reported.get(seat);
    this.reported.delete(seat);
    this.known = null;
    return [...(before ?? [])].some(([target, qps]) => qps > 0 && groupOfTarget(target) !== null);
  }

  /** The number of queue pairs of the tenant that have a rate. */
  private qpsOf(target: string): number {
    let sum = 0;
    for (const qps of this.reported.values()) sum += qps.get(target) ?? 0;
    return sum;
  }

  private sharersOf(target: string): number {
    if (groupOfTarget(target) === null) return 1;
    let sharers = 0;
    for (const qps of this.reported.values()) if ((qps.get(target) ?? 0) > 0) sharers++;
    return Math.max(1, sharers);
  }

  /** What contexts receive; undefined: there are no rates. */
  get given(): GivenRates | undefined {
    if (this.gbps.size === 0) return undefined;
    const rates = () => [...this.gbps].map(([target, gbps]) => [target, [gbps, this.sharersOf(target)]]);
    this.known ??= { version: this.version, rates: Object.fromEntries(rates()) };
    return this.known;
  }

  /** The rates as `isoverbs tenants` shows them. */
  get shown(): Pick<TenantRow, 'rates' | 'ratedQps' | 'moreRates' | 'excessRates'> {
    const { targets, gbps } = this;
    if (targets.length === 0) return {};
    const first = targets.slice(0, MAX_SHOWN);
    const more = targets.length - first.length;
    return {
      rates: Object.fromEntries(first.map((target) => [target, gbps.get(target)!])),
      ratedQps: Object.fromEntries(first.map((target) => [target, this.qpsOf(target)])),
      ...(more > 0 && { moreRates: more }),
      ...(this.excess > 0 && { excessRates: this.excess }),
    };
  }

  /** The number of rates. */
  get size(): number {
    return this.targets.length;
  }
}

/** The tenants whose contexts do not know yet that more or fewer of them share a rate. */
export class RateNews<Seat extends RatedSeat> {
  private readonly tenants = new Set<RatedTenant>();

  /** Whether something is to be sent. */
  get isPending(): boolean {
    return this.tenants.size > 0;
  }

  /** A context reports how many of its queue pairs have each rate. */
  report(seat: Seat, version: number, qps: readonly number[]): void {
    if (seat.tenant.rates.report(seat, version, qps)) this.tenants.add(seat.tenant);
  }

  left(seat: Seat): void {
    const { tenant } = seat;
    if (tenant.rates.leave(seat)) this.tenants.add(tenant);
    if (tenant.seats.size === 0) this.tenants.delete(tenant);
  }

  /** The contexts that are to receive rates now. */
  take(nowNs: number): Seat[] {
    const due = [...this.tenants].filter(({ rates }) => rates.dueNs <= nowNs);
    return due.flatMap((tenant) => {
      this.tenants.delete(tenant);
      const turns = Math.max(1, (tenant.seats.size * tenant.rates.size) / RATES_PER_TURN);
      tenant.rates.dueNs = nowNs + turns * TURN_NS;
      return [...tenant.seats] as Seat[];
    });
  }
}

/** Why an operator's rates are refused; null: they are not. @param linkGbps of the devices where the tenant is; 0: unknown */
export function refusalOf(merged: Setting, change: Setting, linkGbps: readonly number[]): string | null {
  if (Object.keys(merged.rates ?? {}).length > MAX_RATES)
    return `a tenant can have at most ${MAX_RATES} rates of groups and queue pairs; those set to none count, too`;
  const least = Math.min(...linkGbps.filter((gbps) => gbps > 0));
  for (const [target, gbps] of Object.entries(change.rates ?? {})) {
    if (gbps !== null && gbps > least)
      return `the rate of ${target} must be at most ${least} Gbit/s, the rate of the link, not ${gbps}`;
  }
  return null;
}
