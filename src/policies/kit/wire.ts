/**
 * What requests take on the wire, in each direction of the link. Lengths of headers: InfiniBand Architecture
 * Specification, volume 1, chapter 9, and its annex A17 (RoCEv2). Lower layers are in `headerBytes`: preamble and gap 20,
 * Ethernet 14 + 4, IPv4 20, UDP 8, BTH 12, ICRC 4.
 */
import {
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
  IBV_WR_RDMA_WRITE_WITH_IMM,
  IBV_WR_SEND,
  IBV_WR_SEND_WITH_IMM,
  IBV_WR_SEND_WITH_INV,
} from '../../verbs/constants.ts';
import type { NicFacts } from '../../verbs/nic.ts';

/** What the length of a message on the wire depends on. */
export interface WireFacts {
  readonly mtuBytes: number;
  /** Headers, gap and preamble of a packet. */
  readonly headerBytes: number;
}

/** RoCEv2 with packets of 4096 bytes, for devices that do not report their own. */
export const ROCE: WireFacts = { mtuBytes: 4096, headerBytes: 82 };

/** RETH: names the remote memory, in the first packet of a WRITE and in the request of a READ. */
export const RETH_BYTES = 16;
/** ImmDt or IETH: immediate data, or the key to invalidate, in the last packet. */
const IMMEDIATE_BYTES = 4;
/** AtomicETH: address, key and operands. */
const ATOMIC_BYTES = 28;
/** AETH: in acknowledgements, and in the first and the last packet of a response. */
const AETH_BYTES = 4;
/** AtomicAckETH: the original value. */
const ATOMIC_ANSWER_BYTES = 8;

/** The facts that a device reports, and RoCEv2's for those that it does not. */
export function wireFactsOf(nic: Pick<NicFacts, keyof WireFacts> | null): WireFacts {
  return {
    mtuBytes: nic?.mtuBytes ?? ROCE.mtuBytes,
    headerBytes: nic?.headerBytes ?? ROCE.headerBytes,
  };
}

/** Bytes of the packets that carry `bytes` of data, without the headers that only some of them have. */
export function packetBytes({ mtuBytes, headerBytes }: WireFacts, bytes: number): number {
  return bytes + Math.max(1, Math.ceil(bytes / mtuBytes)) * headerBytes;
}

/** Bytes on the link out of the device for a request of this opcode (IBV_WR_*, ISO_WR_*) with `bytes` of data. */
export function egressBytes(facts: WireFacts, opcode: number, bytes: number): number {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return packetBytes(facts, bytes) + RETH_BYTES;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return packetBytes(facts, bytes) + RETH_BYTES + IMMEDIATE_BYTES;
    case IBV_WR_SEND:
      return packetBytes(facts, bytes);
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      return packetBytes(facts, bytes) + IMMEDIATE_BYTES;
    case IBV_WR_RDMA_READ:
      return facts.headerBytes + RETH_BYTES;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return facts.headerBytes + ATOMIC_BYTES;
    // WAITs, ENABLEs, LOCAL_INV and BIND_MW never leave the device.
    default:
      return 0;
  }
}

/**
 * Bytes on the link into the device: the response, or one acknowledgement for each message. That is an upper bound,
 * because devices acknowledge several messages together, and UC and UD none.
 */
export function ingressBytes(facts: WireFacts, opcode: number, bytes: number): number {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      return facts.headerBytes + AETH_BYTES;
    case IBV_WR_RDMA_READ:
      return packetBytes(facts, bytes) + (bytes > facts.mtuBytes ? 2 : 1) * AETH_BYTES;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return facts.headerBytes + AETH_BYTES + ATOMIC_ANSWER_BYTES;
    default:
      return 0;
  }
}

/** Bytes in the direction that a request loads more. A tenant's share of a full-duplex link holds for each direction. */
export function wireBytes(facts: WireFacts, opcode: number, bytes: number): number {
  return Math.max(egressBytes(facts, opcode, bytes), ingressBytes(facts, opcode, bytes));
}
