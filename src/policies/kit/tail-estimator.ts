/**
 * A percentile of the last samples of a latency: exact, O(1) per sample, and nothing allocated once the window has seen
 * its range of values. Justitia's paper estimates its p99 in the same window (section 4.2); a histogram of 1-ns buckets
 * replaces its sorted list. A pointer stays at the bucket of the percentile: one sample moves it to a neighbour at most,
 * which bitmaps of occupied buckets find.
 */
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { ABSENT, OCCUPANCY_SIZE, Occupancy } from './occupancy.ts';

/** Buckets of a page. */
const PAGE = OCCUPANCY_SIZE;
const PAGE_BITS = 12;
const SLOT_MASK = PAGE - 1;

/** The largest value in nanoseconds (16.8 ms). Larger values and lost samples count as this one. */
export const TAIL_LIMIT_NS = PAGE * OCCUPANCY_SIZE - 1;

/** Windows need 4 bytes a sample. */
const MAX_WINDOW = 2 ** 24;

/** What an estimator estimates. */
export interface TailEstimatorOptions {
  /** Samples of the window: 1 to 2^24. */
  readonly windowSamples: number;
  /** Above 0, at most 100; default 99. */
  readonly percentile?: number;
}

/** The counts of 4096 neighbouring values. */
class Page {
  readonly counts = new Int32Array(PAGE);
  readonly occupied = new Occupancy();
  samples = 0;
}

/** The percentile of the last samples, by nearest rank. */
export class TailEstimator {
  private readonly percentile: number;
  /** The samples of the window. The oldest one is at `next` once the window is full. */
  private readonly ring: Int32Array;
  private next = 0;
  private samples = 0;
  private readonly pages: (Page | null)[] = new Array(OCCUPANCY_SIZE).fill(null);
  private readonly occupiedPages = new Occupancy();
  /** Empty pages, for the next values. */
  private readonly free: Page[] = [];
  /** Rank of the percentile among the samples, from 1. */
  private rank = 0;
  /** Bucket of the percentile, and the number of samples below it. */
  private at = 0;
  private below = 0;

  /** @throws InvalidArgumentError for a window or a percentile out of range */
  constructor({ windowSamples, percentile = 99 }: TailEstimatorOptions) {
    if (!Number.isInteger(windowSamples) || windowSamples < 1 || windowSamples > MAX_WINDOW) {
      throw new InvalidArgumentError(
        `windowSamples: an integer from 1 to ${MAX_WINDOW} expected, got ${shown(windowSamples)}`,
      );
    }
    if (!(percentile > 0 && percentile <= 100)) {
      throw new InvalidArgumentError(
        `percentile: a number above 0, at most 100, expected, got ${shown(percentile)}`,
      );
    }
    this.percentile = percentile;
    this.ring = new Int32Array(windowSamples);
  }

  /** Samples in the window. */
  get count(): number {
    return this.samples;
  }

  /**
   * Adds a sample, rounded to 1 ns; the window forgets its oldest one if it is full. NaN and Infinity stand for a lost
   * sample, which counts as TAIL_LIMIT_NS. So do larger values. Negative values count as 0.
   */
  add(ns: number): void {
    const { ring } = this;
    const bucket = !(ns < TAIL_LIMIT_NS) ? TAIL_LIMIT_NS : ns > 0 ? (ns + 0.5) | 0 : 0;
    if (this.samples === ring.length) {
      this.remove(ring[this.next]);
    } else {
      this.samples++;
      this.rank = this.rankOf(this.samples);
    }
    ring[this.next] = bucket;
    if (++this.next === ring.length) this.next = 0;
    this.insert(bucket);
    if (this.samples === 1) {
      this.at = bucket;
      this.below = 0;
    } else {
      this.settle();
    }
  }

  /** Forgets all samples. */
  clear(): void {
    // The oldest sample is at 0 unless the window is full, and then the order does not matter.
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

  private rankOf(samples: number): number {
    // Less than the rounding error of a percentile such as 99.9 must not lead to the next rank.
    return Math.max(1, Math.ceil((this.percentile * samples) / 100 - 1e-6));
  }

  private insert(bucket: number): void {
    const index = bucket >>> PAGE_BITS;
    const slot = bucket & SLOT_MASK;
    const page = this.pages[index] ?? this.occupy(index);
    page.samples++;
    if (page.counts[slot]++ === 0) page.occupied.add(slot);
    if (bucket < this.at) this.below++;
  }

  private remove(bucket: number): void {
    const index = bucket >>> PAGE_BITS;
    const slot = bucket & SLOT_MASK;
    const page = this.pages[index] as Page;
    if (--page.counts[slot] === 0) page.occupied.delete(slot);
    if (bucket < this.at) this.below--;
    if (--page.samples > 0) return;
    this.pages[index] = null;
    this.occupiedPages.delete(index);
    this.free.push(page);
  }

  private occupy(index: number): Page {
    const page = this.free.pop() ?? new Page();
    this.pages[index] = page;
    this.occupiedPages.add(index);
    return page;
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
    const page = this.pages[bucket >>> PAGE_BITS];
    return page === null ? 0 : page.counts[bucket & SLOT_MASK];
  }

  /** The next occupied bucket above one. Called only if there is one. */
  private following(bucket: number): number {
    const index = bucket >>> PAGE_BITS;
    const slot = this.pages[index]?.occupied.atOrAfter((bucket & SLOT_MASK) + 1) ?? ABSENT;
    if (slot !== ABSENT) return (index << PAGE_BITS) | slot;
    const next = this.occupiedPages.atOrAfter(index + 1);
    return (next << PAGE_BITS) | (this.pages[next] as Page).occupied.atOrAfter(0);
  }

  /** The next occupied bucket below one. Called only if there is one. */
  private previous(bucket: number): number {
    const index = bucket >>> PAGE_BITS;
    const slot = this.pages[index]?.occupied.atOrBefore((bucket & SLOT_MASK) - 1) ?? ABSENT;
    if (slot !== ABSENT) return (index << PAGE_BITS) | slot;
    const previous = this.occupiedPages.atOrBefore(index - 1);
    return (previous << PAGE_BITS) | (this.pages[previous] as Page).occupied.atOrBefore(PAGE - 1);
  }
}
