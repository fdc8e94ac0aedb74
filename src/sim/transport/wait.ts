/**
 * WAIT and ENABLE as in mlx5's cross-channel requests. WAIT compares a CQ's producer index with a target
 * fixed at posting time. ENABLE raises the index up to which a managed queue pair is fetched.
 */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { executeWindowOp } from '../memory/memory-windows.ts';
import { allowFetch } from '../nic/wqe-fetch.ts';
import type { Cq } from '../queues/cq.ts';
import type { World } from '../world.ts';
import { failRequest, localDone } from './acknowledgements.ts';
import { PARKED, type Qp } from './qp.ts';
import { tryStart } from './request-start.ts';

/**
 * Executes the local operation at `cur`. Returns true when it is done; otherwise the queue pair is parked or
 * failed.
 */
export function executeLocal(world: World, qp: Qp, seq: number): boolean {
  const slot = seq & qp.sq.mask;
  const at = qp.sq.at(seq);
  const opcode = qp.sq.words[at + L.WR_OP] & 0xff;
  const target = qp.sqPsn[slot];
  if (opcode < C.ISO_WR_WAIT) {
    const status = executeWindowOp(world, qp, seq);
    if (status !== C.IBV_WC_SUCCESS) failRequest(world, qp, seq, status);
    return status === C.IBV_WC_SUCCESS;
  }
  if (opcode === C.ISO_WR_ENABLE) {
    const managed = world.qps[qp.sqTarget[slot]];
    if (managed === undefined) {
      failRequest(world, qp, seq, C.IBV_WC_LOC_QP_OP_ERR);
      return false;
    }
    enable(world, managed, target);
    return true;
  }
  if (qp.sq.words[at + L.WR_COUNT] === 0) return true;
  const cq = world.cqs[qp.sqTarget[slot]];
  if (cq === undefined) {
    failRequest(world, qp, seq, C.IBV_WC_LOC_QP_OP_ERR);
    return false;
  }
  if (((cq.visible - target) | 0) >= 0) return true;
  qp.phase = PARKED;
  cq.waiters.push(qp);
  return false;
}

function enable(world: World, managed: Qp, index: number): void {
  if (((index - managed.fetchLimit) | 0) <= 0 || ((managed.sq.posted - index) | 0) < 0) return;
  allowFetch(world, managed, index);
  tryStart(world, managed);
}

/**
 * A completion became visible: resumes the queue pairs whose WAIT it satisfies. Each WAIT has its own target.
 */
export function wakeWaiters(world: World, cq: Cq): void {
  for (const qp of cq.waiters.splice(0)) {
    if (qp.phase !== PARKED || qp.sqTarget[qp.cur & qp.sq.mask] !== cq.id) continue;
    if (((cq.visible - targetOf(qp)) | 0) >= 0) localDone(world, qp);
    else cq.waiters.push(qp);
  }
}

/** The completion queue is destroyed, so a WAIT on it can never be satisfied. */
export function failWaiters(world: World, cq: Cq): void {
  for (const qp of cq.waiters.splice(0)) {
    if (qp.phase === PARKED && qp.sqTarget[qp.cur & qp.sq.mask] === cq.id) {
      failRequest(world, qp, qp.cur, C.IBV_WC_LOC_QP_OP_ERR);
    }
  }
}

function targetOf(qp: Qp): number {
  return qp.sqPsn[qp.cur & qp.sq.mask];
}
