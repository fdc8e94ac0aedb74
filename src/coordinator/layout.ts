/**
 * The columns of all rulers of a device, one ruler behind the other. Columns of a ruler lie together, in the order in
 * which it declares them, so a member that knows where they begin finds each by its index.
 */
import { ConfigError } from '../verbs/errors.ts';
import { type Column, namesOf, type Ruler } from './ruler.ts';

/** What the layout needs of a ruler. */
export type Columned = Pick<Ruler, 'name' | 'reports' | 'grants' | 'byMembers' | 'isForBusy'>;

/** The place of a ruler's columns in a row. */
export interface Place extends Columned {
  /** The first report and the first grant. */
  readonly reportsAt: number;
  readonly grantsAt: number;
  /** Marks the rows whose grants of this ruler have changed. */
  readonly mark: number;
}

/** Widths of a row: the numbers of columns that it has room for. */
export interface RowWidth {
  readonly reports: number;
  readonly grants: number;
}

/** A row has one mark for each ruler. */
export const MAX_RULERS = 16;

/** Where the columns of a ruler begin, and its number among all rulers. */
export interface Position {
  readonly index: number;
  readonly reportsAt: number;
  readonly grantsAt: number;
}

/** Gives each ruler the room behind the others. Threads that share memory must agree on the order. */
export interface Directory {
  /** The position of a ruler, which is the last one if the ruler is new. Null: there is no room for its columns. */
  claim(ruler: Columned): Position | null;
}

/** Where the columns of each ruler are. */
export class Layout {
  private readonly directory: Directory;
  private readonly byName = new Map<string, Place>();

  constructor(directory: Directory) {
    this.directory = directory;
  }

  /** The rulers in the order in which they were added. */
  get places(): readonly Place[] {
    return [...this.byName.values()];
  }

  find(ruler: string): Place | undefined {
    return this.byName.get(ruler);
  }

  /**
   * Adds a ruler behind the others; one that is known keeps its place.
   * @throws ConfigError if another ruler has this name, or a row has no room for its columns
   */
  add(ruler: Columned): Place {
    const known = this.byName.get(ruler.name);
    if (known !== undefined) {
      if (isSame(known, ruler)) return known;
      throw new ConfigError(
        `two rulers are named '${ruler.name}' and have different columns (${columnsOf(known)}; ${columnsOf(ruler)}): rename one of them`,
      );
    }
    const position = this.directory.claim(ruler);
    const { name, reports, grants } = ruler;
    if (position === null) {
      throw new ConfigError(
        `ruler '${name}': there is no room for its ${reports.length} reports and ${grants.length} grants behind the columns of the device's other rulers (${[...this.byName.keys()].join(', ')})`,
      );
    }
    const { index, reportsAt, grantsAt } = position;
    const { byMembers = false, isForBusy = false } = ruler;
    const place = { name, reports, grants, byMembers, isForBusy, reportsAt, grantsAt, mark: 1 << index };
    this.byName.set(name, place);
    return place;
  }
}

const columnsOf = ({ reports, grants }: Columned) => `${namesOf(reports)} / ${namesOf(grants)}`;

/** Whether two rulers have the same columns, in name and order. */
export function isSame(one: Columned, other: Columned): boolean {
  const haveSameNames = (some: readonly Column[], others: readonly Column[]) =>
    some.length === others.length && some.every(({ name }, i) => name === others[i].name);
  return haveSameNames(one.reports, other.reports) && haveSameNames(one.grants, other.grants);
}

/** A layout by names, as a coordinator sends it to members elsewhere: the columns of each ruler, in their order. */
export type LayoutNames = readonly {
  readonly name: string;
  readonly reports: readonly string[];
  readonly grants: readonly string[];
  /** Of the reports: what a member writes for the rulers that its policies do not have. */
  readonly defaults: readonly number[];
}[];

/** The names of all columns, in their order. */
export function layoutNames(rulers: readonly Columned[]): LayoutNames {
  const names = (columns: readonly Column[]) => columns.map((column) => column.name);
  return rulers.map(({ name, reports, grants }) => ({
    name,
    reports: names(reports),
    grants: names(grants),
    defaults: reports.map((column) => column.default),
  }));
}

/** Where the columns of a ruler begin in a layout; null if it has no such ruler, or one with other columns. */
export function positionIn(layout: LayoutNames, ruler: Columned): Omit<Position, 'index'> | null {
  let [reportsAt, grantsAt] = [0, 0];
  const [own] = layoutNames([ruler]);
  for (const one of layout) {
    if (one.name === own.name) {
      const isSame = `${one.reports}` === `${own.reports}` && `${one.grants}` === `${own.grants}`;
      return isSame ? { reportsAt, grantsAt } : null;
    }
    reportsAt += one.reports.length;
    grantsAt += one.grants.length;
  }
  return null;
}
