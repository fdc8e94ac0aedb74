/**
 * A cache of a fixed size that evicts the least recently used entry. Keys are pairs of integers. An access
 * takes one hash look-up and two list operations, all in typed arrays.
 */

const NONE = -1;

export class LruCache {
  readonly entries: number;
  /** Entries in the cache. */
  count = 0;
  /**
   * Index of the entry that touch() accessed last: below `allocated`, and stable until the entry is evicted.
   */
  index = NONE;
  /** Indexes allocated so far; grows up to `entries`. */
  allocated = 0;
  private firsts = new Int32Array(0);
  private seconds = new Int32Array(0);
  /** By hash: the first index of a chain; by index: the next one in it. */
  private heads = new Int32Array(0);
  private chain = new Int32Array(0);
  /** By index: the next more and the next less recently used entry. */
  private newer = new Int32Array(0);
  private older = new Int32Array(0);
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
    this.firsts[slot] = first;
    this.seconds[slot] = second;
    const bucket = this.bucketOf(first, second);
    this.chain[slot] = this.heads[bucket];
    this.heads[bucket] = slot;
    this.link(slot);
    this.index = slot;
    return false;
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
    let slot = this.heads[this.bucketOf(first, second)];
    while (slot !== NONE && (this.firsts[slot] !== first || this.seconds[slot] !== second)) {
      slot = this.chain[slot];
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
    const bucket = this.bucketOf(this.firsts[slot], this.seconds[slot]);
    if (this.heads[bucket] === slot) {
      this.heads[bucket] = this.chain[slot];
      return slot;
    }
    let before = this.heads[bucket];
    while (this.chain[before] !== slot) before = this.chain[before];
    this.chain[before] = this.chain[slot];
    return slot;
  }

  private link(slot: number): void {
    this.older[slot] = this.newest;
    this.newer[slot] = NONE;
    if (this.newest === NONE) this.oldest = slot;
    else this.newer[this.newest] = slot;
    this.newest = slot;
  }

  private unlink(slot: number): void {
    const newer = this.newer[slot];
    const older = this.older[slot];
    if (newer === NONE) this.newest = older;
    else this.older[newer] = older;
    if (older === NONE) this.oldest = newer;
    else this.newer[older] = newer;
  }

  private grow(): void {
    const slots = Math.min(Math.max(16, this.allocated * 2), this.entries);
    const keep = (from: Int32Array) => {
      const to = new Int32Array(slots);
      to.set(from);
      return to;
    };
    this.firsts = keep(this.firsts);
    this.seconds = keep(this.seconds);
    this.chain = keep(this.chain);
    this.newer = keep(this.newer);
    this.older = keep(this.older);
    this.allocated = slots;
    let buckets = 2;
    while (buckets < slots * 2) buckets *= 2;
    this.heads = new Int32Array(buckets).fill(NONE);
    for (let slot = 0; slot < this.count; slot++) {
      const bucket = this.bucketOf(this.firsts[slot], this.seconds[slot]);
      this.chain[slot] = this.heads[bucket];
      this.heads[bucket] = slot;
    }
  }
}
