/** Reads a recording entry by entry, from memory. */
import { closeSync, readFileSync } from 'node:fs';
import { FileError } from '../../verbs/errors.ts';
import { openInput, readHeader, type WriterInfo } from '../output.ts';
import * as F from '../record/format.ts';
import { fromJson } from '../values.ts';

export type Entry =
  | { kind: 'call'; name: string; args: string; outcome: { r?: unknown; e?: Record<string, unknown> } }
  | { kind: 'event'; source: F.EventSource; args: unknown[] }
  | { kind: 'post' | 'poll'; words: Uint32Array }
  | { kind: 'data'; mr: number; offsetBytes: number; bytes: Uint8Array }
  | { kind: 'end' };

export class RecordReader {
  readonly path: string;
  readonly header: F.RecordHeader & WriterInfo;
  /** Number of entries consumed so far. */
  taken = 0;
  private readonly bytes: Buffer;
  private at: number;
  private peeked: Entry | null = null;

  /** @throws FileError for a file that is not a recording, has another version, or ends inside an entry */
  constructor(path: string) {
    this.path = path;
    const fd = openInput(path);
    try {
      const { header, endBytes } = readHeader<F.RecordHeader>(
        fd,
        path,
        'recording',
        F.RECORD_MAGIC,
        F.RECORD_VERSION,
      );
      this.header = header;
      this.at = endBytes;
      this.bytes = readFileSync(path);
    } finally {
      closeSync(fd);
    }
    this.check();
  }

  /** The next entry, which is not consumed. Null if the recording ends without an END entry. */
  peek(): Entry | null {
    if (this.peeked === null && this.at < this.bytes.length) this.peeked = this.decode();
    return this.peeked;
  }

  /** Whether an event is next, with or without data before it. */
  get isEventNext(): boolean {
    const { bytes } = this;
    let at = this.at;
    while (at < bytes.length && bytes.readUInt32LE(at) === F.DATA) {
      at += F.ENTRY_BYTES + ((bytes.readUInt32LE(at + 4) + 3) & ~3);
    }
    return at < bytes.length && bytes.readUInt32LE(at) === F.EVENT;
  }

  /** Moves to the next entry. */
  take(): void {
    this.peeked = null;
    const length = this.bytes.readUInt32LE(this.at + 4);
    this.at += F.ENTRY_BYTES + ((length + 3) & ~3);
    this.taken++;
  }

  private check(): void {
    const { bytes, path } = this;
    for (let at = this.at; at < bytes.length; ) {
      if (at + F.ENTRY_BYTES > bytes.length) throw new FileError(`${path}: ends inside an entry`);
      const kind = bytes.readUInt32LE(at);
      const length = bytes.readUInt32LE(at + 4);
      if (kind < F.CALL || kind > F.END) throw new FileError(`${path}: damaged: unknown entry kind ${kind}`);
      at += F.ENTRY_BYTES + ((length + 3) & ~3);
      if (at > bytes.length) throw new FileError(`${path}: ends inside an entry`);
    }
  }

  private decode(): Entry {
    const kind = this.bytes.readUInt32LE(this.at);
    const length = this.bytes.readUInt32LE(this.at + 4);
    const from = this.at + F.ENTRY_BYTES;
    const payload = this.bytes.subarray(from, from + length);
    try {
      return decodeEntry(kind, payload);
    } catch (cause) {
      throw new FileError(`${this.path}: damaged: entry ${this.taken} cannot be decoded`, { cause });
    }
  }
}

function decodeEntry(kind: number, payload: Buffer): Entry {
  if (kind === F.END) return { kind: 'end' };
  if (kind === F.DATA) {
    const [mr, offsetBytes] = wordsOf(payload.subarray(0, F.DATA_WORDS * 4));
    return { kind: 'data', mr, offsetBytes, bytes: payload.subarray(F.DATA_WORDS * 4) };
  }
  if (kind === F.POST || kind === F.POLL) {
    return { kind: kind === F.POST ? 'post' : 'poll', words: wordsOf(payload) };
  }
  const [name, args, outcome] = payload.toString().split('\n');
  if (kind === F.EVENT)
    return { kind: 'event', source: name as F.EventSource, args: fromJson(args) as unknown[] };
  return { kind: 'call', name, args, outcome: fromJson(outcome) as { r?: unknown } };
}

/** Copies the bytes, because words must be aligned. */
function wordsOf(bytes: Buffer): Uint32Array {
  return new Uint32Array(new Uint8Array(bytes).buffer);
}
