/**
 * PeRF's master: which isolation is active for which mixture of tenants (section 3.3 of the paper; what it leaves
 * open or has wrong is decided here). Counters in, grants out; called whenever a class changes, and at each sample.
 */
import * as M from './member-table.ts';

/** What the rules depend on. */
export interface MasterRules {
  /** Queue pairs of a tenant that may send at a time while bandwidth applications are there. */
  readonly qNumAllow: number;
  /** Queue pairs that reach the device's full message rate. */
  readonly qNumCapa: number;
  /** The paper's own choice of mixtures: it says nothing of bandwidth applications alone. */
  readonly selective: boolean;
  /** Queue pairs of large messages that send at a time, from which on bandwidth tenants do so one after the other. */
  readonly rotateFrom: number;
  /** Who has not written for so long sends nothing, or its thread is dead: it counts no more. Absent: nobody dies. */
  readonly silentNs?: number;
}

/** Why a member has the grants it has: the number is WHY. */
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

/** Messages whose mean sizes differ by less share evenly. */
const SAME_SIZE = 1.1;

/** What a member may say of itself at most: memory that others write is not believed. */
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
  /** By place of a member: its tenant's row. */
  private tenantByRow = new Int32Array(0);
  /** Places of members, tenant by tenant; and where in it those of a row begin, and one more. */
  private rowsByTenant = new Int32Array(0);
  private starts = new Int32Array(1);
  /** Another number whenever it is grouped anew. */
  version = -1;
  private tenantCount = 0;
  private size = 0;
  // By row.
  classes = new Uint8Array(0);
  qps = new Float64Array(0);
  largeQps = new Float64Array(0);
  meanBytes = new Float64Array(0);
  queueLength = new Float64Array(0);
  wireGbps = new Float64Array(0);
  awaitsAnswers = new Uint8Array(0);

  /** Reads all counters. */
  readCounters(members: M.MemberTable, nowNs: number, silentNs = Number.POSITIVE_INFINITY): void {
    this.group(members);
    for (const column of [this.classes, this.qps, this.largeQps, this.wireGbps]) column.fill(0);
    this.meanBytes.fill(0);
    this.queueLength.fill(0);
    this.awaitsAnswers.fill(0);
    const { counters } = members;
    for (let i = 0; i < this.size; i++) {
      const row = this.tenantByRow[i];
      if (row < 0) continue;
      const at = i * M.COUNTERS;
      // No number, or a time to come, is no sign of life.
      if (!(Math.abs(nowNs - counters[at + M.WRITTEN_NS]) <= silentNs)) continue;
      const qps = clamp(counters[at + M.ACTIVE_QPS], MAX_QPS);
      this.classes[row] = Math.max(this.classes[row], classOf(counters[at + M.CLASS]));
      this.qps[row] += qps;
      this.largeQps[row] += clamp(counters[at + M.LARGE_QPS], qps);
      this.meanBytes[row] = Math.max(this.meanBytes[row], clamp(counters[at + M.MEAN_BYTES], MAX_BYTES));
      this.queueLength[row] = Math.max(
        this.queueLength[row],
        clamp(counters[at + M.QUEUE_LENGTH], MAX_BYTES),
      );
      this.wireGbps[row] += clamp(counters[at + M.WIRE_GBPS], MAX_GBPS);
      this.awaitsAnswers[row] |= counters[at + M.AWAITS_ANSWERS] === 1 ? 1 : 0;
    }
  }

  /** Finds who belongs together, if somebody came or left. */
  group(members: M.MemberTable): void {
    if (this.version === members.version) return;
    this.version = members.version;
    this.size = members.rowLimit;
    if (this.tenantByRow.length < this.size) this.grow(2 * this.size);
    const rows = new Map<number, number>();
    for (let i = 0; i < this.size; i++) {
      this.tenantByRow[i] = -1;
      if (!members.isMember(i)) continue;
      const tenant = members.tenantIds[i];
      const row = rows.get(tenant) ?? rows.size;
      rows.set(tenant, row);
      this.tenantByRow[i] = row;
    }
    this.tenantCount = rows.size;
    this.listRows();
  }

  /** Lists the members of each tenant. */
  private listRows(): void {
    const { tenantByRow, size, tenantCount } = this;
    if (this.rowsByTenant.length < tenantByRow.length) this.rowsByTenant = new Int32Array(tenantByRow.length);
    if (this.starts.length < tenantCount + 2) this.starts = new Int32Array(2 * tenantCount + 2);
    const { rowsByTenant, starts } = this;
    starts.fill(0);
    // Counted two places further on, so that filling in leaves each row's beginning behind.
    for (let i = 0; i < size; i++) if (tenantByRow[i] >= 0) starts[tenantByRow[i] + 2]++;
    for (let row = 2; row < tenantCount + 2; row++) starts[row] += starts[row - 1];
    for (let i = 0; i < size; i++) if (tenantByRow[i] >= 0) rowsByTenant[starts[tenantByRow[i] + 1]++] = i;
  }

  /** The members of a row's tenant are `memberAt` of `from(row)` up to and without `from(row + 1)`. */
  firstOf(row: number): number {
    return this.starts[row];
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

  /** The row of a member's tenant; -1: nobody's place. */
  tenantOf(member: number): number {
    return member < this.size ? this.tenantByRow[member] : -1;
  }

  get length(): number {
    return this.tenantCount;
  }

  isMulti(row: number): boolean {
    return this.qps[row] > 1;
  }
}

/** How many there are of each kind that the rules speak of. */
interface Mix {
  delay: number;
  messages: number;
  /** Small ones that suffer from what stands in the FIFO. */
  queueSensitive: number;
  bandwidth: number;
  singles: number;
  /** Tenants of several queue pairs that send large or many messages. */
  multiB: number;
  multiM: number;
  /** Small ones that have one queue pair only, or wait for each answer. */
  smallSingles: number;
  smallGbps: number;
  /** Of bandwidth tenants: mean sizes, and the shortest queue. */
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
  for (let row = 0; row < tenants.length; row++) countTenant(mix, tenants, row);
  return mix;
}

function countTenant(mix: Mix, tenants: Tenants, row: number): void {
  const of = tenants.classes[row];
  if (of === M.IDLE) return;
  const isMulti = tenants.isMulti(row);
  // Several queue pairs that wait for each answer are no rival of anybody's.
  if (!isMulti || of === M.DELAY) mix.singles++;
  if (of === M.BANDWIDTH) {
    mix.bandwidth++;
    if (isMulti) mix.multiB++;
    mix.leastBytes = Math.min(mix.leastBytes, tenants.meanBytes[row]);
    mix.mostBytes = Math.max(mix.mostBytes, tenants.meanBytes[row]);
    mix.leastQueue = Math.min(mix.leastQueue, tenants.queueLength[row]);
    return;
  }
  if (of === M.DELAY) mix.delay++;
  else mix.messages++;
  if (of === M.DELAY || tenants.awaitsAnswers[row] === 1) mix.queueSensitive++;
  if (of === M.MESSAGES && isMulti) mix.multiM++;
  else mix.smallSingles++;
  mix.smallGbps += tenants.wireGbps[row];
}

/** Queue pairs that each tenant of several may use at a time; 0: all. */
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

/** Queue pairs of large messages of a tenant that may send at a time. */
function busyQpsOf(tenants: Tenants, row: number, allow: number): number {
  if (tenants.classes[row] !== M.BANDWIDTH) return 0;
  const limit = allow > 0 && tenants.isMulti(row) ? allow : Number.POSITIVE_INFINITY;
  return Math.min(Math.max(1, tenants.largeQps[row]), limit);
}

/** Whether tenants of large messages send one after the other. */
function isRotation(mix: Mix, split: number, busyLarge: number, { rotateFrom }: MasterRules): boolean {
  if (mix.bandwidth < 2 || busyLarge < rotateFrom) return false;
  return split === LARGE_BESIDE_SMALL || rotateFrom === 0;
}

/** 1 if it was another. */
function setGrant(grants: Float64Array, at: number, value: number): number {
  if (grants[at] === value) return 0;
  grants[at] = value;
  return 1;
}

/** Writes the grants of all members. `changed` is called with each whose isolation is another now. */
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
  for (let row = 0; row < tenants.length; row++) busyLarge += busyQpsOf(tenants, row, allow);
  const rotates = isRotation(mix, split, busyLarge, rules);
  const why = mix.singles > 0 ? MULTI_BESIDE_SINGLE : SEVERAL_MULTI;
  const { grants } = members;
  const { smallGbps, delay, queueSensitive, messages, bandwidth } = mix;
  for (let row = 0; row < tenants.length; row++) {
    const of = tenants.classes[row];
    const isB = of === M.BANDWIDTH;
    const paused = allow > 0 && tenants.isMulti(row) && of >= M.MESSAGES && tenants.qps[row] > allow;
    const splitNow = isB && split !== NOTHING_TO_ISOLATE ? 1 : 0;
    const allowNow = paused ? allow : 0;
    const whyNow = splitNow === 1 ? split : paused ? why : NOTHING_TO_ISOLATE;
    const takesSlots = isB && rotates;
    // In its slot a tenant is alone.
    const busyNow = takesSlots ? busyQpsOf(tenants, row, allow) : busyLarge;
    const end = tenants.firstOf(row + 1);
    for (let k = tenants.firstOf(row); k < end; k++) {
      const i = tenants.rowAt(k);
      const at = i * M.GRANTS;
      const turn = takesSlots ? grants[at + M.SLOT_STATE] || M.OTHERS_SLOT : M.NO_ROTATION;
      const isOther =
        grants[at + M.SPLIT] !== splitNow ||
        grants[at + M.QNUM_ALLOW] !== allowNow ||
        grants[at + M.SLOT_STATE] !== turn;
      grants[at + M.SLOT_STATE] = turn;
      grants[at + M.SPLIT] = splitNow;
      grants[at + M.QNUM_ALLOW] = allowNow;
      const isMarked =
        (isOther ? 1 : 0) |
        setGrant(grants, at + M.BUSY_LARGE_QPS, busyNow) |
        setGrant(grants, at + M.SMALL_GBPS, smallGbps) |
        setGrant(grants, at + M.D_TENANTS, delay) |
        setGrant(grants, at + M.QUEUE_TENANTS, queueSensitive) |
        setGrant(grants, at + M.M_TENANTS, messages) |
        setGrant(grants, at + M.B_TENANTS, bandwidth) |
        setGrant(grants, at + M.REASON, whyNow);
      if (isMarked !== 0) members.marks[i] |= M.ISOLATION_CHANGED;
      if (isOther) changed(i);
    }
  }
}
