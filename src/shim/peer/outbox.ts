/**
 * The sending side of one queue pair: the number of the receive that the next message will take, that receive's entry of
 * the peer's table, and notices of the lengths of messages that go in pieces.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_SEND_INLINE,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
  IBV_WR_RDMA_WRITE_WITH_IMM,
  IBV_WR_SEND,
  IBV_WR_SEND_WITH_IMM,
  IBV_WR_SEND_WITH_INV,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrInfo } from '../../verbs/types.ts';
import type { InboxAddress } from './chunks.ts';
import * as E from './entries.ts';

const TWO32 = 4294967296;
/** Entries of the peer's table that one READ fetches. */
const LOOKUP_ENTRIES = 32;

/** Whether a request of this opcode takes a receive at the peer. */
export function takesReceive(opcode: number): boolean {
  return isSend(opcode) || opcode === IBV_WR_RDMA_WRITE_WITH_IMM;
}

/** Whether a request with this opcode consumes a receive of the peer and writes to that receive's memory. */
export function isSend(opcode: number): boolean {
  return opcode === IBV_WR_SEND || opcode === IBV_WR_SEND_WITH_IMM || opcode === IBV_WR_SEND_WITH_INV;
}

export class Outbox {
  /** Messages no longer than this go whole. */
  readonly aboveBytes: number;
  /** Number of the next message that is issued. */
  sent = 0;
  private readonly next: Provider;
  private readonly inbox: InboxAddress;
  private readonly mr: MrInfo;
  private readonly words: Uint32Array;
  private readonly noticeMask: number;
  /** The last message for which the table was read. */
  private lookedUp = -1;
  private from = 0;
  private count = 0;
  /** Whether a READ of the table is in flight, and its real number. */
  private lookupInFlight = false;
  private readSeq = 0;

  constructor(
    next: Provider,
    inbox: InboxAddress,
    qp: { pd: number; realDepth: number },
    aboveBytes: number,
  ) {
    this.next = next;
    this.inbox = inbox;
    this.aboveBytes = aboveBytes;
    const notices = 2 ** Math.ceil(Math.log2(qp.realDepth));
    this.noticeMask = notices - 1;
    const words = LOOKUP_ENTRIES * E.ENTRY_WORDS + notices * E.NOTICE_WORDS;
    this.mr = next.allocMr(qp.pd, words * 4, IBV_ACCESS_LOCAL_WRITE);
    this.words = new Uint32Array(this.mr.memory, this.mr.byteOffset, words);
  }

  /** Whether this request may go in pieces if the peer's receive allows it; `op` as in WR_OP. */
  mayCut(op: number, bytes: number): boolean {
    return takesReceive(op & 0xff) && (op & (IBV_SEND_INLINE << 8)) === 0 && bytes > this.aboveBytes;
  }

  /** Whether a READ of the table is in flight; requests before real number `freed` are complete. */
  isLookupInFlight(freed: number): boolean {
    if (this.lookupInFlight && ((freed - this.readSeq) | 0) > 0) this.lookupInFlight = false;
    return this.lookupInFlight;
  }

  /** Whether the table was read for the next message, or its entry is known already. */
  get isLookupDone(): boolean {
    return this.lookedUp === this.sent || this.entry() >= 0;
  }

  /** Whether the next message, for which the table was read, can go in pieces. */
  fits(opcode: number, bytes: number): boolean {
    const at = this.entry();
    if (at < 0) return false;
    if (!isSend(opcode)) return true;
    return this.words[at + E.ENTRY_RKEY] !== 0 && this.words[at + E.ENTRY_LENGTH] >= bytes;
  }

  /** Counts requests start .. start + count - 1 of a ring, which went straight to the device. */
  countStraight(words: Uint32Array, start: number, count: number): void {
    for (let i = 0; i < count; i++) {
      const opcode = words[L.HEADER_WORDS + (start + i) * L.SLOT_WORDS + L.WR_OP] & 0xff;
      if (takesReceive(opcode)) this.sent = (this.sent + 1) | 0;
    }
  }

  /** Writes the READ of the table's entries for the next messages; `seq`: its real number. */
  writeLookup(w: Uint32Array, to: number, seq: number): void {
    const { inbox, mr } = this;
    const row = this.sent & (inbox.depth - 1);
    this.lookedUp = this.sent;
    this.from = this.sent;
    this.count = Math.min(LOOKUP_ENTRIES, inbox.depth - row);
    this.lookupInFlight = true;
    this.readSeq = seq;
    w[to + L.WR_OP] = IBV_WR_RDMA_READ | (1 << 16);
    const remote = inbox.addr + row * E.ENTRY_BYTES;
    writeRemote(w, to, remote % TWO32, remote / TWO32, inbox.rkey);
    writeSge(w, to, mr.addr, this.count * E.ENTRY_BYTES, mr.lkey);
  }

  /** Writes the remote address of byte `offset` of the next message. */
  aim(w: Uint32Array, to: number, offset: number): void {
    const at = this.entry();
    const { words } = this;
    const lo = words[at + E.ENTRY_LO] + offset;
    writeRemote(w, to, lo, words[at + E.ENTRY_HI] + (lo >= TWO32 ? 1 : 0), words[at + E.ENTRY_RKEY]);
  }

  /** Writes the WRITE of the notice with the next message's length; `seq`: its real number. */
  writeNotice(w: Uint32Array, to: number, seq: number, bytes: number): void {
    const { inbox, mr } = this;
    const at = LOOKUP_ENTRIES * E.ENTRY_WORDS + (seq & this.noticeMask) * E.NOTICE_WORDS;
    E.writeNotice(this.words, at, this.sent, bytes);
    w[to + L.WR_OP] = IBV_WR_RDMA_WRITE | (1 << 16);
    const row = this.sent & (inbox.depth - 1);
    const remote = inbox.addr + inbox.depth * E.ENTRY_BYTES + row * E.NOTICE_BYTES;
    writeRemote(w, to, remote % TWO32, remote / TWO32, inbox.rkey);
    writeSge(w, to, mr.addr + at * 4, E.NOTICE_BYTES, mr.lkey);
  }

  close(): void {
    this.next.deregMr(this.mr.handle);
  }

  /** Word at which the entry of the next message's receive begins; -1 if it is unknown. */
  private entry(): number {
    const i = (this.sent - this.from) | 0;
    if (this.lookupInFlight || i < 0 || i >= this.count) return -1;
    const at = i * E.ENTRY_WORDS;
    return E.isEntry(this.words, at, this.sent) ? at : -1;
  }
}

function writeRemote(w: Uint32Array, to: number, lo: number, hi: number, rkey: number): void {
  w[to + L.WR_REMOTE_LO] = lo;
  w[to + L.WR_REMOTE_HI] = hi;
  w[to + L.WR_RKEY] = rkey;
}

function writeSge(w: Uint32Array, to: number, addr: number, bytes: number, lkey: number): void {
  w[to + L.WR_SGE0 + L.SGE_LO] = addr % TWO32;
  w[to + L.WR_SGE0 + L.SGE_HI] = addr / TWO32;
  w[to + L.WR_SGE0 + L.SGE_LENGTH] = bytes;
  w[to + L.WR_SGE0 + L.SGE_LKEY] = lkey;
}
