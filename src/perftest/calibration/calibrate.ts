/** Measures the facts of a device that no verb reports, with WRITEs to its peers (docs/configuration.md, *Facts*). */
import type { Context } from '../../objects/index.ts';
import { TailEstimator } from '../../policies/kit/tail-estimator.ts';
import { egressBytes, wireFactsOf } from '../../policies/kit/wire.ts';
import { type ChunkRate, IBV_WR_RDMA_WRITE, type MeasuredFacts } from '../../verbs/index.ts';
import { Flows, type FlowsOptions, type Load } from './flows.ts';

/** Sizes in the chunk dictionary. */
export const CHUNK_BYTES: readonly number[] = [1, 2, 3, 4, 5, 8, 10, 16, 32, 64].map((kib) => kib * 1024);
/** Chunks that the dictionary's queue pair has in flight. */
const CHUNKS_IN_FLIGHT = 4;

const LONG = { bytes: 2 ** 20, lists: 4 };
const LONG_QPS = 4;

/** Lists of messages that are posted together. */
const SHORT = { bytes: 16, list: 16, lists: 8 };
const SHORT_DEPTH = SHORT.list * SHORT.lists;
const SHORT_QPS = 8;

/** As Justitia's reference flows: 10 bytes every 20 us. */
const PROBE_BYTES = 10;
const PROBE_EVERY_NS = 20_000;

const RUNS = 3;

/** How much each run measures: messages, or lists of short messages, of each queue pair. */
export interface Effort {
  readonly longMessages: number;
  readonly shortLists: number;
  readonly chunks: number;
  readonly probes: number;
}

/** Takes a few seconds on a simulated device or soft-RoCE. */
export const EFFORT: Effort = { longMessages: 16, shortLists: 80, chunks: 150, probes: 2000 };

/**
 * Measures a device with WRITEs to its peers: rates with the first peer, latencies with each. A rate is that of the best
 * of three runs, because other load on the machine only lowers it. Each run begins with messages that do not count, half
 * as many as those that do.
 *
 * - `maxGbps`: the highest of all rates: of WRITEs of 1 MiB, four of each of one or four queue pairs in flight, and of
 *   `chunks`.
 * - `maxMmps`, `qpMmps`: WRITEs of 16 bytes in lists of 16, eight lists in flight; eight queue pairs, and one.
 * - `chunks`: one queue pair sends chunks of a size one after another, four of them in flight.
 * - `tailNs`: the p99 of single WRITEs of 10 bytes every 20 us, for every GID of each peer.
 *
 * Rates in Gbit/s are those on the wire, with the headers that the device reports, or those of RoCEv2.
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

/** The idle tail to a peer, under each of its GIDs. */
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

/** Rounds to four digits, which is more than runs on a real device agree on. */
const rounded = (rate: number) => Number(rate.toPrecision(4));
