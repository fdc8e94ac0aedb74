/** Properties of a single request in a send queue. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Qp, Sender } from './qp.ts';
import * as Q from './qp.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const {
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_SEND_WITH_INV,
  IBV_WR_RDMA_READ,
  IBV_QPS_RTS,
  IBV_QPS_SQD,
  IBV_SEND_SIGNALED,
  ISO_SEND_INTERNAL,
  IBV_QPT_UD,
} = C;
const { WR_OP } = L;
const { IDLE, PARKED, ROLE_REQUEST, ROLE_RESPONSE, SENDING } = Q;

/** LOCAL_INV, BIND_MW, WAIT, ENABLE: executed in the processing unit, without a packet. */
export function isLocalOp(opcode: number): boolean {
  return opcode > IBV_WR_ATOMIC_FETCH_AND_ADD && opcode !== IBV_WR_SEND_WITH_INV;
}

/** READs and atomics, which wait for response data. */
export function isReadOrAtomic(opcode: number): boolean {
  return opcode >= IBV_WR_RDMA_READ && opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD;
}

export function opcodeOf(qp: Qp, seq: number): number {
  return qp.sq.words[qp.sq.at(seq) + WR_OP] & 0xff;
}

export function flagsOf(qp: Qp, seq: number): number {
  return (qp.sq.words[qp.sq.at(seq) + WR_OP] >>> 8) & 0xff;
}

/** Whether the requester is active. */
export function isLive(qp: Qp): boolean {
  return qp.state === IBV_QPS_RTS || qp.state === IBV_QPS_SQD;
}

export function packetsOf(qp: Qp, seq: number): number {
  const length = qp.sq.length[seq & qp.sq.mask];
  return length <= qp.mtu ? 1 : Math.ceil(length / qp.mtu);
}

/** Whether a request generates a completion on success. */
export function isSignaled(qp: Qp, seq: number): boolean {
  const flags = flagsOf(qp, seq);
  return (flags & IBV_SEND_SIGNALED) !== 0 || (qp.sqSigAll && (flags & ISO_SEND_INTERNAL) === 0);
}

/** Payload of the message that a sender is sending, in bytes. Requests of READs and atomics carry none. */
export function messageBytes({ qp, role }: Sender): number {
  if (role !== ROLE_REQUEST) return qp.responses.length[qp.responses.head];
  return isReadOrAtomic(opcodeOf(qp, qp.cur)) ? 0 : qp.sq.length[qp.cur & qp.sq.mask];
}

/**
 * The service level of what a sender is about to send, or -1. A request known to the NIC or a pending
 * response counts; work blocked by something else (a WAIT, a fence, RNR, a rate limit) does not.
 */
export function sendingLevel(sender: Sender): number {
  const { qp } = sender;
  if (sender.phase() === SENDING && (qp.heldRoles & (1 << sender.role)) !== 0) return -1;
  if (sender.role === ROLE_RESPONSE) return qp.respPhase === IDLE ? -1 : qp.sl;
  if (qp.phase === PARKED) return -1;
  if (qp.phase === IDLE) {
    const fetching = qp.cur === qp.available && qp.fetchLimit !== qp.cur;
    if (!fetching || qp.rnrWait || qp.state !== IBV_QPS_RTS) return -1;
  }
  return qp.type === IBV_QPT_UD ? (qp.sqAh[qp.cur & qp.sq.mask]?.sl ?? qp.sl) : qp.sl;
}

/**
 * Whether a sender is about to send: it has a packet, or is in its serial gap, or a WQE or payload is on its way, or a
 * rate limit holds its packet back.
 */
export function hasWork(sender: Sender): boolean {
  const isHeld = (sender.qp.heldRoles & (1 << sender.role)) !== 0;
  return (isHeld && sender.phase() === SENDING) || sendingLevel(sender) >= 0;
}
