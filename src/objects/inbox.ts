/**
 * Completions between the device and their consumers. Most are fetched and taken at once. Some are claimed by a drain
 * of a queue pair, or by execute() for its own request. Unclaimed completions that were fetched on the way to a claimed
 * one are stored here in order.
 */

import { randomInt } from 'node:crypto';
import {
  type Provider,
  SLOT_WORDS,
  slotAt,
  WC_ID_HI,
  WC_ID_LO,
  WC_QP,
  type WcBatch,
} from '../verbs/index.ts';

/** By provider: the high word of all wr_ids of internal requests, and the low word of the last one. */
const tags = new WeakMap<Provider, { hi: number; last: number }>();

/**
 * A unique wr_id for an internal request. Inbox identifies it by the low word. The high word is random, because a
 * program may use any wr_id.
 */
export function newTag(provider: Provider): bigint {
  const tag = tags.get(provider) ?? { hi: randomBelow(provider, 2 ** 32), last: 0 };
  tags.set(provider, tag);
  tag.last = (tag.last + 1) >>> 0;
  return (BigInt(tag.hi) << 32n) | BigInt(tag.last);
}

/** A consumer that receives completions before all others. */
export interface Claim {
  /** Takes the completion in the slot at `words[at]` and returns true, or returns false to leave it to others. */
  take(words: Uint32Array, at: number): boolean;
  /** The queue pair was closed or reset: no further completions arrive. */
  abandon(error: Error): void;
  /** The queue could not be polled or armed. The claim stays, because its completions may still arrive. */
  fail(error: unknown): void;
}

interface Tagged extends Claim {
  qp: number;
  /** High word of the wr_id. */
  hi: number;
}

/** Fills a batch from its first slot on; returns the number of completions. */
export type Fetch = (batch: WcBatch) => number;

/** The fetched completions of one completion queue, and the claims on them. */
export class Inbox {
  /** Position of the current completion, set by take(). */
  words: Uint32Array;
  at = 0;
  private readonly batch: WcBatch;
  private readonly fetch: Fetch;
  private next = 0;
  private stored: Uint32Array[] = [];
  private storedNext = 0;
  /** Claims on all completions of a queue pair, by its handle. */
  private readonly byQp = new Map<number, Claim>();
  /** Claims on one completion, by the low word of its wr_id. */
  private readonly byTag = new Map<number, Tagged>();
  /** Completions of queue pairs that are held back, by their handle. */
  private readonly held = new Map<number, Uint32Array[]>();

  constructor(batch: WcBatch, fetch: Fetch) {
    this.batch = batch;
    this.fetch = fetch;
    this.words = batch.words;
  }

  get claimed(): boolean {
    return this.byQp.size > 0 || this.byTag.size > 0 || this.held.size > 0;
  }

  /** Whether fetched completions are stored here. */
  get hasStored(): boolean {
    return this.storedNext < this.stored.length || this.next < this.batch.length;
  }

  claimQp(qp: number, claim: Claim): void {
    const left = (slots: Uint32Array[]) => slots.filter((slot) => !claim.take(slot, 0));
    this.stored = left(this.stored.slice(this.storedNext));
    this.storedNext = 0;
    const held = this.held.get(qp);
    if (held !== undefined) this.held.set(qp, left(held));
    this.byQp.set(qp, claim);
  }

  unclaimQp(qp: number): void {
    this.byQp.delete(qp);
  }

  /** Holds back the completions of a queue pair until `unhold`. */
  hold(qp: number): void {
    this.held.set(qp, []);
  }

  /** Ends the hold: what arrived in the meantime comes next, or is discarded. */
  unhold(qp: number, discard: boolean): void {
    const slots = this.held.get(qp) ?? [];
    this.held.delete(qp);
    if (!discard) this.stored.push(...slots);
  }

  /** Returns completions that were taken and not delivered: they come next again, in their order. */
  putBack(slots: Uint32Array[]): void {
    this.stored = [...slots, ...this.stored.slice(this.storedNext)];
    this.storedNext = 0;
  }

  claimTag(tag: bigint, qp: number, claim: Claim): void {
    this.byTag.set(Number(tag & 0xffffffffn), { qp, hi: Number(tag >> 32n), ...claim });
  }

  unclaimTag(tag: bigint): void {
    this.byTag.delete(Number(tag & 0xffffffffn));
  }

  /** Rejects the claims on a queue pair that was closed or reset. */
  abandon(qp: number, error: () => Error): void {
    this.byQp.get(qp)?.abandon(error());
    for (const tagged of [...this.byTag.values()]) if (tagged.qp === qp) tagged.abandon(error());
  }

  /** Notifies all claims of a failed poll or arm. */
  fail(error: unknown): void {
    for (const claim of [...this.byQp.values(), ...this.byTag.values()]) claim.fail(error);
  }

  /** Moves to the next unclaimed completion; false when there is none. */
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

  /** Hands all available completions to their claims and stores the rest. */
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
    if (this.byQp.get(qp)?.take(words, at)) return true;
    const held = this.held.get(qp);
    held?.push(words.slice(at, at + SLOT_WORDS));
    return held !== undefined;
  }
}

/** A random integer below `below`, from the provider where it has one, so that a replay repeats the recorded numbers. */
export function randomBelow(provider: Provider, below: number): number {
  return provider.random?.(below) ?? randomInt(below);
}
