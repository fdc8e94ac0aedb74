/**
 * Packets from outside of the simulation. Their sender is hostile by assumption, so each packet is checked against the state
 * of its queue pair before it is executed: address of the peer, order of the parts of a message, and their lengths. Keys,
 * ranges, rights and protection domains are checked where packets are executed, as for any packet.
 */
import * as C from '../../verbs/constants.ts';
import { NAK_INVALID_REQUEST, NAK_RNR } from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';
import { onAck, onResponse } from '../transport/acknowledgements.ts';
import { psnDiff, type Qp } from '../transport/qp.ts';
import { isReadOrAtomic, opcodeOf } from '../transport/request-info.ts';
import { onRequest, refuse } from '../transport/responder.ts';
import { deliver } from '../transport/unreliable.ts';
import type { World } from '../world.ts';
import type { Group } from './address.ts';
import { isRemote, PartialMessage } from './uplink.ts';

/** The longest message (InfiniBand 9.7.8): 2^31 bytes. */
const MAX_MESSAGE_BYTES = 2 ** 31;
const ATOMIC_BYTES = 8;
/** The last syndrome with a timer code. */
const LAST_SYNDROME = NAK_RNR + 31;

/**
 * Executes packet `p` of the pool, which arrived at `host` from the address with the number `from`, for a queue pair of
 * this type (IBV_QPT_*). The caller releases it. Returns false if the packet was dropped.
 */
export function enterWorld(world: World, host: number, from: number, type: number, p: number): boolean {
  const pool = world.packets;
  const qp = world.qps[pool.dest[p]];
  if (qp === undefined || qp.host !== host || qp.type !== type || world.hosts[host].dead) return false;
  const kind = pool.kind[p];
  if (type === C.IBV_QPT_UD) {
    if (kind !== P.PKT_DATAGRAM || pool.length[p] > qp.mtu) return false;
    deliver(world, qp, p);
    return true;
  }
  if (!isRemote(from) || qp.peerHost !== from || kind === P.PKT_DATAGRAM) return false;
  pool.source[p] = qp.peer;
  if (kind === P.PKT_ACK) {
    const syndrome = pool.imm[p];
    if (syndrome < 0 || syndrome > LAST_SYNDROME || psnDiff(pool.psn[p], qp.sndPsn) >= 0) return false;
    onAck(world, qp, pool.psn[p], syndrome);
    return true;
  }
  if (kind === P.PKT_RESPONSE) {
    if (!isExpectedResponse(world, qp, p)) return false;
    onResponse(world, qp, p);
    return true;
  }
  request(world, qp, p);
  return true;
}

/**
 * Delivers datagram `p` of the pool, which arrived at `host` for a multicast group, to the group's queue pairs there. The
 * caller releases it. Returns the number of these queue pairs.
 */
export function enterGroup(world: World, host: number, group: Group, p: number): number {
  if (world.hosts[host].dead) return 0;
  const { length } = world.packets;
  let count = 0;
  for (const qp of [...group.queuePairs]) {
    if (qp.host !== host || length[p] > qp.mtu) continue;
    deliver(world, qp, p);
    count++;
  }
  return count;
}

/** Whether a response has the kind and length that the oldest READ or atomic requires. */
function isExpectedResponse(world: World, qp: Qp, p: number): boolean {
  if (qp.una === qp.started || psnDiff(world.packets.psn[p], qp.sndPsn) >= 0) return false;
  // Later responses only show that an earlier one was lost; onResponse executes the next one alone.
  let seq = qp.una;
  while (seq !== qp.started && !isReadOrAtomic(opcodeOf(qp, seq))) seq = (seq + 1) | 0;
  if (seq === qp.started) return false;
  const slot = seq & qp.sq.mask;
  const index = psnDiff(world.packets.psn[p], qp.sqPsn[slot]);
  if (index < 0) return false;
  if (index >= qp.sqPackets[slot]) return true;
  if (world.packets.imm[p] !== kindOf(opcodeOf(qp, seq))) return false;
  const left = qp.sq.length[slot] - index * qp.mtu;
  return world.packets.length[p] === Math.min(left, qp.mtu);
}

/** The kind of request that a response answers: all atomics are alike. */
function kindOf(opcode: number): number {
  return opcode === C.IBV_WR_RDMA_READ ? P.PKT_READ : P.PKT_FETCH_ADD;
}

function request(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const reliable = qp.type !== C.IBV_QPT_UC;
  if (reliable && psnDiff(pool.psn[p], qp.ePsn) !== 0) {
    // Executed before, or ahead of the expected packet: nothing of it reaches memory.
    onRequest(world, qp, p);
    return;
  }
  world.partials[qp.qpn] ??= new PartialMessage();
  const partial = world.partials[qp.qpn];
  partial.keepOnlyOf(qp);
  if (!isNextPart(world, qp, partial, p)) {
    partial.kind = -1;
    if (reliable) refuse(world, qp, NAK_INVALID_REQUEST);
    else qp.dropping = true;
    return;
  }
  const expected = qp.ePsn;
  onRequest(world, qp, p);
  if (reliable && qp.ePsn === expected) return;
  const flags = pool.flags[p];
  const whole = (flags & P.LAST) !== 0 || pool.kind[p] > P.PKT_WRITE;
  partial.kind = whole ? -1 : pool.kind[p];
  partial.rkey = pool.rkey[p];
  partial.numbers[0] = pool.addr[p] + pool.length[p];
  partial.numbers[1] = pool.rest[p] - pool.length[p];
}

/**
 * Whether the next packet in order continues or begins a message as it must. Sets the address of a WRITE's later packets.
 */
function isNextPart(world: World, qp: Qp, partial: PartialMessage, p: number): boolean {
  const pool = world.packets;
  const kind = pool.kind[p];
  const length = pool.length[p];
  const first = (pool.flags[p] & P.FIRST) !== 0;
  const last = (pool.flags[p] & P.LAST) !== 0;
  if (kind > P.PKT_WRITE) {
    if (partial.kind !== -1 || length !== 0) return false;
    return kind === P.PKT_READ ? pool.rest[p] <= MAX_MESSAGE_BYTES : pool.rest[p] === ATOMIC_BYTES;
  }
  // An unreliable message may begin while the previous one lacks its end.
  if (first ? partial.kind !== -1 && qp.type !== C.IBV_QPT_UC : partial.kind !== kind) return false;
  if (last ? length > qp.mtu || (length === 0 && !first) : length !== qp.mtu) return false;
  if (kind === P.PKT_SEND) return true;
  if (!first) {
    pool.rkey[p] = partial.rkey;
    pool.addr[p] = partial.numbers[0];
    pool.rest[p] = partial.numbers[1];
  }
  const rest = pool.rest[p];
  return rest <= MAX_MESSAGE_BYTES && (last ? length === rest : length < rest);
}
