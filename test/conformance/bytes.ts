/** Initial contents of memory, and short digests of the final contents, made cheaply for thousands of programs. */
import { createHash } from 'node:crypto';
import type { MrInfo } from '../../src/verbs/index.ts';

const patterns = new Map<number, Uint8Array>();

/** Bytes that differ by offset and by salt. */
export function pattern(lengthBytes: number, salt: number): Uint8Array {
  let whole = patterns.get(salt);
  if (whole === undefined || whole.length < lengthBytes) {
    whole = Uint8Array.from({ length: lengthBytes }, (_, i) => (i * 31 + (i >> 8) * 7 + salt) & 255);
    patterns.set(salt, whole);
  }
  return whole.subarray(0, lengthBytes);
}

/** The first bytes of a region as one short text. */
export function digest({ memory, byteOffset }: MrInfo, lengthBytes: number): string {
  return createHash('sha1')
    .update(new Uint8Array(memory, byteOffset, lengthBytes))
    .digest('hex');
}
