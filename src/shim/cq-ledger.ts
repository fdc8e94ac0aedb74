/** The ledger of a completion queue, and how the device's completions become the application's. */
import {
  IBV_WC_DRIVER2,
  IBV_WC_REM_ACCESS_ERR,
  IBV_WC_REM_OP_ERR,
  IBV_WC_SUCCESS,
} from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { ShimContext } from './context.ts';
import { isSend } from './peer/outbox.ts';
import type { QpLedger } from './qp-ledger.ts';

/** The levels of ibv_req_notify_cq(3): nothing, the next completion, the next solicited or failed completion. */
export const ARM_NONE = 0;
export const ARM_ANY = 1;
export const ARM_SOLICITED = 2;

/** A value of QpLedger.split: a 0_WAIT that was issued as RDMA_WRITEs without data. */
export const AS_WRITES = 2;

export class CqLedger {
  readonly handle: number;
  appCqe: number;
  realCqe: number;
  readonly context: number;
  readonly owner: ShimContext;
  /** The channel that receives the device's events: the application's, or the shim's. */
  readonly channel: number;
  readonly appChannel: number;
  /** Queue pairs whose sends or receives complete here. */
  readonly users: QpLedger[] = [];
  /**
   * The only one of them, while its successful sends only have to be counted. Otherwise null, also until findSoleSender
   * is called after a change.
   */
  soleSender: QpLedger | null = null;
  /** Queue pairs whose sends complete here and that hold requests. */
  readonly backlogged: QpLedger[] = [];
  /** Queue pairs whose oldest held request is a WAIT on this CQ. */
  readonly waiters: QpLedger[] = [];
  /** Outstanding internal requests: each may become a completion, and all must fit into the queue. */
  extra = 0;
  /** Outstanding internal requests whose tokens the policy awaits. */
  awaitedCount = 0;
  /** Queue pairs whose sends complete here and that keep rows. If there are any, an event may be the shim's. */
  translatedQps = 0;
  /** The completions for which the application requested an event: ARM_*. */
  appArmed = ARM_NONE;
  /** The completions for which the shim requested an event from the device since its last event. */
  realArmed = ARM_NONE;
  /** Whether a completion has arrived for which the application requested an event. */
  isEventDue = false;
  /** Events that were due when the application armed the queue again, and are not delivered yet. */
  pendingEvents = 0;
  /** Completions that the application has received or will receive, which a WAIT on this CQ counts. */
  produced = 0;
  /** The count from which the next WAIT on this CQ starts. */
  waitIndex = 0;
  /** Completions that the shim polled for itself and keeps for the application. */
  private fifo: Uint32Array = new Uint32Array(0);
  private fifoHead = 0;
  fifoCount = 0;

  constructor(fields: {
    handle: number;
    appCqe: number;
    realCqe: number;
    owner: ShimContext;
    channel: number;
    appChannel: number;
  }) {
    this.handle = fields.handle;
    this.appCqe = fields.appCqe;
    this.realCqe = fields.realCqe;
    this.owner = fields.owner;
    this.context = fields.owner.handle;
    this.channel = fields.channel;
    this.appChannel = fields.appChannel;
  }

  /** Whether the shim polls it at events, and keeps completions for the application. */
  get isPolledByShim(): boolean {
    return this.translatedQps > 0 || this.owner.completions !== null;
  }

  addUser(qp: QpLedger): void {
    this.users.push(qp);
    this.soleSender = null;
  }

  removeUser(qp: QpLedger): void {
    const at = this.users.indexOf(qp);
    if (at >= 0) this.users.splice(at, 1);
    this.soleSender = null;
  }

  /**
   * Finds a queue pair whose sends are the only completions here, in order, with no request held and no completion kept
   * or awaited.
   */
  findSoleSender(): void {
    const { users, waiters } = this;
    if (users.length !== 1 || this.fifoCount + waiters.length > 0) return;
    const [qp] = users;
    if (qp.translated || qp.isWatched || qp.staleErrorsUntil !== null) return;
    // Receives from a shared receive queue are not counted.
    if (qp.recvCq === this && (qp.hasSrq || qp.recvPosted !== 0)) return;
    this.soleSender = qp;
  }

  /** Keeps a completion for the application. */
  push(words: Uint32Array, at: number): void {
    this.soleSender = null;
    const capacity = this.fifo.length / L.SLOT_WORDS;
    if (this.fifoCount === capacity) this.grow(capacity);
    const size = this.fifo.length / L.SLOT_WORDS;
    const to = ((this.fifoHead + this.fifoCount) & (size - 1)) * L.SLOT_WORDS;
    for (let i = 0; i < L.SLOT_WORDS; i++) this.fifo[to + i] = words[at + i];
    this.fifoCount++;
  }

  /** Moves up to `max` kept completions to `words`; returns how many. */
  shift(words: Uint32Array, at: number, max: number): number {
    const size = this.fifo.length / L.SLOT_WORDS;
    const n = Math.min(max, this.fifoCount);
    for (let k = 0; k < n; k++) {
      const from = ((this.fifoHead + k) & (size - 1)) * L.SLOT_WORDS;
      for (let i = 0; i < L.SLOT_WORDS; i++) words[at + k * L.SLOT_WORDS + i] = this.fifo[from + i];
    }
    this.fifoHead = (this.fifoHead + n) & (size - 1);
    this.fifoCount -= n;
    return n;
  }

  /** Drops the kept completions of a destroyed queue pair, as a device does. */
  forget(qp: number): void {
    const all = new Uint32Array(this.fifoCount * L.SLOT_WORDS);
    const n = this.shift(all, 0, this.fifoCount);
    for (let k = 0; k < n; k++) {
      if (all[k * L.SLOT_WORDS + L.WC_QP] !== qp) this.push(all, k * L.SLOT_WORDS);
    }
  }

  private grow(capacity: number): void {
    const size = Math.max(64, capacity * 2);
    const next = new Uint32Array(size * L.SLOT_WORDS);
    const n = this.shift(next, 0, this.fifoCount);
    this.fifo = next;
    this.fifoHead = 0;
    this.fifoCount = n;
  }
}

/**
 * Accounts for one completion of a send queue with rows. Returns whether the application sees it; its number and
 * byte_len are then the application's.
 */
export function settleSend(qp: QpLedger, words: Uint32Array, at: number): boolean {
  const seq = words[at + L.WC_SEQ] | 0;
  const status = words[at + L.WC_OP] & 0xff;
  // Completions arrive in order, so one below the last belongs to requests that a RESET has dropped.
  if (((seq - qp.realFreed) | 0) < 0) return false;
  qp.realFreed = (seq + 1) | 0;
  if (((seq - qp.base) | 0) < 0) {
    if (status === IBV_WC_SUCCESS && !awaitsEarlier(qp)) passEnded(qp, seq);
    return true;
  }
  // Follows the completions, because running numbers wrap and it must not fall behind by more than a queue's depth.
  qp.base = seq;
  qp.sums[1] = qp.issuedBytes[seq & qp.realMask];
  const { mask, last } = qp;
  passEnded(qp, (seq - 1) | 0);
  const row = qp.head & mask;
  if (qp.head === qp.issued) {
    const ofPartial = (qp.partial || qp.lookupIssued) && ((seq - qp.first[row]) | 0) >= 0;
    if (!ofPartial || status === IBV_WC_SUCCESS) return false;
    abandonPartial(qp);
  } else {
    // A real number between two rows belongs to an internal request, such as a WAIT.
    if (((seq - qp.first[row]) | 0) < 0) return false;
    if (status === IBV_WC_SUCCESS && last[row] !== seq) return false;
  }
  if (qp.failStatus !== 0 && status !== IBV_WC_SUCCESS && qp.head === qp.failSeq) {
    words[at + L.WC_OP] = (words[at + L.WC_OP] & ~0xff) | qp.failStatus;
    qp.failStatus = 0;
  }
  words[at + L.WC_SEQ] = qp.head;
  if (status === IBV_WC_REM_ACCESS_ERR && qp.outbox !== null) asOfReceive(qp, row, seq, words, at);
  if (qp.split[row] !== 0) words[at + L.WC_BYTE_LEN] = qp.bytes[row];
  if (qp.split[row] === AS_WRITES) words[at + L.WC_OP] = status | (IBV_WC_DRIVER2 << 8);
  qp.head = (qp.head + 1) | 0;
  return status !== IBV_WC_SUCCESS || qp.visible[row] !== 0;
}

/** Whether requests from before the queue pair kept rows have not ended, as far as the shim knows. */
export function awaitsEarlier(qp: QpLedger): boolean {
  return ((qp.realFreed - qp.base) | 0) < 0;
}

/** Leaves the requests behind that ended with the real number `seq` or an earlier one. */
function passEnded(qp: QpLedger, seq: number): void {
  const { mask, last } = qp;
  while (qp.head !== qp.issued && ((last[qp.head & mask] - seq) | 0) <= 0) qp.head = (qp.head + 1) | 0;
}

/** An earlier piece of the request at `issued` failed: the rest of it is never issued. */
function abandonPartial(qp: QpLedger): void {
  qp.beginNext();
  qp.issued = (qp.issued + 1) | 0;
}

/** A piece of a SEND found the memory of the peer's receive gone. A whole SEND would have failed at the peer instead. */
function asOfReceive(qp: QpLedger, row: number, seq: number, words: Uint32Array, at: number): void {
  // The SEND itself is sent last, and can be refused because of the key that it invalidates.
  const isWhole = qp.head !== qp.issued && qp.last[row] === seq;
  if (isWhole || !isSend(qp.held[row * qp.stride + L.WR_OP] & 0xff)) return;
  words[at + L.WC_OP] = (words[at + L.WC_OP] & ~0xff) | IBV_WC_REM_OP_ERR;
}
