/**
 * Records in memory that the peer's shim reads or writes, in 32-bit words. They end in a check word, because both sides
 * may access them at the same time.
 */

/**
 * One posted receive: number, address (two words), length, key, -, -, check. A key of 0 means that it accepts no
 * pieces.
 */
export const ENTRY_WORDS = 8;
export const ENTRY_BYTES = ENTRY_WORDS * 4;
export const ENTRY_NUMBER = 0;
export const ENTRY_LO = 1;
export const ENTRY_HI = 2;
export const ENTRY_LENGTH = 3;
export const ENTRY_RKEY = 4;
const ENTRY_CHECK = 7;

/** The length of a message that arrived in pieces: number, bytes, -, check. */
export const NOTICE_WORDS = 4;
export const NOTICE_BYTES = NOTICE_WORDS * 4;
const NOTICE_CHECK = 3;

/** Not 0, so that unwritten memory is not a valid record. */
const START = 0x9e3779b9 | 0;

function mix(hash: number, word: number): number {
  const h = Math.imul(hash ^ word, 0x85ebca6b);
  return h ^ (h >>> 15);
}

function entryCheck(words: Uint32Array, at: number): number {
  let hash = START;
  for (let i = 0; i <= ENTRY_RKEY; i++) hash = mix(hash, words[at + i]);
  return hash >>> 0;
}

export function sealEntry(words: Uint32Array, at: number): void {
  words[at + ENTRY_CHECK] = entryCheck(words, at);
}

/** Whether the words at `at` are the complete entry of this receive. */
export function isEntry(words: Uint32Array, at: number, number: number): boolean {
  return words[at] === number >>> 0 && words[at + ENTRY_CHECK] === entryCheck(words, at);
}

export function writeNotice(words: Uint32Array, at: number, number: number, bytes: number): void {
  words[at] = number;
  words[at + 1] = bytes;
  words[at + 2] = 0;
  words[at + NOTICE_CHECK] = mix(mix(START, number), bytes);
}

/** The length that a notice gives for this receive, or -1. */
export function noticeBytes(words: Uint32Array, at: number, number: number): number {
  const bytes = words[at + 1];
  if (words[at] !== number >>> 0) return -1;
  return words[at + NOTICE_CHECK] === mix(mix(START, number), bytes) >>> 0 ? bytes : -1;
}
