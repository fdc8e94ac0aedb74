/** How an end handles messages in pieces: above which length it sends pieces, and where it accepts them. */

const TWO32 = 4294967296;
const MOST_ENTRIES = 1 << 20;
const WORDS = 5;

/** The table of a queue pair's posted receives, followed by notices: the lengths of messages that arrived in pieces. */
export interface InboxAddress {
  /** Address of the table. */
  addr: number;
  rkey: number;
  /** Entries of the table, and notices: a power of two. */
  depth: number;
}

/** The payload of the CHUNK_SENDS that one end sends to the other. */
export interface Description {
  /** Messages longer than this may be sent in pieces. */
  aboveBytes: number;
  /** Null if this end accepts only whole messages. */
  inbox: InboxAddress | null;
}

export function encodeDescription({ aboveBytes, inbox }: Description): number[] {
  const above = Math.min(aboveBytes, TWO32 - 1);
  if (inbox === null) return [above, 0, 0, 0, 0];
  return [above, inbox.depth, inbox.addr % TWO32, Math.floor(inbox.addr / TWO32), inbox.rkey];
}

/** Null for an invalid description: such a peer gets whole messages. */
export function decodeDescription(words: readonly number[]): Description | null {
  if (words.length !== WORDS) return null;
  const [aboveBytes, depth, lo, hi, rkey] = words;
  const addr = hi * TWO32 + lo;
  if (depth === 0) return { aboveBytes, inbox: null };
  if ((depth & (depth - 1)) !== 0 || depth > MOST_ENTRIES || addr > Number.MAX_SAFE_INTEGER) return null;
  return { aboveBytes, inbox: { addr, rkey, depth } };
}
