/** Rings by handle, for interceptors that read requests and completions. */
import { handleIndex } from '../verbs/handles.ts';
import * as L from '../verbs/layout.ts';
import type { Provider } from '../verbs/provider.ts';
import type { RingInfo } from '../verbs/types.ts';
import type { Verbs } from '../verbs/verbs.ts';

/** Copies of up to this size go word by word, because a view would cost more. */
const VIEW_WORDS = 48;

/** A ring of work requests or completions. */
export class KnownRing {
  readonly info: RingInfo;
  readonly words: Uint32Array;
  readonly extWords: number;
  /** Views of the first n slots, by n. Most programs post and poll from the start of a ring. */
  private readonly heads: (Uint32Array | undefined)[] = [];

  constructor(info: RingInfo) {
    this.info = info;
    this.words = new Uint32Array(info.memory);
    this.extWords = info.extBytes >> 2;
  }

  /** Copies `count` slots from slot `start` on. Runs from slot 0 allocate a view only once. */
  copySlots(start: number, count: number, to: Uint32Array, at: number): void {
    const { words } = this;
    const from = L.slotAt(start);
    const n = count * L.SLOT_WORDS;
    if (n <= VIEW_WORDS) {
      for (let i = 0; i < n; i++) to[at + i] = words[from + i];
      return;
    }
    to.set(start === 0 ? this.head(count) : words.subarray(from, from + n), at);
  }

  /** Copies the extensions of `count` slots. */
  copyExts(start: number, count: number, to: Uint32Array, at: number): void {
    const { info, words, extWords } = this;
    const from = L.extAt(start, info.capacity, info.extBytes);
    to.set(words.subarray(from, from + count * extWords), at);
  }

  private head(count: number): Uint32Array {
    const known = this.heads[count];
    if (known !== undefined) return known;
    const from = L.slotAt(0);
    const view = this.words.subarray(from, from + count * L.SLOT_WORDS);
    this.heads[count] = view;
    return view;
  }
}

/** The rings that a provider has handed out. */
export class Rings {
  // By handle index; each kind of ring has its own indexes.
  private readonly wrs: (KnownRing | undefined)[] = [];
  private readonly wcs: (KnownRing | undefined)[] = [];

  /** The live work-request ring of this handle. */
  wr(handle: number): KnownRing | undefined {
    const ring = this.wrs[handleIndex(handle)];
    return ring !== undefined && ring.info.handle === handle ? ring : undefined;
  }

  /** The live completion ring of this handle. */
  wc(handle: number): KnownRing | undefined {
    const ring = this.wcs[handleIndex(handle)];
    return ring !== undefined && ring.info.handle === handle ? ring : undefined;
  }

  /** Verbs that track rings as they are created and destroyed. */
  verbs(next: Provider): Pick<Verbs, 'createWrRing' | 'createWcRing' | 'destroyRing'> {
    const { wrs, wcs } = this;
    return {
      createWrRing(capacity, sges, inlineBytes) {
        const info = next.createWrRing(capacity, sges, inlineBytes);
        wrs[handleIndex(info.handle)] = new KnownRing(info);
        return info;
      },
      createWcRing(capacity) {
        const info = next.createWcRing(capacity);
        wcs[handleIndex(info.handle)] = new KnownRing(info);
        return info;
      },
      destroyRing: (ring) => {
        next.destroyRing(ring);
        if (this.wr(ring) !== undefined) wrs[handleIndex(ring)] = undefined;
        if (this.wc(ring) !== undefined) wcs[handleIndex(ring)] = undefined;
      },
    };
  }
}
