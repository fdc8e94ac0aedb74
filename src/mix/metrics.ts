/** Metrics of a run. `name` selects one application, or all its copies name.0, name.1 ... Each throws for an unknown name. */
import type { AppResult, MixResult } from './result.ts';

function appsOf(run: MixResult, name: string): AppResult[] {
  const apps = run.apps.filter((app) => app.name === name || app.name.startsWith(`${name}.`));
  if (apps.length === 0) throw new Error(`the mix has no app '${name}'`);
  return apps;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** Payload rate of all copies together. */
export function gbps(run: MixResult, name: string): number {
  return sum(appsOf(run, name).map((app) => app.throughputGbps));
}

/** Message rate of all copies together, in millions per second. */
export function mmps(run: MixResult, name: string): number {
  return sum(appsOf(run, name).map((app) => app.messageRateMmps));
}

function latencyUs(run: MixResult, name: string, which: 'avg' | 'p50' | 'p99'): number {
  const apps = appsOf(run, name);
  return sum(apps.map(({ latencyUs }) => latencyUs?.[which] ?? Number.NaN)) / apps.length;
}

/** Mean latency; for copies, the mean of their means. */
export const avgUs = (run: MixResult, name: string) => latencyUs(run, name, 'avg');
export const p50Us = (run: MixResult, name: string) => latencyUs(run, name, 'p50');
export const p99Us = (run: MixResult, name: string) => latencyUs(run, name, 'p99');

/** The share of `name` in the payload of all applications. */
export function share(run: MixResult, name: string): number {
  return gbps(run, name) / sum(run.apps.map((app) => app.throughputGbps));
}

/** Jain's index of the copies' payload rates: 1 if all are equal. */
export function fairness(run: MixResult, name: string): number {
  const rates = appsOf(run, name).map((app) => app.throughputGbps);
  return sum(rates) ** 2 / (rates.length * sum(rates.map((rate) => rate * rate)));
}

/** The largest deviation of a copy's payload rate from the mean, as a share of the mean. */
export function unevenness(run: MixResult, name: string): number {
  const rates = appsOf(run, name).map((app) => app.throughputGbps);
  const mean = sum(rates) / rates.length;
  return Math.max(...rates.map((rate) => Math.abs(rate / mean - 1)));
}

/** The largest message rate of a copy, relative to the smallest. */
export function spread(run: MixResult, name: string): number {
  const rates = appsOf(run, name).map((app) => app.messageRateMmps);
  return Math.max(...rates) / Math.min(...rates);
}

/** The largest mean latency of a copy, relative to the smallest. */
export function latencySpread(run: MixResult, name: string): number {
  const means = appsOf(run, name).map(({ latencyUs }) => latencyUs?.avg ?? Number.NaN);
  return Math.max(...means) / Math.min(...means);
}

/** Packets that switches dropped. */
export function drops(run: MixResult): number {
  return sum(run.links.map((link) => link.drops));
}

/**
 * The values of a policy's gauge at a device after the warm-up, in the order of time; empty if the policy has none of
 * this name. Requires a run with gauges.
 */
export function gauge(run: MixResult, name: string, device = 'sim0'): number[] {
  const { stepNs, gauges = [] } = run.timeline ?? { stepNs: 0 };
  const lines = gauges.filter((line) => line.name === name && line.device === device);
  return lines.flatMap(({ values }) =>
    values.filter((value, i): value is number => value !== null && (i + 1) * stepNs > run.warmupNs),
  );
}

/** The mean of these values; NaN if there are none. */
export const mean = (values: readonly number[]) => sum(values) / values.length;

/** The share of the values of which this is true; NaN if there are none. */
export const shareOf = (values: readonly number[], isTrue: (value: number, i: number) => boolean) =>
  values.filter(isTrue).length / values.length;

/** The largest payload rate of a copy, relative to the smallest. */
export function gbpsSpread(run: MixResult, name: string): number {
  const rates = appsOf(run, name).map((app) => app.throughputGbps);
  return Math.max(...rates) / Math.min(...rates);
}

/** Messages that the agents of policies sent to other hosts; NaN if no policy uses a coordinator. */
export function agentMessages(run: MixResult): number {
  return run.coordinator === undefined ? Number.NaN : sum(run.coordinator.hosts.map((host) => host.messages));
}

/** Bytes on the wire that left one end of a cable, headers included; NaN if there is no such cable. */
export function wireBytes(run: MixResult, from: string, to: string): number {
  return run.links.find((link) => link.from === from && link.to === to)?.bytes ?? Number.NaN;
}
