/**
 * Encodes and decodes the transport part of RoCEv2 packets: the payload of their UDP datagrams, which begins with the
 * base transport header (BTH) and ends with the invariant CRC (icrc.ts). Encoding and decoding allocate nothing.
 */
import * as O from './opcodes.ts';

/** P_Key of the default partition, with full membership. */
export const DEFAULT_PKEY = 0xffff;

/**
 * The fields of a packet. One record serves any number of packets: the opcode says which fields an encoder reads and a
 * decoder sets, and the others keep their values. 32-bit fields are unsigned, and 64-bit fields are two of them.
 */
export class RocePacket {
  // BTH.
  opcode = 0;
  solicited = false;
  /** MigReq: whether the migration state is Migrated, as it always is without automatic path migration. */
  migrated = true;
  /** Set by decoders. Encoders compute it from the payload. */
  padCount = 0;
  pkey = DEFAULT_PKEY;
  /** Congestion marks of the transport. RoCEv2 marks the IP header instead; only a CNP has the backward mark. */
  fecn = false;
  becn = false;
  destQp = 0;
  ackRequest = false;
  psn = 0;

  // DETH.
  qkey = 0;
  sourceQp = 0;

  /** XRCETH: the shared receive queue. */
  srqNumber = 0;

  // RETH and AtomicETH.
  remoteAddrHi = 0;
  remoteAddrLo = 0;
  rkey = 0;
  /** RETH: bytes of the whole message. */
  dmaLength = 0;
  /** AtomicETH: the value to swap in or to add, and the value to compare with. */
  swapAddHi = 0;
  swapAddLo = 0;
  compareHi = 0;
  compareLo = 0;

  // AETH (syndrome.ts) and AtomicAckETH: the value before the operation.
  syndrome = 0;
  msn = 0;
  originalHi = 0;
  originalLo = 0;

  /** ImmDt, with its first byte on the wire as the most significant one. */
  immediate = 0;
  /** IETH: the key to invalidate. */
  invalidateKey = 0;

  /**
   * Payload without pad bytes: `payloadBytes` of `payload`, from `payloadOffset` on. A decoder sets offset and length
   * within the decoded buffer. For an encoder, a null payload stands for zeros.
   */
  payload: Uint8Array | null = null;
  payloadOffset = 0;
  payloadBytes = 0;
}

// Results of decodePacket.
export const DECODED = 0;
/** Shorter than a BTH and an ICRC, or than the headers of its opcode. */
export const TOO_SHORT = 1;
/** Not a multiple of four bytes. */
export const BAD_LENGTH = 2;
/** The transport header version is not 0. */
export const BAD_VERSION = 3;
/** An opcode that is reserved or belongs to an unsupported transport. */
export const UNKNOWN_OPCODE = 4;
/** More pad bytes than payload. */
export const BAD_PAD = 5;
/** Payload, or pad bytes, in a packet that has none. */
export const UNEXPECTED_PAYLOAD = 6;

/** What the reasons of decodePacket mean, by number. */
export const REASONS: readonly string[] = [
  'decoded',
  'too short',
  'length is not a multiple of 4',
  'unknown version of the transport header',
  'unknown opcode',
  'more pad bytes than payload',
  'payload in a packet that has none',
];

/**
 * Writes a packet without its ICRC to `out` from `offset` on.
 * @returns its bytes, pad bytes included; sealPacket (icrc.ts) appends the ICRC
 * @throws RangeError if the opcode is unknown, or `out` has no room for packet and ICRC
 */
export function encodePacket(from: RocePacket, out: Uint8Array, offset: number): number {
  const headerBytes = O.headerBytesOf(from.opcode);
  if (headerBytes === 0) throw new RangeError(`encodePacket: opcode ${from.opcode} is unknown`);
  const length = O.mayCarryPayload(from.opcode) ? from.payloadBytes : 0;
  const pad = -length & 3;
  const bytes = headerBytes + length + pad;
  if (!(offset >= 0) || offset + bytes + O.ICRC_BYTES > out.length) {
    throw new RangeError(`encodePacket: a packet of ${bytes + O.ICRC_BYTES} bytes does not fit at ${offset}`);
  }
  encodeBth(from, pad, out, offset);
  encodeExtended(from, O.headersOf(from.opcode), out, offset + O.BTH_BYTES);
  const at = offset + headerBytes;
  copyPayload(from, length, out, at);
  for (let i = 0; i < pad; i++) out[at + length + i] = 0;
  return bytes;
}

/** Copies the payload to its place, unless it is there already. */
function copyPayload({ payload, payloadOffset }: RocePacket, length: number, out: Uint8Array, at: number) {
  if (length === 0 || (payload === out && payloadOffset === at)) return;
  if (payload === null) out.fill(0, at, at + length);
  else if (length <= COPIED_BY_BYTE)
    for (let i = 0; i < length; i++) out[at + i] = payload[payloadOffset + i];
  else if (payloadOffset === 0 && payload.length === length) out.set(payload, at);
  else out.set(payload.subarray(payloadOffset, payloadOffset + length), at);
}

/** Payload of at most this many bytes is copied byte by byte, because a view costs more. */
const COPIED_BY_BYTE = 128;

function encodeBth(from: RocePacket, pad: number, out: Uint8Array, at: number): void {
  out[at] = from.opcode;
  out[at + 1] = (from.solicited ? 0x80 : 0) | (from.migrated ? 0x40 : 0) | (pad << 4);
  out[at + 2] = from.pkey >>> 8;
  out[at + 3] = from.pkey;
  out[at + 4] = (from.fecn ? 0x80 : 0) | (from.becn ? 0x40 : 0);
  put24(out, at + 5, from.destQp);
  out[at + 8] = from.ackRequest ? 0x80 : 0;
  put24(out, at + 9, from.psn);
}

function encodeExtended(from: RocePacket, headers: number, out: Uint8Array, start: number): void {
  let at = start;
  if ((headers & O.DETH) !== 0) {
    put32(out, at, from.qkey);
    out[at + 4] = 0;
    put24(out, at + 5, from.sourceQp);
    at += 8;
  }
  if ((headers & O.XRCETH) !== 0) {
    out[at] = 0;
    put24(out, at + 1, from.srqNumber);
    at += 4;
  }
  if ((headers & (O.RETH | O.ATOMIC_ETH)) !== 0) {
    put32(out, at, from.remoteAddrHi);
    put32(out, at + 4, from.remoteAddrLo);
    put32(out, at + 8, from.rkey);
    at += 12;
  }
  if ((headers & O.RETH) !== 0) {
    put32(out, at, from.dmaLength);
    at += 4;
  }
  if ((headers & O.ATOMIC_ETH) !== 0) {
    put32(out, at, from.swapAddHi);
    put32(out, at + 4, from.swapAddLo);
    put32(out, at + 8, from.compareHi);
    put32(out, at + 12, from.compareLo);
    at += 16;
  }
  if ((headers & O.AETH) !== 0) {
    out[at] = from.syndrome;
    put24(out, at + 1, from.msn);
    at += 4;
  }
  if ((headers & O.ATOMIC_ACK_ETH) !== 0) {
    put32(out, at, from.originalHi);
    put32(out, at + 4, from.originalLo);
    at += 8;
  }
  if ((headers & O.IMM_DT) !== 0) put32(out, at, from.immediate);
  if ((headers & O.IETH) !== 0) put32(out, at, from.invalidateKey);
  if ((headers & O.CNP_RESERVED) !== 0) for (let i = 0; i < 16; i++) out[at + i] = 0;
}

/**
 * Reads a packet: `length` bytes of `buf` from `offset` on, the ICRC included. Never throws, whatever the bytes are.
 * Checks the form only: isSealed (icrc.ts) checks the ICRC, and the receiver everything else.
 * @returns DECODED, or why not (REASONS); then `into` may be partly set
 */
export function decodePacket(buf: Uint8Array, offset: number, length: number, into: RocePacket): number {
  if (!(offset >= 0 && length >= O.BTH_BYTES + O.ICRC_BYTES && offset + length <= buf.length))
    return TOO_SHORT;
  if ((length & 3) !== 0) return BAD_LENGTH;
  if ((buf[offset + 1] & 0xf) !== 0) return BAD_VERSION;
  const opcode = buf[offset];
  const headerBytes = O.headerBytesOf(opcode);
  if (headerBytes === 0) return UNKNOWN_OPCODE;
  const left = length - headerBytes - O.ICRC_BYTES;
  if (left < 0) return TOO_SHORT;
  const pad = (buf[offset + 1] >>> 4) & 3;
  if (!O.mayCarryPayload(opcode) && (left > 0 || pad > 0)) return UNEXPECTED_PAYLOAD;
  if (pad > left) return BAD_PAD;
  into.opcode = opcode;
  into.padCount = pad;
  decodeBth(buf, offset, into);
  decodeExtended(buf, O.headersOf(opcode), offset + O.BTH_BYTES, into);
  into.payload = buf;
  into.payloadOffset = offset + headerBytes;
  into.payloadBytes = left - pad;
  return DECODED;
}

function decodeBth(buf: Uint8Array, at: number, into: RocePacket): void {
  into.solicited = (buf[at + 1] & 0x80) !== 0;
  into.migrated = (buf[at + 1] & 0x40) !== 0;
  into.pkey = (buf[at + 2] << 8) | buf[at + 3];
  into.fecn = (buf[at + 4] & 0x80) !== 0;
  into.becn = (buf[at + 4] & 0x40) !== 0;
  into.destQp = get24(buf, at + 5);
  into.ackRequest = (buf[at + 8] & 0x80) !== 0;
  into.psn = get24(buf, at + 9);
}

function decodeExtended(buf: Uint8Array, headers: number, start: number, into: RocePacket): void {
  let at = start;
  if ((headers & O.DETH) !== 0) {
    into.qkey = get32(buf, at);
    into.sourceQp = get24(buf, at + 5);
    at += 8;
  }
  if ((headers & O.XRCETH) !== 0) {
    into.srqNumber = get24(buf, at + 1);
    at += 4;
  }
  if ((headers & (O.RETH | O.ATOMIC_ETH)) !== 0) {
    into.remoteAddrHi = get32(buf, at);
    into.remoteAddrLo = get32(buf, at + 4);
    into.rkey = get32(buf, at + 8);
    at += 12;
  }
  if ((headers & O.RETH) !== 0) {
    into.dmaLength = get32(buf, at);
    at += 4;
  }
  if ((headers & O.ATOMIC_ETH) !== 0) {
    into.swapAddHi = get32(buf, at);
    into.swapAddLo = get32(buf, at + 4);
    into.compareHi = get32(buf, at + 8);
    into.compareLo = get32(buf, at + 12);
    at += 16;
  }
  if ((headers & O.AETH) !== 0) {
    into.syndrome = buf[at];
    into.msn = get24(buf, at + 1);
    at += 4;
  }
  if ((headers & O.ATOMIC_ACK_ETH) !== 0) {
    into.originalHi = get32(buf, at);
    into.originalLo = get32(buf, at + 4);
    at += 8;
  }
  if ((headers & O.IMM_DT) !== 0) into.immediate = get32(buf, at);
  if ((headers & O.IETH) !== 0) into.invalidateKey = get32(buf, at);
}

function put24(out: Uint8Array, at: number, value: number): void {
  out[at] = value >>> 16;
  out[at + 1] = value >>> 8;
  out[at + 2] = value;
}

function put32(out: Uint8Array, at: number, value: number): void {
  out[at] = value >>> 24;
  out[at + 1] = value >>> 16;
  out[at + 2] = value >>> 8;
  out[at + 3] = value;
}

const get24 = (buf: Uint8Array, at: number): number => (buf[at] << 16) | (buf[at + 1] << 8) | buf[at + 2];

const get32 = (buf: Uint8Array, at: number): number =>
  ((buf[at] << 24) | (buf[at + 1] << 16) | (buf[at + 2] << 8) | buf[at + 3]) >>> 0;
