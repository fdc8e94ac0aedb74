/** Stoppable ports of hosts: who is admitted, what goes on the wire, and what follows from a packet's leaving. */

import * as P from '../kernel/packets.ts';
import { type Qp, RESPONSE_END, ROLE_REQUEST, type Sender } from '../transport/qp.ts';
import { nextRequest, nextRequestBytes, startTimer } from '../transport/requester.ts';
import { nextResponse, nextResponseBytes, responseSent } from '../transport/responder.ts';
import { completeAt, datagramOut } from '../transport/unreliable.ts';
import type { Network } from '../world.ts';
import { rejoin } from './rejoin.ts';
import type { StoppablePort } from './stoppable-port.ts';

/** Runs the ports that got work, and those whose scheduler holds something back: it may not any more. */
export function runStoppable(net: Network): void {
  const { kicked, held } = net;
  for (let port = held.pop(); port !== undefined; port = held.pop()) {
    port.held = false;
    net.kick(port);
  }
  for (let port = kicked.pop(); port !== undefined; port = kicked.pop()) {
    port.kicked = false;
    serve(net, port as StoppablePort);
  }
}

/** The last bit of a packet is out. */
export function onDeparted(net: Network, port: StoppablePort): void {
  port.departed();
  net.kick(port);
}

/** The switch does not want more of a host when the packet on the wire is out, or wants it again. */
export function setPaused(net: Network, host: number, paused: boolean): void {
  const port = net.ports[host * 2] as StoppablePort;
  if (paused) {
    port.pause();
    return;
  }
  port.resume();
  net.kick(port);
}

/** Fills the FIFOs and puts the next packet on the wire. */
function serve(net: Network, port: StoppablePort): void {
  if (net.hosts[port.id >> 1].dead) {
    for (let p = port.discard(); p >= 0; p = port.discard()) net.packets.release(p);
    return;
  }
  for (let cls = 0; cls < port.classes; cls++) {
    for (let sender = port.head(cls); sender !== null; sender = port.head(cls)) {
      if (!admit(net, port, cls, sender)) break;
    }
  }
  const p = port.begin(net.events);
  if (p >= 0) leave(net, port, p);
  if (port.isHeldBack && !port.held) {
    port.held = true;
    net.held.push(port);
  }
}

/** The next packet of the sender whose turn it is; false when there is no room for it. */
function admit(net: Network, port: StoppablePort, cls: number, sender: Sender): boolean {
  const { qp } = sender;
  const request = sender.role === ROLE_REQUEST;
  const bytes = request ? nextRequestBytes(net, qp) : nextResponseBytes(net, qp);
  if (bytes >= 0 && !port.fits(cls, bytes)) return false;
  port.ring(cls).leave();
  if (bytes < 0) return true;
  const { turn } = sender;
  const turnOver = turn !== null && turn.unit >= 0 && net.units[qp.host].sent(turn, bytes);
  const p = request ? nextRequest(net, qp) : nextResponse(net, qp);
  if (p < 0) return true;
  port.enqueue(p, bytes, cls, net.notBefore);
  if (!request) {
    qp.repliesInPort++;
    responseSent(net, qp, port);
  }
  rejoin(net, sender, bytes, turnOver);
  return true;
}

/** A packet is on the wire. */
function leave(net: Network, port: StoppablePort, p: number): void {
  const pool = net.packets;
  const kind = pool.kind[p];
  if (kind === P.PKT_ACK) {
    port.send(p, net.events);
    return;
  }
  const qp = net.qps[pool.source[p]];
  // Of a connection that is no more: it took its place, and vanishes.
  if (qp === undefined || qp.epoch !== pool.epoch[p]) {
    pool.release(p);
    return;
  }
  const psn = pool.psn[p];
  const last = (pool.flags[p] & P.LAST) !== 0;
  const to = kind === P.PKT_DATAGRAM ? pool.ah[p]!.peerHost : qp.peerHost;
  const reply = kind === P.PKT_RESPONSE;
  net.launch(port, p, qp, reply ? qp.rqBasePsn : qp.sqBasePsn, to);
  if (reply) {
    qp.repliesInPort--;
    qp.times[RESPONSE_END] = port.busyUntil;
  } else if (qp.unreliable) {
    if (kind === P.PKT_DATAGRAM) datagramOut(net, qp, psn, port);
    else if (last) completeAt(net, qp, psn, port.busyUntil);
  } else if (isOutstanding(qp)) startTimer(net, qp, port);
}

/** Whether anything is to be acknowledged: while the packet waited, that may have come for an earlier copy of it. */
function isOutstanding(qp: Qp): boolean {
  return qp.unaPsn !== qp.sndPsn;
}
