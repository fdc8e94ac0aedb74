/**
 * Private data of a connection's messages. The program's data is at the start, and the description that one shim
 * sends to the other at the end, hidden from both programs. rdma_cm transmits no length and pads with zeros.
 */

/** Size of the private data in a connection request, and in a reply. */
export const REQUEST_BYTES = 56;
export const REPLY_BYTES = 196;

/** The last word has the length of the preceding description and a checksum of it. */
const LENGTH_BITS = 8;
const TAIL_BYTES = 4;

/** The parts of received private data. */
export interface Received {
  /** The program's data, with zeros in place of the description. */
  data: Uint8Array;
  /** Description from the peer's shim; null without a shim, or without room for it. */
  description: Uint8Array | null;
}

/** Appends a description; null when the program's data leaves no room for it. */
export function withDescription(
  data: Uint8Array,
  description: Uint8Array,
  roomBytes: number,
): Uint8Array | null {
  const at = roomBytes - TAIL_BYTES - description.length;
  if (!(data.length <= at) || description.length >= 1 << LENGTH_BITS) return null;
  const bytes = new Uint8Array(roomBytes);
  bytes.set(data);
  bytes.set(description, at);
  viewOf(bytes).setUint32(roomBytes - TAIL_BYTES, tailOf(description), true);
  return bytes;
}

/** Separates received private data into its parts. */
export function splitPrivateData(bytes: Uint8Array): Received {
  if (bytes.length < TAIL_BYTES) return { data: bytes, description: null };
  const end = bytes.length - TAIL_BYTES;
  const tail = viewOf(bytes).getUint32(end, true);
  const at = end - (tail & ((1 << LENGTH_BITS) - 1));
  if (at < 0 || at === end) return { data: bytes, description: null };
  const description = bytes.slice(at, end);
  if (tailOf(description) !== tail) return { data: bytes, description: null };
  return { data: bytes.slice().fill(0, at), description };
}

/** FNV-1a, truncated to the bits that the length leaves. */
function tailOf(description: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of description) hash = Math.imul(hash ^ byte, 0x01000193);
  return ((hash << LENGTH_BITS) | description.length) >>> 0;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}
