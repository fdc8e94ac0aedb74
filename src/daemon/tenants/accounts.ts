/**
 * What tenants have spent of their limits and rates. Each process keeps to its part by itself; the account catches what
 * processes spend together beyond the limit of their tenant. The tenant gets less until it has made up for that, whether
 * or not the processes and contexts still exist. There is no clock here: times are arguments.
 */
import * as M from '../../coordinator/member-table.ts';
import { Bucket } from '../../shim/limits/bucket.ts';
import { mostLateNs } from '../../shim/limits/lateness.ts';
import { declare, type TenantSettings } from '../tenant-settings.ts';
import { increase, keyOf } from './totals.ts';

/**
 * What may be spent in advance: the bursts of several processes, and what was spent since they last reported. In seconds
 * of the limit, plus a number. To a rate, `burstBytes` adds what processes that were late may make up for.
 */
const ADVANCE_S = 0.1;
const LEAST_REQUESTS = 8;
const LEAST_BYTES = 1 << 18;
/** Processes may not know of a lower limit before this time has passed. */
const NOTICE_S = 0.05;
/** A debt of the limit of this time leaves nothing of the limit. */
const PAYBACK_S = 0.25;
/** The least part of a limit that is left, because 0 means that there is no limit. */
const LEAST_PART = 1e-6;
const BYTES_PER_GBIT = 1e9 / 8;
/** Tenants without contexts whose accounts are kept. */
const MAX_KEPT = 4096;

const burstBytes = (perS: number) => perS * (ADVANCE_S + mostLateNs(1e9 / perS) / 1e9) + LEAST_BYTES;

/** What is spent of one limit. */
class Spending {
  private readonly burstOf: (perS: number) => number;
  private bucket: Bucket | null = null;
  private perS = 0;

  constructor(burstOf: (perS: number) => number) {
    this.burstOf = burstOf;
  }

  /** @returns the part of the limit (`perS`; 0: none) that is left, from 0 to 1 */
  update(perS: number, spent: number, nowNs: number): number {
    if (!(perS > 0)) {
      this.bucket = null;
      return 1;
    }
    const burst = this.burstOf(perS);
    this.bucket ??= new Bucket({ burst, nowNs });
    const { bucket } = this;
    bucket.fill(nowNs);
    if (perS !== this.perS) {
      bucket.setRate(perS / 1e9);
      bucket.setBurst(burst);
      bucket.take(-Math.max(0, this.perS - perS) * NOTICE_S);
      this.perS = perS;
    }
    bucket.take(spent);
    return Math.max(LEAST_PART, Math.min(1, 1 + bucket.tokens / (perS * PAYBACK_S)));
  }

  isFull(nowNs: number): boolean {
    return this.bucket === null || this.bucket.isFull(nowNs);
  }
}

/** What a context has paid as of the last reading of its counters. */
export interface Paid {
  requests: number;
  bytes: number;
}

/** The account of a tenant at a device. */
export class Account {
  private readonly requests = new Spending((perS) => perS * ADVANCE_S + LEAST_REQUESTS);
  private readonly bytes = new Spending(burstBytes);
  /** Spent since the last settlement. */
  private unsettledRequests = 0;
  private unsettledBytes = 0;
  /** The parts of the limits that are left. */
  private requestsPart = 1;
  private bytesPart = 1;

  /** Reads what a context has paid. */
  read(counters: Float64Array, paid: Paid): void {
    this.unsettledRequests += increase(paid.requests, counters[M.PAID_REQUESTS]);
    this.unsettledBytes += increase(paid.bytes, counters[M.PAID_BYTES]);
    paid.requests = counters[M.PAID_REQUESTS];
    paid.bytes = counters[M.PAID_BYTES];
  }

  /** What was read and not charged is forgotten. */
  forgive(): void {
    [this.unsettledRequests, this.unsettledBytes] = [0, 0];
  }

  /** Charges what was read. @returns whether other parts of the limits are left than before */
  settle({ maxRequestsPerS, gbps }: TenantSettings, nowNs: number): boolean {
    const { requestsPart, bytesPart } = this;
    this.requestsPart = this.requests.update(maxRequestsPerS, this.unsettledRequests, nowNs);
    this.bytesPart = this.bytes.update((gbps ?? 0) * BYTES_PER_GBIT, this.unsettledBytes, nowNs);
    [this.unsettledRequests, this.unsettledBytes] = [0, 0];
    return requestsPart !== this.requestsPart || bytesPart !== this.bytesPart;
  }

  /** The settings with what is left of the limits. */
  inForce(settings: TenantSettings): TenantSettings {
    const { maxRequestsPerS, gbps } = settings;
    return {
      ...settings,
      maxRequestsPerS: maxRequestsPerS * this.requestsPart,
      gbps: gbps === null ? null : gbps * this.bytesPart,
    };
  }

  /** Whether a new account would be in the same state. */
  isPristine(nowNs: number): boolean {
    return (
      this.unsettledRequests + this.unsettledBytes === 0 &&
      this.requests.isFull(nowNs) &&
      this.bytes.isFull(nowNs)
    );
  }
}

/** A tenant with an account, and its contexts. */
interface Holder {
  readonly account: Account;
  readonly settings: TenantSettings;
  readonly seats: Iterable<{
    readonly page: M.MemberPage;
    readonly clientCounters: Float64Array;
    readonly paid: Paid;
  }>;
}

/**
 * Charges what the contexts of tenants of a device have paid since the last call, and declares what is left of the
 * tenants' limits. Each process has a clock of its own on a simulated device, so that sums would mean nothing there.
 */
export function settle(isSimulated: boolean, tenants: Iterable<Holder>, nowNs: number): void {
  if (isSimulated) return;
  for (const tenant of tenants) settleOne(tenant, nowNs);
}

/** From now on, the tenant has limits. What it has sent without any is no debt. @param isNew whether it has just come */
export function beginLimits<H extends Holder>(limited: Set<H>, tenant: H, isNew: boolean): void {
  if (!isNew && !limited.has(tenant)) {
    for (const { clientCounters, paid } of tenant.seats) tenant.account.read(clientCounters, paid);
    tenant.account.forgive();
  }
  limited.add(tenant);
}

function settleOne({ account, settings, seats }: Holder, nowNs: number): void {
  for (const { clientCounters, paid } of seats) account.read(clientCounters, paid);
  if (!account.settle(settings, nowNs)) return;
  const left = account.inForce(settings);
  for (const { page } of seats) declare(page, left);
}

/** The accounts of all tenants that have contexts, or have spent more than a new tenant. */
export class Accounts {
  /** Those of tenants without contexts, in the order in which they left. */
  private readonly kept = new Map<string, Account>();

  /** The account of a tenant that gets its first context at a device. */
  enter(device: string, tenant: string): Account {
    const key = keyOf(device, tenant);
    const account = this.kept.get(key) ?? new Account();
    this.kept.delete(key);
    return account;
  }

  /** The last context of the tenant has left the device. */
  leave(device: string, tenant: string, account: Account, nowNs: number): void {
    if (account.isPristine(nowNs)) return;
    this.kept.set(keyOf(device, tenant), account);
    for (const [key, one] of this.kept) {
      if (this.kept.size <= MAX_KEPT && !one.isPristine(nowNs)) return;
      this.kept.delete(key);
    }
  }
}
