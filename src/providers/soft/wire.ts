/** Converts between the packets of the transport (src/sim/kernel/packets.ts) and those of RoCEv2 (src/roce). */
import { GSI_QKEY, GSI_QPN, MAD_BYTES } from '../../roce/cm-messages.ts';
import { DECODED, decodePacket, encodePacket, RocePacket } from '../../roce/codec.ts';
import * as O from '../../roce/opcodes.ts';
import * as S from '../../roce/syndrome.ts';
import { ACK, NAK_INVALID_REQUEST, NAK_RNR, NAK_SEQUENCE } from '../../sim/kernel/event-kinds.ts';
import * as P from '../../sim/kernel/packets.ts';
import type { KeptViews } from '../../sim/memory/memory.ts';
import { describePacket } from '../../sim/network/wire-format.ts';
import type { World } from '../../sim/world.ts';
import * as C from '../../verbs/constants.ts';

const TWO32 = 4294967296;
/** NAK codes have the same order on the wire as in the transport, from the sequence error to the operation error. */
const LAST_NAK = S.NAK_REMOTE_OPERATION;

const record = new RocePacket();

/** Writes packet `p` of the pool to `out`, without its ICRC, and returns its bytes. */
export function toWire({ packets, qps }: World, p: number, out: Uint8Array, at: number): number {
  describePacket(packets, p, qps[packets.source[p]]!, true, record);
  if (record.payloadBytes > P.SHORT_BYTES) {
    // Copied without creating a view.
    record.payload = packets.payload(p, record.payloadBytes);
    record.payloadOffset = 0;
  }
  return encodePacket(record, out, at);
}

/** What fromWire returns for a congestion notification, which belongs to no operation. */
export const NOTIFICATION = -2;

/** Writes a congestion notification for a queue pair to `out`, without its ICRC, and returns its bytes. */
export function writeNotification(destQp: number, out: Uint8Array, at: number): number {
  record.opcode = O.CNP;
  record.migrated = record.becn = true;
  record.solicited = record.ackRequest = false;
  record.destQp = destQp;
  record.psn = 0;
  return encodePacket(record, out, at);
}

/** What fromWire returns for a management datagram, which managementData() then returns. */
export const MANAGEMENT = -3;

/** Writes a datagram from queue pair 1 to that of another device, without its ICRC, and returns its bytes. */
export function writeManagement(mad: Uint8Array, out: Uint8Array, at: number): number {
  record.opcode = O.UD | O.SEND_ONLY;
  record.migrated = true;
  record.becn = record.fecn = record.solicited = record.ackRequest = false;
  record.destQp = record.sourceQp = GSI_QPN;
  record.qkey = GSI_QKEY;
  record.psn = 0;
  record.payload = mad;
  record.payloadOffset = 0;
  record.payloadBytes = mad.length;
  return encodePacket(record, out, at);
}

/** A copy of the management datagram that fromWire has read. */
export function managementData(): Uint8Array {
  const { payload, payloadOffset, payloadBytes } = record;
  return (payload as Uint8Array).slice(payloadOffset, payloadOffset + payloadBytes);
}

/** Copies short payload to the slab of a packet. Long payload stays where it was received. */
function takePayload(pool: P.PacketPool, p: number, received: KeptViews): void {
  const { payload, payloadOffset, payloadBytes } = record;
  if (payloadBytes > P.SHORT_BYTES) {
    pool.outside[p] = received.view(payloadOffset, payloadBytes);
    return;
  }
  const slab = pool.slab(p);
  for (let i = 0; i < payloadBytes; i++) pool.bytes[slab + i] = (payload as Uint8Array)[payloadOffset + i];
}

/**
 * Reads a packet of `length` bytes at `at` in `buf`, its ICRC included, into packet `p` of the pool; source and destination
 * are checked when it is executed. Long payload stays in `buf`, whose views are `received`: the caller sets the
 * packet's `outside` to null before it releases the packet. Returns the type of queue pair that the packet is for (IBV_QPT_*),
 * NOTIFICATION, MANAGEMENT, or -1 if it is malformed or has no meaning.
 */
export function fromWire(
  world: World,
  buf: Uint8Array,
  received: KeptViews,
  at: number,
  length: number,
  p: number,
): number {
  const pool = world.packets;
  if (decodePacket(buf, at, length, record) !== DECODED || record.payloadBytes > P.SLAB_BYTES) return -1;
  const transport = record.opcode & O.TRANSPORT_MASK;
  if (record.opcode === O.CNP) return NOTIFICATION;
  if (record.destQp === GSI_QPN) {
    const isMad = record.opcode === (O.UD | O.SEND_ONLY) && record.qkey === GSI_QKEY;
    return isMad && record.payloadBytes === MAD_BYTES ? MANAGEMENT : -1;
  }
  pool.dest[p] = record.destQp;
  pool.source[p] = 0;
  pool.epoch[p] = 0;
  pool.psn[p] = record.psn;
  pool.imm[p] = 0;
  pool.flags[p] = (record.solicited ? P.SOLICITED : 0) | (record.ackRequest ? P.ACK_REQUEST : 0);
  pool.length[p] = record.payloadBytes;
  takePayload(pool, p, received);
  const operation = record.opcode & ~O.TRANSPORT_MASK;
  if (transport === O.UD) {
    pool.kind[p] = P.PKT_DATAGRAM;
    pool.flags[p] |= P.FIRST | P.LAST;
    pool.source[p] = record.sourceQp;
    pool.rkey[p] = record.qkey;
    readImmediate(pool, p, operation);
    return C.IBV_QPT_UD;
  }
  if (operation >= O.READ_RESPONSE_FIRST && operation <= O.ATOMIC_ACKNOWLEDGE) {
    if (!readResponse(pool, p, operation)) return -1;
    return transport === O.XRC ? C.IBV_QPT_XRC_SEND : C.IBV_QPT_RC;
  }
  pool.srqNum[p] = record.srqNumber;
  readRequest(pool, p, operation);
  if (transport === O.XRC) return C.IBV_QPT_XRC_RECV;
  return transport === O.RC ? C.IBV_QPT_RC : C.IBV_QPT_UC;
}

/** Sets the immediate, or the key to invalidate, of the last packet of a message. */
function readImmediate(pool: P.PacketPool, p: number, operation: number): void {
  const headers = O.headersOf(record.opcode);
  if ((headers & O.IMM_DT) !== 0) {
    pool.flags[p] |= P.HAS_IMM;
    pool.imm[p] = record.immediate;
  } else if (operation === O.SEND_LAST_INVALIDATE || operation === O.SEND_ONLY_INVALIDATE) {
    pool.flags[p] |= P.HAS_INV;
    pool.imm[p] = record.invalidateKey;
  }
}

/** By operation of SEND: whether it is the first packet of its message, and the last. The same holds for WRITE. */
const PARTS = [P.FIRST, 0, P.LAST, P.LAST, P.FIRST | P.LAST, P.FIRST | P.LAST];

function readRequest(pool: P.PacketPool, p: number, operation: number): void {
  pool.rkey[p] = record.rkey;
  pool.addr[p] = record.remoteAddrHi * TWO32 + record.remoteAddrLo;
  pool.rest[p] = record.dmaLength;
  if (operation === O.READ_REQUEST) pool.kind[p] = P.PKT_READ;
  else if (operation === O.COMPARE_SWAP || operation === O.FETCH_ADD) {
    readAtomic(pool, p, operation === O.COMPARE_SWAP);
    return;
  } else {
    pool.kind[p] = operation >= O.WRITE_FIRST && operation <= O.WRITE_ONLY_IMM ? P.PKT_WRITE : P.PKT_SEND;
    const part = operation - (pool.kind[p] === P.PKT_WRITE ? O.WRITE_FIRST : O.SEND_FIRST);
    pool.flags[p] |= PARTS[part] ?? (operation === O.SEND_ONLY_INVALIDATE ? P.FIRST | P.LAST : P.LAST);
    readImmediate(pool, p, operation);
    return;
  }
  pool.flags[p] |= P.FIRST | P.LAST;
}

function readAtomic(pool: P.PacketPool, p: number, swaps: boolean): void {
  pool.kind[p] = swaps ? P.PKT_COMPARE_SWAP : P.PKT_FETCH_ADD;
  pool.flags[p] |= P.FIRST | P.LAST;
  pool.rest[p] = 8;
  const slab = pool.slab(p) >> 2;
  pool.words[slab] = swaps ? record.compareLo : record.swapAddLo;
  pool.words[slab + 1] = swaps ? record.compareHi : record.swapAddHi;
  pool.words[slab + 2] = record.swapAddLo;
  pool.words[slab + 3] = record.swapAddHi;
}

/** Returns false for a syndrome without meaning. */
function readResponse(pool: P.PacketPool, p: number, operation: number): boolean {
  if (operation === O.ACKNOWLEDGE) {
    pool.kind[p] = P.PKT_ACK;
    const code = S.codeOfSyndrome(record.syndrome);
    switch (S.kindOfSyndrome(record.syndrome)) {
      case S.KIND_ACK:
        pool.imm[p] = ACK;
        return true;
      case S.KIND_RNR_NAK:
        pool.imm[p] = NAK_RNR + code;
        return true;
      case S.KIND_NAK:
        pool.imm[p] = code === S.NAK_INVALID_RD_REQUEST ? NAK_INVALID_REQUEST : NAK_SEQUENCE + code;
        return code <= LAST_NAK || code === S.NAK_INVALID_RD_REQUEST;
      default:
        return false;
    }
  }
  pool.kind[p] = P.PKT_RESPONSE;
  pool.imm[p] = P.PKT_READ;
  if (operation !== O.ATOMIC_ACKNOWLEDGE) return true;
  pool.imm[p] = P.PKT_FETCH_ADD;
  pool.length[p] = 8;
  const slab = pool.slab(p) >> 2;
  pool.words[slab] = record.originalLo;
  pool.words[slab + 1] = record.originalHi;
  return true;
}
