/** Writes internal requests into the shim's own ring: the Actions of a policy. */
import {
  IBV_QPS_RTS,
  IBV_QPS_SQD,
  IBV_QPT_RC,
  IBV_QPT_UD,
  IBV_SEND_FENCE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  IBV_SEND_SOLICITED,
  IBV_WC_GENERAL_ERR,
  IBV_WC_LOC_PROT_ERR,
  IBV_WC_LOC_QP_OP_ERR,
  IBV_WC_SUCCESS,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
  IBV_WR_SEND,
  ISO_SEND_INTERNAL,
  ISO_WR_ENABLE,
  ISO_WR_WAIT,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider, WaitSupport } from '../../verbs/provider.ts';
import type { RingInfo } from '../../verbs/types.ts';
import type { ShimContext } from '../context.ts';
import type { CoordinatorPort } from '../coordinator-port.ts';
import { EMULATED, ENABLES, PIECES, POSTS, SPLIT, WAITS } from '../counters.ts';
import { AS_WRITES, type ShimCq } from '../cq-ledger.ts';
import { isSend, takesReceive } from '../peer/outbox.ts';
import { type Actions, type ContextView, NO_TOKEN, type QpView } from '../policy.ts';
import type { ShimQp } from '../qp-ledger.ts';
import {
  type Resource,
  type ResourceKeeper,
  type ResourceRequest,
  type ResourceView,
  SINK_QKEY,
} from '../resources.ts';
import type { Timers } from '../timers.ts';
import { enable, isCrossChannel, synthetic } from '../wait/cross-channel.ts';

const TWO32 = 4294967296;
const RING_SLOTS = 512;
/** What became of a WAIT or ENABLE that was tried. */
const DONE = 0;
const BLOCKED = 1;
const FAILED = 2;
const FORCED = (IBV_SEND_SIGNALED | ISO_SEND_INTERNAL) << 8;

/** What the issuer needs of the shim around it. */
export interface IssuerHost {
  readonly timers: Timers;
  readonly resources: ResourceKeeper;
  readonly coordinator: CoordinatorPort | null;
  /** Whether the policy wants to be asked of each post. */
  readonly limits: boolean;
  /** Rows are to be kept from here on. */
  translate(qp: ShimQp): void;
  /** Hands over what was written for this queue pair: another one's turn has come. */
  conclude(qp: ShimQp): void;
  cq(handle: number): ShimCq | undefined;
  qp(handle: number): ShimQp | undefined;
  /** Lets the policy feed another queue pair, when the event that this is part of is over. */
  wake(qp: ShimQp): void;
  /** The device refused an internal request: the queue pair must go to ERR. */
  refused(qp: ShimQp): void;
  /** Lets the completion of `cq` wake the shim, those included that are there by now. */
  arm(cq: ShimCq): void;
  /** A completion of the shim's own making waits in `cq`. */
  synthesised(cq: ShimCq): void;
}

export class Issuer implements Actions {
  readonly wait: WaitSupport;
  private readonly next: Provider;
  private readonly host: IssuerHost;
  private ring: RingInfo | null = null;
  private words: Uint32Array = new Uint32Array(0);
  private extWords = 0;
  /** Slots written and not yet posted, all of one queue pair: the owner. */
  private pending = 0;
  private owner: ShimQp | null = null;
  /** Word and real number of the last slot that is no WAIT. */
  private lastData = -1;
  private lastDataSeq = -1;

  constructor(next: Provider, host: IssuerHost) {
    this.next = next;
    this.wait = next.wait;
    this.host = host;
  }

  /** Makes the ring wide enough for a queue pair's SGEs and inline bytes. */
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
    const qp = view as ShimQp;
    const spare = this.spare(qp);
    // Of a piece nobody knows that it is the last: without spare room, one at a time has its message's own place.
    if (spare < 1 && this.inflight(qp) > 0) return 0;
    return Math.min(this.wholeRoom(qp), Math.max(1, spare));
  }

  /** As `room`, for requests that go whole: each has the application's own place on the CQ. */
  wholeRoom(qp: ShimQp): number {
    // In SQD the queue pair ends what it began; what is posted then waits for RTS, on some for the next post.
    return qp.broken || qp.state < IBV_QPS_RTS || qp.state === IBV_QPS_SQD ? 0 : this.places(qp);
  }

  private places(qp: ShimQp): number {
    return (qp.realDepth - qp.reserved - (qp.realPosted - qp.realFreed)) | 0;
  }

  /** Places on the CQ that are nobody's. */
  private spare(qp: ShimQp): number {
    const cq = qp.sendCq;
    const pending = this.owner?.sendCq === cq ? this.pending : 0;
    return (cq.realCqe - cq.appCqe - cq.extra - pending) | 0;
  }

  inflight(view: QpView): number {
    const qp = view as ShimQp;
    // When nothing outstanding will report, waiting for it would be for ever.
    const isWritten = this.pending > 0 && this.owner === qp;
    if (((qp.lastSignaled - qp.realFreed) | 0) < 0 && !isWritten) return 0;
    return (qp.realPosted - qp.realFreed) | 0;
  }

  inflightBytes(view: QpView): number {
    const qp = view as ShimQp;
    return this.inflight(qp) === 0 ? 0 : qp.sums[0] - qp.sums[1];
  }

  outstanding(view: QpView): number {
    const qp = view as ShimQp;
    return (qp.appPosted - qp.appFreed) | 0;
  }

  backlog(view: QpView): number {
    const qp = view as ShimQp;
    return qp.broken || this.mustAsk(qp) ? 0 : qp.ready;
  }

  passPlain(view: QpView, below: number): void {
    const qp = view as ShimQp;
    // An outbox counts the messages that take a receive.
    const isLimited = this.host.limits || qp.context.limiter !== null;
    const isAsked = qp.translated || qp.managed || qp.outbox !== null || isLimited;
    qp.plainBelow = isAsked ? 0 : below;
  }

  nextOpcode(view: QpView): number {
    return this.nextWord(view, L.WR_OP) & 0xff;
  }

  nextWord(view: QpView, word: number): number {
    const qp = view as ShimQp;
    return qp.held[(qp.issued & qp.mask) * qp.stride + word];
  }

  nextBytes(view: QpView): number {
    const qp = view as ShimQp;
    if (qp.issued === qp.appPosted || this.mustAsk(qp)) return -1;
    if (qp.context.limiter !== null && qp.issued === qp.licensed) return -1;
    return qp.bytes[qp.issued & qp.mask] - qp.sums[2];
  }

  splittable(view: QpView): boolean {
    const qp = view as ShimQp;
    if (qp.type !== IBV_QPT_RC || qp.broken) return false;
    const op = this.nextWord(qp, L.WR_OP);
    // Inline messages are short, and lie in the request itself.
    if ((op & (IBV_SEND_INLINE << 8)) !== 0) return false;
    if ((op & 0xff) === IBV_WR_RDMA_WRITE || (op & 0xff) === IBV_WR_RDMA_READ) return true;
    // An immediate or a SEND would show the cut in the peer's completion, unless a shim there mends it.
    const { outbox } = qp;
    if (outbox === null) return false;
    const bytes = qp.bytes[qp.issued & qp.mask];
    return outbox.concerns(op, bytes) && outbox.fits(op & 0xff, bytes);
  }

  /** Whether the peer must say first where the oldest held message may go, or is being asked. */
  mustAsk(qp: ShimQp): boolean {
    const { outbox } = qp;
    if (outbox === null || qp.partial || qp.broken || qp.issued === qp.appPosted) return false;
    if (outbox.isAsking(qp.realFreed)) return true;
    if (qp.maxRdAtomic === 0) return false;
    const row = qp.issued & qp.mask;
    return outbox.concerns(qp.held[row * qp.stride + L.WR_OP], qp.bytes[row]) && !outbox.isAnswered;
  }

  /** Asks, with a READ that belongs to the message as if it were its first piece. */
  ask(qp: ShimQp): void {
    const outbox = qp.outbox!;
    if (outbox.isAsking(qp.realFreed) || this.room(qp) < 1) return;
    const row = qp.issued & qp.mask;
    const to = this.slot(qp);
    this.words[to] = qp.held[row * qp.stride];
    this.words[to + 1] = qp.held[row * qp.stride + 1];
    outbox.writeLookup(this.words, to, qp.realPosted);
    this.words[to + L.WR_OP] |= FORCED;
    qp.first[row] = qp.realPosted;
    qp.opened = true;
    this.lastData = to;
    this.lastDataSeq = qp.realPosted;
    this.push(qp, IBV_SEND_SIGNALED);
  }

  pass(view: QpView): void {
    const qp = view as ShimQp;
    if (qp.partial) {
      this.piece(qp, this.nextBytes(qp));
      return;
    }
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
    if (!qp.opened) qp.first[row] = qp.realPosted;
    qp.sums[0] += qp.bytes[row];
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

  piece(view: QpView, bytes: number): void {
    const qp = view as ShimQp;
    const row = qp.issued & qp.mask;
    const total = qp.bytes[row];
    const offset = qp.sums[2];
    const take = Math.min(bytes, total - offset);
    if (take === total) {
      this.pass(qp);
      return;
    }
    const isLast = offset + take >= total;
    const to = this.slot(qp);
    const opcode = qp.held[row * qp.stride + L.WR_OP] & 0xff;
    const isMessage = takesReceive(opcode);
    const flags = this.pieceFlags(qp, row, offset === 0, isLast && !isMessage);
    this.writeHead(qp, row, to, offset);
    if (isSend(opcode)) qp.outbox!.aim(this.words, to, offset);
    const sges = this.writeSges(qp, row, to, take);
    this.words[to + L.WR_OP] = (isMessage ? IBV_WR_RDMA_WRITE : opcode) | (flags << 8) | (sges << 16);
    if (offset === 0) {
      if (!qp.opened) qp.first[row] = qp.realPosted;
      qp.counts[SPLIT]++;
    }
    qp.counts[PIECES]++;
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

  /** All of a message is written into the peer's receive: how long it was, and then the message itself, empty. */
  private endMessage(qp: ShimQp, row: number): void {
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

  pieces(view: QpView, bytes: number, max: number, waits: number): number {
    const qp = view as ShimQp;
    const parent = qp.issued;
    const slotsEach = waits > 0 ? 2 : 1;
    const most = Math.min(max, Math.floor(this.room(qp) / slotsEach));
    let n = 0;
    while (n < most && qp.issued === parent) {
      this.piece(qp, bytes);
      if (waits > 0) this.zeroWaits(qp, waits);
      n++;
    }
    return n;
  }

  zeroWaits(view: QpView, count: number): void {
    const qp = view as ShimQp;
    qp.counts[WAITS] += count;
    this.local(qp, ISO_WR_WAIT, qp.sendCq.handle, 0, count, NO_TOKEN);
  }

  zeroSends(view: QpView, sink: ResourceView, count: number, token: number = NO_TOKEN): void {
    const qp = view as ShimQp;
    const ah = this.ownAddress(qp);
    for (let i = 0; i < count; i++) {
      const to = this.slot(qp);
      const w = this.words;
      w.fill(0, to, to + L.SLOT_WORDS);
      let flags = ISO_SEND_INTERNAL;
      if (i === count - 1 && token !== NO_TOKEN) {
        flags |= IBV_SEND_SIGNALED;
        qp.tells.push(qp.realPosted, token);
        qp.sendCq.told++;
      } else if (this.mustReport(qp)) {
        flags |= IBV_SEND_SIGNALED;
      }
      w[to + L.WR_OP] = IBV_WR_SEND | (flags << 8);
      w[to + L.WR_AH] = ah;
      w[to + L.WR_REMOTE_QPN] = sink.qpNum;
      w[to + L.WR_REMOTE_QKEY] = SINK_QKEY;
      this.lastData = to;
      this.lastDataSeq = qp.realPosted;
      qp.counts[POSTS]++;
      this.push(qp, flags);
    }
  }

  waitFor(view: QpView, cq: number, count: number, token: number = NO_TOKEN): void {
    const qp = view as ShimQp;
    qp.counts[WAITS]++;
    this.local(qp, ISO_WR_WAIT, cq, count, 1, token);
  }

  enable(view: QpView, target: number, count: number, token: number = NO_TOKEN): void {
    const qp = view as ShimQp;
    qp.counts[ENABLES]++;
    this.local(qp, ISO_WR_ENABLE, target, count, 1, token);
  }

  /** A request that moves no data. */
  private local(
    qp: ShimQp,
    opcode: number,
    target: number,
    count: number,
    repeat: number,
    token: number,
  ): void {
    const to = this.slot(qp);
    const w = this.words;
    // Flushed between two pieces, it is what the message's completion is made of.
    const from = (qp.issued & qp.mask) * qp.stride;
    w[to] = qp.partial ? qp.held[from] : 0;
    w[to + 1] = qp.partial ? qp.held[from + 1] : 0;
    let flags = ISO_SEND_INTERNAL;
    if (token !== NO_TOKEN) {
      flags |= IBV_SEND_SIGNALED;
      qp.tells.push(qp.realPosted, token);
      qp.sendCq.told++;
    }
    w[to + L.WR_OP] = opcode | (flags << 8);
    w[to + L.WR_TARGET] = target;
    w[to + L.WR_COUNT] = count;
    w[to + L.WR_REPEAT] = repeat;
    this.push(qp, flags);
  }

  signalNow(view: QpView): void {
    const qp = view as ShimQp;
    if (this.owner !== qp || this.pending === 0 || this.lastData < 0) {
      qp.signalNext = true;
      return;
    }
    this.words[this.lastData + L.WR_OP] |= FORCED;
    qp.lastSignaled = this.lastDataSeq;
  }

  refuse(view: QpView): boolean {
    return this.deliver(view, IBV_WC_GENERAL_ERR, 0);
  }

  deliver(view: QpView, status: number, bytes: number): boolean {
    const qp = view as ShimQp;
    if (qp.broken || qp.backlog === 0) return false;
    const row = qp.issued & qp.mask;
    const shows = status !== IBV_WC_SUCCESS || qp.visible[row] !== 0;
    // Its completion comes after those before it.
    if (shows && this.inflight(qp) > 0) return false;
    if ((this.nextWord(qp, L.WR_OP) & 0xff) >= ISO_WR_WAIT) qp.counts[EMULATED]++;
    if (status === IBV_WC_SUCCESS) this.succeed(qp, row, bytes);
    else this.fail(qp, status);
    return true;
  }

  /** The device flushes it, in order with what is before and behind it; only the status is another. */
  private fail(qp: ShimQp, status: number): void {
    qp.failSeq = qp.issued;
    qp.failStatus = status;
    this.host.refused(qp);
  }

  private succeed(qp: ShimQp, row: number, bytes: number): void {
    const cq = qp.sendCq;
    if (!qp.partial) qp.first[row] = qp.realPosted;
    // No real number of its own: it is over when the one before it is.
    qp.last[row] = (qp.realPosted - 1) | 0;
    const wasIdle = qp.head === qp.issued;
    qp.consumed[row] = qp.visible[row] === 0 ? 1 : 0;
    qp.beginNext();
    qp.issued = (qp.issued + 1) | 0;
    if (qp.visible[row] === 0) return;
    if (wasIdle) qp.head = qp.issued;
    cq.push(synthetic(qp, (qp.issued - 1) | 0, IBV_WC_SUCCESS, bytes), 0);
    cq.produced = (cq.produced + 1) | 0;
    this.host.synthesised(cq);
  }

  zeroWrites(view: QpView): boolean {
    const qp = view as ShimQp;
    const row = qp.issued & qp.mask;
    // As 0_WAITs on the device, several in one request.
    const total = Math.max(1, this.nextWord(qp, L.WR_REPEAT));
    while (qp.sums[2] < total) {
      if (this.room(qp) < 1) return false;
      if (!qp.partial) qp.first[row] = qp.realPosted;
      qp.partial = true;
      qp.split[row] = AS_WRITES;
      qp.sums[2]++;
      this.zeroWrite(qp, row, qp.sums[2] === total);
    }
    this.finish(qp, row);
    return true;
  }

  private zeroWrite(qp: ShimQp, row: number, isLast: boolean): void {
    const to = this.slot(qp);
    const from = row * qp.stride;
    this.words.fill(0, to, to + L.SLOT_WORDS);
    this.words[to] = qp.held[from];
    this.words[to + 1] = qp.held[from + 1];
    let flags = ISO_SEND_INTERNAL;
    if ((isLast && qp.visible[row] !== 0) || this.mustReport(qp)) flags |= IBV_SEND_SIGNALED;
    this.words[to + L.WR_OP] = IBV_WR_RDMA_WRITE | (flags << 8);
    this.lastData = to;
    this.lastDataSeq = qp.realPosted;
    qp.counts[POSTS]++;
    this.push(qp, flags);
  }

  isCrossChannel(view: QpView): boolean {
    const qp = view as ShimQp;
    return isCrossChannel(qp.held, (qp.issued & qp.mask) * qp.stride);
  }

  execute(view: QpView): boolean {
    const qp = view as ShimQp;
    if (!qp.executed) {
      const isEnable = this.nextOpcode(qp) === ISO_WR_ENABLE;
      const outcome = isEnable ? this.executeEnable(qp) : this.awaitCompletions(qp);
      if (outcome === FAILED) this.deliver(qp, IBV_WC_LOC_QP_OP_ERR, 0);
      if (outcome !== DONE) return false;
      qp.executed = true;
    }
    return this.deliver(qp, IBV_WC_SUCCESS, 0);
  }

  /** Ends the oldest held WAIT or ENABLE now: an ENABLE lets go what it would, a WAIT waits for nothing. */
  skip(qp: ShimQp): boolean {
    if (this.nextOpcode(qp) === ISO_WR_ENABLE) return this.execute(qp);
    qp.executed = true;
    return this.deliver(qp, IBV_WC_SUCCESS, 0);
  }

  private executeEnable(qp: ShimQp): number {
    const managed = this.host.qp(this.nextWord(qp, L.WR_TARGET));
    if (managed === undefined) return FAILED;
    enable(managed, this.nextWord(qp, L.WR_REPEAT));
    this.host.wake(managed);
    return DONE;
  }

  private awaitCompletions(qp: ShimQp): number {
    const cq = this.host.cq(this.nextWord(qp, L.WR_TARGET));
    if (cq === undefined) return FAILED;
    if (((cq.produced - this.nextWord(qp, L.WR_REPEAT)) | 0) >= 0) return DONE;
    qp.waitOn(cq);
    cq.lone = null;
    this.host.arm(cq);
    return BLOCKED;
  }

  pieceOn(view: QpView, resource: ResourceView, bytes: number, token: number): number {
    const qp = view as ShimQp;
    const target = resource as Resource;
    if (qp.backlog === 0 || !this.splittable(qp) || target.room < 1 || !target.connected) return 0;
    // Two queue pairs have no order between them: what came before must be over.
    if (qp.head !== qp.issued || takesReceive(this.nextOpcode(qp))) return 0;
    const row = qp.issued & qp.mask;
    const from = row * qp.stride;
    const total = qp.bytes[row];
    let sge = sgeWord(from, qp.sgeIndex);
    while (qp.sgeOffset === qp.held[sge + L.SGE_LENGTH] && qp.sums[2] < total) {
      qp.sgeIndex++;
      qp.sgeOffset = 0;
      sge = sgeWord(from, qp.sgeIndex);
    }
    const take = Math.min(bytes, qp.held[sge + L.SGE_LENGTH] - qp.sgeOffset, total - qp.sums[2]);
    if (!(take > 0)) return 0;
    const place = { from, offsetBytes: qp.sums[2], sge, sgeOffset: qp.sgeOffset };
    this.host.resources.piece(target, qp.held, place, take, token);
    if (!qp.partial) {
      if (!qp.opened) qp.first[row] = qp.realPosted;
      qp.counts[SPLIT]++;
    }
    qp.counts[PIECES]++;
    qp.partial = true;
    qp.split[row] = 1;
    qp.sums[2] += take;
    qp.sgeOffset += take;
    return take;
  }

  post(resource: ResourceView, request: ResourceRequest): boolean {
    return this.host.resources.post(resource as Resource, request);
  }

  receive(resource: ResourceView, offsetBytes: number, bytes: number, token: number): boolean {
    return this.host.resources.receive(resource as Resource, offsetBytes, bytes, token);
  }

  nowNs(context: ContextView): number {
    return this.next.nowNs(context.handle);
  }

  timer(context: ContextView, atNs: number, token: number, mayBeLate = false): void {
    this.host.timers.set(context as ShimContext, atNs, token, mayBeLate);
  }

  report(context: ContextView, kind: number, value: number): void {
    this.host.coordinator?.report(context, kind, value);
  }

  /**
   * The queue pair is in ERR: everything held goes down as an empty, signaled request, which the device
   * flushes like any other. Empty, because the memory of a held request may be gone.
   */
  flushHeld(qp: ShimQp): void {
    while (qp.backlog > 0 && this.places(qp) > 0) {
      const row = qp.issued & qp.mask;
      const from = row * qp.stride;
      const to = this.slot(qp);
      this.words[to] = qp.held[from];
      this.words[to + 1] = qp.held[from + 1];
      this.words[to + L.WR_OP] = IBV_WR_SEND | FORCED;
      for (let i = L.WR_REMOTE_LO; i <= L.WR_SRQN; i++) this.words[to + i] = qp.held[from + i];
      // A datagram is refused without an address; a WAIT has none, and that of another may be gone.
      if (qp.type === IBV_QPT_UD) this.words[to + L.WR_AH] = this.ownAddress(qp);
      if (!qp.partial && !qp.opened) qp.first[row] = qp.realPosted;
      this.push(qp, IBV_SEND_SIGNALED);
      this.finish(qp, row);
    }
    this.submit(qp);
  }

  /** An address for datagrams that reach nobody: the queue pair's own port. */
  private ownAddress(qp: ShimQp): number {
    if (qp.ownAh !== 0) return qp.ownAh;
    const { next } = this;
    const { context } = qp.sendCq;
    const { portNum = 1 } = next.queryQp(qp.handle).attr;
    const { gidTblLen, lid } = next.queryPort(context, portNum);
    for (let sgidIndex = 0; sgidIndex < gidTblLen; sgidIndex++) {
      const dgid = next.queryGid(context, portNum, sgidIndex).gid;
      if (dgid === '::') continue;
      qp.ownAh = next.createAh(qp.pd, { dgid, sgidIndex, hopLimit: 1, dlid: lid, portNum });
      break;
    }
    return qp.ownAh;
  }

  /** Whose slots wait to be handed over; null: nobody's. */
  get writing(): ShimQp | null {
    return this.pending > 0 ? this.owner : null;
  }

  /** Hands everything written for this queue pair to the device, in one call. */
  submit(qp: ShimQp): void {
    const n = this.pending;
    if (n === 0 || this.owner !== qp) return;
    if ((qp.backlog > 0 || qp.usesWaits) && this.lastData >= 0) {
      // What is held needs a completion to be fed again, and a WAIT to come has to know that all before it is over.
      this.words[this.lastData + L.WR_OP] |= FORCED;
      qp.lastSignaled = this.lastDataSeq;
    }
    this.pending = 0;
    this.lastData = -1;
    const taken = this.next.postSend(qp.handle, this.ring!.handle, 0, n);
    if (taken < n) {
      this.takeBack(qp, n - taken);
      if (this.words[L.HDR_REASON] === L.REASON_DETACHED) {
        // As of a device that finds the memory gone when it comes to the request.
        qp.failSeq = qp.issued;
        qp.failStatus = IBV_WC_LOC_PROT_ERR;
      }
    }
    qp.countDepth();
    this.account(qp);
    if (taken < n) this.host.refused(qp);
  }

  /** The last `lost` slots were not posted: the requests that end in them are held again. */
  private takeBack(qp: ShimQp, lost: number): void {
    qp.realPosted = (qp.realPosted - lost) | 0;
    while (qp.issued !== qp.head && ((qp.last[(qp.issued - 1) & qp.mask] - qp.realPosted) | 0) >= 0) {
      qp.issued = (qp.issued - 1) | 0;
      qp.partial = true;
      qp.sums[2] = qp.bytes[qp.issued & qp.mask];
    }
    const isBegun = ((qp.first[qp.issued & qp.mask] - qp.realPosted) | 0) < 0;
    qp.partial = qp.partial && isBegun;
    qp.opened = qp.opened && isBegun;
    if (((qp.lastSignaled - qp.realPosted) | 0) >= 0) qp.lastSignaled = (qp.realPosted - 1) | 0;
  }

  /** Recounts what this queue pair may put on its CQ beyond the application's own completions. */
  account(qp: ShimQp): void {
    const extra = Math.max(qp.reserved, ((qp.realPosted - qp.realFreed) | 0) - ((qp.issued - qp.head) | 0));
    qp.sendCq.extra += extra - qp.extra;
    qp.extra = extra;
  }

  private slot(qp: ShimQp): number {
    if (this.owner !== qp) this.turnTo(qp);
    else if (this.pending === RING_SLOTS) this.submit(qp);
    return L.HEADER_WORDS + this.pending * L.SLOT_WORDS;
  }

  private turnTo(qp: ShimQp): void {
    if (this.owner !== null && this.pending > 0) this.host.conclude(this.owner);
    if (!qp.translated) this.host.translate(qp);
    this.owner = qp;
  }

  private push(qp: ShimQp, flags: number): void {
    if (qp.isVisible(flags)) {
      qp.lastSignaled = qp.realPosted;
      qp.signalNext = false;
    }
    this.pending++;
    qp.issuedBytes[qp.realPosted & qp.realMask] = qp.sums[0];
    qp.realPosted = (qp.realPosted + 1) | 0;
  }

  private finish(qp: ShimQp, row: number): void {
    qp.last[row] = (qp.realPosted - 1) | 0;
    if (qp.outbox !== null && takesReceive(qp.held[row * qp.stride + L.WR_OP] & 0xff)) {
      qp.outbox.sent = (qp.outbox.sent + 1) | 0;
    }
    qp.beginNext();
    qp.issued = (qp.issued + 1) | 0;
  }

  /** Fence before the first piece; the application's signal and event on the last. */
  private pieceFlags(qp: ShimQp, row: number, isFirst: boolean, isLast: boolean): number {
    const flags = (qp.held[row * qp.stride + L.WR_OP] >>> 8) & 0xff;
    let own = ISO_SEND_INTERNAL;
    if (isFirst) own |= flags & IBV_SEND_FENCE;
    if (isLast) own |= flags & IBV_SEND_SOLICITED;
    if (isLast && qp.visible[row] !== 0) own |= IBV_SEND_SIGNALED;
    // Each piece but the last reports, so that the next one follows without a pause.
    if (!isLast || this.mustReport(qp)) own |= IBV_SEND_SIGNALED;
    return own;
  }

  /** Whether so much went unsignaled that the queue could fill up unseen. */
  private mustReport(qp: ShimQp): boolean {
    return qp.signalNext || ((qp.realPosted - qp.lastSignaled) | 0) >= qp.realDepth >> 2;
  }

  /** wr_id and remote address of a piece; an error on any piece carries the application's wr_id. */
  private writeHead(qp: ShimQp, row: number, to: number, offset: number): void {
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
  private writeSges(qp: ShimQp, row: number, to: number, bytes: number): number {
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

  private ext(): number {
    return L.extAt(this.pending, RING_SLOTS, this.extWords << 2);
  }
}

/** Where element `i` of the held request at word `from` is. */
function sgeWord(from: number, i: number): number {
  return from + (i < 2 ? L.WR_SGE0 + i * L.SGE_WORDS : L.SLOT_WORDS + (i - 2) * L.SGE_WORDS);
}
