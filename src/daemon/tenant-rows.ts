/** The tenants of a device, as people see them. */
import * as M from '../coordinator/member-table.ts';
import type { TenantGroups } from './groups.ts';
import type { ProgramRow, TenantRow } from './protocol.ts';
import type { TenantSettings } from './tenant-settings.ts';
import type { TenantRates } from './tenants/rates.ts';
import { addSent, type Counted, type Total } from './tenants/totals.ts';

/** More than any page can truthfully report. */
const MAX_SHOWN = 2 ** 53;

/** Bounds the size of a row. */
const MAX_SHOWN_GROUPS = 8;
const MAX_SHOWN_PROGRAMS = 16;

/** What is shown of a context of a client. */
export interface ShownSeat {
  readonly client: { readonly pid: number };
  readonly tenant: { readonly total: Total };
  /** The counters as the client writes them. */
  readonly clientCounters: Float64Array;
  /** The part of the sent requests and bytes that the tenant's total already includes. */
  readonly counted: Counted;
}

/** Where no ruler says anything of a tenant. */
export const NOTHING_SAID = {
  class: '',
  why: '',
  wireGbps: 0,
  rateGbps: 0,
  split: false,
  qNumAllow: 0,
  referenceShare: 0,
};

interface ShownTenant {
  readonly name: string;
  readonly seats: ReadonlySet<ShownSeat>;
  readonly total: Total;
  readonly settings: TenantSettings;
  readonly groups: Pick<TenantGroups, 'names' | 'weightOf'>;
  readonly rates: Pick<TenantRates, 'shown'>;
}

/** The weights of the first groups by name, because a tenant may have a thousand. */
function groupsOf(groups: ShownTenant['groups']): Partial<TenantRow> {
  const { names } = groups;
  if (names.length === 0) return {};
  const shown = names.slice(0, MAX_SHOWN_GROUPS).map((name) => [name, groups.weightOf(name)]);
  const more = names.length - shown.length;
  return { groups: Object.fromEntries(shown), ...(more > 0 && { moreGroups: more }) };
}

/** Adds what a seat has sent since the last call to its tenant's total. */
export function updateTotal({ tenant, clientCounters, counted }: ShownSeat): void {
  addSent(tenant.total, counted, clientCounters);
}

const clamped = (value: number) => (value > 0 ? Math.min(value, MAX_SHOWN) : 0);

/** The processes that have these seats, the one with the most requests first. Updates the totals of their tenant. */
function programsOf(seats: ReadonlySet<ShownSeat>): ProgramRow[] {
  const byPid = new Map<number, ProgramRow>();
  for (const seat of seats) {
    updateTotal(seat);
    const { client, clientCounters } = seat;
    const known = byPid.get(client.pid) ?? NO_PROGRAM;
    byPid.set(client.pid, {
      pid: client.pid,
      contexts: known.contexts + 1,
      qps: known.qps + clamped(clientCounters[M.QPS]),
      sentRequests: known.sentRequests + clamped(clientCounters[M.SENT_REQUESTS]),
      sentBytes: known.sentBytes + clamped(clientCounters[M.SENT_BYTES]),
      heldRequests: known.heldRequests + clamped(clientCounters[M.HELD_REQUESTS]),
      latencyNs: Math.max(known.latencyNs, clamped(clientCounters[M.LATENCY_NS])),
    });
  }
  return [...byPid.values()].sort((a, b) => b.sentRequests - a.sentRequests || a.pid - b.pid);
}

const NO_PROGRAM: Omit<ProgramRow, 'pid'> = {
  contexts: 0,
  qps: 0,
  sentRequests: 0,
  sentBytes: 0,
  heldRequests: 0,
  latencyNs: 0,
};

/** A tenant as `isoverbs tenants` shows it, without what rulers say of it. */
export function rowOf(device: string, { name, seats, total, settings, groups, rates }: ShownTenant) {
  let [qps, heldRequests, latencyNs] = [0, 0, 0];
  const programs = programsOf(seats);
  for (const program of programs) {
    qps += program.qps;
    heldRequests += program.heldRequests;
    latencyNs = Math.max(latencyNs, program.latencyNs);
  }
  const more = programs.length - MAX_SHOWN_PROGRAMS;
  return {
    device,
    tenant: name,
    weight: settings.weight,
    gbps: settings.gbps,
    ...rates.shown,
    ...settings.labels,
    ...groupsOf(groups),
    contexts: seats.size,
    processes: programs.length,
    qps,
    sentRequests: total.sentRequests,
    sentBytes: total.sentBytes,
    heldRequests,
    latencyNs,
    maxQps: settings.maxQps || null,
    maxRequestsPerS: settings.maxRequestsPerS || null,
    programs: programs.slice(0, MAX_SHOWN_PROGRAMS),
    ...(more > 0 && { morePrograms: more }),
  };
}
