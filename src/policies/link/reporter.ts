/**
 * If other processes share a device, reports what its contexts in this process have to send (windows.ts), and reads the
 * part of the window that they are granted.
 */
import type { MemberPage } from '../../coordinator/member-table.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { MemberColumns, Ruler } from '../../coordinator/ruler.ts';
import { tenantId } from '../../coordinator/tenants.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import {
  FIRST_GROUP,
  GROUP_COLUMNS,
  GROUPS,
  HAS_POLICY,
  IS_HUNGRY,
  IS_STEERED,
  LEAST_PART,
  PART,
  SAMPLED_NS,
  WINDOW_REPORTS,
  WIRE_BYTES,
} from './columns.ts';
import type { WindowRules } from './windows.ts';

/** A context as a member of its device. */
interface Member {
  readonly context: ContextView;
  readonly page: MemberPage;
  readonly columns: MemberColumns;
  readonly qps: Set<QpView>;
  /** Whether it had something to send at the last sample. */
  isActive: boolean;
}

/** What a reporter must know about the queue pairs. */
export interface Reported {
  /** Whether the queue pair waits to be served. */
  waits(qp: QpView): boolean;
  /** The bytes on the wire that the queue pair has sent since the last call. */
  takeSentBytes(qp: QpView): number;
  /** The weight of the queue pair's group among those of its tenant. */
  groupWeightOf(qp: QpView): number;
  /** The values of the ruler's additional columns. */
  readonly additional?: () => ArrayLike<number>;
}

/** The members of one device in this process. */
export class Reporter {
  private readonly registry: CoordinatorRegistry;
  private readonly ruler: Ruler<WindowRules>;
  private readonly reported: Reported;
  private readonly members = new Map<number, Member>();
  /** The group columns of the member that is being sampled. */
  private readonly groups = new Float64Array(GROUPS * GROUP_COLUMNS.length);

  constructor(registry: CoordinatorRegistry, ruler: Ruler<WindowRules>, reported: Reported) {
    this.registry = registry;
    this.ruler = ruler;
    this.reported = reported;
  }

  /** A context was opened. */
  open(context: ContextView, rules: WindowRules, nowNs: number): void {
    const { registry, ruler } = this;
    registry.govern(context, ruler, rules, (given) => given);
    const page = registry.page(context);
    const columns = page.columns(ruler);
    columns.reports[HAS_POLICY] = 1;
    this.members.set(context.index, { context, page, columns, qps: new Set(), isActive: false });
    registry.decide(context, ruler, nowNs);
  }

  add(qp: QpView): void {
    this.members.get(qp.context.index)?.qps.add(qp);
  }

  drop(qp: QpView): void {
    for (const { qps, columns } of this.members.values())
      if (qps.delete(qp)) columns.reports[WIRE_BYTES] += this.reported.takeSentBytes(qp);
  }

  /** Plans the next sample, if other processes share the device. */
  plan(atNs: number, out: Actions, token: number): void {
    this.prune();
    for (const { context, columns } of this.members.values()) {
      // Each context has a timer, because timers end with their contexts.
      if (columns.grants[IS_STEERED] === 1) out.timer(context, atNs, token, true);
    }
  }

  /** Forgets contexts that were closed. */
  private prune(): void {
    for (const [index, { context }] of this.members)
      if (!this.registry.has(context)) this.members.delete(index);
  }

  /** Whether other processes share the device, or may do so. */
  get isSteered(): boolean {
    for (const { columns } of this.members.values()) if (columns.grants[IS_STEERED] === 1) return true;
    return false;
  }

  /** The part of the window that the members may use together. */
  get part(): number {
    let part = 0;
    for (const { isActive, columns } of this.members.values()) if (isActive) part += columns.grants[PART];
    return part > 0 ? Math.min(1, part) : 1;
  }

  /** Writes the reports. @param leastPart the part of the window that is one piece */
  sample(leastPart: number, nowNs: number): void {
    // The page of a closed context may be another member's by now.
    this.prune();
    for (const member of this.members.values()) {
      // It may find that the daemon has gone, whose columns are gone, too.
      member.page.beat();
      const { reports } = member.columns;
      // After a reconnection to another daemon, the columns are new.
      reports[HAS_POLICY] = 1;
      member.isActive = false;
      this.groups.fill(0);
      reports[LEAST_PART] = leastPart;
      let isHungry = 0;
      for (const qp of member.qps) {
        const waits = this.reported.waits(qp);
        const sentBytes = this.reported.takeSentBytes(qp);
        const isActive = waits || sentBytes > 0;
        if (waits) isHungry = 1;
        if (isActive) member.isActive = true;
        this.count(qp, isActive ? qp.labels.qpWeight : 0);
        reports[WIRE_BYTES] += sentBytes;
      }
      reports.set(this.groups, FIRST_GROUP);
      reports.set(this.reported.additional?.() ?? [], WINDOW_REPORTS.length);
      reports[IS_HUNGRY] = isHungry;
      // Last, because it shows that the other columns have been written.
      reports[SAMPLED_NS] = nowNs;
    }
  }

  /** Adds a queue pair to its group. */
  private count(qp: QpView, activeWeight: number): void {
    const { groups } = this;
    const { group, qpWeight } = qp.labels;
    const name = tenantId(`group ${group}`);
    const { length } = GROUP_COLUMNS;
    let at = 0;
    while (groups[at] !== 0 && groups[at] !== name && at < groups.length - length) at += length;
    if (groups[at] === 0) {
      groups[at] = name;
      groups[at + 1] = this.reported.groupWeightOf(qp);
    }
    groups[at + 2] += qpWeight;
    groups[at + 3] += activeWeight;
  }
}
