/** Registered memory: keys, a synthetic 48-bit address space, bounds and access checks, copies. */

import { IBV_ACCESS_ZERO_BASED } from '../../verbs/constants.ts';
import type { Window } from './memory-windows.ts';

/** A memory region or bound memory window as the NIC sees it. */
export interface Region {
  readonly lkey: number;
  readonly rkey: number;
  /** Index of the host. */
  readonly host: number;
  /** Number of the protection domain. */
  readonly pd: number;
  readonly access: number;
  /** Address of its first byte in work requests. */
  readonly addr: number;
  readonly lengthBytes: number;
  /** The registered range. Its length becomes 0 when the ArrayBuffer is detached. */
  readonly bytes: Uint8Array;
  /** Views of the parts of `bytes` that were copied recently. */
  readonly views: KeptViews;
  /** Memory windows bound to it. */
  windows: number;
  /** The window that this entry belongs to; null for regions. */
  readonly window: Window | null;
}

const PAGE_BYTES = 4096;
/** Start of the synthetic addresses. They look like those of a Linux process, and 0 is never valid. */
const FIRST_ADDR = 0x7f00_0000_0000;
/** Up to this size, copying byte by byte is cheaper than creating a view. */
const SMALL_BYTES = 48;
/** Views that are kept for each region: one for each packet of this size or a larger one, within limits. */
const VIEW_BYTES = 1024;
const LEAST_VIEWS = 256;
const MOST_VIEWS = 65_536;

// Doubles of a row of RegionTable: address and length of the region, and where it begins in its buffer.
const ROW_DOUBLES = 8;
const ADDR = 0;
const LENGTH = 1;
const START = 2;
// Words of a row; the name is that of the region, also for a window onto it.
const ROW_WORDS = 16;
const LKEY = 6;
const RKEY = 7;
const HOST = 8;
const PD = 9;
const ACCESS = 10;
const NAME = 11;

export class RegionTable {
  /**
   * Indexed by key >> 8. The low byte of a key holds a generation and distinguishes lkey (even) from rkey
   * (odd).
   */
  private readonly regions: (Region | undefined)[] = [undefined];
  /** What a check of an access reads of each region: a row by index, in one cache line. */
  private doubles = new Float64Array(16 * ROW_DOUBLES);
  private words = new Int32Array(this.doubles.buffer);
  private readonly free: number[] = [];
  private readonly generations: number[] = [0];
  private readonly bases = new WeakMap<ArrayBuffer | SharedArrayBuffer, number>();
  private readonly nextAddr = new Float64Array([FIRST_ADDR]);
  live = 0;
  /** Changes whenever a key opens something else than before. */
  version = 0;
  /**
   * [0] start of the range that local() and remote() check. An array, because V8 allocates a double passed to
   * a function.
   */
  readonly from = new Float64Array(1);
  /** For position(): [0] where the range begins in its buffer. */
  readonly start = new Float64Array(1);
  private readonly onCountChange: (region: Region, sign: number) => void;
  /** Whether bytes are copied, so that each access must find its buffer attached. */
  private readonly copies: boolean;

  /**
   * `onCountChange` is called for each region registered (1) or removed (-1). `copies`: whether local() and remote() refuse
   * memory that was detached since its request was posted.
   */
  constructor(onCountChange: (region: Region, sign: number) => void = () => {}, copies = true) {
    this.onCountChange = onCountChange;
    this.copies = copies;
  }

  /** The address of a buffer, which is the same for every registration of it. */
  addressOf(memory: ArrayBuffer | SharedArrayBuffer): number {
    let base = this.bases.get(memory);
    if (base === undefined) {
      base = this.nextAddr[0];
      // One unmapped page follows every buffer, so that an overrun never reaches the next one.
      this.nextAddr[0] = base + Math.ceil(memory.byteLength / PAGE_BYTES + 1) * PAGE_BYTES;
      this.bases.set(memory, base);
    }
    return base;
  }

  add(
    host: number,
    pd: number,
    memory: ArrayBuffer | SharedArrayBuffer,
    byteOffset: number,
    lengthBytes: number,
    access: number,
  ): Region {
    const key = this.takeKey();
    const region = this.make(key, host, pd, memory, byteOffset, lengthBytes, access);
    this.put(key >>> 8, region);
    this.live++;
    this.onCountChange(region, 1);
    return region;
  }

  /** Replaces a region in its table entry. New keys are issued; the old ones no longer give access. */
  replace(
    old: Region,
    pd: number,
    memory: ArrayBuffer | SharedArrayBuffer,
    byteOffset: number,
    lengthBytes: number,
    access: number,
  ): Region {
    const index = old.lkey >>> 8;
    const region = this.make(this.keyAt(index), old.host, pd, memory, byteOffset, lengthBytes, access);
    this.put(index, region);
    this.onCountChange(old, -1);
    this.onCountChange(region, 1);
    return region;
  }

  /** Issues a new even key. Its index stays in use until releaseKey(). */
  takeKey(): number {
    // Indexes are reused late, so that a stale key stays invalid for long.
    return this.keyAt(
      (this.free.length > 64 ? this.free.shift() : undefined) ?? this.regions.push(undefined) - 1,
    );
  }

  releaseKey(key: number): void {
    this.put(key >>> 8, undefined);
    this.free.push(key >>> 8);
  }

  /** Sets what the keys of this index open. */
  set(key: number, region: Region | undefined): void {
    this.put(key >>> 8, region);
  }

  /** The region with this lkey. */
  get(lkey: number): Region | undefined {
    const region = this.regions[lkey >>> 8];
    return region?.lkey === lkey ? region : undefined;
  }

  /** The entry at a key's index, whether or not the key itself is current. */
  at(key: number): Region | undefined {
    return this.regions[key >>> 8];
  }

  private put(index: number, region: Region | undefined): void {
    this.regions[index] = region;
    this.version = (this.version + 1) & 0x3fffffff;
    if (index * ROW_DOUBLES >= this.doubles.length) this.grow(index);
    const { doubles, words } = this;
    const at = index * ROW_WORDS;
    if (region === undefined) {
      words[at + LKEY] = words[at + RKEY] = -1;
      return;
    }
    doubles[index * ROW_DOUBLES + ADDR] = region.addr;
    doubles[index * ROW_DOUBLES + LENGTH] = region.lengthBytes;
    doubles[index * ROW_DOUBLES + START] = region.bytes.byteOffset;
    words[at + LKEY] = region.lkey;
    words[at + RKEY] = region.rkey;
    words[at + HOST] = region.host;
    words[at + PD] = region.pd;
    words[at + ACCESS] = region.access;
    words[at + NAME] = (region.window?.region ?? region).lkey >>> 1;
  }

  private grow(index: number): void {
    const doubles = new Float64Array(Math.max(this.doubles.length * 2, (index + 1) * ROW_DOUBLES));
    doubles.set(this.doubles);
    this.doubles = doubles;
    this.words = new Int32Array(doubles.buffer);
  }

  /**
   * The name of the region that a key (a remote one with `isRemote`) opens for `length` bytes at from[0], for translating
   * them; start[0] becomes their position in the buffer. -1: the key does not open them.
   */
  position(key: number, isRemote: boolean, length: number): number {
    const index = key >>> 8;
    const { doubles, words, regions } = this;
    const at = index * ROW_WORDS;
    if (index >= regions.length || words[at + (isRemote ? RKEY : LKEY)] !== (key | 0)) return -1;
    const offset = this.from[0] - doubles[index * ROW_DOUBLES + ADDR];
    if (!(offset >= 0 && offset + length <= doubles[index * ROW_DOUBLES + LENGTH])) return -1;
    this.start[0] = doubles[index * ROW_DOUBLES + START] + offset;
    return words[at + NAME];
  }

  private keyAt(index: number): number {
    const generation = ((this.generations[index] ?? -1) + 1) & 0x7f;
    this.generations[index] = generation;
    return (index << 8) | (generation << 1);
  }

  private make(
    lkey: number,
    host: number,
    pd: number,
    memory: ArrayBuffer | SharedArrayBuffer,
    byteOffset: number,
    lengthBytes: number,
    access: number,
  ): Region {
    const bytes = new Uint8Array(memory, byteOffset, lengthBytes);
    return {
      lkey,
      rkey: lkey | 1,
      host,
      pd,
      access,
      addr: (access & IBV_ACCESS_ZERO_BASED) !== 0 ? 0 : this.addressOf(memory) + byteOffset,
      lengthBytes,
      bytes,
      views: keptViewsOf(bytes),
      windows: 0,
      window: null,
    };
  }

  remove(region: Region): void {
    if (this.regions[region.lkey >>> 8] !== region) return;
    this.releaseKey(region.lkey);
    this.live--;
    this.onCountChange(region, -1);
  }

  /** Whether this lkey names live registered memory whose buffer has been detached. */
  isDetached(lkey: number): boolean {
    const region = this.regions[lkey >>> 8];
    return region !== undefined && region.lkey === lkey && region.bytes.length !== region.lengthBytes;
  }

  /** The region that an lkey opens for `length` bytes at from[0] with this access, or undefined. */
  local(host: number, pd: number, lkey: number, length: number, access: number): Region | undefined {
    return this.opened(lkey, LKEY, host, pd, length, access);
  }

  /** The region that an rkey opens for `length` bytes at from[0] with this access, or undefined. */
  remote(host: number, pd: number, rkey: number, length: number, access: number): Region | undefined {
    return this.opened(rkey, RKEY, host, pd, length, access);
  }

  private opened(
    key: number,
    side: number,
    host: number,
    pd: number,
    length: number,
    access: number,
  ): Region | undefined {
    const index = key >>> 8;
    const { doubles, words, regions } = this;
    if (index >= regions.length) return undefined;
    const at = index * ROW_WORDS;
    if (words[at + side] !== (key | 0)) return undefined;
    const offset = this.from[0] - doubles[index * ROW_DOUBLES + ADDR];
    const allowed =
      words[at + HOST] === host &&
      words[at + PD] === pd &&
      (words[at + ACCESS] & access) === access &&
      offset >= 0 &&
      offset + length <= doubles[index * ROW_DOUBLES + LENGTH];
    if (!allowed) return undefined;
    const region = regions[index];
    return this.copies && region !== undefined && region.bytes.length !== region.lengthBytes
      ? undefined
      : region;
  }
}

/**
 * Views of an array, kept by where they begin, so that copying from the same places again allocates nothing. A new view
 * replaces the kept one at the same index, which may begin elsewhere: the index depends on some bits of the position only.
 */
export class KeptViews {
  private readonly bytes: Uint8Array;
  /** A power of two, at least 16. */
  private readonly count: number;
  private views: (Uint8Array | undefined)[] = [];

  constructor(bytes: Uint8Array, count: number) {
    this.bytes = bytes;
    this.count = count;
  }

  /** The view of `length` bytes from `at` on. */
  view(at: number, length: number): Uint8Array {
    const { bytes, count } = this;
    // Neighbours begin 4096 bytes or a smaller power of two apart, or a little more if headers lie between them.
    const place = ((at >>> 12) + ((at >>> 8) & 15) * (count >>> 4)) & (count - 1);
    const kept = this.views[place];
    if (kept !== undefined && kept.length === length && kept.byteOffset === bytes.byteOffset + at)
      return kept;
    if (this.views.length === 0) this.views = new Array(count).fill(undefined);
    const made = bytes.subarray(at, at + length);
    this.views[place] = made;
    return made;
  }
}

/** The kept views of a region: enough to send the whole region again and again. */
export function keptViewsOf(bytes: Uint8Array): KeptViews {
  const { length } = bytes;
  let count = LEAST_VIEWS;
  while (count < MOST_VIEWS && count * VIEW_BYTES < length) count *= 2;
  return new KeptViews(bytes, count);
}

/** Copies bytes of a region to an array. */
export function copyFromRegion(
  region: Region,
  from: number,
  to: Uint8Array,
  toAt: number,
  length: number,
): void {
  if (length > SMALL_BYTES) to.set(region.views.view(from, length), toAt);
  else for (let i = 0; i < length; i++) to[toAt + i] = region.bytes[from + i];
}

/** Copies bytes between two arrays. */
export function copyBytes(
  to: Uint8Array,
  toAt: number,
  from: Uint8Array,
  fromAt: number,
  length: number,
): void {
  if (length > SMALL_BYTES) {
    to.set(from.subarray(fromAt, fromAt + length), toAt);
    return;
  }
  for (let i = 0; i < length; i++) to[toAt + i] = from[fromAt + i];
}
