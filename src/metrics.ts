/**
 * Metrics of this process, for programs that run without a daemon, or that report for themselves: what the shims around
 * its devices have counted. A process without a policy or interceptor that shapes has no shim, and counts 0.
 */
import { countersOfProcess, processInterceptors } from './process-interceptors.ts';
import {
  addLatency,
  type CumulativeBucket,
  cumulativeBuckets,
  ERROR_KINDS,
  LATENCY_BOUNDS_NS,
  noLatency,
  UNCUT_REASONS,
} from './shim/counters.ts';
import type { Provider, SampledLatency, ShimCounters } from './verbs/provider.ts';

/** A value of a metric, with the labels that tell it from the others of the metric. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export type { CumulativeBucket };

/** A metric of this process. */
export interface ProcessMetric {
  /** As Prometheus names it. Counters end with `_total`. */
  readonly name: string;
  /** Whether the value only grows (`counter`), is that of the moment (`gauge`), or has buckets (`histogram`). */
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** A sentence that says what is counted. */
  readonly help: string;
  /** One sample for each combination of labels; for a histogram, one with the number of values. */
  readonly samples: readonly MetricSample[];
  /** For a histogram: the number of values up to each bound, and the sum of all values. */
  readonly histogram?: { readonly buckets: readonly CumulativeBucket[]; readonly sum: number };
}

type Value = (counters: ShimCounters) => number;

const COUNTERS: readonly (readonly [name: string, help: string, value: Value])[] = [
  ['requests', 'Requests that the shims accepted from the program.', ({ seen }) => seen],
  ['bytes', 'Message bytes of these requests.', ({ bytes }) => bytes],
  ['split_requests', 'Requests that a policy has cut into pieces.', ({ split }) => split],
  ['delayed_requests', 'Requests that a policy or limit has held back.', ({ held }) => held],
  ['pieces', 'Pieces that the shims have issued.', ({ internal }) => internal.pieces],
  ['waits', '0_WAITs that policies have inserted.', ({ internal }) => internal.waits],
  ['limit_waits', 'Times that a queue pair had to wait for a limit on requests.', ({ limited }) => limited],
];

const NO_LABELS = {};

/** The metrics of this process at this moment. */
export function metrics(): ProcessMetric[] {
  const counters = countersOfProcess();
  const sums = COUNTERS.map(
    ([name, help, value]): ProcessMetric => ({
      ...{ name: `isoverbs_process_${name}_total`, type: 'counter', help },
      samples: [{ labels: NO_LABELS, value: value(counters) }],
    }),
  );
  const failed: ProcessMetric = {
    ...{ name: 'isoverbs_process_failed_completions_total', type: 'counter' },
    help: 'Completions with errors that devices have reported, by kind of status.',
    samples: ERROR_KINDS.map((kind) => ({ labels: { kind }, value: counters.failed[kind] })),
  };
  const uncut: ProcessMetric = {
    ...{ name: 'isoverbs_process_uncut_requests_total', type: 'counter' },
    help: 'Held requests that a policy would have cut, but that went whole, by reason.',
    samples: UNCUT_REASONS.map((reason) => ({ labels: { reason }, value: counters.uncut[reason] })),
  };
  return [...sums, failed, uncut, latencies(), policyGauges()];
}

/** How long sampled requests took. Each call of metrics() makes each context sample one more request. */
function latencies(): ProcessMetric {
  const total = latencySums();
  const buckets = cumulativeBuckets(total.buckets);
  return {
    ...{ name: 'isoverbs_process_sampled_latency_seconds', type: 'histogram' },
    help: 'Time from post to completion of sampled requests, one of each context per report.',
    samples: [{ labels: NO_LABELS, value: buckets[buckets.length - 1].count }],
    histogram: { buckets, sum: total.sumNs / 1e9 },
  };
}

function latencySums(): SampledLatency {
  const total = noLatency();
  for (const provider of processInterceptors().providers) addLatency(total, growing(provider));
  return total;
}

/** By provider: what it has sampled since it last started from 0, and what it had sampled before. */
const sampled = new WeakMap<Provider, { before: SampledLatency; last: SampledLatency }>();

/** What a provider has sampled in all. Policies in a worker start from 0 again after all contexts have been closed. */
function growing(provider: Provider): SampledLatency {
  const known = sampled.get(provider) ?? { before: noLatency(), last: noLatency() };
  sampled.set(provider, known);
  const now = provider.sampleLatency?.() ?? noLatency();
  if (now.sumNs < known.last.sumNs) addLatency(known.before, known.last);
  known.last = now;
  const total = noLatency();
  addLatency(total, known.before);
  addLatency(total, now);
  return total;
}

/** Quantities of the policies, by policy-given name. */
function policyGauges(): ProcessMetric {
  const gauges = [...processInterceptors().providers].flatMap((provider) => provider.policyGauges?.() ?? []);
  return {
    ...{ name: 'isoverbs_process_policy', type: 'gauge' },
    help: 'Quantity of a policy at this moment, by its name and unit.',
    samples: gauges.map(({ device, tenant, name, unit, value }) => ({
      ...{ labels: { device, tenant, name, unit }, value },
    })),
  };
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' };
const quoted = (text: string) => `"${text.replace(/[\\"\n]/g, (character) => escapes[character])}"`;

function labelsText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${quoted(value)}`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** The metrics in the text format of Prometheus, with content type `text/plain; version=0.0.4`. */
export function metricsText(): string {
  return metrics()
    .flatMap(({ name, type, help, samples, histogram }) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
      ...(histogram === undefined
        ? samples.map(({ labels, value }) => `${name}${labelsText(labels)} ${value}`)
        : [
            ...histogram.buckets.map(({ le, count }) => `${name}_bucket${labelsText({ le })} ${count}`),
            `${name}_sum ${histogram.sum}`,
            `${name}_count ${histogram.buckets[histogram.buckets.length - 1].count}`,
          ]),
    ])
    .join('\n')
    .concat('\n');
}

/** The part of an ObservableResult of OpenTelemetry that is used here. */
export interface ObservableResultLike {
  /** Reports a value with its attributes. */
  observe(value: number, attributes?: Readonly<Record<string, string>>): void;
}

/** The part of an observable instrument of OpenTelemetry that is used here. */
export interface ObservableLike {
  /** Adds a function that is called for each collection. */
  addCallback(callback: (result: ObservableResultLike) => void): void;
  /** Removes it. */
  removeCallback(callback: (result: ObservableResultLike) => void): void;
}

/** The part of a histogram of OpenTelemetry that is used here. */
export interface HistogramLike {
  /** Adds a value. */
  record(value: number): void;
}

/** The part of a Meter of `@opentelemetry/api` that is used here, so that the package does not depend on it. */
export interface MeterLike {
  /** Creates an instrument whose value only grows. */
  createObservableCounter(name: string, options?: { readonly description?: string }): ObservableLike;
  /** Creates an instrument for a value of the moment. */
  createObservableGauge(name: string, options?: { readonly description?: string }): ObservableLike;
  /** Creates an instrument for a distribution, with bounds of buckets. Without this method, latencies are not reported. */
  createHistogram?(
    name: string,
    options?: {
      readonly description?: string;
      readonly unit?: string;
      readonly advice?: { readonly explicitBucketBoundaries?: number[] };
    },
  ): HistogramLike;
}

/**
 * Reports the metrics through a meter of OpenTelemetry: `observe(metrics.getMeter('isoverbs'))`. Names are those of
 * Prometheus with dots, without `_total`: `isoverbs.process.requests`.
 * @returns a function that ends the reports
 */
export function observe(meter: MeterLike): () => void {
  const recordLatencies = latencyRecorder(meter);
  const observed = metrics().filter(({ type }) => type !== 'histogram');
  const ends = observed.map(({ name, type, help }, i) => {
    const own = name.replace(/_total$/, '').replace(/^isoverbs_process_/, 'isoverbs.process.');
    const options = { description: help };
    const instrument =
      type === 'counter'
        ? meter.createObservableCounter(own, options)
        : meter.createObservableGauge(own, options);
    const callback = (result: ObservableResultLike) => {
      const now = metrics().find((one) => one.name === name);
      for (const { labels, value } of now?.samples ?? []) result.observe(value, labels);
      // Once for each collection.
      if (i === 0) recordLatencies();
    };
    instrument.addCallback(callback);
    return () => instrument.removeCallback(callback);
  });
  return () => {
    for (const end of ends) end();
  };
}

/**
 * Records what was sampled since the last call. If several latencies were, only their buckets and their sum are known: each
 * is recorded as their mean, or as the value of its bucket that is nearest to the mean.
 */
function latencyRecorder(meter: MeterLike): () => void {
  const { help } = latencies();
  const instrument = meter.createHistogram?.('isoverbs.process.sampled_latency', {
    ...{ description: help, unit: 's' },
    advice: { explicitBucketBoundaries: LATENCY_BOUNDS_NS.map((boundNs) => boundNs / 1e9) },
  });
  let last = latencySums();
  return () => {
    const now = latencySums();
    const counts = now.buckets.map((count, i) => count - last.buckets[i]);
    const meanNs = (now.sumNs - last.sumNs) / counts.reduce((sum, count) => sum + count, 0);
    last = now;
    for (const [i, count] of counts.entries()) {
      // A bound belongs to the bucket below it.
      const leastNs = i === 0 ? 0 : LATENCY_BOUNDS_NS[i - 1] + 1;
      const mostNs = LATENCY_BOUNDS_NS[i] ?? Number.POSITIVE_INFINITY;
      for (let n = 0; n < count; n++) instrument?.record(Math.min(Math.max(meanNs, leastNs), mostNs) / 1e9);
    }
  };
}
