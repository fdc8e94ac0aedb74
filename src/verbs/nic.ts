/** Facts that `isoverbs calibrate` measures. No device reports them, so they come from a facts file. */
export interface MeasuredFacts {
  /** The rate of long messages on the wire, of one queue pair or several, in Gbit/s. */
  readonly maxGbps: number | null;
  /** Millions of short messages per second: of the whole NIC, and of one queue pair. */
  readonly maxMmps: number | null;
  readonly qpMmps: number | null;
  /**
   * The rates on the wire that one queue pair reaches with messages of these sizes, a few in flight. Ascending by size;
   * never empty.
   */
  readonly chunks: readonly ChunkRate[] | null;
  /** The p99 latency of short WRITEs on an idle NIC, in nanoseconds, by the GID of the peer as text. */
  readonly tailNs: Readonly<Record<string, number>> | null;
}

/** The rate on the wire that chunks of a size reach, in Gbit/s. */
export interface ChunkRate {
  readonly chunkBytes: number;
  readonly gbps: number;
}

/** The measured facts of a device that was not calibrated. */
export const UNMEASURED: MeasuredFacts = {
  maxGbps: null,
  maxMmps: null,
  qpMmps: null,
  chunks: null,
  tailNs: null,
};

/** What a request costs a NIC beyond its link and its processing units. Limits that are unknown or absent are null. */
export interface PipelineFacts {
  /** Usable rate of PCIe in each direction. */
  readonly pcieGbps: number | null;
  /** Bytes of a request, of a completion and of a receive that cross PCIe. */
  readonly wqeBytes: number;
  readonly cqeBytes: number;
  readonly receiveBytes: number;
  /** Whether the doorbell of a single request carries it, so that the NIC need not fetch it (BlueFlame). */
  readonly carriesWqe: boolean;
  /** The first bytes of a message are read at once, the others packet by packet. */
  readonly readAheadBytes: number;
  /** Bytes that the NIC reads after a miss: a context, or the entry of a region or page. Latency of such a read. */
  readonly contextBytes: number;
  readonly entryBytes: number;
  readonly dmaReadNs: number;
  /** Entries of regions (MPT) and pages (MTT) that the NIC caches, and bytes that a page entry translates. */
  readonly cachedRegions: number | null;
  readonly cachedPages: number | null;
  readonly pageBytes: number;
  /** Time for which a packet of a request, or a READ, occupies the receiver of the NIC. */
  readonly receiverGapNs: number;
  readonly readGapNs: number;
  /**
   * Packets after which an acknowledgement is due; 0: acknowledgements are no packets. Messages are acknowledged one by one,
   * or only where the requester asks for a completion.
   */
  readonly ackEveryPackets: number;
  readonly acksEachMessage: boolean;
}

/**
 * Facts about a NIC that no verb reports but policies use: rates and sizes of its pipeline, and what was measured.
 * Unknown facts are null.
 */
export interface NicFacts extends MeasuredFacts {
  readonly linkGbps: number | null;
  /** Path MTU of the port, and the headers and gaps of each packet on the wire. */
  readonly mtuBytes: number | null;
  readonly headerBytes: number | null;
  /** Time for which one WQE, and one 0_WAIT, occupies its queue pair. */
  readonly wqeGapNs: number | null;
  readonly waitStepNs: number | null;
  /** Time for which an atomic occupies the NIC that executes it, whatever its queue pair. */
  readonly atomicGapNs: number | null;
  /** Queue pairs that the NIC serves at a time. */
  readonly processingUnits: number | null;
  /**
   * Whether the NIC takes turns between its queue pairs, a few packets each, at no cost. Soft-RoCE does not: in the
   * kernel, it executes one request after another, each for as long as a CPU takes; in user space, it takes turns, but
   * each piece of a message costs time of the CPU that carries the packets.
   */
  readonly arbitrates: boolean | null;
  /** The buffer that all queue pairs of a port share on the way to the wire. */
  readonly egressFifoBytes: number | null;
  /** Time from the post of a request to its completion on an idle NIC, which fetches the request and its payload. */
  readonly latencyNs: number | null;
  /**
   * Queue pairs whose contexts the NIC caches. It reads other contexts from memory before it serves their queue pairs.
   */
  readonly cachedQps: number | null;
  /** Time from an ENABLE to the request behind the WAIT for the enabled request. */
  readonly handoverNs: number | null;
  /** What requests cost beyond the facts above. */
  readonly pipeline: PipelineFacts | null;
}
