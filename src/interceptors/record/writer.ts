/** Writes the entries of a recording, and loses none. */
import { closeSync, writeSync } from 'node:fs';
import { openOutput, releaseOutput } from '../output.ts';
import { toJson } from '../values.ts';
import * as F from './format.ts';

const BUFFER_BYTES = 1 << 20;
const FLUSH_AFTER_MS = 1000;

export class RecordWriter {
  readonly path: string;
  private readonly fd: number;
  private readonly buffer = Buffer.alloc(BUFFER_BYTES);
  private used = 0;
  private closed = false;
  private timer: NodeJS.Timeout | undefined;
  /** The last poll, if it was empty. An identical poll only increases its count. */
  private emptyPoll: Uint32Array | null = null;

  constructor(name: string, header: Buffer) {
    const { fd, path } = openOutput(name);
    this.fd = fd;
    this.path = path;
    writeSync(fd, header);
  }

  call(name: string, args: readonly unknown[], outcome: object): void {
    this.entry(F.CALL, Buffer.from(`${name}\n${toJson(args)}\n${toJson(outcome)}`));
  }

  event(source: F.EventSource, args: readonly unknown[]): void {
    this.entry(F.EVENT, Buffer.from(`${source}\n${toJson(args)}`));
  }

  post(words: Uint32Array): void {
    this.entry(F.POST, bytesOf(words));
  }

  poll(words: Uint32Array): void {
    const { emptyPoll: empty } = this;
    if (words[F.POLL_COUNT] > 0) this.entry(F.POLL, bytesOf(words));
    else if (empty !== null && isSamePoll(empty, words)) empty[F.POLL_REPEAT]++;
    else {
      this.endEmptyPolls();
      this.emptyPoll = words;
    }
  }

  data(mr: number, offsetBytes: number, bytes: Uint8Array): void {
    const head = new Uint32Array([mr, offsetBytes]);
    this.entry(F.DATA, Buffer.concat([bytesOf(head), bytes]));
  }

  close(): void {
    if (this.closed) return;
    this.entry(F.END, new Uint8Array(0));
    this.closed = true;
    this.flush();
    closeSync(this.fd);
    releaseOutput(this.path);
  }

  private endEmptyPolls(): void {
    const { emptyPoll: empty } = this;
    this.emptyPoll = null;
    if (empty !== null) this.entry(F.POLL, bytesOf(empty));
  }

  private entry(kind: number, payload: Uint8Array): void {
    if (this.closed) return;
    if (this.emptyPoll !== null) this.endEmptyPolls();
    const bytes = F.ENTRY_BYTES + ((payload.length + 3) & ~3);
    if (this.used + bytes > BUFFER_BYTES) this.flush();
    const isLarge = bytes > BUFFER_BYTES;
    const target = isLarge ? Buffer.alloc(bytes) : this.buffer;
    const at = isLarge ? 0 : this.used;
    target.fill(0, at + bytes - 4, at + bytes);
    target.writeUInt32LE(kind, at);
    target.writeUInt32LE(payload.length, at + 4);
    target.set(payload, at + F.ENTRY_BYTES);
    if (isLarge) this.write(target, bytes);
    else this.used += bytes;
    if (this.timer === undefined) this.arm();
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.write(this.buffer, this.used);
    this.used = 0;
  }

  /** A write error must not fail the program: the recording ends there, with a warning. */
  private write(bytes: Uint8Array, lengthBytes: number): void {
    try {
      for (let done = 0; done < lengthBytes; ) done += writeSync(this.fd, bytes, done, lengthBytes - done);
    } catch (error) {
      this.closed = true;
      const text = `${this.path}: the recording ends here: ${(error as Error).message}`;
      process.emitWarning(text, { code: 'ISO_RECORD' });
    }
  }

  private arm(): void {
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (!this.closed) this.flush();
    }, FLUSH_AFTER_MS);
    this.timer.unref();
  }
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

function isSamePoll(a: Uint32Array, b: Uint32Array): boolean {
  for (let i = 0; i < F.POLL_COUNT; i++) if (a[i] !== b[i]) return false;
  return true;
}
