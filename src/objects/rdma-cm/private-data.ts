/**
 * Private data of a connection's messages: the program's, from the start; what two shims tell each other, at the
 * end, where neither program sees it. rdma_cm carries no length, and fills its room up with zeros.
 */

/** Room in a connection request, and in the answer to one. */
export const REQUEST_BYTES = 56;
export const REPLY_BYTES = 196;

/** Of the last word: bytes of the description in front of it, and a check of them. */
const LENGTH_BITS = 8;
const TAIL_BYTES = 4;

/** What came with a message. */
export interface Received {
  /** As if there were no description. */
  data: Uint8Array;
  /** Of the peer's shim; null: it has none, or there was no room. */
  description: Uint8Array | null;
}

/** Null where the program's own data leaves no room for a description. */
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

/** FNV-1a, cut to what the length leaves. */
function tailOf(description: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of description) hash = Math.imul(hash ^ byte, 0x01000193);
  return ((hash << LENGTH_BITS) | description.length) >>> 0;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}
