/** A set of small numbers in two levels of bitmaps, which finds the nearest member in O(1). */

/** Members are 0 to OCCUPANCY_SIZE - 1. */
export const OCCUPANCY_SIZE = 4096;
const WORDS = OCCUPANCY_SIZE / 32;

/** Stands for no member. */
export const ABSENT = -1;

/** Index of the lowest bit of a word that is not 0. */
const lowest = (word: number) => 31 - Math.clz32(word & -word);
const highest = (word: number) => 31 - Math.clz32(word);

/** A set of the numbers 0 to 4095. */
export class Occupancy {
  private readonly words = new Int32Array(WORDS);
  /** A bit for each word that is not 0. */
  private readonly summary = new Int32Array(WORDS / 32);

  /** Puts a number into the set. */
  add(i: number): void {
    const word = i >>> 5;
    this.words[word] |= 1 << (i & 31);
    this.summary[word >>> 5] |= 1 << (word & 31);
  }

  /** Takes a number out of the set. */
  delete(i: number): void {
    const word = i >>> 5;
    this.words[word] &= ~(1 << (i & 31));
    if (this.words[word] === 0) this.summary[word >>> 5] &= ~(1 << (word & 31));
  }

  /** The smallest member from `i` on; ABSENT if there is none. */
  atOrAfter(i: number): number {
    if (i >= OCCUPANCY_SIZE) return ABSENT;
    const word = i >>> 5;
    const bits = this.words[word] & (-1 << (i & 31));
    if (bits !== 0) return (word << 5) | lowest(bits);
    let group = word >>> 5;
    // A shift by 32 is one by 0, hence -2 and not -1 << (n + 1).
    let rest = this.summary[group] & (-2 << (word & 31));
    while (rest === 0) {
      if (++group === WORDS / 32) return ABSENT;
      rest = this.summary[group];
    }
    const next = (group << 5) | lowest(rest);
    return (next << 5) | lowest(this.words[next]);
  }

  /** The largest member up to `i`; ABSENT if there is none. */
  atOrBefore(i: number): number {
    if (i < 0) return ABSENT;
    const word = i >>> 5;
    const bits = this.words[word] & (-1 >>> (31 - (i & 31)));
    if (bits !== 0) return (word << 5) | highest(bits);
    let group = word >>> 5;
    let rest = this.summary[group] & ~(-1 << (word & 31));
    while (rest === 0) {
      if (group-- === 0) return ABSENT;
      rest = this.summary[group];
    }
    const previous = (group << 5) | highest(rest);
    return (previous << 5) | highest(this.words[previous]);
  }
}
