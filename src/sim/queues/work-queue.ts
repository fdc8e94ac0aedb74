/** Work requests in a queue: copies of the posted slots with their extensions. */
import * as L from '../../verbs/layout.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { SLOT_WORDS } = L;

const NO_WORDS = new Uint32Array(0);
const NO_BYTES = new Uint8Array(0);
const NO_NUMBERS = new Float64Array(0);

function powerOfTwo(atLeast: number): number {
  let n = 1;
  while (n < atLeast) n *= 2;
  return n;
}

export class WorkQueue {
  readonly size: number;
  readonly mask: number;
  /** The protection domain whose memory its requests may name. */
  pd: number;
  /** Empty until the first request, because of many queues most are never used at the same time. */
  words = NO_WORDS;
  ext = NO_WORDS;
  extBytes = NO_BYTES;
  extWords: number;
  /** Message bytes, by slot. */
  length = NO_NUMBERS;
  /** Requests since creation, mod 2^32: posted so far, and freed by a polled completion. */
  posted = 0;
  freed = 0;
  /** For receives: one past the last that the NIC has requested. */
  fetched = 0;

  constructor(size: number, sges: number, inlineBytes: number, pd: number) {
    this.size = size;
    this.pd = pd;
    this.mask = powerOfTwo(size) - 1;
    this.extWords = L.extBytesFor(sges, inlineBytes) >> 2;
  }

  get full(): boolean {
    return ((this.posted - this.freed) | 0) >= this.size;
  }

  /** Allocates the slots, once. */
  open(): void {
    if (this.words !== NO_WORDS) return;
    const slots = this.mask + 1;
    this.words = new Uint32Array(slots * SLOT_WORDS);
    this.length = new Float64Array(slots);
    if (this.extWords > 0) this.widen(this.extWords);
  }

  /** Changes the width of the extensions of an empty queue. */
  widen(extWords: number): void {
    this.extWords = extWords;
    this.ext = new Uint32Array((this.mask + 1) * extWords);
    this.extBytes = new Uint8Array(this.ext.buffer);
  }

  /** First word of the slot of request `seq`. */
  at(seq: number): number {
    return (seq & this.mask) * SLOT_WORDS;
  }

  /** First word, in `ext`, of the extension of request `seq`. */
  extAt(seq: number): number {
    return (seq & this.mask) * this.extWords;
  }
}

/** Copies request `seq` of one queue to the next slot of another, whose extensions are at least as wide. */
export function copySlotBetween(from: WorkQueue, seq: number, to: WorkQueue): void {
  const source = from.at(seq);
  const target = to.at(to.posted);
  for (let i = 0; i < SLOT_WORDS; i++) to.words[target + i] = from.words[source + i];
  const sourceExt = from.extAt(seq);
  const targetExt = to.extAt(to.posted);
  for (let i = 0; i < from.extWords; i++) to.ext[targetExt + i] = from.ext[sourceExt + i];
  to.length[to.posted & to.mask] = from.length[seq & from.mask];
}
