/** Builds request packets when the egress port asks for them. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import * as P from '../kernel/packets.ts';
import { copyBytes, copyFromRegion } from '../memory/memory.ts';
import { moveSges } from '../memory/sges.ts';
import * as U from '../network/uplink.ts';
import { readAhead } from '../nic/wqe-fetch.ts';
import type { World } from '../world.ts';
import { failRequest } from './acknowledgements.ts';
import type { Qp } from './qp.ts';
import * as Q from './qp.ts';
import * as R from './request-info.ts';
import { tryStart } from './request-start.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { flagsOf, isLocalOp, isReadOrAtomic, isSignaled, opcodeOf } = R;
const { isRemote, windowPackets } = U;
const {
  IBV_WR_SEND,
  IBV_SEND_INLINE,
  IBV_QPT_RC,
  IBV_QPT_UD,
  IBV_WR_SEND_WITH_IMM,
  IBV_WR_RDMA_WRITE_WITH_IMM,
  IBV_WR_SEND_WITH_INV,
  IBV_SEND_SOLICITED,
  IBV_QPS_SQD,
  IBV_SEND_FENCE,
  IBV_WR_RDMA_READ,
  IBV_WR_ATOMIC_CMP_AND_SWP,
} = C;
const {
  WR_OP,
  WR_RKEY,
  WR_IMM,
  WR_SGE0,
  SGE_LKEY,
  SGE_LENGTH,
  SGE_LO,
  SGE_HI,
  WR_REMOTE_LO,
  WR_REMOTE_HI,
  WR_SRQN,
  WR_REMOTE_QPN,
  WR_REMOTE_QKEY,
  WR_COMPARE_LO,
} = L;
const {
  PKT_SEND,
  PKT_WRITE,
  PKT_DATAGRAM,
  FIRST,
  LAST,
  HAS_IMM,
  HAS_INV,
  SOLICITED,
  ACK_REQUEST,
  PKT_READ,
  SHORT_BYTES,
} = P;
const { IDLE, RUN_ADDR, RUN_PAYLOAD_NS, RUN_SGE_ADDR, SENDING, psnAdd, psnDiff } = Q;

const TWO32 = 4294967296;

/** Whether a request has a packet to send. */
export function hasRequest(qp: Qp): boolean {
  return qp.phase === SENDING && !(isRemote(qp.peerHost) && isWindowFull(qp));
}

/** Bytes on the wire of the next packet; -1 when there is none. */
export function nextRequestBytes(world: Pick<World, 'params'>, qp: Qp): number {
  if (!hasRequest(qp)) return -1;
  const { headerBytes, rethBytes } = world.params;
  const opcode = qp.runOp & 0xff;
  if (isReadOrAtomic(opcode)) return headerBytes + rethBytes;
  const headers = headerBytes + (qp.pkt === 0 && opcode < IBV_WR_SEND ? rethBytes : 0);
  return (Math.min(qp.runLength - qp.pkt * qp.mtu, qp.mtu) + headers) | 0;
}

/** Whether the next packet is too far ahead of what the peer has acknowledged. */
function isWindowFull(qp: Qp): boolean {
  if (qp.unreliable) return false;
  const psn = psnAdd(qp.runPsn, qp.pkt);
  return psnDiff(psn, qp.unaPsn) >= windowPackets(nextRequestPayload(qp));
}

/** Payload of the next packet, if there is one. READs and atomics have none. */
export function nextRequestPayload(qp: Qp): number {
  if (isReadOrAtomic(qp.runOp & 0xff)) return 0;
  return Math.min((qp.runLength - qp.pkt * qp.mtu) | 0, qp.mtu);
}

/** The step of request `seq` is done: keeps what its packets need, until `cur` moves on. */
export function beginRun(qp: Qp, seq: number): void {
  const { sq, runs, runRow } = qp;
  const slot = seq & sq.mask;
  const at = sq.at(seq);
  const w = sq.words;
  qp.runOp = w[at + WR_OP] | 0;
  qp.runLength = sq.length[slot] | 0;
  qp.runPsn = qp.sqPsn[slot];
  qp.runRkey = w[at + WR_RKEY] | 0;
  qp.runImm = w[at + WR_IMM] | 0;
  const e = at + WR_SGE0;
  const alone = qp.runOp >>> 16 === 1 && ((qp.runOp >>> 8) & IBV_SEND_INLINE) === 0;
  qp.runPd = sq.pd;
  qp.runVersion = -1;
  qp.runLkey = w[e + SGE_LKEY] | 0;
  qp.runSgeBytes = alone ? w[e + SGE_LENGTH] | 0 : -1;
  runs[runRow + RUN_SGE_ADDR] = w[e + SGE_LO] + w[e + SGE_HI] * TWO32;
  runs[runRow + RUN_ADDR] = w[at + WR_REMOTE_LO] + w[at + WR_REMOTE_HI] * TWO32;
  runs[runRow + RUN_PAYLOAD_NS] = qp.sqPayloadNs.length > 0 ? qp.sqPayloadNs[slot] : 0;
}

/** Builds the next packet and reads its memory now; -1 when the memory may not be read. */
export function nextRequest(world: World, qp: Qp): number {
  const seq = qp.cur;
  const pool = world.packets;
  const { runs, runRow, mtu, pkt, runOp } = qp;
  const opcode = runOp & 0xff;
  const p = pool.take();
  const offset = (pkt * mtu) | 0;
  const rest = (qp.runLength - offset) | 0;
  pool.source[p] = qp.qpn;
  pool.epoch[p] = qp.epoch;
  pool.dest[p] = qp.peer;
  pool.psn[p] = psnAdd(qp.runPsn, pkt);
  pool.imm[p] = qp.runImm;
  pool.rkey[p] = qp.runRkey;
  pool.addr[p] = runs[runRow + RUN_ADDR] + offset;
  pool.rest[p] = rest;
  const alone = isReadOrAtomic(opcode);
  const length = alone ? 0 : Math.min(rest, mtu);
  pool.length[p] = length;
  const last = alone || rest <= mtu;
  const { packetsSinceAckRequest } = qp;
  pool.flags[p] = requestFlags(world, qp, seq, opcode, last);
  if (alone) fillResponseRequest(world, qp, p, opcode, qp.sq.at(seq));
  else pool.kind[p] = opcode >= IBV_WR_SEND ? PKT_SEND : PKT_WRITE;
  if (qp.type !== IBV_QPT_RC) address(world, qp, p, qp.sq.at(seq));
  world.notBefore[0] = 0;
  if (length > 0 && runs[runRow + RUN_PAYLOAD_NS] > 0) {
    readAhead(world, qp.requests, pkt, qp.runLength, runs, runRow + RUN_PAYLOAD_NS);
  }
  if (length > 0 && !fillPayload(world, qp, seq, offset, length, p)) {
    pool.release(p);
    // The packet is not sent, nor is its request for an acknowledgement.
    qp.packetsSinceAckRequest = packetsSinceAckRequest;
    failRequest(world, qp, seq, C.IBV_WC_LOC_PROT_ERR);
    return -1;
  }
  if (last) {
    qp.cur = (seq + 1) | 0;
    qp.pkt = 0;
    qp.phase = IDLE;
    tryStart(world, qp);
  } else {
    qp.pkt = (pkt + 1) | 0;
  }
  return p;
}

/** Fills in the destination fields of types other than RC. */
function address(world: World, qp: Qp, p: number, at: number): void {
  const pool = world.packets;
  const w = qp.sq.words;
  if (qp.type !== IBV_QPT_UD) {
    pool.srqNum[p] = w[at + WR_SRQN];
    return;
  }
  pool.kind[p] = PKT_DATAGRAM;
  pool.ah[p] = qp.sqAh[qp.cur & qp.sq.mask];
  pool.dest[p] = w[at + WR_REMOTE_QPN];
  // A Q_Key with the highest bit set is privileged and replaced by the queue pair's own.
  const qkey = w[at + WR_REMOTE_QKEY];
  pool.rkey[p] = qkey >>> 31 === 0 ? qkey : (qp.attr.qkey ?? 0);
}

function requestFlags(world: World, qp: Qp, seq: number, opcode: number, last: boolean): number {
  let flags = qp.pkt === 0 ? FIRST : 0;
  if (last) {
    flags |= LAST;
    if (opcode === IBV_WR_SEND_WITH_IMM || opcode === IBV_WR_RDMA_WRITE_WITH_IMM) flags |= HAS_IMM;
    else if (opcode === IBV_WR_SEND_WITH_INV) flags |= HAS_INV;
    if (((qp.runOp >>> 8) & IBV_SEND_SOLICITED) !== 0) flags |= SOLICITED;
  }
  return requestsAck(world, qp, seq, last) ? flags | ACK_REQUEST : flags;
}

/** Whether a packet requests an acknowledgement. */
function requestsAck(world: World, qp: Qp, seq: number, last: boolean): boolean {
  const { params } = world;
  if (params.ackRequests === 'message') return last || (qp.pkt + 1) % params.ackEveryPackets === 0;
  qp.packetsSinceAckRequest = (qp.packetsSinceAckRequest + 1) | 0;
  // Unsignaled requests of a run are acknowledged together with later ones.
  const due = last && (isSignaled(qp, seq) || endsRun(qp, (seq + 1) | 0));
  if (!due && qp.packetsSinceAckRequest < params.ackEveryPackets) return false;
  qp.packetsSinceAckRequest = 0;
  return true;
}

/**
 * Whether it is uncertain that an acknowledgement request follows soon, because the next request is missing or may have
 * to wait.
 */
function endsRun(qp: Qp, next: number): boolean {
  if (next === qp.available || qp.state === IBV_QPS_SQD) return true;
  const opcode = opcodeOf(qp, next);
  return isLocalOp(opcode) || isReadOrAtomic(opcode) || (flagsOf(qp, next) & IBV_SEND_FENCE) !== 0;
}

/** READs and atomics carry operands instead of payload. */
function fillResponseRequest(world: World, qp: Qp, p: number, opcode: number, at: number): void {
  const pool = world.packets;
  if (opcode === IBV_WR_RDMA_READ) {
    pool.kind[p] = PKT_READ;
    return;
  }
  pool.kind[p] = opcode === IBV_WR_ATOMIC_CMP_AND_SWP ? P.PKT_COMPARE_SWAP : P.PKT_FETCH_ADD;
  const slab = pool.slab(p) >> 2;
  for (let i = 0; i < 4; i++) pool.words[slab + i] = qp.sq.words[at + WR_COMPARE_LO + i];
}

function fillPayload(world: World, qp: Qp, seq: number, offset: number, length: number, p: number): boolean {
  const pool = world.packets;
  const slab = pool.slab(p);
  if (qp.runSgeBytes >= 0) {
    const { regions } = world;
    const carries = world.payload || qp.type === IBV_QPT_UD;
    // The first packet of a run has checked the whole element.
    if (!carries && qp.runVersion === regions.version) return true;
    const addr = qp.runs[qp.runRow + RUN_SGE_ADDR];
    regions.from[0] = addr;
    const region = regions.local(qp.host, qp.runPd, qp.runLkey, qp.runSgeBytes, 0);
    if (region === undefined) return false;
    qp.runVersion = regions.version;
    if (!carries) return true;
    const from = addr - region.addr + offset;
    if (length > SHORT_BYTES && isRemote(qp.peerHost)) pool.outside[p] = region.views.view(from, length);
    else copyFromRegion(region, from, pool.bytes, slab, length);
    return true;
  }
  if (((qp.runOp >>> 8) & IBV_SEND_INLINE) === 0)
    return moveSges(world, qp, qp.sq, seq, offset, length, p, false);
  if (world.payload) copyBytes(pool.bytes, slab, qp.sq.extBytes, qp.sq.extAt(seq) * 4 + offset, length);
  return true;
}
