/** What an end says of messages in pieces: from how many bytes on it sends them, and where it takes them. */

const TWO32 = 4294967296;
const MOST_ENTRIES = 1 << 20;
const WORDS = 5;

/** Where a queue pair says which receives are posted, and takes the lengths of messages that come in pieces. */
export interface InboxAddress {
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
  inbox: InboxAddress | null;
}

export function encodeDescription({ aboveBytes, inbox }: Description): number[] {
  const above = Math.min(aboveBytes, TWO32 - 1);
  if (inbox === null) return [above, 0, 0, 0, 0];
  return [above, inbox.depth, inbox.addr % TWO32, Math.floor(inbox.addr / TWO32), inbox.rkey];
}

/** Null for what makes no sense: such a peer gets whole messages. */
export function decodeDescription(words: readonly number[]): Description | null {
  if (words.length !== WORDS) return null;
  const [aboveBytes, depth, lo, hi, rkey] = words;
  const addr = hi * TWO32 + lo;
  if (depth === 0) return { aboveBytes, inbox: null };
  if ((depth & (depth - 1)) !== 0 || depth > MOST_ENTRIES || addr > Number.MAX_SAFE_INTEGER) return null;
  return { aboveBytes, inbox: { addr, rkey, depth } };
}
