/** The columns of a daemon with the built-in policies. */
import { rulingsOf } from '#src/cli/rulings.ts';
import { type Columned, layoutNames, positionIn } from '#src/coordinator/layout.ts';
import { MEMBER, TENANT } from '#src/coordinator/member-table.ts';
import { columnsIn, type Pages, pageShapeOf, type Row, rowAt } from '#src/daemon/pages.ts';
import { shares } from '#src/policies/token-bucket/shares.ts';

export const RULINGS = rulingsOf('');
const LAYOUT = layoutNames([MEMBER, TENANT, ...RULINGS.map(({ ruler }) => ruler)]);
export const SHAPE = pageShapeOf(LAYOUT);

/** Where the one report and the one grant of shares are in a row. */
export const { reportsAt: RATED_AT, grantsAt: RATE_AT } = positionIn(LAYOUT, shares)!;

export const seatRow = (pages: Pages, seat: number): Row => rowAt(pages, seat, SHAPE);
export const columnsOf = (row: Row, ruler: Columned) => columnsIn(row, LAYOUT, ruler)!;
