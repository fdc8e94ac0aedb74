/** Departures from stoppable ports of hosts, and the work that follows them. */

import * as P from '../kernel/packets.ts';
import { startTimer } from '../transport/acknowledgements.ts';
import { type Qp, RESPONSE_END } from '../transport/qp.ts';
import { completeAt, datagramOut } from '../transport/unreliable.ts';
import type { World } from '../world.ts';
import type { StoppablePort } from './stoppable-port.ts';

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

/** Puts the next packet on the wire, if one may go. */
export function serveWire(world: World, port: StoppablePort): void {
  const p = port.begin(world.events);
  if (p >= 0) leave(world, port, p);
  if (port.isHeldBack && !port.held) {
    port.held = true;
    world.held.push(port);
  }
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
    qp.times[qp.row + RESPONSE_END] = port.busyUntil;
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
