/**
 * A percentile of the last samples of a latency. It is exact and takes O(1) per sample, and nothing is allocated once
 * the window has seen its range of values. Justitia's paper estimates its p99 in such a window (section 4.3.2); here, a
 * histogram of 1-ns buckets holds the window's values in order. A pointer stays at the bucket of the percentile. One
 * sample moves it at most to the next occupied bucket, which bitmaps find.
 */
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { ABSENT, addTo, atOrAfter, atOrBefore, deleteFrom, SET_SIZE, SET_WORDS } from './bitmap.ts';

/** Buckets per page. */
const PAGE = SET_SIZE;
const PAGE_BITS = 12;
const SLOT_MASK = PAGE - 1;
/** A page has a count for each bucket, and the set of buckets whose count is not 0. */
const PAGE_WORDS = PAGE + SET_WORDS;
const FIRST_PAGES = 4;

/** The largest value, in nanoseconds (16.8 ms). Larger values and lost samples count as this value. */
export const TAIL_LIMIT_NS = PAGE * SET_SIZE - 1;

const MAX_WINDOW = 2 ** 24;

/** The percentile and the window of an estimator. */
export interface TailEstimatorOptions {
  /** Samples in the window: 1 to 2^24. Each takes 4 bytes. */
  readonly windowSamples: number;
  /** Above 0, at most 100; default 99. */
  readonly percentile?: number;
}

/** The percentile of the last samples, by nearest rank. */
export class TailEstimator {
  private readonly percentile: number;
  /** The samples in the window. Once the window is full, the oldest sample is at `next`. */
  private readonly ring: Int32Array;
  private next = 0;
  private samples = 0;
  /** Offset of each page in `store`; ABSENT if the page has no samples. */
  private readonly pageAt = new Int32Array(SET_SIZE).fill(ABSENT);
  private readonly usedPages = new Int32Array(SET_WORDS);
  /** All pages in one array: with an array for each page, a sample would take twice the time. */
  private store = new Int32Array(FIRST_PAGES * PAGE_WORDS);
  private storedPages = 0;
  /** Offsets of empty pages. */
  private readonly freePages: number[] = [];
  /** Rank of the percentile among the samples, from 1. */
  private rank = 0;
  /** Bucket of the percentile, and the number of samples below it. */
  private at = 0;
  private below = 0;

  /** @throws InvalidArgumentError for a window or a percentile out of range */
  constructor({ windowSamples, percentile = 99 }: TailEstimatorOptions) {
    if (!Number.isInteger(windowSamples) || windowSamples < 1 || windowSamples > MAX_WINDOW) {
      throw new InvalidArgumentError(
        `windowSamples must be an integer from 1 to ${MAX_WINDOW}, got ${shown(windowSamples)}`,
      );
    }
    if (!(percentile > 0 && percentile <= 100)) {
      throw new InvalidArgumentError(`percentile must be above 0 and at most 100, got ${shown(percentile)}`);
    }
    this.percentile = percentile;
    this.ring = new Int32Array(windowSamples);
  }

  /** Samples in the window. */
  get count(): number {
    return this.samples;
  }

  /**
   * Adds a sample, rounded to 1 ns. A full window first forgets its oldest sample. NaN and Infinity stand for a lost
   * sample. Lost samples and values above TAIL_LIMIT_NS count as TAIL_LIMIT_NS; negative values count as 0.
   */
  add(ns: number): void {
    const { ring, next } = this;
    const bucket = ns < TAIL_LIMIT_NS ? (ns > 0 ? (ns + 0.5) | 0 : 0) : TAIL_LIMIT_NS;
    if (this.samples === ring.length) this.remove(ring[next]);
    else this.grow();
    ring[next] = bucket;
    this.next = next + 1 === ring.length ? 0 : next + 1;
    this.insert(bucket);
    // Most samples do not move the pointer.
    if (this.below >= this.rank || this.below + this.countAt(this.at) < this.rank) this.settle();
  }

  /** Forgets all samples. */
  clear(): void {
    // Either the window is full, or its samples begin at index 0.
    for (let i = 0; i < this.samples; i++) this.remove(this.ring[i]);
    this.next = 0;
    this.samples = 0;
    this.at = 0;
    this.below = 0;
  }

  /** The percentile of the samples in the window, in nanoseconds; NaN without samples. */
  valueNs(): number {
    return this.samples === 0 ? Number.NaN : this.at;
  }

  /** The part of `add` for a window that is not full yet. Separate, so that V8 still inlines the rest of `add`. */
  private grow(): void {
    this.samples++;
    // A rounding error, as in 99.9 * 1000, must not lead to the next higher rank.
    this.rank = Math.max(1, Math.ceil((this.percentile * this.samples) / 100 - 1e-6));
  }

  private insert(bucket: number): void {
    const slot = bucket & SLOT_MASK;
    let page = this.pageAt[bucket >>> PAGE_BITS];
    if (page === ABSENT) page = this.addPage(bucket >>> PAGE_BITS);
    const { store } = this;
    if (store[page + slot]++ === 0) addTo(store, page + PAGE, slot);
    if (bucket < this.at) this.below++;
  }

  private remove(bucket: number): void {
    const { store } = this;
    const slot = bucket & SLOT_MASK;
    const page = this.pageAt[bucket >>> PAGE_BITS];
    if (bucket < this.at) this.below--;
    if (--store[page + slot] !== 0) return;
    if (deleteFrom(store, page + PAGE, slot)) this.freePage(bucket >>> PAGE_BITS);
  }

  private addPage(index: number): number {
    const page = this.freePages.pop() ?? this.storedPages++ * PAGE_WORDS;
    this.pageAt[index] = page;
    addTo(this.usedPages, 0, index);
    if (page === this.store.length) {
      const smaller = this.store;
      this.store = new Int32Array(2 * smaller.length);
      this.store.set(smaller);
    }
    return page;
  }

  private freePage(index: number): void {
    this.freePages.push(this.pageAt[index]);
    this.pageAt[index] = ABSENT;
    deleteFrom(this.usedPages, 0, index);
  }

  /** Moves the pointer to the bucket of the rank. */
  private settle(): void {
    while (this.below >= this.rank) {
      this.at = this.previous(this.at);
      this.below -= this.countAt(this.at);
    }
    for (let count = this.countAt(this.at); this.below + count < this.rank; count = this.countAt(this.at)) {
      this.below += count;
      this.at = this.following(this.at);
    }
  }

  private countAt(bucket: number): number {
    const page = this.pageAt[bucket >>> PAGE_BITS];
    return page === ABSENT ? 0 : this.store[page + (bucket & SLOT_MASK)];
  }

  /** The nearest bucket above `bucket` that has samples. There must be one. */
  private following(bucket: number): number {
    const { pageAt, store, usedPages } = this;
    let index = bucket >>> PAGE_BITS;
    let slot = ABSENT;
    if (pageAt[index] !== ABSENT) slot = atOrAfter(store, pageAt[index] + PAGE, (bucket & SLOT_MASK) + 1);
    if (slot === ABSENT) {
      index = atOrAfter(usedPages, 0, index + 1);
      slot = atOrAfter(store, pageAt[index] + PAGE, 0);
    }
    return (index << PAGE_BITS) | slot;
  }

  /** The nearest bucket below `bucket` that has samples. There must be one. */
  private previous(bucket: number): number {
    const { pageAt, store, usedPages } = this;
    let index = bucket >>> PAGE_BITS;
    let slot = ABSENT;
    if (pageAt[index] !== ABSENT) slot = atOrBefore(store, pageAt[index] + PAGE, (bucket & SLOT_MASK) - 1);
    if (slot === ABSENT) {
      index = atOrBefore(usedPages, 0, index - 1);
      slot = atOrBefore(store, pageAt[index] + PAGE, PAGE - 1);
    }
    return (index << PAGE_BITS) | slot;
  }
}
