/** Builds request packets when the egress port asks for them. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import * as P from '../kernel/packets.ts';
import { copyBytes } from '../memory/memory.ts';
import { moveSges } from '../memory/sges.ts';
import { isRemote, WINDOW_PACKETS } from '../network/uplink.ts';
import { readAhead } from '../nic/wqe-fetch.ts';
import type { World } from '../world.ts';
import { failRequest } from './acknowledgements.ts';
import { IDLE, psnAdd, psnDiff, type Qp, SENDING } from './qp.ts';
import { flagsOf, isLocalOp, isReadOrAtomic, isSignaled, opcodeOf } from './request-info.ts';
import { tryStart } from './request-start.ts';

const TWO32 = 4294967296;

/** Bytes on the wire of the next packet; -1 when there is none. */
export function nextRequestBytes(world: Pick<World, 'params'>, qp: Qp): number {
  if (qp.phase !== SENDING || (isRemote(qp.peerHost) && isWindowFull(qp))) return -1;
  const opcode = opcodeOf(qp, qp.cur);
  if (isReadOrAtomic(opcode)) return world.params.headerBytes + world.params.rethBytes;
  const headers =
    world.params.headerBytes + (qp.pkt === 0 && opcode < C.IBV_WR_SEND ? world.params.rethBytes : 0);
  return (nextRequestPayload(qp) + headers) | 0;
}

/** Whether the next packet is too far ahead of what the peer has acknowledged. */
function isWindowFull(qp: Qp): boolean {
  if (qp.unreliable) return false;
  const psn = psnAdd(qp.sqPsn[qp.cur & qp.sq.mask], qp.pkt);
  return psnDiff(psn, qp.unaPsn) >= WINDOW_PACKETS;
}

/** Payload of the next packet, if there is one. READs and atomics have none. */
export function nextRequestPayload(qp: Qp): number {
  if (isReadOrAtomic(opcodeOf(qp, qp.cur))) return 0;
  const left = ((qp.sq.length[qp.cur & qp.sq.mask] | 0) - qp.pkt * qp.mtu) | 0;
  return Math.min(left, qp.mtu);
}

/** Builds the next packet and reads its memory now; -1 when the memory may not be read. */
export function nextRequest(world: World, qp: Qp): number {
  const seq = qp.cur;
  const slot = seq & qp.sq.mask;
  const pool = world.packets;
  const opcode = opcodeOf(qp, seq);
  const p = pool.take();
  const w = qp.sq.words;
  const at = qp.sq.at(seq);
  const offset = qp.pkt * qp.mtu;
  const rest = qp.sq.length[slot] - offset;
  pool.source[p] = qp.qpn;
  pool.epoch[p] = qp.epoch;
  pool.dest[p] = qp.peer;
  pool.psn[p] = psnAdd(qp.sqPsn[slot], qp.pkt);
  pool.imm[p] = w[at + L.WR_IMM];
  pool.rkey[p] = w[at + L.WR_RKEY];
  pool.addr[p] = w[at + L.WR_REMOTE_LO] + w[at + L.WR_REMOTE_HI] * TWO32 + offset;
  pool.rest[p] = rest;
  const alone = isReadOrAtomic(opcode);
  const length = alone ? 0 : Math.min(rest, qp.mtu);
  pool.length[p] = length;
  const last = alone || rest <= qp.mtu;
  pool.flags[p] = requestFlags(world, qp, seq, opcode, last);
  if (alone) fillResponseRequest(world, qp, p, opcode, at);
  else pool.kind[p] = opcode >= C.IBV_WR_SEND ? P.PKT_SEND : P.PKT_WRITE;
  if (qp.type !== C.IBV_QPT_RC) address(world, qp, p, at);
  world.notBefore[0] = 0;
  if (length > 0 && qp.sqPayloadNs.length > 0 && qp.sqPayloadNs[slot] > 0) {
    readAhead(world, qp.requests, qp.pkt, qp.mtu, qp.sq.length[slot] | 0, qp.sqPayloadNs, slot);
  }
  if (length > 0 && !fillPayload(world, qp, seq, offset, length, p)) {
    pool.release(p);
    failRequest(world, qp, seq, C.IBV_WC_LOC_PROT_ERR);
    return -1;
  }
  if (last) {
    qp.cur = (seq + 1) | 0;
    qp.pkt = 0;
    qp.phase = IDLE;
    tryStart(world, qp);
  } else {
    qp.pkt = (qp.pkt + 1) | 0;
  }
  return p;
}

/** Fills in the destination fields of types other than RC. */
function address(world: World, qp: Qp, p: number, at: number): void {
  const pool = world.packets;
  const w = qp.sq.words;
  if (qp.type !== C.IBV_QPT_UD) {
    pool.srqNum[p] = w[at + L.WR_SRQN];
    return;
  }
  pool.kind[p] = P.PKT_DATAGRAM;
  pool.ah[p] = qp.sqAh[qp.cur & qp.sq.mask];
  pool.dest[p] = w[at + L.WR_REMOTE_QPN];
  // A Q_Key with the highest bit set is privileged and replaced by the queue pair's own.
  const qkey = w[at + L.WR_REMOTE_QKEY];
  pool.rkey[p] = qkey >>> 31 === 0 ? qkey : (qp.attr.qkey ?? 0);
}

function requestFlags(world: World, qp: Qp, seq: number, opcode: number, last: boolean): number {
  let flags = qp.pkt === 0 ? P.FIRST : 0;
  if (last) {
    flags |= P.LAST;
    if (opcode === C.IBV_WR_SEND_WITH_IMM || opcode === C.IBV_WR_RDMA_WRITE_WITH_IMM) flags |= P.HAS_IMM;
    else if (opcode === C.IBV_WR_SEND_WITH_INV) flags |= P.HAS_INV;
    if ((flagsOf(qp, seq) & C.IBV_SEND_SOLICITED) !== 0) flags |= P.SOLICITED;
  }
  return requestsAck(world, qp, seq, last) ? flags | P.ACK_REQUEST : flags;
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
  if (next === qp.available || qp.state === C.IBV_QPS_SQD) return true;
  const opcode = opcodeOf(qp, next);
  return isLocalOp(opcode) || isReadOrAtomic(opcode) || (flagsOf(qp, next) & C.IBV_SEND_FENCE) !== 0;
}

/** READs and atomics carry operands instead of payload. */
function fillResponseRequest(world: World, qp: Qp, p: number, opcode: number, at: number): void {
  const pool = world.packets;
  if (opcode === C.IBV_WR_RDMA_READ) {
    pool.kind[p] = P.PKT_READ;
    return;
  }
  pool.kind[p] = opcode === C.IBV_WR_ATOMIC_CMP_AND_SWP ? P.PKT_COMPARE_SWAP : P.PKT_FETCH_ADD;
  const slab = pool.slab(p) >> 2;
  for (let i = 0; i < 4; i++) pool.words[slab + i] = qp.sq.words[at + L.WR_COMPARE_LO + i];
}

function fillPayload(world: World, qp: Qp, seq: number, offset: number, length: number, p: number): boolean {
  const slab = world.packets.slab(p);
  if ((flagsOf(qp, seq) & C.IBV_SEND_INLINE) === 0)
    return moveSges(world, qp, qp.sq, seq, offset, length, slab, false);
  if (world.payload)
    copyBytes(world.packets.bytes, slab, qp.sq.extBytes, qp.sq.extAt(seq) * 4 + offset, length);
  return true;
}
