/** What perf reads of work requests before they are posted. */
import { messageBytes } from '../../shim/qp-ledger.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import {
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_RDMA_READ,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { LARGE_BYTES } from '../kit/classifier.ts';

/** Whether the peer answers a request of this opcode with data. */
export function isAnswered(opcode: number): boolean {
  return (
    opcode === IBV_WR_RDMA_READ ||
    opcode === IBV_WR_ATOMIC_CMP_AND_SWP ||
    opcode === IBV_WR_ATOMIC_FETCH_AND_ADD
  );
}

/** The first request of `below` bytes or more from `from` on; `count` if there is none, -1 if a WAIT or ENABLE is among them. */
export function firstLarge(
  words: Uint32Array,
  start: number,
  from: number,
  count: number,
  below: number,
): number {
  let large = count;
  for (let i = from; i < count; i++) {
    const at = L.slotAt(start + i);
    // The requests before it must report their completion, because its own comes after theirs.
    if (isCrossChannel(words, at)) return -1;
    if (large === count && knownBytes(words, at) >= below) large = i;
  }
  return large;
}

/**
 * Bytes of a request. A list of more than the two SGEs in the slot counts as large; the shim's copy knows its size.
 */
export function knownBytes(words: Uint32Array, at: number): number {
  return words[at + L.WR_OP] >>> 16 > 2 ? LARGE_BYTES : messageBytes(words, at, 0);
}
