/**
 * The ledger of one queue pair: it maps the application's requests to those of the device, and back.
 *
 * Two running numbers (mod 2^32) identify requests: the application's, counted when it posts, and the real one, counted
 * when the shim posts to the device. Until a request is held, both are equal and requests go straight to the device. From
 * then on, a row per application request (its number modulo the depth) has the first and the last of its real numbers.
 */
import {
  IBV_QPS_RTS,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  ISO_SEND_INTERNAL,
  ISO_WR_ENABLE,
  ISO_WR_WAIT,
} from '../verbs/constants.ts';
import { LABEL_BITS, type Labels, maskedLabels } from '../verbs/labels.ts';
import * as L from '../verbs/layout.ts';
import type { QpInfo, QpInitAttr } from '../verbs/types.ts';
import { InheritingLabels, type ShimContext } from './context.ts';
import { BYTES, COLUMNS, HELD, HELD_TWO_SIDED, HIGH_WATER, SEEN } from './counters.ts';
import type { CqLedger } from './cq-ledger.ts';
import type { Inbox } from './peer/inbox.ts';
import { type Outbox, takesReceive } from './peer/outbox.ts';
import { PLAIN, PLAIN_MASK, plainBytes } from './plain-requests.ts';
import type { QpView } from './policy.ts';
import type { ResourceView } from './resources.ts';
import type { Membership } from './sharing/membership.ts';

// Used in each post; a module's own constants cost nothing (plain-requests.ts).
const { SLOT_WORDS } = L;
const FIRST_OP = L.slotAt(0) + L.WR_OP;
const SIGNALED = IBV_SEND_SIGNALED;
const INTERNAL = ISO_SEND_INTERNAL;
const IN_BYTES = BYTES;
const IN_SEEN = SEEN;

function powerOfTwo(n: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(n, 1)));
}

export class QpLedger implements QpView {
  readonly index: number;
  readonly handle: number;
  /** Its number on the wire. */
  readonly qpNum: number;
  readonly pd: number;
  readonly context: ShimContext;
  readonly type: number;
  readonly appDepth: number;
  readonly realDepth: number;
  readonly recvDepth: number;
  readonly sqSigAll: boolean;
  /** Whether its receives come from a shared queue, whose slots are not counted here. */
  readonly hasSrq: boolean;
  /** Whether its requests are held until an ENABLE on another queue pair releases them. */
  readonly managed: boolean;
  readonly sendCq: CqLedger;
  readonly recvCq: CqLedger;
  readonly inlineBytes: number;
  readonly sges: number;
  /** Words of one held request: its slot and its extension. */
  readonly stride: number;

  appPosted = 0;
  /** Application requests whose completions were delivered: their slots are free. */
  appFreed = 0;
  recvPosted = 0;
  /** Receives whose completions the shim has seen, and those before a RESET. */
  recvTaken = 0;
  /** Receives whose completions the shim keeps for the application; recvFreed is the first of them, if any. */
  recvsKept = 0;
  recvFreed = 0;
  realPosted = 0;
  realFreed = 0;
  /** As QpView.rateLimitKbps. */
  rateLimitKbps = 0;
  /** IBV_QPS_*, as last set. When the device has moved to ERR by itself, it accepts requests as in RTS. */
  state = 0;
  /** Whether a request was ever held, so that rows exist. */
  translated = false;
  /** Real numbers from here on have a row; earlier ones are the application's own. */
  base = 0;
  /** Oldest application request that is not known to be complete. */
  head = 0;
  /** Oldest application request that is not issued whole: requests from here to appPosted are held. */
  issued = 0;
  /** Whether the request at `issued` is partly issued, and the element and offset that follow. */
  partial = false;
  /** Whether a READ of the peer's table was issued for the request at `issued`, as its first piece. */
  lookupIssued = false;
  sgeIndex = 0;
  sgeOffset = 0;
  /** Whether the request at `issued` has pieces on twins, how many of them are in flight, and whether one has failed. */
  isStriped = false;
  onTwins = 0;
  twinFailed = false;
  /** Whether it has pieces on the queue pair itself, and the real number of the last one. */
  hasPiece = false;
  lastPiece = 0;
  /** Whether a request failed, so that held requests are posted whole for the device to flush. */
  broken = false;
  /**
   * Set if the queue pair left SQE with requests outstanding: errors up to this real number are old. Null once that
   * request has completed.
   */
  staleErrorsUntil: number | null = null;
  /** Managed: the request up to which posted ENABLEs release it, and up to which executed ones do. */
  enableIndex = 0;
  enabled = 0;
  /** In a context with a limiter: the request up to which it may issue, and whether it waits for more tokens. */
  licensed = 0;
  isLimited = false;
  /**
   * Whether the application has posted WAIT or ENABLE. From then on all requests are held, so that the shim knows
   * exactly when each ends.
   */
  usesWaits = false;
  /** Whether the oldest held request, a WAIT, has begun; and whether it (or an ENABLE) waits only to complete in order. */
  hasBegunWait = false;
  executed = false;
  /** The request that the policy or the shim failed, and its status; 0 if none. */
  failSeq = 0;
  failStatus = 0;
  /** Whether the policy has issued a 0_WAIT that the device does not support, and no request since. */
  hasYielded = false;
  /** Bytes of the last piece; 0 if nothing was cut. */
  pieceBytes = 0;
  /** Whether the next request that is issued must be signaled. */
  signalNext = false;
  /** Pairs of a real number and the token that the policy gets when that request has ended. */
  readonly awaitedTokens: number[] = [];
  /** Completions that arrived since the policy's last onCompleted. */
  unreported = 0;
  /** The pass over its CQ in which it was last fed. */
  fedIn = -1;
  /** How it shares other queue pairs; null if it never does. */
  share: Membership | null = null;
  /** By kind. */
  readonly twins: ResourceView[] = [];
  /** Completions that its internal requests may add to the send CQ beyond the application's own. */
  extra = 0;
  /** The real number of the last signaled request. */
  lastSignaled = -1;
  inBacklogList = false;
  /**
   * Plain requests shorter than `plainBelow` bytes (0: none) go straight to the device without `onload`: at most
   * `plainLeft` more, and only those that match `plainMask` and `plainOp` (plainBytes).
   */
  plainBelow = 0;
  plainLeft = 0;
  plainMask = PLAIN_MASK;
  plainOp = PLAIN;
  /** Whether the policy gets its completions although it has never held a request. */
  isWatched = false;
  /** The CQ that its oldest held request waited for last; that CQ's waiters may include it. */
  private awaited: CqLedger | null = null;
  private isWaiting = false;
  /** UD: the shim's address handle for datagrams that no queue pair receives; 0 if not created yet. */
  ownAh = 0;

  /** The agreement with the peer's shim, until RESET. */
  inbox: Inbox | null = null;
  outbox: Outbox | null = null;
  /** Slots, and entries of the send CQ, kept free for the requests that end a message in pieces. */
  reserved = 0;
  /** IBV_ACCESS_*, and the most outstanding READs, as last set. */
  accessFlags = 0;
  maxRdAtomic = 1;
  sgid = '';
  dgid = '';
  readonly labelling: InheritingLabels;
  /** appPosted and recvPosted at the last RESET. */
  sendBase = 0;
  recvBase = 0;

  mask = 0;
  first: Int32Array = new Int32Array(0);
  last: Int32Array = new Int32Array(0);
  visible: Uint8Array = new Uint8Array(0);
  split: Uint8Array = new Uint8Array(0);
  /** Ended without the device and without a completion: flushed if an earlier request fails. */
  consumed: Uint8Array = new Uint8Array(0);
  bytes: Float64Array = new Float64Array(0);
  held: Uint32Array = new Uint32Array(0);
  /** By real number, modulo the real depth: sums[0] after it was issued. */
  issuedBytes: Float64Array = new Float64Array(0);
  realMask = 0;
  /** [bytes issued, bytes known complete, bytes of `issued` already issued] */
  readonly sums = new Float64Array(3);
  /** The same as counts[HIGH_WATER]. */
  private highWater = 0;
  /** Counts by the columns of counters.ts. */
  readonly counts = new Float64Array(COLUMNS);

  constructor(
    index: number,
    info: QpInfo,
    pd: number,
    attr: QpInitAttr,
    depths: { app: number; real: number; recv: number; sges: number; inlineBytes: number },
    sendCq: CqLedger,
    recvCq: CqLedger,
  ) {
    this.index = index;
    this.handle = info.handle;
    this.qpNum = info.qpNum;
    this.pd = pd;
    this.context = sendCq.owner;
    this.labelling = new InheritingLabels(this.context, maskedLabels(attr, LABEL_BITS));
    this.type = attr.qpType;
    this.sqSigAll = attr.sqSigAll;
    this.hasSrq = (attr.srq ?? 0) !== 0;
    this.managed = attr.managed === true;
    this.appDepth = depths.app;
    this.realDepth = depths.real;
    this.recvDepth = depths.recv;
    this.sges = depths.sges;
    this.inlineBytes = depths.inlineBytes;
    this.stride = L.SLOT_WORDS + (L.extBytesFor(depths.sges, depths.inlineBytes) >> 2);
    this.sendCq = sendCq;
    this.recvCq = recvCq;
  }

  get labels(): Labels {
    return this.labelling.labels;
  }

  /** The twins and the carrier that bring its messages: a twin with a buffer serves other purposes. */
  get pieceQps(): number[] {
    const twins = this.twins.filter(({ buffer }) => buffer === null).map(({ qp }) => qp);
    return this.share === null ? twins : [...twins, this.share.own.qp];
  }

  get sendCqHandle(): number {
    return this.sendCq.handle;
  }

  get backlog(): number {
    return this.translated ? (this.appPosted - this.issued) | 0 : 0;
  }

  /** Held requests that may be issued: enabled ones of a managed queue pair, and those that the limiter has licensed. */
  get ready(): number {
    const ready = this.managed ? Math.max(0, (this.enabled - this.issued) | 0) : this.backlog;
    if (this.context.limiter === null) return ready;
    return Math.min(ready, Math.max(0, (this.licensed - this.issued) | 0));
  }

  /** Whether requests may go to the device without being held. */
  get mayBypass(): boolean {
    if (this.managed) return false;
    return !this.translated || (!this.usesWaits && this.appPosted === this.issued);
  }

  /** Keeps rows from now on. Until here both numbers are equal. */
  translate(): void {
    if (this.translated) return;
    const depth = powerOfTwo(this.appDepth);
    this.mask = depth - 1;
    this.first = new Int32Array(depth);
    this.last = new Int32Array(depth);
    this.visible = new Uint8Array(depth);
    this.split = new Uint8Array(depth);
    this.consumed = new Uint8Array(depth);
    this.bytes = new Float64Array(depth);
    this.held = new Uint32Array(depth * this.stride);
    const real = powerOfTwo(this.realDepth);
    this.realMask = real - 1;
    this.issuedBytes = new Float64Array(real);
    this.translated = true;
    this.plainBelow = 0;
    this.sendCq.soleSender = null;
    this.base = this.realPosted;
    this.head = this.appPosted;
    this.issued = this.appPosted;
  }

  /** Copies request `index` of a ring, because the application may reuse the slot when the post returns. */
  hold(words: Uint32Array, index: number, capacity: number, extBytes: number): void {
    const row = this.appPosted & this.mask;
    const to = row * this.stride;
    const from = L.HEADER_WORDS + index * L.SLOT_WORDS;
    const held = this.held;
    for (let i = 0; i < L.SLOT_WORDS; i++) held[to + i] = words[from + i];
    const op = words[from + L.WR_OP];
    const extWords = this.extWords(op, words[from + L.WR_INLINE_LENGTH]);
    if (extWords > 0) {
      const ext = L.extAt(index, capacity, extBytes);
      for (let i = 0; i < extWords; i++) held[to + L.SLOT_WORDS + i] = words[ext + i];
    }
    this.visible[row] = this.isVisible(op >>> 8) ? 1 : 0;
    this.split[row] = 0;
    this.consumed[row] = 0;
    this.bytes[row] = messageBytes(held, to, to + L.SLOT_WORDS);
    this.counts[HELD]++;
    if (takesReceive(op & 0xff)) this.counts[HELD_TWO_SIDED]++;
    this.counts[BYTES] += this.bytes[row];
    this.appPosted = (this.appPosted + 1) | 0;
  }

  /** `count` requests went straight to the device and need no rows. */
  countStraight(words: Uint32Array, start: number, count: number): void {
    const posted = this.realPosted;
    let i = count - 1;
    for (let at = FIRST_OP + (start + i) * SLOT_WORDS; i >= 0; i--, at -= SLOT_WORDS) {
      if (this.isVisible(words[at] >>> 8)) break;
    }
    if (i >= 0) this.lastSignaled = (posted + i) | 0;
    this.realPosted = (posted + count) | 0;
    this.appPosted = this.realPosted;
  }

  /** `count` plain requests of `bytes` in total went straight to the device. */
  countPlain(words: Uint32Array, start: number, count: number, bytes: number): void {
    this.countStraight(words, start, count);
    this.countDepth();
    const { counts } = this;
    counts[IN_SEEN] += count;
    counts[IN_BYTES] += bytes;
  }

  /** Takes over the counts of requests that bypassed the shim; without effect once it has held any. */
  adopt(posted: number, freed: number, lastSignaled: number): void {
    if (this.translated) return;
    this.appPosted = posted;
    this.realPosted = posted;
    if (((freed - this.realFreed) | 0) > 0) this.realFreed = freed;
    if (((freed - this.appFreed) | 0) > 0) this.appFreed = freed;
    this.lastSignaled = lastSignaled;
  }

  /** The CQ for whose completions its oldest held request waits; null if it does not wait. */
  waitOn(cq: CqLedger | null): void {
    const { awaited } = this;
    if (awaited !== null && awaited !== cq) {
      const at = awaited.waiters.indexOf(this);
      if (at >= 0) awaited.waiters.splice(at, 1);
    }
    this.awaited = cq;
    if (cq !== null && !cq.waiters.includes(this)) cq.waiters.push(this);
  }

  /** Counts it among the context's waiting queue pairs, if a timer of the policy may let it continue. */
  countWaiting(): void {
    const holds = this.inBacklogList || this.awaitedTokens.length > 0;
    const isWaiting = holds && !this.broken && this.state === IBV_QPS_RTS;
    if (isWaiting !== this.isWaiting) this.context.waiting += isWaiting ? 1 : -1;
    this.isWaiting = isWaiting;
  }

  /** Requests were posted: notes the high-water mark of the device's queue. */
  countDepth(): void {
    const depth = (this.realPosted - this.realFreed) | 0;
    if (depth <= this.highWater) return;
    this.highWater = depth;
    this.counts[HIGH_WATER] = depth;
  }

  /** Counts the bytes of requests that need no rows; `sign` -1 takes back those of refused requests. */
  countBytes(
    words: Uint32Array,
    start: number,
    count: number,
    capacity: number,
    extBytes: number,
    sign: 1 | -1 = 1,
  ): void {
    const plain = plainBytes(words, start, count);
    this.counts[BYTES] += sign * (plain >= 0 ? plain : totalBytes(words, start, count, capacity, extBytes));
  }

  /** Makes a row for a request that went straight to the device. */
  passThrough(words: Uint32Array, at: number, ext: number, isToWeigh: boolean): void {
    const row = this.appPosted & this.mask;
    this.first[row] = this.realPosted;
    this.last[row] = this.realPosted;
    const op = words[at + L.WR_OP];
    const visible = this.isVisible(op >>> 8);
    this.visible[row] = visible ? 1 : 0;
    this.split[row] = 0;
    this.consumed[row] = 0;
    this.bytes[row] = messageBytes(words, at, ext);
    if (isToWeigh) this.counts[BYTES] += this.bytes[row];
    this.sums[0] += this.bytes[row];
    this.issuedBytes[this.realPosted & this.realMask] = this.sums[0];
    if (visible) this.lastSignaled = this.realPosted;
    this.appPosted = (this.appPosted + 1) | 0;
    this.issued = this.appPosted;
    this.realPosted = (this.realPosted + 1) | 0;
  }

  /** Forgets everything that is posted or held, after RESET. */
  purge(): void {
    this.context.latencyProbe.drop(this);
    this.realFreed = this.realPosted;
    this.appFreed = this.appPosted;
    this.recvsKept = 0;
    this.head = this.appPosted;
    this.issued = this.appPosted;
    this.broken = false;
    this.staleErrorsUntil = null;
    this.enableIndex = this.appPosted;
    this.enabled = this.appPosted;
    this.licensed = this.appPosted;
    this.sendBase = this.appPosted;
    this.recvBase = this.recvPosted;
    this.recvTaken = this.recvPosted;
    this.failStatus = 0;
    this.signalNext = false;
    this.hasYielded = false;
    this.sendCq.awaitedCount -= this.awaitedTokens.length / 2;
    this.awaitedTokens.length = 0;
    this.countWaiting();
    this.lastSignaled = (this.realPosted - 1) | 0;
    this.sums.fill(0);
    this.beginNext();
  }

  /** No part of the request at `issued` has been issued or executed yet. */
  beginNext(): void {
    this.hasBegunWait = false;
    this.executed = false;
    this.partial = false;
    this.lookupIssued = false;
    this.isStriped = false;
    this.onTwins = 0;
    this.hasPiece = false;
    this.rewind();
  }

  /** The request at `issued` begins again, if a part of it was issued. */
  rewind(): void {
    this.twinFailed = false;
    this.sums[2] = 0;
    this.sgeIndex = 0;
    this.sgeOffset = 0;
  }

  /** Ends held requests without the device: they are flushed after the outstanding ones. */
  consumeHeld(): void {
    const last = (this.realPosted - 1) | 0;
    // A partly issued request will have its own error completion.
    let isConsumed = !this.partial && !this.lookupIssued;
    for (; this.issued !== this.appPosted; this.issued = (this.issued + 1) | 0) {
      const row = this.issued & this.mask;
      if (isConsumed) this.first[row] = this.realPosted;
      this.consumed[row] = isConsumed ? 1 : 0;
      this.last[row] = last;
      isConsumed = true;
    }
    this.beginNext();
  }

  /** Words of its slot's extension that a request uses. */
  extWords(op: number, inlineLength: number): number {
    if ((op & (IBV_SEND_INLINE << 8)) !== 0) return (inlineLength + 3) >> 2;
    const sges = op >>> 16;
    return sges > 2 ? (sges - 2) * L.SGE_WORDS : 0;
  }

  /** Whether a successful completion of a request with these flags belongs to the application. */
  isVisible(flags: number): boolean {
    if ((flags & SIGNALED) !== 0) return true;
    return this.sqSigAll && (flags & INTERNAL) === 0;
  }
}

/** Message bytes of requests of any kind in a ring. */
function totalBytes(
  words: Uint32Array,
  start: number,
  count: number,
  capacity: number,
  extBytes: number,
): number {
  let bytes = 0;
  for (let i = start; i < start + count; i++) {
    bytes += messageBytes(words, L.slotAt(i), L.extAt(i, capacity, extBytes));
  }
  return bytes;
}

/** Message length of the request in `words[at..]` whose extension begins at word `ext`. */
export function messageBytes(words: Uint32Array, at: number, ext: number): number {
  const op = words[at + L.WR_OP];
  const opcode = op & 0xff;
  if (opcode === ISO_WR_WAIT || opcode === ISO_WR_ENABLE) return 0;
  if ((op & (IBV_SEND_INLINE << 8)) !== 0) return words[at + L.WR_INLINE_LENGTH];
  const sges = op >>> 16;
  if (sges === 0) return 0;
  let bytes = words[at + L.WR_SGE0 + L.SGE_LENGTH];
  // The operands of an atomic lie where a second SGE would.
  const atomic = opcode === IBV_WR_ATOMIC_CMP_AND_SWP || opcode === IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (sges === 1 || atomic) return bytes;
  bytes += words[at + L.WR_SGE1 + L.SGE_LENGTH];
  for (let i = 2; i < sges; i++) bytes += words[ext + (i - 2) * L.SGE_WORDS + L.SGE_LENGTH];
  return bytes;
}
