/**
 * Unreliable queue pairs. Nobody acknowledges: a request is complete when its last packet is out, and what
 * does not arrive, or arrives where nothing is ready for it, is gone. UC messages have many packets, and a
 * receive whose message lost one is used for the next; a UD message is one packet, for any queue pair.
 */
import * as C from '../../verbs/constants.ts';
import type { Port } from '../egress/port.ts';
import { EV_ACK } from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';
import { reachOf } from '../memory/memory-windows.ts';
import { moveSges } from '../memory/sges.ts';
import { GRH_BYTES, MULTICAST, writeGrh } from '../network/address.ts';
import { takeShared } from '../queues/srq.ts';
import type { World } from '../world.ts';
import { completeRecv } from './completions.ts';
import { failQp } from './failure.ts';
import { DELIVERED, psnAdd, type Qp, RECV_OFFSET } from './qp.ts';
import { isLocalOp, opcodeOf } from './request-info.ts';

/** A request packet is out. When it was the last of its message, the request completes as it leaves. */
export function requestSent(world: World, qp: Qp, port: Port): void {
  if (qp.pkt === 0) completeAt(world, qp, lastPsn(qp, (qp.cur - 1) | 0), port.busyUntil);
}

/** The port says that the request with this last PSN is out: the acknowledgement that no peer sends. */
export function completeAt(world: World, qp: Qp, psn: number, atNs: number): void {
  world.events.due[0] = atNs;
  world.events.push(EV_ACK, qp.qpn, psn, qp.epoch);
}

/**
 * A datagram goes out by a port (null: never), perhaps before an earlier one of another class: completions keep
 * their order, so those behind one that is not out wait for it.
 */
export function datagramOut(world: World, qp: Qp, psn: number, port: Port | null): void {
  const { mask } = qp.sq;
  let complete = -1;
  let found = false;
  let inOrder = true;
  for (let seq = qp.una; seq !== qp.started; seq = (seq + 1) | 0) {
    const slot = seq & mask;
    if (isLocalOp(opcodeOf(qp, seq))) continue;
    if (qp.sqPsn[slot] === psn) {
      found = true;
      qp.sqDone[slot] = 1;
    }
    if (qp.sqDone[slot] === 0) inOrder = false;
    if (inOrder) complete = qp.sqPsn[slot];
    else if (found) break;
  }
  if (complete >= 0) completeAt(world, qp, complete, port === null ? world.clock[0] : port.busyUntil);
}

function lastPsn(qp: Qp, seq: number): number {
  const slot = seq & qp.sq.mask;
  return psnAdd(qp.sqPsn[slot], qp.sqPackets[slot] - 1);
}

/**
 * Points a UD queue pair where its next request goes. False when the message is longer than a packet: it
 * is not sent, and that is no error (InfiniBand C10-93.1.1).
 */
export function setDestination(world: World, qp: Qp, seq: number): boolean {
  const slot = seq & qp.sq.mask;
  qp.peerHost = qp.sqAh[slot].peerHost;
  qp.sl = qp.sqAh[slot].sl;
  if (qp.sq.length[slot] <= qp.mtu) return true;
  qp.cur = (seq + 1) | 0;
  if (world.stoppable) datagramOut(world, qp, lastPsn(qp, seq), null);
  else completeAt(world, qp, lastPsn(qp, seq), world.clock[0]);
  return false;
}

/** A request packet of a UC queue pair has arrived. */
export function onUnreliable(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const psn = pool.psn[p];
  if ((pool.flags[p] & P.FIRST) !== 0) {
    // Whatever the message before it lacks will not come any more.
    abandon(qp);
    qp.dropping = false;
  } else if (qp.dropping || psn !== qp.ePsn) {
    drop(qp);
  }
  qp.ePsn = psnAdd(psn, 1);
  if (qp.dropping) return;
  if (pool.kind[p] === P.PKT_SEND) onSend(world, qp, p);
  else onWrite(world, qp, p);
}

/** Takes back what the current message has of a receive: the next one may have it. */
function abandon(qp: Qp): void {
  qp.rqTaken = qp.rqDone;
  qp.receiving = false;
}

/** The rest of the current message is ignored. */
function drop(qp: Qp): void {
  abandon(qp);
  qp.dropping = true;
}

/** Whether a receive is at hand, or could be taken. */
function isReady(world: World, qp: Qp): boolean {
  return qp.rqTaken !== qp.rq.posted || takeShared(world, qp);
}

function onSend(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const flags = pool.flags[p];
  if ((flags & P.FIRST) !== 0) {
    if (!isReady(world, qp)) {
      drop(qp);
      return;
    }
    qp.rqTaken = (qp.rqTaken + 1) | 0;
    qp.receiving = true;
    qp.times[RECV_OFFSET] = 0;
  }
  const offset = qp.times[RECV_OFFSET];
  const length = pool.length[p];
  if (offset + length > qp.rq.length[qp.rqDone & qp.rq.mask]) {
    tooLong(world, qp);
    return;
  }
  if (!moveSges(world, qp, qp.rq, qp.rqDone, offset, length, pool.slab(p), true)) {
    badReceive(world, qp);
    return;
  }
  qp.times[RECV_OFFSET] = offset + length;
  qp.times[DELIVERED] += length;
  if ((flags & P.LAST) !== 0) received(world, qp, p, C.IBV_WC_RECV, offset + length, 0);
}

function onWrite(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const flags = pool.flags[p];
  const length = pool.length[p];
  const extent = (flags & P.FIRST) !== 0 ? pool.rest[p] : length;
  if ((flags & P.FIRST) !== 0) qp.times[RECV_OFFSET] = extent;
  const access = C.IBV_ACCESS_REMOTE_WRITE;
  if (((qp.attr.qpAccessFlags ?? 0) & access) === 0) {
    drop(qp);
    return;
  }
  const withImm = (flags & P.HAS_IMM) !== 0;
  if (withImm && !isReady(world, qp)) {
    drop(qp);
    return;
  }
  if (length > 0) {
    const region = reachOf(world, qp, p, extent, access);
    if (region === undefined) {
      drop(qp);
      return;
    }
    if (world.payload) pool.copyOut(p, region.bytes, pool.addr[p] - region.addr, length);
    qp.times[DELIVERED] += length;
  }
  if (withImm) received(world, qp, p, C.IBV_WC_RECV_RDMA_WITH_IMM, qp.times[RECV_OFFSET], 0);
}

/** A message that its receive has no room for: dropped. A shared receive was taken for good, and fails. */
function tooLong(world: World, qp: Qp): void {
  if (qp.srq !== null) completeRecv(world, qp, C.IBV_WC_LOC_LEN_ERR, C.IBV_WC_RECV, 0, 0, 0, false);
  drop(qp);
}

/** A receive into memory that its key does not open: the fault of this end alone. */
function badReceive(world: World, qp: Qp): void {
  completeRecv(world, qp, C.IBV_WC_LOC_PROT_ERR, C.IBV_WC_RECV, 0, 0, 0, false);
  failQp(world, qp);
}

function received(world: World, qp: Qp, p: number, opcode: number, byteLen: number, wcFlags: number): void {
  const pool = world.packets;
  const flags = pool.flags[p];
  const withImm = (flags & P.HAS_IMM) !== 0;
  qp.receiving = false;
  completeRecv(
    world,
    qp,
    C.IBV_WC_SUCCESS,
    opcode,
    byteLen,
    wcFlags | (withImm ? C.IBV_WC_WITH_IMM : 0),
    withImm ? pool.imm[p] : 0,
    (flags & P.SOLICITED) !== 0,
  );
}

/**
 * A datagram has arrived where its address handle leads: at one queue pair, or at all of a group. Copies that went
 * different ways through switches are for the members on one host, `only`; else that is EVERYBODY.
 */
export function onDatagram(world: World, p: number, only: number): void {
  const ah = world.packets.ah[p]!;
  if (ah.group === null) {
    const qp = world.qps[world.packets.dest[p]];
    if (qp !== undefined && qp.host === ah.peerHost && !world.hosts[qp.host].dead) deliver(world, qp, p);
    return;
  }
  // What one copy on the way to a host loses, all of the group there lose.
  let host = MULTICAST;
  let lost = false;
  for (const qp of [...ah.group.queuePairs]) {
    if (only !== MULTICAST && qp.host !== only) continue;
    if (qp.host !== host) {
      host = qp.host;
      lost = world.losesArrival(ah.host, host);
    }
    if (!lost) deliver(world, qp, p);
  }
}

function deliver(world: World, qp: Qp, p: number): void {
  if (qp.type !== C.IBV_QPT_UD || qp.state < C.IBV_QPS_RTR || qp.state === C.IBV_QPS_ERR) return;
  const pool = world.packets;
  if (((qp.attr.qkey ?? 0) | 0) !== pool.rkey[p] || !isReady(world, qp)) return;
  const length = pool.length[p];
  if (GRH_BYTES + length > qp.rq.length[qp.rqDone & qp.rq.mask]) {
    tooLong(world, qp);
    return;
  }
  // take() may move the pool's memory.
  const grh = pool.take();
  writeGrh(pool.bytes, pool.slab(grh), pool.ah[p]!, length, (pool.flags[p] & P.HAS_IMM) !== 0);
  const moved =
    moveSges(world, qp, qp.rq, qp.rqDone, 0, GRH_BYTES, pool.slab(grh), true) &&
    moveSges(world, qp, qp.rq, qp.rqDone, GRH_BYTES, length, pool.slab(p), true);
  pool.release(grh);
  if (!moved) {
    badReceive(world, qp);
    return;
  }
  qp.times[DELIVERED] += length;
  qp.srcQp = pool.source[p];
  received(world, qp, p, C.IBV_WC_RECV, GRH_BYTES + length, C.IBV_WC_GRH);
  qp.srcQp = 0;
}
