/** What a shim tells the peer's shim of a queue pair, as bytes that nobody in between understands. */

const MAGIC = 0x49534f50;
const VERSION = 1;
const WORDS = 8;
const TWO32 = 4294967296;
const MOST_ENTRIES = 1 << 20;

/** Where a queue pair says which receives are posted, and takes the lengths of messages that come in pieces. */
export interface InboxPlace {
  /** Address of the table; the notices follow it. */
  addr: number;
  rkey: number;
  /** Entries of each, a power of two. */
  depth: number;
}

/** What one end tells the other. */
export interface Description {
  /** Messages longer than this may come in pieces. */
  aboveBytes: number;
  /** Null: send whole messages to me. */
  inbox: InboxPlace | null;
}

export function encodeDescription({ aboveBytes, inbox }: Description): Uint8Array {
  const bytes = new Uint8Array(WORDS * 4);
  const view = new DataView(bytes.buffer);
  const put = (word: number, value: number) => view.setUint32(word * 4, value, true);
  put(0, MAGIC);
  put(1, VERSION);
  put(2, Math.min(aboveBytes, TWO32 - 1));
  if (inbox === null) return bytes;
  put(3, inbox.depth);
  put(4, inbox.addr % TWO32);
  put(5, Math.floor(inbox.addr / TWO32));
  put(6, inbox.rkey);
  return bytes;
}

/** Null for what is no description of this version: such a peer gets whole messages. */
export function decodeDescription(bytes: Uint8Array): Description | null {
  if (bytes.length !== WORDS * 4) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const get = (word: number) => view.getUint32(word * 4, true);
  if (get(0) !== MAGIC || get(1) !== VERSION) return null;
  const depth = get(3);
  const addr = get(5) * TWO32 + get(4);
  if (depth === 0) return { aboveBytes: get(2), inbox: null };
  if ((depth & (depth - 1)) !== 0 || depth > MOST_ENTRIES || addr > Number.MAX_SAFE_INTEGER) return null;
  return { aboveBytes: get(2), inbox: { addr, rkey: get(6), depth } };
}
