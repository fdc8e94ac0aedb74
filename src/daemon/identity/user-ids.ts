/** User IDs in rules: one, a range, or a list of both. */

/** User IDs from `first` to `last`. */
export interface IdRange {
  readonly first: number;
  readonly last: number;
}

/** One user ID, or ranges of several in ascending order with gaps between them. */
export type UserIds = number | readonly IdRange[];

const MAX_ID = 0xffffffff;

/** Whether a value is an ID of a user or group. */
export function isId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_ID;
}

function rangeOf(value: unknown): IdRange | null {
  if (isId(value)) return { first: value, last: value };
  const [, from, to] = (typeof value === 'string' && /^(\d{1,10})-(\d{1,10})$/.exec(value)) || [];
  const [first, last] = [Number(from), Number(to)];
  return isId(first) && isId(last) && first <= last ? { first, last } : null;
}

/** Parses `1000`, `100000-165535`, or a list of both. Returns null for anything else. */
export function userIdsOf(value: unknown): UserIds | null {
  if (isId(value)) return value;
  const ranges = (Array.isArray(value) ? value : [value]).map(rangeOf);
  if (ranges.length === 0 || !ranges.every((range) => range !== null)) return null;
  const merged: { first: number; last: number }[] = [];
  for (const { first, last } of [...ranges].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
    else merged.push({ first, last });
  }
  const [{ first, last }] = merged;
  return merged.length === 1 && first === last ? first : merged;
}

/** Whether a user ID is among those of a rule. */
export function hasId(ids: UserIds, uid: number): boolean {
  if (typeof ids === 'number') return ids === uid;
  return ids.some(({ first, last }) => uid >= first && uid <= last);
}
