/** Round robin by packets, in fixed positions. */
import type { Sender } from '../transport/qp.ts';
import type { QpScheduler } from './qp-scheduler.ts';

const WORD_BITS = 32;
/** Positions covered by one word of the summary. */
const GROUP = WORD_BITS * WORD_BITS;

/**
 * Each sender has a fixed position, in order of first packets. The next sender served is the first ready one
 * after the position served last. Ready positions are bits, and a summary has one bit per non-zero word, so
 * thousands of idle senders are skipped in a few steps.
 */
export class FixedRound implements QpScheduler {
  private head: Sender | null = null;
  /** By position; null where a sender was removed. */
  private readonly senders: (Sender | null)[] = [];
  /**
   * Positions of all senders. Sender.position caches the one at a single port, but a UD queue pair may use
   * several ports.
   */
  private readonly positions = new Map<Sender, number>();
  private readonly freePositions: number[] = [];
  private ready = new Int32Array(WORD_BITS);
  private summary = new Int32Array(1);
  /** The position served last. */
  private served = -1;

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    if (this.senders[sender.position] !== sender) sender.position = this.positionOf(sender);
    const { position } = sender;
    const word = position >>> 5;
    this.ready[word] |= 1 << (position & 31);
    this.summary[word >>> 5] |= 1 << (word & 31);
    if (this.head === null || this.distance(position) < this.distance(this.head.position)) this.head = sender;
  }

  next(): Sender | null {
    return this.head;
  }

  charge(): void {
    const sender = this.head as Sender;
    this.clear(sender.position);
    this.served = sender.position;
    sender.queued = false;
    this.head = this.firstReady();
  }

  ended(sender: Sender): void {
    const position = this.positions.get(sender);
    if (position === undefined) return;
    this.positions.delete(sender);
    this.senders[position] = null;
    this.freePositions.push(position);
    this.clear(position);
    if (this.head === sender) this.head = this.firstReady();
  }

  /** Distance from the position after the one served last. */
  private distance(position: number): number {
    const steps = position - this.served - 1;
    return steps < 0 ? steps + this.senders.length : steps;
  }

  private firstReady(): Sender | null {
    let position = this.firstFrom(this.served + 1);
    if (position < 0) position = this.firstFrom(0);
    return position < 0 ? null : this.senders[position];
  }

  /** The first ready position from `position` on; -1 when there is none. */
  private firstFrom(position: number): number {
    const { ready, summary } = this;
    const word = position >>> 5;
    if (word >= ready.length) return -1;
    const rest = ready[word] & (-1 << (position & 31));
    if (rest !== 0) return (word << 5) | lowestBit(rest);
    const after = word + 1;
    let group = after >>> 5;
    if (group >= summary.length) return -1;
    let words = summary[group] & (-1 << (after & 31));
    while (words === 0) {
      group++;
      if (group === summary.length) return -1;
      words = summary[group];
    }
    const found = (group << 5) | lowestBit(words);
    return (found << 5) | lowestBit(ready[found]);
  }

  private clear(position: number): void {
    const word = position >>> 5;
    this.ready[word] &= ~(1 << (position & 31));
    if (this.ready[word] === 0) this.summary[word >>> 5] &= ~(1 << (word & 31));
  }

  /** The position of a sender that is new here or used another port meanwhile. */
  private positionOf(sender: Sender): number {
    const known = this.positions.get(sender);
    if (known !== undefined) return known;
    const position = this.freePositions.pop() ?? this.senders.length;
    this.senders[position] = sender;
    this.positions.set(sender, position);
    if (position >= this.ready.length * WORD_BITS) this.grow();
    return position;
  }

  private grow(): void {
    const words = this.ready.length * 2;
    const ready = new Int32Array(words);
    ready.set(this.ready);
    const summary = new Int32Array(Math.ceil((words * WORD_BITS) / GROUP));
    summary.set(this.summary);
    this.ready = ready;
    this.summary = summary;
  }
}

function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits);
}
