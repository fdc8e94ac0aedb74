/**
 * Completions between the device and whoever takes them. Most are fetched and taken at once; some are
 * claimed (a queue pair that is drained, a request whose own completion somebody awaits), and then the
 * others, fetched on the way to those, are kept here in their order.
 */
import {
  type Provider,
  SLOT_WORDS,
  slotAt,
  WC_ID_HI,
  WC_ID_LO,
  WC_QP,
  type WcBatch,
} from '../verbs/index.ts';
import { randomBelow } from './random.ts';

/** By provider: the last wr_id that we gave to a request of our own, low word, and the high word of all. */
const tags = new WeakMap<Provider, { hi: number; last: number }>();

/**
 * A wr_id that nothing else has; its low word is what Inbox knows it by. The high one is random, since the
 * wr_ids of programs are all their own.
 */
export function newTag(provider: Provider): bigint {
  const tag = tags.get(provider) ?? { hi: randomBelow(provider, 2 ** 32), last: 0 };
  tags.set(provider, tag);
  tag.last = (tag.last + 1) >>> 0;
  return (BigInt(tag.hi) << 32n) | BigInt(tag.last);
}

/** Who wants completions before anyone else. */
export interface Claim {
  /** Takes the completion whose slot begins at `words[at]`, or leaves it to others. */
  take(words: Uint32Array, at: number): boolean;
  /** The queue pair was closed or reset: nothing will come any more. */
  abandon(error: Error): void;
  /** The queue could not be polled or armed. What was claimed may still come: the claim stays until then. */
  fail(error: unknown): void;
}

interface Tagged extends Claim {
  qp: number;
  /** High word of the wr_id. */
  hi: number;
}

/** Fills a batch from its first slot on; returns how many. */
export type Fetch = (batch: WcBatch) => number;

export class Inbox {
  /** Where the completion is that take() moved to. */
  words: Uint32Array;
  at = 0;
  private readonly batch: WcBatch;
  private readonly fetch: Fetch;
  private next = 0;
  private stored: Uint32Array[] = [];
  private storedNext = 0;
  /** Claims on all completions of a queue pair, by its handle. */
  private readonly byQp = new Map<number, Claim>();
  /** Claims on one completion, by the low word of the wr_id that was given to its request. */
  private readonly byTag = new Map<number, Tagged>();

  constructor(batch: WcBatch, fetch: Fetch) {
    this.batch = batch;
    this.fetch = fetch;
    this.words = batch.words;
  }

  get claimed(): boolean {
    return this.byQp.size > 0 || this.byTag.size > 0;
  }

  /** Whether completions that were fetched wait here. */
  get hasStored(): boolean {
    return this.storedNext < this.stored.length || this.next < this.batch.length;
  }

  claimQp(qp: number, claim: Claim): void {
    this.stored = this.stored.slice(this.storedNext).filter((slot) => !claim.take(slot, 0));
    this.storedNext = 0;
    this.byQp.set(qp, claim);
  }

  unclaimQp(qp: number): void {
    this.byQp.delete(qp);
  }

  claimTag(tag: bigint, qp: number, claim: Claim): void {
    this.byTag.set(Number(tag & 0xffffffffn), { qp, hi: Number(tag >> 32n), ...claim });
  }

  unclaimTag(tag: bigint): void {
    this.byTag.delete(Number(tag & 0xffffffffn));
  }

  /** The queue pair was closed or reset: nothing of what it had posted will come. */
  abandon(qp: number, error: () => Error): void {
    this.byQp.get(qp)?.abandon(error());
    for (const tagged of [...this.byTag.values()]) if (tagged.qp === qp) tagged.abandon(error());
  }

  /** The queue could not be polled or armed: all who wait are told. */
  fail(error: unknown): void {
    for (const claim of [...this.byQp.values(), ...this.byTag.values()]) claim.fail(error);
  }

  /** Moves to the next completion that nobody claims; false when there is none. */
  take(): boolean {
    if (this.claimed) this.distribute();
    if (this.storedNext < this.stored.length) {
      this.words = this.stored[this.storedNext++];
      this.at = 0;
      if (this.storedNext === this.stored.length) {
        this.stored = [];
        this.storedNext = 0;
      }
      return true;
    }
    if (this.next === this.batch.length && (this.claimed || this.refill() === 0)) return false;
    this.words = this.batch.words;
    this.at = slotAt(this.next++);
    return true;
  }

  /** Gives claims what is theirs, of all that is there; keeps the rest. */
  distribute(): void {
    const { batch, stored: kept } = this;
    do {
      while (this.next < batch.length) {
        const at = slotAt(this.next++);
        if (!this.offer(batch.words, at)) kept.push(batch.words.slice(at, at + SLOT_WORDS));
      }
    } while (this.refill() > 0);
  }

  close(): void {
    this.batch.close();
  }

  private refill(): number {
    this.next = 0;
    this.batch.length = 0;
    this.batch.length = this.fetch(this.batch);
    return this.batch.length;
  }

  private offer(words: Uint32Array, at: number): boolean {
    const qp = words[at + WC_QP];
    const tagged = this.byTag.size > 0 ? this.byTag.get(words[at + WC_ID_LO]) : undefined;
    if (tagged !== undefined && tagged.hi === words[at + WC_ID_HI] && tagged.qp === qp) {
      return tagged.take(words, at);
    }
    return this.byQp.get(qp)?.take(words, at) ?? false;
  }
}
