/** The numbers of a simulated NIC. A profile is one such object; nothing else in src/sim is tuned. */
export interface NicParams {
  /** Time that one WQE, and each single 0_WAIT, keeps its queue pair's processing unit. */
  wqeStepNs: number;
  /** Doorbell write to WQE in the NIC, payload fetch of the first packet included. */
  doorbellFetchNs: number;
  /** Last bit out of the sender to packet executed in the receiver. */
  oneWayNs: number;
  /** Packet executed to acknowledgement understood by the requester. */
  ackReturnNs: number;
  /** Request finished to completion visible in host memory. */
  cqeWriteNs: number;
  linkGbps: number;
  /** Rate of the path back into the same NIC; it has a FIFO of its own. */
  loopbackGbps: number;
  /** What all QPs of a port share; bytes count with their headers, until the last bit has left. */
  egressFifoBytes: number;
  /** Largest path MTU of the port. */
  mtuBytes: number;
  /** Headers and gaps of every packet on the wire. */
  headerBytes: number;
  /** A responder acknowledges the last packet of a message, and every so many packets inside one. */
  ackEveryPackets: number;
  /** Virtual time that an empty pollCq takes. */
  pollMissNs: number;
  /** One message of the in-memory rendezvous. */
  rendezvousNs: number;
}

/**
 * The minimal NIC that the first policies are judged on. It was fixed before any policy was written, from
 * PeRF's published rates, and is never tuned to one. Base latency of a small message, post to completion,
 * is doorbellFetchNs + oneWayNs + ackReturnNs + cqeWriteNs = 0.9 us, plus one step and its time on the wire.
 */
export const MINIMAL_NIC: Readonly<NicParams> = Object.freeze({
  // One QP of small messages: 12.4 M/s (PeRF, and its artefact's configuration).
  wqeStepNs: 80.6,
  // 0.9 us in all (derived from PeRF's latencies); the split in four is a choice of this model.
  doorbellFetchNs: 350,
  oneWayNs: 200,
  ackReturnNs: 200,
  cqeWriteNs: 150,
  linkGbps: 100,
  // An assumption: no paper tells. Loopback does not queue behind the wire.
  loopbackGbps: 100,
  // Fitted to the bare B + D latency of PeRF (4.8 times alone): 11 packets of 4096 B.
  egressFifoBytes: 48 * 1024,
  mtuBytes: 4096,
  // RoCEv2: Ethernet 14+4, preamble and gap 20, IPv4 20, UDP 8, BTH 12.
  headerBytes: 78,
  // A choice; keeps the retry timer of long messages fed.
  ackEveryPackets: 16,
  // One iteration of a polling loop over a cached CQE.
  pollMissNs: 25,
  rendezvousNs: 5000,
});

/** Profiles by name. */
export const PROFILES: Readonly<Record<string, Readonly<NicParams>>> = Object.freeze({
  minimal: MINIMAL_NIC,
});
