/**
 * Fetches WQEs into the NIC after a doorbell. The doorbell of a single request may carry the WQE (BlueFlame). Others
 * are fetched by DMA in batches, up to two batches ahead of the current one. Once WQEs have arrived, the first payload
 * of their messages is read as well.
 */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Port } from '../egress/port.ts';
import * as K from '../kernel/event-kinds.ts';
import * as Q from '../transport/qp.ts';
import { type Qp, type Sender, UnitUser } from '../transport/qp.ts';
import type { World } from '../world.ts';
import * as X from './context-caches.ts';

// V8 folds constants and functions of the module itself into the code, but loads imported ones at each use.
const { missesLocal, missesRemote, missesRun } = X;
const { IBV_SEND_INLINE, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV } = C;
const { WR_OP } = L;
const { EV_FETCHED, EV_PAYLOAD, EV_RESPONSE_PAYLOAD } = K;
const { PAYLOAD, ROLE_REQUEST, RUN_PAYLOAD_NS } = Q;

/** Allows the NIC to fetch requests up to `index`. */
export function allowFetch(world: World, qp: Qp, index: number): void {
  qp.fetchLimit = index;
  world.began(qp.requests);
  const { pcie } = world.hosts[qp.host];
  if (pcie.free) {
    qp.fetched = qp.available = index;
    return;
  }
  const carried = world.params.blueFlame === 1 && !qp.managed && ((index - qp.fetched) | 0) === 1;
  if (carried && qp.available === qp.fetched) {
    qp.fetched = index;
    wqesArrived(world, qp, index);
    return;
  }
  fetchMore(world, qp);
}

/** Fetches the next batches, at most two of them in the NIC or in flight. */
export function fetchMore(world: World, qp: Qp): void {
  const { scheduler, wqeFetchBatch, palosWqeBatch, wqeBytes } = world.params;
  const batch = scheduler === 'palos' ? palosWqeBatch : wqeFetchBatch;
  const { pcie } = world.hosts[qp.host];
  while (qp.fetched !== qp.fetchLimit && ((qp.fetched - qp.cur) | 0) <= 2 * batch) {
    const count = Math.min((qp.fetchLimit - qp.fetched) | 0, batch);
    qp.fetched = (qp.fetched + count) | 0;
    pcie.readControl(count * wqeBytes);
    world.events.due[0] = pcie.done[0];
    world.events.push(EV_FETCHED, qp.qpn, qp.fetched, qp.epoch);
  }
}

/** WQEs up to `index` arrived in the NIC. */
export function wqesArrived(world: World, qp: Qp, index: number): void {
  qp.available = index;
  requestPayloads(world, qp);
}

/**
 * Reads the first payload of upcoming requests while less than readAheadBytes of it is unused. Without this
 * limit, a queue pair with many large messages would fill PCIe.
 */
function requestPayloads(world: World, qp: Qp): void {
  const { pcie, caches } = world.hosts[qp.host];
  const { readAheadBytes } = world.params;
  while (qp.payloadRequested !== qp.available && qp.payloadRequestedBytes < readAheadBytes) {
    const seq = qp.payloadRequested;
    const slot = seq & qp.sq.mask;
    const first = Math.min(gatheredBytes(qp, seq), readAheadBytes);
    qp.payloadRequested = (seq + 1) | 0;
    qp.sqPayloadNs[slot] = 0;
    if (first === 0) continue;
    const waits = caches.looksUp && missesLocal(world, qp, qp.sq, seq, 0, first);
    pcie.read(first);
    qp.sqPayloadNs[slot] = pcie.done[0] + (waits ? caches.waitNs[0] : 0);
    qp.payloadRequestedBytes = (qp.payloadRequestedBytes + first) | 0;
  }
}

/** Called when a request starts: its first payload is used up, which leaves room to read payloads of others. */
export function payloadUsed(world: World, qp: Qp, seq: number): void {
  qp.payloadRequestedBytes =
    (qp.payloadRequestedBytes - Math.min(gatheredBytes(qp, seq), world.params.readAheadBytes)) | 0;
  requestPayloads(world, qp);
}

/** Bytes of the message that are read from host memory. */
function gatheredBytes(qp: Qp, seq: number): number {
  const op = qp.sq.words[qp.sq.at(seq) + WR_OP];
  const opcode = op & 0xff;
  if (((op >>> 8) & IBV_SEND_INLINE) !== 0) return 0;
  if (opcode >= IBV_WR_RDMA_READ && opcode !== IBV_WR_SEND_WITH_INV) return 0;
  return qp.sq.length[seq & qp.sq.mask] | 0;
}

/**
 * Prepares a packet of a message: sets world.notBefore to the arrival of its payload, and reads the payload
 * of the packet readAheadBytes later. `head[at]` is the arrival of the message's first payload.
 */
export function readAhead(
  world: World,
  sender: Sender,
  packet: number,
  length: number,
  head: Float64Array,
  at: number,
): void {
  const { qp } = sender;
  const { mtu } = qp;
  const window = windowOf(world, qp);
  sender.unitUser ??= new UnitUser(sender);
  const { unitUser } = sender;
  payloadTime(world, unitUser, packet, window, head, at);
  const from = (packet + window) * mtu;
  const rest = length - from;
  if (rest <= 0) return;
  if (unitUser.window !== window) unitUser.openAhead(window);
  const bytes = Math.min(rest, mtu);
  const { pcie, caches } = world.hosts[qp.host];
  const waits =
    caches.looksUp &&
    (sender.role === ROLE_REQUEST
      ? missesRun(world, qp, from, bytes)
      : missesResponse(world, qp, qp.responses.head, from, bytes));
  pcie.read(bytes);
  unitUser.ahead[unitUser.aheadAt + (packet % window)] = pcie.done[0] + (waits ? caches.waitNs[0] : 0);
}

/** Number of packets whose payload is read ahead. */
function windowOf(world: World, qp: Qp): number {
  if (qp.aheadPackets === 0) qp.aheadPackets = Math.max(1, Math.ceil(world.params.readAheadBytes / qp.mtu));
  return qp.aheadPackets;
}

/** Sets world.notBefore to the arrival of a packet's payload. */
function payloadTime(
  world: World,
  unitUser: UnitUser,
  packet: number,
  window: number,
  head: Float64Array,
  at: number,
): void {
  const { notBefore } = world;
  if (packet < window) notBefore[0] = head[at];
  else if (unitUser.window === window) notBefore[0] = unitUser.ahead[unitUser.aheadAt + (packet % window)];
  else notBefore[0] = 0;
}

/**
 * Whether a sender in the middle of a message must wait for payload while the wire of its port would be idle. If so,
 * schedules an event.
 */
export function awaitsPayload(world: World, sender: Sender, port: Port): boolean {
  const { qp, unitUser } = sender;
  if (unitUser === null) return false;
  const request = sender.role === ROLE_REQUEST;
  const packet = request ? qp.pkt : qp.respPkt;
  const head = request ? qp.runs : qp.responses.payloadNs;
  const at = request ? (qp.runRow + RUN_PAYLOAD_NS) | 0 : qp.responses.head;
  if (packet === 0 || head[at] === 0) return false;
  payloadTime(world, unitUser, packet, windowOf(world, qp), head, at);
  if (world.notBefore[0] <= world.clock[0] || port.isBusyUntil(world.notBefore)) return false;
  sender.setPhase(PAYLOAD);
  world.events.due[0] = world.notBefore[0];
  if (request) world.events.push(EV_PAYLOAD, qp.qpn, qp.token, 0);
  else world.events.push(EV_RESPONSE_PAYLOAD, qp.qpn, qp.respToken, 0);
  return true;
}

/** Translates the memory of a part of a READ's response data. Returns true when that takes time. */
export function missesResponse(world: World, qp: Qp, slot: number, from: number, bytes: number): boolean {
  const r = qp.responses;
  return missesRemote(world, qp.host, r.rkey[slot], r.addr[slot] + from, bytes);
}
