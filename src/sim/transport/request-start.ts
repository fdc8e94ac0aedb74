/** Decides when the next request of a send queue gets a processing unit. */
import * as C from '../../verbs/constants.ts';
import { takeUnit } from '../nic/unit-step.ts';
import { fetchMore } from '../nic/wqe-fetch.ts';
import type { World } from '../world.ts';
import type { Qp } from './qp.ts';
import * as Q from './qp.ts';
import * as R from './request-info.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { flagsOf, isLocalOp, isReadOrAtomic, opcodeOf, packetsOf } = R;
const { IBV_QPS_SQD, IBV_QPS_RTS, IBV_SEND_FENCE } = C;
const { IDLE, psnDiff } = Q;

/** Half the PSN space: beyond it, new packets are indistinguishable from old ones. */
const WINDOW_PACKETS = 1 << 23;

/** Requests a processing unit for the next request, if there is one and nothing blocks it. */
export function tryStart(world: World, qp: Qp): void {
  if (qp.phase !== IDLE || qp.rnrWait) return;
  if (qp.fetched !== qp.fetchLimit) fetchMore(world, qp);
  const draining = qp.state === IBV_QPS_SQD;
  if (qp.state !== IBV_QPS_RTS && !draining) return;
  // In SQD, started requests finish and no new ones start.
  const limit = draining ? qp.started : qp.available;
  // Local operations are not executed again after a retransmission.
  while (qp.cur !== limit && qp.sqDone[qp.cur & qp.sq.mask] !== 0) qp.cur = (qp.cur + 1) | 0;
  if (qp.cur === limit) {
    if (draining) notifyDrained(world, qp);
    return;
  }
  if (qp.cur === qp.started && mustWait(qp)) return;
  if (qp.sqStatus[qp.cur & qp.sq.mask] !== 0) return;
  takeUnit(world, qp.requests);
}

/** Whether a fence, the READ limit or the PSN window blocks a new request. */
function mustWait(qp: Qp): boolean {
  const opcode = opcodeOf(qp, qp.cur);
  if ((flagsOf(qp, qp.cur) & IBV_SEND_FENCE) !== 0 && qp.rdOutstanding > 0) return true;
  if (isLocalOp(opcode)) return false;
  if (isReadOrAtomic(opcode) && qp.rdOutstanding >= (qp.attr.maxRdAtomic ?? 0) && qp.rdOutstanding > 0)
    return true;
  const inFlight = psnDiff(qp.sndPsn, qp.unaPsn) & 0xffffff;
  return inFlight + packetsOf(qp, qp.cur) >= WINDOW_PACKETS;
}

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
