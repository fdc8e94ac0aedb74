/** The members of a device as one ruler sees them: columns bound by name, and reports clamped when they are read. */
import { InvalidArgumentError } from '../verbs/errors.ts';
import type { Columned, Place } from './layout.ts';
import { type MemberTable, WRITTEN_NS } from './member-table.ts';
import { type Column, type GrantColumn, type MembersView, namesOf, type ReportColumn } from './ruler.ts';
import type { Tenants } from './tenants.ts';

/**
 * How it is known that a member is silent: by the rules of each ruler, or because the owner of the table says so by
 * NEVER_NS, as for members in other processes, whose clocks are not trusted.
 */
export type Silence = 'by rules' | 'by owner';
/** The WRITTEN_NS of a silent member, where the owner of the table decides who is silent. */
export const NEVER_NS = Number.NEGATIVE_INFINITY;

export class Members implements MembersView {
  readonly tenants: Tenants;
  private readonly table: MemberTable;
  private readonly own: Place;
  private readonly silence: Silence;

  constructor(table: MemberTable, tenants: Tenants, own: Place, silence: Silence) {
    this.table = table;
    this.tenants = tenants;
    this.own = own;
    this.silence = silence;
  }

  get rowLimit(): number {
    return this.table.rowLimit;
  }

  get device(): number {
    return this.table.deviceRow;
  }

  get linkGbps(): number {
    return this.table.linkGbps;
  }

  get isRemote(): boolean {
    return this.silence === 'by owner';
  }

  report(column: string, ruler: Columned = this.own): ReportColumn {
    const place = this.table.layout.add(ruler);
    const index = indexOf(place.reports, column, `ruler '${ruler.name}' has no report '${column}'`);
    const { counters, width } = this.table;
    return new Report(counters, width.reports, place.reportsAt + index, place.reports[index]);
  }

  grant(column: string, ruler: Columned = this.own): GrantColumn {
    const place = this.table.layout.add(ruler);
    const index = indexOf(place.grants, column, `ruler '${ruler.name}' has no grant '${column}'`);
    return new Grant(this.table, place.grantsAt + index, place.mark);
  }

  isSilent(member: number, nowNs: number, silentNs = Number.POSITIVE_INFINITY): boolean {
    const { counters, width } = this.table;
    const writtenNs = counters[member * width.reports + WRITTEN_NS];
    if (this.silence === 'by owner') return writtenNs === NEVER_NS;
    // NaN or a time in the future is no sign of life.
    return !(Math.abs(nowNs - writtenNs) <= silentNs);
  }
}

function indexOf(columns: readonly Column[], name: string, problem: string): number {
  const index = columns.findIndex((column) => column.name === name);
  if (index < 0) throw new InvalidArgumentError(`${problem}; it has: ${namesOf(columns)}`);
  return index;
}

class Report implements ReportColumn {
  private readonly values: Float64Array;
  private readonly stride: number;
  private readonly offset: number;
  private readonly min: number;
  private readonly max: number;
  private readonly byDefault: number;

  constructor(values: Float64Array, stride: number, offset: number, column: Column) {
    this.values = values;
    this.stride = stride;
    this.offset = offset;
    this.min = column.min;
    this.max = column.max;
    this.byDefault = column.default;
  }

  of(member: number): number {
    const value = this.values[member * this.stride + this.offset];
    if (value >= this.min) return value > this.max ? this.max : value;
    return value < this.min ? this.min : this.byDefault;
  }
}

class Grant implements GrantColumn {
  private readonly values: Float64Array;
  private readonly marks: Uint16Array;
  private readonly stride: number;
  private readonly offset: number;
  private readonly mark: number;

  constructor({ grants, marks, width }: MemberTable, offset: number, mark: number) {
    this.values = grants;
    this.marks = marks;
    this.stride = width.grants;
    this.offset = offset;
    this.mark = mark;
  }

  of(member: number): number {
    return this.values[member * this.stride + this.offset];
  }

  set(member: number, value: number): boolean {
    const at = member * this.stride + this.offset;
    if (this.values[at] === value) return false;
    this.values[at] = value;
    this.marks[member] |= this.mark;
    return true;
  }
}
