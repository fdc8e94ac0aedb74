/** Stoppable ports of hosts: admission, departure, and the work that follows a departure. */

import * as P from '../kernel/packets.ts';
import { startTimer } from '../transport/acknowledgements.ts';
import { type Qp, RESPONSE_END, ROLE_REQUEST, type Sender } from '../transport/qp.ts';
import { nextRequest, nextRequestBytes } from '../transport/request-packets.ts';
import { nextResponse, nextResponseBytes, responseSent } from '../transport/responder.ts';
import { completeAt, datagramOut } from '../transport/unreliable.ts';
import type { World } from '../world.ts';
import { rejoin } from './rejoin.ts';
import type { StoppablePort } from './stoppable-port.ts';

/** Serves the ports that got work, and those whose scheduler held a packet back and may release it now. */
export function runStoppable(world: World): void {
  const { kicked, held } = world;
  for (let port = held.pop(); port !== undefined; port = held.pop()) {
    port.held = false;
    world.kick(port);
  }
  for (let port = kicked.pop(); port !== undefined; port = kicked.pop()) {
    port.kicked = false;
    serve(world, port as StoppablePort);
  }
}

/** The last bit of a packet left the port. */
export function onDeparted(world: World, port: StoppablePort): void {
  port.departed();
  world.kick(port);
}

/** Handles a pause frame of the switch: the host stops after the packet on the wire, or resumes. */
export function setPaused(world: World, host: number, paused: boolean): void {
  const port = world.ports[host * 2] as StoppablePort;
  if (paused) {
    port.pause();
    return;
  }
  port.resume();
  world.kick(port);
}

/** Fills the FIFOs and puts the next packet on the wire. */
function serve(world: World, port: StoppablePort): void {
  if (world.hosts[port.id >> 1].dead) {
    for (let p = port.discard(); p >= 0; p = port.discard()) world.packets.release(p);
    return;
  }
  for (let cls = 0; cls < port.classes; cls++) {
    for (let sender = port.head(cls); sender !== null; sender = port.head(cls)) {
      if (!admit(world, port, cls, sender)) break;
    }
  }
  const p = port.begin(world.events);
  if (p >= 0) leave(world, port, p);
  if (port.isHeldBack && !port.held) {
    port.held = true;
    world.held.push(port);
  }
}

/** Admits the next packet of the sender at the head. Returns false when the packet does not fit. */
function admit(world: World, port: StoppablePort, cls: number, sender: Sender): boolean {
  const { qp } = sender;
  const request = sender.role === ROLE_REQUEST;
  const bytes = request ? nextRequestBytes(world, qp) : nextResponseBytes(world, qp);
  if (bytes >= 0 && !port.fits(cls, bytes)) return false;
  port.round(cls).leave();
  if (bytes < 0) return true;
  const { unitUser } = sender;
  const holdEnded = unitUser !== null && unitUser.unit >= 0 && world.units[qp.host].sent(unitUser, bytes);
  const p = request ? nextRequest(world, qp) : nextResponse(world, qp);
  if (p < 0) return true;
  port.enqueue(p, bytes, cls, world.notBefore);
  if (!request) {
    qp.repliesInPort++;
    responseSent(world, qp, port);
  }
  rejoin(world, sender, bytes, holdEnded);
  return true;
}

/** Sends the packet that just started on the wire. */
function leave(world: World, port: StoppablePort, p: number): void {
  const pool = world.packets;
  const kind = pool.kind[p];
  if (kind === P.PKT_ACK) {
    port.send(p, world.events);
    return;
  }
  const qp = world.qps[pool.source[p]];
  // A packet of a closed connection used its share of the wire and disappears.
  if (qp === undefined || qp.epoch !== pool.epoch[p]) {
    pool.release(p);
    return;
  }
  const psn = pool.psn[p];
  const last = (pool.flags[p] & P.LAST) !== 0;
  const to = kind === P.PKT_DATAGRAM ? pool.ah[p]!.peerHost : qp.peerHost;
  const reply = kind === P.PKT_RESPONSE;
  world.launch(port, p, qp, reply ? qp.rqBasePsn : qp.sqBasePsn, to);
  if (reply) {
    qp.repliesInPort--;
    qp.times[RESPONSE_END] = port.busyUntil;
  } else if (qp.unreliable) {
    if (kind === P.PKT_DATAGRAM) datagramOut(world, qp, psn, port);
    else if (last) completeAt(world, qp, psn, port.busyUntil);
  } else if (isOutstanding(qp)) startTimer(world, qp, port);
}

/**
 * Whether anything awaits an acknowledgement. While the packet waited, the acknowledgement of an earlier copy
 * may have arrived.
 */
function isOutstanding(qp: Qp): boolean {
  return qp.unaPsn !== qp.sndPsn;
}
