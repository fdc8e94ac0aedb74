/** The round of a port: admits packets while they fit, in the order of its schedulers. */

import { awaitsPayload } from '../nic/wqe-fetch.ts';
import { startTimer } from '../transport/acknowledgements.ts';
import type { Sender } from '../transport/qp.ts';
import * as Q from '../transport/qp.ts';
import {
  hasRequest,
  nextRequest,
  nextRequestBytes,
  nextRequestPayload,
} from '../transport/request-packets.ts';
import {
  nextResponse,
  nextResponseBytes,
  nextResponsePayload,
  responseSent,
} from '../transport/responder.ts';
import { requestSent } from '../transport/unreliable.ts';
import type { World } from '../world.ts';
import { serveWire } from './departures.ts';
import type { EgressPort } from './fifo-port.ts';
import type { Port } from './port.ts';
import type { QpScheduler } from './qp-scheduler.ts';
import { countPacket, joinPort } from './rate-pacing.ts';
import type { StoppablePort } from './stoppable-port.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { RESUME, ROLE_REQUEST, SENDING } = Q;

/** Serves the ports that got work during an event, and those whose class scheduler held a packet back until now. */
export function runKickedPorts(world: World): void {
  const { kicked, held } = world;
  for (let port = held.pop(); port !== undefined; port = held.pop()) {
    port.held = false;
    world.kick(port);
  }
  for (let port = kicked.pop(); port !== undefined; port = kicked.pop()) {
    port.kicked = false;
    if (!world.stoppable) {
      if (!port.waiting) admitPackets(world, port, 0);
    } else serveStoppable(world, port as StoppablePort);
  }
}

/** Fills the FIFO of each class, and puts the next packet on the wire. */
function serveStoppable(world: World, port: StoppablePort): void {
  if (world.hosts[port.id >> 1].dead) {
    for (let p = port.discard(); p >= 0; p = port.discard()) world.packets.release(p);
    return;
  }
  for (let cls = 0; cls < port.classes; cls++) admitPackets(world, port, cls);
  serveWire(world, port);
}

/** Admits packets of a class until one does not fit, or none may go. */
export function admitPackets(world: World, port: Port, cls: number): void {
  const scheduler = port.schedulerOf(cls);
  if (scheduler === null) return;
  const { clock } = world;
  for (let sender = scheduler.next(clock); sender !== null; sender = scheduler.next(clock)) {
    if (!admitNext(world, port, cls, scheduler, sender)) return;
  }
  if (scheduler.wakeNs !== undefined) port.wakeAt(scheduler.wakeNs, world.events);
}

/** Admits the next packet of the sender that its scheduler chose. Returns false when the packet does not fit. */
function admitNext(world: World, port: Port, cls: number, scheduler: QpScheduler, sender: Sender): boolean {
  const { qp } = sender;
  const request = sender.role === ROLE_REQUEST;
  const bytes = request ? nextRequestBytes(world, qp) : nextResponseBytes(world, qp);
  if (bytes < 0) {
    scheduler.charge(0, 0);
    return true;
  }
  if (!port.fits(cls, bytes, world.events)) return false;
  scheduler.charge(bytes, request ? nextRequestPayload(qp) : nextResponsePayload(qp));
  const { unitUser } = sender;
  const holdEnded = unitUser !== null && unitUser.unit >= 0 && world.units[qp.host].sent(unitUser, bytes);
  const p = request ? nextRequest(world, qp) : nextResponse(world, qp);
  if (p < 0) return true;
  if (world.stoppable) enqueue(world, port as StoppablePort, p, bytes, cls, sender);
  else launch(world, port as EgressPort, p, bytes, sender);
  rejoin(world, sender, bytes, holdEnded);
  return true;
}

/** A plain port: the time at which the packet leaves is known. */
function launch(world: World, port: EgressPort, p: number, bytes: number, { qp, role }: Sender): void {
  const request = role === ROLE_REQUEST;
  port.admit(bytes, world.notBefore);
  world.launch(port, p, qp, request ? qp.sqBasePsn : qp.rqBasePsn, qp.peerHost);
  if (!request) responseSent(world, qp, port);
  else if (qp.unreliable) requestSent(world, qp, port);
  else startTimer(world, qp, port);
}

/** A stoppable port: the packet waits in the FIFO of its class. */
function enqueue(
  world: World,
  port: StoppablePort,
  p: number,
  bytes: number,
  cls: number,
  { qp, role }: Sender,
): void {
  port.enqueue(p, bytes, cls, world.notBefore);
  if (role === ROLE_REQUEST) return;
  qp.repliesInPort++;
  responseSent(world, qp, port);
}

/** A sender was served: it joins the round again if it has another packet. */
function rejoin(world: World, sender: Sender, bytes: number, holdEnded: boolean): void {
  const { qp } = sender;
  if (holdEnded && qp.phase === SENDING) {
    qp.phase = RESUME;
    world.units[qp.host].yield(sender.unitUser!);
    world.units[qp.host].request(sender.unitUser!);
  }
  const limited = qp.pacer !== null || qp.congestion !== null || qp.tagMember >= 0;
  if (limited) countPacket(world, sender, bytes);
  const more = sender.role === ROLE_REQUEST ? hasRequest(qp) : qp.respPhase === SENDING;
  if (!more) return;
  const port = world.portOf(qp);
  // A sender that waits for its payload lets others go first.
  if (awaitsPayload(world, sender, port)) return;
  if (limited) joinPort(world, sender);
  else port.join(sender);
}
