/** SQD: started requests finish and others wait. Then the send queue is drained. */
import * as C from '../../verbs/constants.ts';
import type { World } from '../world.ts';
import { IDLE, type Qp } from './qp.ts';

/** Whether all started requests are finished. */
export function isDrained(qp: Qp): boolean {
  return qp.una === qp.started && qp.phase === IDLE;
}

/** Raises IBV_EVENT_SQ_DRAINED once, if requested and drained. */
export function notifyDrained(world: World, qp: Qp): void {
  if (!qp.drainNotify || !isDrained(qp)) return;
  qp.drainNotify = false;
  world.raise(C.IBV_EVENT_SQ_DRAINED, qp);
}
