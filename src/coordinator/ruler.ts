/**
 * What a policy brings to the coordinator of a device: the columns that its members report and are granted, and the
 * rules that turn one into the other. The coordinator knows no ruler by name (layout.ts lays out their columns).
 */

import { InvalidArgumentError } from '../verbs/errors.ts';
import type { NicFacts } from '../verbs/nic.ts';
import type { Tenants } from './tenants.ts';

/** A number that a member shares with the coordinator. */
export interface Column {
  /** Unique within the ruler's reports, and within its grants. */
  readonly name: string;
  /** Such as `Gbit/s`, `queue pairs` or `0 or 1`. */
  readonly unit: string;
  /** A report is clamped to these bounds when it is read, whatever the member wrote. */
  readonly min: number;
  readonly max: number;
  /** The value before anything is written, and what is read of a report that is not a number. */
  readonly default: number;
  /**
   * Of a grant, for members of a daemon that has granted nothing yet: what they may do in the meantime. Absent: the
   * default.
   */
  readonly alone?: number;
  /**
   * Of a grant, for a new member of a tenant that a daemon has granted something: the value until the daemon has granted
   * something to the member itself. It applies to grants that the members of a tenant divide among themselves. Absent:
   * what the tenant was granted last.
   */
  readonly joining?: number;
  /**
   * Of a grant: its value once the daemon has gone. Until then, the ruler of a daemon in busy mode keeps changing it as a
   * sign of life (MemberPage.isStalled). Absent: the last value stays in force.
   */
  readonly orphaned?: number;
}

/** A schema of zod, or any object that validates in the same way. */
export interface RulesSchema<Rules> {
  /** Rules with defaults filled in, or what is wrong with the options. */
  safeParse(value: unknown):
    | { readonly success: true; readonly data: Rules }
    | {
        readonly success: false;
        readonly error: {
          readonly issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[];
        };
      };
}

/** The rules of a policy for the members of a device. It owns no clock, thread or file. */
export interface Ruler<Rules = unknown> {
  /** Unique among the rulers of a device. */
  readonly name: string;
  /** Columns that a member writes. */
  readonly reports: readonly Column[];
  /** Columns that the ruler writes and a member reads. */
  readonly grants: readonly Column[];
  /**
   * Turns the options of the policy into rules, where no context does so: in a daemon, from the options of its
   * configuration, or from none.
   */
  readonly rules: RulesSchema<Rules>;
  /** The same for a device whose NIC is known. Default: `rules`. */
  rulesOn?(nic: NicFacts): RulesSchema<Rules>;
  /**
   * Whether members that share memory decide among themselves. Such a ruler decides even while the coordinator is down,
   * and grants nothing to members of other processes (`MembersView.isRemote`). Default false.
   */
  readonly byMembers?: boolean;
  /**
   * Whether it decides only in a daemon in busy mode, and there in every pass. What members report to it causes no
   * decision of other rulers. Default false.
   */
  readonly isForBusy?: boolean;
  /** Begins at a device: binds columns by name, once. The result may keep state. */
  begin(members: MembersView): Decider<Rules>;
}

/** A ruler at one device. */
export interface Decider<Rules = unknown> {
  /**
   * Writes grants, and calls `changed` with each member that must act on its grants at once. All others read theirs
   * when they need them.
   */
  decide(rules: Rules, nowNs: number, changed: (member: number) => void): void;
  /**
   * What a tenant gets and why, for people and monitoring, by name. `isoverbs tenants --json` shows all of it. `tenant`
   * is an index of `MembersView.tenants`, which are grouped.
   */
  describe?(tenant: number): Description;
}

/** What a ruler says of a tenant. */
export type Description = Readonly<Record<string, number | string | boolean>>;

/** A column of reports, bound to a device. */
export interface ReportColumn {
  /** The value that a member reported, within the column's bounds. */
  of(member: number): number;
}

/** A column of grants, bound to a device. */
export interface GrantColumn {
  /** The value that the member is granted now. */
  of(member: number): number;
  /** Returns whether the value changed. */
  set(member: number, value: number): boolean;
}

/**
 * The members of a device, as a ruler sees them. A member is a number below `rowLimit` (a context of a tenant); numbers
 * are reused. `tenants` says which numbers are members at present.
 */
export interface MembersView {
  /** The members grouped by tenant. Call `tenants.group()` first in each decision. */
  readonly tenants: Tenants;
  readonly rowLimit: number;
  /**
   * The number that stands for the device itself in columns of grants: no member, but room for what all threads that
   * share the device must know.
   */
  readonly device: number;
  /** Binds a column of reports: of this ruler, or of another one. @throws InvalidArgumentError for an unknown name */
  report(column: string, ruler?: Pick<Ruler, 'name' | 'reports' | 'grants' | 'byMembers'>): ReportColumn;
  /** Binds a column of grants: of this ruler, or of another one. @throws InvalidArgumentError for an unknown name */
  grant(column: string, ruler?: Pick<Ruler, 'name' | 'reports' | 'grants' | 'byMembers'>): GrantColumn;
  /** The rate of the device's link in Gbit/s; 0: unknown. */
  readonly linkGbps: number;
  /**
   * Whether the members run in other processes. Their grants take longer to arrive than a message takes to be sent, and
   * the coordinator decides by its own clock.
   */
  readonly isRemote: boolean;
  /**
   * Whether a member gives no sign of life: in a daemon, which knows itself how long a client may be silent, or by what it
   * last wrote (WRITTEN_NS of its counters), where `silentNs` is given.
   */
  isSilent(member: number, nowNs: number, silentNs?: number): boolean;
}

/** The columns of one ruler in a member's row, in the order in which the ruler declares them. */
export interface MemberColumns {
  /**
   * What the member writes, and what it reads. The arrays of a coordinator elsewhere are replaced when the connection
   * comes or goes, so callers must not keep references to them.
   */
  readonly reports: Float64Array;
  readonly grants: Float64Array;
}

/** The index of a column among those of its ruler, for `MemberColumns`. */
export function columnIndex(columns: readonly Column[], name: string): number {
  const index = columns.findIndex((column) => column.name === name);
  if (index < 0)
    throw new InvalidArgumentError(`there is no column '${name}'; the columns are: ${namesOf(columns)}`);
  return index;
}

/** The names of columns, for messages. */
export function namesOf(columns: readonly Column[]): string {
  return columns.length === 0 ? 'none' : columns.map(({ name }) => name).join(', ');
}
