/** Uses WRITEs to peers to measure the facts of a device that no verb reports (docs/configuration.md, *Facts*). */
import type { Context } from '../../objects/index.ts';
import { TailEstimator } from '../../policies/kit/tail-estimator.ts';
import { egressBytes, wireFactsOf } from '../../policies/kit/wire.ts';
import { type ChunkRate, IBV_WR_RDMA_WRITE, type MeasuredFacts } from '../../verbs/index.ts';
import { Flows, type FlowsOptions, type Load } from './flows.ts';

/** The chunk sizes in the dictionary. */
export const CHUNK_BYTES: readonly number[] = [1, 2, 3, 4, 5, 8, 10, 16, 32, 64].map((kib) => kib * 1024);
/** Chunks that the queue pair has in flight while a chunk size is measured. */
const CHUNKS_IN_FLIGHT = 4;

const LONG = { bytes: 2 ** 20, lists: 4 };
const LONG_QPS = 4;

/** Short messages: WRITEs per list, which are posted together, and lists in flight. */
const SHORT = { bytes: 16, list: 16, lists: 8 };
const SHORT_DEPTH = SHORT.list * SHORT.lists;
const SHORT_QPS = 8;

/** Like Justitia's reference flows: 10 bytes every 20 us. */
const PROBE_BYTES = 10;
const PROBE_EVERY_NS = 20_000;

const RUNS = 3;

/**
 * How much each run measures: messages per queue pair, lists of short messages per queue pair, chunks of each size, and
 * probes of each peer.
 */
export interface Effort {
  readonly longMessages: number;
  readonly shortLists: number;
  readonly chunks: number;
  readonly probes: number;
}

/** The default effort, which takes a few seconds on a simulated device or soft-RoCE. */
export const EFFORT: Effort = { longMessages: 16, shortLists: 80, chunks: 150, probes: 2000 };

/**
 * Measures a device with WRITEs to its peers: rates to the first peer, and latencies to each peer. Each rate is the
 * best of three runs, because other load on the machine can only lower it. Each run of a rate begins with unmeasured
 * messages, half as many as the measured ones.
 *
 * - `maxGbps`: the highest rate, either of WRITEs of 1 MiB on one or four queue pairs, four in flight on each, or in
 *   `chunks`.
 * - `maxMmps`, `qpMmps`: the rates of WRITEs of 16 bytes on eight queue pairs, and on one, in lists of 16, with eight
 *   lists in flight on each.
 * - `chunks`: for each size, the rate of one queue pair that sends chunks of this size, with four in flight.
 * - `tailNs`: the p99 latency of single WRITEs of 10 bytes, sent every 20 us, by each GID of each peer.
 *
 * Rates in Gbit/s are those on the wire, including the headers that the device reports, or otherwise those of RoCEv2.
 * @throws CompletionError, ConnectionError, NoResourcesError
 */
export function calibrate(from: Context, peers: readonly Context[], effort: Effort = EFFORT): MeasuredFacts {
  const to = peers[0];
  const wire = wireFactsOf(from.provider.describeNic?.(from.handle) ?? null);
  const gbps = (flows: Flows, load: Load) =>
    rounded((8 * egressBytes(wire, IBV_WR_RDMA_WRITE, load.bytes)) / bestNs(flows, load));
  const mmps = (flows: Flows) => rounded(1000 / bestNs(flows, { ...SHORT, measured: effort.shortLists }));
  const long = { ...LONG, measured: effort.longMessages };
  const one = withFlows(from, to, { qps: 1, maxBytes: LONG.bytes, depth: SHORT_DEPTH }, (flows) => ({
    gbps: gbps(flows, long),
    mmps: mmps(flows),
    chunks: CHUNK_BYTES.map((bytes): ChunkRate => {
      const load = { bytes, lists: CHUNKS_IN_FLIGHT, measured: effort.chunks };
      return { chunkBytes: bytes, gbps: gbps(flows, load) };
    }),
  }));
  const longOptions = { qps: LONG_QPS, maxBytes: LONG.bytes, depth: LONG.lists };
  const manyGbps = withFlows(from, to, longOptions, (flows) => gbps(flows, long));
  const shortOptions = { qps: SHORT_QPS, maxBytes: SHORT.bytes, depth: SHORT_DEPTH };
  const manyMmps = withFlows(from, to, shortOptions, mmps);
  return {
    maxGbps: Math.max(one.gbps, manyGbps, ...one.chunks.map((chunk) => chunk.gbps)),
    maxMmps: Math.max(one.mmps, manyMmps),
    qpMmps: one.mmps,
    chunks: one.chunks,
    tailNs: Object.fromEntries(peers.flatMap((peer) => tailsOf(from, peer, effort.probes))),
  };
}

/** Nanoseconds per message in the best run. */
function bestNs(flows: Flows, load: Load): number {
  return Math.min(...Array.from({ length: RUNS }, () => flows.nsPerMessage(load)));
}

/** The tail latency to an idle peer, by each of the peer's GIDs. */
function tailsOf(from: Context, peer: Context, probes: number): [gid: string, ns: number][] {
  const options = { qps: 1, maxBytes: PROBE_BYTES, depth: 1 };
  const tailNs = withFlows(from, peer, options, (flows) => {
    const estimator = new TailEstimator({ windowSamples: probes });
    const pace = { samples: probes, everyNs: PROBE_EVERY_NS };
    for (const ns of flows.latenciesNs(PROBE_BYTES, pace)) estimator.add(ns);
    return estimator.valueNs();
  });
  return [...new Set(peer.gids().map(({ gid }) => gid))].map((gid) => [gid, tailNs]);
}

function withFlows<T>(from: Context, to: Context, options: FlowsOptions, measure: (flows: Flows) => T): T {
  const flows = new Flows(from, to, options);
  try {
    return measure(flows);
  } finally {
    flows.close();
  }
}

/** Rounds to four digits; on a real device, runs agree on fewer. */
const rounded = (rate: number) => Number(rate.toPrecision(4));
