/** Memory of a trace, bounded, and its way into the file. */
import { close, closeSync, write, writeSync } from 'node:fs';
import { openOutput, releaseOutput } from '../output.ts';
import * as F from './format.ts';

const MAX_CHUNK_BYTES = 1 << 20;
const MIN_CHUNKS = 2;
const FLUSH_AFTER_MS = 1000;

/** What happens when the program is faster than the file. */
export type WhenFull = 'wait' | 'drop' | 'last';

class Chunk {
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;
  usedWords = 0;
  /** Requests and completions in it. */
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
  /** Chunks that may still be made. */
  private chunksLeft: number;
  /** Filled, in order. */
  private readonly queue: Chunk[] = [];
  /** On its way into the file: its memory is not ours until it is there. */
  private inFlight: Chunk | null = null;
  private current: Chunk;
  private endBytes = 0;
  /** Not in the file: since the last LOST entry, and in all. */
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

  /** Requests and completions that were lost. */
  get lostSlots(): number {
    return this.lost;
  }

  /**
   * Begins an entry of so many words, with so many requests or completions; its first word's place in
   * `words`, or -1 when there is no room and it is lost.
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

  /** Writes what there is and closes the file; nothing is logged from then on. */
  close(nowNs: Float64Array): void {
    if (this.closed) return;
    clearTimeout(this.timer);
    this.closed = true;
    this.enqueueCurrent();
    if (this.full === 'last' && this.lost > 0) this.writeMark(F.LOST, this.lost, nowNs);
    // The process may end before a write that is under way: it is done again, to the same place.
    const { inFlight: flying } = this;
    if (flying !== null) this.writeNow(flying.bytes, 0, flying.usedWords * 4, flying.positionBytes, flying);
    while (this.queue.length > 0) this.writeOldest();
    this.writeMark(F.END, this.lost, nowNs);
    releaseOutput(this.path);
    // A write that is under way holds the descriptor: its callback closes it.
    if (flying === null) closeSync(this.fd);
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

  /** The current chunk is full: on to an empty one. */
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

  /** Starts writing the oldest chunk, beside the program. */
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

  /** Writes one chunk at once, for a program that never lets the event loop turn. */
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

  /** A trace never fails the program: it says so once, and goes on counting what is lost. */
  private failed(error: Error, chunk?: Chunk): void {
    this.lost += chunk?.slots ?? 0;
    if (this.warned) return;
    this.warned = true;
    process.emitWarning(`${this.path}: the trace is not complete: ${error.message}`, { code: 'ISO_TRACE' });
  }

  /** A program that does little sees what it did in the file soon. */
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
