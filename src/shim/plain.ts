/** Requests as nearly all are: one element, no inline bytes, an opcode of the device's. Looked at by runs, cheaply. */
import { IBV_SEND_INLINE, ISO_WR_WAIT } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';

/** Of WR_OP: the element count, IBV_SEND_INLINE, and what only opcodes from ISO_WR_WAIT on have. */
const MASK = (0xffff << 16) | (IBV_SEND_INLINE << 8) | (0x100 - ISO_WR_WAIT);
const PLAIN = 1 << 16;
/** So many messages below SHORT_BYTES add up to less than 2^31. */
const MOST = 1024;
const SHORT_BYTES = 2 ** 21;

/** How many of the requests start .. start + count - 1 are plain and shorter than `bytes`, before the first that is not. */
export function plainRun(words: Uint32Array, start: number, count: number, bytes: number): number {
  let at = L.slotAt(start);
  for (let i = 0; i < count; i++, at += L.SLOT_WORDS) {
    if ((words[at + L.WR_OP] & MASK) !== PLAIN || words[at + L.WR_SGE0 + L.SGE_LENGTH] >= bytes) return i;
  }
  return count;
}

/** Bytes of plain and short requests together; -1 if one of them is not. */
export function plainBytes(words: Uint32Array, start: number, count: number): number {
  let odd = 0;
  let long = 0;
  let bytes = 0;
  const end = L.slotAt(start + count);
  for (let at = L.slotAt(start); at < end; at += L.SLOT_WORDS) {
    const length = words[at + L.WR_SGE0 + L.SGE_LENGTH];
    odd |= (words[at + L.WR_OP] & MASK) ^ PLAIN;
    long |= length;
    bytes = (bytes + length) | 0;
  }
  return odd === 0 && long >>> 0 < SHORT_BYTES && count <= MOST ? bytes : -1;
}
