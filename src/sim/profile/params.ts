/**
 * The parameters of a simulated host, its NIC and its network. A profile (profiles.ts) is one such object,
 * and src/sim has no other tunables. docs/simulation.md lists names, units and sources.
 */

/** How an egress port orders ready packets; see docs/simulation.md. */
export type SchedulerName = 'rr' | 'sp' | 'ets' | 'greedy' | 'palos';
/** The queue pairs among which `palos` divides the weights; see chunk-weights.ts. */
export type PalosSums = 'configured' | 'active';
/** Position in the round of a queue pair that has another packet: at the end, or fixed. */
export type RrOrder = 'tail' | 'fixed';
/**
 * Which packets request an acknowledgement: the last of every message, or only of signaled ones and at the
 * end of a run.
 */
export type AckRequests = 'message' | 'signaled';
/** How rate limits are kept: a leaky bucket per limiter, or Tassel's tags (egress/tassel). */
export type RateLimiterName = 'bucket' | 'tassel';
/** Translations that a deregistration removes from the caches, in addition to those of its region. */
export type MrFlush = 'none' | 'all';
/** Congestion control of the NIC. */
export type CongestionControl = 'none' | 'dcqcn';

/** The parameters of a simulated host, its NIC and its network; docs/simulation.md has the sources. */
export interface NicParams {
  // Host CPU. Charged to applications inside the simulation, never to a program outside of it.
  /** Cost of a call to ibv_post_send, and of each request in it. */
  postCallNs: number;
  postWrNs: number;
  /** Cost of the doorbell store. */
  doorbellNs: number;
  /** Cost of a polled completion, and of a poll that finds nothing. */
  pollHitNs: number;
  pollMissNs: number;
  /** Cost of each interceptor per request and per completion. */
  interceptorWrNs: number;
  /**
   * How late a host notices that a policy's timer has expired, unless a call of the application finds it first. 0 is the
   * exact time, which flatters every pacer.
   */
  timerLateNs: number;
  /** Probability that a message of a policy's agent to another host is lost. */
  agentLoss: number;
  /** Relative jitter of the costs above, in both directions. */
  hostJitter: number;

  /** Time for which the host pins a page of memory that is registered, and releases a page that is deregistered. */
  pinPageNs: number;
  unpinPageNs: number;

  // PCIe.
  /** Time from the doorbell store to the NIC. */
  mmioNs: number;
  /** Whether the doorbell of a single request carries it, which saves the fetch: 1 or 0. */
  blueFlame: number;
  /** Latency of a DMA read and of a posted write, and their relative jitter. */
  dmaReadNs: number;
  dmaWriteNs: number;
  pcieJitter: number;
  /** Usable rate in each direction. */
  pcieGbps: number;
  /**
   * Payload of a PCIe packet, each of which has a header of pcieHeaderBytes. pcieGbps is the rate with full packets; Infinity:
   * whatever the size of a transfer.
   */
  pciePayloadBytes: number;
  pcieHeaderBytes: number;
  /** Maximum of short DMA reads in flight; each fetches a batch of WQEs, a small message or a context. */
  dmaReads: number;
  /** WQEs per fetch. Two further batches are fetched while one is processed. */
  wqeFetchBatch: number;
  wqeBytes: number;
  cqeBytes: number;
  /** Payload that each queue pair reads ahead. */
  readAheadBytes: number;
  /** Largest message that travels inside its WQE. */
  inlineMaxBytes: number;
  /** Time from the finished request to the visible completion, in addition to dmaWriteNs. */
  cqeWriteNs: number;

  // NIC caches: entries, and bytes of host memory per entry. A miss costs a DMA read.
  qpcEntries: number;
  qpcBytes: number;
  mptEntries: number;
  mttEntries: number;
  /** Receives that the NIC holds for all receive queues. Infinity: none of those fetched ahead is lost. */
  recvWqeEntries: number;
  /** Bytes that one MTT entry translates. */
  pageBytes: number;
  /** Time for which the NIC executes the command that registers or deregisters a region; one command at a time. */
  mrCommandNs: number;
  /** Which entries of regions and pages a deregistration removes, in addition to its own. */
  mrFlush: MrFlush;

  // Processing units.
  processingUnits: number;
  /** Time for which one WQE occupies a unit, and with it its queue pair. */
  wqeGapNs: number;
  /** The same time for a WAIT or each single 0_WAIT, and for an ENABLE. */
  waitStepNs: number;
  enableStepNs: number;
  /**
   * Time for which a message that finds no receive occupies a unit of the receiver, and an RNR NAK one of the sender. The
   * repeated message takes a step like any other.
   */
  rnrUnitNs: number;
  /** Receiver time per packet: for requests, READs and atomics, over all queue pairs. */
  rxGapNs: number;
  readGapNs: number;
  atomicGapNs: number;

  // Egress.
  scheduler: SchedulerName;
  rrOrder: RrOrder;
  /** With `greedy`, a unit keeps its queue pair until this many bytes are sent. */
  puHoldBytes: number;
  /**
   * FIFO shared by all QPs of a port (with `sp` and `ets`, of a class). Bytes count with headers until the last bit
   * has left.
   */
  egressFifoBytes: number;
  /** With `ets`: weight of each class, whose quantum is weight x MTU bytes. */
  etsWeights: readonly number[];
  /** With `palos`: the queue pairs that count in the sums of weights. */
  palosSums: PalosSums;
  /** With `palos`: mean chunk, in payload bytes; N is this times the number of queue pairs. 0: the MTU, as in the paper. */
  palosChunkBytes: number;
  /**
   * With `palos`: takes the place of egressFifoBytes. 0: two packets of the MTU with headers, one on the wire and one
   * behind it. With fewer, the wire would be idle while the scheduler chooses; more of them would only delay what is
   * urgent, because packets in the FIFO keep their order.
   */
  palosFifoBytes: number;
  /** With `palos`: longest message that a queue pair labelled `latency` sends before all others. 0: the MTU. */
  palosUrgentBytes: number;
  /**
   * With `palos`: the part of the link that those messages may take, headers included. 1: no limit, as in the paper. 0: the
   * label has no effect.
   */
  palosUrgentShare: number;
  /** With `palos`: takes the place of wqeFetchBatch. */
  palosWqeBatch: number;
  linkGbps: number;
  /** Rate of the loopback path, which has its own FIFO. */
  loopbackGbps: number;
  /** Largest path MTU of the port. */
  mtuBytes: number;
  /**
   * Headers and gaps of every packet on the wire, and extra headers of the first packet of a WRITE, READ or
   * atomic.
   */
  headerBytes: number;
  rethBytes: number;
  /** Bytes of an acknowledgement on the wire. With 0, acknowledgements take ackReturnNs and no bandwidth. */
  ackBytes: number;
  ackReturnNs: number;
  ackRequests: AckRequests;
  /** Packets inside a message after which one requests an acknowledgement. */
  ackEveryPackets: number;
  /** With `tassel`, which is exact, unlimited in number and without delay, the next three have no effect. */
  rateLimiter: RateLimiterName;
  /** Number of hardware rate limiters, maximum relative error of their rates, and delay of a change. */
  rateLimiters: number;
  rateError: number;
  rateChangeNs: number;

  // Wire and switches.
  /** Time from the last bit out of a port to the other end of its cable. */
  propagationNs: number;
  /** Time from arrival in the receiver to execution. */
  rxNs: number;
  /** Time from arrival in a switch to its output queue. */
  switchNs: number;
  /** Buffer of a switch, shared by its ports. */
  switchBufferBytes: number;
  /** An ingress port of a switch pauses its sender above xoff and resumes it below xon. 0 disables PFC. */
  pfcXoffBytes: number;
  pfcXonBytes: number;
  /**
   * ECN marks from Kmin on, with a probability that reaches Pmax at Kmax; above Kmax every packet is marked.
   * 0 disables ECN.
   */
  ecnKminBytes: number;
  ecnKmaxBytes: number;
  ecnPmax: number;
  congestionControl: CongestionControl;
  /** The minimum time between two congestion notifications of a flow. */
  cnpIntervalNs: number;
  dcqcnAlphaTimerNs: number;
  dcqcnDecreaseTimerNs: number;
  dcqcnIncreaseTimerNs: number;
  dcqcnG: number;
  dcqcnAiMbps: number;
  dcqcnHaiMbps: number;
  dcqcnMinMbps: number;
  /** Timer periods after a cut in which the rate returns to its old value, before it grows further. */
  dcqcnFastRecoveries: number;

  /** Delay of one message of the in-memory rendezvous. */
  rendezvousNs: number;
}

/**
 * CPU costs of a policy's own steps, in addition to the application's posts and polls. They are not part of a
 * profile, and nothing is charged without a policy.
 */
export interface ShimCosts {
  /** Cost of a batch that a policy issues, and of each request in it. */
  shimPostNs: number;
  shimWrNs: number;
  /** With `worker`: time from the application's post until the worker's core finds it. */
  handoverNs: number;
}

/**
 * At batch 1, a held request costs 70 ns more than one passed straight through (165 and 96 ns, measured on
 * the prototype over a C++ provider). In a batch, each request costs 12 ns more. Half of the shortest round
 * trip over a worker is 600 ns (`npm run bench:driver`, without the shim's own share).
 */
export const SHIM_COSTS: Readonly<ShimCosts> = Object.freeze({
  shimPostNs: 70,
  shimWrNs: 12,
  handoverNs: 600,
});

/** The coordinators of hosts. Like ShimCosts, these are not part of a profile. */
export interface CoordinatorCosts {
  /** From the end of a member's process until its share goes to the others. */
  livenessNs: number;
  /** From a decision until members see the grants that it has changed. 0: at once, which flatters every policy. */
  grantNs: number;
  /**
   * Time that the coordinator's core takes for one decision of a ruler; decisions wait for each other. 0: members decide
   * themselves, at no cost.
   */
  passNs: number;
}

/** The period is short next to a run of milliseconds; the daemon takes a silent client for gone after 50 ms. */
export const COORDINATOR_COSTS: Readonly<CoordinatorCosts> = Object.freeze({
  livenessNs: 1e6,
  grantNs: 0,
  passNs: 0,
});

/** Allowed values of the parameters that are words. */
export const WORDS: Readonly<Record<string, readonly string[]>> = Object.freeze({
  scheduler: ['rr', 'sp', 'ets', 'greedy', 'palos'],
  rrOrder: ['tail', 'fixed'],
  ackRequests: ['message', 'signaled'],
  palosSums: ['configured', 'active'],
  rateLimiter: ['bucket', 'tassel'],
  mrFlush: ['none', 'all'],
  congestionControl: ['none', 'dcqcn'],
});
