/** Takes finished requests off the queues of a queue pair, in order, and writes their completions. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { wcOpcode } from '../../verbs/wc-batch.ts';
import { bindFailed } from '../memory/memory-windows.ts';
import type { World } from '../world.ts';
import type { Qp } from './qp.ts';
import * as R from './request-info.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { isLocalOp, isSignaled } = R;
const { IBV_WC_SUCCESS } = C;
const { WR_OP, WC_RECV_SIDE } = L;

/** Takes the oldest request off the send queue. Writes a completion if it is signaled or failed. */
export function completeOldest(world: World, qp: Qp, status: number): void {
  const seq = qp.una;
  const at = qp.sq.at(seq);
  const w = qp.sq.words;
  const slot = seq & qp.sq.mask;
  const opcode = w[at + WR_OP] & 0xff;
  const signaled = isSignaled(qp, seq);
  qp.una = (seq + 1) | 0;
  qp.sqDone[slot] = 0;
  qp.sqStatus[slot] = 0;
  if (status === IBV_WC_SUCCESS) qp.completed++;
  else {
    qp.errored++;
    if (opcode === C.IBV_WR_BIND_MW) bindFailed(world, qp, seq);
  }
  if (status === IBV_WC_SUCCESS && !signaled) return;
  const wc = wcOpcode(opcode);
  const length = isLocalOp(opcode) ? 0 : qp.sq.length[slot];
  world.complete(qp.sendCq, w[at], w[at + 1], status | (wc << 8), length, 0, qp, seq, false);
}

/** Takes the oldest receive off the queue and writes its completion. */
export function completeRecv(
  world: World,
  qp: Qp,
  status: number,
  opcode: number,
  byteLen: number,
  flags: number,
  imm: number,
  solicited: boolean,
): void {
  const seq = qp.rqDone;
  const at = qp.rq.at(seq);
  qp.rqDone = (seq + 1) | 0;
  if (((qp.rqTaken - qp.rqDone) | 0) < 0) qp.rqTaken = qp.rqDone;
  if (status === IBV_WC_SUCCESS) qp.completed++;
  else qp.errored++;
  if (qp.srq !== null) qp.srq.completed++;
  const number = qp.srq === null ? seq : qp.sharedSeq;
  const op = status | (opcode << 8) | (flags << 16) | WC_RECV_SIDE;
  world.complete(qp.recvCq, qp.rq.words[at], qp.rq.words[at + 1], op, byteLen, imm, qp, number, solicited);
}
