/**
 * PeRF's master decides which isolation is active for which mixture of tenants (section 3.3 of the paper, with its gaps
 * and errors resolved here). It turns counters into grants whenever a class changes and at each sample.
 */
import { TENANT } from '../../coordinator/member-table.ts';
import type { Decider, Description, MembersView, Ruler } from '../../coordinator/ruler.ts';
import type { Tenants } from '../../coordinator/tenants.ts';
import type { Actions, ContextView } from '../../shim/policy.ts';
import {
  BANDWIDTH,
  CLASS_NAMES,
  DELAY,
  IDLE,
  MASTER_GRANTS,
  MASTER_REPORTS,
  MESSAGES,
  NO_ROTATION,
  OTHERS_SLOT,
} from './columns.ts';
import { nicOf } from './nic.ts';
import { isLimited, type PerfOptions, perfOptions } from './options.ts';
import { slots } from './slot-rotation.ts';

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
] as const;
const NOTHING_TO_ISOLATE = 0;
const LARGE_BESIDE_SMALL = 1;
const UNEQUAL_SIZES = 2;
const MULTI_BESIDE_SINGLE = 3;
const SEVERAL_MULTI = 4;

/** Message sizes whose means differ by less than this factor share evenly. */
const SAME_SIZE = 1.1;

/** The reports of the device's tenants, summed over their members. */
class TenantReports {
  private readonly members: MembersView;
  private readonly columns: ReturnType<typeof reportsOf>;
  private size = 0;
  // By tenant.
  classes = new Uint8Array(0);
  qps = new Float64Array(0);
  largeQps = new Float64Array(0);
  meanBytes = new Float64Array(0);
  queueLength = new Float64Array(0);
  wireGbps = new Float64Array(0);
  awaitsAnswers = new Uint8Array(0);

  constructor(members: MembersView) {
    this.members = members;
    this.columns = reportsOf(members);
  }

  /** The number of tenants. */
  get length(): number {
    return this.members.tenants.length;
  }

  isMulti(tenant: number): boolean {
    return this.qps[tenant] > 1;
  }

  /** Reads the reports of all members and sums them by tenant. */
  read(nowNs: number, silentNs: number): void {
    const { members, columns } = this;
    const { tenants } = members;
    tenants.group();
    if (this.size < tenants.length) this.grow(2 * tenants.length);
    for (const column of [this.classes, this.qps, this.largeQps, this.wireGbps]) column.fill(0);
    this.meanBytes.fill(0);
    this.queueLength.fill(0);
    this.awaitsAnswers.fill(0);
    for (let member = 0; member < tenants.memberLimit; member++) {
      const tenant = tenants.tenantOf(member);
      if (tenant < 0 || members.isSilent(member, nowNs, silentNs)) continue;
      const qps = columns.activeQps.of(member);
      this.classes[tenant] = Math.max(this.classes[tenant], this.classOf(member));
      this.qps[tenant] += qps;
      this.largeQps[tenant] += Math.min(columns.largeQps.of(member), qps);
      this.meanBytes[tenant] = Math.max(this.meanBytes[tenant], columns.meanBytes.of(member));
      this.queueLength[tenant] = Math.max(this.queueLength[tenant], columns.queueLength.of(member));
      this.wireGbps[tenant] += columns.wireGbps.of(member);
      this.awaitsAnswers[tenant] |= columns.awaitsAnswers.of(member);
    }
  }

  /** A declared kind of traffic takes the place of the class that follows from what a member sends. */
  private classOf(member: number): number {
    const own = this.columns.of.of(member);
    return own === IDLE ? IDLE : this.columns.traffic.of(member) || own;
  }

  /** The class of a tenant and its rate on the wire, silent members included. */
  of(tenant: number): { readonly class: string; readonly wireGbps: number } {
    const { tenants } = this.members;
    let [highest, wireGbps] = [IDLE, 0];
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      highest = Math.max(highest, this.classOf(member));
      wireGbps += this.columns.wireGbps.of(member);
    }
    return { class: CLASS_NAMES[highest] ?? CLASS_NAMES[IDLE], wireGbps };
  }

  private grow(size: number): void {
    this.size = size;
    this.classes = new Uint8Array(size);
    this.qps = new Float64Array(size);
    this.largeQps = new Float64Array(size);
    this.meanBytes = new Float64Array(size);
    this.queueLength = new Float64Array(size);
    this.wireGbps = new Float64Array(size);
    this.awaitsAnswers = new Uint8Array(size);
  }
}

const reportsOf = (members: MembersView) => ({
  of: members.report('class'),
  traffic: members.report('traffic', TENANT),
  meanBytes: members.report('meanBytes'),
  queueLength: members.report('queueLength'),
  activeQps: members.report('activeQps'),
  largeQps: members.report('largeQps'),
  wireGbps: members.report('wireGbps'),
  awaitsAnswers: members.report('awaitsAnswers'),
});

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
  singles: number;
  /** Tenants with several queue pairs that send large messages, or many. */
  multiB: number;
  multiM: number;
  /** Small tenants that have one queue pair, or wait for each answer. */
  smallSingles: number;
  smallGbps: number;
  /** Of bandwidth tenants: the extremes of the mean message size, and the shortest queue. */
  leastBytes: number;
  mostBytes: number;
  leastQueue: number;
}

function countMix(tenants: TenantReports): Mix {
  const mix: Mix = {
    delay: 0,
    messages: 0,
    queueSensitive: 0,
    bandwidth: 0,
    singles: 0,
    multiB: 0,
    multiM: 0,
    smallSingles: 0,
    smallGbps: 0,
    leastBytes: Number.POSITIVE_INFINITY,
    mostBytes: 0,
    leastQueue: Number.POSITIVE_INFINITY,
  };
  for (let tenant = 0; tenant < tenants.length; tenant++) countTenant(mix, tenants, tenant);
  return mix;
}

function countTenant(mix: Mix, tenants: TenantReports, tenant: number): void {
  const of = tenants.classes[tenant];
  if (of === IDLE) return;
  const isMulti = tenants.isMulti(tenant);
  // Several queue pairs that each wait for answers compete with no other tenant.
  if (!isMulti || of === DELAY) mix.singles++;
  if (of === BANDWIDTH) {
    mix.bandwidth++;
    if (isMulti) mix.multiB++;
    mix.leastBytes = Math.min(mix.leastBytes, tenants.meanBytes[tenant]);
    mix.mostBytes = Math.max(mix.mostBytes, tenants.meanBytes[tenant]);
    mix.leastQueue = Math.min(mix.leastQueue, tenants.queueLength[tenant]);
    return;
  }
  if (of === DELAY) mix.delay++;
  else mix.messages++;
  if (of === DELAY || tenants.awaitsAnswers[tenant] === 1) mix.queueSensitive++;
  if (of === MESSAGES && isMulti) mix.multiM++;
  else mix.smallSingles++;
  mix.smallGbps += tenants.wireGbps[tenant];
}

/** Queue pairs that a tenant with several may use at the same time; 0: all. */
function allowance(mix: Mix, rules: MasterRules): number {
  const multi = mix.multiB + mix.multiM;
  if (multi === 0 || mix.singles + multi < 2) return 0;
  if (mix.bandwidth > 0) return rules.qNumAllow;
  return Math.max(1, Math.floor((rules.qNumCapa - mix.smallSingles) / mix.multiM));
}

function splitReason(mix: Mix, rules: MasterRules): number {
  if (mix.bandwidth === 0) return NOTHING_TO_ISOLATE;
  if (mix.delay + mix.messages > 0) return LARGE_BESIDE_SMALL;
  // Round robin shares evenly among queues that never run empty, whatever the sizes.
  const unequal = mix.bandwidth > 1 && mix.mostBytes > mix.leastBytes * SAME_SIZE && mix.leastQueue <= 1;
  return unequal && !rules.selective ? UNEQUAL_SIZES : NOTHING_TO_ISOLATE;
}

/** A tenant's queue pairs of large messages that may send at the same time. */
function busyQpsOf(tenants: TenantReports, tenant: number, allow: number): number {
  if (tenants.classes[tenant] !== BANDWIDTH) return 0;
  const limit = allow > 0 && tenants.isMulti(tenant) ? allow : Number.POSITIVE_INFINITY;
  return Math.min(Math.max(1, tenants.largeQps[tenant]), limit);
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

class Master implements Decider<MasterRules> {
  private readonly tenants: Tenants;
  private readonly reports: TenantReports;
  private readonly grants: ReturnType<typeof grantsOf>;

  constructor(members: MembersView) {
    this.tenants = members.tenants;
    this.reports = new TenantReports(members);
    this.grants = grantsOf(members);
  }

  decide(rules: MasterRules, nowNs: number, changed: (member: number) => void): void {
    const { reports } = this;
    reports.read(nowNs, rules.silentNs);
    const mix = countMix(reports);
    const split = splitReason(mix, rules);
    const allow = allowance(mix, rules);
    let busyLarge = 0;
    for (let tenant = 0; tenant < reports.length; tenant++) busyLarge += busyQpsOf(reports, tenant, allow);
    const rotates = isRotation(mix, split, busyLarge, rules);
    const why = mix.singles > 0 ? MULTI_BESIDE_SINGLE : SEVERAL_MULTI;
    const verdict = { mix, split, allow, busyLarge, rotates, why };
    for (let tenant = 0; tenant < reports.length; tenant++) this.grantTenant(tenant, verdict, changed);
  }

  private grantTenant(tenant: number, verdict: Verdict, changed: (member: number) => void): void {
    const { reports, tenants, grants } = this;
    const { mix, split, allow, busyLarge, rotates, why } = verdict;
    const of = reports.classes[tenant];
    const isB = of === BANDWIDTH;
    const paused = allow > 0 && reports.isMulti(tenant) && of >= MESSAGES && reports.qps[tenant] > allow;
    const splitNow = isB && split !== NOTHING_TO_ISOLATE ? 1 : 0;
    const allowNow = paused ? allow : 0;
    const whyNow = splitNow === 1 ? split : paused ? why : NOTHING_TO_ISOLATE;
    const takesSlots = isB && rotates;
    // A tenant is alone in its slot.
    const busyNow = takesSlots ? busyQpsOf(reports, tenant, allow) : busyLarge;
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
      grants.bTenants.set(member, mix.bandwidth);
      grants.queueTenants.set(member, mix.queueSensitive);
      grants.reason.set(member, whyNow);
      if (hasSlotChanged || hasSplitChanged || hasAllowanceChanged) changed(member);
    }
  }

  describe(tenant: number): Description {
    const { tenants, grants } = this;
    const of = this.reports.of(tenant);
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
