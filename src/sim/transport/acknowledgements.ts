/**
 * Handles what a requester receives: acknowledgements, NAKs, response data, or nothing until the retry timer fires.
 * Finished requests complete in order; everything that was lost is sent again from the oldest missing packet.
 */
import * as C from '../../verbs/constants.ts';
import type { Port } from '../egress/port.ts';
import { joinPort } from '../egress/rate-pacing.ts';
import * as K from '../kernel/event-kinds.ts';
import { moveSges } from '../memory/sges.ts';
import * as U from '../network/uplink.ts';
import { noteNoReceive } from '../nic/processing-units.ts';
import type { World } from '../world.ts';
import { completeOldest } from './completions.ts';
import { failQp, failSends } from './failure.ts';
import type { Qp } from './qp.ts';
import * as Q from './qp.ts';
import * as R from './request-info.ts';
import { notifyDrained, tryStart } from './request-start.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { isLive, isLocalOp, isReadOrAtomic, opcodeOf } = R;
const { isRemote } = U;
const { IBV_WC_SUCCESS } = C;
const { ACK, EV_RNR, EV_TIMEOUT, NAK_RNR, NAK_SEQUENCE } = K;
const { DEADLINE, DELIVERED, IDLE, SENDING, TIMEOUT, psnAdd, psnDiff } = Q;

/** min_rnr_timer codes in nanoseconds (InfiniBand 9.7.5.2.8). */
const RNR_TIMER_US = [
  655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680,
  10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
];

/** The WAIT, ENABLE or window operation at `cur` is done. */
export function localDone(world: World, qp: Qp): void {
  qp.sqDone[qp.cur & qp.sq.mask] = 1;
  qp.phase = IDLE;
  qp.cur = (qp.cur + 1) | 0;
  retire(world, qp, psnAdd(qp.unaPsn, -1));
  tryStart(world, qp);
}

/**
 * Sends the last packet again with an acknowledgement request if it had none, because no other packet will follow soon: in
 * SQD, or before a request that failed here, whose own packets are not sent.
 */
function resendForAck(world: World, qp: Qp): void {
  // After a wait for a receive, the packet that is sent again requests one.
  if (qp.packetsSinceAckRequest === 0 || qp.phase !== IDLE || qp.rnrWait || qp.unreliable) return;
  let seq = (qp.started - 1) | 0;
  if (qp.sqStatus[seq & qp.sq.mask] !== 0) seq = (seq - 1) | 0;
  while (((seq - qp.una) | 0) >= 0 && isLocalOp(opcodeOf(qp, seq))) seq = (seq - 1) | 0;
  // The response to a READ or atomic is its acknowledgement.
  if (((seq - qp.una) | 0) < 0 || isReadOrAtomic(opcodeOf(qp, seq))) return;
  const slot = seq & qp.sq.mask;
  const psn = psnAdd(qp.sqPsn[slot], qp.sqPackets[slot] - 1);
  if (psnDiff(psn, qp.unaPsn) < 0) return;
  goBack(world, qp, psn);
  tryStart(world, qp);
}

/** Starts the retry timer, unless it runs, when the packet just sent has left. */
export function startTimer(world: World, qp: Qp, port: Port): void {
  if (qp.times[qp.row + DEADLINE] !== Number.POSITIVE_INFINITY) return;
  qp.times[qp.row + DEADLINE] = port.busyUntil + qp.times[qp.row + TIMEOUT];
  queueTimer(world, qp);
}

function queueTimer(world: World, qp: Qp): void {
  if (qp.timerQueued || qp.times[qp.row + DEADLINE] === Number.POSITIVE_INFINITY) return;
  qp.timerQueued = true;
  const { events, timers } = world;
  events.reserve();
  timers.due[0] = qp.times[qp.row + DEADLINE];
  timers.due[1] = events.due[1];
  timers.insert(EV_TIMEOUT, qp.qpn, 0, 0);
}

/** The event of the retry timer came before its deadline. Queues another event if the timer still runs. */
export function queueTimerAgain(world: World, qp: Qp): void {
  qp.timerQueued = false;
  queueTimer(world, qp);
}

/** The retry timer fired: nothing arrived for the whole timeout. */
export function onTimeout(world: World, qp: Qp): void {
  qp.timerQueued = false;
  qp.times[qp.row + DEADLINE] = Number.POSITIVE_INFINITY;
  if (qp.una === qp.started || world.hosts[qp.host].dead) return;
  qp.rdLost = false;
  retry(world, qp);
}

/** Goes back to the oldest unacknowledged packet, or fails when all retries are used. */
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
  // The first packet sent again requests an acknowledgement.
  qp.packetsSinceAckRequest = world.params.ackEveryPackets;
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
  qp.times[qp.row + DEADLINE] = Number.POSITIVE_INFINITY;
}

/** Handles an ACK, which covers everything up to its PSN, or a NAK for the packet at its PSN. */
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

/** Completes the requests that are finished up to this PSN. Returns true when a READ response proves to be lost. */
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
      // Later requests are acknowledged, so this response was sent and lost.
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

/** Moves the cursor past packets that an earlier transmission has delivered in the meantime. */
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

/** Restarts retry counters and timer after progress. */
function progress(world: World, qp: Qp): void {
  qp.retriesLeft = qp.attr.retryCnt ?? 0;
  qp.rnrRetriesLeft = qp.attr.rnrRetry ?? 0;
  // The window of a peer outside of the simulation may have been full.
  if (isRemote(qp.peerHost) && qp.phase === SENDING) joinPort(world, qp.requests);
  if (qp.unaPsn === qp.sndPsn) {
    qp.times[qp.row + DEADLINE] = Number.POSITIVE_INFINITY;
  } else if (qp.times[qp.row + DEADLINE] !== Number.POSITIVE_INFINITY) {
    qp.times[qp.row + DEADLINE] = world.clock[0] + qp.times[qp.row + TIMEOUT];
  }
}

/** The receiver had no receive posted: wait for the time in the NAK, then send again from there. */
function onRnrNak(world: World, qp: Qp, delayNs: number): void {
  if (qp.rnrWait) return;
  noteNoReceive(world, qp.host);
  if (qp.rnrRetriesLeft === 0) {
    failOldest(world, qp, C.IBV_WC_RNR_RETRY_EXC_ERR);
    return;
  }
  // 7 means unlimited retries.
  if (qp.attr.rnrRetry !== 7) qp.rnrRetriesLeft--;
  goBack(world, qp, qp.unaPsn);
  qp.rnrWait = true;
  world.events.due[0] = world.clock[0] + delayNs;
  world.events.push(EV_RNR, qp.qpn, 0, qp.epoch);
}

/** Handles a packet of a READ's data, or an atomic's old value. */
export function onResponse(world: World, qp: Qp, p: number): void {
  if (!isLive(qp)) return;
  const pool = world.packets;
  const psn = pool.psn[p];
  if (psnDiff(psn, qp.unaPsn) < 0 || psnDiff(psn, qp.sndPsn) >= 0) return;
  // A response acknowledges all packets before it.
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
  if (!moveSges(world, qp, qp.sq, qp.una, qp.rdGot * qp.mtu, length, p, true)) {
    failOldest(world, qp, C.IBV_WC_LOC_PROT_ERR);
    return;
  }
  qp.rdGot = (qp.rdGot + 1) | 0;
  qp.times[qp.row + DELIVERED] += length;
  qp.rdLost = false;
  qp.unaPsn = psnAdd(psn, 1);
  progress(world, qp);
  retire(world, qp, psn);
  skipAcknowledged(qp);
  tryStart(world, qp);
}

/** Completes, in order, the requests that are finished when everything up to PSN `acked` has arrived. */
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
    completeOldest(world, qp, IBV_WC_SUCCESS);
  }
}

/**
 * Fails a request that may not be the oldest: earlier requests complete first, and later ones do not start.
 */
export function failRequest(world: World, qp: Qp, seq: number, status: number): void {
  qp.sqStatus[seq & qp.sq.mask] = status;
  qp.phase = IDLE;
  retire(world, qp, psnAdd(qp.unaPsn, -1));
  if (isLive(qp)) resendForAck(world, qp);
}

/** Fails the oldest request, and with it the queue pair, or only the send queue of an unreliable one. */
export function failOldest(world: World, qp: Qp, status: number): void {
  completeOldest(world, qp, status);
  if (qp.unreliable) failSends(world, qp);
  else failQp(world, qp);
}

/** The queue pair moved to SQD. `notify` requests an event when it is drained. */
export function beginDrain(world: World, qp: Qp, notify: boolean): void {
  qp.drainNotify = notify;
  notifyDrained(world, qp);
  resendForAck(world, qp);
}
