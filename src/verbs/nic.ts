/**
 * Facts about a NIC that no verb reports but policies use: rates and sizes of its pipeline. Unknown facts are null.
 */
export interface NicFacts {
  readonly linkGbps: number | null;
  /** Path MTU of the port, and the headers and gaps of each packet on the wire. */
  readonly mtuBytes: number | null;
  readonly headerBytes: number | null;
  /** Time for which one WQE, and one 0_WAIT, occupies its queue pair. */
  readonly wqeGapNs: number | null;
  readonly waitStepNs: number | null;
  /** Queue pairs that the NIC serves at a time. */
  readonly processingUnits: number | null;
  /** The buffer that all queue pairs of a port share on the way to the wire. */
  readonly egressFifoBytes: number | null;
  /** Time from the post of a request to its completion on an idle NIC, which fetches the request and its payload. */
  readonly latencyNs: number | null;
  /** Time from an ENABLE to the request behind the WAIT for the enabled request. */
  readonly handoverNs: number | null;
}
