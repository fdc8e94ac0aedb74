/** What the configuration and the operator have declared for tenants. */
import * as M from '../coordinator/member-table.ts';
import { ISO_TRAFFIC_UNDECLARED } from '../verbs/constants.ts';
import { TRAFFIC_NAMES } from '../verbs/labels.ts';
import type { GivenLabels } from './protocol.ts';
import { type Identity, NO_LABELS, type TenantLabels } from './rules.ts';

/** The settings of a tenant (TENANT in src/coordinator/member-table.ts). */
export interface TenantSettings {
  readonly weight: number;
  /** Null: a share by weight. */
  readonly gbps: number | null;
  /** Rates of groups and queue pairs in Gbit/s, by target, in the order of targets. */
  readonly rates: ReadonlyMap<string, number>;
  readonly labels: TenantLabels;
  /** Weights of groups, by name. */
  readonly groups: ReadonlyMap<string, number>;
  /** 0: no limit. */
  readonly maxQps: number;
  readonly maxRequestsPerS: number;
}

/** As if nothing were declared. */
export const UNSET: TenantSettings = {
  weight: 1,
  gbps: null,
  rates: new Map(),
  labels: NO_LABELS,
  groups: new Map(),
  maxQps: 0,
  maxRequestsPerS: 0,
};

/** What an operator has set for a tenant; it takes precedence over the rules. */
export interface Setting extends Partial<TenantLabels> {
  weight?: number;
  /** Null: as the programs set them. */
  groups?: Readonly<Record<string, number | null>>;
  gbps?: number | null;
  /** Null: no rate, whatever the rules say. */
  rates?: Readonly<Record<string, number | null>>;
  maxQps?: number | null;
  maxRequestsPerS?: number | null;
}

/** A tenant's settings: the operator's or, if unset, those of its clients' identities. */
export function settingsOf(all: readonly Identity[], setting: Setting): TenantSettings {
  const { weight = Math.max(...all.map((one) => one.weight)) } = setting;
  const { gbps = largest(all.map((one) => one.gbps ?? 0)) } = setting;
  const { maxQps = strictest(all.map((one) => one.maxQps)) } = setting;
  const { maxRequestsPerS = strictest(all.map((one) => one.maxRequestsPerS)) } = setting;
  const labels = { ...labelsOf(all), ...setLabels(setting) };
  const groups = largestByName(
    all.map((one) => one.groups),
    setting.groups,
  );
  const rates = largestByName(
    all.map((one) => one.rates),
    setting.rates,
  );
  return { weight, gbps, rates, labels, groups, maxQps: maxQps ?? 0, maxRequestsPerS: maxRequestsPerS ?? 0 };
}

/** What an operator has set, with changes. */
export function mergedSetting(before: Setting = {}, change: Setting): Setting {
  const merged = { ...before, ...change };
  for (const key of ['groups', 'rates'] as const)
    if (before[key] !== undefined || change[key] !== undefined)
      merged[key] = { ...before[key], ...change[key] };
  return merged;
}

/** Values by name, in the order of names: the operator's (null: none), and otherwise the largest of the rules. */
function largestByName(
  all: readonly (Readonly<Record<string, number>> | undefined)[],
  set: Readonly<Record<string, number | null>> = {},
): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const one of all) {
    for (const [name, value] of Object.entries(one ?? {}))
      values.set(name, Math.max(value, values.get(name) ?? 0));
  }
  for (const [name, value] of Object.entries(set)) {
    if (value === null) values.delete(name);
    else values.set(name, value);
  }
  return new Map([...values].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Writes a tenant's settings into the columns of one of its members. */
export function declare(
  page: M.MemberPage,
  { weight, gbps, labels, maxQps, maxRequestsPerS }: TenantSettings,
): void {
  const { reports } = page.columns(M.TENANT);
  reports[M.WEIGHT] = weight;
  reports[M.GBPS] = gbps ?? 0;
  reports[M.TRAFFIC] = trafficOf(labels);
  reports[M.QP_LIMIT] = maxQps;
  reports[M.REQUEST_LIMIT] = maxRequestsPerS;
}

/** ISO_TRAFFIC_* */
function trafficOf({ traffic }: TenantLabels): number {
  return traffic === null ? ISO_TRAFFIC_UNDECLARED : TRAFFIC_NAMES.indexOf(traffic);
}

/** The labels of a tenant whose clients have these identities: the largest, and the first group by name. */
function labelsOf(all: readonly Identity[]): TenantLabels {
  const labels = all.map((one) => one.labels);
  const groups = labels.flatMap(({ group }) => group ?? []).sort();
  const kinds = labels.filter(({ traffic }) => traffic !== null).sort((a, b) => trafficOf(b) - trafficOf(a));
  return {
    qpWeight: largest(labels.map(({ qpWeight }) => qpWeight ?? 0)),
    group: groups[0] ?? null,
    traffic: kinds[0]?.traffic ?? null,
  };
}

/** The labels among an operator's settings. */
function setLabels({ qpWeight, group, traffic }: Setting): Partial<TenantLabels> {
  return {
    ...(qpWeight !== undefined && { qpWeight }),
    ...(group !== undefined && { group }),
    ...(traffic !== undefined && { traffic }),
  };
}

/** The labels that clients receive. */
export function givenLabels({ weight, labels: { qpWeight, group, traffic } }: TenantSettings): GivenLabels {
  return {
    weight,
    ...(qpWeight !== null && { qpWeight }),
    ...(group !== null && { group }),
    ...(traffic !== null && { traffic }),
  };
}

/** Null if no value is above 0. */
function largest(values: readonly number[]): number | null {
  return Math.max(...values) || null;
}

/** The smallest limit above 0; null if there is none. */
function strictest(limits: readonly number[]): number | null {
  const some = limits.filter((value) => value > 0);
  return some.length === 0 ? null : Math.min(...some);
}
