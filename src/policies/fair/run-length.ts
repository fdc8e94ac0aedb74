/** Runs of like requests in a post. */
import { IBV_SEND_SIGNALED } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';

const LENGTH = L.WR_SGE0 + L.SGE_LENGTH;
/** IBV_SEND_SIGNALED in WR_OP. */
const SIGNALED = IBV_SEND_SIGNALED << 8;

/** How many requests from this one on are like it: of the same opcode and flags, with one SGE of the same length. */
export function runLength(words: Uint32Array, at: number, most: number): number {
  const op = words[at + L.WR_OP];
  if (op >>> 16 !== 1) return 1;
  const length = words[at + LENGTH];
  let n = 1;
  for (let next = at + L.SLOT_WORDS; n < most; n++, next += L.SLOT_WORDS) {
    // The last one of a batch is signaled.
    if ((words[next + L.WR_OP] ^ op) & ~SIGNALED || words[next + LENGTH] !== length) break;
  }
  return n;
}
