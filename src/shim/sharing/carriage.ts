/** The carriers of one context, and the completion queue of all their requests. */
import {
  IBV_QPT_RC,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  IBV_WC_SUCCESS,
  IBV_WC_WITH_IMM,
  IBV_WR_RDMA_WRITE,
  IBV_WR_RDMA_WRITE_WITH_IMM,
  IBV_WR_SEND_WITH_IMM,
} from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { ShimContext } from '../context.ts';
import type { CqLedger } from '../cq-ledger.ts';
import { isSend } from '../peer/outbox.ts';
import type { QpLedger } from '../qp-ledger.ts';
import { type KnownRing, scratchRing, type Tables } from '../tables.ts';
import type { AnchorSlot } from './anchor.ts';
import type { Bounce } from './bounce.ts';
import { Carrier, OWN_REQUESTS } from './carrier.ts';
import { BODY_WORDS, codeOf, kindOfSend, WRITE_IMM } from './mail.ts';

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
  /** A message has arrived on a carrier: its completion is in slot `index` of `words`. */
  arrived(carrier: Carrier, words: Uint32Array, index: number): void;
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
  /** Whether a timer is set because a connection waits for its peer. */
  isWatched = false;
  private readonly scratch: KnownRing;
  /** For requests of the shim itself. */
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
  add(qp: QpLedger, slot: AnchorSlot, bounce: Bounce | null): Carrier {
    const { next } = this.host;
    const { context, pd } = qp;
    const depth = Math.min(context.maxQpWr, Math.max(LEAST_DEPTH, qp.appDepth));
    this.fit(this.depth + depth + OWN_REQUESTS);
    const cap = {
      maxSendWr: Math.min(context.maxQpWr, depth + OWN_REQUESTS),
      maxRecvWr: bounce === null ? 1 : 0,
      maxSendSge: qp.sges,
      maxRecvSge: bounce === null ? 1 : 0,
      maxInlineData: Math.max(qp.inlineBytes, BODY_WORDS * 4),
    };
    const srq = bounce === null ? {} : { srq: bounce.srq };
    const attr = { qpType: IBV_QPT_RC, sendCq: this.cq, recvCq: this.cq, cap, sqSigAll: false, ...srq };
    const { handle, qpNum } = next.createQp(pd, attr);
    const carrier = new Carrier({ qp: handle, qpNum, pd, depth, slot, bounce });
    this.carriers[handleIndex(handle)] = carrier;
    this.depth += depth + OWN_REQUESTS;
    return carrier;
  }

  /** Makes room for the completions of `depth` more messages that arrive. */
  receive(depth: number): void {
    this.fit(this.depth + depth);
    this.depth += depth;
    this.arm();
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
    this.depth -= carrier.depth + OWN_REQUESTS;
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
    let posted = 0;
    while (posted < n) {
      const opcode = opcodeAt(words, posted);
      if (opcode === IBV_WR_SEND_WITH_IMM && !this.sendImmediate(carrier, words[L.slotAt(posted) + L.WR_IMM]))
        break;
      const end = this.address(carrier, qp, words, posted, n);
      const taken = this.host.next.postSend(carrier.qp, ring, posted, end - posted);
      posted += taken;
      if (posted < end) {
        carrier.takeBack(end - posted);
        break;
      }
      if (opcodeAt(words, end - 1) === IBV_WR_RDMA_WRITE_WITH_IMM) {
        this.sendMail(carrier, codeOf(WRITE_IMM, qp.share!.exchange!.peerId), 0, 0, 0);
      }
    }
    qp.share!.shift = (qp.share!.shift + posted) | 0;
    return posted;
  }

  /**
   * Prepares slots from `start` on for the carrier. Ends where the shim must post a request of its own: after an RDMA
   * WRITE with immediate, and before a SEND with immediate. Returns where that is.
   */
  private address(carrier: Carrier, qp: QpLedger, words: Uint32Array, start: number, n: number): number {
    const base = (qp.realPosted - n) | 0;
    let i = start;
    let opcode = 0;
    do {
      const at = L.slotAt(i) + L.WR_OP;
      opcode = words[at] & 0xff;
      // The last request always reports, so that the shim learns when nothing of the queue pair is on its way.
      const reports = i === n - 1 || qp.isVisible((words[at] >>> 8) & 0xff);
      const isSignaled = reports || carrier.mustReport;
      if (isSignaled) words[at] |= SIGNALED;
      if (reports) qp.lastSignaled = (base + i) | 0;
      if (isSend(opcode)) {
        words[L.slotAt(i) + L.WR_IMM] = codeOf(kindOfSend(opcode), qp.share!.exchange!.peerId);
        words[at] = (words[at] & ~0xff) | IBV_WR_SEND_WITH_IMM;
      }
      carrier.push(qp.handle, (base + i) | 0, isSignaled, !reports);
      i++;
    } while (i < n && opcode !== IBV_WR_RDMA_WRITE_WITH_IMM && opcodeAt(words, i) !== IBV_WR_SEND_WITH_IMM);
    return i;
  }

  /** Sends the immediate of the SEND that follows. Returns whether the device took it. */
  private sendImmediate(carrier: Carrier, imm: number): boolean {
    const { words } = this.ring;
    const at = this.clear();
    words[at + L.WR_OP] = IBV_WR_RDMA_WRITE_WITH_IMM | SIGNALED;
    words[at + L.WR_IMM] = imm;
    return this.postOwn(carrier);
  }

  /** Sends a message to the peer's shim. Returns whether the device took it. */
  sendMail(carrier: Carrier, code: number, id: number, first: number, second: number): boolean {
    const { words, capacity, extBytes } = this.ring;
    const at = this.clear();
    words[at + L.WR_OP] = IBV_WR_SEND_WITH_IMM | SIGNALED | (IBV_SEND_INLINE << 8);
    words[at + L.WR_IMM] = code;
    words[at + L.WR_INLINE_LENGTH] = BODY_WORDS * 4;
    const ext = L.extAt(0, capacity, extBytes);
    words[ext] = id;
    words[ext + 1] = first;
    words[ext + 2] = second;
    return this.postOwn(carrier);
  }

  /** Writes one byte, from an address in the memory of this end, to the byte that the peer has for the carrier `to`. */
  writeByte(carrier: Carrier, to: Carrier, addr: number): void {
    if (to.peer === null) return;
    const { bufferAddr, rkey } = to.peer;
    const { words } = this.ring;
    const at = this.clear();
    words[at + L.WR_OP] = IBV_WR_RDMA_WRITE | SIGNALED | (1 << 16);
    words[at + L.WR_REMOTE_LO] = bufferAddr;
    words[at + L.WR_REMOTE_HI] = bufferAddr * HIGH;
    words[at + L.WR_RKEY] = rkey;
    words[at + L.WR_SGE0] = addr;
    words[at + L.WR_SGE0 + L.SGE_HI] = addr * HIGH;
    words[at + L.WR_SGE0 + L.SGE_LENGTH] = 1;
    words[at + L.WR_SGE0 + L.SGE_LKEY] = to.slot.anchor.lkey;
    this.postOwn(carrier);
  }

  /** Sends a request without data, which fails if the peer has vanished. */
  probe(carrier: Carrier): void {
    if (!carrier.isLive || !carrier.isIdle) return;
    const { words } = this.ring;
    const at = this.clear();
    words[at + L.WR_OP] = IBV_WR_RDMA_WRITE | SIGNALED;
    this.postOwn(carrier);
  }

  /** Clears the slot for a request of the shim itself. Returns its first word. */
  private clear(): number {
    const at = L.slotAt(0);
    this.ring.words.fill(0, at, at + L.SLOT_WORDS);
    return at;
  }

  /** Posts the request of the shim itself that was written to its ring. */
  private postOwn(carrier: Carrier): boolean {
    if (!carrier.connected || !carrier.hasOwnRoom) return false;
    this.arm();
    carrier.push(0, 0, true, true);
    if (this.host.next.postSend(carrier.qp, this.ring.handle, 0, 1) === 1) return true;
    carrier.takeBack(1);
    return false;
  }

  /** Lets the next completion wake the shim. Must precede the request, as a completion before it raises no event. */
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

  /** Completions for this CQ have been settled; `settled` is called at the end of the poll. */
  touch(cq: CqLedger): void {
    if (!this.touched.includes(cq)) this.touched.push(cq);
  }

  /** Turns a completion of a carrier into one of the queue pair that the request belongs to. */
  private complete(words: Uint32Array, index: number): void {
    const at = L.slotAt(index);
    const op = words[at + L.WC_OP];
    const carrier = this.find(words[at + L.WC_QP]);
    if (carrier === undefined) return;
    if ((op & L.WC_RECV_SIDE) !== 0) {
      this.host.arrived(carrier, words, index);
      return;
    }
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
    // Some devices set IBV_WC_WITH_IMM for sends as well; the immediate of these is the shim's.
    words[at + L.WC_OP] &= ~(IBV_WC_WITH_IMM << 16);
    words[at + L.WC_QP] = qp.handle;
    words[at + L.WC_QP_NUM] = qp.qpNum;
    words[at + L.WC_SEQ] = carrier.numberAt(seq) - qp.share!.shift;
    this.host.settle(qp.sendCq, words, index);
    if (qp.share!.isDrainDue && !carrier.has(qp.handle)) {
      qp.share!.isDrainDue = false;
      this.host.drained(qp);
    }
    this.touch(qp.sendCq);
  }
}

function opcodeAt(words: Uint32Array, index: number): number {
  return words[L.slotAt(index) + L.WR_OP] & 0xff;
}

function scratchWrRing(next: Provider): KnownRing {
  const info = next.createWrRing(1, 1, BODY_WORDS * 4);
  return { handle: info.handle, capacity: 1, extBytes: info.extBytes, words: new Uint32Array(info.memory) };
}
