/**
 * Measures the cost of the worker driver on the null device: the round trip of a shaped request (posted into the lane,
 * issued and polled by the worker, its completion taken from the queue) while both threads spin; the same round trip
 * inline; a request that bypasses the worker; and the CPU time of an idle worker. Prints JSON. The worker requires a
 * separate core: under other load the figures are noise.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { workerDriver } from '#src/drivers/worker/front.ts';
import { createPolicy } from '#src/policies/index.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import * as V from '#src/verbs/index.ts';
import { LIBRARY, type NullQp, openNull } from './null-device.ts';

const TRIPS = 100_000;
/** Time limit of a measurement: if threads share a core, each round trip takes several time slices. */
const LIMIT_MS = 4000;
const IDLE_MS = 3000;

process.env.ISOVERBS_LIBIBVERBS = LIBRARY;

/** Sorted times in nanoseconds of at most `trips` round trips: one request is posted and polled until it completes. */
function roundTrips({ provider, qp, cq, send, wcs }: NullQp, bytes: number, trips: number): Float64Array {
  const times = new Float64Array(trips);
  send.clear();
  send.write(1, V.IBV_SEND_SIGNALED, 4096, bytes, 1, 4096, 1);
  const endMs = performance.now() + LIMIT_MS;
  let n = 0;
  for (; n < trips; n++) {
    const beginMs = performance.now();
    if (beginMs > endMs) break;
    if (provider.postSend(qp, send.ring, 0, 1) !== 1) throw new Error(`errno ${send.errno}`);
    while (provider.pollCq(cq, wcs.ring, 0, 1) === 0);
    times[n] = (performance.now() - beginMs) * 1e6;
  }
  return times.subarray(0, n).sort();
}

const p = (sorted: Float64Array, share: number) => Math.round(sorted[Math.floor(sorted.length * share)]);

function measure(interceptors: readonly Interceptor[], bytes: number) {
  const bench = openNull(compose(createRdmaCoreProvider(), interceptors));
  roundTrips(bench, bytes, TRIPS / 10);
  const times = roundTrips(bench, bytes, TRIPS);
  return { p10Ns: p(times, 0.1), p50Ns: p(times, 0.5), p99Ns: p(times, 0.99) };
}

// The policy shapes requests above 1 KiB. This one fits into one sub-message, so it is not split and has no WAITs.
const options = { subMsgSizeBytes: 1 << 20, zeroWaitUnitBytes: 1 << 20 };
const worker = workerDriver([{ name: 'perf', options }]);
const results = {
  bare: measure([], 2048),
  inline: measure([createPolicy('perf', options)], 2048),
  worker: measure([worker], 2048),
  bypass: measure([workerDriver([{ name: 'perf', options }])], 64),
};
// The policy keeps polling queues for one second after the last request.
await delay(2000);
const before = process.cpuUsage();
const beginMs = performance.now();
await delay(IDLE_MS);
const { user, system } = process.cpuUsage(before);
const idleCpuShare = (user + system) / 1000 / (performance.now() - beginMs);
console.log(JSON.stringify({ ...results, idleCpuShare }, null, 2));
process.exit(0);
