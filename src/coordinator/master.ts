/**
 * PeRF's master decides which isolation is active for which mixture of tenants (section 3.3 of the paper, with its gaps
 * and errors resolved here). It turns counters into grants whenever a class changes and at each sample.
 */
import * as M from './member-table.ts';

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
  /** A member that has not written for this long no longer counts. Absent: silence has no effect. */
  readonly silentNs?: number;
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

/** Maxima of the counters: members write them, so they are not trusted. */
const MAX_QPS = 2 ** 20;
const MAX_BYTES = 2 ** 32;
const MAX_GBPS = 1e5;

function clamp(value: number, most: number): number {
  return value > 0 ? Math.min(value, most) : 0;
}

function classOf(value: number): number {
  return value === M.DELAY || value === M.MESSAGES || value === M.BANDWIDTH ? value : M.IDLE;
}

/** The tenants of one device, summed over their members. */
export class Tenants {
  /** By row of a member: its tenant's index, or -1. */
  private tenantByRow = new Int32Array(0);
  /** Rows of members, grouped by tenant, and where the rows of each tenant begin, plus the end of the last. */
  private rowsByTenant = new Int32Array(0);
  private starts = new Int32Array(1);
  /** Changes whenever members are regrouped. */
  version = -1;
  private tenantCount = 0;
  private size = 0;
  // By tenant.
  classes = new Uint8Array(0);
  qps = new Float64Array(0);
  largeQps = new Float64Array(0);
  meanBytes = new Float64Array(0);
  queueLength = new Float64Array(0);
  wireGbps = new Float64Array(0);
  awaitsAnswers = new Uint8Array(0);

  /** Reads the counters of all members and sums them by tenant. */
  readCounters(members: M.MemberTable, nowNs: number, silentNs = Number.POSITIVE_INFINITY): void {
    this.group(members);
    for (const column of [this.classes, this.qps, this.largeQps, this.wireGbps]) column.fill(0);
    this.meanBytes.fill(0);
    this.queueLength.fill(0);
    this.awaitsAnswers.fill(0);
    const { counters } = members;
    for (let i = 0; i < this.size; i++) {
      const tenant = this.tenantByRow[i];
      if (tenant < 0) continue;
      const at = i * M.COUNTERS;
      // NaN or a time in the future is no sign of life.
      if (!(Math.abs(nowNs - counters[at + M.WRITTEN_NS]) <= silentNs)) continue;
      const qps = clamp(counters[at + M.ACTIVE_QPS], MAX_QPS);
      this.classes[tenant] = Math.max(this.classes[tenant], classOf(counters[at + M.CLASS]));
      this.qps[tenant] += qps;
      this.largeQps[tenant] += clamp(counters[at + M.LARGE_QPS], qps);
      this.meanBytes[tenant] = Math.max(
        this.meanBytes[tenant],
        clamp(counters[at + M.MEAN_BYTES], MAX_BYTES),
      );
      this.queueLength[tenant] = Math.max(
        this.queueLength[tenant],
        clamp(counters[at + M.QUEUE_LENGTH], MAX_BYTES),
      );
      this.wireGbps[tenant] += clamp(counters[at + M.WIRE_GBPS], MAX_GBPS);
      this.awaitsAnswers[tenant] |= counters[at + M.AWAITS_ANSWERS] === 1 ? 1 : 0;
    }
  }

  /** Groups members by tenant again if a member joined or left. */
  group(members: M.MemberTable): void {
    if (this.version === members.version) return;
    this.version = members.version;
    this.size = members.rowLimit;
    if (this.tenantByRow.length < this.size) this.grow(2 * this.size);
    const indices = new Map<number, number>();
    for (let i = 0; i < this.size; i++) {
      this.tenantByRow[i] = -1;
      if (!members.isMember(i)) continue;
      const id = members.tenantIds[i];
      const tenant = indices.get(id) ?? indices.size;
      indices.set(id, tenant);
      this.tenantByRow[i] = tenant;
    }
    this.tenantCount = indices.size;
    this.listRows();
  }

  /** Lists the members of each tenant. */
  private listRows(): void {
    const { tenantByRow, size, tenantCount } = this;
    if (this.rowsByTenant.length < tenantByRow.length) this.rowsByTenant = new Int32Array(tenantByRow.length);
    if (this.starts.length < tenantCount + 2) this.starts = new Int32Array(2 * tenantCount + 2);
    const { rowsByTenant, starts } = this;
    starts.fill(0);
    // Counted two elements ahead, so that filling in leaves each tenant's beginning behind.
    for (let i = 0; i < size; i++) if (tenantByRow[i] >= 0) starts[tenantByRow[i] + 2]++;
    for (let tenant = 2; tenant < tenantCount + 2; tenant++) starts[tenant] += starts[tenant - 1];
    for (let i = 0; i < size; i++) if (tenantByRow[i] >= 0) rowsByTenant[starts[tenantByRow[i] + 1]++] = i;
  }

  /**
   * The rows of a tenant's members are `rowAt(k)` for k from `firstOf(tenant)` up to, but not including,
   * `firstOf(tenant + 1)`.
   */
  firstOf(tenant: number): number {
    return this.starts[tenant];
  }

  rowAt(at: number): number {
    return this.rowsByTenant[at];
  }

  private grow(size: number): void {
    this.tenantByRow = new Int32Array(size);
    this.classes = new Uint8Array(size);
    this.qps = new Float64Array(size);
    this.largeQps = new Float64Array(size);
    this.meanBytes = new Float64Array(size);
    this.queueLength = new Float64Array(size);
    this.wireGbps = new Float64Array(size);
    this.awaitsAnswers = new Uint8Array(size);
  }

  /** The index of a member's tenant; -1: the row is free. */
  tenantOf(member: number): number {
    return member < this.size ? this.tenantByRow[member] : -1;
  }

  get length(): number {
    return this.tenantCount;
  }

  isMulti(tenant: number): boolean {
    return this.qps[tenant] > 1;
  }
}

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

function countMix(tenants: Tenants): Mix {
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

function countTenant(mix: Mix, tenants: Tenants, tenant: number): void {
  const of = tenants.classes[tenant];
  if (of === M.IDLE) return;
  const isMulti = tenants.isMulti(tenant);
  // Several queue pairs that each wait for answers compete with no other tenant.
  if (!isMulti || of === M.DELAY) mix.singles++;
  if (of === M.BANDWIDTH) {
    mix.bandwidth++;
    if (isMulti) mix.multiB++;
    mix.leastBytes = Math.min(mix.leastBytes, tenants.meanBytes[tenant]);
    mix.mostBytes = Math.max(mix.mostBytes, tenants.meanBytes[tenant]);
    mix.leastQueue = Math.min(mix.leastQueue, tenants.queueLength[tenant]);
    return;
  }
  if (of === M.DELAY) mix.delay++;
  else mix.messages++;
  if (of === M.DELAY || tenants.awaitsAnswers[tenant] === 1) mix.queueSensitive++;
  if (of === M.MESSAGES && isMulti) mix.multiM++;
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
function busyQpsOf(tenants: Tenants, tenant: number, allow: number): number {
  if (tenants.classes[tenant] !== M.BANDWIDTH) return 0;
  const limit = allow > 0 && tenants.isMulti(tenant) ? allow : Number.POSITIVE_INFINITY;
  return Math.min(Math.max(1, tenants.largeQps[tenant]), limit);
}

/** Whether tenants of large messages take tenant slots. */
function isRotation(mix: Mix, split: number, busyLarge: number, { rotateFrom }: MasterRules): boolean {
  if (mix.bandwidth < 2 || busyLarge < rotateFrom) return false;
  return split === LARGE_BESIDE_SMALL || rotateFrom === 0;
}

/** Writes a grant. Returns 1 if the value changed. */
function setGrant(grants: Float64Array, at: number, value: number): number {
  if (grants[at] === value) return 0;
  grants[at] = value;
  return 1;
}

/** Writes the grants of all members, and calls `changed` with each member whose isolation changed. */
export function decide(
  members: M.MemberTable,
  tenants: Tenants,
  rules: MasterRules,
  nowNs: number,
  changed: (member: number) => void,
): void {
  tenants.readCounters(members, nowNs, rules.silentNs);
  const mix = countMix(tenants);
  const split = splitReason(mix, rules);
  const allow = allowance(mix, rules);
  let busyLarge = 0;
  for (let tenant = 0; tenant < tenants.length; tenant++) busyLarge += busyQpsOf(tenants, tenant, allow);
  const rotates = isRotation(mix, split, busyLarge, rules);
  const why = mix.singles > 0 ? MULTI_BESIDE_SINGLE : SEVERAL_MULTI;
  const { grants } = members;
  const { smallGbps, delay, queueSensitive, messages, bandwidth } = mix;
  for (let tenant = 0; tenant < tenants.length; tenant++) {
    const of = tenants.classes[tenant];
    const isB = of === M.BANDWIDTH;
    const paused = allow > 0 && tenants.isMulti(tenant) && of >= M.MESSAGES && tenants.qps[tenant] > allow;
    const splitNow = isB && split !== NOTHING_TO_ISOLATE ? 1 : 0;
    const allowNow = paused ? allow : 0;
    const whyNow = splitNow === 1 ? split : paused ? why : NOTHING_TO_ISOLATE;
    const takesSlots = isB && rotates;
    // A tenant is alone in its slot.
    const busyNow = takesSlots ? busyQpsOf(tenants, tenant, allow) : busyLarge;
    const end = tenants.firstOf(tenant + 1);
    for (let k = tenants.firstOf(tenant); k < end; k++) {
      const i = tenants.rowAt(k);
      const at = i * M.GRANTS;
      const slotState = takesSlots ? grants[at + M.SLOT_STATE] || M.OTHERS_SLOT : M.NO_ROTATION;
      const isolationChanged =
        grants[at + M.SPLIT] !== splitNow ||
        grants[at + M.QNUM_ALLOW] !== allowNow ||
        grants[at + M.SLOT_STATE] !== slotState;
      grants[at + M.SLOT_STATE] = slotState;
      grants[at + M.SPLIT] = splitNow;
      grants[at + M.QNUM_ALLOW] = allowNow;
      const isMarked =
        (isolationChanged ? 1 : 0) |
        setGrant(grants, at + M.BUSY_LARGE_QPS, busyNow) |
        setGrant(grants, at + M.SMALL_GBPS, smallGbps) |
        setGrant(grants, at + M.D_TENANTS, delay) |
        setGrant(grants, at + M.QUEUE_TENANTS, queueSensitive) |
        setGrant(grants, at + M.M_TENANTS, messages) |
        setGrant(grants, at + M.B_TENANTS, bandwidth) |
        setGrant(grants, at + M.REASON, whyNow);
      if (isMarked !== 0) members.marks[i] |= M.ISOLATION_CHANGED;
      if (isolationChanged) changed(i);
    }
  }
}
