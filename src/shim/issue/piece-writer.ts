/** Writes held requests of the application, whole or in pieces, into the shim's own ring, and posts them. */
import {
  IBV_QPS_RTS,
  IBV_QPS_SQD,
  IBV_SEND_FENCE,
  IBV_SEND_SIGNALED,
  IBV_SEND_SOLICITED,
  IBV_WC_LOC_PROT_ERR,
  IBV_WR_RDMA_WRITE,
  ISO_SEND_INTERNAL,
} from '../../verbs/constants.ts';
import { PolicyError, shown } from '../../verbs/errors.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider, QpReport } from '../../verbs/provider.ts';
import type { RingInfo } from '../../verbs/types.ts';
import { PIECES, SPLIT, UNCUT } from '../counters.ts';
import { isSend, takesReceive } from '../peer/outbox.ts';
import type { QpView } from '../policy.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { IssuerHost } from './host.ts';

const TWO32 = 4294967296;
const RING_SLOTS = 512;
/** Flags of a request that the shim signals for itself. */
export const FORCED = (IBV_SEND_SIGNALED | ISO_SEND_INTERNAL) << 8;
/** The request can go in pieces. */
export const NO_OBSTACLE = -1;

export class PieceWriter {
  protected readonly next: Provider;
  protected readonly host: IssuerHost;
  private ring: RingInfo | null = null;
  protected words: Uint32Array = new Uint32Array(0);
  private extWords = 0;
  /** Slots written and not yet posted, all of one queue pair: the owner. */
  protected pending = 0;
  protected owner: QpLedger | null = null;
  /** Word and real number of the last slot that is not a WAIT or ENABLE. */
  protected lastData = -1;
  protected lastDataSeq = -1;
  /** Slots of the owner that are being posted, and its last signaled request before them. */
  private posting = 0;
  private signaledBefore = -1;
  /** The last request that a policy would have cut, and what prevented it: an index of UNCUT_REASONS, or negative. */
  private uncutQp: QpLedger | null = null;
  private uncutSeq = 0;
  private uncutReason = NO_OBSTACLE;

  constructor(next: Provider, host: IssuerHost) {
    this.next = next;
    this.host = host;
  }

  /** Makes the ring's slots large enough for a queue pair's SGEs and inline bytes. */
  fit(sges: number, inlineBytes: number): void {
    if (this.ring !== null && L.extBytesFor(sges, inlineBytes) <= this.ring.extBytes) return;
    const wide = this.ring === null ? 0 : this.ring.extBytes;
    this.close();
    this.ring = this.next.createWrRing(RING_SLOTS, Math.max(sges, 2 + wide / 16), inlineBytes);
    this.words = new Uint32Array(this.ring.memory);
    this.extWords = this.ring.extBytes >> 2;
  }

  close(): void {
    if (this.ring !== null) this.next.destroyRing(this.ring.handle);
    this.ring = null;
  }

  room(view: QpView): number {
    const qp = view as QpLedger;
    const spare = this.spareEntries(qp);
    // Any piece may be followed by more. Without spare entries, one at a time can use the entry of its own message.
    if (spare < 1 && this.inflight(qp) > 0) return 0;
    return Math.min(this.wholeRoom(qp), Math.max(1, spare));
  }

  /** Like `room`, but for requests that go whole, for each of which the application has a CQ entry. */
  wholeRoom(qp: QpLedger): number {
    // In SQD the device only finishes requests that it has begun. New ones wait for RTS, and on some devices for the
    // next post.
    if (qp.broken || qp.state < IBV_QPS_RTS || qp.state === IBV_QPS_SQD) return 0;
    // The end of a long SEND takes the reserved slots.
    const free = Math.max(0, this.freeSlots(qp));
    return qp.share === null ? free : Math.min(free, this.host.sharing!.lanes.room(qp));
  }

  /** Free slots of the device's send queue. */
  freeSlots(qp: QpLedger): number {
    return (qp.realDepth - qp.reserved - (qp.realPosted - qp.realFreed)) | 0;
  }

  /** CQ entries that neither the application nor an outstanding internal request needs. */
  private spareEntries(qp: QpLedger): number {
    const cq = qp.sendCq;
    const pending = this.owner?.sendCq === cq ? this.pending : 0;
    return (cq.realCqe - cq.appCqe - cq.extra - pending) | 0;
  }

  inflight(view: QpView): number {
    const qp = view as QpLedger;
    // If no outstanding request will report, waiting for one would never end.
    const isWritten = this.pending > 0 && this.owner === qp;
    if (((qp.lastSignaled - qp.realFreed) | 0) < 0 && !isWritten) return 0;
    return (qp.realPosted - qp.realFreed) | 0;
  }

  nextWord(view: QpView, word: number): number {
    const qp = view as QpLedger;
    return qp.held[(qp.issued & qp.mask) * qp.stride + word];
  }

  nextBytes(view: QpView): number {
    const qp = view as QpLedger;
    if (qp.issued === qp.appPosted || this.needsLookup(qp) || this.awaitsTwins(qp)) return -1;
    if (qp.context.limiter !== null && qp.issued === qp.licensed) return -1;
    return qp.bytes[qp.issued & qp.mask] - qp.sums[2];
  }

  /** Whether the oldest held message must wait until the peer's table shows where its receive is. */
  needsLookup(qp: QpLedger): boolean {
    const { outbox } = qp;
    if (outbox === null || qp.partial || qp.broken || qp.issued === qp.appPosted) return false;
    if (outbox.isLookupInFlight(qp.realFreed)) return true;
    if (qp.maxRdAtomic === 0) return false;
    const row = qp.issued & qp.mask;
    return outbox.mayCut(qp.held[row * qp.stride + L.WR_OP], qp.bytes[row]) && !outbox.isLookupDone;
  }

  /** Whether the oldest held request is issued whole, or must begin again, and its pieces on twins have not all ended. */
  awaitsTwins(qp: QpLedger): boolean {
    return qp.isStriped && (qp.twinFailed || qp.sums[2] >= qp.bytes[qp.issued & qp.mask]);
  }

  pass(view: QpView): void {
    const qp = view as QpLedger;
    if (qp.partial) {
      this.piece(qp, this.nextBytes(qp));
      return;
    }
    if (qp.issued === qp.appPosted) throw nothingHeld('pass');
    if (this.uncutReason >= 0) this.countUncut(qp);
    const row = qp.issued & qp.mask;
    const from = row * qp.stride;
    const to = this.slot(qp);
    const { held } = qp;
    for (let i = 0; i < L.SLOT_WORDS; i++) this.words[to + i] = held[from + i];
    const op = held[from + L.WR_OP];
    const ext = qp.extWords(op, held[from + L.WR_INLINE_LENGTH]);
    if (ext > 0) {
      const at = L.extAt(this.pending, RING_SLOTS, this.extWords << 2);
      for (let i = 0; i < ext; i++) this.words[at + i] = held[from + L.SLOT_WORDS + i];
    }
    if (!qp.lookupIssued) qp.first[row] = qp.realPosted;
    qp.sums[0] += qp.bytes[row];
    qp.hasYielded = false;
    this.lastData = to;
    this.lastDataSeq = qp.realPosted;
    let flags = (op >>> 8) & 0xff;
    if (this.mustReport(qp)) {
      this.words[to + L.WR_OP] |= IBV_SEND_SIGNALED << 8;
      flags |= IBV_SEND_SIGNALED;
    }
    this.push(qp, flags);
    this.finish(qp, row);
  }

  /** A policy has asked whether it may cut the oldest held request. */
  protected noteObstacle(qp: QpLedger, reason: number): void {
    this.uncutReason = reason;
    this.uncutQp = qp;
    this.uncutSeq = qp.issued;
  }

  /** Counts the oldest held request, which goes whole, if the policy would have cut it. */
  private countUncut(qp: QpLedger): void {
    if (this.uncutQp === qp && this.uncutSeq === qp.issued) {
      qp.counts[UNCUT + this.uncutReason]++;
      this.host.wentWhole(qp, this.uncutReason);
    }
    this.uncutReason = NO_OBSTACLE;
  }

  piece(view: QpView, bytes: number): void {
    const qp = view as QpLedger;
    if (qp.issued === qp.appPosted) throw nothingHeld('piece');
    const row = qp.issued & qp.mask;
    const total = qp.bytes[row];
    const offset = qp.sums[2];
    const take = Math.min(bytes, total - offset);
    // Below 0, not an integer, not a number, or nothing of a message.
    if (take >>> 0 !== take || (take === 0 && offset < total)) throw wrongPiece('piece', bytes);
    if (take === total && !qp.partial) {
      this.pass(qp);
      return;
    }
    // While pieces are on twins, the last one on this queue pair does not end the request.
    const isLast = offset + take >= total && qp.onTwins === 0;
    const to = this.slot(qp);
    const opcode = qp.held[row * qp.stride + L.WR_OP] & 0xff;
    const isMessage = takesReceive(opcode);
    const flags = this.pieceFlags(qp, row, offset === 0, isLast && !isMessage);
    this.writeHead(qp, row, to, offset);
    if (isSend(opcode)) qp.outbox!.aim(this.words, to, offset);
    const sges = this.writeSges(qp, row, to, take);
    this.words[to + L.WR_OP] = (isMessage ? IBV_WR_RDMA_WRITE : opcode) | (flags << 8) | (sges << 16);
    if (!qp.partial) {
      if (!qp.lookupIssued) qp.first[row] = qp.realPosted;
      qp.counts[SPLIT]++;
    }
    qp.counts[PIECES]++;
    qp.hasPiece = true;
    qp.lastPiece = qp.realPosted;
    qp.hasYielded = false;
    qp.pieceBytes = take;
    qp.sums[0] += take;
    qp.sums[2] = offset + take;
    qp.partial = true;
    qp.split[row] = 1;
    this.lastData = to;
    this.lastDataSeq = qp.realPosted;
    this.push(qp, flags);
    if (isLast && isMessage) this.endMessage(qp, row);
    if (isLast) this.finish(qp, row);
  }

  /** The whole message is in the peer's receive: sends its length, and then the message itself, empty. */
  protected endMessage(qp: QpLedger, row: number): void {
    const from = row * qp.stride;
    let to = this.slot(qp);
    this.writeHead(qp, row, to, 0);
    qp.outbox!.writeNotice(this.words, to, qp.realPosted, qp.bytes[row]);
    this.words[to + L.WR_OP] |= ISO_SEND_INTERNAL << 8;
    this.push(qp, ISO_SEND_INTERNAL);
    to = this.slot(qp);
    const flags = this.pieceFlags(qp, row, false, true);
    this.writeHead(qp, row, to, 0);
    this.words[to + L.WR_IMM] = qp.held[from + L.WR_IMM];
    this.words[to + L.WR_OP] = (qp.held[from + L.WR_OP] & 0xff) | (flags << 8);
    this.lastData = to;
    this.lastDataSeq = qp.realPosted;
    this.push(qp, flags);
  }

  /** The queue pair whose slots are written and not yet posted; null if there are none. */
  get writing(): QpLedger | null {
    return this.pending > 0 ? this.owner : null;
  }

  /** The number of requests that the device has received on this queue pair before the post in progress. */
  reportOf(qp: QpLedger): QpReport {
    const isOwner = this.owner === qp;
    // Requests that others carry are not known to the device's queue.
    const shift = qp.share?.shift ?? 0;
    return {
      qp: qp.handle,
      posted: (qp.realPosted - (isOwner ? this.posting + this.pending : 0) - shift) | 0,
      freed: (qp.realFreed - shift) | 0,
      lastSignaled:
        ((isOwner && this.posting + this.pending > 0 ? this.signaledBefore : qp.lastSignaled) - shift) | 0,
      broken: qp.broken,
      staleErrorsUntil: qp.staleErrorsUntil,
    };
  }

  /** Posts everything written for this queue pair, in one call. */
  submit(qp: QpLedger): void {
    const n = this.pending;
    if (n === 0 || this.owner !== qp) return;
    const mustReport = qp.backlog > 0 || qp.usesWaits || qp.share?.holdsPosts === true;
    if (mustReport && this.lastData >= 0) {
      // Held requests are fed at a completion. A later WAIT, and a carrier that takes over, must know that everything
      // before has ended.
      this.words[this.lastData + L.WR_OP] |= FORCED;
      qp.lastSignaled = this.lastDataSeq;
    }
    this.pending = 0;
    this.lastData = -1;
    this.posting = n;
    const { handle } = this.ring!;
    const isCarried = qp.share !== null && qp.share.carrier !== null;
    const taken = isCarried
      ? this.host.sharing!.post(qp, handle, this.words, n)
      : this.next.postSend(qp.handle, handle, 0, n);
    this.posting = 0;
    if (taken < n) {
      this.takeBack(qp, n - taken);
      if (this.words[L.HDR_REASON] === L.REASON_DETACHED) {
        // A device reports the same when it reaches a request whose memory was detached.
        qp.failSeq = qp.issued;
        qp.failStatus = IBV_WC_LOC_PROT_ERR;
      }
    }
    qp.countDepth();
    this.account(qp);
    if (taken < n) this.host.fail(qp);
  }

  /** The last `lost` slots were not posted: requests that end in them are held again. */
  private takeBack(qp: QpLedger, lost: number): void {
    qp.realPosted = (qp.realPosted - lost) | 0;
    while (qp.issued !== qp.head && ((qp.last[(qp.issued - 1) & qp.mask] - qp.realPosted) | 0) >= 0) {
      qp.issued = (qp.issued - 1) | 0;
      qp.partial = true;
      qp.sums[2] = qp.bytes[qp.issued & qp.mask];
    }
    const isBegun = ((qp.first[qp.issued & qp.mask] - qp.realPosted) | 0) < 0;
    qp.partial = qp.partial && isBegun;
    qp.lookupIssued = qp.lookupIssued && isBegun;
    if (((qp.lastSignaled - qp.realPosted) | 0) >= 0) qp.lastSignaled = (qp.realPosted - 1) | 0;
  }

  /** Recounts the completions that this queue pair may add to its CQ beyond the application's own. */
  account(qp: QpLedger): void {
    const extra = Math.max(qp.reserved, ((qp.realPosted - qp.realFreed) | 0) - ((qp.issued - qp.head) | 0));
    qp.sendCq.extra += extra - qp.extra;
    qp.extra = extra;
  }

  /** The word at which the next slot begins, for this queue pair. */
  protected slot(qp: QpLedger): number {
    if (this.owner !== qp) this.switchTo(qp);
    else if (this.pending === RING_SLOTS) this.submit(qp);
    if (this.pending === 0) this.signaledBefore = qp.lastSignaled;
    return L.HEADER_WORDS + this.pending * L.SLOT_WORDS;
  }

  private switchTo(qp: QpLedger): void {
    if (this.owner !== null && this.pending > 0) this.host.conclude(this.owner);
    if (!qp.translated) this.host.translate(qp);
    this.owner = qp;
  }

  /** The slot at `slot()` is written. */
  protected push(qp: QpLedger, flags: number): void {
    if (qp.isVisible(flags)) {
      qp.lastSignaled = qp.realPosted;
      qp.signalNext = false;
    }
    this.pending++;
    qp.issuedBytes[qp.realPosted & qp.realMask] = qp.sums[0];
    qp.realPosted = (qp.realPosted + 1) | 0;
  }

  /** The request at `issued` is written whole: continues with the next one. */
  protected finish(qp: QpLedger, row: number): void {
    qp.last[row] = (qp.realPosted - 1) | 0;
    if (qp.outbox !== null && takesReceive(qp.held[row * qp.stride + L.WR_OP] & 0xff)) {
      qp.outbox.sent = (qp.outbox.sent + 1) | 0;
    }
    qp.beginNext();
    qp.issued = (qp.issued + 1) | 0;
  }

  /** The first piece keeps the application's fence, the last its signal and solicited event. */
  private pieceFlags(qp: QpLedger, row: number, isFirst: boolean, isLast: boolean): number {
    const flags = (qp.held[row * qp.stride + L.WR_OP] >>> 8) & 0xff;
    let own = ISO_SEND_INTERNAL;
    if (isFirst) own |= flags & IBV_SEND_FENCE;
    if (isLast) own |= flags & IBV_SEND_SOLICITED;
    if (isLast && qp.visible[row] !== 0) own |= IBV_SEND_SIGNALED;
    // Every piece but the last reports, so that the next one follows without a pause.
    if (!isLast || this.mustReport(qp)) own |= IBV_SEND_SIGNALED;
    return own;
  }

  /** Whether the next request must be signaled, because the queue could otherwise fill up unnoticed. */
  protected mustReport(qp: QpLedger): boolean {
    return qp.signalNext || ((qp.realPosted - qp.lastSignaled) | 0) >= qp.realDepth >> 2;
  }

  /** wr_id and remote address of a piece; an error on any piece carries the application's wr_id. */
  private writeHead(qp: QpLedger, row: number, to: number, offset: number): void {
    const from = row * qp.stride;
    const { held } = qp;
    const w = this.words;
    w[to] = held[from];
    w[to + 1] = held[from + 1];
    const lo = held[from + L.WR_REMOTE_LO] + offset;
    w[to + L.WR_REMOTE_LO] = lo;
    w[to + L.WR_REMOTE_HI] = held[from + L.WR_REMOTE_HI] + (lo >= TWO32 ? 1 : 0);
    w[to + L.WR_RKEY] = held[from + L.WR_RKEY];
  }

  /** Copies the SGEs that cover the next `bytes`, from the cursor on; returns how many. */
  private writeSges(qp: QpLedger, row: number, to: number, bytes: number): number {
    const from = row * qp.stride;
    const { held } = qp;
    const w = this.words;
    let left = bytes;
    let n = 0;
    while (left > 0) {
      const i = qp.sgeIndex;
      const source = sgeWord(from, i);
      const rest = held[source + L.SGE_LENGTH] - qp.sgeOffset;
      const take = Math.min(rest, left);
      if (take > 0) {
        const at = n < 2 ? to + L.WR_SGE0 + n * L.SGE_WORDS : this.ext() + (n - 2) * L.SGE_WORDS;
        const lo = held[source] + qp.sgeOffset;
        w[at] = lo;
        w[at + 1] = held[source + 1] + (lo >= TWO32 ? 1 : 0);
        w[at + 2] = take;
        w[at + 3] = held[source + 3];
        n++;
      }
      left -= take;
      if (take === rest) {
        qp.sgeIndex = i + 1;
        qp.sgeOffset = 0;
      } else {
        qp.sgeOffset += take;
      }
    }
    return n;
  }

  /** The word at which the extension of the next slot begins. */
  private ext(): number {
    return L.extAt(this.pending, RING_SLOTS, this.extWords << 2);
  }
}

/** The word at which element `i` of the held request at word `from` begins. */
export function sgeWord(from: number, i: number): number {
  return from + (i < 2 ? L.WR_SGE0 + i * L.SGE_WORDS : L.SLOT_WORDS + (i - 2) * L.SGE_WORDS);
}

function nothingHeld(action: string): PolicyError {
  return new PolicyError(`${action}: the queue pair holds no more requests; check backlog() first`);
}

export function wrongPiece(action: string, bytes: number): PolicyError {
  return new PolicyError(`${action}: bytes must be a positive integer, got ${shown(bytes)}`);
}
