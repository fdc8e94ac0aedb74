/**
 * The messages of justitia's agents: 16 bytes, sent on change only (section 4.4 of the paper). A sender reports what it
 * sends to a receiver, and the receiver answers with what each unit of weight may send. Messages may be lost, so each
 * message has a number, and confirms the number of the last message of the other kind that arrived. An agent repeats a
 * message until it is confirmed.
 */

import { MAX_WEIGHT } from './columns.ts';

/** The words of a message, which are float64. */
export const UPDATE_WORDS = 2;

/** Kinds of messages: what a host sends to the peer and READs from it, and what the peer may send and READ. */
export const DEMAND = 1;
export const SHARES = 2;

/** Message numbers wrap. */
const NUMBERS = 2 ** 20;

/** A message, with two values whose meaning depends on the kind. */
export interface Update {
  kind: number;
  number: number;
  /** The number of the last message of the other kind that arrived; 0: none. */
  confirmed: number;
  /** Whether latency applications talk to the peer (DEMAND), or run at this host or talk to it (SHARES). */
  hasLatency: boolean;
  /**
   * DEMAND: the weight that sends to the peer, and the weight that READs from it. SHARES: the part of MaxRate that a
   * unit of each weight may use.
   */
  first: number;
  second: number;
}

const bits = new DataView(new ArrayBuffer(8));

/** The number that follows `number`. Skips 0, which stands for none. */
export const numberAfter = (number: number): number => (number % (NUMBERS - 1)) + 1;

/** Writes an update into `words`. */
export function writeUpdate(words: Float64Array, update: Update): void {
  const { kind, number, confirmed, hasLatency, first, second } = update;
  words[0] = kind + (hasLatency ? 4 : 0) + 8 * (number + NUMBERS * confirmed);
  // Two numbers of 32 bits are never a NaN of 64 bits unless the first is one.
  bits.setFloat32(0, first);
  bits.setFloat32(4, second);
  words[1] = bits.getFloat64(0);
}

/**
 * Reads an update from a peer; values above MAX_WEIGHT are lowered to it. Returns false if it is not a valid update.
 */
export function readUpdate(words: Float64Array, into: Update): boolean {
  const [head] = words;
  if (words.length !== UPDATE_WORDS || !Number.isSafeInteger(head) || head < 0) return false;
  bits.setFloat64(0, words[1]);
  const rest = Math.floor(head / 8);
  into.kind = head % 4;
  into.hasLatency = Math.floor(head / 4) % 2 === 1;
  into.number = rest % NUMBERS;
  into.confirmed = Math.floor(rest / NUMBERS);
  into.first = Math.min(MAX_WEIGHT, bits.getFloat32(0));
  into.second = Math.min(MAX_WEIGHT, bits.getFloat32(4));
  const isKnown = into.kind === DEMAND || into.kind === SHARES;
  return isKnown && into.number > 0 && into.confirmed < NUMBERS && into.first >= 0 && into.second >= 0;
}
