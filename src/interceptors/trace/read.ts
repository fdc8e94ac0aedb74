/** Reads trace files, entry by entry. */
import { closeSync, readSync } from 'node:fs';
import { FileError } from '../../verbs/errors.ts';
import { openInput, readHeader, type WriterInfo } from '../output.ts';
import * as F from './format.ts';
import { describeEntry, type TraceRecord } from './records.ts';

const BLOCK_BYTES = 1 << 20;
const MAX_ENTRY_WORDS = 1 << 18;

/** A trace that is open for reading. */
export interface OpenTrace {
  readonly header: F.TraceHeader & WriterInfo;
  /** The records, in order. @throws FileError where the file is damaged */
  records(): Generator<TraceRecord>;
}

/**
 * Opens a trace. Its records are read on demand.
 * @throws FileError for a file that is not a trace, or has another version
 */
export function readTrace(path: string): OpenTrace {
  const fd = openInput(path);
  try {
    const { header, endBytes } = readHeader<F.TraceHeader>(fd, path, 'trace', F.TRACE_MAGIC, F.TRACE_VERSION);
    return { header, records: () => records(path, endBytes) };
  } finally {
    closeSync(fd);
  }
}

function* records(path: string, startBytes: number): Generator<TraceRecord> {
  const fd = openInput(path);
  try {
    let words = new Uint32Array(0);
    let positionBytes = startBytes;
    for (;;) {
      const bytes = Buffer.alloc(words.length * 4 + BLOCK_BYTES);
      bytes.set(new Uint8Array(words.buffer, words.byteOffset, words.byteLength));
      const got = readSync(fd, bytes, words.length * 4, BLOCK_BYTES, positionBytes);
      positionBytes += got;
      const isLast = got === 0;
      words = new Uint32Array(bytes.buffer, bytes.byteOffset, words.length + (got >> 2));
      let at = 0;
      for (;;) {
        const length = wholeEntry(words, at, path);
        if (length === 0) break;
        yield* describeEntry(words.subarray(at, at + length));
        at += length;
      }
      words = words.slice(at);
      if (!isLast) continue;
      if (words.length > 0 || got % 4 !== 0) throw new FileError(`${path}: ends inside an entry`);
      return;
    }
  } finally {
    closeSync(fd);
  }
}

/** Length in words of the entry at `at`, or 0 if the entry is incomplete. */
function wholeEntry(words: Uint32Array, at: number, path: string): number {
  if (words.length - at < F.ENTRY_WORDS) return 0;
  const kind = words[at];
  const length = words[at + F.WORDS];
  if (
    kind < F.POST_SEND ||
    kind > F.END ||
    length < F.ENTRY_WORDS ||
    length > MAX_ENTRY_WORDS + F.ENTRY_WORDS
  )
    throw new FileError(`${path}: damaged: invalid entry of kind ${kind} with ${length} words`);
  return at + length <= words.length ? length : 0;
}
