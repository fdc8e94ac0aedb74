/** Which runs a set of claims needs; what several claims need runs once. */

import type { Claim, Mix } from '../papers/engine/claim.ts';
import { NANOSECONDS, parseQuantity } from '../verbs/units.ts';
import { DEFAULTS, type MixSpec, parseApp, parsePolicy, parseSet } from './spec.ts';

/** One run of one mix. */
export interface Job {
  /** The command that runs the same, which also tells jobs apart. */
  command: string;
  mix: Mix;
  seed: number;
}

/** The command line of a run. */
export function commandOf(mix: Mix, seed: number): string {
  const { profile, set = {}, policy = 'none', duration, warmup, topology, apps } = mix;
  const { hosts = DEFAULTS.hosts } = mix;
  const words = ['isoverbs mix', `--profile ${profile}`];
  for (const [name, value] of Object.entries(set)) words.push(`--set ${name}=${value}`);
  words.push(`--policy ${policy}`, `--duration ${duration}`, `--warmup ${warmup}`, `--seed ${seed}`);
  if (hosts !== DEFAULTS.hosts) words.push(`--hosts ${hosts}`);
  if (topology !== undefined) words.push(`--topology ${topology}`);
  return [...words, ...apps.map((app) => `--app ${app}`)].join(' ');
}

/** What runMix() takes. Bytes are not moved: nothing here looks at them, and the timing is the same. @throws ConfigError */
export function specOf(mix: Mix, seed: number): MixSpec {
  const { profile, set = {}, policy = 'none', duration, warmup, topology, apps } = mix;
  const { hosts = DEFAULTS.hosts } = mix;
  return {
    profile,
    set: Object.fromEntries(Object.entries(set).map(([name, value]) => parseSet(`${name}=${value}`))),
    ...parsePolicy(policy),
    durationNs: parseQuantity('duration', duration, NANOSECONDS),
    warmupNs: parseQuantity('warmup', warmup, NANOSECONDS),
    seed,
    hosts,
    ...(topology !== undefined && { topology }),
    payload: false,
    apps: apps.map(parseApp),
  };
}

/** Every run that the claims need, once. */
export function jobsOf(claims: readonly Claim[], seeds: readonly number[]): Job[] {
  return distinct(
    claims.flatMap(({ mixes }) => Object.values(mixes).flatMap((mix) => jobsOfMix(mix, seeds))),
  );
}

/** A run for each seed. */
export function jobsOfMix(mix: Mix, seeds: readonly number[]): Job[] {
  return seeds.map((seed) => ({ command: commandOf(mix, seed), mix, seed }));
}

/** Each once. */
export function distinct(jobs: readonly Job[]): Job[] {
  return [...new Map(jobs.map((job) => [job.command, job])).values()];
}
