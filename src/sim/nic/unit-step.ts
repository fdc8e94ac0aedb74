/** The steps of a queue pair in a processing unit, and their duration. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import * as K from '../kernel/event-kinds.ts';
import * as Q from '../transport/qp.ts';
import { type Qp, type Sender, UnitUser } from '../transport/qp.ts';
import type { World } from '../world.ts';
import * as X from './context-caches.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { missesContext } = X;
const { ISO_WR_ENABLE, ISO_WR_WAIT } = C;
const { WR_OP, WR_COUNT, WR_REPEAT } = L;
const { EV_RESPONSE_STEP, EV_STEP } = K;
const { READY, ROLE_REQUEST, STEP } = Q;

/** Starts the sender's next step as soon as a unit is free. */
export function takeUnit(world: World, sender: Sender): void {
  const { qp } = sender;
  const units = world.units[qp.host];
  if (units !== undefined) {
    sender.unitUser ??= new UnitUser(sender);
    const { unitUser } = sender;
    if (unitUser.unit >= 0 && unitUser.bytes >= world.params.puHoldBytes) units.yield(unitUser);
    if (unitUser.unit >= 0) {
      units.nextStep(unitUser);
      return;
    }
    sender.setPhase(READY);
    world.began(sender);
    units.request(unitUser);
    return;
  }
  beginStep(world, sender, false);
  sender.setPhase(STEP);
  world.began(sender);
  world.events.due[0] = world.clock[0] + world.stepNs[0];
  if (sender.role === ROLE_REQUEST) world.events.push(EV_STEP, qp.qpn, qp.token, 0);
  else world.events.push(EV_RESPONSE_STEP, qp.qpn, qp.respToken, 0);
}

/**
 * Sets world.stepNs to the duration of the next step. Returns the number of single steps it covers, one if
 * `single`. The unit stays occupied while the context is fetched.
 */
export function beginStep(world: World, sender: Sender, single: boolean): number {
  const steps = ownStep(world, sender, single);
  if (sender.role === ROLE_REQUEST && missesContext(world, sender.qp)) {
    world.stepNs[0] += world.hosts[sender.qp.host].caches.contexts.waitNs[0];
  }
  return steps;
}

function ownStep(world: World, sender: Sender, single: boolean): number {
  const { qp } = sender;
  const { params } = world;
  world.stepNs[0] = params.wqeGapNs;
  if (sender.role !== ROLE_REQUEST) return 1;
  const at = qp.sq.at(qp.cur);
  const w = qp.sq.words;
  const opcode = w[at + WR_OP] & 0xff;
  if (opcode === ISO_WR_ENABLE) world.stepNs[0] = params.enableStepNs;
  if (opcode !== ISO_WR_WAIT) return 1;
  world.stepNs[0] = params.waitStepNs;
  if (w[at + WR_COUNT] !== 0) return 1;
  const steps = zeroWaits(qp, w[at + WR_REPEAT], single);
  world.stepNs[0] = steps * params.waitStepNs;
  return steps;
}

/** One slot may stand for many 0_WAITs. Each is a separate step, after which other queue pairs may send. */
function zeroWaits(qp: Qp, repeat: number, single: boolean): number {
  const left = qp.waitsLeft > 0 ? qp.waitsLeft : Math.max(1, repeat);
  const steps = single ? 1 : left;
  qp.waitsLeft = left - steps;
  return steps;
}
