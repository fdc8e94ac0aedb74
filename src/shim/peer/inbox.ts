/**
 * The receiving side of one queue pair: a table of posted receives, which the peer READs, and notices of the lengths of
 * messages that arrived in pieces, which the peer WRITEs. Receives are numbered from RESET on, like the messages that
 * take them, so the peer knows which receive its next message will take.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrInfo } from '../../verbs/types.ts';
import type { InboxAddress } from './chunks.ts';
import * as E from './entries.ts';
import type { Region, Regions } from './regions.ts';

const TWO32 = 4294967296;
/** The longest message of RDMA. */
const MOST_BYTES = 2 ** 31;
const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
/**
 * Note of a posted receive: address (two words), length, key; a length of -1 means that it does not have exactly one
 * element.
 */
const NOTE_WORDS = 4;
const OFFER_WORDS = 2;

export class Inbox {
  private readonly next: Provider;
  private readonly regions: Regions;
  private readonly pd: number;
  private readonly mr: MrInfo;
  private readonly words: Uint32Array;
  private readonly notes: Int32Array;
  /**
   * A private copy of the table, which the peer cannot write: number and length of each receive; 0 if it accepts no
   * pieces.
   */
  private readonly offers: Int32Array;
  private readonly depth: number;
  /** Running number (WC_SEQ) of the receive that the peer's first message takes. */
  private readonly base: number;
  /** Receives posted, and receives completed, since `base`. */
  private posted = 0;
  private taken = 0;
  /** Receives no longer than this get no key; -1 while the peer is unknown. */
  private aboveBytes = -1;
  private lastRegion: Region | undefined = undefined;
  private lastKey = 0;

  /** `base` and `posted`: running numbers of the first receive since RESET and of the next. */
  constructor(
    next: Provider,
    regions: Regions,
    qp: { pd: number; recvDepth: number; base: number; posted: number },
  ) {
    this.next = next;
    this.regions = regions;
    this.pd = qp.pd;
    this.depth = 2 ** Math.ceil(Math.log2(qp.recvDepth));
    this.base = qp.base;
    this.posted = (qp.posted - qp.base) | 0;
    this.mr = next.allocMr(qp.pd, this.depth * (E.ENTRY_BYTES + E.NOTICE_BYTES), ACCESS);
    const { memory, byteOffset } = this.mr;
    this.words = new Uint32Array(memory, byteOffset, this.depth * (E.ENTRY_WORDS + E.NOTICE_WORDS));
    this.notes = new Int32Array(this.depth * NOTE_WORDS).fill(-1);
    this.offers = new Int32Array(this.depth * OFFER_WORDS).fill(-1);
  }

  get address(): InboxAddress {
    return { addr: this.mr.addr, rkey: this.mr.rkey, depth: this.depth };
  }

  /** Whether the peer is known, and may read the table or write notices. */
  get isOpen(): boolean {
    return this.aboveBytes >= 0;
  }

  /** The peer sends messages longer than this in pieces: publishes posted receives, and later ones as they are posted. */
  open(aboveBytes: number): void {
    this.aboveBytes = aboveBytes;
    const waiting = Math.min((this.posted - this.taken) | 0, this.depth);
    for (let i = waiting; i > 0; i--) this.publish((this.posted - i) | 0);
  }

  /** Receives start .. start + count - 1 of a ring were posted. */
  note(words: Uint32Array, start: number, count: number): void {
    for (let i = 0; i < count; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      const to = (this.posted & (this.depth - 1)) * NOTE_WORDS;
      const isOne = words[at + L.WR_OP] >>> 16 === 1;
      this.notes[to] = words[at + L.WR_SGE0 + L.SGE_LO];
      this.notes[to + 1] = words[at + L.WR_SGE0 + L.SGE_HI];
      this.notes[to + 2] = isOne ? words[at + L.WR_SGE0 + L.SGE_LENGTH] : -1;
      this.notes[to + 3] = words[at + L.WR_SGE0 + L.SGE_LKEY];
      this.posted = (this.posted + 1) | 0;
      if (this.aboveBytes >= 0) this.publish((this.posted - 1) | 0);
    }
  }

  /**
   * A receive has completed, by a SEND or an immediate: returns the message's bytes if it arrived in pieces, otherwise
   * -1.
   */
  take(seq: number, isSend: boolean): number {
    const number = (seq - this.base) | 0;
    this.taken = (number + 1) | 0;
    const row = number & (this.depth - 1);
    const bytes = E.noticeBytes(this.words, this.depth * E.ENTRY_WORDS + row * E.NOTICE_WORDS, number);
    const offered = this.offers[row * OFFER_WORDS];
    const most = isSend ? this.offers[row * OFFER_WORDS + 1] : MOST_BYTES;
    // A peer may write any length, but no message is longer than its receive.
    return offered === number && bytes <= most ? bytes : -1;
  }

  /** A key is about to become invalid, so receives with it no longer accept pieces. */
  revoke(rkey: number): void {
    for (let at = 0; at < this.depth * E.ENTRY_WORDS; at += E.ENTRY_WORDS) {
      if (this.words[at + E.ENTRY_RKEY] !== rkey) continue;
      this.words[at + E.ENTRY_RKEY] = 0;
      E.sealEntry(this.words, at);
    }
    this.lastRegion = undefined;
  }

  close(): void {
    this.next.deregMr(this.mr.handle);
  }

  private publish(number: number): void {
    // A notice can be overwritten once the completion of the receive before it in that row was seen.
    if (((number - this.taken) | 0) >= this.depth) return;
    const row = number & (this.depth - 1);
    const from = row * NOTE_WORDS;
    const { words, notes } = this;
    const at = row * E.ENTRY_WORDS;
    const length = notes[from + 2];
    const region = length > 0 && length > this.aboveBytes ? this.regionOf(from) : undefined;
    this.offers[row * OFFER_WORDS] = number;
    this.offers[row * OFFER_WORDS + 1] = region === undefined ? 0 : length;
    const addr = (notes[from] >>> 0) + (notes[from + 1] >>> 0) * TWO32 + (region?.shift ?? 0);
    words[at + E.ENTRY_NUMBER] = number;
    words[at + E.ENTRY_LO] = addr % TWO32;
    words[at + E.ENTRY_HI] = addr / TWO32;
    words[at + E.ENTRY_LENGTH] = length;
    words[at + E.ENTRY_RKEY] = region?.rkey ?? 0;
    E.sealEntry(words, at);
  }

  /** The region of a receive, opened to the peer; undefined if it cannot be opened. */
  private regionOf(note: number): Region | undefined {
    const { notes } = this;
    const key = notes[note + 3] >>> 0;
    if (this.lastRegion === undefined || this.lastKey !== key) {
      this.lastRegion = this.regions.find(this.pd, key);
      this.lastKey = key;
    }
    const region = this.lastRegion;
    if (region === undefined) return undefined;
    const { access, info } = region;
    // The receive will fail, because the device may not write there; so the peer must not write there either.
    if ((access & IBV_ACCESS_LOCAL_WRITE) === 0) return undefined;
    const start = (notes[note] >>> 0) + (notes[note + 1] >>> 0) * TWO32;
    if (start < info.addr || start + notes[note + 2] > info.addr + info.lengthBytes) return undefined;
    return this.regions.open(region) ? region : undefined;
  }
}
