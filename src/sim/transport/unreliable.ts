/**
 * Unreliable queue pairs. Without acknowledgements, a request completes when its last packet has left. A packet that is
 * lost, or whose destination is not ready, is not sent again. UC messages have many packets, and a receive whose
 * message lost one is reused for the next message. A UD message is a single packet to any queue pair.
 */
import * as C from '../../verbs/constants.ts';
import type { Port } from '../egress/port.ts';
import { EV_ACK } from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';
import { reachOf } from '../memory/memory-windows.ts';
import { moveSges } from '../memory/sges.ts';
import { GRH_BYTES, MULTICAST, writeGrh } from '../network/address.ts';
import { noteNoReceive } from '../nic/processing-units.ts';
import { takeShared } from '../queues/srq.ts';
import type { World } from '../world.ts';
import { completeRecv } from './completions.ts';
import { failQp } from './failure.ts';
import { DELIVERED, psnAdd, type Qp, RECV_OFFSET } from './qp.ts';
import { isLocalOp, opcodeOf } from './request-info.ts';

/** A request packet has left. The last packet of a message completes the request as it leaves. */
export function requestSent(world: World, qp: Qp, port: Port): void {
  if (qp.pkt === 0) completeAt(world, qp, lastPsn(qp, (qp.cur - 1) | 0), port.busyUntil);
}

/** Schedules the completion of the request with this last PSN: it stands in for the acknowledgement. */
export function completeAt(world: World, qp: Qp, psn: number, atNs: number): void {
  world.events.due[0] = atNs;
  world.events.push(EV_ACK, qp.qpn, psn, qp.epoch);
}

/**
 * A datagram leaves a port (null if it is never sent), perhaps before an earlier one of another class.
 * Completions keep their order, so they wait for earlier datagrams.
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
 * Sets the destination of a UD queue pair's next request. Returns false when the message exceeds a packet: it
 * is not sent, which is not an error (InfiniBand C10-93.1.1).
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

/** A request packet of a UC queue pair arrived. */
export function onUnreliable(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const psn = pool.psn[p];
  if ((pool.flags[p] & P.FIRST) !== 0) {
    // Missing packets of the previous message will no longer arrive.
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

/** Returns the receive of the current message, so that the next message can use it. */
function abandon(qp: Qp): void {
  qp.rqTaken = qp.rqDone;
  qp.receiving = false;
}

/** Ignores the rest of the current message. */
function drop(qp: Qp): void {
  abandon(qp);
  qp.dropping = true;
}

/** Whether a receive is available, in its own queue or in a shared one. */
function isReady(world: World, qp: Qp): boolean {
  return qp.rqTaken !== qp.rq.posted || takeShared(world, qp);
}

function onSend(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const flags = pool.flags[p];
  if ((flags & P.FIRST) !== 0) {
    if (!isReady(world, qp)) {
      noteNoReceive(world, qp.host);
      drop(qp);
      return;
    }
    qp.rqTaken = (qp.rqTaken + 1) | 0;
    qp.receiving = true;
    qp.times[qp.row + RECV_OFFSET] = 0;
  }
  const offset = qp.times[qp.row + RECV_OFFSET];
  const length = pool.length[p];
  if (offset + length > qp.rq.length[qp.rqDone & qp.rq.mask]) {
    tooLong(world, qp);
    return;
  }
  if (!moveSges(world, qp, qp.rq, qp.rqDone, offset, length, p, true)) {
    badReceive(world, qp);
    return;
  }
  qp.times[qp.row + RECV_OFFSET] = offset + length;
  qp.times[qp.row + DELIVERED] += length;
  if ((flags & P.LAST) !== 0) received(world, qp, p, C.IBV_WC_RECV, offset + length, 0);
}

function onWrite(world: World, qp: Qp, p: number): void {
  const pool = world.packets;
  const flags = pool.flags[p];
  const length = pool.length[p];
  const extent = (flags & P.FIRST) !== 0 ? pool.rest[p] : length;
  if ((flags & P.FIRST) !== 0) qp.times[qp.row + RECV_OFFSET] = extent;
  const access = C.IBV_ACCESS_REMOTE_WRITE;
  if ((qp.remoteAccess & access) === 0) {
    drop(qp);
    return;
  }
  const withImm = (flags & P.HAS_IMM) !== 0;
  if (withImm && !isReady(world, qp)) {
    noteNoReceive(world, qp.host);
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
    qp.times[qp.row + DELIVERED] += length;
  }
  if (withImm) received(world, qp, p, C.IBV_WC_RECV_RDMA_WITH_IMM, qp.times[qp.row + RECV_OFFSET], 0);
}

/** Drops a message that is longer than its receive. A shared receive cannot be returned and fails. */
function tooLong(world: World, qp: Qp): void {
  if (qp.srq !== null) completeRecv(world, qp, C.IBV_WC_LOC_LEN_ERR, C.IBV_WC_RECV, 0, 0, 0, false);
  drop(qp);
}

/** A receive names memory that its key does not open, which is an error of this end only. */
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
 * A datagram arrived at the queue pair of its address handle, or at the members of its group. Switches send
 * one copy to each host of a group: `only` is that host, or MULTICAST when the packet is for all.
 */
export function onDatagram(world: World, p: number, only: number): void {
  const ah = world.packets.ah[p]!;
  if (ah.group === null) {
    const qp = world.qps[world.packets.dest[p]];
    if (qp !== undefined && qp.host === ah.peerHost && !world.hosts[qp.host].dead) deliver(world, qp, p);
    return;
  }
  // If a copy to a host is lost, it is lost for all group members there.
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

/** A datagram arrived for this queue pair. */
export function deliver(world: World, qp: Qp, p: number): void {
  if (qp.type !== C.IBV_QPT_UD || qp.state < C.IBV_QPS_RTR || qp.state === C.IBV_QPS_ERR) return;
  const pool = world.packets;
  if (((qp.attr.qkey ?? 0) | 0) !== pool.rkey[p]) return;
  if (!isReady(world, qp)) {
    noteNoReceive(world, qp.host);
    return;
  }
  if (qp.isAgent && world.losesAgentMessage()) return;
  const length = pool.length[p];
  if (GRH_BYTES + length > qp.rq.length[qp.rqDone & qp.rq.mask]) {
    tooLong(world, qp);
    return;
  }
  // take() may move the pool's memory.
  const grh = pool.take();
  writeGrh(pool.bytes, pool.slab(grh), pool.ah[p]!, length, (pool.flags[p] & P.HAS_IMM) !== 0);
  const moved =
    moveSges(world, qp, qp.rq, qp.rqDone, 0, GRH_BYTES, grh, true) &&
    moveSges(world, qp, qp.rq, qp.rqDone, GRH_BYTES, length, p, true);
  pool.release(grh);
  if (!moved) {
    badReceive(world, qp);
    return;
  }
  qp.times[qp.row + DELIVERED] += length;
  qp.srcQp = pool.source[p];
  received(world, qp, p, C.IBV_WC_RECV, GRH_BYTES + length, C.IBV_WC_GRH);
  qp.srcQp = 0;
}
