/** The error states: requests in the queues are flushed in order. */
import * as C from '../../verbs/constants.ts';
import { noteState } from '../nic/context-caches.ts';
import type { World } from '../world.ts';
import { completeOldest, completeRecv } from './completions.ts';
import type { Qp } from './qp.ts';

/** Moves a queue pair to ERR and flushes it. */
export function failQp(world: World, qp: Qp): void {
  if (qp.state === C.IBV_QPS_RESET) return;
  const first = qp.state !== C.IBV_QPS_ERR;
  qp.state = C.IBV_QPS_ERR;
  noteState(world, qp);
  qp.halt();
  flush(world, qp);
  // All receives taken from the shared queue are complete, and the queue pair takes no more.
  if (first && qp.srq !== null) world.raise(C.IBV_EVENT_QP_LAST_WQE_REACHED, qp);
}

/**
 * Moves an unreliable queue pair to SQE (InfiniBand 10.3.1.7): its sends are flushed, its receives continue.
 */
export function failSends(world: World, qp: Qp): void {
  qp.state = C.IBV_QPS_SQE;
  qp.haltRequester();
  flushSends(world, qp);
  qp.unaPsn = qp.sndPsn;
}

/** Flushes the send queue, including unsignaled and managed requests. */
export function flushSends(world: World, qp: Qp): void {
  while (qp.una !== qp.sq.posted) completeOldest(world, qp, C.IBV_WC_WR_FLUSH_ERR);
  qp.cur = qp.started = qp.fetchLimit = qp.fetched = qp.available = qp.payloadRequested = qp.una;
  qp.pkt = 0;
}

/** Flushes both queues of a queue pair in ERR, including unsignaled and managed requests. */
export function flush(world: World, qp: Qp): void {
  flushSends(world, qp);
  while (qp.rqDone !== qp.rq.posted) {
    completeRecv(world, qp, C.IBV_WC_WR_FLUSH_ERR, C.IBV_WC_RECV, 0, 0, 0, false);
  }
}
