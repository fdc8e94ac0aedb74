/** Runs of mixtures, identified by their content. */
import { isModuleName } from '../drivers/index.ts';
import { NANOSECONDS, parseQuantity } from '../verbs/units.ts';
import { commandOf, type Mix } from './mixture.ts';
import { parseHostPolicies, parsePolicy, parseSet } from './parse.ts';
import { DEPTHS, SIZES } from './resolve.ts';
import { parseStep } from './script/script.ts';
import { type AppSpec, DEFAULTS, type MixSpec, type OneOrRange, TIMELINE_POINTS } from './spec.ts';

const PACKET_BYTES = 4096;
const ROUND_TRIP_US = 2;
/** The most that a device sends in a microsecond: packets of long messages, and short messages. */
const PACKETS_PER_US = 12;
const MESSAGES_PER_US = 100;

/** One run of one mixture. */
export interface Job {
  readonly spec: MixSpec;
  /** Content of the spec: two jobs with the same key give the same result. */
  readonly key: string;
  /** The command line that repeats the run, for people. */
  readonly command: string;
}

/** The run of a mixture with this seed. @throws ConfigError */
export function jobOf(mix: Mix, seed: number): Job {
  const spec = specOf(mix, seed);
  return { spec, key: keyOf(spec), command: commandOf(mix, seed) };
}

/** A run for each seed. @throws ConfigError */
export function jobsOf(mix: Mix, seeds: readonly number[]): Job[] {
  return seeds.map((seed) => jobOf(mix, seed));
}

/** The jobs without duplicates. */
export function distinct(jobs: readonly Job[]): Job[] {
  const byKey = new Map<string, Job>();
  for (const job of jobs) if (!byKey.has(job.key)) byKey.set(job.key, job);
  return [...byKey.values()];
}

/**
 * The argument of runMix(). Payload bytes are not moved: no report reads them, and the timing is the same. @throws
 * ConfigError
 */
export function specOf(mix: Mix, seed: number): MixSpec {
  const { profile, set = {}, policy = 'none', onHosts = [], duration, warmup, topology, apps } = mix;
  const { hosts = DEFAULTS.hosts, at = [], gauges = false, details = false } = mix;
  return {
    profile,
    set: Object.fromEntries(Object.entries(set).map(([name, value]) => parseSet(`${name}=${value}`))),
    ...parsePolicy(policy),
    ...(onHosts.length > 0 && { onHosts: onHosts.map(parseHostPolicies) }),
    durationNs: parseQuantity('duration', duration, NANOSECONDS),
    warmupNs: parseQuantity('warmup', warmup, NANOSECONDS),
    seed,
    hosts,
    ...(topology !== undefined && { topology }),
    payload: false,
    ...(at.length > 0 && { script: at.map(parseStep) }),
    ...(gauges && { gauges, timelinePoints: TIMELINE_POINTS }),
    ...(details && { details }),
    apps: apps.map(({ spec }) => spec),
  };
}

/** Whether the result depends on the code of a module, of which the spec has only the path. */
export function usesModule({ policy, inner = [], onHosts = [] }: MixSpec): boolean {
  const others = [...inner, ...onHosts.flatMap(({ stack }) => stack)];
  return [policy, ...others.map((use) => use.policy)].some(isModuleName);
}

/** JSON whose keys are in alphabetical order. JSON has no infinity: it becomes a string. */
function keyOf(spec: MixSpec): string {
  return JSON.stringify(spec, (_name, value) => {
    if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/**
 * Estimates the number of packets of a run, so that the longest runs start first: if one started last, all other threads
 * would wait for it. The profile and the policy are ignored.
 */
export function expectedPackets({ apps, durationNs }: MixSpec): number {
  const perUs = new Map<number, number>();
  for (const app of apps) {
    const [first, last] = typeof app.host === 'object' ? app.host : [app.host ?? 0, app.host ?? 0];
    for (let host = first; host <= last; host++)
      perUs.set(host, Math.max(perUs.get(host) ?? 0, packetsPerUs(app)));
  }
  return (durationNs / 1000) * [...perUs.values()].reduce((sum, rate) => sum + rate, 0);
}

function packetsPerUs({ kind, sizeBytes, qps = 1, count = 1, depth = DEPTHS[kind] }: AppSpec): number {
  const bytes = isRange(sizeBytes) ? sizeBytes : SIZES[kind];
  const packets = Math.ceil((typeof bytes === 'number' ? bytes : bytes[1]) / PACKET_BYTES);
  const most = packets > 1 ? PACKETS_PER_US : MESSAGES_PER_US;
  return Math.min(most, (packets * depth * qps * count) / ROUND_TRIP_US);
}

/** Whether sizes are a number or a range. A distribution is ignored, as if no size were given. */
function isRange(bytes: AppSpec['sizeBytes']): bytes is OneOrRange {
  return typeof bytes === 'number' || Array.isArray(bytes);
}
