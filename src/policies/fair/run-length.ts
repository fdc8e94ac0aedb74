/** What a scheduler reads of the requests in a post: their lengths, and runs of like ones. */
import { PLAIN, PLAIN_MASK } from '../../shim/plain-requests.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { IBV_SEND_SIGNALED } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';

// Used in each post; a module's own constants cost nothing (plain-requests.ts).
const { SLOT_WORDS, WR_OP } = L;
const LENGTH = L.WR_SGE0 + L.SGE_LENGTH;
const MASK = PLAIN_MASK;
const PLAIN_OP = PLAIN;
/** IBV_SEND_SIGNALED in WR_OP. */
const SIGNALED = IBV_SEND_SIGNALED << 8;

/** A request whose length is not in its slot, or that has none. */
export const NO_LENGTH = -1;

/**
 * The bytes of a message; NO_LENGTH for a WAIT or ENABLE, and for a list of more than two SGEs, as a slot has: the
 * shim's copy knows its size.
 */
export function lengthAt(words: Uint32Array, at: number): number {
  const op = words[at + WR_OP];
  if ((op & MASK) === PLAIN_OP) return words[at + LENGTH];
  return op >>> 16 > 2 || isCrossChannel(words, at) ? NO_LENGTH : messageBytes(words, at, 0);
}

/** How many requests from this one on are like it: of the same opcode and flags, with one SGE of the same length. */
export function runLength(words: Uint32Array, at: number, most: number): number {
  const op = words[at + WR_OP];
  if (op >>> 16 !== 1) return 1;
  const length = words[at + LENGTH];
  let n = 1;
  for (let next = at + SLOT_WORDS; n < most; n++, next += SLOT_WORDS) {
    // The last one of a batch is signaled.
    if ((words[next + WR_OP] ^ op) & ~SIGNALED || words[next + LENGTH] !== length) break;
  }
  return n;
}
