/**
 * Measures the kit's estimator of a tail: nanoseconds and bytes per sample in windows of several lengths, for latencies
 * with a long tail. A loop over the same samples, which adds them up, is the baseline. Rounds alternate; medians, as JSON.
 */
import { TailEstimator } from '#src/policies/kit/tail-estimator.ts';
import { nowNs, p50, rounded } from './timing.ts';

const SAMPLES = 200_000;
const ROUNDS = 21;
const WARMUP_ROUNDS = 5;
const WINDOWS = [200, 10_000, 100_000];
/** Goal for each sample. */
const GOAL_NS = 20;

/** Latencies of 2 us with an exponential tail of 3 us on average; a multiplicative walk over the residues of a prime. */
const PRIME = 200_003;
const samples = Float64Array.from(
  { length: SAMPLES },
  (_, i) => 2000 - 3000 * Math.log((((i + 1) * 7919) % PRIME) / PRIME),
);

let total = 0;

function addedUpNs(): number {
  const fromNs = nowNs();
  let sum = 0;
  for (let i = 0; i < SAMPLES; i++) sum += samples[i];
  total += sum;
  return (nowNs() - fromNs) / SAMPLES;
}

/** A policy reads the estimate once per sample at most. */
function estimatedNs(estimator: TailEstimator): number {
  const fromNs = nowNs();
  let sum = 0;
  for (let i = 0; i < SAMPLES; i++) {
    estimator.add(samples[i]);
    sum += estimator.valueNs();
  }
  total += sum;
  return (nowNs() - fromNs) / SAMPLES;
}

function allocatedBytes(estimator: TailEstimator): number {
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  estimatedNs(estimator);
  return Math.max(0, process.memoryUsage().heapUsed - before) / SAMPLES;
}

const estimators = WINDOWS.map((windowSamples) => new TailEstimator({ windowSamples }));
const rounds = Array.from({ length: WARMUP_ROUNDS + ROUNDS }, () => ({
  baselineNs: addedUpNs(),
  sampleNs: estimators.map(estimatedNs),
})).slice(WARMUP_ROUNDS);
if (Number.isNaN(total)) throw new Error('an estimate is missing');
console.log(
  JSON.stringify(
    {
      samples: SAMPLES,
      rounds: ROUNDS,
      goalNs: GOAL_NS,
      baselineNs: rounded(p50(rounds.map((round) => round.baselineNs))),
      windows: WINDOWS.map((windowSamples, i) => ({
        windowSamples,
        sampleNs: rounded(p50(rounds.map((round) => round.sampleNs[i]))),
        // The least of several: the rest is the compiler's.
        bytesPerSample: rounded(Math.min(...Array.from({ length: 10 }, () => allocatedBytes(estimators[i])))),
      })),
    },
    null,
    2,
  ),
);
