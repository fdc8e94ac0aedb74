/**
 * The messages of shims to the peer's shims about a queue pair: one chunk of 32-bit words from each, as bytes that the
 * layers in between pass on unread. Of several shims of one kind, only the outermost sends and receives a chunk. A
 * chunk says how an end handles messages in pieces, or where a twin is.
 */

/** The first word, for version 2. */
const MAGIC = 0x49534f02;

const TWO32 = 4294967296;
const MOST_ENTRIES = 1 << 20;
/** The first two queue pairs of a port are management's. The last number stands for multicast. */
const LEAST_QP_NUM = 2;
const MOST_QP_NUM = 0xfffffe;
/** Words of a Description. */
const WORDS = 5;

/** Messages that take a receive may be sent in pieces. */
export const CHUNK_SENDS = 1;
/** From here on, each kind of twin of each policy has a chunk (TwinChunk). */
const CHUNK_TWINS = 0x8000;

/** In the chunk of a twin: the word with the high half of its address, and a bit that no address has. */
const HI = 2;
const HOLDS_RECEIVES = 1 << 31;

export type Chunks = ReadonlyMap<number, readonly number[]>;

/** Payloads by kind. Empty for bytes of another version, or invalid ones: such a peer is treated as one without a shim. */
export function decodeChunks(bytes: Uint8Array | null): Chunks {
  const chunks = new Map<number, readonly number[]>();
  if (bytes === null || bytes.length % 4 !== 0) return chunks;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const words = Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(i * 4, true));
  if (words[0] !== MAGIC) return chunks;
  for (let at = 1; at < words.length; ) {
    // Kind, and the number of words that follow.
    const [kind, length] = [words[at] >>> 16, words[at] & 0xffff];
    const end = at + 1 + length;
    if (end > words.length || chunks.has(kind)) return new Map();
    chunks.set(kind, words.slice(at + 1, end));
    at = end;
  }
  return chunks;
}

/** Null if there are no chunks. */
export function encodeChunks(chunks: Chunks): Uint8Array | null {
  if (chunks.size === 0) return null;
  const words = [
    MAGIC,
    ...[...chunks].flatMap(([kind, payload]) => [(kind << 16) | payload.length, ...payload]),
  ];
  const bytes = new Uint8Array(words.length * 4);
  const view = new DataView(bytes.buffer);
  words.forEach((word, i) => {
    view.setUint32(i * 4, word, true);
  });
  return bytes;
}

/** Adds the chunk of a shim to those of the shims below it. */
export function withChunk(below: Uint8Array | null, kind: number, payload: readonly number[]): Uint8Array {
  const chunks = new Map(decodeChunks(below));
  chunks.delete(kind);
  return encodeChunks(new Map([[kind, payload], ...chunks])) as Uint8Array;
}

/** Adds the chunks of twins to those of the shims below. Twins in another thread never hold receives. */
export function withTwins(below: Uint8Array | null, bytes: Uint8Array | null): Uint8Array | null {
  const twins = [...decodeChunks(bytes)].filter(([kind]) => kind >= CHUNK_TWINS);
  const plain = (payload: readonly number[]) =>
    payload.map((word, i) => (i === HI ? word & ~HOLDS_RECEIVES : word));
  return twins.reduce<Uint8Array | null>(
    (all, [kind, payload]) => withChunk(all, kind, plain(payload)),
    below,
  );
}

/** The chunks for the shims below. */
export function withoutChunk(chunks: Chunks, kind: number): Uint8Array | null {
  return encodeChunks(new Map([...chunks].filter(([other]) => other !== kind)));
}

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

/** What the peer must know to connect its twin with this one. */
export interface TwinAddress {
  qpNum: number;
  /** Its buffer; 0 if the peer does not share it. */
  bufferAddr: number;
  rkey: number;
  /** Whether it can hold receives, for messages over shared queue pairs. */
  holdsReceives?: boolean;
}

/** The chunk of one kind of twin. A hash (FNV-1a) of policy and kind keeps twins of different policies apart. */
export class TwinChunk {
  readonly kind: number;
  /** Precedes the number of the queue pair, which has 24 bits. */
  private readonly mark: number;

  constructor(policy: string, twinKind: number) {
    let hash = 0x811c9dc5;
    for (const letter of `${policy} ${twinKind}`) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193);
    this.kind = CHUNK_TWINS | (hash & (CHUNK_TWINS - 1));
    this.mark = hash >>> 24;
  }

  encode({ qpNum, bufferAddr, rkey, holdsReceives = false }: TwinAddress): number[] {
    const head = this.mark * 2 ** 24 + qpNum;
    const hi = Math.floor(bufferAddr / TWO32) | (holdsReceives ? HOLDS_RECEIVES : 0);
    return bufferAddr === 0 ? [head] : [head, bufferAddr % TWO32, hi >>> 0, rkey];
  }

  /** Null for an invalid description: such a peer has no twin. */
  decode(words: readonly number[]): TwinAddress | null {
    if (words.length !== 1 && words.length !== 4) return null;
    const [head, lo = 0, hi = 0, rkey = 0] = words;
    const [mark, qpNum] = [head >>> 24, head & 0xffffff];
    const bufferAddr = (hi & ~HOLDS_RECEIVES) * TWO32 + lo;
    const holdsReceives = (hi & HOLDS_RECEIVES) !== 0;
    if (mark !== this.mark || bufferAddr > Number.MAX_SAFE_INTEGER) return null;
    return qpNum < LEAST_QP_NUM || qpNum > MOST_QP_NUM ? null : { qpNum, bufferAddr, rkey, holdsReceives };
  }
}
