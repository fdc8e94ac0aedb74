/** A queue pair: its rings, and the state of its requester and responder. */
import * as C from '../../verbs/constants.ts';
import type { QpAttr, QpCap } from '../../verbs/types.ts';
import type { Limiter } from '../egress/rate-limiters.ts';
import type { RatePacer } from '../egress/rate-pacing.ts';
import type { Ah } from '../network/address.ts';
import type { Dcqcn } from '../network/dcqcn.ts';
import type { Cq } from '../queues/cq.ts';
import type { Srq } from '../queues/srq.ts';
import { WorkQueue } from '../queues/work-queue.ts';
import { ResponseQueue } from './response-queue.ts';

// What the requester is doing (phase).
/** Nothing, or stalled by a fence, a READ limit, the window, RNR or SQD: tryStart looks again. */
export const IDLE = 0;
/** In the processing unit. */
export const STEP = 1;
/** Its packets wait for the egress FIFO. */
export const SENDING = 2;
/** At a WAIT that is not satisfied. */
export const PARKED = 3;
/** Through with its step, but its first payload is still on the way from host memory. */
export const PAYLOAD = 4;
/** Wants a processing unit for its next step. */
export const READY = 5;
/** Wants a processing unit to go on with its message ("greedy"). */
export const RESUME = 6;

export const ROLE_REQUEST = 0;
export const ROLE_RESPONSE = 1;

// Indexes of Qp.times.
/** When the retry timer fires; Infinity when it is off. */
export const DEADLINE = 0;
/** When the last READ response has left. */
export const RESPONSE_END = 1;
export const TIMEOUT = 2;
/** No time, but a double too, and an array of its own would be as large again: bytes of the message so far. */
export const RECV_OFFSET = 3;
/** Nor this: payload bytes that arrived for it since creation, of requests at its responder, of READs at the requester. */
export const DELIVERED = 4;
/** Before this its NIC sends no further congestion notification to its peer's. */
export const CNP_NS = 5;

const NO_DOUBLES = new Float64Array(0);

/** One of the two things of a queue pair that take turns at an egress port. */
export class Sender {
  readonly qp: Qp;
  readonly role: number;
  next: Sender | null = null;
  queued = false;
  /** Where it stands in a fixed round. */
  position = -1;
  /** A strict scheduler has it on its list of those that hold lower classes up. */
  listedAsHolder = false;
  /** Its turns at the processing units; made when it first takes one. */
  unitUser: UnitUser | null = null;

  constructor(qp: Qp, role: number) {
    this.qp = qp;
    this.role = role;
  }

  phase(): number {
    return this.role === ROLE_REQUEST ? this.qp.phase : this.qp.respPhase;
  }

  setPhase(phase: number): void {
    if (this.role === ROLE_REQUEST) this.qp.phase = phase;
    else this.qp.respPhase = phase;
  }
}

/** A sender at the processing units of its NIC, and what it reads ahead there. */
export class UnitUser {
  readonly sender: Sender;
  /** In the queue for units. */
  next: UnitUser | null = null;
  waiting = false;
  /** The unit that it keeps ("greedy"), or -1; and bytes sent since it has it. */
  unit = -1;
  bytes = 0;
  /** When the payload of the packets to come is here: a ring by packet, made when it is first needed. */
  ahead = NO_DOUBLES;

  constructor(sender: Sender) {
    this.sender = sender;
  }
}

const NO_RESPONSES = new ResponseQueue(0);

const NO_INTS = new Int32Array(0);
const NO_BYTES = new Uint8Array(0);
const NO_AHS: Ah[] = [];

/** Types of queue pairs that talk to this type. */
const PEER_TYPES: Record<number, number> = {
  [C.IBV_QPT_RC]: C.IBV_QPT_RC,
  [C.IBV_QPT_UC]: C.IBV_QPT_UC,
  [C.IBV_QPT_XRC_SEND]: C.IBV_QPT_XRC_RECV,
  [C.IBV_QPT_XRC_RECV]: C.IBV_QPT_XRC_SEND,
};

export interface QpOptions {
  qpn: number;
  type: number;
  srq: Srq | null;
  /** XRC_RECV: its domain; else 0. */
  xrcd: number;
  host: number;
  pd: number;
  cap: QpCap;
  sendCq: Cq;
  recvCq: Cq;
  sqSigAll: boolean;
  managed: boolean;
}

export class Qp {
  readonly qpn: number;
  readonly host: number;
  readonly type: number;
  /** Type of the queue pairs that it hears; 0: of datagrams. */
  readonly peerType: number;
  /** Nobody acknowledges what it sends. */
  readonly unreliable: boolean;
  readonly xrcd: number;
  /** XRC_RECV: those of the shared receive queue that the current message names. */
  pd: number;
  recvCq: Cq;
  srq: Srq | null;
  readonly cap: QpCap;
  readonly sendCq: Cq;
  readonly sqSigAll: boolean;
  readonly managed: boolean;
  /** The provider's name for it. */
  handle = 0;
  state = C.IBV_QPS_RESET;
  /** As set by modifyQp. */
  attr: QpAttr = {};
  /** Connection: host of the peer (-1: none such), its number, bytes per packet, whether it is this host. */
  peerHost = -1;
  peer = 0;
  /** Service level: its class at ports that have some. */
  sl = 0;
  mtu = 4096;
  /** Incarnation: grows with each RESET, so that what was in flight before it is ignored. */
  epoch = 0;

  readonly sq: WorkQueue;
  /** With a shared receive queue: room for the one receive that was taken from there. */
  readonly rq: WorkQueue;
  /** By send slot: first PSN (WAIT, ENABLE: the target index), PSNs used, WAIT or ENABLE executed, status to fail with. */
  sqPsn = NO_INTS;
  sqPackets = NO_INTS;
  sqDone = NO_BYTES;
  sqStatus = NO_BYTES;
  /** By send slot: the object that a WAIT or ENABLE names. */
  sqTarget = NO_INTS;
  /** By send slot, UD: where it goes. */
  sqAh = NO_AHS;
  /** By send slot, where host memory is not free: when the first payload is in the NIC. */
  sqPayloadNs = NO_DOUBLES;

  // Requester. All sequence numbers count requests since creation, mod 2^32.
  phase = IDLE;
  /** Invalidates step and RNR events of before a rewind or an error. */
  token = 0;
  /** Requests that the NIC may fetch: doorbells, or ENABLE on a managed queue pair; asked for; and fetched. */
  fetchLimit = 0;
  fetched = 0;
  available = 0;
  /** One past the last whose first payload was asked for, and bytes of such that wait for their turn. */
  payloadRequested = 0;
  payloadRequestedBytes = 0;
  /** Of a managed queue pair: what ENABLE requests posted so far allow. */
  enableIndex = 0;
  /** The oldest request that is not complete. */
  una = 0;
  /** The request being worked on, and its next packet. */
  cur = 0;
  pkt = 0;
  /** One past the newest request that ever began. */
  started = 0;
  sndPsn = 0;
  unaPsn = 0;
  /** Packets sent since the last that asked for an acknowledgement. */
  packetsSinceAckRequest = 0;
  /** Of the 0_WAITs at `cur`: how many are still to do. */
  waitsLeft = 0;
  /** Where the two directions began: traces count from there, since programs may begin anywhere. */
  sqBasePsn = 0;
  rqBasePsn = 0;
  /** READs and atomics begun and not complete; response packets received for the oldest of them. */
  rdOutstanding = 0;
  rdGot = 0;
  /** An event is to tell that the send queue, in SQD, is drained. */
  drainNotify = false;
  /** Its rate limit, and the limiter that has it. */
  limiter: Limiter | null = null;
  pacer: RatePacer | null = null;
  /** Congestion control, since it was first told of congestion. */
  congestion: Dcqcn | null = null;
  /** Bit ROLE_*: a packet of this role is held back by the one or the other, and an event is due that lets it go. */
  heldRoles = 0;
  /** Gone back for a lost response: those still in flight are no news. */
  rdLost = false;
  rnrWait = false;
  retriesLeft = 0;
  rnrRetriesLeft = 0;
  timerQueued = false;
  /** DEADLINE, RESPONSE_END, TIMEOUT, RECV_OFFSET, DELIVERED, CNP_NS. */
  readonly times = new Float64Array([Number.POSITIVE_INFINITY, 0, Number.POSITIVE_INFINITY, 0, 0, 0]);

  // Receiver.
  /** Packets that wait there: the first and, if there is one, the last; -1 none. */
  rxHead = -1;
  rxTail = -1;
  /** Its context is one of those that the NIC's cache is for. */
  hasContext = false;

  // Responder.
  ePsn = 0;
  nakSent = false;
  /** Something arrived before this end was in RTS. */
  establishedRaised = false;
  /** The receive that a SEND is arriving into. */
  rqTaken = 0;
  rqDone = 0;
  receiving = false;
  /** UC: the rest of the current message is ignored. */
  dropping = false;
  /** Of the shared receive that was taken last: its number there. */
  sharedSeq = 0;
  /** UD, while a receive completes: who sent it. */
  srcQp = 0;
  /** READs and atomics that may be in hand; room for them is made when the first comes. */
  responderResources = 0;
  responses = NO_RESPONSES;
  respPhase = IDLE;
  respToken = 0;
  respPkt = 0;
  /** Response packets that wait in a port for the wire. */
  repliesInPort = 0;
  /** An acknowledgement that must not overtake responses: syndrome (-1 none) and PSN. */
  ackHeld = -1;
  ackHeldPsn = 0;
  /** Syndrome of the fatal NAK that ends this responder once its responses are out; -1 none. */
  fatalSyndrome = -1;
  /** Status for the receive that the doom hits; 0 none. */
  fatalRecvStatus = 0;

  readonly requests = new Sender(this, ROLE_REQUEST);
  /** Made with the first response: most queue pairs never have one. */
  private responseSender: Sender | null = null;

  // Counters for the invariants: requests posted, completed and failed since creation, both queues.
  posted = 0;
  completed = 0;
  errored = 0;
  discarded = 0;

  constructor(o: QpOptions) {
    this.qpn = o.qpn;
    this.host = o.host;
    this.type = o.type;
    this.peerType = PEER_TYPES[o.type] ?? 0;
    this.unreliable = o.type === C.IBV_QPT_UC || o.type === C.IBV_QPT_UD;
    this.srq = o.srq;
    this.xrcd = o.xrcd;
    this.pd = o.pd;
    this.cap = o.cap;
    this.sendCq = o.sendCq;
    this.recvCq = o.recvCq;
    this.sqSigAll = o.sqSigAll;
    this.managed = o.managed;
    this.sq = new WorkQueue(o.cap.maxSendWr, o.cap.maxSendSge, o.cap.maxInlineData, o.pd);
    const receives = o.srq === null && o.xrcd === 0 ? o.cap.maxRecvWr : 1;
    this.rq = new WorkQueue(receives, o.cap.maxRecvSge, 0, o.pd);
  }

  get replies(): Sender {
    this.responseSender ??= new Sender(this, ROLE_RESPONSE);
    return this.responseSender;
  }

  /** Makes room for send requests, once. */
  openSends(payloadTakesTime: boolean): void {
    if (this.sqPsn !== NO_INTS) return;
    const slots = this.sq.mask + 1;
    this.sq.open();
    this.sqPsn = new Int32Array(slots);
    this.sqPackets = new Int32Array(slots);
    this.sqDone = new Uint8Array(slots);
    this.sqStatus = new Uint8Array(slots);
    this.sqTarget = new Int32Array(slots);
    if (this.type === C.IBV_QPT_UD) this.sqAh = [];
    if (payloadTakesTime) this.sqPayloadNs = new Float64Array(slots);
  }

  /** A completion was polled: its slot, and those before it, are free again. */
  polled(seq: number, recvSide: boolean): void {
    // A shared receive made room in its queue when it was taken.
    if (recvSide && this.srq !== null) return;
    const queue = recvSide ? this.rq : this.sq;
    queue.freed = (seq + 1) | 0;
  }

  /** Everything as at creation, but for what counts incarnations. */
  reset(): void {
    if (this.srq !== null) this.srq.discarded += (this.rq.posted - this.rqDone) | 0;
    this.discarded += ((this.sq.posted - this.una) | 0) + ((this.rq.posted - this.rqDone) | 0);
    this.epoch = (this.epoch + 1) | 0;
    this.attr = {};
    this.pacer = null;
    this.congestion = null;
    this.heldRoles = 0;
    this.times[CNP_NS] = 0;
    this.establishedRaised = false;
    this.peerHost = -1;
    this.sl = 0;
    this.repliesInPort = 0;
    // Requests keep counting: a number never names two of them.
    const { sq, rq } = this;
    sq.freed =
      this.fetchLimit =
      this.fetched =
      this.available =
      this.payloadRequested =
      this.enableIndex =
      this.una =
      this.cur =
      this.started =
        sq.posted;
    rq.freed = this.rqTaken = this.rqDone = rq.posted;
    this.pkt = 0;
    this.sqDone.fill(0);
    this.sqStatus.fill(0);
    this.halt();
  }

  /** Stops requester and responder; nothing of theirs that is on its way takes effect any more. */
  halt(): void {
    this.haltRequester();
    this.receiving = false;
    this.nakSent = false;
    this.dropping = false;
    this.responses.count = 0;
    this.respPhase = IDLE;
    this.respToken = (this.respToken + 1) | 0;
    this.ackHeld = -1;
    this.fatalSyndrome = -1;
  }

  /** Stops the requester alone. */
  haltRequester(): void {
    this.phase = IDLE;
    this.token = (this.token + 1) | 0;
    this.waitsLeft = 0;
    this.packetsSinceAckRequest = 0;
    this.payloadRequestedBytes = 0;
    this.rdOutstanding = 0;
    this.rdGot = 0;
    this.rdLost = false;
    this.rnrWait = false;
    this.times[DEADLINE] = Number.POSITIVE_INFINITY;
    this.drainNotify = false;
  }

  /** A responder may have this many READs and atomics in hand. */
  setResponderResources(count: number): void {
    this.responderResources = count;
    if (this.responses !== NO_RESPONSES) this.responses = this.responses.resized(count);
  }

  /** Whether there is room for one more READ or atomic. */
  canRespond(): boolean {
    const { responses } = this;
    if (responses.count < responses.size) return true;
    if (responses !== NO_RESPONSES || this.responderResources === 0) return false;
    this.responses = new ResponseQueue(this.responderResources);
    return true;
  }
}

/** a - b in the 24-bit arithmetic of packet sequence numbers. */
export function psnDiff(a: number, b: number): number {
  return ((a - b) << 8) >> 8;
}

export function psnAdd(psn: number, n: number): number {
  return (psn + n) & 0xffffff;
}

/**
 * The service level of what a sender is about to send: a request that the NIC knows of, a response that it owes.
 * -1: nothing, or nothing that could go before something else happens (a WAIT, a fence, RNR, a rate limit).
 */
export function sendingLevel(sender: Sender): number {
  const { qp } = sender;
  if (sender.phase() === SENDING && (qp.heldRoles & (1 << sender.role)) !== 0) return -1;
  if (sender.role === ROLE_RESPONSE) return qp.respPhase === IDLE ? -1 : qp.sl;
  if (qp.phase === PARKED) return -1;
  if (qp.phase === IDLE) {
    const fetching = qp.cur === qp.available && qp.fetchLimit !== qp.cur;
    if (!fetching || qp.rnrWait || qp.state !== C.IBV_QPS_RTS) return -1;
  }
  return qp.type === C.IBV_QPT_UD ? (qp.sqAh[qp.cur & qp.sq.mask]?.sl ?? qp.sl) : qp.sl;
}
