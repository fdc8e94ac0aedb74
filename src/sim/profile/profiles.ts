/**
 * The profiles. docs/simulation.md has the sources; "set" there means chosen here and calibrated to published
 * measurements of the bare device. A profile is never changed to favour a policy.
 */
import type { NicParams } from './params.ts';

const NEVER = Number.POSITIVE_INFINITY;

/** No host, PCIe or message-rate limits: only the wire, the headers and the round. */
const IDEAL: Readonly<NicParams> = Object.freeze({
  postCallNs: 0,
  postWrNs: 0,
  doorbellNs: 0,
  pollHitNs: 0,
  pollMissNs: 25,
  interceptorWrNs: 0,
  timerLateNs: 0,
  agentLoss: 0,
  hostJitter: 0,
  pinPageNs: 0,
  unpinPageNs: 0,
  mmioNs: 0,
  blueFlame: 1,
  dmaReadNs: 0,
  dmaWriteNs: 0,
  pcieJitter: 0,
  pcieGbps: NEVER,
  pciePayloadBytes: NEVER,
  pcieHeaderBytes: 24,
  dmaReads: NEVER,
  wqeFetchBatch: NEVER,
  wqeBytes: 64,
  cqeBytes: 64,
  readAheadBytes: 16384,
  inlineMaxBytes: 220,
  cqeWriteNs: 0,
  qpcEntries: NEVER,
  qpcBytes: 512,
  mptEntries: NEVER,
  mttEntries: NEVER,
  recvWqeEntries: NEVER,
  pageBytes: 4096,
  mrCommandNs: 0,
  mrFlush: 'none',
  processingUnits: NEVER,
  wqeGapNs: 0,
  waitStepNs: 80.6,
  enableStepNs: 80.6,
  rnrUnitNs: 0,
  rxGapNs: 0,
  readGapNs: 0,
  atomicGapNs: 0,
  scheduler: 'rr',
  rrOrder: 'tail',
  puHoldBytes: 0,
  egressFifoBytes: 48 * 1024,
  etsWeights: Object.freeze([16, 1]),
  palosSums: 'configured',
  palosChunkBytes: 0,
  palosFifoBytes: 0,
  palosUrgentBytes: 0,
  palosUrgentShare: 0.05,
  palosWqeBatch: 32,
  linkGbps: 100,
  loopbackGbps: 100,
  mtuBytes: 4096,
  headerBytes: 82,
  rethBytes: 16,
  ackBytes: 86,
  ackReturnNs: 0,
  ackRequests: 'signaled',
  ackEveryPackets: 16,
  rateLimiter: 'bucket',
  rateLimiters: NEVER,
  rateError: 0,
  rateChangeNs: 0,
  propagationNs: 100,
  rxNs: 0,
  switchNs: 270,
  switchBufferBytes: 32e6,
  // Above the threshold at which ECN marks every packet, so that congestion control acts first (DCQCN,
  // section 4).
  pfcXoffBytes: 1e6,
  pfcXonBytes: 990e3,
  ecnKminBytes: 400e3,
  ecnKmaxBytes: 1600e3,
  ecnPmax: 0.2,
  congestionControl: 'none',
  cnpIntervalNs: 50e3,
  dcqcnAlphaTimerNs: 1e3,
  dcqcnDecreaseTimerNs: 4e3,
  dcqcnIncreaseTimerNs: 300e3,
  dcqcnG: 1 / 256,
  dcqcnAiMbps: 20,
  dcqcnHaiMbps: 200,
  dcqcnMinMbps: 100,
  dcqcnFastRecoveries: 5,
  rendezvousNs: 5000,
});

/**
 * The minimal NIC: steps, a shared FIFO, a round and four latencies. It was fixed before any policy was
 * written, from PeRF's published rates, and the other profiles are compared with it. The base latency of a
 * small message, from post to completion, is 0.9 us plus one step and its time on the wire.
 */
export const MINIMAL_NIC: Readonly<NicParams> = Object.freeze({
  ...IDEAL,
  // One QP with small messages: 12.4 M/s (PeRF, and the configuration of its artefact).
  wqeGapNs: 80.6,
  // 0.9 us in total, derived from PeRF's latencies. The split into four is a choice of this model.
  mmioNs: 350,
  propagationNs: 200,
  ackReturnNs: 200,
  cqeWriteNs: 150,
  ackBytes: 0,
  ackRequests: 'message',
  // RoCEv2: Ethernet 14+4, preamble and gap 20, IPv4 20, UDP 8, BTH 12.
  headerBytes: 78,
  rethBytes: 0,
});

/** A device without modelled costs, whose packets leave through an uplink to a real network. */
export const UPLINK_NIC: Readonly<NicParams> = Object.freeze({
  ...IDEAL,
  pollMissNs: 0,
  waitStepNs: 0,
  enableStepNs: 0,
  linkGbps: NEVER,
  loopbackGbps: NEVER,
  propagationNs: 0,
  // Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4.
  headerBytes: 58,
  ackBytes: 62,
});

const CX6_100G: Readonly<NicParams> = Object.freeze({
  ...IDEAL,
  postCallNs: 30,
  postWrNs: 20,
  doorbellNs: 80,
  pollHitNs: 60,
  interceptorWrNs: 10,
  hostJitter: 0.05,
  // Pages of 4 KiB: 256 GB in 20 s (libfabric), 500 GB in 49 s and released in 12 s (Mooncake).
  pinPageNs: 300,
  unpinPageNs: 90,
  mmioNs: 150,
  dmaReadNs: 500,
  dmaWriteNs: 250,
  pcieJitter: 0.05,
  pcieGbps: 220,
  dmaReads: 256,
  wqeFetchBatch: 8,
  qpcEntries: 512,
  mptEntries: 40_000,
  mttEntries: 50_000,
  mrCommandNs: 20e3,
  processingUnits: 9,
  wqeGapNs: 80.6,
  rxGapNs: 1000 / 112,
  readGapNs: 1000 / 111,
  atomicGapNs: 200,
  rateLimiters: 1000,
  rateError: 0.1,
  rateChangeNs: 2e6,
  rxNs: 120,
});

const CX5_100G: Readonly<NicParams> = Object.freeze({
  ...CX6_100G,
  pcieGbps: 125,
  qpcEntries: 450,
  wqeGapNs: 100,
  waitStepNs: 100,
  enableStepNs: 100,
  rxGapNs: 1000 / 90,
  readGapNs: 1000 / 60,
  egressFifoBytes: 16 * 1024,
  rrOrder: 'fixed',
  // Calibrated: a small WRITE takes 1.03 us from post to polled completion.
  rxNs: 50,
});

const CX5_40G: Readonly<NicParams> = Object.freeze({ ...CX5_100G, linkGbps: 40, loopbackGbps: 40 });

const CX4_40G: Readonly<NicParams> = Object.freeze({
  ...CX5_40G,
  egressFifoBytes: 20 * 1024,
  rrOrder: 'tail',
  rxNs: CX6_100G.rxNs,
});

const CX3_56G: Readonly<NicParams> = Object.freeze({
  ...CX6_100G,
  linkGbps: 56,
  loopbackGbps: 56,
  pcieGbps: 56,
  dmaReadNs: 600,
  cqeBytes: 32,
  qpcEntries: 256,
  mptEntries: 10_000,
  mttEntries: 12_000,
  processingUnits: 3,
  wqeGapNs: 114,
  waitStepNs: 300,
  enableStepNs: 700,
  rxGapNs: 1000 / 26,
  readGapNs: 1000 / 15,
  atomicGapNs: 1000 / 2.2,
  scheduler: 'greedy',
  puHoldBytes: 80 * 1024,
  // Calibrated: a little more than one packet. With 9 KB (two packets), a small message next to a large one
  // takes 2.3 times as long instead of 1.85.
  egressFifoBytes: 8 * 1024,
  ecnKminBytes: 224e3,
  ecnKmaxBytes: 896e3,
  dcqcnAlphaTimerNs: 50e3,
  dcqcnDecreaseTimerNs: 50e3,
  dcqcnIncreaseTimerNs: 55e3,
  dcqcnAiMbps: 11,
  dcqcnHaiMbps: 112,
});

/** Resembles soft-RoCE in an emulated machine, where one CPU does everything. No fidelity is claimed. */
const RXE: Readonly<NicParams> = Object.freeze({
  ...IDEAL,
  inlineMaxBytes: 400,
  processingUnits: 1,
  wqeGapNs: 21e3,
  waitStepNs: 21e3,
  enableStepNs: 21e3,
  egressFifoBytes: 64 * 1024,
  linkGbps: 1.13,
  loopbackGbps: 1.13,
  rateLimiters: 0,
});

/** Profiles by name. */
export const PROFILES: Readonly<Record<string, Readonly<NicParams>>> = Object.freeze({
  minimal: MINIMAL_NIC,
  ideal: IDEAL,
  'cx6-100g': CX6_100G,
  'cx5-100g': CX5_100G,
  'cx5-40g': CX5_40G,
  'cx4-40g': CX4_40G,
  'cx3-56g': CX3_56G,
  rxe: RXE,
});
