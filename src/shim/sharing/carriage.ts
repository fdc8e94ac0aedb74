/** The carriers of one context, and the completion queue of all their requests. */
import { IBV_QPT_RC, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { ShimContext } from '../context.ts';
import type { CqLedger } from '../cq-ledger.ts';
import type { QpLedger } from '../qp-ledger.ts';
import { type KnownRing, scratchRing, type Tables } from '../tables.ts';
import type { AnchorSlot } from './anchor.ts';
import { Carrier } from './carrier.ts';

const SCRATCH_SLOTS = 64;
const LEAST_DEPTH = 256;
const LEAST_CQE = 1024;
const SIGNALED = IBV_SEND_SIGNALED << 8;
const HIGH = 2 ** -32;

/** The functions that a carriage uses. */
export interface CarriageHost {
  readonly next: Provider;
  readonly tables: Tables;
  /** A completion in slot `index` of `words` belongs to a queue pair whose sends complete in `cq`. */
  settle(cq: CqLedger, words: Uint32Array, index: number): void;
  /** Completions of the queue pairs of this CQ have been settled. */
  settled(cq: CqLedger): void;
  /** All completions that have arrived have been settled. */
  drain(): void;
  /** The queue of this queue pair is drained in SQD. */
  drained(qp: QpLedger): void;
  /** The request `seq` of a carrier has failed with this status, and those after it. */
  failed(carrier: Carrier, seq: number, status: number): void;
}

export class Carriage {
  readonly context: ShimContext;
  readonly cq: number;
  private readonly host: CarriageHost;
  /** By index of the handle of their queue pairs. */
  private readonly carriers: (Carrier | undefined)[] = [];
  private cqe = LEAST_CQE;
  /** The most requests that can be outstanding. */
  private depth = 0;
  private isArmed = false;
  private isPolling = false;
  private readonly scratch: KnownRing;
  /** For requests of its own. */
  private readonly ring: KnownRing;
  private readonly touched: CqLedger[] = [];

  /** @param channel a completion channel that the shim listens to */
  constructor(host: CarriageHost, context: ShimContext, channel: number) {
    const { next } = host;
    this.host = host;
    this.context = context;
    this.cq = next.createCq(context.handle, this.cqe, channel).handle;
    this.scratch = scratchRing(next, SCRATCH_SLOTS);
    this.ring = scratchWrRing(next);
  }

  /** Makes a carrier. @throws NoResourcesError */
  add(qp: QpLedger, slot: AnchorSlot): Carrier {
    const { next } = this.host;
    const { context, pd } = qp;
    const depth = Math.min(context.maxQpWr, Math.max(LEAST_DEPTH, qp.appDepth));
    this.fit(this.depth + depth);
    const cap = {
      maxSendWr: depth,
      maxRecvWr: 1,
      maxSendSge: qp.sges,
      maxRecvSge: 1,
      maxInlineData: qp.inlineBytes,
    };
    const attr = { qpType: IBV_QPT_RC, sendCq: this.cq, recvCq: this.cq, cap, sqSigAll: false };
    const { handle, qpNum } = next.createQp(pd, attr);
    const carrier = new Carrier({ qp: handle, qpNum, pd, depth, slot });
    this.carriers[handleIndex(handle)] = carrier;
    this.depth += depth;
    return carrier;
  }

  /** Makes room for the completions of `depth` requests. */
  private fit(depth: number): void {
    if (depth <= this.cqe) return;
    const { maxCqe } = this.context;
    this.cqe = this.host.next.resizeCq(this.cq, Math.max(depth, Math.min(maxCqe, 2 * this.cqe)));
  }

  remove(carrier: Carrier): void {
    this.host.next.destroyQp(carrier.qp);
    this.carriers[handleIndex(carrier.qp)] = undefined;
    this.depth -= carrier.depth;
  }

  find(qp: number): Carrier | undefined {
    const carrier = this.carriers[handleIndex(qp)];
    return carrier?.qp === qp ? carrier : undefined;
  }

  close(): void {
    const { next } = this.host;
    for (const carrier of this.carriers) if (carrier !== undefined) this.remove(carrier);
    next.destroyRing(this.scratch.handle);
    next.destroyRing(this.ring.handle);
    next.destroyCq(this.cq);
  }

  /**
   * Posts the first `n` slots of a ring, which were written for this queue pair and have its latest real numbers. Returns
   * how many the device took.
   */
  post(carrier: Carrier, qp: QpLedger, ring: number, words: Uint32Array, n: number): number {
    this.arm();
    const base = (qp.realPosted - n) | 0;
    for (let i = 0; i < n; i++) {
      const at = L.slotAt(i) + L.WR_OP;
      // The last one always reports, so that it is known when nothing of the queue pair is on its way.
      const reports = i === n - 1 || qp.isVisible((words[at] >>> 8) & 0xff);
      const isSignaled = reports || carrier.mustReport;
      if (isSignaled) words[at] |= SIGNALED;
      if (reports) qp.lastSignaled = (base + i) | 0;
      carrier.push(qp.handle, (base + i) | 0, isSignaled, !reports);
    }
    const taken = this.host.next.postSend(carrier.qp, ring, 0, n);
    if (taken < n) carrier.takeBack(n - taken);
    qp.share!.shift = (qp.share!.shift + taken) | 0;
    return taken;
  }

  /** Writes one byte, from an address in the memory of this end, to the byte that the peer has for the carrier. */
  write(carrier: Carrier, addr: number): void {
    if (carrier.peer === null || !carrier.connected || carrier.room < 1) return;
    this.arm();
    const { bufferAddr, rkey } = carrier.peer;
    const { words, handle } = this.ring;
    const at = L.slotAt(0);
    words.fill(0, at, at + L.SLOT_WORDS);
    words[at + L.WR_OP] = IBV_WR_RDMA_WRITE | SIGNALED | (1 << 16);
    words[at + L.WR_REMOTE_LO] = bufferAddr;
    words[at + L.WR_REMOTE_HI] = bufferAddr * HIGH;
    words[at + L.WR_RKEY] = rkey;
    words[at + L.WR_SGE0] = addr;
    words[at + L.WR_SGE0 + L.SGE_HI] = addr * HIGH;
    words[at + L.WR_SGE0 + L.SGE_LENGTH] = 1;
    words[at + L.WR_SGE0 + L.SGE_LKEY] = carrier.slot.anchor.lkey;
    carrier.push(0, 0, true, true);
    if (this.host.next.postSend(carrier.qp, handle, 0, 1) < 1) carrier.takeBack(1);
  }

  /** Lets the next completion wake the shim. Before the request is posted: an earlier completion raises no event. */
  private arm(): void {
    if (this.isArmed) return;
    this.isArmed = true;
    this.host.next.reqNotifyCq(this.cq, false);
  }

  /** A completion event. */
  event(): void {
    this.isArmed = false;
    this.poll();
    this.arm();
    this.poll();
  }

  poll(): void {
    if (this.isPolling) return;
    this.isPolling = true;
    try {
      const { handle, words } = this.scratch;
      let n = SCRATCH_SLOTS;
      while (n === SCRATCH_SLOTS) {
        n = this.host.next.pollCq(this.cq, handle, 0, SCRATCH_SLOTS);
        for (let i = 0; i < n; i++) this.complete(words, i);
      }
    } finally {
      this.isPolling = false;
    }
    while (this.touched.length > 0) this.host.settled(this.touched.pop()!);
    this.host.drain();
  }

  /** Turns a completion of a carrier into one of the queue pair that the request belongs to. */
  private complete(words: Uint32Array, index: number): void {
    const at = L.slotAt(index);
    const op = words[at + L.WC_OP];
    const carrier = this.find(words[at + L.WC_QP]);
    if (carrier === undefined || (op & L.WC_RECV_SIDE) !== 0) return;
    const seq = words[at + L.WC_SEQ] | 0;
    if (((seq - carrier.freed) | 0) < 0) return;
    if ((op & 0xff) !== IBV_WC_SUCCESS) {
      this.host.failed(carrier, seq, op & 0xff);
      return;
    }
    carrier.freed = (seq + 1) | 0;
    if (carrier.isSilentAt(seq)) return;
    const qp = this.host.tables.qp(carrier.handleAt(seq));
    if (qp === undefined) return;
    words[at + L.WC_QP] = qp.handle;
    words[at + L.WC_QP_NUM] = qp.qpNum;
    words[at + L.WC_SEQ] = carrier.numberAt(seq) - qp.share!.shift;
    this.host.settle(qp.sendCq, words, index);
    if (qp.share!.isDrainDue && !carrier.has(qp.handle)) {
      qp.share!.isDrainDue = false;
      this.host.drained(qp);
    }
    if (!this.touched.includes(qp.sendCq)) this.touched.push(qp.sendCq);
  }
}

function scratchWrRing(next: Provider): KnownRing {
  const info = next.createWrRing(1, 1, 0);
  return { handle: info.handle, capacity: 1, extBytes: info.extBytes, words: new Uint32Array(info.memory) };
}
