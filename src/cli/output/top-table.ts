/** What `isoverbs top` shows: rates between two looks at the daemon's tenants, in order, as a table. */
import type { TenantRow } from '../../daemon/protocol.ts';
import type { Look } from '../watch-tenants.ts';
import { tableText } from './table.ts';

/** A tenant with what it sent a second between two looks; null: it was not there at the first. */
export type TopRow = TenantRow & { readonly sentGbps: number | null; readonly requestsPerS: number | null };

/** Keys by which rows are ordered, and what each is. */
export const ORDERS = ['bandwidth', 'rate', 'latency', 'tenant'] as const;
export type Order = (typeof ORDERS)[number];

const VALUE: Record<Exclude<Order, 'tenant'>, (row: TopRow) => number> = {
  bandwidth: (row) => row.sentGbps ?? 0,
  rate: (row) => row.requestsPerS ?? 0,
  latency: (row) => row.latencyNs,
};

const keyOf = ({ device, tenant }: TenantRow) => `${device}\0${tenant}`;

/** Rates, by the daemon's clock. Of another daemon, whose clock and sums begin anew, the first look has none. */
export function ratesOf(before: Look | null, { nowNs, rows }: Look): TopRow[] {
  const old = new Map(before?.rows.map((row) => [keyOf(row), row]));
  const elapsedNs = before === null ? 0 : nowNs - before.nowNs;
  return rows.map((row) => {
    const was = old.get(keyOf(row));
    const isSame = was !== undefined && elapsedNs > 0 && row.sentBytes >= was.sentBytes;
    if (!isSame || row.sentRequests < was.sentRequests) return { ...row, sentGbps: null, requestsPerS: null };
    return {
      ...row,
      sentGbps: ((row.sentBytes - was.sentBytes) * 8) / elapsedNs,
      requestsPerS: ((row.sentRequests - was.sentRequests) * 1e9) / elapsedNs,
    };
  });
}

/** The largest first; those that are alike by device and name. */
export function ordered(rows: readonly TopRow[], order: Order): TopRow[] {
  const byName = (a: TopRow, b: TopRow) => (keyOf(a) < keyOf(b) ? -1 : 1);
  if (order === 'tenant') return [...rows].sort(byName);
  const value = VALUE[order];
  return [...rows].sort((a, b) => value(b) - value(a) || byName(a, b));
}

/** A name that somebody else gave, without what would steer a terminal. */
export function shownName(name: string): string {
  return name.replace(/\p{C}|[\u2028\u2029]/gu, '?');
}

const UNITS: readonly (readonly [number, string])[] = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
];

function short(value: number): string {
  const [size, unit] = UNITS.find(([least]) => value >= least) ?? [1, ''];
  return `${(value / size).toFixed(size === 1 ? 0 : 1)}${unit}`;
}

const some = (value: number | null, text: (value: number) => string) =>
  value === null || value === 0 ? '-' : text(value);

/** Of a tenant; `-`: none. */
export function limitsOf({ maxQps, maxRequestsPerS }: TenantRow): string {
  const limits = [
    maxQps === null ? '' : `${maxQps} QPs`,
    maxRequestsPerS === null ? '' : `${short(maxRequestsPerS)}/s`,
  ];
  return limits.filter((one) => one !== '').join(', ') || '-';
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

/** The table; the last column is wrapped to the width. */
export function topTable(rows: readonly TopRow[], width?: number): string {
  const cells = rows.map((row) => [
    row.device,
    shownName(row.tenant),
    row.class,
    `${row.qps}`,
    `${row.processes}`,
    some(row.sentGbps, (value) => value.toFixed(2)),
    some(row.requestsPerS, short),
    some(row.rateGbps, (value) => value.toFixed(2)),
    row.gbps === null ? `${row.weight}` : 'own',
    some(row.heldRequests, short),
    some(row.latencyNs, (value) => (value / 1e3).toFixed(1)),
    limitsOf(row),
    row.split ? `isolated: ${row.why}` : row.why,
  ]);
  return tableText(cells, { head: HEAD }, width);
}
