/**
 * A cache of a fixed size that evicts the least recently used entry. Keys are pairs of integers. An access
 * takes one hash look-up and two list operations. An entry is a row of a typed array, in one cache line.
 */

const NONE = -1;

/** Words and doubles of a row. */
const ROW = 8;
const ROW_DOUBLES = 4;
// Words of a row: the key, the next entry of its hash chain, and the next more and less recently used entries.
const FIRST = 0;
const SECOND = 1;
const CHAIN = 2;
const NEWER = 3;
const OLDER = 4;
/** The double of a row. */
const STAMP = 3;

export class LruCache {
  readonly entries: number;
  /** Entries in the cache. */
  count = 0;
  /** Index of the entry that touch() accessed last, stable until the entry is evicted. */
  index = NONE;
  /** Indexes allocated so far; grows up to `entries`. */
  private allocated = 0;
  private rows = new Int32Array(0);
  private stamps = new Float64Array(0);
  /** By hash: the first index of a chain. */
  private heads = new Int32Array(0);
  private newest = NONE;
  private oldest = NONE;

  constructor(entries: number) {
    this.entries = entries;
  }

  /**
   * Accesses an entry and returns whether it was cached. If not, adds it, evicting the least recently used
   * one when full.
   */
  touch(first: number, second: number): boolean {
    const found = this.find(first, second);
    if (found !== NONE) {
      this.index = found;
      if (found !== this.newest) {
        this.unlink(found);
        this.link(found);
      }
      return true;
    }
    const slot = this.claim();
    const { rows } = this;
    rows[slot * ROW + FIRST] = first;
    rows[slot * ROW + SECOND] = second;
    const bucket = this.bucketOf(first, second);
    rows[slot * ROW + CHAIN] = this.heads[bucket];
    this.heads[bucket] = slot;
    this.link(slot);
    this.index = slot;
    return false;
  }

  /** Keeps `from[0]` with the entry that touch() accessed last. */
  stamp(from: Float64Array): void {
    this.stamps[this.index * ROW_DOUBLES + STAMP] = from[0];
  }

  /** Reads into `to[0]` what stamp() kept with the entry that touch() accessed last. */
  readStamp(to: Float64Array): void {
    to[0] = this.stamps[this.index * ROW_DOUBLES + STAMP];
  }

  /** Marks an entry as used now, if it is still cached. */
  refresh(first: number, second: number): void {
    const found = this.find(first, second);
    if (found === NONE || found === this.newest) return;
    this.unlink(found);
    this.link(found);
  }

  /** Removes all entries. */
  clear(): void {
    this.count = 0;
    this.heads.fill(NONE);
    this.newest = NONE;
    this.oldest = NONE;
  }

  private find(first: number, second: number): number {
    if (this.allocated === 0) return NONE;
    const { rows } = this;
    let slot = this.heads[this.bucketOf(first, second)];
    while (slot !== NONE && (rows[slot * ROW + FIRST] !== first || rows[slot * ROW + SECOND] !== second)) {
      slot = rows[slot * ROW + CHAIN];
    }
    return slot;
  }

  private bucketOf(first: number, second: number): number {
    let h = Math.imul(first, 0x9e3779b1) ^ Math.imul(second, 0x85ebca6b);
    h ^= h >>> 15;
    return Math.imul(h, 0x2c1b3c6d) >>> (Math.clz32(this.heads.length) + 1);
  }

  /** The index for a new entry: a fresh one, or that of the evicted entry. */
  private claim(): number {
    if (this.count < this.entries) {
      if (this.count === this.allocated) this.grow();
      this.count = (this.count + 1) | 0;
      return this.count - 1;
    }
    const slot = this.oldest;
    this.unlink(slot);
    const { rows } = this;
    const bucket = this.bucketOf(rows[slot * ROW + FIRST], rows[slot * ROW + SECOND]);
    if (this.heads[bucket] === slot) {
      this.heads[bucket] = rows[slot * ROW + CHAIN];
      return slot;
    }
    let before = this.heads[bucket];
    while (rows[before * ROW + CHAIN] !== slot) before = rows[before * ROW + CHAIN];
    rows[before * ROW + CHAIN] = rows[slot * ROW + CHAIN];
    return slot;
  }

  private link(slot: number): void {
    const { rows } = this;
    rows[slot * ROW + OLDER] = this.newest;
    rows[slot * ROW + NEWER] = NONE;
    if (this.newest === NONE) this.oldest = slot;
    else rows[this.newest * ROW + NEWER] = slot;
    this.newest = slot;
  }

  private unlink(slot: number): void {
    const { rows } = this;
    const newer = rows[slot * ROW + NEWER];
    const older = rows[slot * ROW + OLDER];
    if (newer === NONE) this.newest = older;
    else rows[newer * ROW + OLDER] = older;
    if (older === NONE) this.oldest = newer;
    else rows[older * ROW + NEWER] = newer;
  }

  private grow(): void {
    const slots = Math.min(Math.max(16, this.allocated * 2), this.entries);
    const rows = new Int32Array(slots * ROW);
    rows.set(this.rows);
    this.rows = rows;
    this.stamps = new Float64Array(rows.buffer);
    this.allocated = slots;
    let buckets = 2;
    while (buckets < slots * 2) buckets *= 2;
    this.heads = new Int32Array(buckets).fill(NONE);
    for (let slot = 0; slot < this.count; slot++) {
      const bucket = this.bucketOf(rows[slot * ROW + FIRST], rows[slot * ROW + SECOND]);
      rows[slot * ROW + CHAIN] = this.heads[bucket];
      this.heads[bucket] = slot;
    }
  }
}
