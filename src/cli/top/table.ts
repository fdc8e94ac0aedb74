/** What `isoverbs top` shows of tenants: rates between two samples of the daemon, in order, and the printed table. */
import type { ProgramRow, TenantRow } from '../../daemon/protocol.ts';
import { MAX_RATES } from '../../verbs/rate-targets.ts';
import { escaped } from '../escape.ts';
import { tableWithNotes } from '../output/table.ts';
import type { TenantSample } from '../watch-tenants.ts';

/** Rates between two samples: message bytes in Gbit/s, and requests. Null for what was not in the first sample. */
export interface Rates {
  readonly sentGbps: number | null;
  readonly requestsPerS: number | null;
}

/** A process of a tenant with its rates. */
export type ProgramRate = ProgramRow & Rates;

/** A tenant with its rates; its processes (programsOf) have rates, too. */
export type TopRow = TenantRow & Rates;

/** The processes of a tenant, with their rates. */
export function programsOf(row: TopRow): readonly ProgramRate[] {
  return (row.programs ?? []) as unknown as readonly ProgramRate[];
}

/** The orders of rows. */
export const ORDERS = ['bandwidth', 'rate', 'latency', 'tenant'] as const;
export type Order = (typeof ORDERS)[number];

const VALUE: Record<Exclude<Order, 'tenant'>, (row: TopRow) => number> = {
  bandwidth: (row) => row.sentGbps ?? 0,
  rate: (row) => row.requestsPerS ?? 0,
  latency: latencyOf,
};

const keyOf = ({ device, tenant }: Pick<TenantRow, 'device' | 'tenant'>) => `${device}\0${tenant}`;

type Sums = Pick<ProgramRow, 'sentBytes' | 'sentRequests'>;

function ratesBetween(old: Sums | undefined, now: Sums, elapsedNs: number): Rates {
  const isSame = old !== undefined && elapsedNs > 0 && now.sentBytes >= old.sentBytes;
  if (!isSame || now.sentRequests < old.sentRequests) return { sentGbps: null, requestsPerS: null };
  return {
    sentGbps: ((now.sentBytes - old.sentBytes) * 8) / elapsedNs,
    requestsPerS: ((now.sentRequests - old.sentRequests) * 1e9) / elapsedNs,
  };
}

/** Rates by the daemon's clock. After a restart, when clock and sums begin again, the first sample has no rates. */
export function ratesOf(previous: TenantSample | null, { nowNs, rows }: TenantSample): TopRow[] {
  const oldRows = new Map(previous?.rows.map((row) => [keyOf(row), row]));
  const elapsedNs = previous === null ? 0 : nowNs - previous.nowNs;
  return rows.map((row) => {
    const old = oldRows.get(keyOf(row));
    const programs = row.programs?.map((one) => {
      const before = old?.programs?.find(({ pid }) => pid === one.pid);
      return { ...one, ...ratesBetween(before, one, elapsedNs) };
    });
    return { ...row, ...ratesBetween(old, row, elapsedNs), ...(programs && { programs }) };
  });
}

/** Largest first; equal rows by device and name. */
export function ordered(rows: readonly TopRow[], order: Order): TopRow[] {
  const byName = (a: TopRow, b: TopRow) => (keyOf(a) < keyOf(b) ? -1 : 1);
  if (order === 'tenant') return [...rows].sort(byName);
  const value = VALUE[order];
  return [...rows].sort((a, b) => value(b) - value(a) || byName(a, b));
}

const UNITS: readonly (readonly [number, string])[] = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
];

/** With a unit: 2.5M. */
export function short(value: number): string {
  const [size, unit] = UNITS.find(([least]) => value >= least) ?? [1, ''];
  return `${(value / size).toFixed(size === 1 ? 0 : 1)}${unit}`;
}

const orDash = (value: number | null, text: (value: number) => string) =>
  value === null || value === 0 ? '-' : text(value);

const qps = (count: number) => `${count} QP${count === 1 ? '' : 's'}`;

/** The limits of a tenant, and the rates of its groups and queue pairs in Gbit/s; `-` for none. */
export function limitsOf({
  maxQps,
  maxRequestsPerS,
  rates = {},
  ratedQps = {},
  moreRates = 0,
  excessRates = 0,
}: TenantRow): string {
  const limits = [
    ...Object.entries(rates).map(([target, gbps]) => `${target} ${gbps} Gbit/s (${qps(ratedQps[target])})`),
    moreRates === 0 ? '' : `${moreRates} more rates`,
    excessRates === 0 ? '' : `${excessRates} rates beyond ${MAX_RATES} have no effect`,
    maxQps === null ? '' : qps(maxQps),
    maxRequestsPerS === null ? '' : `${short(maxRequestsPerS)}/s`,
  ];
  return limits.filter((one) => one !== '').join(', ') || '-';
}

/** Whether a tenant or a process has sent nothing in the last interval, and nothing is held. */
export const isIdle = ({ requestsPerS, heldRequests }: Pick<ProgramRate, 'requestsPerS' | 'heldRequests'>) =>
  requestsPerS === 0 && heldRequests === 0;

/** The sampled latency; 0 if there is none, or if it is that of an earlier time, because the sender is idle. */
export function latencyOf(row: Pick<ProgramRate, 'requestsPerS' | 'heldRequests' | 'latencyNs'>): number {
  return isIdle(row) ? 0 : row.latencyNs;
}

/**
 * `idle` if the tenant has sent nothing in the last interval and nothing is held, whatever its policy; otherwise its
 * class, or `active` where no policy gives it one.
 */
export function classOf(row: TopRow): string {
  if (isIdle(row)) return 'idle';
  return row.class === '' || row.class === 'idle' ? 'active' : row.class;
}

const HEAD = [
  'device',
  'tenant',
  'class',
  'QPs',
  'procs',
  'Gbit/s',
  'req/s',
  'may',
  'weight',
  'held',
  'us',
  'limits',
  'why',
];

/** How many of these columns are texts. */
const NOTES = 2;

/** The table. If it is wider than `width`, limits and reasons follow below their rows. */
export function topTable(rows: readonly TopRow[], width?: number): string {
  const cells = rows.map((row) => [
    row.device,
    row.tenant,
    classOf(row),
    `${row.qps}`,
    `${row.processes}`,
    orDash(row.sentGbps, (value) => value.toFixed(2)),
    orDash(row.requestsPerS, short),
    orDash(row.rateGbps, (value) => value.toFixed(2)),
    row.gbps === null ? `${row.weight}` : 'own',
    orDash(row.heldRequests, short),
    orDash(latencyOf(row), (value) => (value / 1e3).toFixed(1)),
    limitsOf(row),
    row.split ? `isolated: ${row.why}` : row.why,
  ]);
  return tableWithNotes(
    cells.map((row) => row.map(escaped)),
    HEAD,
    NOTES,
    width,
  );
}
