/**
 * The packed rings that carry work requests and completions between TypeScript, shims and providers.
 * A ring is one ArrayBuffer of little-endian 32-bit words:
 *
 *     header (16 words) | capacity x slot (16 words = 64 bytes) | capacity x extension (extBytes each)
 *
 * 64-bit values are a low word followed by a high word. `native/layout.h` is the same in C++; a test compares the two.
 */

export const SLOT_BYTES = 64;
export const SLOT_WORDS = 16;
export const HEADER_BYTES = 64;
export const HEADER_WORDS = 16;

// Header words of a work-request ring: why the last post was not accepted in full.
/** errno of the first refused work request, or 0 if all were accepted (libibverbs' return value). */
export const HDR_ERRNO = 0;
/** One of the REASON_* numbers, which are more specific than the errno. */
export const HDR_REASON = 1;

/** Work-request slot. A RECV uses only wr_id, the SGE count and the SGEs. */
export const WR_ID_LO = 0;
export const WR_ID_HI = 1;
/** opcode | flags << 8 | SGE count << 16 */
export const WR_OP = 2;
/** Immediate data in host byte order; SEND_WITH_INV and LOCAL_INV: the key to invalidate. */
export const WR_IMM = 3;
export const WR_REMOTE_LO = 4;
export const WR_REMOTE_HI = 5;
export const WR_RKEY = 6;
/** XRC: number of the shared receive queue that receives the message. */
export const WR_SRQN = 7;
/** UD sends: handle of the address handle, number and Q_Key of the destination queue pair. */
export const WR_AH = 4;
export const WR_REMOTE_QPN = 5;
export const WR_REMOTE_QKEY = 6;
/** Two SGEs are in the slot: address lo, address hi, length, lkey. Further SGEs are in the extension. */
export const WR_SGE0 = 8;
export const WR_SGE1 = 12;
export const SGE_WORDS = 4;
export const SGE_LO = 0;
export const SGE_HI = 1;
export const SGE_LENGTH = 2;
export const SGE_LKEY = 3;
/** Atomics have one SGE and two operands: compare or add, then swap. */
export const WR_COMPARE_LO = 12;
export const WR_COMPARE_HI = 13;
export const WR_SWAP_LO = 14;
export const WR_SWAP_HI = 15;
/** IBV_SEND_INLINE: bytes of the message, in the extension; such a request has no SGE. */
export const WR_INLINE_LENGTH = 10;
/** BIND_MW has no SGE: window, region (0 unbinds), range and IBV_ACCESS_* bits; WR_RKEY is a type 2 window's new key. */
export const WR_BIND_MW = 8;
export const WR_BIND_MR = 9;
export const WR_BIND_ADDR_LO = 10;
export const WR_BIND_ADDR_HI = 11;
export const WR_BIND_LENGTH_LO = 12;
export const WR_BIND_LENGTH_HI = 13;
export const WR_BIND_ACCESS = 14;
/** The CQ of a WAIT, or the managed QP of an ENABLE. */
export const WR_TARGET = 8;
/**
 * For WAIT, the completions to wait for (0 only gives up a turn); for ENABLE, the requests to release (0 releases all).
 */
export const WR_COUNT = 9;
/** In a WAIT with count 0, the number of 0_WAITs for which this slot stands (0 and 1 are the same). */
export const WR_REPEAT = 10;

/** Completion slot. */
export const WC_ID_LO = 0;
export const WC_ID_HI = 1;
/** status | opcode << 8 | flags << 16 | WC_RECV_SIDE if a receive; the side is valid on errors too. */
export const WC_OP = 2;
export const WC_BYTE_LEN = 3;
/** Immediate data in host byte order, or with IBV_WC_WITH_INV the key that the peer invalidated. */
export const WC_IMM = 4;
/** Handle of the QP. */
export const WC_QP = 5;
/**
 * Running number (mod 2^32) of the completed request in its send or receive queue. A receive of a shared
 * receive queue (WC_SRQ is not 0) has a number that no other outstanding receive of that queue has.
 */
export const WC_SEQ = 6;
/** UD: source QP number; on an error: the vendor's code. */
export const WC_SRC_QP = 7;
/** The number of the QP on the wire. */
export const WC_QP_NUM = 8;
/** UD receives: pkey_index | slid << 16, and sl | dlid_path_bits << 8. */
export const WC_PKEY_SLID = 9;
export const WC_SL_PATH_BITS = 10;
/** Extended completion queues: the device's clock at completion, and the time of day in nanoseconds. */
export const WC_TICKS_LO = 11;
export const WC_TICKS_HI = 12;
export const WC_WALLCLOCK_LO = 13;
export const WC_WALLCLOCK_HI = 14;
/** Handle of the shared receive queue that supplied a receive; 0 for the queue pair's own queue. */
export const WC_SRQ = 15;
export const WC_RECV_SIDE = 1 << 24;

/** Reasons for refusing a post (HDR_REASON). REASON_TEXT has the texts for errors. */
export const REASON_NONE = 0;
export const REASON_STATE = 1;
export const REASON_QUEUE_FULL = 2;
export const REASON_OPCODE = 3;
export const REASON_SGE_COUNT = 4;
export const REASON_LENGTH = 5;
export const REASON_INLINE = 6;
export const REASON_ATOMIC = 7;
export const REASON_DETACHED = 8;
export const REASON_TARGET = 9;
export const REASON_PROVIDER = 10;
export const REASON_RANGE = 11;
export const REASON_FLAGS = 12;
export const REASON_LIMIT = 13;
export const REASON_AH = 14;
export const REASON_WINDOW = 15;
export const REASON_SRQ = 16;

/** Explanations of the REASON_* codes, for messages. */
export const REASON_TEXT: readonly string[] = [
  'accepted',
  'the queue pair is in a state that does not allow this request; move it to another state with modifyQp first',
  'the queue is full; poll completions, or create it larger (cap; maxWr of a shared receive queue)',
  'this opcode is not allowed on this type of queue pair',
  'more scatter-gather elements than the queue pair was created for',
  'the lengths add up to more than the largest message of the port',
  'more inline bytes than the queue pair or the ring was created for',
  'an atomic needs one 8-byte element and an 8-byte aligned remote address',
  'the ArrayBuffer behind this lkey was detached or resized; register memory that stays in place',
  'the WAIT or ENABLE names no such completion queue or managed queue pair of this device',
  'the device refused it',
  'start and count do not lie inside the ring',
  'an unknown flag is set',
  'a policy refused it: the tenant is over its limit',
  'a send of an unreliable datagram needs a live address handle of the same protection domain',
  'the BIND_MW names no such window and region of this protection domain, or a range outside the region',
  'the queue pair receives from a shared receive queue; post there',
];

/** Extension bytes that a ring needs for this many SGEs and inline bytes, a multiple of 64. */
export function extBytesFor(sges: number, inlineBytes: number): number {
  const bytes = Math.max((sges - 2) * 16, inlineBytes, 0);
  return (bytes + 63) & ~63;
}

/** Total bytes of a ring. */
export function ringBytes(capacity: number, extBytes: number): number {
  return HEADER_BYTES + capacity * (SLOT_BYTES + extBytes);
}

/** Whether `start` and `count` are whole numbers of slots that lie inside a ring. */
export function within(capacity: number, start: number, count: number): boolean {
  // Only a number may be shifted: a bigint throws, and an object would run its own code.
  if (typeof start !== 'number' || typeof count !== 'number') return false;
  return start >>> 0 === start && count >>> 0 === count && start + count <= capacity;
}

/** Index of the first word of slot `index`. */
export function slotAt(index: number): number {
  return HEADER_WORDS + index * SLOT_WORDS;
}

/** Index of the first word of the extension of slot `index`. */
export function extAt(index: number, capacity: number, extBytes: number): number {
  return HEADER_WORDS + capacity * SLOT_WORDS + index * (extBytes >> 2);
}
