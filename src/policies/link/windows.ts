/**
 * The ruler of policies with a window. Within a process the order of queue pairs makes the shares; between processes there
 * is no common order, so each gets a part of the window, which is moved until what it sends is what it is due: equation
 * (1) of Palos, over the queue pairs of all processes. A process that needs less than its share leaves the rest to others.
 */
import { TENANT } from '../../coordinator/member-table.ts';
import type {
  Column,
  Decider,
  Description,
  GrantColumn,
  MembersView,
  ReportColumn,
  Ruler,
} from '../../coordinator/ruler.ts';
import { isWeight } from '../../verbs/labels.ts';
import { GROUPS, WINDOW_GRANTS, WINDOW_REPORTS } from './columns.ts';

/** Least time between two changes of the windows. */
const PERIOD_NS = 15e6;
/** The largest correction of a window in one step, as a factor, and its part that is applied at once. */
const MAX_STEP = 2;
const GAIN = 0.5;
/** Members are steered together, as soon as all have sampled, but no later than this. */
const MAX_PERIOD_NS = 500e6;
/** A window is never below this part, so that a member can always make itself heard. */
const LEAST_PART = 1e-3;
/**
 * Members use their windows differently, so the ratio of a member's part to those of all others may be this many times
 * larger or smaller than the ratio that it is due. A member that has been off by the factor FAR_OFF for PATIENT_STEPS steps
 * nevertheless is not limited by its window: its peer has stopped, it gets no CPU, or it lies. It then has what it is due
 * for REST_STEPS steps, twice as many each time in a row, and the others are steered without it.
 */
const MAX_SPREAD = 16;
const FAR_OFF = 2;
const PATIENT_STEPS = 16;
const REST_STEPS = 128;
const MAX_REST_STEPS = 8192;

/** The rules of the windows: the queue pairs that divide the weights (ChunkOptions). */
export interface WindowRules {
  readonly sums: 'configured' | 'active';
}

/** What members of one policy report, and are granted, in addition. */
export interface Additional {
  readonly reports: readonly Column[];
  readonly grants: readonly Column[];
  begin(members: MembersView): AdditionalDecider;
}

/** The additional part of a ruler of windows, at one device of a daemon. */
export interface AdditionalDecider {
  /** Writes the additional grants, and calls `changed` with each member that must act on them at once. */
  decide(nowNs: number, changed: (member: number) => void): void;
  /** What a member has reported, in words. */
  describe(member: number): Description;
}

const NOTHING: Additional = {
  reports: [],
  grants: [],
  begin: () => ({ decide: () => {}, describe: () => ({}) }),
};

/** What was known of a member at the last step, and what was computed for it since. */
interface Row {
  /** What it had sent at its last sample before the step, and when that was by its clock. */
  wireBytes: number;
  sampledNs: number;
  /** What it has sent since then, in bytes per nanosecond; 0 until there is another sample. */
  perNs: number;
  isFresh: boolean;
  isHungry: boolean;
  /** Its share among all members that have something to send. */
  due: number;
  part: number;
  /** Steps for which it has what it is due, whatever it sends. */
  restSteps: number;
  /** Steps for which it has been far off although its part is at a bound. */
  offSteps: number;
  /** For how many steps it rests next time. */
  nextRestSteps: number;
}

/** Of a member that has just come. */
const NEW_ROW = {
  perNs: 0,
  isFresh: false,
  isHungry: false,
  due: 0,
  restSteps: 0,
  offSteps: 0,
  nextRestSteps: REST_STEPS,
};

/** Weights of a tenant's group, of all members. */
interface Group {
  readonly groupWeight: number;
  weight: number;
  activeWeight: number;
}

class Windows implements Decider<WindowRules> {
  private readonly members: MembersView;
  private readonly hasPolicy: ReportColumn;
  private readonly wireBytes: ReportColumn;
  private readonly sampledNs: ReportColumn;
  private readonly isHungry: ReportColumn;
  private readonly leastPart: ReportColumn;
  private readonly tenantWeight: ReportColumn;
  private readonly groups: readonly (readonly ReportColumn[])[];
  private readonly part: GrantColumn;
  private readonly isSteered: GrantColumn;
  private readonly rows = new Map<number, Row>();
  /** The parts of members that were silent. */
  private readonly parts = new Map<number, number>();
  private lastNs = Number.NEGATIVE_INFINITY;
  private readonly additional: AdditionalDecider;

  constructor(members: MembersView, additional: AdditionalDecider) {
    this.members = members;
    this.additional = additional;
    this.hasPolicy = members.report('hasPolicy');
    this.wireBytes = members.report('wireBytes');
    this.sampledNs = members.report('sampledNs');
    this.isHungry = members.report('isHungry');
    this.leastPart = members.report('leastPart');
    this.tenantWeight = members.report('weight', TENANT);
    this.groups = Array.from({ length: GROUPS }, (_, i) => [
      members.report(`group${i}`),
      members.report(`groupWeight${i}`),
      members.report(`weight${i}`),
      members.report(`activeWeight${i}`),
    ]);
    this.part = members.grant('part');
    this.isSteered = members.grant('isSteered');
  }

  decide(rules: WindowRules, nowNs: number, changed: (member: number) => void): void {
    if (!this.members.isRemote) return;
    this.members.tenants.group();
    this.additional.decide(nowNs, changed);
    const hasLeft = this.track(nowNs, changed);
    if (nowNs - this.lastNs < PERIOD_NS && !hasLeft) return;
    this.measure();
    this.entitle(rules);
    const spanNs = nowNs - this.lastNs;
    if (spanNs >= MAX_PERIOD_NS || (spanNs >= PERIOD_NS && this.areFresh)) {
      this.steer();
      this.lastNs = nowNs;
    }
    this.grant(changed);
  }

  /** Finds members that have come or gone. Returns whether any has gone. */
  private track(nowNs: number, changed: (member: number) => void): boolean {
    const { members, rows } = this;
    let hasLeft = false;
    for (let member = 0; member < members.rowLimit; member++) {
      const isMember = this.isMember(member);
      const isHere = isMember && !members.isSilent(member, nowNs);
      // The next member in its place is another one.
      if (!isMember) this.parts.delete(member);
      if (isHere === rows.has(member)) continue;
      if (isHere) {
        const part = this.parts.get(member) ?? 0;
        const [wireBytes, sampledNs] = [this.wireBytes.of(member), this.sampledNs.of(member)];
        rows.set(member, { ...NEW_ROW, wireBytes, sampledNs, part });
        if (this.isSteered.set(member, 1)) changed(member);
      } else {
        // One that is only silent for a while continues where it was.
        if (isMember) this.parts.set(member, rows.get(member)!.part);
        rows.delete(member);
        hasLeft = true;
      }
    }
    return hasLeft;
  }

  /** Whether a row is a member that has this policy. */
  private isMember(member: number): boolean {
    return this.members.tenants.tenantOf(member) >= 0 && this.hasPolicy.of(member) === 1;
  }

  /** Reads what the members have sent since the last step. */
  private measure(): void {
    const mostPerNs = this.members.linkGbps > 0 ? this.members.linkGbps / 8 : Number.POSITIVE_INFINITY;
    for (const [member, row] of this.rows) {
      const sampledNs = this.sampledNs.of(member);
      row.isHungry = this.isHungry.of(member) === 1;
      if (sampledNs === row.sampledNs) continue;
      const sentBytes = Math.max(0, this.wireBytes.of(member) - row.wireBytes);
      // A member that claims more than the link carries would keep all others from being steered.
      row.perNs = Math.min(sentBytes / Math.max(1, sampledNs - row.sampledNs), mostPerNs);
      row.isFresh = true;
    }
  }

  /** Whether all members that wait for their windows have sampled since the last step. */
  private get areFresh(): boolean {
    for (const { isHungry, isFresh } of this.rows.values()) if (isHungry && !isFresh) return false;
    return true;
  }

  /** Computes equation (1), with tenants above the groups. */
  private entitle({ sums }: WindowRules): void {
    const tenants = new Map<number, Map<number, Group>>();
    for (const [member] of this.rows) this.collect(member, tenants);
    const counted = (group: Group) => (sums === 'configured' ? group.weight : group.activeWeight);
    let tenantSum = 0;
    const groupSums = new Map<number, number>();
    for (const [tenant, groups] of tenants) {
      let sum = 0;
      for (const group of groups.values()) if (counted(group) > 0) sum += group.groupWeight;
      groupSums.set(tenant, sum);
      if (sum > 0) tenantSum += this.weightOf(tenant);
    }
    for (const [member, row] of this.rows) {
      const tenant = this.members.tenants.tenantOf(member);
      const ofTenant = this.weightOf(tenant) / tenantSum / groupSums.get(tenant)!;
      row.due = 0;
      for (const columns of this.groups) {
        const group = tenants.get(tenant)?.get(nameIn(columns, member));
        if (group === undefined || counted(group) === 0) continue;
        row.due += (ofTenant * group.groupWeight * activeWeightIn(columns, member)) / counted(group);
      }
    }
  }

  private collect(member: number, tenants: Map<number, Map<number, Group>>): void {
    const tenant = this.members.tenants.tenantOf(member);
    const groups = tenants.get(tenant) ?? new Map<number, Group>();
    tenants.set(tenant, groups);
    for (const columns of this.groups) {
      const name = nameIn(columns, member);
      if (name === 0) continue;
      const [, groupWeight, weight] = columns;
      const group = groups.get(name) ?? { groupWeight: groupWeight.of(member), weight: 0, activeWeight: 0 };
      group.weight += weight.of(member);
      group.activeWeight += activeWeightIn(columns, member);
      groups.set(name, group);
    }
  }

  private weightOf(tenant: number): number {
    const { tenants } = this.members;
    return this.tenantWeight.of(tenants.memberAt(tenants.firstOf(tenant)));
  }

  /** Moves the parts of hungry members towards what they are due of what the others leave. */
  private steer(): void {
    let [perNs, due, dueOfAll] = [0, 0, 0];
    for (const row of this.rows.values()) {
      if (!row.isHungry || !row.isFresh) continue;
      dueOfAll += row.due;
      // What is sent without being due says nothing about the others.
      if (row.restSteps > 0 || row.due === 0) continue;
      perNs += row.perNs;
      due += row.due;
    }
    for (const [member, row] of this.rows) {
      if (row.due === 0) row.part = 0;
      else if (row.part === 0) row.part = row.due;
      else if (row.restSteps > 0) row.restSteps--;
      else if (row.isHungry && row.isFresh) move(row, (row.due / due) * perNs, row.due / dueOfAll);
      if (!row.isFresh) continue;
      row.isFresh = false;
      row.wireBytes = this.wireBytes.of(member);
      row.sampledNs = this.sampledNs.of(member);
    }
  }

  /** Writes the parts, which together are one window, or more if a member could not use its part otherwise. */
  private grant(changed: (member: number) => void): void {
    this.normalise();
    const scale = this.scale();
    for (const [member, row] of this.rows) {
      if (row.isHungry) row.part *= scale;
      // Kept within bounds, because parts of members that cannot use theirs would grow without end.
      if (row.part > 0) row.part = Math.min(1, Math.max(LEAST_PART, row.part));
      // A member that has nothing to send takes nothing, but may begin with all of it.
      const part = row.part === 0 ? 1 : Math.max(row.part, this.leastPart.of(member));
      if (this.part.set(member, part)) changed(member);
    }
  }

  /** Makes the parts of hungry members one window. Those that rest have what they are due. */
  private normalise(): void {
    let [due, part] = [0, 0];
    for (const row of this.rows.values()) {
      if (!row.isHungry || row.part === 0) continue;
      due += row.due;
      if (row.restSteps === 0) part += row.part;
    }
    let left = 1;
    for (const row of this.rows.values()) {
      if (!row.isHungry || row.part === 0 || row.restSteps === 0) continue;
      row.part = row.due / due;
      left -= row.part;
    }
    for (const row of this.rows.values()) {
      if (row.isHungry && row.restSteps === 0 && part > 0) row.part *= Math.max(0, left) / part;
    }
  }

  /** The length of all windows together: each member has its least part, but no member more than a whole window. */
  private scale(): number {
    let [most, least] = [0, 0];
    const typical = this.typicalLeastPart();
    for (const [member, { isHungry, part }] of this.rows) {
      if (!isHungry || part === 0) continue;
      most = Math.max(most, part);
      least = Math.max(least, Math.min(typical, this.leastPart.of(member)) / part);
    }
    // All parts keep their ratios. A member that still needs more gets it alone (grant).
    return Math.max(1, Math.min(least, 1 / most));
  }

  /** The smallest usable part of most tenants. What a single one claims does not lengthen the windows of all. */
  private typicalLeastPart(): number {
    const byTenant = new Map<number, number>();
    for (const [member, { isHungry }] of this.rows) {
      const tenant = this.members.tenants.tenantOf(member);
      if (isHungry) byTenant.set(tenant, Math.max(byTenant.get(tenant) ?? 0, this.leastPart.of(member)));
    }
    const sorted = [...byTenant.values()].sort((a, b) => a - b);
    return sorted[(sorted.length - 1) >> 1] ?? 0;
  }

  describe(tenant: number): Description {
    const { tenants } = this.members;
    let [due, part] = [0, 0];
    let said: Description | null = null;
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      const row = this.rows.get(member);
      if (row === undefined) continue;
      due += row.due;
      part += row.part;
      // Members of one device see the same traffic, so they hardly differ.
      said ??= this.additional.describe(member);
    }
    return said === null ? {} : { share: due, windowPart: part, ...said };
  }
}

/**
 * Moves the part of a hungry member.
 * @param duePerNs what it is due of what the members send
 * @param share the part that it would have if all used their windows alike
 */
function move(row: Row, duePerNs: number, share: number): void {
  const { part, perNs } = row;
  const step = perNs > 0 ? duePerNs / perNs : Number.POSITIVE_INFINITY;
  const [least, most] = [spread(share, 1 / MAX_SPREAD), spread(share, MAX_SPREAD)];
  const moved = part * Math.min(MAX_STEP, Math.max(1 / MAX_STEP, step)) ** GAIN;
  row.part = Math.min(most, Math.max(least, moved));
  const isOff = (step > FAR_OFF && moved >= most) || (step < 1 / FAR_OFF && moved <= least);
  row.offSteps = isOff ? row.offSteps + 1 : 0;
  if (step < FAR_OFF && step > 1 / FAR_OFF) row.nextRestSteps = REST_STEPS;
  if (row.offSteps < PATIENT_STEPS) return;
  row.offSteps = 0;
  row.restSteps = row.nextRestSteps;
  row.nextRestSteps = Math.min(2 * row.nextRestSteps, MAX_REST_STEPS);
}

/** The part whose ratio to the rest is this many times as large as that of another part. */
function spread(part: number, times: number): number {
  return (part * times) / (1 + part * (times - 1));
}

/** The group that a member reports in these columns; 0: none. A group always has a weight that labels may have. */
function nameIn([id, groupWeight]: readonly ReportColumn[], member: number): number {
  return isWeight(groupWeight.of(member)) ? id.of(member) : 0;
}

/** What of its weight in a group is active. A member cannot claim more than all of it. */
function activeWeightIn([, , weight, activeWeight]: readonly ReportColumn[], member: number): number {
  return Math.min(activeWeight.of(member), weight.of(member));
}

/**
 * A ruler that grants each member of a policy its part of the window.
 * @param name the ruler's
 * @param rules the rules, from the options of the policy
 * @param additional what its members report and are granted apart from windows
 */
export const windowsRuler = (
  name: string,
  rules: Ruler<WindowRules>['rules'],
  additional: Additional = NOTHING,
): Ruler<WindowRules> => ({
  name,
  reports: [...WINDOW_REPORTS, ...additional.reports],
  grants: [...WINDOW_GRANTS, ...additional.grants],
  rules,
  begin: (members) => new Windows(members, additional.begin(members)),
});
