/**
 * The working set of each tenant in a cache of a NIC: the entries (contexts, regions or pages) that its requests have touched
 * of late. Entries that are idle for a while are forgotten. State is in typed columns, and an access allocates nothing
 * unless the table grows: a look-up in a hash table and a move to the end of a list.
 */
import { fitColumn } from '../../../shim/tables.ts';
import { NONE, RunQueue } from '../run-queue.ts';

/** Options of a working set. */
export interface WorkingSetOptions {
  /** Entries that are not touched for this long are forgotten. */
  readonly idleNs: number;
  /** Most entries that are remembered; beyond it, the one that is idle for longest is forgotten. Default 65,536. */
  readonly capacity?: number;
}

/** Words of an entry: its key, its tenant, and the next entry of its hash plus one. */
const BITS = 2;
const SECOND = 1;
const TENANT = 2;
const CHAIN = 3;

const CAPACITY = 1 << 16;
const FIRST_ENTRIES = 64;

/** The entries that tenants touch. */
export class WorkingSet {
  private readonly idleNs: number;
  private readonly capacity: number;
  private entries: Int32Array = new Int32Array(FIRST_ENTRIES << BITS);
  /** By entry: when it was touched last. */
  private touched: Float64Array = new Float64Array(FIRST_ENTRIES);
  /** By hash: the first entry, plus one. Twice as many as there are entries, a power of two. */
  private heads = new Int32Array(2 * FIRST_ENTRIES);
  /** Entries in use, least recently touched first. */
  private readonly byAge = new RunQueue();
  /** Entries that are free again: a list through CHAIN, by entry plus one. */
  private free = 0;
  /** Entries ever used, and entries in use. */
  private used = 0;
  private count = 0;
  private sizes: Int32Array = new Int32Array(16);

  constructor({ idleNs, capacity = CAPACITY }: WorkingSetOptions) {
    this.idleNs = idleNs;
    this.capacity = Math.max(1, capacity);
  }

  /** Entries of all tenants. */
  get size(): number {
    return this.count;
  }

  /** Entries of a tenant, as of the last call of touch() or expire(). */
  sizeOf(tenant: number): number {
    return tenant < this.sizes.length ? this.sizes[tenant] : 0;
  }

  /**
   * Whether the entries of all tenants do not fit into a cache. A NIC that evicts the least recently used entry then misses
   * nearly always if requests touch the entries in turn.
   * @param cached entries of the cache; null: unlimited
   */
  exceeds(cached: number | null): boolean {
    return cached !== null && this.count > cached;
  }

  /**
   * A request of a tenant touches an entry, which belongs to the tenant that touched it last.
   * @param first with `second` its key: the number of a queue pair or region, and of a page in it
   * @param nowNs never less than in an earlier call
   * @returns whether the entry was not in the working set
   */
  touch(tenant: number, first: number, second: number, nowNs: number): boolean {
    this.expire(nowNs);
    let entry = this.find(first, second);
    const isNew = entry === NONE;
    if (isNew) {
      entry = this.add(first, second);
      this.own(entry, tenant, 1);
    } else {
      this.byAge.moveToEnd(entry);
      const owner = this.entries[(entry << BITS) + TENANT];
      if (owner !== tenant) {
        this.own(entry, owner, -1);
        this.own(entry, tenant, 1);
      }
    }
    this.touched[entry] = nowNs;
    return isNew;
  }

  /** Forgets entries that are idle for too long. */
  expire(nowNs: number): void {
    const leastNs = nowNs - this.idleNs;
    for (let entry = this.byAge.first(); entry !== NONE; entry = this.byAge.first()) {
      if (this.touched[entry] >= leastNs) return;
      this.forget(entry);
    }
  }

  private own(entry: number, tenant: number, sign: number): void {
    this.sizes = fitColumn(this.sizes, tenant);
    this.sizes[tenant] += sign;
    this.entries[(entry << BITS) + TENANT] = tenant;
  }

  private find(first: number, second: number): number {
    const { entries } = this;
    let at = this.heads[this.hashOf(first, second)];
    while (at !== 0) {
      const word = (at - 1) << BITS;
      if (entries[word] === first && entries[word + SECOND] === second) return at - 1;
      at = entries[word + CHAIN];
    }
    return NONE;
  }

  private hashOf(first: number, second: number): number {
    let h = Math.imul(first, 0x9e3779b1) ^ Math.imul(second, 0x85ebca6b);
    h ^= h >>> 15;
    return Math.imul(h, 0x2c1b3c6d) >>> (Math.clz32(this.heads.length) + 1);
  }

  private add(first: number, second: number): number {
    if (this.count === this.capacity) this.forget(this.byAge.first());
    const entry = this.claim();
    const word = entry << BITS;
    const hash = this.hashOf(first, second);
    this.entries[word] = first;
    this.entries[word + SECOND] = second;
    this.entries[word + CHAIN] = this.heads[hash];
    this.heads[hash] = entry + 1;
    this.byAge.push(entry);
    this.count++;
    return entry;
  }

  private claim(): number {
    if (this.free === 0) {
      if (this.used === this.touched.length) this.grow();
      return this.used++;
    }
    const entry = this.free - 1;
    this.free = this.entries[(entry << BITS) + CHAIN];
    return entry;
  }

  private forget(entry: number): void {
    const { entries, heads } = this;
    const word = entry << BITS;
    const hash = this.hashOf(entries[word], entries[word + SECOND]);
    if (heads[hash] === entry + 1) heads[hash] = entries[word + CHAIN];
    else {
      let before = (heads[hash] - 1) << BITS;
      while (entries[before + CHAIN] !== entry + 1) before = (entries[before + CHAIN] - 1) << BITS;
      entries[before + CHAIN] = entries[word + CHAIN];
    }
    this.byAge.remove(entry);
    this.own(entry, entries[word + TENANT], -1);
    this.count--;
    entries[word + CHAIN] = this.free;
    this.free = entry + 1;
  }

  /** Doubles the table while all of its entries are in use. */
  private grow(): void {
    const entries = 2 * this.touched.length;
    this.touched = fitColumn(this.touched, entries - 1);
    this.entries = fitColumn(this.entries, (entries << BITS) - 1);
    this.heads = new Int32Array(2 * entries);
    for (let entry = 0; entry < this.used; entry++) {
      const word = entry << BITS;
      const hash = this.hashOf(this.entries[word], this.entries[word + SECOND]);
      this.entries[word + CHAIN] = this.heads[hash];
      this.heads[hash] = entry + 1;
    }
  }
}
