/**
 * What a policy may want to know of a NIC that no verb says: rates and sizes of its pipeline. Null: nobody knows.
 */
export interface NicFacts {
  readonly linkGbps: number | null;
  /** Path MTU of the port, and headers and gaps of each packet on the wire. */
  readonly mtuBytes: number | null;
  readonly headerBytes: number | null;
  /** Time that one WQE keeps its queue pair, and that one 0_WAIT does. */
  readonly wqeGapNs: number | null;
  readonly waitStepNs: number | null;
  /** Queue pairs that the NIC works on at a time. */
  readonly processingUnits: number | null;
  /** What all queue pairs of a port share on its way to the wire. */
  readonly egressFifoBytes: number | null;
  /** From the post of a request to its completion, with nobody else there: the NIC fetches it, and its payload. */
  readonly latencyNs: number | null;
  /** From an ENABLE to the request behind the WAIT that ends with what was enabled. */
  readonly handoverNs: number | null;
}
