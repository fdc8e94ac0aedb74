/**
 * The receiving half of a queue pair: checks, memory accesses, receives and acknowledgements. Responses to
 * READs and atomics use processing units and the egress port like requests do.
 */
import * as C from '../../verbs/constants.ts';
import type { Port } from '../egress/port.ts';
import { joinPort } from '../egress/rate-pacing.ts';
import * as K from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';
import { copyFromRegion, type Region } from '../memory/memory.ts';
import { invalidate, reach, reachOf } from '../memory/memory-windows.ts';
import { moveSges } from '../memory/sges.ts';
import * as U from '../network/uplink.ts';
import { noteNoReceive } from '../nic/processing-units.ts';
import { takeUnit } from '../nic/unit-step.ts';
import { missesResponse, readAhead } from '../nic/wqe-fetch.ts';
import { takeShared } from '../queues/srq.ts';
import type { World } from '../world.ts';
import { completeRecv } from './completions.ts';
import { failQp } from './failure.ts';
import type { Qp } from './qp.ts';
import * as Q from './qp.ts';
import { onUnreliable } from './unreliable.ts';
import { adoptSrq, withSrqDomain } from './xrc.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { isRemote } = U;
const {
  IBV_QPS_RTR,
  IBV_QPS_ERR,
  IBV_QPT_UC,
  IBV_QPT_XRC_RECV,
  IBV_WC_RECV,
  IBV_WC_SUCCESS,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_WC_RECV_RDMA_WITH_IMM,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_ATOMIC,
} = C;
const { PKT_SEND, PKT_WRITE, PKT_READ, LAST, ACK_REQUEST, FIRST, HAS_INV, HAS_IMM, SOLICITED, PKT_RESPONSE } =
  P;
const { ACK } = K;
const { DELIVERED, IDLE, PAYLOAD, RECV_OFFSET, RESPONSE_END, SENDING, psnAdd, psnDiff } = Q;

/** A request packet has arrived. */
export function onRequest(world: World, qp: Qp, p: number): void {
  if (qp.state < IBV_QPS_RTR || qp.state === IBV_QPS_ERR || qp.fatalNak >= 0) return;
  const pool = world.packets;
  if (qp.peer !== pool.source[p]) return;
  if (qp.state === IBV_QPS_RTR) established(world, qp);
  if (qp.type === IBV_QPT_UC) {
    onUnreliable(world, qp, p);
    return;
  }
  const ahead = psnDiff(pool.psn[p], qp.ePsn);
  if (ahead !== 0) {
    if (ahead < 0) withSrqDomain(world, qp, p, onDuplicate);
    else if (!qp.nakSent) {
      qp.nakSent = true;
      sendAck(world, qp, qp.ePsn, K.NAK_SEQUENCE);
    }
    return;
  }
  qp.nakSent = false;
  if (qp.type === IBV_QPT_XRC_RECV && !adoptSrq(world, qp, p)) {
    fatal(world, qp, K.NAK_INVALID_REQUEST, 0);
    return;
  }
  const kind = pool.kind[p];
  if (kind === PKT_SEND) onSend(world, qp, p);
  else if (kind === PKT_WRITE) onWrite(world, qp, p);
  else if (kind === PKT_READ) onRead(world, qp, p);
  else onAtomic(world, qp, p);
}

/** The peer sends although this end is not in RTS: raises IBV_EVENT_COMM_EST once per connection. */
function established(world: World, qp: Qp): void {
  if (qp.establishedRaised) return;
  qp.establishedRaised = true;
  world.raise(C.IBV_EVENT_COMM_EST, qp);
}

/** The packet was executed: advances the expected PSN and acknowledges if requested. */
function accept(world: World, qp: Qp, p: number): void {
  const psn = qp.ePsn;
  qp.ePsn = psnAdd(psn, 1);
  qp.times[qp.row + DELIVERED] += world.packets.length[p];
  if ((world.packets.flags[p] & LAST) !== 0) qp.msn = (qp.msn + 1) & 0xffffff;
  if ((world.packets.flags[p] & ACK_REQUEST) !== 0) sendAck(world, qp, psn, ACK);
}

/** Whether no receive is available, neither in its own queue nor in a shared one. */
function isEmpty(world: World, qp: Qp): boolean {
  return qp.rqTaken === qp.rq.posted && !takeShared(world, qp);
}

/** No receive is posted: asks the requester to retry later. */
function notReady(world: World, qp: Qp): void {
  noteNoReceive(world, qp.host);
  // Following packets are ahead of the expected PSN and dropped without a second NAK.
  qp.nakSent = true;
  sendAck(world, qp, qp.ePsn, K.NAK_RNR + (qp.attr.minRnrTimer ?? 0));
}

function onSend(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const flags = pool.flags[p];
  if ((flags & FIRST) !== 0) {
    if (isEmpty(world, qp)) {
      notReady(world, qp);
      return;
    }
    qp.rqTaken = (qp.rqTaken + 1) | 0;
    qp.receiving = true;
    qp.times[qp.row + RECV_OFFSET] = 0;
  }
  const length = pool.length[p];
  const offset = qp.times[qp.row + RECV_OFFSET];
  if (offset + length > qp.rq.length[qp.rqDone & qp.rq.mask]) {
    fatal(world, qp, K.NAK_INVALID_REQUEST, C.IBV_WC_LOC_LEN_ERR);
    return;
  }
  if (!moveSges(world, qp, qp.rq, qp.rqDone, offset, length, p, true)) {
    fatal(world, qp, K.NAK_REMOTE_OPERATION, C.IBV_WC_LOC_PROT_ERR);
    return;
  }
  qp.times[qp.row + RECV_OFFSET] = offset + length;
  if ((flags & LAST) !== 0) {
    if ((flags & HAS_INV) !== 0 && !invalidate(world, qp, pool.imm[p] >>> 0)) {
      fatal(world, qp, K.NAK_REMOTE_ACCESS, C.IBV_WC_REM_INV_REQ_ERR);
      return;
    }
    received(world, qp, p, IBV_WC_RECV, offset + length);
  }
  accept(world, qp, p);
}

function received(world: World, qp: Qp, p: number, opcode: number, byteLen: number): void {
  const flags = world.packets.flags[p];
  const withImm = (flags & (HAS_IMM | HAS_INV)) !== 0;
  const imm = withImm ? world.packets.imm[p] : 0;
  qp.receiving = false;
  const wcFlags = !withImm ? 0 : (flags & HAS_IMM) !== 0 ? C.IBV_WC_WITH_IMM : C.IBV_WC_WITH_INV;
  completeRecv(world, qp, IBV_WC_SUCCESS, opcode, byteLen, wcFlags, imm, (flags & SOLICITED) !== 0);
}

function onWrite(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const flags = pool.flags[p];
  if (!permits(qp, IBV_ACCESS_REMOTE_WRITE)) {
    fatal(world, qp, K.NAK_INVALID_REQUEST, 0);
    return;
  }
  const length = pool.length[p];
  if (length > 0) {
    const isFirst = (flags & FIRST) !== 0;
    let region: Region | undefined;
    // Unless bytes are copied, the check of a whole message holds for its later packets while all keys stay the same.
    if (isFirst || world.payload || qp.writeVersion !== world.regions.version) {
      // The first packet is rejected unless the whole message fits.
      region = reachOf(world, qp, p, isFirst ? pool.rest[p] : length, IBV_ACCESS_REMOTE_WRITE);
      if (region === undefined) {
        fatal(world, qp, K.NAK_REMOTE_ACCESS, 0);
        return;
      }
      if (isFirst) qp.writeVersion = world.regions.version;
    }
    if ((flags & (LAST | HAS_IMM)) === (LAST | HAS_IMM) && isEmpty(world, qp)) {
      notReady(world, qp);
      return;
    }
    if (world.payload && region !== undefined)
      pool.copyOut(p, region.bytes, pool.addr[p] - region.addr, length);
  }
  if ((flags & FIRST) !== 0) qp.times[qp.row + RECV_OFFSET] = pool.rest[p];
  if ((flags & HAS_IMM) !== 0) {
    if (isEmpty(world, qp)) {
      notReady(world, qp);
      return;
    }
    qp.rqTaken = (qp.rqTaken + 1) | 0;
    received(world, qp, p, IBV_WC_RECV_RDMA_WITH_IMM, qp.times[qp.row + RECV_OFFSET]);
  }
  accept(world, qp, p);
}

/**
 * Whether one more READ or atomic fits. When the oldest is a repetition, it is dropped to make room: a
 * requester within its limit no longer waits for that one, whose request arrived twice or was repeated too early.
 */
function hasRoom(world: World, qp: Qp): boolean {
  if (qp.canRespond()) return true;
  const r = qp.responses;
  if (r.count === 0 || r.repeated[r.head] === 0) return false;
  r.head = (r.head + 1) % r.size;
  r.count--;
  qp.respPhase = IDLE;
  qp.respToken = (qp.respToken + 1) | 0;
  startResponse(world, qp);
  return true;
}

function permits(qp: Qp, access: number): boolean {
  return (qp.remoteAccess & access) !== 0;
}

function onRead(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const rest = pool.rest[p];
  const packets = rest <= qp.mtu ? 1 : Math.ceil(rest / qp.mtu);
  if (!permits(qp, IBV_ACCESS_REMOTE_READ)) {
    fatal(world, qp, K.NAK_INVALID_REQUEST, 0);
    return;
  }
  if (!hasRoom(world, qp)) {
    fatal(world, qp, K.NAK_INVALID_REQUEST, 0);
    return;
  }
  if (rest > 0 && reachOf(world, qp, p, rest, IBV_ACCESS_REMOTE_READ) === undefined) {
    fatal(world, qp, K.NAK_REMOTE_ACCESS, 0);
    return;
  }
  qp.ePsn = psnAdd(qp.ePsn, packets);
  qp.msn = (qp.msn + 1) & 0xffffff;
  queueResponse(world, qp, p, packets, 0, 0, false);
}

function onAtomic(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const addr = pool.addr[p];
  if (!permits(qp, IBV_ACCESS_REMOTE_ATOMIC)) {
    fatal(world, qp, K.NAK_INVALID_REQUEST, 0);
    return;
  }
  if (addr % 8 !== 0 || !hasRoom(world, qp)) {
    fatal(world, qp, K.NAK_INVALID_REQUEST, 0);
    return;
  }
  const region = reachOf(world, qp, p, 8, IBV_ACCESS_REMOTE_ATOMIC);
  if (region === undefined) {
    fatal(world, qp, K.NAK_REMOTE_ACCESS, 0);
    return;
  }
  const at = addr - region.addr;
  const { bytes } = region;
  const lo = (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;
  const hi = (bytes[at + 4] | (bytes[at + 5] << 8) | (bytes[at + 6] << 16) | (bytes[at + 7] << 24)) >>> 0;
  if (world.payload) applyAtomic(pool, p, bytes, at, lo, hi);
  const r = qp.responses;
  const slot = r.done % r.size;
  r.done = (r.done + 1) % (r.size * 2);
  r.donePsn[slot] = qp.ePsn;
  r.doneValue[slot * 2] = lo;
  r.doneValue[slot * 2 + 1] = hi;
  qp.ePsn = psnAdd(qp.ePsn, 1);
  qp.msn = (qp.msn + 1) & 0xffffff;
  queueResponse(world, qp, p, 1, lo, hi, false);
}

/** Operands are compare (or add), then swap: little-endian words in the packet's slab. */
function applyAtomic(
  pool: P.PacketPool,
  p: number,
  bytes: Uint8Array,
  at: number,
  lo: number,
  hi: number,
): void {
  const slab = pool.slab(p) >> 2;
  const w = pool.words;
  let newLo = w[slab + 2];
  let newHi = w[slab + 3];
  if (pool.kind[p] === P.PKT_FETCH_ADD) {
    newLo = (lo + w[slab]) >>> 0;
    newHi = (hi + w[slab + 1] + (lo + w[slab] > 0xffffffff ? 1 : 0)) >>> 0;
  } else if (lo !== w[slab] || hi !== w[slab + 1]) {
    return;
  }
  for (let i = 0; i < 4; i++) {
    bytes[at + i] = newLo >>> (8 * i);
    bytes[at + 4 + i] = newHi >>> (8 * i);
  }
}

/** Handles a packet executed before, whose acknowledgement or response was lost. */
function onDuplicate(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const kind = pool.kind[p];
  const psn = pool.psn[p];
  if (kind === PKT_SEND || kind === PKT_WRITE) {
    if ((pool.flags[p] & ACK_REQUEST) !== 0) sendAck(world, qp, psnAdd(qp.ePsn, -1), ACK);
    return;
  }
  dropResponsesFrom(qp, psn);
  const r = qp.responses;
  if (r.count === r.size) return;
  if (kind === PKT_READ) {
    const rest = pool.rest[p];
    // A hostile peer may give a READ that was never executed an earlier number.
    if (!permits(qp, IBV_ACCESS_REMOTE_READ)) return;
    if (rest > 0 && reachOf(world, qp, p, rest, IBV_ACCESS_REMOTE_READ) === undefined) {
      fatal(world, qp, K.NAK_REMOTE_ACCESS, 0, psn);
      return;
    }
    queueResponse(world, qp, p, rest <= qp.mtu ? 1 : Math.ceil(rest / qp.mtu), 0, 0, true);
    return;
  }
  // Atomics are executed once; a repetition gets the saved result.
  const slot = r.donePsn.indexOf(psn);
  if (slot >= 0) queueResponse(world, qp, p, 1, r.doneValue[slot * 2], r.doneValue[slot * 2 + 1], true);
}

/** The requester went back and will request the responses from here again. */
function dropResponsesFrom(qp: Qp, psn: number): void {
  const r = qp.responses;
  while (r.count > 0) {
    const slot = (r.head + r.count - 1) % r.size;
    if (psnDiff(psnAdd(r.psn[slot], r.packets[slot] - 1), psn) < 0) return;
    r.count--;
    if (r.count === 0) {
      qp.respPhase = IDLE;
      qp.respToken = (qp.respToken + 1) | 0;
    }
  }
}

function queueResponse(
  world: World,
  qp: Qp,
  p: number,
  packets: number,
  lo: number,
  hi: number,
  again: boolean,
): void {
  const pool = world.packets;
  const r = qp.responses;
  const slot = (r.head + r.count) % r.size;
  r.count++;
  r.kind[slot] = pool.kind[p];
  r.psn[slot] = pool.psn[p];
  r.packets[slot] = packets;
  r.rkey[slot] = pool.rkey[p];
  r.addr[slot] = pool.addr[p];
  r.length[slot] = pool.rest[p];
  r.pd[slot] = qp.pd;
  r.repeated[slot] = again ? 1 : 0;
  r.value[slot * 2] = lo;
  r.value[slot * 2 + 1] = hi;
  // Memory is read at once, even while earlier responses are pending.
  const { pcie, caches } = world.hosts[qp.host];
  r.payloadNs[slot] = 0;
  if (!pcie.free) {
    const first = Math.max(8, Math.min(r.length[slot], world.params.readAheadBytes));
    const waits = caches.looksUp && r.kind[slot] === PKT_READ && missesResponse(world, qp, slot, 0, first);
    pcie.read(first);
    r.payloadNs[slot] = pcie.done[0] + (waits ? caches.waitNs[0] : 0);
  }
  startResponse(world, qp);
}

function startResponse(world: World, qp: Qp): void {
  if (qp.respPhase !== IDLE || qp.responses.count === 0) return;
  qp.respPkt = 0;
  takeUnit(world, qp.replies);
}

export function onResponseStep(world: World, qp: Qp): void {
  const r = qp.responses;
  if (r.payloadNs[r.head] > world.clock[0]) {
    qp.respPhase = PAYLOAD;
    world.events.due[0] = r.payloadNs[r.head];
    world.events.push(K.EV_RESPONSE_PAYLOAD, qp.qpn, qp.respToken, 0);
    return;
  }
  onResponsePayload(world, qp);
}

/** The first payload of a response has arrived. */
export function onResponsePayload(world: World, qp: Qp): void {
  qp.respPhase = SENDING;
  joinPort(world, qp.replies);
}

/** Bytes on the wire of the next response packet; -1 when there is none. */
export function nextResponseBytes(world: Pick<World, 'params'>, qp: Qp): number {
  if (qp.respPhase !== SENDING) return -1;
  return (nextResponsePayload(qp) + world.params.headerBytes) | 0;
}

/** Payload of the next response packet, if there is one. */
export function nextResponsePayload(qp: Qp): number {
  const r = qp.responses;
  const left = (r.length[r.head] - qp.respPkt * qp.mtu) >>> 0;
  return Math.min(left, qp.mtu);
}

/** Builds the next response packet and reads its memory now; -1 when the memory is no longer accessible. */
export function nextResponse(world: World, qp: Qp): number {
  const pool = world.packets;
  const r = qp.responses;
  const slot = r.head;
  const p = pool.take();
  const offset = qp.respPkt * qp.mtu;
  const left = r.length[slot] - offset;
  const length = Math.min(left, qp.mtu);
  pool.kind[p] = PKT_RESPONSE;
  pool.flags[p] = (qp.respPkt === 0 ? FIRST : 0) | (qp.respPkt + 1 === r.packets[slot] ? LAST : 0);
  pool.imm[p] = r.kind[slot];
  pool.source[p] = qp.qpn;
  pool.epoch[p] = qp.epoch;
  pool.dest[p] = qp.peer;
  pool.psn[p] = psnAdd(r.psn[slot], qp.respPkt);
  pool.length[p] = length;
  world.notBefore[0] = 0;
  if (r.payloadNs[slot] > 0) {
    readAhead(world, qp.replies, qp.respPkt, r.length[slot] | 0, r.payloadNs, slot);
  }
  if (r.kind[slot] !== PKT_READ) {
    pool.words[pool.slab(p) >> 2] = r.value[slot * 2];
    pool.words[(pool.slab(p) >> 2) + 1] = r.value[slot * 2 + 1];
  } else if (length > 0) {
    const addr = r.addr[slot] + offset;
    world.regions.from[0] = addr;
    const region = reach(world, qp, r.rkey[slot], length, IBV_ACCESS_REMOTE_READ, r.pd[slot]);
    if (region === undefined) {
      pool.release(p);
      r.count = 0;
      qp.ackHeld = -1;
      endResponder(world, qp, pool.psn[p], K.NAK_REMOTE_ACCESS, 0);
      return -1;
    }
    if (world.payload) copyFromRegion(region, addr - region.addr, pool.bytes, pool.slab(p), length);
  }
  qp.respPkt = (qp.respPkt + 1) | 0;
  return p;
}

/** The port accepted a response packet; port.busyUntil is its departure. */
export function responseSent(world: World, qp: Qp, port: Port): void {
  qp.times[qp.row + RESPONSE_END] = port.busyUntil;
  const r = qp.responses;
  if (qp.respPkt < r.packets[r.head]) return;
  r.head = (r.head + 1) % r.size;
  r.count--;
  qp.respPhase = IDLE;
  if (r.count > 0) {
    startResponse(world, qp);
    return;
  }
  if (qp.fatalNak >= 0) {
    endResponder(world, qp, qp.ePsn, qp.fatalNak & 0xff, qp.fatalNak >> 8);
  } else if (qp.ackHeld >= 0) {
    const syndrome = qp.ackHeld;
    qp.ackHeld = -1;
    sendAck(world, qp, qp.ackHeldPsn, syndrome);
  }
}

/** Sends an acknowledgement, or holds it back until the responses before it have left. */
function sendAck(world: World, qp: Qp, psn: number, syndrome: number): void {
  if (qp.responses.count > 0) {
    if (syndrome === ACK && qp.ackHeld > ACK) return;
    qp.ackHeld = syndrome;
    qp.ackHeldPsn = psn;
    return;
  }
  if (isRemote(qp.peerHost)) {
    world.acknowledge(qp, psn, syndrome, 0);
    return;
  }
  const peer = world.qps[qp.peer];
  if (peer !== undefined) world.acknowledge(qp, psn, syndrome, peer.epoch);
}

/** Refuses a request packet from outside that breaks the rules of the protocol; the connection ends. */
export function refuse(world: World, qp: Qp, syndrome: number): void {
  if (qp.state < IBV_QPS_RTR || qp.state === IBV_QPS_ERR || qp.fatalNak >= 0) return;
  fatal(world, qp, syndrome, 0);
}

/** Ends the connection with a NAK for the packet with this PSN, once the responses before it have left. */
function fatal(world: World, qp: Qp, syndrome: number, recvStatus: number, psn = qp.ePsn): void {
  if (qp.responses.count > 0) {
    qp.fatalNak = (recvStatus << 8) | syndrome;
    return;
  }
  endResponder(world, qp, psn, syndrome, recvStatus);
}

function endResponder(world: World, qp: Qp, psn: number, syndrome: number, recvStatus: number): void {
  sendAck(world, qp, psn, syndrome);
  // An event reports what no completion can (InfiniBand 11.6.3.3).
  if (recvStatus !== 0) completeRecv(world, qp, recvStatus, IBV_WC_RECV, 0, 0, 0, false);
  else world.raise(syndrome === K.NAK_REMOTE_ACCESS ? C.IBV_EVENT_QP_ACCESS_ERR : C.IBV_EVENT_QP_REQ_ERR, qp);
  failQp(world, qp);
}
