/**
 * The two pieces of memory shared by the daemon and one client: counters, which the client writes, and
 * grants, which it can only read. Both have one row of columns for each seat of the client, in the order of the layout
 * that the daemon sends in its welcome.
 */
import { type Columned, type LayoutNames, positionIn, type RowWidth } from '../coordinator/layout.ts';
import type { MemberColumns } from '../coordinator/ruler.ts';

/** Contexts that one client may have at the daemon. */
export const SEATS_PER_CLIENT = 256;
/**
 * The bytes of each that are reserved at creation: enough for the counters of 16 seats and the grants of 12, with the
 * built-in policies. Few clients need more, and there may be thousands of clients.
 */
export const RESERVED_BYTES = 4096;
/** The columns of a cache line: no two rows share one. */
const COLUMNS_PER_LINE = 8;

/** The shape of a client's memory: the columns of a row, and the bytes of each piece. */
export interface PageShape extends RowWidth {
  readonly reportsBytes: number;
  readonly grantsBytes: number;
}

/** The shape that has room for all columns of a layout. */
export function pageShapeOf(layout: LayoutNames): PageShape {
  const width = (kind: 'reports' | 'grants') => {
    const columns = layout.reduce((sum, ruler) => sum + ruler[kind].length, 0);
    return Math.ceil(columns / COLUMNS_PER_LINE) * COLUMNS_PER_LINE;
  };
  const [reports, grants] = [width('reports'), width('grants')];
  const rowBytes = SEATS_PER_CLIENT * Float64Array.BYTES_PER_ELEMENT;
  return { reports, grants, reportsBytes: reports * rowBytes, grantsBytes: grants * rowBytes };
}

export interface Pages {
  readonly counters: Float64Array;
  readonly grants: Float64Array;
}

/** All columns of one seat. Those of every member come first. */
export type Row = Pages;

/** The row of one seat. */
export function rowAt({ counters, grants }: Pages, seatNumber: number, width: RowWidth): Row {
  return {
    counters: counters.subarray(seatNumber * width.reports, (seatNumber + 1) * width.reports),
    grants: grants.subarray(seatNumber * width.grants, (seatNumber + 1) * width.grants),
  };
}

/** The columns of a ruler in a row; null if the layout has none, or others of this name. */
export function columnsIn(
  { counters, grants }: Row,
  layout: LayoutNames,
  ruler: Columned,
): MemberColumns | null {
  const position = positionIn(layout, ruler);
  if (position === null) return null;
  const { reportsAt, grantsAt } = position;
  return {
    reports: counters.subarray(reportsAt, reportsAt + ruler.reports.length),
    grants: grants.subarray(grantsAt, grantsAt + ruler.grants.length),
  };
}
