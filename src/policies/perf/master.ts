/**
 * PeRF's master decides which isolation is active for which mixture of tenants (section 3.3 of the paper, with its gaps
 * and errors resolved here). It turns counters into grants whenever a class changes and at each sample.
 */
import type { Decider, Description, MembersView, Ruler } from '../../coordinator/ruler.ts';
import type { Tenants } from '../../coordinator/tenants.ts';
import type { Actions, ContextView } from '../../shim/policy.ts';
import {
  CLASS_NAMES,
  IDLE,
  MASTER_GRANTS,
  MASTER_REPORTS,
  MESSAGES,
  NO_ROTATION,
  OTHERS_SLOT,
} from './columns.ts';
import { ABSENT, Demand, FILLING, GROWTH, HEAVY, LIGHT, MOST_SMALL } from './demand.ts';
import { nicOf } from './nic.ts';
import { isLimited, type PerfOptions, perfOptions } from './options.ts';
import { slots } from './slot-rotation.ts';
import { TenantReports } from './tenant-reports.ts';

/** Parameters of the master. */
export interface MasterRules {
  /** Queue pairs of a tenant that may send at the same time while bandwidth applications are active. */
  readonly qNumAllow: number;
  /** Queue pairs that suffice for the device's full message rate. */
  readonly qNumCapa: number;
  /** Isolate only the mixtures that the paper names, which exclude bandwidth applications among themselves. */
  readonly selective: boolean;
  /** Bandwidth tenants take tenant slots when at least this many queue pairs of large messages would send at once. */
  readonly rotateFrom: number;
  /** A member that has not written for this long no longer counts. */
  readonly silentNs: number;
}

/** The reasons for grants; a member's REASON column is an index here. */
export const REASONS = [
  'nothing to isolate',
  'large messages beside small ones',
  'bandwidth tenants of different message sizes, one at queue length 1',
  'several queue pairs beside single ones',
  'several tenants of several queue pairs',
  'small messages that fill the link beside others',
] as const;
const NOTHING_TO_ISOLATE = 0;
const LARGE_BESIDE_SMALL = 1;
const UNEQUAL_SIZES = 2;
const MULTI_BESIDE_SINGLE = 3;
const SEVERAL_MULTI = 4;
const FILLING_SMALL = 5;

/** From this part of a queue pair's message rate on, a tenant of small messages occupies a queue pair. */
const OCCUPIED = 0.5;

/** Message sizes whose means differ by less than this factor share evenly. */
const SAME_SIZE = 1.1;

const grantsOf = (members: MembersView) => ({
  split: members.grant('split'),
  qNumAllow: members.grant('qNumAllow'),
  slotState: members.grant('slotState', slots),
  busyLargeQps: members.grant('busyLargeQps'),
  smallGbps: members.grant('smallGbps'),
  dTenants: members.grant('dTenants'),
  mTenants: members.grant('mTenants'),
  bTenants: members.grant('bTenants'),
  queueTenants: members.grant('queueTenants'),
  reason: members.grant('reason'),
});

/** The tenants counted by the kinds that the rules distinguish. */
interface Mix {
  delay: number;
  messages: number;
  /** Small tenants that suffer from queueing in the FIFO. */
  queueSensitive: number;
  bandwidth: number;
  /** Tenants of large messages that take less than their share. */
  light: number;
  /** Of small messages that fill the link. */
  filling: number;
  singles: number;
  /** Tenants with several queue pairs that send large messages, or many. */
  multiB: number;
  multiM: number;
  /** Tenants of few small messages at a time on each of so many queue pairs that they send as many as others do. */
  crowds: number;
  /** Small tenants that have one queue pair, or wait for each answer, by the part of a queue pair that they need. */
  smallSingles: number;
  smallGbps: number;
  /** Rate of `light`. */
  lightGbps: number;
  /** Of bandwidth tenants: the extremes of the mean message size, and the shortest queue. */
  leastBytes: number;
  mostBytes: number;
  leastQueue: number;
}

const NO_TENANTS: Mix = {
  delay: 0,
  messages: 0,
  queueSensitive: 0,
  bandwidth: 0,
  light: 0,
  filling: 0,
  singles: 0,
  multiB: 0,
  multiM: 0,
  crowds: 0,
  smallSingles: 0,
  smallGbps: 0,
  lightGbps: 0,
  leastBytes: Number.POSITIVE_INFINITY,
  mostBytes: 0,
  leastQueue: Number.POSITIVE_INFINITY,
};

/** Counts the tenants whose messages leave by the link (path 0), or stay in the device (path 1). */
function countMix(tenants: TenantReports, demand: Demand, path: number): Mix {
  const mix = { ...NO_TENANTS };
  for (let tenant = 0; tenant < tenants.length; tenant++) {
    const role = demand.roles[tenant];
    if (tenants.loops[tenant] !== path || role === ABSENT) continue;
    if (role === LIGHT) {
      mix.light++;
      mix.lightGbps += tenants.wireGbps[tenant];
    } else if (role === HEAVY) countHeavy(mix, tenants, tenant);
    else countSmall(mix, tenants, tenant, demand);
  }
  return mix;
}

function countHeavy(mix: Mix, tenants: TenantReports, tenant: number): void {
  mix.bandwidth++;
  if (tenants.isMulti(tenant)) mix.multiB++;
  else mix.singles++;
  mix.leastBytes = Math.min(mix.leastBytes, tenants.meanBytes[tenant]);
  mix.mostBytes = Math.max(mix.mostBytes, tenants.meanBytes[tenant]);
  mix.leastQueue = Math.min(mix.leastQueue, tenants.queueLength[tenant]);
}

function countSmall(mix: Mix, tenants: TenantReports, tenant: number, demand: Demand): void {
  const isM = tenants.classes[tenant] === MESSAGES;
  const isMulti = tenants.isMulti(tenant);
  const busyQps = demand.busyQpsOf(tenant);
  if (isM) mix.messages++;
  else mix.delay++;
  if (!isM || tenants.awaitsAnswers[tenant] === 1) mix.queueSensitive++;
  if (isM && isMulti && busyQps >= OCCUPIED) mix.multiM++;
  else {
    mix.singles++;
    mix.smallSingles += isM && busyQps >= OCCUPIED ? 1 : Math.min(1, busyQps);
    // Its queue pairs take no turns, because each of them waits for answers.
    if (!isM && isMulti && busyQps > 1) mix.crowds++;
  }
  if (demand.roles[tenant] === FILLING) mix.filling++;
  else mix.smallGbps += tenants.wireGbps[tenant];
}

/** Queue pairs that a tenant with several may use at the same time; 0: all. */
function allowance(mix: Mix, rules: MasterRules): number {
  const multi = mix.multiB + mix.multiM;
  if (multi === 0 || mix.singles + multi < 2) return 0;
  if (mix.bandwidth > 0) return rules.qNumAllow;
  // The few queue pairs of a turn would get next to nothing beside them.
  if (mix.crowds > 0) return 0;
  return Math.max(1, Math.floor((rules.qNumCapa - mix.smallSingles) / mix.multiM));
}

function splitReason(mix: Mix, rules: MasterRules): number {
  if (mix.bandwidth + mix.light === 0) return NOTHING_TO_ISOLATE;
  if (mix.delay + mix.messages > 0) return LARGE_BESIDE_SMALL;
  // Round robin shares evenly among queues that never run empty, whatever the sizes.
  const unequal = mix.bandwidth > 1 && mix.mostBytes > mix.leastBytes * SAME_SIZE && mix.leastQueue <= 1;
  return unequal && !rules.selective ? UNEQUAL_SIZES : NOTHING_TO_ISOLATE;
}

/** A tenant's queue pairs that share the link and may send at the same time. */
function busyQpsOf(tenants: TenantReports, demand: Demand, tenant: number, allow: number): number {
  if (demand.roles[tenant] < HEAVY) return 0;
  const limit = allow > 0 && tenants.isMulti(tenant) ? allow : Number.POSITIVE_INFINITY;
  const qps = demand.roles[tenant] === FILLING ? tenants.qps[tenant] : tenants.largeQps[tenant];
  return Math.min(Math.max(1, qps), limit);
}

/** Whether tenants of large messages take tenant slots. */
function isRotation(mix: Mix, split: number, busyLarge: number, { rotateFrom }: MasterRules): boolean {
  if (mix.bandwidth < 2 || busyLarge < rotateFrom) return false;
  return split === LARGE_BESIDE_SMALL || rotateFrom === 0;
}

/** What the mix of tenants means for all of them. */
interface Verdict {
  readonly mix: Mix;
  readonly split: number;
  readonly allow: number;
  readonly busyLarge: number;
  readonly rotates: boolean;
  /** The reason for taking turns. */
  readonly why: number;
}

/**
 * The queue pairs that share what small tenants leave of the link, so that each gets as much as all of them together
 * after those that take less than their share. A light tenant is one more.
 */
function sharersOf({ mix, busyLarge }: Verdict, linkGbps: number, lightGbps: number): number {
  if (mix.light === 0) return busyLarge;
  const largeGbps = linkGbps - Math.min(mix.smallGbps, linkGbps * MOST_SMALL);
  const takenGbps = Math.min(GROWTH * Math.max(0, mix.lightGbps - lightGbps), largeGbps / 2);
  return ((lightGbps > 0 ? busyLarge + 1 : busyLarge) * largeGbps) / (largeGbps - takenGbps);
}

class Master implements Decider<MasterRules> {
  private readonly members: MembersView;
  private readonly tenants: Tenants;
  private readonly reports: TenantReports;
  private readonly demand: Demand;
  private readonly grants: ReturnType<typeof grantsOf>;

  constructor(members: MembersView) {
    this.members = members;
    this.tenants = members.tenants;
    this.reports = new TenantReports(members);
    this.demand = new Demand(this.reports);
    this.grants = grantsOf(members);
  }

  decide(rules: MasterRules, nowNs: number, changed: (member: number) => void): void {
    const { reports, demand, members } = this;
    reports.read(nowNs, rules.silentNs);
    demand.weigh(rules.selective ? 0 : members.linkGbps, this.tenants.version);
    for (let path = 0; path <= 1; path++) this.decidePath(path, rules, changed);
  }

  private decidePath(path: number, rules: MasterRules, changed: (member: number) => void): void {
    const { reports, demand } = this;
    const mix = countMix(reports, demand, path);
    const split = splitReason(mix, rules);
    const allow = allowance(mix, rules);
    let busyLarge = 0;
    for (let tenant = 0; tenant < reports.length; tenant++) {
      if (reports.loops[tenant] === path) busyLarge += busyQpsOf(reports, demand, tenant, allow);
    }
    const rotates = path === 0 && isRotation(mix, split, busyLarge, rules);
    const why = mix.singles > 0 ? MULTI_BESIDE_SINGLE : SEVERAL_MULTI;
    const verdict = { mix, split, allow, busyLarge, rotates, why };
    for (let tenant = 0; tenant < reports.length; tenant++) {
      if (reports.loops[tenant] === path) this.grantTenant(tenant, verdict, changed);
    }
  }

  /** Why a tenant's messages are split, or paced. */
  private splitReasonOf(role: number, split: number): number {
    if (role === FILLING) return FILLING_SMALL;
    return role === LIGHT || role === HEAVY ? split : NOTHING_TO_ISOLATE;
  }

  private isPaused(tenant: number, allow: number): boolean {
    const { reports, demand } = this;
    if (allow === 0 || !reports.isMulti(tenant) || reports.qps[tenant] <= allow) return false;
    return demand.roles[tenant] === HEAVY || reports.classes[tenant] === MESSAGES;
  }

  private grantTenant(tenant: number, verdict: Verdict, changed: (member: number) => void): void {
    const { reports, tenants, grants, demand, members } = this;
    const { mix, split, allow, rotates, why } = verdict;
    const role = demand.roles[tenant];
    const paused = this.isPaused(tenant, allow);
    const splitBy = this.splitReasonOf(role, split);
    const splitNow = splitBy === NOTHING_TO_ISOLATE ? 0 : 1;
    const allowNow = paused ? allow : 0;
    const whyNow = splitNow === 1 ? splitBy : paused ? why : NOTHING_TO_ISOLATE;
    const takesSlots = role === HEAVY && rotates;
    const lightGbps = role === LIGHT ? Math.max(reports.wireGbps[tenant], Number.MIN_VALUE) : 0;
    // A tenant is alone in its slot.
    const busyNow = takesSlots
      ? busyQpsOf(reports, demand, tenant, allow)
      : sharersOf(verdict, members.linkGbps, lightGbps);
    const end = tenants.firstOf(tenant + 1);
    for (let k = tenants.firstOf(tenant); k < end; k++) {
      const member = tenants.memberAt(k);
      const slotState = takesSlots ? grants.slotState.of(member) || OTHERS_SLOT : NO_ROTATION;
      const hasSlotChanged = grants.slotState.set(member, slotState);
      const hasSplitChanged = grants.split.set(member, splitNow);
      const hasAllowanceChanged = grants.qNumAllow.set(member, allowNow);
      grants.busyLargeQps.set(member, busyNow);
      grants.smallGbps.set(member, mix.smallGbps);
      grants.dTenants.set(member, mix.delay);
      grants.mTenants.set(member, mix.messages);
      grants.bTenants.set(member, mix.bandwidth + mix.light);
      grants.queueTenants.set(member, mix.queueSensitive);
      grants.reason.set(member, whyNow);
      if (hasSlotChanged || hasSplitChanged || hasAllowanceChanged) changed(member);
    }
  }

  describe(tenant: number): Description {
    const { tenants, grants } = this;
    const of = this.reports.of(tenant);
    // A tenant that sends nothing under perf may send under another policy, whose ruler knows about it.
    if (of.class === CLASS_NAMES[IDLE]) return {};
    let [split, qNumAllow, reason] = [0, 0, 0];
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      split = Math.max(split, grants.split.of(member));
      qNumAllow = Math.max(qNumAllow, grants.qNumAllow.of(member));
      reason = Math.max(reason, grants.reason.of(member));
    }
    return { ...of, why: REASONS[reason] ?? '', split: split === 1, qNumAllow };
  }
}

/** The options of perf as rules for a context's device. */
export function masterRulesOf(
  options: PerfOptions,
  context: ContextView,
  wait: Actions['wait'],
): MasterRules {
  const { qNumAllow, qNumCapa, paper, windowNs, samplePeriodNs } = options;
  return {
    qNumAllow,
    qNumCapa,
    selective: paper,
    rotateFrom: rotateFrom(options, context, wait),
    // The window that classifies a context, plus the delay of a late sample.
    silentNs: windowNs + 2 * samplePeriodNs,
  };
}

/**
 * The number of large queue pairs from which tenants rotate: with more than the NIC has processing units, 0_WAITs occupy
 * units that queue pairs with data need. Infinity: never.
 */
function rotateFrom(options: PerfOptions, context: ContextView, wait: Actions['wait']): number {
  const { rotation, paper } = options;
  if (rotation === 'off' || paper || isLimited(options)) return Number.POSITIVE_INFINITY;
  if (rotation === 'on') return 0;
  if (wait === 'emulated') return Number.POSITIVE_INFINITY;
  return nicOf(context, options)?.processingUnits ?? Number.POSITIVE_INFINITY;
}

/** The ruler of perf: decides for each member whether its messages are split, and how many of its queue pairs send. */
export const master: Ruler<MasterRules> = {
  name: 'perf',
  reports: MASTER_REPORTS,
  grants: MASTER_GRANTS,
  // A policy adds what depends on its device: rotation, and how long a member may be silent.
  rules: perfOptions.transform(({ qNumAllow, qNumCapa, paper }) => ({
    qNumAllow,
    qNumCapa,
    selective: paper,
    rotateFrom: Number.POSITIVE_INFINITY,
    silentNs: Number.POSITIVE_INFINITY,
  })),
  begin: (members) => new Master(members),
};
