/** Properties of a single request in a send queue. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { type Qp, ROLE_REQUEST, type Sender } from './qp.ts';

/** LOCAL_INV, BIND_MW, WAIT, ENABLE: executed in the processing unit, without a packet. */
export function isLocalOp(opcode: number): boolean {
  return opcode > C.IBV_WR_ATOMIC_FETCH_AND_ADD && opcode !== C.IBV_WR_SEND_WITH_INV;
}

/** READs and atomics, which wait for response data. */
export function isReadOrAtomic(opcode: number): boolean {
  return opcode >= C.IBV_WR_RDMA_READ && opcode <= C.IBV_WR_ATOMIC_FETCH_AND_ADD;
}

export function opcodeOf(qp: Qp, seq: number): number {
  return qp.sq.words[qp.sq.at(seq) + L.WR_OP] & 0xff;
}

export function flagsOf(qp: Qp, seq: number): number {
  return (qp.sq.words[qp.sq.at(seq) + L.WR_OP] >>> 8) & 0xff;
}

/** Whether the requester is active. */
export function isLive(qp: Qp): boolean {
  return qp.state === C.IBV_QPS_RTS || qp.state === C.IBV_QPS_SQD;
}

export function packetsOf(qp: Qp, seq: number): number {
  const length = qp.sq.length[seq & qp.sq.mask];
  return length <= qp.mtu ? 1 : Math.ceil(length / qp.mtu);
}

/** Whether a request generates a completion on success. */
export function isSignaled(qp: Qp, seq: number): boolean {
  const flags = flagsOf(qp, seq);
  return (flags & C.IBV_SEND_SIGNALED) !== 0 || (qp.sqSigAll && (flags & C.ISO_SEND_INTERNAL) === 0);
}

/** Payload of the message that a sender is sending, in bytes. Requests of READs and atomics carry none. */
export function messageBytes({ qp, role }: Sender): number {
  if (role !== ROLE_REQUEST) return qp.responses.length[qp.responses.head];
  return isReadOrAtomic(opcodeOf(qp, qp.cur)) ? 0 : qp.sq.length[qp.cur & qp.sq.mask];
}
