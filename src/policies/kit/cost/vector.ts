/**
 * What a request costs the NICs at its two ends, resource by resource. The figures are means over many such requests, without
 * retransmissions and cache misses; `addContextMisses` and `addEntryMisses` add what misses cost. Which packets of a request
 * touch what follows the order of work in docs/simulation.md.
 */
import {
  IBV_QPT_RC,
  IBV_QPT_UD,
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE_WITH_IMM,
  IBV_WR_SEND,
  IBV_WR_SEND_WITH_IMM,
  IBV_WR_SEND_WITH_INV,
  ISO_WR_WAIT,
} from '../../../verbs/constants.ts';
import { GRH_BYTES } from '../../../verbs/grh.ts';
import type { NicFacts, PipelineFacts } from '../../../verbs/nic.ts';
import { egressBytes, ingressBytes, type WireFacts, wireFactsOf } from '../wire.ts';

/** Words of a cost vector: what a request costs one NIC. */
export const Cost = Object.freeze({
  /** Bytes on the link, with headers and gaps: out of the NIC, and into it. */
  LINK_OUT: 0,
  LINK_IN: 1,
  /** Bytes that the NIC reads from host memory, and writes there. */
  PCIE_READ: 2,
  PCIE_WRITE: 3,
  /** Steps of processing units, and the time for which they are occupied, in ns. */
  UNIT_STEPS: 4,
  UNIT_NS: 5,
  /** Packets of requests that the NIC receives, and the time for which they occupy its receiver, in ns. */
  RECEIVED_PACKETS: 6,
  RECEIVER_NS: 7,
  /** Atomics that the NIC executes, and messages that take a receive. */
  ATOMICS: 8,
  RECEIVES: 9,
  /** Look-ups of contexts of queue pairs, of entries of memory regions (MPT), and of entries of their pages (MTT). */
  CONTEXTS: 10,
  REGIONS: 11,
  PAGES: 12,
} as const);
/** Words of one NIC. */
export const NIC_WORDS = 13;
/** In a cost vector, the words of the peer's NIC follow those of the requester's: add this to a word of `Cost`. */
export const AT_PEER = NIC_WORDS;
/** Words of a cost vector. */
export const COST_WORDS = 2 * NIC_WORDS;

/** The requests of an application, or the pieces of a policy. The object may be reused. */
export interface RequestShape {
  /** IBV_WR_*, ISO_WR_*. */
  opcode: number;
  /** Payload; 8 for atomics. */
  bytes: number;
  /** IBV_QPT_*. */
  qpType: number;
  /** Requests posted together, of which the last is signaled. */
  batch: number;
  /** Whether requests carry their payload (IBV_SEND_INLINE). */
  isInline: boolean;
  /** Addresses of the payload are multiples of this. */
  alignBytes: number;
}

/** What the costs of requests depend on. */
export interface CostFacts extends WireFacts, PipelineFacts {
  readonly linkGbps: number | null;
  readonly wqeGapNs: number;
  readonly waitStepNs: number;
  readonly atomicGapNs: number;
  readonly processingUnits: number | null;
  readonly cachedQps: number | null;
}

const ATOMIC_BYTES = 8;

/**
 * For devices that do not report their own: mlx5's sizes of WQEs, CQEs and receives with one element (rdma-core,
 * providers/mlx5/wqe.h), and what OpenURMA and csRNA measured of caches. Times that are unknown count as 0.
 */
const MLX5: PipelineFacts = {
  pcieGbps: null,
  wqeBytes: 64,
  cqeBytes: 64,
  receiveBytes: 16,
  carriesWqe: true,
  readAheadBytes: 16384,
  contextBytes: 512,
  entryBytes: 64,
  dmaReadNs: 500,
  cachedRegions: null,
  cachedPages: null,
  pageBytes: 4096,
  receiverGapNs: 0,
  readGapNs: 0,
  ackEveryPackets: 16,
  acksEachMessage: false,
};

/** The facts that a device reports, and those of mlx5 for what it does not report. */
export function costFactsOf(nic: NicFacts | null): CostFacts {
  return {
    ...(nic?.pipeline ?? MLX5),
    ...wireFactsOf(nic),
    linkGbps: nic?.linkGbps ?? null,
    wqeGapNs: nic?.wqeGapNs ?? 0,
    waitStepNs: nic?.waitStepNs ?? 0,
    atomicGapNs: nic?.atomicGapNs ?? 0,
    processingUnits: nic?.processingUnits ?? null,
    cachedQps: nic?.cachedQps ?? null,
  };
}

/** Sets `cost` (COST_WORDS words) to what one such request costs at its two ends. */
export function costOf(facts: CostFacts, shape: RequestShape, cost: Float64Array): void {
  const { opcode, bytes, qpType, batch } = shape;
  cost.fill(0);
  const out = egressBytes(facts, opcode, bytes);
  cost[Cost.PCIE_READ] = facts.carriesWqe && batch === 1 ? 0 : facts.wqeBytes;
  cost[Cost.PCIE_WRITE] = facts.cqeBytes / batch;
  cost[Cost.UNIT_STEPS] = 1;
  cost[Cost.UNIT_NS] = opcode === ISO_WR_WAIT ? facts.waitStepNs : facts.wqeGapNs;
  cost[Cost.CONTEXTS] = 1;
  if (out === 0) return;
  cost[Cost.LINK_OUT] = cost[AT_PEER + Cost.LINK_IN] = out;
  if (isAtomic(opcode)) atomicCost(facts, opcode, cost);
  else if (opcode === IBV_WR_RDMA_READ) readCost(facts, shape, cost);
  else {
    const acks = qpType === IBV_QPT_RC ? acksOf(facts, bytes, batch) : 0;
    cost[Cost.LINK_IN] = cost[AT_PEER + Cost.LINK_OUT] = acks * ingressBytes(facts, opcode, bytes);
    cost[Cost.CONTEXTS] += acks;
    messageCost(facts, shape, cost);
  }
}

function isAtomic(opcode: number): boolean {
  return opcode === IBV_WR_ATOMIC_CMP_AND_SWP || opcode === IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/** Whether a message takes a receive of the peer. */
function takesReceive(opcode: number): boolean {
  return isSend(opcode) || opcode === IBV_WR_RDMA_WRITE_WITH_IMM;
}

function isSend(opcode: number): boolean {
  return opcode === IBV_WR_SEND || opcode === IBV_WR_SEND_WITH_IMM || opcode === IBV_WR_SEND_WITH_INV;
}

/** Packets of a message, and of the payload of a response. */
function packetsOf({ mtuBytes }: WireFacts, bytes: number): number {
  return Math.max(1, Math.ceil(bytes / mtuBytes));
}

/** Acknowledgements of a message. */
function acksOf(facts: CostFacts, bytes: number, batch: number): number {
  const { ackEveryPackets, acksEachMessage } = facts;
  if (ackEveryPackets === 0) return 0;
  const packets = packetsOf(facts, bytes);
  if (acksEachMessage) return Math.ceil(packets / ackEveryPackets);
  return Math.ceil((packets * batch) / ackEveryPackets) / batch;
}

/** A WRITE or SEND: the requester's NIC reads the payload, and the peer's writes it. */
function messageCost(facts: CostFacts, shape: RequestShape, cost: Float64Array): void {
  const { opcode, bytes, isInline, qpType } = shape;
  if (!isInline) gather(facts, shape, cost, 0);
  scatter(facts, shape, cost, AT_PEER);
  const packets = packetsOf(facts, bytes);
  cost[AT_PEER + Cost.RECEIVED_PACKETS] = packets;
  cost[AT_PEER + Cost.RECEIVER_NS] = packets * facts.receiverGapNs;
  cost[AT_PEER + Cost.CONTEXTS] = packets;
  if (!takesReceive(opcode)) return;
  cost[AT_PEER + Cost.RECEIVES] = 1;
  cost[AT_PEER + Cost.PCIE_READ] += facts.receiveBytes;
  cost[AT_PEER + Cost.PCIE_WRITE] += facts.cqeBytes + (qpType === IBV_QPT_UD ? GRH_BYTES : 0);
}

/** A READ: the peer's NIC reads the payload in a step of its own, and the requester's writes it. */
function readCost(facts: CostFacts, shape: RequestShape, cost: Float64Array): void {
  const { opcode, bytes } = shape;
  cost[Cost.LINK_IN] = cost[AT_PEER + Cost.LINK_OUT] = ingressBytes(facts, opcode, bytes);
  cost[Cost.CONTEXTS] += packetsOf(facts, bytes);
  scatter(facts, shape, cost, 0);
  responseCost(facts, facts.readGapNs, cost);
  // The first page is translated when the request arrives, and again with the payload.
  cost[AT_PEER + Cost.REGIONS] = cost[AT_PEER + Cost.PAGES] = 1;
  gather(facts, shape, cost, AT_PEER);
}

function atomicCost(facts: CostFacts, opcode: number, cost: Float64Array): void {
  cost[Cost.LINK_IN] = cost[AT_PEER + Cost.LINK_OUT] = ingressBytes(facts, opcode, ATOMIC_BYTES);
  cost[Cost.PCIE_WRITE] += ATOMIC_BYTES;
  cost[Cost.CONTEXTS] += 1;
  cost[Cost.REGIONS] = cost[Cost.PAGES] = 1;
  responseCost(facts, facts.receiverGapNs, cost);
  cost[AT_PEER + Cost.PCIE_READ] = ATOMIC_BYTES;
  cost[AT_PEER + Cost.ATOMICS] = 1;
  cost[AT_PEER + Cost.REGIONS] = cost[AT_PEER + Cost.PAGES] = 1;
}

/** What a request that is answered costs the NIC that answers it. */
function responseCost(facts: CostFacts, gapNs: number, cost: Float64Array): void {
  cost[AT_PEER + Cost.UNIT_STEPS] = 1;
  cost[AT_PEER + Cost.UNIT_NS] = facts.wqeGapNs;
  cost[AT_PEER + Cost.RECEIVED_PACKETS] = 1;
  cost[AT_PEER + Cost.RECEIVER_NS] = gapNs;
  cost[AT_PEER + Cost.CONTEXTS] = 1;
}

/** Payload is read from host memory: the first bytes at once, the others packet by packet. */
function gather(facts: CostFacts, { bytes, alignBytes }: RequestShape, cost: Float64Array, at: number): void {
  if (bytes === 0) return;
  const first = Math.min(bytes, facts.readAheadBytes);
  const rest = bytes - first;
  cost[at + Cost.PCIE_READ] += bytes;
  cost[at + Cost.REGIONS] += 1 + Math.ceil(rest / facts.mtuBytes);
  cost[at + Cost.PAGES] += pagesOf(facts, first, alignBytes) + pagesByPacket(facts, rest, alignBytes);
}

/** Payload is written to host memory packet by packet. */
function scatter(
  facts: CostFacts,
  { bytes, alignBytes }: RequestShape,
  cost: Float64Array,
  at: number,
): void {
  if (bytes === 0) return;
  cost[at + Cost.PCIE_WRITE] += bytes;
  cost[at + Cost.REGIONS] += packetsOf(facts, bytes);
  cost[at + Cost.PAGES] += pagesByPacket(facts, bytes, alignBytes);
}

function pagesByPacket(facts: CostFacts, bytes: number, alignBytes: number): number {
  const { mtuBytes } = facts;
  const whole = Math.floor(bytes / mtuBytes);
  const rest = bytes - whole * mtuBytes;
  return whole * pagesOf(facts, mtuBytes, alignBytes) + (rest > 0 ? pagesOf(facts, rest, alignBytes) : 0);
}

/** The mean number of pages that a part of a message touches. */
function pagesOf({ pageBytes }: CostFacts, bytes: number, alignBytes: number): number {
  const unit = Math.min(alignBytes, pageBytes);
  return 1 + (Math.ceil(bytes / unit) - 1) * (unit / pageBytes);
}

/**
 * Adds what misses in the cache of contexts cost.
 * @param at 0 for the requester's NIC, AT_PEER for the peer's
 * @param misses for each request
 * @param unitMisses how many of them occupy a processing unit until the context arrives: those of requests, not those of
 * acknowledgements
 */
export function addContextMisses(
  facts: CostFacts,
  cost: Float64Array,
  at: number,
  misses: number,
  unitMisses: number,
): void {
  const { contextBytes, pcieGbps, dmaReadNs } = facts;
  cost[at + Cost.PCIE_READ] += misses * contextBytes;
  cost[at + Cost.UNIT_NS] +=
    unitMisses * (dmaReadNs + (pcieGbps === null ? 0 : (contextBytes * 8) / pcieGbps));
}

/** Adds what misses of entries of regions and pages cost. */
export function addEntryMisses(facts: CostFacts, cost: Float64Array, at: number, misses: number): void {
  cost[at + Cost.PCIE_READ] += misses * facts.entryBytes;
}
