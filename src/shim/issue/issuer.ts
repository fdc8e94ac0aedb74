/** The Actions of a policy: its queries about a queue pair's oldest held request, and its actions on it. */
import {
  IBV_QPS_RTS,
  IBV_QPS_SQD,
  IBV_QPT_RC,
  IBV_SEND_INLINE,
  IBV_WC_GENERAL_ERR,
  IBV_WC_LOC_QP_OP_ERR,
  IBV_WC_SUCCESS,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
  ISO_WR_ENABLE,
  ISO_WR_WAIT,
} from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider, WaitSupport } from '../../verbs/provider.ts';
import type { ShimContext } from '../context.ts';
import {
  EMULATED,
  PIECES,
  SPLIT,
  UNCUT_INLINE,
  UNCUT_NO_RECEIVE,
  UNCUT_NOT_AGREED,
  UNCUT_NOT_RC,
  UNCUT_SHORT,
  WAITS,
} from '../counters.ts';
import { awaitsEarlier } from '../cq-ledger.ts';
import type { CompletionBudget } from '../limits/completion-limits.ts';
import { takesReceive } from '../peer/outbox.ts';
import { OPCODE_MASK, PLAIN, PLAIN_MASK } from '../plain-requests.ts';
import { type Actions, type ContextView, NO_TOKEN, type QpView } from '../policy.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Resource } from '../resource-keeper.ts';
import type { ResourceRequest, ResourceView } from '../resources.ts';
import { enable, isCrossChannel, syntheticCompletion } from '../wait/cross-channel.ts';
import type { IssuerHost } from './host.ts';
import { FORCED, NO_OBSTACLE, sgeWord, wrongPiece } from './piece-writer.ts';
import { SyntheticWriter } from './synthetic.ts';

/** The outcome of an attempted WAIT or ENABLE. */
const DONE = 0;
const BLOCKED = 1;
const FAILED = 2;
/** The obstacle of requests that the device flushes. It is not counted. */
const BROKEN = -2;
// Used in each post; a module's own constants cost nothing (plain-requests.ts).
const PLAIN_OP = PLAIN;
const ANY_MASK = PLAIN_MASK;
const ONE_MASK = OPCODE_MASK;
/** Requests after which a policy that has let all plain ones pass is asked again. */
const UNLIMITED = 2 ** 31 - 1;

export class Issuer extends SyntheticWriter implements Actions {
  readonly wait: WaitSupport;
  /** Bytes in flight after which a 0_WAIT yields; 0 if the layer below executes 0_WAITs. */
  private readonly yieldBytes: number;

  constructor(next: Provider, host: IssuerHost) {
    super(next, host);
    this.wait = next.wait;
    this.yieldBytes = next.standby?.yieldBytes ?? 0;
  }

  override room(view: QpView): number {
    const qp = view as QpLedger;
    return qp.hasYielded && !this.mayFollow(qp) ? 0 : super.room(qp);
  }

  /** After a 0_WAIT that the device does not support: whether few enough bytes are in flight for the next request. */
  private mayFollow(qp: QpLedger): boolean {
    const inFlightBytes = this.inflightBytes(qp);
    if (inFlightBytes === 0) return true;
    const nextBytes = this.nextBytes(qp);
    const isCut = qp.pieceBytes > 0 && this.obstacle(qp) === NO_OBSTACLE;
    return inFlightBytes + (isCut ? Math.min(nextBytes, qp.pieceBytes) : nextBytes) <= this.yieldBytes;
  }

  override zeroWaits(view: QpView, count: number): void {
    if (this.yieldBytes === 0) {
      super.zeroWaits(view, count);
      return;
    }
    const qp = view as QpLedger;
    qp.counts[WAITS] += count;
    qp.counts[EMULATED]++;
    qp.hasYielded = true;
  }

  inflightBytes(view: QpView): number {
    const qp = view as QpLedger;
    return this.inflight(qp) === 0 ? 0 : qp.sums[0] - qp.sums[1];
  }

  outstanding(view: QpView): number {
    const qp = view as QpLedger;
    return (qp.appPosted - qp.appFreed) | 0;
  }

  backlog(view: QpView): number {
    const qp = view as QpLedger;
    return qp.broken || this.needsLookup(qp) || this.awaitsTwins(qp) ? 0 : qp.ready;
  }

  passPlain(view: QpView, below: number, most = 0, opcode = 0): void {
    const qp = view as QpLedger;
    if (below === 0) {
      qp.plainBelow = 0;
      return;
    }
    const isLimited = this.host.limits() || qp.context.limiter !== null;
    // An outbox counts the messages that take a receive.
    const isCounted = qp.outbox !== null && (most === 0 || takesReceive(opcode));
    const mayShare = qp.share !== null && qp.share.group !== null;
    const isAsked = qp.translated || qp.managed || isCounted || isLimited || mayShare;
    qp.plainBelow = isAsked ? 0 : below;
    qp.plainLeft = most === 0 ? UNLIMITED : most;
    qp.plainMask = most === 0 ? ANY_MASK : ONE_MASK;
    qp.plainOp = most === 0 ? PLAIN_OP : PLAIN_OP | opcode;
  }

  limitRate(view: QpView, kbps: number): boolean {
    try {
      this.next.modifyQpRateLimit(view.handle, { rateLimitKbps: kbps });
      return true;
    } catch (error) {
      if (error instanceof IsoverbsError) return false;
      throw error;
    }
  }

  watchCompletions(view: QpView, isWatched: boolean): void {
    const qp = view as QpLedger;
    qp.isWatched = isWatched;
    qp.sendCq.soleSender = null;
  }

  nextOpcode(view: QpView): number {
    return this.nextWord(view, L.WR_OP) & 0xff;
  }

  splittable(view: QpView): boolean {
    const qp = view as QpLedger;
    const obstacle = this.obstacle(qp);
    this.noteObstacle(qp, obstacle);
    return obstacle === NO_OBSTACLE;
  }

  /** What keeps the oldest held request from going in pieces: an index of UNCUT_REASONS, or a negative number. */
  private obstacle(qp: QpLedger): number {
    if (qp.type !== IBV_QPT_RC) return UNCUT_NOT_RC;
    if (qp.broken) return BROKEN;
    const op = this.nextWord(qp, L.WR_OP);
    // The message of an inline request is part of the request, and short.
    if ((op & (IBV_SEND_INLINE << 8)) !== 0) return UNCUT_INLINE;
    if ((op & 0xff) === IBV_WR_RDMA_WRITE || (op & 0xff) === IBV_WR_RDMA_READ) return NO_OBSTACLE;
    // The peer would see that an immediate or a SEND was cut, unless a shim there repairs its completion.
    const { outbox } = qp;
    if (outbox === null) return UNCUT_NOT_AGREED;
    const bytes = qp.bytes[qp.issued & qp.mask];
    if (!outbox.mayCut(op, bytes)) return UNCUT_SHORT;
    return outbox.fits(op & 0xff, bytes) ? NO_OBSTACLE : UNCUT_NO_RECEIVE;
  }

  pieces(view: QpView, bytes: number, max: number, waits: number): number {
    const qp = view as QpLedger;
    const parent = qp.issued;
    const slotsEach = waits > 0 && this.yieldBytes === 0 ? 2 : 1;
    const most = Math.min(max, Math.floor(this.room(qp) / slotsEach));
    let n = 0;
    while (n < most && qp.issued === parent && (!qp.hasYielded || this.mayFollow(qp))) {
      this.piece(qp, bytes);
      if (waits > 0) this.zeroWaits(qp, waits);
      n++;
    }
    return n;
  }

  signalNow(view: QpView): void {
    const qp = view as QpLedger;
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
    const qp = view as QpLedger;
    if (qp.broken || qp.backlog === 0 || qp.onTwins > 0) return false;
    const row = qp.issued & qp.mask;
    const completes = status !== IBV_WC_SUCCESS || qp.visible[row] !== 0;
    // Its completion must follow those of the requests before it.
    if (completes && this.inflight(qp) > 0) return false;
    if ((this.nextWord(qp, L.WR_OP) & 0xff) >= ISO_WR_WAIT) qp.counts[EMULATED]++;
    if (status === IBV_WC_SUCCESS) this.succeed(qp, row, bytes);
    else this.fail(qp, status);
    return true;
  }

  /** The device flushes the request, in order with those around it; only the status is replaced. */
  private fail(qp: QpLedger, status: number): void {
    qp.failSeq = qp.issued;
    qp.failStatus = status;
    this.host.fail(qp);
  }

  private succeed(qp: QpLedger, row: number, bytes: number): void {
    const cq = qp.sendCq;
    if (!qp.partial) qp.first[row] = qp.realPosted;
    // This request has no real number, and ends with the request before it.
    qp.last[row] = (qp.realPosted - 1) | 0;
    // Requests without rows that have not ended may fail, and the device would then flush this one.
    const isIdle = awaitsEarlier(qp) ? qp.visible[row] !== 0 : qp.head === qp.issued;
    qp.consumed[row] = qp.visible[row] === 0 ? 1 : 0;
    qp.beginNext();
    qp.issued = (qp.issued + 1) | 0;
    if (isIdle) qp.head = qp.issued;
    if (qp.visible[row] === 0) return;
    cq.push(syntheticCompletion(qp, (qp.issued - 1) | 0, IBV_WC_SUCCESS, bytes), 0);
    cq.produced = (cq.produced + 1) | 0;
    this.host.synthesised(cq);
  }

  isCrossChannel(view: QpView): boolean {
    const qp = view as QpLedger;
    return isCrossChannel(qp.held, (qp.issued & qp.mask) * qp.stride);
  }

  execute(view: QpView): boolean {
    const qp = view as QpLedger;
    // In SQD the device finishes what has begun, and begins nothing.
    if (qp.state === IBV_QPS_SQD && !qp.hasBegunWait && !qp.executed) return false;
    if (!qp.executed) {
      const isEnable = this.nextOpcode(qp) === ISO_WR_ENABLE;
      const outcome = isEnable ? this.executeEnable(qp) : this.awaitCompletions(qp);
      if (outcome === FAILED) this.deliver(qp, IBV_WC_LOC_QP_OP_ERR, 0);
      if (outcome !== DONE) return false;
      qp.executed = true;
    }
    return this.deliver(qp, IBV_WC_SUCCESS, 0);
  }

  /** Ends the oldest held WAIT or ENABLE at once: an ENABLE takes effect, a WAIT does not wait. */
  skip(qp: QpLedger): boolean {
    if (this.nextOpcode(qp) === ISO_WR_ENABLE) return this.execute(qp);
    qp.executed = true;
    return this.deliver(qp, IBV_WC_SUCCESS, 0);
  }

  private executeEnable(qp: QpLedger): number {
    const managed = this.host.qp(this.nextWord(qp, L.WR_TARGET));
    if (managed === undefined) return FAILED;
    enable(managed, this.nextWord(qp, L.WR_REPEAT));
    this.host.feedLater(managed);
    return DONE;
  }

  private awaitCompletions(qp: QpLedger): number {
    const cq = this.host.cq(this.nextWord(qp, L.WR_TARGET));
    if (cq === undefined) return FAILED;
    if (((cq.produced - this.nextWord(qp, L.WR_REPEAT)) | 0) >= 0) return DONE;
    qp.hasBegunWait = true;
    qp.waitOn(cq);
    cq.soleSender = null;
    this.host.arm(cq);
    return BLOCKED;
  }

  pieceOn(view: QpView, resource: ResourceView, bytes: number, token: number = NO_TOKEN): number {
    const qp = view as QpLedger;
    const twin = resource as Resource;
    if (this.backlog(qp) === 0 || !this.mayLeave(qp, twin)) return 0;
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
    if (take >>> 0 !== take || (take === 0 && qp.sums[2] < total)) throw wrongPiece('pieceOn', bytes);
    if (take === 0) return 0;
    this.host.resources.piece(twin, qp, { from, sge }, take, token);
    if (!qp.partial) {
      if (!qp.lookupIssued) qp.first[row] = qp.realPosted;
      qp.counts[SPLIT]++;
    }
    qp.counts[PIECES]++;
    qp.partial = true;
    qp.split[row] = 1;
    qp.isStriped = true;
    qp.onTwins++;
    qp.sums[2] += take;
    qp.sgeOffset += take;
    return take;
  }

  /** Whether a piece of the oldest held request may go to a twin. */
  private mayLeave(qp: QpLedger, twin: Resource): boolean {
    if (twin.room < 1 || !twin.connected || twin.ofQp?.pd !== qp.pd) return false;
    // Nothing orders two queue pairs: all earlier requests must have ended.
    if (qp.state !== IBV_QPS_RTS || qp.head !== qp.issued) return false;
    if (this.obstacle(qp) !== NO_OBSTACLE) return false;
    // The device refuses READs if it may have none outstanding.
    return qp.maxRdAtomic > 0 || this.nextOpcode(qp) !== IBV_WR_RDMA_READ;
  }

  /** Once no piece is left on twins: ends the oldest held request if it is issued whole, or begins it again. */
  settleStriped(qp: QpLedger): void {
    if (qp.onTwins > 0 || !this.awaitsTwins(qp)) return;
    const row = qp.issued & qp.mask;
    if (qp.twinFailed) {
      // On the queue pair itself, the pieces either arrive or fail with the right status.
      qp.rewind();
    } else if (takesReceive(this.nextOpcode(qp))) {
      this.endMessage(qp, row);
      this.finish(qp, row);
    } else if (qp.hasPiece && ((qp.lastPiece - qp.realFreed) | 0) >= 0) {
      const { lastPiece } = qp;
      this.finish(qp, row);
      qp.last[row] = lastPiece;
    } else {
      this.succeed(qp, row, qp.bytes[row]);
    }
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

  limitCompletions(context: ContextView, budget: CompletionBudget): void {
    this.host.completionLimits?.set(context as ShimContext, budget);
  }

  timer(context: ContextView, atNs: number, token: number, mayBeLate = false): void {
    this.host.timers.set(context as ShimContext, atNs, token, mayBeLate);
  }
}
