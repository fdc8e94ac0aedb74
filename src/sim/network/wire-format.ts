/** Packets of the pool as RoCEv2 packets, for captures and for real networks. */

import type { RocePacket } from '../../roce/codec.ts';
import * as O from '../../roce/opcodes.ts';
import * as S from '../../roce/syndrome.ts';
import * as C from '../../verbs/constants.ts';
import * as K from '../kernel/event-kinds.ts';
import * as P from '../kernel/packets.ts';

const TWO32 = 4294967296;

const TRANSPORTS: Readonly<Record<number, number>> = {
  [C.IBV_QPT_RC]: O.RC,
  [C.IBV_QPT_UC]: O.UC,
  [C.IBV_QPT_UD]: O.UD,
  [C.IBV_QPT_XRC_SEND]: O.XRC,
  [C.IBV_QPT_XRC_RECV]: O.XRC,
};

/** What a packet's fields depend on besides its row in the pool. */
export interface PacketSource {
  /** IBV_QPT_* of the sending queue pair. */
  readonly type: number;
  /** Messages that it has executed as a responder. */
  readonly msn: number;
}

/**
 * Sets the fields of packet `p` of the pool, sent by `source`. The payload stays where it is.
 * @param hasPayload whether the run moves payload bytes; otherwise they are zeros
 */
export function describePacket(
  pool: P.PacketPool,
  p: number,
  { type, msn }: PacketSource,
  hasPayload: boolean,
  into: RocePacket,
): void {
  const flags = pool.flags[p];
  into.opcode = TRANSPORTS[type] | operationOf(pool, p);
  into.solicited = (flags & P.SOLICITED) !== 0;
  into.ackRequest = (flags & P.ACK_REQUEST) !== 0 && type !== C.IBV_QPT_UC && type !== C.IBV_QPT_UD;
  into.becn = false;
  into.destQp = pool.dest[p];
  into.psn = pool.psn[p];
  into.payload = hasPayload ? pool.bytes : null;
  into.payloadOffset = pool.slab(p);
  into.payloadBytes = pool.length[p];
  into.msn = msn;
  const kind = pool.kind[p];
  if (kind >= P.PKT_RESPONSE && kind !== P.PKT_DATAGRAM) {
    into.syndrome = kind === P.PKT_ACK ? syndromeOf(pool.imm[p]) : S.ackSyndrome(S.NO_CREDITS);
    const slab = pool.slab(p) >> 2;
    into.originalLo = pool.words[slab];
    into.originalHi = pool.words[slab + 1];
    return;
  }
  into.immediate = into.invalidateKey = pool.imm[p] >>> 0;
  into.srqNumber = pool.srqNum[p];
  into.rkey = into.qkey = pool.rkey[p] >>> 0;
  into.sourceQp = pool.source[p];
  into.remoteAddrHi = Math.floor(pool.addr[p] / TWO32);
  into.remoteAddrLo = pool.addr[p] >>> 0;
  into.dmaLength = pool.rest[p];
  if (kind === P.PKT_COMPARE_SWAP || kind === P.PKT_FETCH_ADD) describeOperands(pool, p, kind, into);
}

/** Operands are compare (or add), then swap: little-endian words in the packet's slab. */
function describeOperands(pool: P.PacketPool, p: number, kind: number, into: RocePacket): void {
  const slab = pool.slab(p) >> 2;
  const swaps = kind === P.PKT_COMPARE_SWAP;
  const first = swaps ? slab + 2 : slab;
  into.swapAddLo = pool.words[first];
  into.swapAddHi = pool.words[first + 1];
  into.compareLo = swaps ? pool.words[slab] : 0;
  into.compareHi = swaps ? pool.words[slab + 1] : 0;
}

/** The operation of a packet: the lower five bits of its opcode. */
function operationOf(pool: P.PacketPool, p: number): number {
  const flags = pool.flags[p];
  const first = (flags & P.FIRST) !== 0;
  const last = (flags & P.LAST) !== 0;
  const withImm = (flags & P.HAS_IMM) !== 0;
  switch (pool.kind[p]) {
    case P.PKT_SEND:
      if (!last) return first ? O.SEND_FIRST : O.SEND_MIDDLE;
      if ((flags & P.HAS_INV) !== 0) return first ? O.SEND_ONLY_INVALIDATE : O.SEND_LAST_INVALIDATE;
      if (first) return withImm ? O.SEND_ONLY_IMM : O.SEND_ONLY;
      return withImm ? O.SEND_LAST_IMM : O.SEND_LAST;
    case P.PKT_WRITE:
      if (!last) return first ? O.WRITE_FIRST : O.WRITE_MIDDLE;
      if (first) return withImm ? O.WRITE_ONLY_IMM : O.WRITE_ONLY;
      return withImm ? O.WRITE_LAST_IMM : O.WRITE_LAST;
    case P.PKT_READ:
      return O.READ_REQUEST;
    case P.PKT_COMPARE_SWAP:
      return O.COMPARE_SWAP;
    case P.PKT_FETCH_ADD:
      return O.FETCH_ADD;
    case P.PKT_RESPONSE:
      if (pool.imm[p] !== P.PKT_READ) return O.ATOMIC_ACKNOWLEDGE;
      if (first) return last ? O.READ_RESPONSE_ONLY : O.READ_RESPONSE_FIRST;
      return last ? O.READ_RESPONSE_LAST : O.READ_RESPONSE_MIDDLE;
    case P.PKT_DATAGRAM:
      return withImm ? O.SEND_ONLY_IMM : O.SEND_ONLY;
    default:
      return O.ACKNOWLEDGE;
  }
}

/** The syndrome on the wire of one in the simulation. */
function syndromeOf(syndrome: number): number {
  if (syndrome === K.ACK) return S.ackSyndrome(S.NO_CREDITS);
  return syndrome >= K.NAK_RNR
    ? S.rnrSyndrome(syndrome - K.NAK_RNR)
    : S.nakSyndrome(syndrome - K.NAK_SEQUENCE);
}
