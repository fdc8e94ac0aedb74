/**
 * How late the completions of queue pairs are polled, in one direction of a device: by context, because one thread usually
 * polls all queue pairs of a context. What a thread that polls late has in flight must cover that time. Other threads must
 * not have more in flight, because it would only queue at the device.
 */
import type { ContextView, QpView } from '../../shim/policy.ts';
import { LatePolls } from './late-polls.ts';
import type { WindowOptions } from './window-options.ts';
import type { WindowSizes } from './window-sizes.ts';

interface Entry {
  readonly polls: LatePolls;
  /** Its queue pairs. */
  qps: number;
}

/** For queue pairs that do not exist. */
const PROMPT = new LatePolls();

/** The late polls of the contexts of one direction. */
export class Lateness {
  private readonly contexts = new Map<ContextView, Entry>();
  /** By queue pair. */
  private readonly polls: (LatePolls | undefined)[] = [];
  private readonly sizes: WindowSizes;
  /** Bytes that may be in flight besides a window for each ns of lateness; 0: the window is fixed. */
  private coveredPerNs = 0;
  private lengthensPieces = false;
  /** The longest time that a context must cover in addition to a round trip. */
  coveredNs = 0;

  constructor(sizes: WindowSizes) {
    this.sizes = sizes;
  }

  /** A queue pair was created. */
  add({ index, context }: QpView): void {
    const entry = this.contexts.get(context) ?? { polls: new LatePolls(), qps: 0 };
    this.contexts.set(context, entry);
    entry.qps++;
    this.polls[index] = entry.polls;
    entry.polls.reset(index);
  }

  /** A queue pair was destroyed. */
  remove({ index, context }: QpView): void {
    const entry = this.contexts.get(context);
    if (entry === undefined || this.polls[index] === undefined) return;
    this.polls[index] = undefined;
    if (--entry.qps === 0) this.contexts.delete(context);
  }

  /** The polls of a queue pair. */
  of(qp: number): LatePolls {
    return this.polls[qp] ?? PROMPT;
  }

  /** The polls of a context, or the window, have changed. */
  fit({ linkPerNs, lengthensPieces, windowBytes }: WindowOptions): void {
    this.coveredPerNs = windowBytes === undefined ? linkPerNs : 0;
    this.lengthensPieces = lengthensPieces;
    this.coveredNs = 0;
    for (const { polls } of this.contexts.values())
      this.coveredNs = Math.max(this.coveredNs, polls.coveredNs);
  }

  /** Whether the completions of a queue pair are polled late. */
  isLate(qp: number): boolean {
    return this.coveredNs !== 0 && this.of(qp).ns > 0;
  }

  /** The part of what a queue pair has in flight that has not completed. The rest waits for a late poll. */
  partOf(qp: number): number {
    if (!this.isLate(qp)) return 1;
    const coveredBytes = this.of(qp).coveredNs * this.coveredPerNs;
    if (coveredBytes === 0) return 1;
    return this.sizes.windowBytes / (this.sizes.windowBytes + coveredBytes);
  }

  /** The length of pieces of a queue pair: longer while its polls are late, because few of them must fill the link. */
  pieceBytesOf(qp: number, usualBytes: number): number {
    if (!this.lengthensPieces || !this.isLate(qp)) return usualBytes;
    return Math.max(usualBytes, this.sizes.latePieceBytes(this.of(qp).coveredNs * this.coveredPerNs));
  }
}
