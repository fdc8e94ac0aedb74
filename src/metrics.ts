/**
 * Metrics of this process, for programs that run without a daemon, or that report for themselves: what the shims around
 * its devices have counted. A process without a policy or interceptor that shapes has no shim, and counts 0.
 */
import { countersOfProcess, processInterceptors } from './process-interceptors.ts';
import { ERROR_KINDS } from './shim/counters.ts';
import type { ShimCounters } from './verbs/provider.ts';

/** A value of a metric, with the labels that tell it from the others of the metric. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric of this process. */
export interface ProcessMetric {
  /** As Prometheus names it. Counters end with `_total`. */
  readonly name: string;
  /** Whether the value only grows (`counter`), or is that of the moment (`gauge`). */
  readonly type: 'counter' | 'gauge';
  /** A sentence that says what is counted. */
  readonly help: string;
  /** One sample for each combination of labels. */
  readonly samples: readonly MetricSample[];
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
  return [...sums, failed, policyGauges()];
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
    .flatMap(({ name, type, help, samples }) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
      ...samples.map(({ labels, value }) => `${name}${labelsText(labels)} ${value}`),
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

/** The part of a Meter of `@opentelemetry/api` that is used here, so that the package does not depend on it. */
export interface MeterLike {
  /** Creates an instrument whose value only grows. */
  createObservableCounter(name: string, options?: { readonly description?: string }): ObservableLike;
  /** Creates an instrument for a value of the moment. */
  createObservableGauge(name: string, options?: { readonly description?: string }): ObservableLike;
}

/**
 * Reports the metrics through a meter of OpenTelemetry: `observe(metrics.getMeter('isoverbs'))`. Names are those of
 * Prometheus with dots, without `_total`: `isoverbs.process.requests`.
 * @returns a function that ends the reports
 */
export function observe(meter: MeterLike): () => void {
  const ends = metrics().map(({ name, type, help }) => {
    const own = name.replace(/_total$/, '').replace(/^isoverbs_process_/, 'isoverbs.process.');
    const options = { description: help };
    const instrument =
      type === 'counter'
        ? meter.createObservableCounter(own, options)
        : meter.createObservableGauge(own, options);
    const callback = (result: ObservableResultLike) => {
      const now = metrics().find((one) => one.name === name);
      for (const { labels, value } of now?.samples ?? []) result.observe(value, labels);
    };
    instrument.addCallback(callback);
    return () => instrument.removeCallback(callback);
  });
  return () => {
    for (const end of ends) end();
  };
}
