/**
 * Classifies queue pairs by what they send: large messages (bandwidth), many small ones at a time (throughput), or few
 * small ones at a time (latency). What follows from the class is up to the policy. The rules are those of PeRF (USENIX
 * ATC 2024, section 3.3): the mean message size and the longest queue within a window, which slides by one part at a
 * time.
 *
 * TrafficWindows observes queue pairs and returns a verdict, Hysteresis delays changes, and Classifier combines both
 * for each queue pair. A policy that classifies contexts or tenants uses the highest class of their queue pairs.
 *
 * The windows read the shim's counts, so the policy must set `statistics`. Nothing is allocated per request or sample.
 */
import { BYTES, SEEN } from '../../shim/counters.ts';
import type { QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { ISO_TRAFFIC_BANDWIDTH, ISO_TRAFFIC_LATENCY, ISO_TRAFFIC_THROUGHPUT } from '../../verbs/constants.ts';
import { ConfigError } from '../../verbs/errors.ts';

/** The class of a queue pair that sends nothing. The other classes are ISO_TRAFFIC_*, in ascending order. */
export const IDLE = 0;
/** Minimum mean message size of the class bandwidth, in bytes. */
export const LARGE_BYTES = 1024;
/** Outstanding requests above which small messages are of the class throughput. */
const LONG_QUEUE = 5;

/** Parts of a window. Columns have one more entry, for the last sample. */
const PARTS = 8;
const STRIDE = PARTS + 1;

/** Kinds of queue pairs, by mean message size. */
export const UNKNOWN = 0;
export const SMALL = 1;
export const LARGE = 2;

/** How queue pairs are classified. */
export interface ClassifierOptions {
  /** Length of the window of past traffic that determines the class, in nanoseconds; at least 8. */
  readonly windowNs: number;
  /** Minimum mean message size of the class bandwidth, in bytes; default 1024. */
  readonly largeBytes?: number;
  /** Outstanding requests above which small messages are of the class throughput; default 5. */
  readonly longQueue?: number;
}

/** A queue pair, of which only the index is needed. */
export type Indexed = Pick<QpView, 'index'>;

/** What queue pairs sent within a window, and the class that it indicates at each sample. */
export class TrafficWindows {
  private partNs = 0;
  private largeBytes = LARGE_BYTES;
  private longQueue = LONG_QUEUE;
  // By queue pair.
  private kinds: Uint8Array = new Uint8Array(64);
  /** The part of the last sample; -1: the window begins with the next one. */
  private parts: Float64Array = new Float64Array(64);
  // By queue pair and part: bytes and messages at the part's start, and the longest queue during it.
  private bytesAt: Float64Array = new Float64Array(64 * STRIDE);
  private messagesAt: Float64Array = new Float64Array(64 * STRIDE);
  private longestQueueAt: Float64Array = new Float64Array(64 * STRIDE);

  /** @throws ConfigError if the window is too short */
  constructor(options: ClassifierOptions) {
    this.configure(options);
  }

  /**
   * Applies new options. All windows restart at their last samples, because their length may have changed.
   * @throws ConfigError if the window is too short; nothing has changed then
   */
  configure({ windowNs, largeBytes = LARGE_BYTES, longQueue = LONG_QUEUE }: ClassifierOptions): void {
    if (!(windowNs >= PARTS))
      throw new ConfigError(
        `windowNs must be at least ${PARTS}, got ${windowNs}: it is the length of a classifier's window in nanoseconds`,
      );
    this.partNs = windowNs / PARTS;
    this.largeBytes = largeBytes;
    this.longQueue = longQueue;
    this.parts.fill(-1);
  }

  /** A queue pair was created, possibly with the index of one that was destroyed. */
  join({ index }: Indexed): void {
    const from = index * STRIDE;
    const last = from + PARTS;
    this.kinds = fitColumn(this.kinds, index);
    this.parts = fitColumn(this.parts, index);
    this.bytesAt = fitColumn(this.bytesAt, last);
    this.messagesAt = fitColumn(this.messagesAt, last);
    this.longestQueueAt = fitColumn(this.longestQueueAt, last);
    for (const column of [this.bytesAt, this.messagesAt, this.longestQueueAt]) column.fill(0, from, last + 1);
    this.kinds[index] = UNKNOWN;
    this.parts[index] = -1;
  }

  /** The class that the first `count` requests indicate, the largest of which has `bytes`. */
  first({ index }: Indexed, bytes: number, count: number): number {
    this.kinds[index] = bytes >= this.largeBytes ? LARGE : SMALL;
    return this.classFor(bytes, count);
  }

  /** The number of the window part that contains this time, counted from time 0. */
  partAt(nowNs: number): number {
    return Math.floor(nowNs / this.partNs);
  }

  /**
   * Samples a queue pair. Returns the class that the window indicates; IDLE if nothing was sent within it and nothing is
   * outstanding.
   * @param part the number of the current part (`partAt`)
   * @param outstanding requests that the application has posted and not yet polled
   */
  sample(qp: QpView, part: number, outstanding: number): number {
    const { index, counts } = qp;
    this.advance(index, part);
    const from = index * STRIDE;
    const current = from + (part % PARTS);
    this.longestQueueAt[current] = Math.max(this.longestQueueAt[current], outstanding);
    this.bytesAt[from + PARTS] = counts[BYTES];
    this.messagesAt[from + PARTS] = counts[SEEN];
    const hasSent = this.messagesOf(index) !== 0;
    if (!hasSent && (outstanding === 0 || qp.broken)) return IDLE;
    const mean = this.meanOf(qp);
    if (hasSent) this.kinds[index] = mean >= this.largeBytes ? LARGE : SMALL;
    return this.classFor(mean, this.longestQueueOf(qp));
  }

  /** UNKNOWN before the first requests, then SMALL or LARGE. */
  kindOf({ index }: Indexed): number {
    return this.kinds[index];
  }

  /**
   * Mean message size within the window, as of the last sample, in bytes. For a queue pair that sent nothing within the
   * window, it is the smallest size of its kind.
   */
  meanOf({ index }: Indexed): number {
    const messages = this.messagesOf(index);
    if (messages === 0) return this.kinds[index] === LARGE ? this.largeBytes : 0;
    return (this.bytesAt[index * STRIDE + PARTS] - this.bytesAt[this.oldestOf(index)]) / messages;
  }

  /** The most outstanding requests at any sample within the window. */
  longestQueueOf({ index }: Indexed): number {
    let longest = 0;
    for (let p = 0; p < PARTS; p++) longest = Math.max(longest, this.longestQueueAt[index * STRIDE + p]);
    return longest;
  }

  /** Bytes since the last sample. */
  newBytesOf({ index, counts }: QpView): number {
    return counts[BYTES] - this.bytesAt[index * STRIDE + PARTS];
  }

  /** Messages since the last sample. */
  newMessagesOf({ index, counts }: QpView): number {
    return counts[SEEN] - this.messagesAt[index * STRIDE + PARTS];
  }

  /** Begins the parts that are due. What was sent since the last sample counts as sent in them. */
  private advance(index: number, part: number): void {
    const last = index * STRIDE + PARTS;
    for (let p = Math.max(this.parts[index] + 1, part - PARTS + 1); p <= part; p++) {
      const at = index * STRIDE + (p % PARTS);
      this.bytesAt[at] = this.bytesAt[last];
      this.messagesAt[at] = this.messagesAt[last];
      this.longestQueueAt[at] = 0;
    }
    this.parts[index] = part;
  }

  private oldestOf(index: number): number {
    return index * STRIDE + ((this.parts[index] + 1) % PARTS);
  }

  /** Messages within the window, as of the last sample. */
  private messagesOf(index: number): number {
    return this.messagesAt[index * STRIDE + PARTS] - this.messagesAt[this.oldestOf(index)];
  }

  private classFor(bytes: number, queue: number): number {
    if (bytes >= this.largeBytes) return ISO_TRAFFIC_BANDWIDTH;
    return queue > this.longQueue ? ISO_TRAFFIC_THROUGHPUT : ISO_TRAFFIC_LATENCY;
  }
}

/** Delays the changes of a class until a verdict has lasted longer than a part. */
export class Hysteresis {
  /** A verdict that differs from the class, and the part in which it first differed; IDLE: none. */
  private candidate = IDLE;
  private candidatePart = 0;

  /** Forgets how long the verdict has differed. */
  reset(): void {
    this.candidate = IDLE;
  }

  /**
   * Returns the class from now on. A change to or from IDLE takes effect at once.
   * @param known the class so far
   * @param part the number of the part now (`TrafficWindows.partAt`)
   * @param isProvisional whether every change takes effect at once
   */
  settle(known: number, verdict: number, part: number, isProvisional: boolean): number {
    if (verdict === known || verdict === IDLE || known === IDLE || isProvisional) {
      this.candidate = IDLE;
      return verdict;
    }
    if (this.candidate !== verdict) {
      this.candidate = verdict;
      this.candidatePart = part;
    } else if (part > this.candidatePart + 1) {
      this.candidate = IDLE;
      return verdict;
    }
    return known;
  }
}

/** The class of each queue pair. The policy calls `join` and `leave` (from `onQp`), `first` and `sample`. */
export class Classifier {
  /** What the classes are based on. */
  readonly windows: TrafficWindows;
  // By queue pair.
  private classes: Uint8Array = new Uint8Array(64);
  /** 1 if the first requests have determined the class, which the next sample may change at once. */
  private provisional: Uint8Array = new Uint8Array(64);
  private readonly changes: Hysteresis[] = [];

  /** @throws ConfigError if the window is too short */
  constructor(options: ClassifierOptions) {
    this.windows = new TrafficWindows(options);
  }

  /**
   * Applies new options from the next samples on.
   * @throws ConfigError if the window is too short; nothing has changed then
   */
  configure(options: ClassifierOptions): void {
    this.windows.configure(options);
    for (const one of this.changes) one?.reset();
  }

  /** A queue pair was created. */
  join(qp: Indexed): void {
    const { index } = qp;
    this.windows.join(qp);
    this.classes = fitColumn(this.classes, index);
    this.provisional = fitColumn(this.provisional, index);
    this.changes[index] ??= new Hysteresis();
    this.changes[index].reset();
    this.classes[index] = IDLE;
    this.provisional[index] = 0;
  }

  /** A queue pair was destroyed. */
  leave({ index }: Indexed): void {
    this.classes[index] = IDLE;
  }

  /**
   * Requests are posted. The first requests of an idle queue pair determine its class until the next sample. Returns
   * the class.
   * @param bytes size of the largest request
   * @param count number of requests
   */
  first(qp: Indexed, bytes: number, count: number): number {
    const { index } = qp;
    if (this.classes[index] !== IDLE) return this.classes[index];
    this.classes[index] = this.windows.first(qp, bytes, count);
    this.provisional[index] = 1;
    return this.classes[index];
  }

  /**
   * Samples a queue pair. Returns its class; IDLE if nothing was sent within the window and nothing is outstanding.
   * Until it returns IDLE, call it at least once per part of the window (an eighth).
   * @param outstanding requests that the application has posted and not yet polled
   */
  sample(qp: QpView, nowNs: number, outstanding: number): number {
    const { index } = qp;
    const part = this.windows.partAt(nowNs);
    const verdict = this.windows.sample(qp, part, outstanding);
    const isProvisional = this.provisional[index] === 1;
    this.provisional[index] = 0;
    this.classes[index] = this.changes[index].settle(this.classes[index], verdict, part, isProvisional);
    return this.classes[index];
  }

  /** The class as of the last sample, or of the first requests after an idle time. */
  classOf({ index }: Indexed): number {
    return this.classes[index] ?? IDLE;
  }
}
