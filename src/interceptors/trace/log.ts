/** Writes trace entries: raw copies of requests, completions and calls. */
import * as L from '../../verbs/layout.ts';
import { SLOT_WORDS } from '../../verbs/layout.ts';
import type { LayerCounters, UncutRequest } from '../../verbs/provider.ts';
import { type KnownRing, Rings } from '../rings.ts';
import { toJson } from '../values.ts';
import type { ChunkWriter } from './chunks.ts';
import * as F from './format.ts';
import { COUNTERS, UNCUT } from './records.ts';

const MAX_SLOTS = 512;
const MAX_JSON_BYTES = 8192;

export class TraceLog {
  readonly rings = new Rings();
  private readonly chunks: ChunkWriter;
  private readonly clock: () => number;
  /** An array, because passing a double between functions would allocate memory each time. */
  private readonly nowNs = new Float64Array(1);
  private emptyPolls = 0;
  /** Whether a post or poll is in progress, and the requests that went whole within it. */
  private isInCall = false;
  private readonly uncutRequests: UncutRequest[] = [];

  constructor(chunks: ChunkWriter, clock: () => number) {
    this.chunks = chunks;
    this.clock = clock;
  }

  /** Logs a post that accepted `taken` requests. The first refused one is logged with its reason. */
  posted(kind: number, queue: number, handle: number, start: number, count: number, taken: number): void {
    this.nowNs[0] = this.clock();
    const ring = this.rings.wr(handle);
    if (ring === undefined) {
      this.head(kind, queue, taken, 0, 0);
      return;
    }
    const isShort = taken < count;
    const { words } = ring;
    const why = isShort ? words[L.HDR_ERRNO] | (words[L.HDR_REASON] << 12) : 0;
    const inRing = Math.max(0, Math.min(isShort ? taken + 1 : count, ring.info.capacity - start));
    if (inRing === 0) {
      this.head(kind, queue, 0, 0, why);
      return;
    }
    const extWords = ring.extWords > 0 && hasLongList(words, start, inRing) ? ring.extWords : 0;
    const slotWords = SLOT_WORDS + extWords;
    const run = Math.min(MAX_SLOTS, Math.floor((this.chunks.chunkWords - 4 * F.ENTRY_WORDS) / slotWords));
    for (let done = 0; done < inRing; done += run) {
      const n = Math.min(run, inRing - done);
      const at = this.chunks.begin(kind, F.ENTRY_WORDS + n * slotWords, n, this.nowNs);
      if (at < 0) continue;
      const to = this.chunks.words;
      to[at + F.HANDLE] = queue;
      to[at + F.A] = Math.min(n, taken - done);
      to[at + F.B] = n;
      to[at + F.C] = (taken - done < n ? why : 0) | (extWords << 20);
      ring.copySlots(start + done, n, to, at + F.ENTRY_WORDS);
      if (extWords > 0) ring.copyExts(start + done, n, to, at + F.ENTRY_WORDS + n * SLOT_WORDS);
    }
  }

  polled(cq: number, handle: number, start: number, n: number): void {
    if (n === 0) {
      this.emptyPolls = (this.emptyPolls + 1) | 0;
      return;
    }
    this.nowNs[0] = this.clock();
    const ring = this.rings.wc(handle);
    for (let done = 0; done < n && ring !== undefined; done += MAX_SLOTS)
      this.completions(cq, ring, start + done, Math.min(MAX_SLOTS, n - done));
  }

  private completions(cq: number, ring: KnownRing, start: number, n: number): void {
    const at = this.chunks.begin(F.POLL, F.ENTRY_WORDS + n * SLOT_WORDS, n, this.nowNs);
    if (at < 0) return;
    const to = this.chunks.words;
    to[at + F.HANDLE] = cq;
    to[at + F.A] = this.emptyPolls;
    to[at + F.B] = n;
    to[at + F.C] = 0;
    this.emptyPolls = 0;
    ring.copySlots(start, n, to, at + F.ENTRY_WORDS);
  }

  /** Logs an entry without payload. */
  mark(kind: number, handle: number, a: number, b: number): void {
    this.nowNs[0] = this.clock();
    this.head(kind, handle, a, b, 0);
  }

  control(verb: string, args: readonly unknown[], result: unknown, error: unknown): void {
    const outcome = error === undefined ? { result } : { error: errorFields(error) };
    let bytes = Buffer.from(toJson({ verb, args, ...outcome }));
    if (bytes.length > MAX_JSON_BYTES) bytes = Buffer.from(toJson({ verb, args: ['...'] }));
    this.json(bytes, typeof args[0] === 'number' ? args[0] : 0);
  }

  /** A post or poll begins: its entry precedes those of the requests that go whole within it. */
  enter(): void {
    this.isInCall = true;
  }

  /** The call has been logged: writes the entries of the requests that went whole within it. */
  leave(): void {
    this.isInCall = false;
    if (this.uncutRequests.length === 0) return;
    for (const request of this.uncutRequests.splice(0)) this.uncut(request);
  }

  /** Logs a held request that a policy would have cut, but that went whole. */
  uncut(request: UncutRequest): void {
    if (this.isInCall) {
      this.uncutRequests.push(request);
      return;
    }
    const { qp, ...result } = request;
    this.json(Buffer.from(toJson({ verb: UNCUT, args: [], result })), qp);
  }

  /** Logs how a shim has treated requests so far. */
  treatment({ name, seen, split, held, emulated, uncut }: LayerCounters): void {
    const result = { seen, split, held, emulated, uncut };
    this.json(Buffer.from(toJson({ verb: COUNTERS, args: [name], result })), 0);
  }

  /** Writes an entry with JSON, about the object with this handle. */
  private json(bytes: Buffer, handle: number): void {
    this.nowNs[0] = this.clock();
    const payload = (bytes.length + 3) >> 2;
    const at = this.chunks.begin(F.CONTROL, F.ENTRY_WORDS + payload, 1, this.nowNs);
    if (at < 0) return;
    const { words } = this.chunks;
    words[at + F.HANDLE] = handle;
    words[at + F.A] = 0;
    words[at + F.B] = bytes.length;
    words[at + F.C] = 0;
    new Uint8Array(words.buffer).set(bytes, (at + F.ENTRY_WORDS) * 4);
  }

  close(): void {
    this.nowNs[0] = this.clock();
    this.chunks.close(this.nowNs);
  }

  private head(kind: number, handle: number, a: number, b: number, c: number): void {
    const at = this.chunks.begin(kind, F.ENTRY_WORDS, 1, this.nowNs);
    if (at < 0) return;
    const { words } = this.chunks;
    words[at + F.HANDLE] = handle;
    words[at + F.A] = a;
    words[at + F.B] = b;
    words[at + F.C] = c;
  }
}

/** Whether any of the requests has elements in its extension. */
function hasLongList(words: Uint32Array, start: number, count: number): boolean {
  for (let i = start; i < start + count; i++) {
    if (words[L.slotAt(i) + L.WR_OP] >>> 16 > 2) return true;
  }
  return false;
}

function errorFields(error: unknown): object {
  const { code, message } = error as { code?: string; message?: string };
  return { code, message: message ?? String(error) };
}
