/** Columns of members by name, wherever they lie. */
import { rulingsOf } from '../../src/cli/rulings.ts';
import { type Columned, layoutNames } from '../../src/coordinator/layout.ts';
import { MEMBER, type MemberPage, TENANT } from '../../src/coordinator/member-table.ts';
import { columnsIn, type Pages, pageShapeOf, type Row, rowAt } from '../../src/daemon/pages.ts';
import { master } from '../../src/policies/perf/master.ts';
import { slots } from '../../src/policies/perf/slot-rotation.ts';
import { shares } from '../../src/policies/token-bucket/shares.ts';

/** The rulers of the tests, whose columns have names of their own. */
export const RULERS: readonly Columned[] = [MEMBER, shares, master, slots];

/** What a daemon with the built-in policies decides by. */
export const RULINGS = rulingsOf('perf:qNumAllow=1,qNumCapa=9');

const LAYOUT = layoutNames([MEMBER, TENANT, ...RULINGS.map(({ ruler }) => ruler)]);
export const SHAPE = pageShapeOf(LAYOUT);

type Page = Pick<MemberPage, 'columns'>;

/** The columns of a ruler in a row of that daemon. */
export const columnsOf = (row: Row, ruler: Columned) => columnsIn(row, LAYOUT, ruler)!;

/** The seat of a client of that daemon. */
export const seatRow = (pages: Pages, seat: number): Row => rowAt(pages, seat, SHAPE);

/** A row of that daemon, as a page. */
export const pageOf = (row: Row): Page => ({ columns: (ruler) => columnsOf(row, ruler) });

function find(page: Page, kind: 'reports' | 'grants', name: string) {
  for (const ruler of RULERS) {
    const index = ruler[kind].findIndex((column) => column.name === name);
    if (index >= 0) return { values: page.columns(ruler)[kind], index };
  }
  throw new Error(`no column ${name}`);
}

export function report(page: Page, values: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(values)) {
    const { values, index } = find(page, 'reports', name);
    values[index] = value;
  }
}

export function reported(page: Page, name: string): number {
  const { values, index } = find(page, 'reports', name);
  return values[index];
}

export function granted(page: Page, name: string): number {
  const { values, index } = find(page, 'grants', name);
  return values[index];
}

/** Clears all columns, as if another member had taken the row. */
export function clear(page: Page): void {
  for (const ruler of RULERS) page.columns(ruler).grants.fill(0);
}

/** All grants, in the order of the rulers. */
export const allGrants = (page: Page): number[] => RULERS.flatMap((ruler) => [...page.columns(ruler).grants]);

/** Where a grant is among all of them. */
export const grantAt = (name: string): number =>
  RULERS.flatMap(({ grants }) => grants.map((column) => column.name)).indexOf(name);

/** The names of all reports that rulers decide on. */
export const REPORTED = RULERS.flatMap(({ reports }) => reports.map(({ name }) => name));
