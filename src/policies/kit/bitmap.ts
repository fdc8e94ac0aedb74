/**
 * Sets of the numbers 0 to 4095 that find the nearest member in O(1): two levels of bitmaps at an offset of a column, so
 * that many sets can share one. A column of zeros holds empty sets.
 */

/** Members are 0 to SET_SIZE - 1. */
export const SET_SIZE = 4096;

const WORDS = SET_SIZE / 32;
/** Words of the summary: a bit for each word that is not 0. */
const GROUPS = WORDS / 32;

/** What a set takes of a column. */
export const SET_WORDS = WORDS + GROUPS;

/** Stands for no member. */
export const ABSENT = -1;

const highest = (word: number) => 31 - Math.clz32(word);
const lowest = (word: number) => highest(word & -word);

/** Puts a number into the set at `base`. */
export function addTo(column: Int32Array, base: number, i: number): void {
  const word = i >>> 5;
  column[base + word] |= 1 << (i & 31);
  column[base + WORDS + (word >>> 5)] |= 1 << (word & 31);
}

/** Takes a number out of the set at `base`. Returns whether the set is empty now. */
export function deleteFrom(column: Int32Array, base: number, i: number): boolean {
  const word = i >>> 5;
  const rest = column[base + word] & ~(1 << (i & 31));
  column[base + word] = rest;
  return rest === 0 && deleteWord(column, base + WORDS, word);
}

/** Marks a word as 0. Returns whether all are. */
function deleteWord(column: Int32Array, summary: number, word: number): boolean {
  column[summary + (word >>> 5)] &= ~(1 << (word & 31));
  return (column[summary] | column[summary + 1] | column[summary + 2] | column[summary + 3]) === 0;
}

/** The smallest member from `i` on; ABSENT if there is none. */
export function atOrAfter(column: Int32Array, base: number, i: number): number {
  if (i >= SET_SIZE) return ABSENT;
  const word = i >>> 5;
  const bits = column[base + word] & (-1 << (i & 31));
  if (bits !== 0) return (word << 5) | lowest(bits);
  let group = word >>> 5;
  // Bits above the word's own. -1 << 32 would be -1 << 0.
  let rest = column[base + WORDS + group] & (-2 << (word & 31));
  while (rest === 0) {
    if (++group === GROUPS) return ABSENT;
    rest = column[base + WORDS + group];
  }
  const next = (group << 5) | lowest(rest);
  return (next << 5) | lowest(column[base + next]);
}

/** The largest member up to `i`; ABSENT if there is none. */
export function atOrBefore(column: Int32Array, base: number, i: number): number {
  if (i < 0) return ABSENT;
  const word = i >>> 5;
  const bits = column[base + word] & (-1 >>> (31 - (i & 31)));
  if (bits !== 0) return (word << 5) | highest(bits);
  let group = word >>> 5;
  let rest = column[base + WORDS + group] & ~(-1 << (word & 31));
  while (rest === 0) {
    if (group-- === 0) return ABSENT;
    rest = column[base + WORDS + group];
  }
  const previous = (group << 5) | highest(rest);
  return (previous << 5) | highest(column[base + previous]);
}
