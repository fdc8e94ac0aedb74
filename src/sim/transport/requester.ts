/**
 * The sending half of a queue pair: processing unit, packets, acknowledgements, retries, completions.
 *
 * A request goes IDLE -> STEP (it has the processing unit) -> SENDING (its packets take turns at the port),
 * then the next one begins. It completes when it is the oldest and its acknowledgement or data is here.
 */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { wcOpcode } from '../../verbs/wc-opcode.ts';
import type { Port } from '../egress/port.ts';
import { joinPort } from '../egress/rate-pacing.ts';
import { ACK, EV_PAYLOAD, EV_RNR, EV_TIMEOUT, NAK_RNR, NAK_SEQUENCE } from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';
import { copyBytes } from '../memory/memory.ts';
import { bindFailed } from '../memory/memory-windows.ts';
import { moveSges } from '../memory/sges.ts';
import { leaveContext } from '../nic/context-caches.ts';
import { takeUnit } from '../nic/unit-step.ts';
import { fetchMore, headUsed, readAhead } from '../nic/wqe-fetch.ts';
import type { World } from '../world.ts';
import { failQp, failSends } from './failure.ts';
import { DEADLINE, DELIVERED, IDLE, PAYLOAD, psnAdd, psnDiff, type Qp, SENDING, TIMEOUT } from './qp.ts';
import { noticeDrained } from './sqd.ts';
import { aim } from './unreliable.ts';
import { executeLocal } from './wait.ts';

const TWO32 = 4294967296;
/** Half the PSN space: more in flight could not be told from old packets. */
const WINDOW_PACKETS = 1 << 23;

/** min_rnr_timer codes in nanoseconds (InfiniBand 9.7.5.2.8). */
const RNR_TIMER_US = [
  655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680,
  10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
];

/** LOCAL_INV, BIND_MW, WAIT, ENABLE: done in the processing unit, without a packet. */
export function isLocalOp(opcode: number): boolean {
  return opcode > C.IBV_WR_ATOMIC_FETCH_AND_ADD && opcode !== C.IBV_WR_SEND_WITH_INV;
}

/** Requests that wait for data: READ and atomics. */
export function isReadOrAtomic(opcode: number): boolean {
  return opcode >= C.IBV_WR_RDMA_READ && opcode <= C.IBV_WR_ATOMIC_FETCH_AND_ADD;
}

export function opcodeOf(qp: Qp, seq: number): number {
  return qp.sq.words[qp.sq.at(seq) + L.WR_OP] & 0xff;
}

function flagsOf(qp: Qp, seq: number): number {
  return (qp.sq.words[qp.sq.at(seq) + L.WR_OP] >>> 8) & 0xff;
}

/** Whether the sending half works. */
function isLive(qp: Qp): boolean {
  return qp.state === C.IBV_QPS_RTS || qp.state === C.IBV_QPS_SQD;
}

/** Gives the processing unit to the next request, if there is one and nothing forbids it. */
export function tryStart(world: World, qp: Qp): void {
  if (qp.phase !== IDLE || qp.rnrWait) return;
  if (qp.fetched !== qp.rung) fetchMore(world, qp);
  const draining = qp.state === C.IBV_QPS_SQD;
  if (qp.state !== C.IBV_QPS_RTS && !draining) return;
  // SQD finishes what began and begins no more.
  const limit = draining ? qp.started : qp.available;
  // Going back over a WAIT or ENABLE does not execute it again.
  while (qp.cur !== limit && qp.sqDone[qp.cur & qp.sq.mask] !== 0) qp.cur = (qp.cur + 1) | 0;
  if (qp.cur === limit) {
    if (draining) noticeDrained(world, qp);
    return;
  }
  if (qp.cur === qp.started && mustWait(qp)) return;
  if (qp.sqStatus[qp.cur & qp.sq.mask] !== 0) return;
  takeUnit(world, qp.requests);
}

/** Whether a fence, the READ limit or the PSN window keeps a new request from beginning. */
function mustWait(qp: Qp): boolean {
  const opcode = opcodeOf(qp, qp.cur);
  if ((flagsOf(qp, qp.cur) & C.IBV_SEND_FENCE) !== 0 && qp.rdOutstanding > 0) return true;
  if (isLocalOp(opcode)) return false;
  if (isReadOrAtomic(opcode) && qp.rdOutstanding >= (qp.attr.maxRdAtomic ?? 0) && qp.rdOutstanding > 0)
    return true;
  const inFlight = psnDiff(qp.sndPsn, qp.unaPsn) & 0xffffff;
  return inFlight + packetsOf(qp, qp.cur) >= WINDOW_PACKETS;
}

function packetsOf(qp: Qp, seq: number): number {
  const length = qp.sq.length[seq & qp.sq.mask];
  return length <= qp.mtu ? 1 : Math.ceil(length / qp.mtu);
}

/** The processing unit is through with request `cur`. */
export function onStep(world: World, qp: Qp): void {
  leaveContext(world, qp);
  const seq = qp.cur;
  const slot = seq & qp.sq.mask;
  const opcode = opcodeOf(qp, seq);
  if (qp.waitsLeft > 0) {
    takeUnit(world, qp.requests);
    return;
  }
  qp.phase = IDLE;
  if (seq === qp.started) {
    qp.started = (seq + 1) | 0;
    if (qp.sqPayloadNs.length > 0) headUsed(world, qp, seq);
    if (!isLocalOp(opcode)) {
      qp.sqPsn[slot] = qp.sndPsn;
      qp.sqPackets[slot] = packetsOf(qp, seq);
      qp.sndPsn = psnAdd(qp.sndPsn, qp.sqPackets[slot]);
      if (isReadOrAtomic(opcode)) {
        qp.rdOutstanding++;
        // A queue pair connected with max_rd_atomic 0 may not issue any.
        if ((qp.attr.maxRdAtomic ?? 0) === 0) {
          failRequest(world, qp, seq, C.IBV_WC_LOC_QP_OP_ERR);
          return;
        }
      }
    }
  }
  if (isLocalOp(opcode)) {
    if (executeLocal(world, qp, seq)) localDone(world, qp);
    return;
  }
  if (qp.type === C.IBV_QPT_UD && !aim(world, qp, seq)) {
    tryStart(world, qp);
    return;
  }
  if (qp.pkt === 0 && qp.sqPayloadNs[slot] > world.clock[0]) {
    qp.phase = PAYLOAD;
    world.events.due[0] = qp.sqPayloadNs[slot];
    world.events.push(EV_PAYLOAD, qp.qpn, qp.token, 0);
    return;
  }
  qp.phase = SENDING;
  joinPort(world, qp.requests);
}

/** The first payload of the request at `cur` is here. */
export function onPayload(world: World, qp: Qp): void {
  qp.phase = SENDING;
  joinPort(world, qp.requests);
}

/** The WAIT or ENABLE at `cur` is through. */
export function localDone(world: World, qp: Qp): void {
  qp.sqDone[qp.cur & qp.sq.mask] = 1;
  qp.phase = IDLE;
  qp.cur = (qp.cur + 1) | 0;
  retire(world, qp, psnAdd(qp.unaPsn, -1));
  tryStart(world, qp);
}

/** Bytes on the wire of the next packet; -1 when there is none. */
export function nextRequestBytes(world: World, qp: Qp): number {
  if (qp.phase !== SENDING) return -1;
  const slot = qp.cur & qp.sq.mask;
  const opcode = opcodeOf(qp, qp.cur);
  if (isReadOrAtomic(opcode)) return world.params.headerBytes + world.params.rethBytes;
  const left = ((qp.sq.length[slot] | 0) - qp.pkt * qp.mtu) | 0;
  const headers =
    world.params.headerBytes + (qp.pkt === 0 && opcode < C.IBV_WR_SEND ? world.params.rethBytes : 0);
  return (Math.min(left, qp.mtu) + headers) | 0;
}

/** Makes the next packet, reading memory now; -1 when its memory may not be read. */
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

/** What packets of other types than RC say beside: where in particular they are for. */
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
  // A Q_Key with the highest bit set is privileged: it stands for the queue pair's own.
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
  return asks(world, qp, seq, last) ? flags | P.ACK_REQUEST : flags;
}

/** Whether a packet asks for an acknowledgement. */
function asks(world: World, qp: Qp, seq: number, last: boolean): boolean {
  const { params } = world;
  if (params.ackRequests === 'message') return last || (qp.pkt + 1) % params.ackEveryPackets === 0;
  qp.unasked = (qp.unasked + 1) | 0;
  // Unsignaled requests of a run are acknowledged with those behind them.
  const due = last && (isSignaled(qp, seq) || endsRun(qp, (seq + 1) | 0));
  if (!due && qp.unasked < params.ackEveryPackets) return false;
  qp.unasked = 0;
  return true;
}

/** Whether nothing is sure to follow soon that would ask: the request `next` is not here, or may have to wait. */
function endsRun(qp: Qp, next: number): boolean {
  if (next === qp.available || qp.state === C.IBV_QPS_SQD) return true;
  const opcode = opcodeOf(qp, next);
  return isLocalOp(opcode) || isReadOrAtomic(opcode) || (flagsOf(qp, next) & C.IBV_SEND_FENCE) !== 0;
}

/** The queue pair goes to SQD: if what it sent last asked for no acknowledgement, it is sent again, and asks. */
export function askAgain(world: World, qp: Qp): void {
  if (qp.unasked === 0 || qp.phase !== IDLE || qp.una === qp.started || qp.unreliable) return;
  goBack(world, qp, psnAdd(qp.sndPsn, -1));
  tryStart(world, qp);
}

/** Whether a request makes a completion when all goes well. */
function isSignaled(qp: Qp, seq: number): boolean {
  const flags = flagsOf(qp, seq);
  return (flags & C.IBV_SEND_SIGNALED) !== 0 || (qp.sqSigAll && (flags & C.ISO_SEND_INTERNAL) === 0);
}

/** READ requests and atomics: no payload, but operands. */
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

/** A packet is out: the retry timer runs from here if it did not run. */
export function startTimer(world: World, qp: Qp, port: Port): void {
  if (qp.times[DEADLINE] !== Number.POSITIVE_INFINITY) return;
  qp.times[DEADLINE] = port.busyUntil + qp.times[TIMEOUT];
  queueTimer(world, qp);
}

function queueTimer(world: World, qp: Qp): void {
  if (qp.timerQueued || qp.times[DEADLINE] === Number.POSITIVE_INFINITY) return;
  qp.timerQueued = true;
  world.events.due[0] = qp.times[DEADLINE];
  world.events.push(EV_TIMEOUT, qp.qpn, 0, 0);
}

/** The event of a retry timer came up: whether the timer is due; else it is queued again if it still runs. */
export function timerIsDue(world: World, qp: Qp, eventNs: number): boolean {
  if (qp.times[DEADLINE] <= eventNs) return true;
  qp.timerQueued = false;
  queueTimer(world, qp);
  return false;
}

/** Nothing was heard for the whole timeout. */
export function onTimeout(world: World, qp: Qp): void {
  qp.timerQueued = false;
  qp.times[DEADLINE] = Number.POSITIVE_INFINITY;
  if (qp.una === qp.started || world.hosts[qp.host].dead) return;
  qp.rdLost = false;
  retry(world, qp);
}

/** Goes back to the oldest packet that is not acknowledged, unless that was done too often. */
function retry(world: World, qp: Qp): void {
  if (qp.retriesLeft === 0) {
    failOldest(world, qp, C.IBV_WC_RETRY_EXC_ERR);
    return;
  }
  qp.retriesLeft--;
  goBack(world, qp, qp.unaPsn);
  tryStart(world, qp);
}

/** Moves the cursor back to the packet with this PSN. */
function goBack(world: World, qp: Qp, psn: number): void {
  // Whatever is sent again asks.
  qp.unasked = world.params.ackEveryPackets;
  let seq = qp.una;
  qp.pkt = 0;
  for (; seq !== qp.started; seq = (seq + 1) | 0) {
    const slot = seq & qp.sq.mask;
    if (isLocalOp(opcodeOf(qp, seq))) {
      if (qp.sqDone[slot] !== 0) continue;
      break;
    }
    const into = psnDiff(psn, qp.sqPsn[slot]);
    if (into < qp.sqPackets[slot]) {
      qp.pkt = Math.max(into, 0);
      break;
    }
  }
  qp.token = (qp.token + 1) | 0;
  qp.phase = IDLE;
  qp.cur = seq;
  qp.times[DEADLINE] = Number.POSITIVE_INFINITY;
}

/** An acknowledgement: everything up to its PSN arrived; a NAK says what about the one at its PSN. */
export function onAck(world: World, qp: Qp, psn: number, syndrome: number): void {
  if (!isLive(qp)) return;
  const acked = syndrome === ACK ? psn : psnAdd(psn, -1);
  if (psnDiff(acked, qp.sndPsn) >= 0) return;
  if (syndrome !== ACK && psnDiff(psn, qp.unaPsn) < 0) return;
  const lostResponse = acknowledgeUpTo(world, qp, acked);
  if (!isLive(qp)) return;
  if (syndrome === ACK || lostResponse) {
    tryStart(world, qp);
    return;
  }
  if (syndrome === NAK_SEQUENCE) {
    retry(world, qp);
  } else if (syndrome >= NAK_RNR) {
    onRnrNak(world, qp, RNR_TIMER_US[syndrome - NAK_RNR] * 1000);
  } else {
    const statuses = [0, 0, C.IBV_WC_REM_INV_REQ_ERR, C.IBV_WC_REM_ACCESS_ERR, C.IBV_WC_REM_OP_ERR];
    failOldest(world, qp, statuses[syndrome]);
  }
}

/** Completes what is finished up to this PSN. True when a READ's data was found missing on the way. */
function acknowledgeUpTo(world: World, qp: Qp, acked: number): boolean {
  const before = qp.unaPsn;
  retire(world, qp, acked);
  if (!isLive(qp)) return false;
  let una = psnAdd(acked, 1);
  let lost = false;
  const slot = qp.una & qp.sq.mask;
  if (qp.una !== qp.started && isReadOrAtomic(opcodeOf(qp, qp.una))) {
    const expected = psnAdd(qp.sqPsn[slot], qp.rdGot);
    if (psnDiff(una, expected) > 0) {
      // Later requests are acknowledged, so this response was sent, and lost.
      lost = true;
      una = expected;
    }
  }
  if (psnDiff(una, before) > 0) {
    qp.unaPsn = una;
    progress(world, qp);
  }
  skipAcknowledged(qp);
  if (lost && !qp.rdLost) {
    qp.rdLost = true;
    goBack(world, qp, una);
    tryStart(world, qp);
  }
  return lost;
}

/** After going back, the cursor may stand on what an earlier transmission has delivered meanwhile. */
function skipAcknowledged(qp: Qp): void {
  if (((qp.cur - qp.una) | 0) < 0) {
    qp.cur = qp.una;
    qp.pkt = 0;
    qp.phase = IDLE;
    qp.token = (qp.token + 1) | 0;
  }
  if (qp.cur !== qp.una || qp.cur === qp.started || isLocalOp(opcodeOf(qp, qp.cur))) return;
  const into = psnDiff(qp.unaPsn, qp.sqPsn[qp.cur & qp.sq.mask]);
  if (into > qp.pkt && into < qp.sqPackets[qp.cur & qp.sq.mask]) qp.pkt = into;
}

/** Something new was acknowledged: counters and timer begin again. */
function progress(world: World, qp: Qp): void {
  qp.retriesLeft = qp.attr.retryCnt ?? 0;
  qp.rnrRetriesLeft = qp.attr.rnrRetry ?? 0;
  if (qp.unaPsn === qp.sndPsn) {
    qp.times[DEADLINE] = Number.POSITIVE_INFINITY;
  } else if (qp.times[DEADLINE] !== Number.POSITIVE_INFINITY) {
    qp.times[DEADLINE] = world.clock[0] + qp.times[TIMEOUT];
  }
}

/** The receiver had no receive posted: wait as long as it asks, then send again from there. */
function onRnrNak(world: World, qp: Qp, delayNs: number): void {
  if (qp.rnrWait) return;
  if (qp.rnrRetriesLeft === 0) {
    failOldest(world, qp, C.IBV_WC_RNR_RETRY_EXC_ERR);
    return;
  }
  // 7 stands for ever.
  if (qp.attr.rnrRetry !== 7) qp.rnrRetriesLeft--;
  goBack(world, qp, qp.unaPsn);
  qp.rnrWait = true;
  world.events.due[0] = world.clock[0] + delayNs;
  world.events.push(EV_RNR, qp.qpn, 0, qp.epoch);
}

/** A packet of a READ's data, or an atomic's old value. */
export function onResponse(world: World, qp: Qp, p: number): void {
  if (!isLive(qp)) return;
  const pool = world.packets;
  const psn = pool.psn[p];
  if (psnDiff(psn, qp.unaPsn) < 0 || psnDiff(psn, qp.sndPsn) >= 0) return;
  // It acknowledges all that came before it.
  if (psnDiff(psn, qp.unaPsn) > 0 && acknowledgeUpTo(world, qp, psnAdd(psn, -1))) return;
  if (!isLive(qp)) return;
  const slot = qp.una & qp.sq.mask;
  if (
    qp.una === qp.started ||
    !isReadOrAtomic(opcodeOf(qp, qp.una)) ||
    psn !== psnAdd(qp.sqPsn[slot], qp.rdGot)
  )
    return;
  const length = pool.length[p];
  if (!moveSges(world, qp, qp.sq, qp.una, qp.rdGot * qp.mtu, length, pool.slab(p), true)) {
    failOldest(world, qp, C.IBV_WC_LOC_PROT_ERR);
    return;
  }
  qp.rdGot = (qp.rdGot + 1) | 0;
  qp.times[DELIVERED] += length;
  qp.rdLost = false;
  qp.unaPsn = psnAdd(psn, 1);
  progress(world, qp);
  retire(world, qp, psn);
  skipAcknowledged(qp);
  tryStart(world, qp);
}

/** Completes, in order, the requests that are finished when all up to PSN `acked` has arrived. */
export function retire(world: World, qp: Qp, acked: number): void {
  while (qp.una !== qp.started) {
    const slot = qp.una & qp.sq.mask;
    const opcode = opcodeOf(qp, qp.una);
    if (qp.sqStatus[slot] !== 0) {
      failOldest(world, qp, qp.sqStatus[slot]);
      return;
    }
    if (isLocalOp(opcode)) {
      if (qp.sqDone[slot] === 0) return;
    } else {
      if (psnDiff(acked, psnAdd(qp.sqPsn[slot], qp.sqPackets[slot] - 1)) < 0) return;
      if (isReadOrAtomic(opcode)) {
        if (qp.rdGot < qp.sqPackets[slot]) return;
        qp.rdGot = 0;
        qp.rdOutstanding--;
      }
    }
    completeOldest(world, qp, C.IBV_WC_SUCCESS);
  }
}

/** Takes the oldest request off the queue; writes its completion if it is signaled or failed. */
export function completeOldest(world: World, qp: Qp, status: number): void {
  const seq = qp.una;
  const at = qp.sq.at(seq);
  const w = qp.sq.words;
  const slot = seq & qp.sq.mask;
  const opcode = w[at + L.WR_OP] & 0xff;
  const signaled = isSignaled(qp, seq);
  qp.una = (seq + 1) | 0;
  qp.sqDone[slot] = 0;
  qp.sqStatus[slot] = 0;
  if (status === C.IBV_WC_SUCCESS) qp.completed++;
  else {
    qp.errored++;
    if (opcode === C.IBV_WR_BIND_MW) bindFailed(world, qp, seq);
  }
  if (status === C.IBV_WC_SUCCESS && !signaled) return;
  const wc = wcOpcode(opcode);
  const length = isLocalOp(opcode) ? 0 : qp.sq.length[slot];
  world.complete(qp.sendCq, w[at], w[at + 1], status | (wc << 8), length, 0, qp, seq, false);
}

/** Fails a request that is not the oldest: it waits for those before it, and nothing follows it. */
export function failRequest(world: World, qp: Qp, seq: number, status: number): void {
  qp.sqStatus[seq & qp.sq.mask] = status;
  qp.phase = IDLE;
  retire(world, qp, psnAdd(qp.unaPsn, -1));
}

/** The oldest request fails; the queue pair with it, or the send queue alone of an unreliable one. */
export function failOldest(world: World, qp: Qp, status: number): void {
  completeOldest(world, qp, status);
  if (qp.unreliable) failSends(world, qp);
  else failQp(world, qp);
}
