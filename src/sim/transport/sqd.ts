/** SQD: what began is finished, what did not waits; then the send queue is drained. */
import * as C from '../../verbs/constants.ts';
import type { World } from '../world.ts';
import { IDLE, type Qp } from './qp.ts';

/** Whether nothing that began is still going on. */
export function isDrained(qp: Qp): boolean {
  return qp.una === qp.started && qp.phase === IDLE;
}

/** Tells, once, that a queue pair in SQD is drained. */
export function notifyDrained(world: World, qp: Qp): void {
  if (!qp.drainNotify || !isDrained(qp)) return;
  qp.drainNotify = false;
  world.raise(C.IBV_EVENT_SQ_DRAINED, qp);
}
