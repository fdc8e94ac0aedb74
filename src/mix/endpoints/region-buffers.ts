/** The buffers of an application with memory regions of its own, which its requests use in turn or at random. */
import type { RandomStream } from '../../sim/kernel/random.ts';
import * as V from '../../verbs/index.ts';
import type { AppMemory, MemoryLayout } from './memory-layout.ts';

const HIGH = 2 ** -32;

/** The regions of one context at one end. */
class Regions {
  private readonly count: number;
  private readonly bufferBytes: number;
  private readonly addrs: Float64Array;
  private readonly lkeys: Uint32Array;
  private readonly rkeys: Uint32Array;

  constructor(regions: readonly V.MrInfo[], { bufferBytes }: MemoryLayout) {
    this.count = regions.length;
    this.bufferBytes = bufferBytes;
    this.addrs = Float64Array.from(regions, ({ addr }) => addr);
    this.lkeys = Uint32Array.from(regions, ({ lkey }) => lkey);
    this.rkeys = Uint32Array.from(regions, ({ rkey }) => rkey);
  }

  /** Makes the first element of the request at `at` the buffer with this number. */
  gather(words: Uint32Array, at: number, buffer: number): void {
    const region = buffer % this.count;
    const addr = this.addrs[region] + Math.floor(buffer / this.count) * this.bufferBytes;
    const e = at + V.WR_SGE0;
    words[e + V.SGE_LO] = addr;
    words[e + V.SGE_HI] = addr * HIGH;
    words[e + V.SGE_LKEY] = this.lkeys[region];
  }

  /** Makes that buffer the remote memory of the request. */
  address(words: Uint32Array, at: number, buffer: number): void {
    const region = buffer % this.count;
    const addr = this.addrs[region] + Math.floor(buffer / this.count) * this.bufferBytes;
    words[at + V.WR_REMOTE_LO] = addr;
    words[at + V.WR_REMOTE_HI] = addr * HIGH;
    words[at + V.WR_RKEY] = this.rkeys[region];
  }
}

/** The order in which one end uses its buffers: each region in turn, or any buffer at random. */
class Order {
  private readonly buffers: number;
  private readonly isRandom: boolean;
  private readonly random: RandomStream;
  private next = 0;

  constructor({ regions, buffers, isRandom }: AppMemory, random: RandomStream) {
    this.random = random;
    this.buffers = regions * buffers;
    this.isRandom = isRandom;
  }

  take(): number {
    if (this.isRandom) return Math.floor(this.random.next() * this.buffers);
    const buffer = this.next;
    this.next = buffer + 1 === this.buffers ? 0 : (buffer + 1) | 0;
    return buffer;
  }
}

/** The buffers of one context of an application at both ends. Its queue pairs share them, as those of a process do. */
export class RegionBuffers {
  private readonly here: Regions;
  private readonly there: Regions;
  private readonly sends: Order;
  private readonly receives: Order;
  private readonly isLocal: boolean;
  private readonly isRemote: boolean;

  /** @param isLocal whether requests have elements: they are not inline. @param isRemote whether they name remote memory */
  constructor(
    memory: AppMemory,
    layout: MemoryLayout,
    { from, to }: { from: readonly V.MrInfo[]; to: readonly V.MrInfo[] },
    { isLocal, isRemote }: { isLocal: boolean; isRemote: boolean },
    random: RandomStream,
  ) {
    this.here = new Regions(from, layout);
    this.there = new Regions(to, layout);
    this.sends = new Order(memory, random);
    this.receives = new Order(memory, random);
    this.isLocal = isLocal;
    this.isRemote = isRemote;
  }

  /** Gives each of the `count` requests from slot `start` on the next buffers, at both ends. */
  toRequests(words: Uint32Array, start: number, count: number): void {
    for (let slot = start; slot < start + count; slot++) {
      const buffer = this.sends.take();
      const at = V.slotAt(slot);
      if (this.isLocal) this.here.gather(words, at, buffer);
      if (this.isRemote) this.there.address(words, at, buffer);
    }
  }

  /** Gives each of the `count` receives of the peer from slot `start` on the next buffer. */
  toReceives(words: Uint32Array, start: number, count: number): void {
    for (let slot = start; slot < start + count; slot++)
      this.there.gather(words, V.slotAt(slot), this.receives.take());
  }
}
