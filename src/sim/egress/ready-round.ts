/**
 * The round of the senders that have a packet ready: whose turn it is, and who is next. A port has one, or one for
 * each class. Another order (Palos' weighted rounds, Tassel's finish times) is one more class with these methods;
 * one that lets nobody go before some time has passed keeps `head` null until then, and kicks its port by an event.
 */
import type { RrOrder } from '../profile/params.ts';
import type { Sender } from '../transport/qp.ts';

export interface ReadyRound {
  /** Whose turn it is; null: nobody is ready. */
  head: Sender | null;
  /** The sender has a packet; nothing changes if it is in the round already. */
  join(sender: Sender): void;
  /** Takes the head out of the round: it has had its turn. */
  leave(): void;
  /** The sender is no more. */
  remove(sender: Sender): void;
}

export function makeRound(order: RrOrder): ReadyRound {
  return order === 'fixed' ? new FixedRound() : new TailRound();
}

/** First come, first served: a sender that has a packet again stands behind all others. */
export class TailRound implements ReadyRound {
  head: Sender | null = null;
  private tail: Sender | null = null;

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    if (this.tail === null) this.head = sender;
    else this.tail.next = sender;
    this.tail = sender;
  }

  leave(): void {
    const sender = this.head as Sender;
    this.head = sender.next;
    if (this.head === null) this.tail = null;
    sender.next = null;
    sender.queued = false;
  }

  /** It leaves when its turn comes: it has no packet then. */
  remove(): void {}
}

const WORD_BITS = 32;
/** Places that one word of the summary stands for. */
const GROUP = WORD_BITS * WORD_BITS;

/**
 * Everybody has a place, in the order of their first packets, and keeps it; the next is the first ready one behind
 * the place that was served last. Ready places are bits, and words that have some are bits of a summary, so that
 * thousands that are idle are passed over in a few steps.
 */
export class FixedRound implements ReadyRound {
  head: Sender | null = null;
  /** By place; null where nobody is any more. */
  private readonly senders: (Sender | null)[] = [];
  /** Of senders whose place here is not the one that they have at hand: a UD queue pair may use several ports. */
  private readonly positions = new Map<Sender, number>();
  private readonly freePositions: number[] = [];
  private ready = new Int32Array(WORD_BITS);
  private summary = new Int32Array(1);
  /** The place that was served last. */
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

  leave(): void {
    const sender = this.head as Sender;
    this.clear(sender.position);
    this.served = sender.position;
    sender.queued = false;
    this.head = this.next();
  }

  remove(sender: Sender): void {
    const position = this.positions.get(sender);
    if (position === undefined) return;
    this.positions.delete(sender);
    this.senders[position] = null;
    this.freePositions.push(position);
    this.clear(position);
    if (this.head === sender) this.head = this.next();
  }

  /** Steps from the place behind the one that was served last. */
  private distance(position: number): number {
    const steps = position - this.served - 1;
    return steps < 0 ? steps + this.senders.length : steps;
  }

  private next(): Sender | null {
    let position = this.firstFrom(this.served + 1);
    if (position < 0) position = this.firstFrom(0);
    return position < 0 ? null : this.senders[position];
  }

  /** The first ready place from this one on; -1: none. */
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

  /** The place of a sender that comes for the first time, or that was at another port meanwhile. */
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
