/**
 * Opcodes of RoCEv2 packets, and the headers that follow the base transport header (BTH) for each
 * (InfiniBand Architecture Specification, volume 1, 9.2.1; annexes A14 for XRC and A17 for RoCEv2).
 */

// Transports: the upper three bits of an opcode.
export const RC = 0x00;
export const UC = 0x20;
export const UD = 0x60;
export const XRC = 0xa0;
/** The transport of an opcode. */
export const TRANSPORT_MASK = 0xe0;

// Operations: the lower five bits.
export const SEND_FIRST = 0x00;
export const SEND_MIDDLE = 0x01;
export const SEND_LAST = 0x02;
export const SEND_LAST_IMM = 0x03;
export const SEND_ONLY = 0x04;
export const SEND_ONLY_IMM = 0x05;
export const WRITE_FIRST = 0x06;
export const WRITE_MIDDLE = 0x07;
export const WRITE_LAST = 0x08;
export const WRITE_LAST_IMM = 0x09;
export const WRITE_ONLY = 0x0a;
export const WRITE_ONLY_IMM = 0x0b;
export const READ_REQUEST = 0x0c;
export const READ_RESPONSE_FIRST = 0x0d;
export const READ_RESPONSE_MIDDLE = 0x0e;
export const READ_RESPONSE_LAST = 0x0f;
export const READ_RESPONSE_ONLY = 0x10;
export const ACKNOWLEDGE = 0x11;
export const ATOMIC_ACKNOWLEDGE = 0x12;
export const COMPARE_SWAP = 0x13;
export const FETCH_ADD = 0x14;
export const SEND_LAST_INVALIDATE = 0x16;
export const SEND_ONLY_INVALIDATE = 0x17;

/** A congestion notification, which has an opcode of its own. */
export const CNP = 0x81;

// Headers, as bits. They follow the BTH in this order.
export const DETH = 1;
export const XRCETH = 2;
export const RETH = 4;
export const ATOMIC_ETH = 8;
export const AETH = 16;
export const ATOMIC_ACK_ETH = 32;
export const IMM_DT = 64;
export const IETH = 128;
/** The sixteen reserved bytes of a CNP. */
export const CNP_RESERVED = 256;
/** Not a header: the packet may carry payload. */
const PAYLOAD = 512;
/** Not a header: the opcode exists. */
const KNOWN = 1024;

/** Bytes of each header. */
const BYTES: readonly (readonly [number, number])[] = [
  [DETH, 8],
  [XRCETH, 4],
  [RETH, 16],
  [ATOMIC_ETH, 28],
  [AETH, 4],
  [ATOMIC_ACK_ETH, 8],
  [IMM_DT, 4],
  [IETH, 4],
  [CNP_RESERVED, 16],
];

export const BTH_BYTES = 12;
export const ICRC_BYTES = 4;

/** Operations that messages of any connected transport consist of. */
const MESSAGES: readonly (readonly [number, number])[] = [
  [SEND_FIRST, PAYLOAD],
  [SEND_MIDDLE, PAYLOAD],
  [SEND_LAST, PAYLOAD],
  [SEND_LAST_IMM, IMM_DT | PAYLOAD],
  [SEND_ONLY, PAYLOAD],
  [SEND_ONLY_IMM, IMM_DT | PAYLOAD],
  [WRITE_FIRST, RETH | PAYLOAD],
  [WRITE_MIDDLE, PAYLOAD],
  [WRITE_LAST, PAYLOAD],
  [WRITE_LAST_IMM, IMM_DT | PAYLOAD],
  [WRITE_ONLY, RETH | PAYLOAD],
  [WRITE_ONLY_IMM, RETH | IMM_DT | PAYLOAD],
];

/** Further requests of reliable connections. */
const RELIABLE_REQUESTS: readonly (readonly [number, number])[] = [
  [READ_REQUEST, RETH],
  [COMPARE_SWAP, ATOMIC_ETH],
  [FETCH_ADD, ATOMIC_ETH],
  [SEND_LAST_INVALIDATE, IETH | PAYLOAD],
  [SEND_ONLY_INVALIDATE, IETH | PAYLOAD],
];

/** What their responder sends. */
const RELIABLE_RESPONSES: readonly (readonly [number, number])[] = [
  [READ_RESPONSE_FIRST, AETH | PAYLOAD],
  [READ_RESPONSE_MIDDLE, PAYLOAD],
  [READ_RESPONSE_LAST, AETH | PAYLOAD],
  [READ_RESPONSE_ONLY, AETH | PAYLOAD],
  [ACKNOWLEDGE, AETH],
  [ATOMIC_ACKNOWLEDGE, AETH | ATOMIC_ACK_ETH],
];

/** By opcode: its headers and the two further bits. */
const LAYOUTS = new Uint16Array(256);
/** By opcode: bytes of the BTH and the headers after it. */
const HEADER_BYTES = new Uint8Array(256);

function define(transport: number, list: readonly (readonly [number, number])[], more = 0): void {
  for (const [operation, layout] of list) {
    const all = KNOWN | layout | more;
    LAYOUTS[transport | operation] = all;
    HEADER_BYTES[transport | operation] = BYTES.reduce(
      (sum, [bit, bytes]) => ((all & bit) === 0 ? sum : sum + bytes),
      BTH_BYTES,
    );
  }
}

define(RC, [...MESSAGES, ...RELIABLE_REQUESTS, ...RELIABLE_RESPONSES]);
define(UC, MESSAGES);
define(UD, [
  [SEND_ONLY, DETH | PAYLOAD],
  [SEND_ONLY_IMM, DETH | IMM_DT | PAYLOAD],
]);
define(XRC, [...MESSAGES, ...RELIABLE_REQUESTS], XRCETH);
define(XRC, RELIABLE_RESPONSES);
define(0, [[CNP, CNP_RESERVED]]);

/** Whether this is an opcode of RC, UC, UD or XRC, or that of a CNP. */
export const isOpcode = (opcode: number): boolean => (LAYOUTS[opcode] & KNOWN) !== 0;

/** The headers of an opcode after the BTH, as bits; 0 for an unknown opcode. */
export const headersOf = (opcode: number): number => LAYOUTS[opcode] & ~(PAYLOAD | KNOWN);

/** Bytes of the BTH and the headers after it; 0 for an unknown opcode. */
export const headerBytesOf = (opcode: number): number => HEADER_BYTES[opcode];

/** Whether packets of this opcode may carry payload. */
export const mayCarryPayload = (opcode: number): boolean => (LAYOUTS[opcode] & PAYLOAD) !== 0;
