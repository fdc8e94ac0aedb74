/** Packets of a queue pair reach its port no faster than its rate limit and congestion control allow. */
import * as K from '../kernel/event-kinds.ts';
import type { Qp, Sender } from '../transport/qp.ts';
import * as Q from '../transport/qp.ts';
import type { World } from '../world.ts';
import type { RateLimiter } from './rate-limiter.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { EV_PACER } = K;
const { DEADLINE, RESUME, ROLE_REQUEST, ROLE_RESPONSE, SENDING } = Q;

/** Sets the rate limit of a queue pair; null removes it. */
export function setPacer(world: World, qp: Qp, pacer: RateLimiter | null): void {
  qp.pacer = pacer;
  // Packets held back by the old limit are checked again.
  qp.heldRoles = 0;
  goOn(world, qp.requests);
}

/**
 * A sender has a packet and joins the round of its port, now or when its rate limit and congestion control
 * allow.
 */
export function joinPort(world: World, sender: Sender): void {
  const { qp } = sender;
  const tags = qp.tagMember < 0 ? null : world.tagsOf(qp);
  const isFree = tags === null && qp.pacer === null && qp.congestion === null;
  if (isFree || (tags === null ? mayGo(world, sender) : tags.mayGo(sender))) {
    world.join(sender);
    return;
  }
  // In the middle of a message there may be nothing to acknowledge. The next packet starts the retry timer
  // again.
  if (sender.role === ROLE_REQUEST && qp.pkt > 0) qp.times[qp.row + DEADLINE] = Number.POSITIVE_INFINITY;
  const bit = 1 << sender.role;
  if ((qp.heldRoles & bit) === 0) {
    qp.heldRoles |= bit;
    if (tags !== null) tags.hold(sender);
    else world.events.push(EV_PACER, qp.qpn, sender.role, qp.epoch);
  }
  // A held-back sender does not block a processing unit ("greedy"). This comes last because yielding starts
  // other senders.
  if (sender.unitUser !== null && sender.unitUser.unit >= 0) world.units[qp.host].yield(sender.unitUser);
}

/**
 * Whether the next packet may go now. If not, sets the time of the next event to the later of the two limits.
 */
function mayGo(world: World, { qp, role }: Sender): boolean {
  const { pacer, congestion } = qp;
  const { due } = world.events;
  due[0] = world.clock[0];
  if (congestion !== null) congestion.allows(world.clock, due);
  // A rate limit applies to requests only.
  if (pacer !== null && role === ROLE_REQUEST) pacer.allows(world.clock, due);
  return due[0] <= world.clock[0];
}

/** Accounts for a packet admitted to the port. */
export function countPacket(world: World, sender: Sender, bytes: number): void {
  const { qp, role } = sender;
  const { pacer, congestion } = qp;
  if (qp.tagMember >= 0) {
    world.tagsOf(qp)?.count(sender, bytes);
    return;
  }
  if (congestion !== null) congestion.count(bytes, world.clock);
  if (pacer !== null && role === ROLE_REQUEST) pacer.count(bytes, world.clock);
}

/** The time has come for the packet held back. */
export function onPacerDue(world: World, qp: Qp, role: number): void {
  qp.heldRoles &= ~(1 << role);
  goOn(world, role === ROLE_REQUEST ? qp.requests : qp.replies);
}

/** The time has come for packets that the tags of a port hold back. */
export function onTagsDue(world: World, port: number): void {
  const tags = world.tagsOfPort(port);
  for (let qp = tags.takeDue(); qp !== null; qp = tags.takeDue()) {
    for (const role of [ROLE_REQUEST, ROLE_RESPONSE]) {
      if ((qp.heldRoles & (1 << role)) !== 0) onPacerDue(world, qp, role);
    }
  }
}

/**
 * Lets a held-back packet continue: to the port, or first to a processing unit if its queue pair needs one.
 */
function goOn(world: World, sender: Sender): void {
  if (sender.phase() !== SENDING || sender.queued) return;
  const { unitUser } = sender;
  if (world.greedy && sender.role === ROLE_REQUEST && unitUser !== null && unitUser.unit < 0) {
    sender.setPhase(RESUME);
    world.units[sender.qp.host].request(unitUser);
  } else joinPort(world, sender);
}
