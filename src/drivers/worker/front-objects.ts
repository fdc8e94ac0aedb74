/** Queue pairs and CQs as the front knows them: its half of the ledger, in the application's sequence numbers. */
import { COLUMNS } from '../../shim/counters.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import { IBV_SEND_INLINE, IBV_SEND_SIGNALED } from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import { LABEL_BITS, type Labels, maskedLabels, type QpLabels, withLabels } from '../../verbs/labels.ts';
import * as L from '../../verbs/layout.ts';
import type { QpInfo, QpInitAttr } from '../../verbs/types.ts';
import * as P from './protocol.ts';

export class FrontCq {
  readonly handle: number;
  readonly owner: ContextView;
  readonly queue: Int32Array;
  private readonly words: Uint32Array;
  private readonly mask: number;

  constructor(handle: number, owner: ContextView, cqe: number) {
    this.handle = handle;
    this.owner = owner;
    this.queue = P.makeQueue(cqe);
    this.words = new Uint32Array(this.queue.buffer);
    this.mask = P.queueSlots(this.queue) - 1;
  }

  get isShaped(): boolean {
    return this.queue[P.OWNER] === P.BY_WORKER;
  }

  /** Moves up to `max` waiting completions to `words`. @returns how many */
  take(words: Uint32Array, at: number, max: number): number {
    const { queue } = this;
    let head = queue[P.HEAD];
    const tail = Atomics.load(queue, P.TAIL);
    let n = 0;
    while (head !== tail && n < max) {
      const from = P.QUEUE_HEADER + (head & this.mask) * L.SLOT_WORDS;
      head = (head + 1) | 0;
      // Purged, because its queue pair is gone.
      if (this.words[from + L.WC_QP] === 0) continue;
      const to = at + n * L.SLOT_WORDS;
      for (let i = 0; i < L.SLOT_WORDS; i++) words[to + i] = this.words[from + i];
      n++;
    }
    Atomics.store(queue, P.HEAD, head);
    return n;
  }

  /** Drops the waiting completions of a destroyed or reset queue pair, as a device does. */
  purge(qp: number): void {
    const tail = Atomics.load(this.queue, P.TAIL);
    for (let k = this.queue[P.HEAD]; k !== tail; k = (k + 1) | 0) {
      const at = P.QUEUE_HEADER + (k & this.mask) * L.SLOT_WORDS;
      if (this.words[at + L.WC_QP] === qp) this.words[at + L.WC_QP] = 0;
    }
  }
}

export class FrontQp implements QpView {
  readonly index: number;
  readonly handle: number;
  readonly type: number;
  readonly appDepth: number;
  readonly recvDepth: number;
  readonly hasSrq: boolean;
  readonly sqSigAll: boolean;
  /** Whether all its requests are shaped, because the worker holds them back until an ENABLE. */
  readonly managed: boolean;
  readonly sendCq: FrontCq;
  readonly recvCq: FrontCq;
  readonly lane: Int32Array;
  readonly sges: number;
  readonly inlineBytes: number;
  /** Words of one send in the lane: its slot and its extension. */
  readonly stride: number;
  /** Known to the worker's shim only. */
  readonly sgid = '';
  readonly dgid = '';
  readonly maxRdAtomic = 1;
  readonly rateLimitKbps = 0;
  /** Labels that were given to the queue pair itself, and those that result with the context's. */
  private ownLabels: QpLabels;
  labels: Labels;
  appPosted = 0;
  freed = 0;
  lastSignaled = -1;
  recvPosted = 0;
  recvFreed = 0;
  isShaped = false;
  /** For a managed queue pair: the request up to which posted ENABLEs release it. */
  enableIndex = 0;
  /** IBV_QPS_*, as last set. */
  state = 0;
  /** Known to the worker only; the gate is never asked about a queue pair that has been shaped. */
  readonly broken = false;
  readonly counts = new Float64Array(COLUMNS);
  private readonly laneWords: Uint32Array;
  private readonly mask: number;

  constructor(info: QpInfo, attr: QpInitAttr, sendCq: FrontCq, recvCq: FrontCq) {
    this.index = handleIndex(info.handle);
    this.handle = info.handle;
    this.type = attr.qpType;
    this.appDepth = info.cap.maxSendWr;
    this.recvDepth = info.cap.maxRecvWr;
    this.hasSrq = (attr.srq ?? 0) !== 0;
    this.sqSigAll = attr.sqSigAll;
    this.managed = attr.managed === true;
    this.sendCq = sendCq;
    this.ownLabels = maskedLabels(attr, LABEL_BITS);
    this.labels = withLabels(sendCq.owner.labels, this.ownLabels);
    this.recvCq = recvCq;
    this.sges = info.cap.maxSendSge;
    this.inlineBytes = info.cap.maxInlineData;
    this.stride = L.SLOT_WORDS + (L.extBytesFor(this.sges, this.inlineBytes) >> 2);
    this.lane = P.makeLane(this.appDepth, this.stride);
    this.laneWords = new Uint32Array(this.lane.buffer);
    this.mask = P.powerOfTwo(this.appDepth) - 1;
  }

  get context(): ContextView {
    return this.sendCq.owner;
  }

  /** Labels of the queue pair itself (`change`), or of its context, have changed. */
  relabel(change: QpLabels): void {
    this.ownLabels = { ...this.ownLabels, ...change };
    this.labels = withLabels(this.context.labels, this.ownLabels);
  }

  get sendCqHandle(): number {
    return this.sendCq.handle;
  }

  laneInfo(): P.LaneInfo {
    const { handle, sendCq, recvCq, lane, appDepth, stride, sges, inlineBytes } = this;
    return {
      qp: handle,
      sendCq: sendCq.handle,
      recvCq: recvCq.handle,
      words: lane,
      depth: appDepth,
      strideWords: stride,
      sges,
      inlineBytes,
    };
  }

  /** Counts sends that bypassed the worker. */
  countStraight(words: Uint32Array, start: number, count: number): void {
    for (let i = count - 1; i >= 0; i--) {
      if (!this.sqSigAll && (words[L.slotAt(start + i) + L.WR_OP] & (IBV_SEND_SIGNALED << 8)) === 0) continue;
      this.lastSignaled = (this.appPosted + i) | 0;
      break;
    }
    this.appPosted = (this.appPosted + count) | 0;
  }

  /** Copies one send into the lane, because the application may reuse its slot as soon as post returns. */
  put(words: Uint32Array, index: number, capacity: number, extBytes: number): void {
    const to = P.LANE_HEADER + (this.appPosted & this.mask) * this.stride;
    const from = L.slotAt(index);
    const { laneWords: held } = this;
    for (let i = 0; i < L.SLOT_WORDS; i++) held[to + i] = words[from + i];
    const op = words[from + L.WR_OP];
    const sges = op >>> 16;
    let extWords = sges > 2 ? (sges - 2) * L.SGE_WORDS : 0;
    if ((op & (IBV_SEND_INLINE << 8)) !== 0) extWords = (words[from + L.WR_INLINE_LENGTH] + 3) >> 2;
    const ext = L.extAt(index, capacity, extBytes);
    for (let i = 0; i < extWords; i++) held[to + L.SLOT_WORDS + i] = words[ext + i];
    this.appPosted = (this.appPosted + 1) | 0;
  }

  /** Makes everything posted so far visible to the worker. */
  publish(): void {
    const { lane } = this;
    lane[P.FREED] = this.freed;
    lane[P.LAST_SIGNALED] = this.lastSignaled;
    Atomics.store(lane, P.POSTED, this.appPosted);
  }

  /** From now on all sends go through the lane, and the completions of both CQs through their queues. */
  shape(): void {
    this.publish();
    this.lane[P.TAKEN] = this.appPosted;
    this.lane[P.SHAPED] = 1;
    this.isShaped = true;
  }

  /** After a transition to RESET: nothing is outstanding any more. */
  purge(): void {
    this.freed = this.appPosted;
    this.recvFreed = this.recvPosted;
    this.enableIndex = this.appPosted;
  }
}
