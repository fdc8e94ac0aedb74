/**
 * The messages of justitia's agents: 16 bytes, sent on change only (section 4.5 of the paper). A sender reports what it
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
/** The number and the confirmed number together. */
const NUMBER_PAIRS = NUMBERS ** 2;

/** A message, with two values whose meaning depends on the kind. */
export interface Update {
  kind: number;
  number: number;
  /** The number of the last message of the other kind that arrived; 0: none. */
  confirmed: number;
  /**
   * The weight of the latency applications that talk to the peer (DEMAND); 1 if they count as one. Of SHARES: 1 if some
   * run at this host or talk to it. It is a number that `roundLatency` returns.
   */
  latency: number;
  /**
   * DEMAND: the weight that sends to the peer, and the weight that READs from it. SHARES: the part of MaxRate that a
   * unit of each weight may use.
   */
  first: number;
  second: number;
}

// What is left of the first word takes the weight of the latency applications as a short floating-point number. It need
// not be as accurate as other weights: all hosts use the value that was sent.
const MANTISSA = 16;
/** The exponent of the smallest weight that is written. */
const LEAST_EXPONENT = -21;

/** The ten bits of a weight above 0. A weight of 1 is written as 0, which older agents write for any weight. */
function encodeWeight(weight: number): number {
  const exponent = Math.min(Math.max(Math.floor(Math.log2(weight)), LEAST_EXPONENT), 30);
  const steps = Math.min(Math.max(Math.round((weight / 2 ** exponent - 1) * MANTISSA), 0), MANTISSA);
  const code = (exponent - LEAST_EXPONENT) * MANTISSA + steps;
  return code ^ ONE;
}

const decodeWeight = (bits10: number): number => {
  const code = bits10 ^ ONE;
  const weight = (1 + (code % MANTISSA) / MANTISSA) * 2 ** (Math.floor(code / MANTISSA) + LEAST_EXPONENT);
  return Math.min(MAX_WEIGHT, weight);
};
const ONE = -LEAST_EXPONENT * MANTISSA;

/** The weight of latency applications that arrives, within 3.2 % of the one that is sent; whole numbers up to 32 do. */
export const roundLatency = (weight: number): number => (weight > 0 ? decodeWeight(encodeWeight(weight)) : 0);

const bits = new DataView(new ArrayBuffer(8));

/** The number that follows `number`. Skips 0, which stands for none. */
export const numberAfter = (number: number): number => (number % (NUMBERS - 1)) + 1;

/** Sets the content of an update, with a new number if it has changed. Returns whether it has. */
export function renew(update: Update, weight: number, first: number, second: number): boolean {
  const [latency, one, other] = [roundLatency(weight), Math.fround(first), Math.fround(second)];
  if (update.latency === latency && update.first === one && update.second === other) return false;
  [update.latency, update.first, update.second] = [latency, one, other];
  update.number = numberAfter(update.number);
  return true;
}

/** Writes an update into `words`. */
export function writeUpdate(words: Float64Array, update: Update): void {
  const { kind, number, confirmed, latency, first, second } = update;
  const weight = latency > 0 ? encodeWeight(latency) : 0;
  words[0] = kind + (latency > 0 ? 4 : 0) + 8 * (number + NUMBERS * confirmed + NUMBER_PAIRS * weight);
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
  const hasLatency = Math.floor(head / 4) % 2 === 1;
  const weight = Math.floor(rest / NUMBER_PAIRS);
  if (!hasLatency && weight !== 0) return false;
  into.latency = hasLatency ? decodeWeight(weight) : 0;
  into.number = rest % NUMBERS;
  into.confirmed = Math.floor(rest / NUMBERS) % NUMBERS;
  into.first = Math.min(MAX_WEIGHT, bits.getFloat32(0));
  into.second = Math.min(MAX_WEIGHT, bits.getFloat32(4));
  const isKnown = into.kind === DEMAND || into.kind === SHARES;
  return isKnown && into.number > 0 && into.first >= 0 && into.second >= 0;
}
