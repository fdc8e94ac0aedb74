/**
 * Plain requests, as nearly all requests are: one element, no inline bytes, an opcode that the device has. They are
 * checked cheaply, in runs.
 */
import { IBV_SEND_INLINE, ISO_WR_WAIT } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';

// Imports and exports of a module are loaded and checked at each use; its own constants cost nothing.
const { SLOT_WORDS, WR_OP } = L;
const FIRST = L.slotAt(0);
const LENGTH = L.WR_SGE0 + L.SGE_LENGTH;
/** Bits of WR_OP: the element count, IBV_SEND_INLINE, and the bits that only opcodes from ISO_WR_WAIT upwards have. */
export const PLAIN_MASK = (0xffff << 16) | (IBV_SEND_INLINE << 8) | (0x100 - ISO_WR_WAIT);
export const PLAIN = 1 << 16;
/** As PLAIN_MASK, with all bits of the opcode. */
export const OPCODE_MASK = PLAIN_MASK | 0xff;
const MASK = PLAIN_MASK;
/** This many messages below SHORT_BYTES add up to less than 2^31. */
const MOST = 1024;
const SHORT_BYTES = 2 ** 21;

/** How many of the requests start .. start + count - 1, from the first on, are plain and shorter than `bytes`. */
export function plainRun(words: Uint32Array, start: number, count: number, bytes: number): number {
  let at = FIRST + start * SLOT_WORDS;
  for (let i = 0; i < count; i++, at += SLOT_WORDS) {
    if ((words[at + WR_OP] & MASK) !== PLAIN || words[at + LENGTH] >= bytes) return i;
  }
  return count;
}

/** The total bytes of requests, if all are plain and shorter than 2^21 bytes; otherwise -1. */
export function plainBytes(words: Uint32Array, start: number, count: number): number {
  return plainBytesOf(words, start, count, SHORT_BYTES, PLAIN_MASK, PLAIN);
}

/**
 * The total bytes of requests, if all are plain and shorter than `below`, a power of two; otherwise -1. Short enough to
 * be inlined where requests are posted, so it has no default parameters.
 * @param mask PLAIN_MASK; or OPCODE_MASK if all must have the opcode in `plain`
 */
export function plainBytesOf(
  words: Uint32Array,
  start: number,
  count: number,
  below: number,
  mask: number,
  plain: number,
): number {
  let odd = 0;
  let long = 0;
  let bytes = 0;
  const end = FIRST + (start + count) * SLOT_WORDS;
  for (let at = FIRST + start * SLOT_WORDS; at < end; at += SLOT_WORDS) {
    const length = words[at + LENGTH];
    odd |= (words[at + WR_OP] & mask) ^ plain;
    long |= length;
    bytes = (bytes + length) | 0;
  }
  return odd === 0 && long >>> 0 < below && count <= MOST ? bytes : -1;
}
