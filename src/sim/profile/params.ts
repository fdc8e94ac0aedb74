/**
 * The numbers of a simulated host, its NIC and its network. A profile (profiles.ts) is one such object; nothing
 * else in src/sim is tuned. Names, units and sources are listed in docs/simulation.md.
 */

/** In which order an egress port serves what is ready: see docs/simulation.md. */
export type SchedulerName = 'rr' | 'sp' | 'ets' | 'greedy';
/** Where a queue pair that has a packet again stands in the round: behind all others, or where it always stood. */
export type RrOrder = 'tail' | 'fixed';
/** What asks the responder for an acknowledgement: every message, or only signaled ones and the last of a run. */
export type AckRequests = 'message' | 'signaled';
/** Congestion control of the NIC. */
export type CongestionControl = 'none' | 'dcqcn';

/** The numbers of a simulated host, its NIC and its network; docs/simulation.md has the sources. */
export interface NicParams {
  // Host CPU; charged to applications inside the simulation, never to a program that runs outside of it.
  /** A call of ibv_post_send, and each request in it. */
  postCallNs: number;
  postWrNs: number;
  /** The store that rings the doorbell. */
  doorbellNs: number;
  /** A polled completion, and a poll that finds nothing. */
  pollHitNs: number;
  pollMissNs: number;
  /** What each interceptor costs for each request and each completion. */
  interceptorWrNs: number;
  /** All of the above vary by this share, up and down. */
  hostJitter: number;

  // PCIe.
  /** Doorbell store to NIC. */
  mmioNs: number;
  /** Whether a doorbell for one request carries it, so that it need not be fetched: 1 or 0. */
  blueFlame: number;
  /** Latency of a DMA read and of a posted write; reads vary by the share pcieJitter. */
  dmaReadNs: number;
  dmaWriteNs: number;
  pcieJitter: number;
  /** Usable rate, in each direction. */
  pcieGbps: number;
  /** Short DMA reads in flight: a batch of WQEs, a small message or a context each. */
  dmaReads: number;
  /** WQEs that are fetched at once; the next two are fetched while one is worked on. */
  wqeFetchBatch: number;
  wqeBytes: number;
  cqeBytes: number;
  /** Payload that each queue pair has read ahead of its turn. */
  readAheadBytes: number;
  /** Largest message that travels inside its WQE. */
  inlineMaxBytes: number;
  /** Beside dmaWriteNs: request finished to completion visible. */
  cqeWriteNs: number;

  // Caches of the NIC: entries, and the memory behind one. A miss costs a DMA read.
  qpcEntries: number;
  qpcBytes: number;
  mptEntries: number;
  mttEntries: number;
  /** What one MTT entry translates. */
  pageBytes: number;

  // Processing units.
  processingUnits: number;
  /** Time that one WQE keeps a unit, and with it its queue pair. */
  wqeGapNs: number;
  /** The same for each single 0_WAIT and for a WAIT, and for an ENABLE. */
  waitStepNs: number;
  enableStepNs: number;
  /** The receiver, per packet: its total rates for requests, READs and atomics. */
  rxGapNs: number;
  readGapNs: number;
  atomicGapNs: number;

  // Egress.
  scheduler: SchedulerName;
  rrOrder: RrOrder;
  /** `greedy`: a unit keeps its queue pair until so many bytes are sent. */
  puHoldBytes: number;
  /** What all QPs of a port (`sp`, `ets`: of a class) share; bytes count with headers, until the last bit has left. */
  egressFifoBytes: number;
  /** `ets`: weight of each class; a turn is weight x MTU bytes. */
  etsWeights: readonly number[];
  linkGbps: number;
  /** Rate of the path back into the same NIC; it has a FIFO of its own. */
  loopbackGbps: number;
  /** Largest path MTU of the port. */
  mtuBytes: number;
  /** Headers and gaps of every packet on the wire, and of the first of a WRITE, READ or atomic beside. */
  headerBytes: number;
  rethBytes: number;
  /** An acknowledgement on the wire; 0: acknowledgements take ackReturnNs and no bandwidth. */
  ackBytes: number;
  ackReturnNs: number;
  ackRequests: AckRequests;
  /** A packet inside a message asks for an acknowledgement after so many without. */
  ackEveryPackets: number;
  /** Hardware rate limiters, how far their rates are off at most (a share), and how long a change takes. */
  rateLimiters: number;
  rateError: number;
  rateChangeNs: number;

  // Wire and switches.
  /** Last bit out of a port to the other end of its cable. */
  propagationNs: number;
  /** Packet in the receiver to executed. */
  rxNs: number;
  /** Packet in a switch to its output queue. */
  switchNs: number;
  /** Buffer of a switch, shared by its ports. */
  switchBufferBytes: number;
  /** An ingress port of a switch pauses its sender above xoff, and lets it go on below xon. 0: no PFC. */
  pfcXoffBytes: number;
  pfcXonBytes: number;
  /** ECN: marks begin at Kmin, are sure from Kmax on, and have probability Pmax just below that. 0: none. */
  ecnKminBytes: number;
  ecnKmaxBytes: number;
  ecnPmax: number;
  congestionControl: CongestionControl;
  /** At most one congestion notification per flow in this time. */
  cnpIntervalNs: number;
  dcqcnAlphaTimerNs: number;
  dcqcnDecreaseTimerNs: number;
  dcqcnIncreaseTimerNs: number;
  dcqcnG: number;
  dcqcnAiMbps: number;
  dcqcnHaiMbps: number;
  dcqcnMinMbps: number;
  /** Timer periods after a cut in which the rate goes back to where it was, before it grows beyond. */
  dcqcnFastRecoveries: number;

  /** One message of the in-memory rendezvous. */
  rendezvousNs: number;
}

/**
 * What a policy's own steps cost the core that runs it, beside what the application pays for its posts and polls.
 * No part of a profile: without a policy nothing of it is charged.
 */
export interface ShimCosts {
  /** A batch that a policy issues, and each request in it. */
  shimPostNs: number;
  shimWrNs: number;
  /** `worker`: from the application's post to the worker's core that finds it. */
  handoverNs: number;
}

/**
 * A held request costs 70 ns more than one that goes straight (165 and 96 ns at batch 1, on the prototype over a C++
 * provider), 12 ns more each in a batch; half of the shortest round trip over a worker is 600 ns
 * (`npm run bench:driver`, less what the shim itself takes).
 */
export const SHIM_COSTS: Readonly<ShimCosts> = Object.freeze({
  shimPostNs: 70,
  shimWrNs: 12,
  handoverNs: 600,
});

/** Choices of the parameters that are words. */
export const WORDS: Readonly<Record<string, readonly string[]>> = Object.freeze({
  scheduler: ['rr', 'sp', 'ets', 'greedy'],
  rrOrder: ['tail', 'fixed'],
  ackRequests: ['message', 'signaled'],
  congestionControl: ['none', 'dcqcn'],
});
