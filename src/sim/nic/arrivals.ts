/**
 * The last leg of a packet: from the cable or the last switch into the receiver, and on to its queue pair.
 */
import * as C from '../../verbs/constants.ts';
import * as K from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';
import * as A from '../network/address.ts';
import { congested } from '../network/dcqcn.ts';
import type { SwitchNetwork } from '../network/switches.ts';
import { onAck, onResponse } from '../transport/acknowledgements.ts';
import type { Qp } from '../transport/qp.ts';
import { onRequest } from '../transport/responder.ts';
import { onDatagram } from '../transport/unreliable.ts';
import type { World } from '../world.ts';
import { mustWait, takeReady } from './receive-pipeline.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { IBV_QPT_UD } = C;
const { EV_COPY } = K;
const { CONGESTED, PKT_ACK, PKT_DATAGRAM, PKT_RESPONSE } = P;
const { MULTICAST } = A;

/** A packet reached the far end of the cable of a host's port, or came back from its loopback. */
export function offCable(world: World, port: number, p: number): void {
  const { switchNetwork } = world;
  if (switchNetwork !== null && (port & 1) === 0) enter(world, switchNetwork, p);
  else arrive(world, p);
}

/**
 * A packet entered the first switch. Of a multicast packet, that switch creates a copy for each host of the group, and each
 * copy takes its own path.
 */
function enter(world: World, switchNetwork: SwitchNetwork, p: number): void {
  if (switchNetwork.receiverOf(p) !== MULTICAST) {
    switchNetwork.receive(switchNetwork.portOfHost(switchNetwork.senderOf(p)), p);
    return;
  }
  const from = switchNetwork.senderOf(p);
  const bytes = switchNetwork.sizeOf(p);
  let host = MULTICAST;
  for (const qp of world.packets.ah[p]!.group!.queuePairs) {
    if (qp.host === host) continue;
    host = qp.host;
    const copy = world.packets.copy(p, world.packets.length[p]);
    switchNetwork.tag(copy, bytes, from, host);
    if (host !== from) switchNetwork.receive(switchNetwork.portOfHost(from), copy);
    else {
      // The sending NIC hands copies to its own queue pairs.
      world.events.due[0] = world.clock[0];
      world.events.push(EV_COPY, copy, 0, 0);
    }
  }
  world.packets.release(p);
}

/** A packet reached its destination NIC; link faults apply here. */
export function arrive(world: World, p: number): void {
  const { faults } = world;
  if (faults.enabled) {
    const copy = faults.copyOf(world, p);
    if (copy >= 0) world.switchNetwork?.tagCopy(copy, p);
    if (!faults.delays(world, p)) deliver(world, p);
    if (copy >= 0) deliver(world, copy);
    return;
  }
  deliver(world, p);
}

/** Passes a packet to the receiver, which executes it now or queues it. */
export function deliver(world: World, p: number): void {
  if (world.packets.kind[p] === PKT_DATAGRAM) {
    const qp = world.receives ? datagramFor(world, p) : undefined;
    if (qp === undefined || !mustWait(world, qp, p)) execute(world, p);
    return;
  }
  const qp = connectedTo(world, p);
  if (qp !== undefined) {
    if (world.receives && mustWait(world, qp, p)) return;
    executeConnected(world, qp, p);
  }
  world.packets.release(p);
}

/** Executes the packets of a queue pair whose wait in the receiver is over. */
export function receive(world: World, qp: Qp | undefined): void {
  if (qp === undefined) return;
  for (let p = takeReady(world, qp); p >= 0; p = takeReady(world, qp)) execute(world, p);
}

function execute(world: World, p: number): void {
  if (world.packets.kind[p] === PKT_DATAGRAM)
    onDatagram(world, p, world.switchNetwork === null ? MULTICAST : world.switchNetwork.receiverOf(p));
  else {
    const qp = connectedTo(world, p);
    if (qp !== undefined) executeConnected(world, qp, p);
  }
  world.packets.release(p);
}

/** The queue pair to which a unicast datagram is addressed; undefined for multicast and unknown destinations. */
function datagramFor(world: World, p: number): Qp | undefined {
  const ah = world.packets.ah[p]!;
  const qp = ah.group === null ? world.qps[world.packets.dest[p]] : undefined;
  return qp?.type === IBV_QPT_UD && qp.host === ah.peerHost && !world.hosts[qp.host].dead ? qp : undefined;
}

/** The queue pair to which a packet of a connection is addressed. */
function connectedTo(world: World, p: number): Qp | undefined {
  const pool = world.packets;
  const qp = world.qps[pool.dest[p]];
  const source = world.qps[pool.source[p]];
  // A packet of a closed connection, to a dead host or to the wrong peer disappears.
  if (qp === undefined || source === undefined || source.epoch !== pool.epoch[p]) return undefined;
  const meant = qp.peerType === source.type && qp.host === source.peerHost;
  return meant && !world.hosts[qp.host].dead ? qp : undefined;
}

function executeConnected(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const kind = pool.kind[p];
  if (kind === PKT_ACK) {
    if (pool.rkey[p] === qp.epoch) onAck(world, qp, pool.psn[p], pool.imm[p]);
    return;
  }
  if ((pool.flags[p] & CONGESTED) !== 0) congested(world, qp, world.qps[pool.source[p]]!);
  const { pcie } = world.hosts[qp.host];
  if (!pcie.free && pool.length[p] > 0) pcie.write(pool.length[p]);
  if (kind === PKT_RESPONSE) onResponse(world, qp, p);
  else onRequest(world, qp, p);
}
