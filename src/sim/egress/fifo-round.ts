/** Serves the ports that got work during an event. Plain ports admit packets round robin while they fit. */

import { startTimer } from '../transport/acknowledgements.ts';
import { ROLE_REQUEST } from '../transport/qp.ts';
import { nextRequest, nextRequestBytes } from '../transport/request-packets.ts';
import { nextResponse, nextResponseBytes, responseSent } from '../transport/responder.ts';
import { requestSent } from '../transport/unreliable.ts';
import type { World } from '../world.ts';
import { runStoppable } from './class-round.ts';
import type { EgressPort } from './fifo-port.ts';
import { rejoin } from './rejoin.ts';

export function runKickedPorts(world: World): void {
  if (world.stoppable) {
    runStoppable(world);
    return;
  }
  const { kicked } = world;
  for (let port = kicked.pop(); port !== undefined; port = kicked.pop()) {
    port.kicked = false;
    if (!port.waiting) admitPackets(world, port as EgressPort);
  }
}

/** Admits one packet of each sender in turn until the head's packet does not fit. */
export function admitPackets(world: World, port: EgressPort): void {
  const { round } = port;
  for (let sender = round.head; sender !== null; sender = round.head) {
    const { qp } = sender;
    const request = sender.role === ROLE_REQUEST;
    const bytes = request ? nextRequestBytes(world, qp) : nextResponseBytes(world, qp);
    if (bytes >= 0 && !port.fits(bytes, world.events)) return;
    round.leave();
    if (bytes < 0) continue;
    const { unitUser } = sender;
    const holdEnded = unitUser !== null && unitUser.unit >= 0 && world.units[qp.host].sent(unitUser, bytes);
    const p = request ? nextRequest(world, qp) : nextResponse(world, qp);
    if (p < 0) continue;
    port.admit(bytes, world.notBefore);
    world.launch(port, p, qp, request ? qp.sqBasePsn : qp.rqBasePsn, qp.peerHost);
    if (request) {
      if (qp.unreliable) requestSent(world, qp, port);
      else startTimer(world, qp, port);
    } else responseSent(world, qp, port);
    rejoin(world, sender, bytes, holdEnded);
  }
}
