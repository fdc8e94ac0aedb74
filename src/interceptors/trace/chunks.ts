/** Bounded memory of a trace, and its way into the file. */
import { close, closeSync, write, writeSync } from 'node:fs';
import { openOutput, releaseOutput } from '../output.ts';
import * as F from './format.ts';

const MAX_CHUNK_BYTES = 1 << 20;
const MIN_CHUNKS = 2;
const FLUSH_AFTER_MS = 1000;

/** The behavior when the program is faster than the file. */
export type WhenFull = 'wait' | 'drop' | 'last';

class Chunk {
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;
  usedWords = 0;
  /** Requests and completions in this chunk. */
  slots = 0;
  positionBytes = 0;

  constructor(words: number) {
    this.words = new Uint32Array(words);
    this.bytes = new Uint8Array(this.words.buffer);
  }
}

export class ChunkWriter {
  readonly path: string;
  readonly chunkWords: number;
  words: Uint32Array;
  private readonly fd: number;
  private readonly full: WhenFull;
  private readonly spare: Chunk[] = [];
  /** Chunks that may still be allocated. */
  private chunksLeft: number;
  /** Filled chunks, oldest first. */
  private readonly queue: Chunk[] = [];
  /** The chunk that a background write is using. Its memory must not change before the write ends. */
  private inFlight: Chunk | null = null;
  private current: Chunk;
  private endBytes = 0;
  /** Lost requests and completions: since the last LOST entry, and in total. */
  private unreported = 0;
  private lost = 0;
  private closed = false;
  private warned = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(name: string, header: Buffer, bufferBytes: number, full: WhenFull) {
    const { fd, path } = openOutput(name);
    this.fd = fd;
    this.path = path;
    this.full = full;
    this.chunkWords = Math.min(MAX_CHUNK_BYTES, bufferBytes / 4) >> 2;
    this.chunksLeft = Math.max(MIN_CHUNKS, Math.floor(bufferBytes / (this.chunkWords * 4))) - 1;
    this.current = new Chunk(this.chunkWords);
    this.words = this.current.words;
    this.writeNow(header, 0, header.length, 0);
    this.endBytes = header.length;
  }

  /** Requests and completions lost so far. */
  get lostSlots(): number {
    return this.lost;
  }

  /**
   * Begins an entry of `entryWords` words with `slots` requests or completions. Returns its index in `words`, or -1
   * if there is no room and the entry is lost.
   */
  begin(kind: number, entryWords: number, slots: number, nowNs: Float64Array): number {
    let { current } = this;
    if (current.usedWords + entryWords > this.chunkWords - F.ENTRY_WORDS || this.unreported > 0) {
      if (!this.hasRoom(entryWords, nowNs)) {
        this.unreported += slots;
        this.lost += slots;
        return -1;
      }
      current = this.current;
    }
    const at = current.usedWords;
    current.usedWords = (at + entryWords) | 0;
    current.slots = (current.slots + slots) | 0;
    const { words } = current;
    words[at] = kind;
    words[at + F.WORDS] = entryWords;
    words[at + F.TIME_LO] = nowNs[0];
    words[at + F.TIME_HI] = nowNs[0] / 4294967296;
    if (this.timer === undefined && this.full !== 'last') this.arm();
    return at;
  }

  /** Writes all chunks and closes the file. Later entries are lost. */
  close(nowNs: Float64Array): void {
    if (this.closed) return;
    clearTimeout(this.timer);
    this.closed = true;
    this.enqueueCurrent();
    if (this.full === 'last' && this.lost > 0) this.writeMark(F.LOST, this.lost, nowNs);
    // The process may end before a background write does: write the chunk again, to the same position.
    const { inFlight } = this;
    if (inFlight !== null)
      this.writeNow(inFlight.bytes, 0, inFlight.usedWords * 4, inFlight.positionBytes, inFlight);
    while (this.queue.length > 0) this.writeOldest();
    this.writeMark(F.END, this.lost, nowNs);
    releaseOutput(this.path);
    // A background write still uses the descriptor; its callback closes it.
    if (inFlight === null) closeSync(this.fd);
  }

  private hasRoom(entryWords: number, nowNs: Float64Array): boolean {
    if (this.closed) return false;
    if (this.current.usedWords + entryWords > this.chunkWords - F.ENTRY_WORDS && !this.nextChunk())
      return false;
    if (this.unreported > 0) {
      const { words } = this.current;
      const at = this.current.usedWords;
      fillMark(words, at, F.LOST, this.unreported, nowNs);
      this.current.usedWords += F.ENTRY_WORDS;
      this.unreported = 0;
    }
    return true;
  }

  /** Moves on to an empty chunk; returns false if there is none. */
  private nextChunk(): boolean {
    if (this.spare.length === 0 && this.chunksLeft > 0) {
      this.chunksLeft--;
      this.spare.push(new Chunk(this.chunkWords));
    }
    if (this.spare.length === 0) {
      if (this.full === 'drop') return false;
      if (this.full === 'wait') this.writeOldest();
      else this.dropOldest();
    }
    this.enqueueCurrent();
    this.current = this.spare.pop()!;
    this.words = this.current.words;
    if (this.full !== 'last') this.writeInBackground();
    return true;
  }

  private enqueueCurrent(): void {
    if (this.current.usedWords > 0) this.queue.push(this.current);
    else this.spare.push(this.current);
  }

  private dropOldest(): void {
    const oldest = this.queue.shift()!;
    this.lost += oldest.slots;
    this.recycle(oldest);
  }

  /** Starts a background write of the oldest chunk. */
  private writeInBackground(): void {
    if (this.inFlight !== null) return;
    const chunk = this.queue.shift();
    if (chunk === undefined) return;
    this.inFlight = chunk;
    const { usedWords, positionBytes } = this.assignPosition(chunk);
    write(this.fd, chunk.bytes, 0, usedWords * 4, positionBytes, (error, written) => {
      this.inFlight = null;
      if (this.closed) {
        close(this.fd, () => {});
        return;
      }
      if (error !== null) this.failed(error, chunk);
      else if (written < usedWords * 4)
        this.writeNow(chunk.bytes, written, usedWords * 4, positionBytes, chunk);
      this.recycle(chunk);
      this.writeInBackground();
    });
  }

  /** Writes one chunk synchronously, for programs that block the event loop. */
  private writeOldest(): void {
    const chunk = this.queue.shift()!;
    const { usedWords, positionBytes } = this.assignPosition(chunk);
    this.writeNow(chunk.bytes, 0, usedWords * 4, positionBytes, chunk);
    this.recycle(chunk);
  }

  private assignPosition(chunk: Chunk): Chunk {
    chunk.positionBytes = this.endBytes;
    this.endBytes += chunk.usedWords * 4;
    return chunk;
  }

  private recycle(chunk: Chunk): void {
    chunk.usedWords = 0;
    chunk.slots = 0;
    this.spare.push(chunk);
  }

  private writeMark(kind: number, count: number, nowNs: Float64Array): void {
    const words = new Uint32Array(F.ENTRY_WORDS);
    fillMark(words, 0, kind, count, nowNs);
    this.writeNow(new Uint8Array(words.buffer), 0, F.ENTRY_WORDS * 4, this.endBytes);
    this.endBytes += F.ENTRY_WORDS * 4;
  }

  private writeNow(bytes: Uint8Array, from: number, to: number, positionBytes: number, chunk?: Chunk): void {
    try {
      for (let done = from; done < to; )
        done += writeSync(this.fd, bytes, done, to - done, positionBytes + done);
    } catch (error) {
      this.failed(error as Error, chunk);
    }
  }

  /** A write error must not fail the program: warn once, and keep counting losses. */
  private failed(error: Error, chunk?: Chunk): void {
    this.lost += chunk?.slots ?? 0;
    if (this.warned) return;
    this.warned = true;
    process.emitWarning(`${this.path}: the trace is incomplete: ${error.message}`, { code: 'ISO_TRACE' });
  }

  /** Starts a timer that flushes the current chunk, in case the program makes few calls. */
  private arm(): void {
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.closed || this.spare.length + this.chunksLeft === 0) return;
      this.nextChunk();
    }, FLUSH_AFTER_MS);
    this.timer.unref();
  }
}

function fillMark(words: Uint32Array, at: number, kind: number, count: number, nowNs: Float64Array): void {
  words.fill(0, at, at + F.ENTRY_WORDS);
  words[at] = kind;
  words[at + F.WORDS] = F.ENTRY_WORDS;
  words[at + F.TIME_LO] = nowNs[0];
  words[at + F.TIME_HI] = nowNs[0] / 4294967296;
  words[at + F.A] = count;
  words[at + F.B] = count / 4294967296;
}
