/** A queue pair: its rings, and the state of its requester and responder. */

import * as C from '../../verbs/constants.ts';
import type { QpAttr, QpCap } from '../../verbs/types.ts';
import type { DepartureSink } from '../egress/departure-log.ts';
import type { RateLimiter } from '../egress/rate-limiter.ts';
import type { Limiter } from '../egress/rate-limiters.ts';
import type { DoubleRows } from '../kernel/double-rows.ts';
import type { Ah } from '../network/address.ts';
import type { Dcqcn } from '../network/dcqcn.ts';
import type { Cq } from '../queues/cq.ts';
import type { Srq } from '../queues/srq.ts';
import { WorkQueue } from '../queues/work-queue.ts';
import { ResponseQueue } from './response-queue.ts';

// Phases of the requester.
/** Idle, or blocked by a fence, the READ limit, the window, RNR or SQD; tryStart checks again. */
export const IDLE = 0;
/** In a processing unit. */
export const STEP = 1;
/** Its packets wait for the egress FIFO. */
export const SENDING = 2;
/** Stopped at a WAIT that is not satisfied. */
export const PARKED = 3;
/** The step is done, but the first payload has not arrived from host memory. */
export const PAYLOAD = 4;
/** Waits for a processing unit for its next step. */
export const READY = 5;
/** Waits for a processing unit to continue its message ("greedy"). */
export const RESUME = 6;

export const ROLE_REQUEST = 0;
export const ROLE_RESPONSE = 1;

// Indexes of the row of a queue pair in Qp.times.
/** The time at which the retry timer fires; Infinity while it is off. */
export const DEADLINE = 0;
/** The time at which the last READ response has left. */
export const RESPONSE_END = 1;
export const TIMEOUT = 2;
/** Bytes of the current message so far. Not a time, but a double, which shares this array. */
export const RECV_OFFSET = 3;
/**
 * Payload bytes delivered since creation: of requests at the responder, of READs at the requester. Not a time
 * either.
 */
export const DELIVERED = 4;
/** Earliest time of the next congestion notification to the peer's NIC. */
export const CNP_NS = 5;
export const TIMES = 6;

// Indexes of its row in Qp.runs: what packets need of the request at `cur`, once its step is done.
/** Remote address, and address of the first element. */
export const RUN_ADDR = 0;
export const RUN_SGE_ADDR = 1;
/** When the first payload arrives in the NIC; 0: at once. */
export const RUN_PAYLOAD_NS = 2;
/** Arrival times of payload read ahead for requests, if they fit. */
const RUN_AHEAD = 4;
export const RUNS = 8;

const NO_DOUBLES = new Float64Array(0);

/** The requesting or responding half of a queue pair, as a member of a port's round. */
export class Sender {
  readonly qp: Qp;
  readonly role: number;
  next: Sender | null = null;
  queued = false;
  /** Position in a fixed round. */
  position = -1;
  /** Whether it is on the list of senders for which a strict scheduler blocks lower classes. */
  listedAsHolder = false;
  /** Its use of the processing units; created on first use. */
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

/** A sender as a user of its NIC's processing units, and the payload it reads ahead. */
export class UnitUser {
  readonly sender: Sender;
  /** Whether it is in the queue for units. */
  next: UnitUser | null = null;
  waiting = false;
  /** The unit it keeps ("greedy") or -1, and the bytes sent since it got that unit. */
  unit = -1;
  bytes = 0;
  /** Arrival times of payload read ahead: a ring by packet, of `window` doubles from `aheadAt` on. */
  ahead = NO_DOUBLES;
  aheadAt = 0;
  window = 0;

  constructor(sender: Sender) {
    this.sender = sender;
  }

  /** Makes room for another number of packets whose payload is read ahead. */
  openAhead(window: number): void {
    const { qp, role } = this.sender;
    const fits = role === ROLE_REQUEST && qp.runs.length > 0 && window <= RUNS - RUN_AHEAD;
    this.window = window;
    this.ahead = fits ? qp.runs : new Float64Array(window);
    this.aheadAt = fits ? qp.runRow + RUN_AHEAD : 0;
    this.ahead.fill(0, this.aheadAt, this.aheadAt + window);
  }
}

const NO_RESPONSES = new ResponseQueue(0);

const NO_INTS = new Int32Array(0);
const NO_BYTES = new Uint8Array(0);
const NO_AHS: Ah[] = [];

/** Types of queue pairs that communicate with this type. */
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
  /** The domain of an XRC_RECV, otherwise 0. */
  xrcd: number;
  host: number;
  pd: number;
  cap: QpCap;
  sendCq: Cq;
  recvCq: Cq;
  sqSigAll: boolean;
  managed: boolean;
  isAgent: boolean;
  /** For its row of times. */
  rows: DoubleRows;
}

export class Qp {
  // What each packet needs comes first: with many queue pairs, every cache line of a packet is a miss.
  readonly qpn: number;
  readonly host: number;
  readonly type: number;
  /** Type of the queue pairs it receives from; 0 for datagrams. */
  readonly peerType: number;
  /** Connection: host of the peer (-1: none), and number of its queue pair. */
  peerHost = -1;
  peer = 0;
  /** Incremented at each RESET, so that everything in flight before it is ignored. */
  epoch = 0;
  state = C.IBV_QPS_RESET;
  /** A block of the numbers indexed by DEADLINE and so on, in which its own begin at `row`. */
  readonly times: Float64Array;
  readonly row: number;
  /** The same for RUN_ADDR and so on; allocated with the first request. */
  runs = NO_DOUBLES;
  runRow = 0;
  // Requester. All sequence numbers count requests since creation, mod 2^32.
  phase = IDLE;
  /** The request being processed, and its next packet. */
  cur = 0;
  pkt = 0;
  /** Bytes per packet, and the number of packets whose payload is read ahead; 0: not computed yet. */
  mtu = 4096;
  aheadPackets = 0;
  /** Of the request at `cur`, once its step is done: WR_OP, bytes of the message, first PSN, remote key, immediate. */
  runOp = 0;
  runLength = 0;
  runPsn = 0;
  runRkey = 0;
  runImm = 0;
  /** Key and bytes of its first element, if it has just one and is not inline; bytes otherwise -1. */
  runLkey = 0;
  runSgeBytes = -1;
  /** The domain whose memory it may name. */
  runPd = 0;
  /** RegionTable.version when that element was last checked; -1: never. */
  runVersion = -1;
  /** Packets sent since the last acknowledgement request. */
  packetsSinceAckRequest = 0;
  // Responder and receiver.
  /** Packets waiting in the receiver: first and last; -1 when none. */
  rxHead = -1;
  rxTail = -1;
  ePsn = 0;
  /** Messages executed since RESET, mod 2^24: the number in acknowledgements on a real wire. */
  msn = 0;
  nakSent = false;
  /** RegionTable.version when the first packet of the current WRITE was checked; -1: never. */
  writeVersion = -1;
  /**
   * The fatal NAK to send once the responses have left, -1 if none: its syndrome in the low byte, and above it the status
   * of the receive that fails with it, 0 when none does.
   */
  fatalNak = -1;
  /** What the peer may access: IBV_ACCESS_*. */
  remoteAccess = 0;
  /** In an XRC_RECV, `pd` and `recvCq` are those of the shared receive queue that the current message names. */
  pd: number;
  recvCq: Cq;

  readonly xrcd: number;
  srq: Srq | null;
  readonly cap: QpCap;
  readonly sendCq: Cq;
  readonly sqSigAll: boolean;
  readonly managed: boolean;
  /** Whether it receives the messages of an agent. */
  readonly isAgent: boolean;
  /** The provider's handle. */
  handle = 0;
  /** Its index in its NIC's tables of weights; -1: none. */
  member = -1;
  /** The attributes as set by modifyQp. */
  attr: QpAttr = {};
  /** Service level: its class at ports with classes. */
  sl = 0;

  readonly sq: WorkQueue;
  /** With a shared receive queue: room for the one receive taken from it. */
  readonly rq: WorkQueue;
  /**
   * By send slot: first PSN (WAIT, ENABLE: target index), number of PSNs, whether a local operation is done,
   * status to fail with.
   */
  sqPsn = NO_INTS;
  sqPackets = NO_INTS;
  sqDone = NO_BYTES;
  sqStatus = NO_BYTES;
  /** By send slot: the object that a WAIT or ENABLE names. */
  sqTarget = NO_INTS;
  /** By send slot, UD: the destination. */
  sqAh = NO_AHS;
  /** By send slot, when host memory takes time: when the first payload arrives in the NIC. */
  sqPayloadNs = NO_DOUBLES;

  /** Changes with each rewind or error, which invalidates earlier step and payload events. */
  token = 0;
  /**
   * Numbers of requests that the NIC may fetch (by doorbell, or ENABLE on a managed queue pair), has requested, and has
   * received.
   */
  fetchLimit = 0;
  fetched = 0;
  available = 0;
  /**
   * One past the last request whose first payload was requested, and the bytes of that payload not yet used.
   */
  payloadRequested = 0;
  payloadRequestedBytes = 0;
  /** Managed queue pairs: the index that the ENABLE requests posted so far reach. */
  enableIndex = 0;
  /** The oldest incomplete request. */
  una = 0;
  /** One past the newest request that was ever started. */
  started = 0;
  sndPsn = 0;
  unaPsn = 0;
  /** Remaining 0_WAITs of the request at `cur`. */
  waitsLeft = 0;
  /** Initial PSNs of both directions. Traces count from there, because programs choose them freely. */
  sqBasePsn = 0;
  rqBasePsn = 0;
  /** Unfinished READs and atomics; response packets received for the oldest of them. */
  rdOutstanding = 0;
  rdGot = 0;
  /** Whether to raise an event when the send queue is drained in SQD. */
  drainNotify = false;
  /** Its rate limiter and the pacing that results. */
  limiter: Limiter | null = null;
  pacer: RateLimiter | null = null;
  /** Its number in the tags of its port, if those limit it instead; -1: none. */
  tagMember = -1;
  /** State of congestion control since the first notification. */
  congestion: Dcqcn | null = null;
  /** Records its packets; null: they are not recorded. */
  departures: DepartureSink | null = null;
  /**
   * Bit ROLE_*: a packet of this role is held back by a rate limit or congestion control, and an event is
   * scheduled to release it.
   */
  heldRoles = 0;
  /** Whether the requester went back for a lost response. Responses still in flight do not trigger that again. */
  rdLost = false;
  rnrWait = false;
  retriesLeft = 0;
  rnrRetriesLeft = 0;
  timerQueued = false;

  /** Whether its context counts against the NIC's context cache. */
  hasContext = false;

  /** Whether IBV_EVENT_COMM_EST was raised for this connection. */
  establishedRaised = false;
  /** One past the receive taken by the current SEND. */
  rqTaken = 0;
  rqDone = 0;
  receiving = false;
  /** UC: whether the rest of the current message is ignored. */
  dropping = false;
  /** Number, in the shared queue, of the receive taken last. */
  sharedSeq = 0;
  /** UD, while a receive completes: the sender. */
  srcQp = 0;
  /** Limit on READs and atomics being answered; room is allocated with the first. */
  responderResources = 0;
  responses = NO_RESPONSES;
  respPhase = IDLE;
  respToken = 0;
  respPkt = 0;
  /** Response packets waiting in a port for the wire. */
  repliesInPort = 0;
  /**
   * The syndrome (-1 if none) and PSN of an acknowledgement that is held back until the responses before it have left.
   */
  ackHeld = -1;
  ackHeldPsn = 0;

  readonly requests = new Sender(this, ROLE_REQUEST);
  /** Created with the first response: most queue pairs never have one. */
  private responseSender: Sender | null = null;

  // Counters for the invariants: requests of both queues since creation.
  posted = 0;
  completed = 0;
  errored = 0;
  discarded = 0;

  constructor(o: QpOptions) {
    this.qpn = o.qpn;
    this.host = o.host;
    this.type = o.type;
    this.peerType = PEER_TYPES[o.type] ?? 0;
    o.rows.next();
    this.times = o.rows.block;
    this.row = o.rows.row;
    this.times[this.row + DEADLINE] = this.times[this.row + TIMEOUT] = Number.POSITIVE_INFINITY;
    this.srq = o.srq;
    this.xrcd = o.xrcd;
    this.pd = o.pd;
    this.cap = o.cap;
    this.sendCq = o.sendCq;
    this.recvCq = o.recvCq;
    this.sqSigAll = o.sqSigAll;
    this.managed = o.managed;
    this.isAgent = o.isAgent;
    this.sq = new WorkQueue(o.cap.maxSendWr, o.cap.maxSendSge, o.cap.maxInlineData, o.pd);
    const receives = o.srq === null && o.xrcd === 0 ? o.cap.maxRecvWr : 1;
    this.rq = new WorkQueue(receives, o.cap.maxRecvSge, 0, o.pd);
  }

  /** Whether its packets are not acknowledged. */
  get unreliable(): boolean {
    return this.type === C.IBV_QPT_UC || this.type === C.IBV_QPT_UD;
  }

  /** Payload bytes delivered since creation. */
  get deliveredBytes(): number {
    return this.times[this.row + DELIVERED];
  }

  get replies(): Sender {
    this.responseSender ??= new Sender(this, ROLE_RESPONSE);
    return this.responseSender;
  }

  setMtu(bytes: number): void {
    this.mtu = bytes;
    this.aheadPackets = 0;
  }

  /** Allocates room for send requests, once. */
  openSends(payloadTakesTime: boolean, rows: DoubleRows): void {
    if (this.sqPsn !== NO_INTS) return;
    rows.next();
    this.runs = rows.block;
    this.runRow = rows.row;
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

  /** A completion was polled, which frees its slot and those before it. */
  polled(seq: number, recvSide: boolean): void {
    // A shared receive freed its slot when it was taken.
    if (recvSide && this.srq !== null) return;
    const queue = recvSide ? this.rq : this.sq;
    queue.freed = (seq + 1) | 0;
  }

  /** Resets everything to the state at creation, except for the counters of requests and epochs. */
  reset(): void {
    if (this.srq !== null) this.srq.discarded += (this.rq.posted - this.rqDone) | 0;
    this.discarded += ((this.sq.posted - this.una) | 0) + ((this.rq.posted - this.rqDone) | 0);
    this.epoch = (this.epoch + 1) | 0;
    this.attr = {};
    this.remoteAccess = 0;
    this.pacer = null;
    this.congestion = null;
    this.heldRoles = 0;
    this.times[this.row + CNP_NS] = 0;
    this.establishedRaised = false;
    this.msn = 0;
    this.writeVersion = -1;
    this.peerHost = -1;
    this.sl = 0;
    this.repliesInPort = 0;
    // Requests keep counting, so that a number never names two of them.
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

  /** Stops requester and responder. Their pending events no longer have any effect. */
  halt(): void {
    this.haltRequester();
    this.receiving = false;
    this.nakSent = false;
    this.dropping = false;
    this.responses.count = 0;
    this.respPhase = IDLE;
    this.respToken = (this.respToken + 1) | 0;
    this.ackHeld = -1;
    this.fatalNak = -1;
  }

  /** Stops the requester only. */
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
    this.times[this.row + DEADLINE] = Number.POSITIVE_INFINITY;
    this.drainNotify = false;
  }

  /** Sets the limit on READs and atomics being answered. */
  setResponderResources(count: number): void {
    this.responderResources = count;
    if (this.responses !== NO_RESPONSES) this.responses = this.responses.resized(count);
  }

  /** Whether one more READ or atomic fits. */
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
