/**
 * The sending half of a queue pair: the end of a step of a request in a processing unit.
 *
 * A request goes from IDLE to STEP (it has the processing unit) to SENDING (the port takes its packets round
 * robin with others), and the next request starts. It completes when it is the oldest and its acknowledgement
 * or data has arrived.
 */
import * as C from '../../verbs/constants.ts';
import { joinPort } from '../egress/rate-pacing.ts';
import * as K from '../kernel/event-kinds.ts';
import * as X from '../nic/context-caches.ts';
import { takeUnit } from '../nic/unit-step.ts';
import { payloadUsed } from '../nic/wqe-fetch.ts';
import type { World } from '../world.ts';
import { failRequest, localDone } from './acknowledgements.ts';
import type { Qp } from './qp.ts';
import * as Q from './qp.ts';
import * as R from './request-info.ts';
import { beginRun } from './request-packets.ts';
import { tryStart } from './request-start.ts';
import { setDestination } from './unreliable.ts';
import { executeLocal } from './wait.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { isLocalOp, isReadOrAtomic, opcodeOf, packetsOf } = R;
const { leaveContext } = X;
const { IBV_QPT_UD } = C;
const { EV_PAYLOAD } = K;
const { IDLE, PAYLOAD, RUN_PAYLOAD_NS, SENDING, psnAdd } = Q;

/** A processing unit finished the step of request `cur`. */
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
    if (qp.sqPayloadNs.length > 0) payloadUsed(world, qp, seq);
    if (!isLocalOp(opcode)) {
      qp.sqPsn[slot] = qp.sndPsn;
      qp.sqPackets[slot] = packetsOf(qp, seq);
      qp.sndPsn = psnAdd(qp.sndPsn, qp.sqPackets[slot]);
      if (isReadOrAtomic(opcode)) {
        qp.rdOutstanding++;
        // A queue pair connected with max_rd_atomic 0 may issue no READs or atomics.
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
  if (qp.type === IBV_QPT_UD && !setDestination(world, qp, seq)) {
    tryStart(world, qp);
    return;
  }
  beginRun(qp, seq);
  const payloadNs = qp.runs[qp.runRow + RUN_PAYLOAD_NS];
  if (qp.pkt === 0 && payloadNs > world.clock[0]) {
    qp.phase = PAYLOAD;
    world.events.due[0] = payloadNs;
    world.events.push(EV_PAYLOAD, qp.qpn, qp.token, 0);
    return;
  }
  qp.phase = SENDING;
  joinPort(world, qp.requests);
}

/** The first payload of the request at `cur` has arrived. */
export function onPayload(world: World, qp: Qp): void {
  qp.phase = SENDING;
  joinPort(world, qp.requests);
}
