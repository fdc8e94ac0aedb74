/** What the members of a device report to the ruler of windows, and what it grants them. */
import { type Column, columnIndex } from '../../coordinator/ruler.ts';

/** The most groups that a member reports. Queue pairs of further groups count as members of the last one. */
export const GROUPS = 4;
/** Columns of a group. */
export const GROUP_COLUMNS = ['group', 'groupWeight', 'weight', 'activeWeight'] as const;
const MAX_WEIGHT = 1e12;

const groupColumns = (i: number): Column[] => [
  // A number that stands for the name of the group (tenantId); 0: no group here.
  { name: `group${i}`, unit: 'number of a name', min: 0, max: 2 ** 53, default: 0 },
  { name: `groupWeight${i}`, unit: 'weight', min: 0, max: MAX_WEIGHT, default: 0 },
  // The sums over the member's queue pairs in the group: all of them, and those that have something to send.
  { name: `weight${i}`, unit: 'weight', min: 0, max: MAX_WEIGHT, default: 0 },
  { name: `activeWeight${i}`, unit: 'weight', min: 0, max: MAX_WEIGHT, default: 0 },
];

/** The columns that a member writes. */
export const WINDOW_REPORTS: readonly Column[] = [
  // 1 if the member runs this policy.
  { name: 'hasPolicy', unit: '0 or 1', min: 0, max: 1, default: 0 },
  // Since it was opened, in the direction that requests load more.
  { name: 'wireBytes', unit: 'bytes on the wire', min: 0, max: Number.MAX_SAFE_INTEGER, default: 0 },
  // When these reports were written, by the member's clock.
  { name: 'sampledNs', unit: 'ns', min: 0, max: Number.MAX_SAFE_INTEGER, default: 0 },
  // Whether requests wait for the window.
  { name: 'isHungry', unit: '0 or 1', min: 0, max: 1, default: 0 },
  // The smallest part of the window that the member can use: one piece.
  { name: 'leastPart', unit: 'part of the window', min: 0, max: 1, default: 0 },
  ...Array.from({ length: GROUPS }, (_, i) => groupColumns(i)).flat(),
];

/** The columns that the ruler writes. */
export const WINDOW_GRANTS: readonly Column[] = [
  { name: 'part', unit: 'part of the window', min: 0, max: 1, default: 1 },
  // 1 if other processes share the device, so that members must report.
  { name: 'isSteered', unit: '0 or 1', min: 0, max: 1, default: 0 },
];

/** Indices of the columns in a member's page. */
export const HAS_POLICY = columnIndex(WINDOW_REPORTS, 'hasPolicy');
/** See HAS_POLICY. */
export const WIRE_BYTES = columnIndex(WINDOW_REPORTS, 'wireBytes');
/** See HAS_POLICY. */
export const SAMPLED_NS = columnIndex(WINDOW_REPORTS, 'sampledNs');
/** See HAS_POLICY. */
export const IS_HUNGRY = columnIndex(WINDOW_REPORTS, 'isHungry');
/** See HAS_POLICY. */
export const LEAST_PART = columnIndex(WINDOW_REPORTS, 'leastPart');
/** The first of the columns of groups. */
export const FIRST_GROUP = columnIndex(WINDOW_REPORTS, 'group0');
export const PART = columnIndex(WINDOW_GRANTS, 'part');
export const IS_STEERED = columnIndex(WINDOW_GRANTS, 'isSteered');
