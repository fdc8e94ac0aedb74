/** Between the packets of the transport (src/sim/kernel/packets.ts) and those of RoCEv2 (src/roce). */
import { DECODED, decodePacket, encodePacket, RocePacket } from '../../roce/codec.ts';
import * as O from '../../roce/opcodes.ts';
import * as S from '../../roce/syndrome.ts';
import { ACK, NAK_INVALID_REQUEST, NAK_RNR, NAK_SEQUENCE } from '../../sim/kernel/event-kinds.ts';
import * as P from '../../sim/kernel/packets.ts';
import type { World } from '../../sim/world.ts';
import * as C from '../../verbs/constants.ts';

const TWO32 = 4294967296;
/** The codes of NAKs follow each other on the wire as in the transport, from the sequence error to the operation error. */
const LAST_NAK = S.NAK_REMOTE_OPERATION;

const record = new RocePacket();

/** Writes packet `p` of the pool to `out`, without its ICRC, and returns its bytes. */
export function toWire(world: World, p: number, out: Uint8Array, at: number): number {
  const pool = world.packets;
  const qp = world.qps[pool.source[p]]!;
  const kind = pool.kind[p];
  const flags = pool.flags[p];
  record.opcode = transportOf(qp.type) | operationOf(kind, flags, pool.imm[p]);
  record.solicited = (flags & P.SOLICITED) !== 0;
  record.ackRequest = (flags & P.ACK_REQUEST) !== 0 && !qp.unreliable;
  record.destQp = pool.dest[p];
  record.psn = pool.psn[p];
  record.payload = pool.bytes;
  record.payloadOffset = pool.slab(p);
  record.payloadBytes = pool.length[p];
  record.srqNumber = pool.srqNum[p];
  record.immediate = record.invalidateKey = pool.imm[p] >>> 0;
  if (kind === P.PKT_DATAGRAM) {
    record.qkey = pool.rkey[p] >>> 0;
    record.sourceQp = qp.qpn;
  } else if (kind <= P.PKT_FETCH_ADD) {
    fillAddress(pool, p, kind);
  } else {
    record.msn = qp.msn;
    record.syndrome = kind === P.PKT_ACK ? syndromeOf(pool.imm[p]) : S.ackSyndrome(S.NO_CREDITS);
    const slab = pool.slab(p) >> 2;
    record.originalLo = pool.words[slab];
    record.originalHi = pool.words[slab + 1];
  }
  return encodePacket(record, out, at);
}

function fillAddress(pool: P.PacketPool, p: number, kind: number): void {
  record.remoteAddrHi = Math.floor(pool.addr[p] / TWO32);
  record.remoteAddrLo = pool.addr[p] % TWO32;
  record.rkey = pool.rkey[p] >>> 0;
  record.dmaLength = pool.rest[p];
  if (kind < P.PKT_COMPARE_SWAP) return;
  const slab = pool.slab(p) >> 2;
  const swaps = kind === P.PKT_COMPARE_SWAP;
  record.compareLo = swaps ? pool.words[slab] : 0;
  record.compareHi = swaps ? pool.words[slab + 1] : 0;
  record.swapAddLo = pool.words[swaps ? slab + 2 : slab];
  record.swapAddHi = pool.words[swaps ? slab + 3 : slab + 1];
}

function transportOf(type: number): number {
  switch (type) {
    case C.IBV_QPT_RC:
      return O.RC;
    case C.IBV_QPT_UC:
      return O.UC;
    case C.IBV_QPT_UD:
      return O.UD;
    default:
      return O.XRC;
  }
}

function operationOf(kind: number, flags: number, imm: number): number {
  switch (kind) {
    case P.PKT_SEND:
    case P.PKT_WRITE:
    case P.PKT_DATAGRAM:
      return messageOperation(kind, flags);
    case P.PKT_READ:
      return O.READ_REQUEST;
    case P.PKT_COMPARE_SWAP:
      return O.COMPARE_SWAP;
    case P.PKT_FETCH_ADD:
      return O.FETCH_ADD;
    case P.PKT_RESPONSE:
      return imm === P.PKT_READ ? responseOperation(flags) : O.ATOMIC_ACKNOWLEDGE;
    default:
      return O.ACKNOWLEDGE;
  }
}

function messageOperation(kind: number, flags: number): number {
  const base = kind === P.PKT_WRITE ? O.WRITE_FIRST : O.SEND_FIRST;
  const first = (flags & P.FIRST) !== 0;
  if ((flags & P.LAST) === 0) return base + (first ? O.SEND_FIRST : O.SEND_MIDDLE);
  if ((flags & P.HAS_INV) !== 0) return first ? O.SEND_ONLY_INVALIDATE : O.SEND_LAST_INVALIDATE;
  const last = first ? O.SEND_ONLY : O.SEND_LAST;
  return base + last + ((flags & P.HAS_IMM) !== 0 ? 1 : 0);
}

function responseOperation(flags: number): number {
  if ((flags & P.FIRST) !== 0) return (flags & P.LAST) !== 0 ? O.READ_RESPONSE_ONLY : O.READ_RESPONSE_FIRST;
  return (flags & P.LAST) !== 0 ? O.READ_RESPONSE_LAST : O.READ_RESPONSE_MIDDLE;
}

function syndromeOf(syndrome: number): number {
  if (syndrome === ACK) return S.ackSyndrome(S.NO_CREDITS);
  return syndrome >= NAK_RNR ? S.rnrSyndrome(syndrome - NAK_RNR) : S.nakSyndrome(syndrome - NAK_SEQUENCE);
}

/**
 * Reads a packet of `length` bytes, its ICRC included, into packet `p` of the pool; source and destination are checked
 * when it is executed. Returns the type of queue pair it is for (IBV_QPT_*), or -1 if it is malformed or has no meaning.
 */
export function fromWire(world: World, buf: Uint8Array, at: number, length: number, p: number): number {
  const pool = world.packets;
  if (decodePacket(buf, at, length, record) !== DECODED || record.payloadBytes > P.SLAB_BYTES) return -1;
  const transport = record.opcode & O.TRANSPORT_MASK;
  if (record.opcode === O.CNP) return -1;
  pool.dest[p] = record.destQp;
  pool.source[p] = 0;
  pool.epoch[p] = 0;
  pool.psn[p] = record.psn;
  pool.imm[p] = 0;
  pool.flags[p] = (record.solicited ? P.SOLICITED : 0) | (record.ackRequest ? P.ACK_REQUEST : 0);
  pool.length[p] = record.payloadBytes;
  const slab = pool.slab(p);
  pool.bytes.set(buf.subarray(record.payloadOffset, record.payloadOffset + record.payloadBytes), slab);
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

/** By operation of SEND: whether it is the first packet of its message, and the last. WRITE repeats them. */
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
