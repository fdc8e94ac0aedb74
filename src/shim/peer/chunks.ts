/**
 * The messages of shims to the peer's shims about a queue pair: one chunk of 32-bit words from each, as bytes that the
 * layers in between pass on unread. Of several shims of one kind, only the outermost sends and receives a chunk.
 */

/** The first word, for version 2. */
const MAGIC = 0x49534f02;

/** Messages that take a receive may be sent in pieces. */
export const CHUNK_SENDS = 1;
/** READs may be requested from the peer's shim, which answers with WRITEs. */
export const CHUNK_READS = 2;

export type Chunks = ReadonlyMap<number, readonly number[]>;

/** Payloads by kind. Empty for bytes of another version: such a peer is treated as one without a shim. */
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
    if (end > words.length) return new Map();
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

/** The chunks for the shims below. */
export function withoutChunk(chunks: Chunks, kind: number): Uint8Array | null {
  return encodeChunks(new Map([...chunks].filter(([other]) => other !== kind)));
}
