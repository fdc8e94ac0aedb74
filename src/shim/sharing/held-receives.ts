/** The receives of one connection that wait in the shim for messages that carriers bring. */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_WC_LOC_LEN_ERR,
  IBV_WC_LOC_PROT_ERR,
  IBV_WC_SUCCESS,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Region } from '../peer/regions.ts';

const TWO32 = 4294967296;
/** wr_id, and the number of elements. */
const HEAD_WORDS = 3;

/** The region of a local key; undefined if the shim does not know it. */
export type FindRegion = (pd: number, lkey: number) => Region | undefined;

export class HeldReceives {
  count = 0;
  readonly sges: number;
  private readonly depth: number;
  private readonly pd: number;
  private readonly find: FindRegion;
  private readonly stride: number;
  private readonly rows: Uint32Array;
  private head = 0;

  constructor(fields: { pd: number; depth: number; sges: number }, find: FindRegion) {
    this.pd = fields.pd;
    this.sges = fields.sges;
    this.depth = 2 ** Math.ceil(Math.log2(fields.depth));
    this.find = find;
    this.stride = HEAD_WORDS + fields.sges * L.SGE_WORDS;
    this.rows = new Uint32Array(this.depth * this.stride);
  }

  /** Copies receive `index` of a ring. */
  push(words: Uint32Array, index: number, capacity: number, extBytes: number): void {
    const to = ((this.head + this.count) & (this.depth - 1)) * this.stride;
    const from = L.slotAt(index);
    const ext = L.extAt(index, capacity, extBytes);
    const { rows } = this;
    const sges = words[from + L.WR_OP] >>> 16;
    rows[to] = words[from];
    rows[to + 1] = words[from + 1];
    rows[to + 2] = sges;
    for (let i = 0; i < sges * L.SGE_WORDS; i++) {
      const isInSlot = i < 2 * L.SGE_WORDS;
      rows[to + HEAD_WORDS + i] = words[isInSlot ? from + L.WR_SGE0 + i : ext + i - 2 * L.SGE_WORDS];
    }
    this.count++;
  }

  /** Moves the oldest receives into the first slots of a ring, as many as fit. Returns how many. */
  moveTo(words: Uint32Array, capacity: number, extBytes: number, isEmpty: boolean): number {
    const n = Math.min(capacity, this.count);
    for (let index = 0; index < n; index++) {
      const from = (this.head & (this.depth - 1)) * this.stride;
      const to = L.slotAt(index);
      const ext = L.extAt(index, capacity, extBytes);
      const sges = isEmpty ? 0 : this.rows[from + 2];
      words[to] = this.rows[from];
      words[to + 1] = this.rows[from + 1];
      words[to + L.WR_OP] = sges << 16;
      for (let i = 0; i < sges * L.SGE_WORDS; i++) {
        const isInSlot = i < 2 * L.SGE_WORDS;
        words[isInSlot ? to + L.WR_SGE0 + i : ext + i - 2 * L.SGE_WORDS] = this.rows[from + HEAD_WORDS + i];
      }
      this.drop();
    }
    return n;
  }

  /** Writes the wr_id of the oldest receive to a completion. */
  writeId(words: Uint32Array, at: number): void {
    const from = (this.head & (this.depth - 1)) * this.stride;
    words[at] = this.rows[from];
    words[at + 1] = this.rows[from + 1];
  }

  /** The oldest receive is used. */
  drop(): void {
    this.head++;
    this.count--;
  }

  clear(): void {
    this.count = 0;
  }

  /** The longest message that fits every receive. A receive in memory that the shim does not know has room for none. */
  leastBytes(): number {
    let least = TWO32 - 1;
    for (let i = 0; i < this.count; i++) {
      const from = ((this.head + i) & (this.depth - 1)) * this.stride;
      let bytes = 0;
      for (let k = 0; k < this.rows[from + 2]; k++) {
        const at = from + HEAD_WORDS + k * L.SGE_WORDS;
        if (this.regionOf(at) === undefined) break;
        bytes += this.rows[at + L.SGE_LENGTH];
      }
      least = Math.min(least, bytes);
    }
    return least;
  }

  /** The region of the element at word `at`; undefined if the device could not write there. */
  private regionOf(at: number): Region | undefined {
    const { rows } = this;
    const region = this.find(this.pd, rows[at + L.SGE_LKEY]);
    if (region === undefined || (region.access & IBV_ACCESS_LOCAL_WRITE) === 0) return undefined;
    const addr = rows[at] + rows[at + L.SGE_HI] * TWO32;
    const { info } = region;
    if (addr < info.addr || addr + rows[at + L.SGE_LENGTH] > info.addr + info.lengthBytes) return undefined;
    return info.memory.byteLength === 0 ? undefined : region;
  }

  /** Copies a message to the memory of the oldest receive. Returns IBV_WC_*. */
  scatter(source: Uint8Array, start: number, bytes: number): number {
    const from = (this.head & (this.depth - 1)) * this.stride;
    const { rows } = this;
    let done = 0;
    for (let k = 0; k < rows[from + 2] && done < bytes; k++) {
      const at = from + HEAD_WORDS + k * L.SGE_WORDS;
      const take = Math.min(rows[at + L.SGE_LENGTH], bytes - done);
      if (take === 0) continue;
      const region = this.regionOf(at);
      if (region === undefined) return IBV_WC_LOC_PROT_ERR;
      const offset = rows[at] + rows[at + L.SGE_HI] * TWO32 - region.info.addr;
      copy(source, start + done, region.bytes, offset, take);
      done += take;
    }
    return done < bytes ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
  }
}

/** Short messages are copied without a view of their own. */
function copy(source: Uint8Array, from: number, to: Uint8Array, at: number, bytes: number): void {
  if (bytes > 128) {
    to.set(source.subarray(from, from + bytes), at);
    return;
  }
  for (let i = 0; i < bytes; i++) to[at + i] = source[from + i];
}
