/**
 * One reliable connection of the application whose READs may be requested from the peer's shim: the twin that carries
 * requests and answers, and the READ that is currently requested.
 */
import * as C from '../../verbs/constants.ts';
import type { MrInfo } from '../../verbs/types.ts';
import { type Actions, NO_TOKEN } from '../policy.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { ResourceMemory, ResourceRequest, ResourceView } from '../resources.ts';
import type { Region } from './regions.ts';

/** The most records that can arrive at once: a request, an answer, and as many more while those are processed. */
export const RECORDS = 4;
const RECORD_BYTES = 64;
const RECORD_WORDS = RECORD_BYTES / 4;
/** Where this end writes the records that it sends: requests and answers separately. */
const REQUEST_AT = RECORDS * RECORD_BYTES;
const ANSWER_AT = REQUEST_AT + RECORD_BYTES;
export const LINK_BUFFER_BYTES = ANSWER_AT + RECORD_BYTES;
/** Depth of the twin's queues: data, request, answer and probe, with room to spare. */
export const LINK_DEPTH = 16;
const TWO32 = 4294967296;

// Words of a record: kind, id; a request also has key, address and bytes at the peer, and key and address at this end.
const KIND_REQUEST = 1;
const KIND_DONE = 2;
const KIND_REFUSED = 3;

/** A READ that was requested from the peer. */
export interface PendingRead {
  id: number;
  key: MrInfo;
  region: Region;
}

/** A READ that the peer requests. */
export interface ReadRequest {
  id: number;
  rkey: number;
  addr: number;
  bytes: number;
  targetKey: number;
  targetAddr: number;
}

export class ReadLink {
  readonly qp: QpLedger;
  readonly twin: ResourceView;
  /** Whether READs are requested and answered: the twin is connected, and has not failed. */
  works = false;
  /** Whether the twin accepts records. */
  isListening = false;
  pendingRead: PendingRead | null = null;
  /** Whether a sleep is in progress, after which the peer is probed. */
  isWatched = false;
  /** How the READ at the head of the queue was answered. */
  answer: 'none' | 'done' | 'refused' = 'none';
  private readonly tokens: number;
  private readonly words: Uint32Array;
  private ids = 0;
  private readonly request: ResourceRequest = {
    opcode: C.IBV_WR_SEND,
    signaled: true,
    offsetBytes: 0,
    bytes: RECORD_BYTES,
    remoteOffsetBytes: 0,
    memory: null,
    target: 0,
    count: 0,
    token: NO_TOKEN,
  };

  /** `tokens`: the first of this link's tokens. RECORDS of them are for receives, the next one is for sends. */
  constructor(qp: QpLedger, twin: ResourceView, tokens: number) {
    this.qp = qp;
    this.twin = twin;
    this.tokens = tokens;
    const buffer = twin.buffer as Uint8Array;
    this.words = new Uint32Array(buffer.buffer, buffer.byteOffset, LINK_BUFFER_BYTES / 4);
  }

  /** The twin is connected: posts its receives. */
  open(out: Actions): void {
    this.works = true;
    this.isListening = true;
    for (let i = 0; i < RECORDS; i++) this.listen(i, out);
  }

  listen(record: number, out: Actions): void {
    const { isListening, tokens, twin } = this;
    this.isListening = isListening && out.receive(twin, record * RECORD_BYTES, RECORD_BYTES, tokens + record);
  }

  /** Requests from the peer a WRITE of the bytes of a READ. */
  requestRead(what: Omit<ReadRequest, 'id'>, key: MrInfo, region: Region, out: Actions): boolean {
    this.ids = (this.ids + 1) >>> 0;
    const { rkey, addr, bytes, targetKey, targetAddr } = what;
    const values = [KIND_REQUEST, this.ids, rkey, addr % TWO32, addr / TWO32, bytes];
    const sent = this.send(REQUEST_AT, [...values, targetKey, targetAddr % TWO32, targetAddr / TWO32], out);
    if (sent) this.pendingRead = { id: this.ids, key, region };
    return sent;
  }

  /** Writes the requested bytes, and then the answer. */
  serve(what: ReadRequest, lkey: number, addr: number, out: Actions): boolean {
    const memory: ResourceMemory = { addr, lkey, remoteAddr: what.targetAddr, rkey: what.targetKey };
    if (this.twin.room < 2) return false;
    const { bytes } = what;
    const opcode = C.IBV_WR_RDMA_WRITE;
    const data = { ...this.request, opcode, bytes, memory, signaled: false, token: NO_TOKEN };
    return out.post(this.twin, data) && this.send(ANSWER_AT, [KIND_DONE, what.id], out);
  }

  refuse(what: ReadRequest, out: Actions): void {
    this.send(ANSWER_AT, [KIND_REFUSED, what.id], out);
  }

  /** Checks whether the peer is still alive, by a WRITE without data, which otherwise fails. */
  probe(out: Actions): void {
    const { request, tokens, twin } = this;
    out.post(twin, { ...request, opcode: C.IBV_WR_RDMA_WRITE, bytes: 0, token: tokens + RECORDS });
  }

  /** A record arrived: returns the peer's request, or null if it was an answer or invalid. */
  read(record: number): ReadRequest | null {
    const at = record * RECORD_WORDS;
    const w = this.words;
    const [kind, id] = [w[at], w[at + 1]];
    if (kind === KIND_REQUEST) {
      const addr = w[at + 4] * TWO32 + w[at + 3];
      const targetAddr = w[at + 8] * TWO32 + w[at + 7];
      return { id, rkey: w[at + 2], addr, bytes: w[at + 5], targetKey: w[at + 6], targetAddr };
    }
    if (this.pendingRead?.id !== id) return null;
    if (kind === KIND_DONE) this.answer = 'done';
    if (kind === KIND_REFUSED) this.answer = 'refused';
    return null;
  }

  private send(offsetBytes: number, values: readonly number[], out: Actions): boolean {
    this.words.set(values, offsetBytes / 4);
    const { request, tokens, twin } = this;
    return out.post(twin, { ...request, offsetBytes, bytes: RECORD_BYTES, token: tokens + RECORDS });
  }
}
