/**
 * A Fenwick tree over the beginnings of ranges, of which each node has the range with the largest end. It finds a range
 * that contains another one in logarithmic time.
 */

const NO_END = -1;

export class RangeTree {
  private readonly begins: Float64Array;
  private readonly ends: Float64Array;
  private readonly values: Int32Array;
  /** The last rank that was looked up: a range is often added after it was searched for. */
  private lastBegin = Number.NaN;
  private lastRank = 0;

  /** @param begins the beginnings of all ranges that will be added */
  constructor(begins: readonly number[]) {
    const sorted = Float64Array.from(begins).sort();
    this.begins = sorted.filter((begin, i) => i === 0 || begin !== sorted[i - 1]);
    this.ends = new Float64Array(this.begins.length + 1).fill(NO_END);
    this.values = new Int32Array(this.begins.length + 1);
  }

  /** How many ranges that will be added begin at or before this number. */
  private rankOf(begin: number): number {
    const { begins } = this;
    if (begin === this.lastBegin) return this.lastRank;
    let [low, high] = [0, begins.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (begins[middle] <= begin) low = middle + 1;
      else high = middle;
    }
    this.lastBegin = begin;
    this.lastRank = low;
    return low;
  }

  /** Adds a range with a value, at least 0. */
  add(first: number, last: number, value: number): void {
    const { ends, values } = this;
    for (let i = this.rankOf(first); i < ends.length; i += i & -i) {
      if (ends[i] >= last) continue;
      ends[i] = last;
      values[i] = value;
    }
  }

  /** The value of a range that contains this one; -1 if there is none. */
  find(first: number, last: number): number {
    for (let i = this.rankOf(first); i > 0; i -= i & -i) if (this.ends[i] >= last) return this.values[i];
    return -1;
  }
}
