/** Runs random mixtures bare and under policies, and finds the applications that a policy leaves worse off than bare. */
import { jobOf, specOf } from '../mix/jobs.ts';
import { commandOf, type Mix } from '../mix/mixture.ts';
import { brokenRuns, type Outcomes, problemsOf } from '../mix/outcomes.ts';
import { runJobs } from '../mix/pool.ts';
import { paramsOf } from '../mix/resolve.ts';
import type { AppResult, MixResult } from '../mix/result.ts';
import type { RunCache } from '../mix/run-cache.ts';
import { DEFAULTS, type Kind } from '../mix/spec.ts';
import { layoutOf } from '../sim/network/topology.ts';
import { ConfigError } from '../verbs/errors.ts';
import { requireRunnable } from './compare.ts';
import { ofEqualShares } from './equal-share.ts';
import { type Fixed, randomMixture } from './random-mixtures.ts';
import { type RatedMix, takesRates, withRates } from './random-rates.ts';
import { type Kept, ratesKept } from './rate-keeping.ts';
import { schemesOf } from './schemes.ts';

/** The measures that are compared with bare: one for each D, one for each M, one for each B, and two for each mixture. */
export type Measure = 'latency' | 'messageRate' | 'bandwidth' | 'payload' | 'busiestLink';

interface MeasureInfo {
  readonly title: string;
  readonly unit: string;
  /** A ratio to bare beyond this is worse than bare. */
  readonly limit: number;
  readonly better: 'less' | 'more';
}

/** More than 10 % worse than bare counts. Smaller differences are noise of a short run. */
export const MEASURES: Readonly<Record<Measure, MeasureInfo>> = Object.freeze({
  latency: { title: 'D: average latency', unit: 'us', limit: 1.1, better: 'less' },
  messageRate: { title: 'M: message rate', unit: 'M/s', limit: 0.9, better: 'more' },
  bandwidth: { title: 'B: bandwidth', unit: 'Gbit/s', limit: 0.9, better: 'more' },
  payload: { title: 'payload of a mixture', unit: 'Gbit/s', limit: 0.9, better: 'more' },
  busiestLink: { title: 'bytes on its busiest link', unit: 'MB', limit: 0.9, better: 'more' },
});

/** Below this part of an equal share of its link, an application gets less than equation (1) gives it. */
const LEAST_OF_SHARE = 0.9;

/** One ratio to bare: of an application, or of a mixture as a whole. */
export interface Case {
  /** Numbered from 1. */
  readonly mixture: number;
  /** Absent if the ratio is of a mixture as a whole. */
  readonly app?: string;
  readonly measure: Measure;
  /** Values in the unit of the measure. A latency without completions is infinite. */
  readonly bare: number;
  readonly under: number;
  readonly ratio: number;
  /** What the application sends under the policy, relative to an equal share of its link (equal-share.ts). */
  readonly ofShare?: number;
  /** Repeats the run under the policy; with `--policy none` the bare one. */
  readonly command: string;
}

export interface Summary {
  /** Number of applications or mixtures. */
  readonly of: number;
  readonly worse: number;
  /** How many of those are also more than 10 % below an equal share of their link. Absent for mixtures. */
  readonly belowShare?: number;
  /** Over the ratios to bare; NaN if there are none. */
  readonly median: number;
  readonly worst: number;
}

/** How a policy keeps random rates. */
export interface RateKeeping {
  /** Numbers of applications: with a rate, and of those that are due a share, because they ask for more. */
  readonly rated: number;
  readonly due: number;
  /** Applications above their rates, and below what they are due. */
  readonly above: readonly RateCase[];
  readonly below: readonly RateCase[];
}

/** An application under random rates. */
export interface RateCase extends Kept {
  /** Numbered from 1. */
  readonly mixture: number;
  /** Repeats the run. */
  readonly command: string;
}

export interface PolicyHarm {
  readonly policy: string;
  readonly says: string;
  readonly summary: Readonly<Record<Measure, Summary>>;
  /** Cases by measure, the worst first. */
  readonly cases: Readonly<Record<Measure, readonly Case[]>>;
  /** Only if the policy limits rates: the same mixtures with random rates. */
  readonly rates?: RateKeeping;
}

export interface WorseOff {
  readonly seed: number;
  readonly mixtures: readonly Mix[];
  readonly policies: readonly PolicyHarm[];
  readonly runs: number;
  /** Runs that failed or broke an invariant, with the reason. They are not compared. */
  readonly broken: readonly string[];
}

export interface WorseOffOptions {
  /** Number of mixtures. */
  readonly count: number;
  /** The seed from which mixtures are drawn, and with which they run. */
  readonly seed: number;
  readonly fixed: Fixed;
  /** Policies, each as `--policy` takes it. Default: all. */
  readonly policies?: readonly string[];
  readonly threads: number;
  readonly cache?: RunCache;
  onDone?(done: number, of: number): void;
}

/** The most mixtures of one call. */
const MOST_MIXTURES = 10_000;

/**
 * Runs the mixtures. The same options always give the same result.
 * @throws ConfigError for an unknown policy, profile, parameter or topology, before anything runs
 */
export async function worseOff(options: WorseOffOptions): Promise<WorseOff> {
  const { count, seed, fixed, policies, threads, cache, onDone } = options;
  if (!(Number.isSafeInteger(count) && count >= 1 && count <= MOST_MIXTURES)) {
    throw new ConfigError(`random must be a whole number from 1 to ${MOST_MIXTURES}, got ${count}`);
  }
  const mixtures = Array.from({ length: count }, (_, index) => randomMixture(seed, index, fixed));
  const schemes = mixtures.map((mix) =>
    schemesOf(mix, paramsOf(specOf(mix, seed)), { policies, schedulers: [] }),
  );
  if (schemes[0].length === 1) {
    throw new ConfigError('random mixtures are compared under policies; name one other than none');
  }
  for (const { topology = 'cable', hosts = DEFAULTS.hosts } of mixtures) layoutOf(topology, hosts);
  const rated = schemes.map((all, index) =>
    all.map(({ name, mix }) => (takesRates(name) ? withRates(mix, seed, index) : undefined)),
  );
  const runs = [...schemes.flat(), ...rated.flat().filter((one) => one !== undefined)];
  for (const { mix } of runs) requireRunnable(mix, seed);
  const jobs = runs.map(({ mix }) => jobOf(mix, seed));
  const outcomes = await runJobs(jobs, { threads, cache, onDone });
  const [, ...chosen] = schemes[0];
  return {
    seed,
    mixtures,
    policies: chosen.map(({ name, says }, at) => {
      const pairs = schemes.map(([bare, ...rest]) => ({ bare: bare.mix, under: rest[at].mix }));
      const harm = { policy: name, says, ...harmOf(pairs, seed, outcomes) };
      if (!takesRates(name)) return harm;
      const withoutRates = pairs.map(({ under }) => under);
      const withThem = rated.map((all) => all[at + 1] as RatedMix);
      return { ...harm, rates: keepingOf(withThem, withoutRates, seed, outcomes) };
    }),
    runs: jobs.length,
    broken: brokenRuns(outcomes),
  };
}

interface Pair {
  readonly bare: Mix;
  readonly under: Mix;
}

function harmOf(
  pairs: readonly Pair[],
  seed: number,
  outcomes: Outcomes,
): Pick<PolicyHarm, 'summary' | 'cases'> {
  const all = pairs.flatMap(({ bare, under }, i) => {
    const results = [bare, under].map((mix) => trustedResult(mix, seed, outcomes));
    const [before, after] = results;
    if (before === undefined || after === undefined) return [];
    const command = commandOf(under, seed);
    const ofShares = ofEqualShares(under, after, seed);
    return casesOf(before, after, ofShares).map((one) => ({ mixture: i + 1, ...one, command }));
  });
  const of = (measure: Measure) => {
    const cases = all.filter((one) => one.measure === measure);
    return cases.sort((a, b) => badness(b) - badness(a));
  };
  const cases = byMeasure(of);
  return { cases, summary: byMeasure((measure) => summaryOf(measure, cases[measure])) };
}

function keepingOf(
  rated: readonly RatedMix[],
  without: readonly Mix[],
  seed: number,
  outcomes: Outcomes,
): RateKeeping {
  const all = rated.flatMap((one, i) => {
    const [result, before] = [one.mix, without[i]].map((mix) => trustedResult(mix, seed, outcomes));
    if (result === undefined || before === undefined) return [];
    const command = commandOf(one.mix, seed);
    return ratesKept(one, result, before, seed).map((kept) => ({ mixture: i + 1, ...kept, command }));
  });
  return {
    rated: all.filter(({ rateGbps }) => Number.isFinite(rateGbps)).length,
    due: all.filter(({ dueGbps }) => !Number.isNaN(dueGbps)).length,
    above: all.filter(({ gbps, mostGbps }) => gbps > mostGbps),
    below: all.filter(({ gbps, leastGbps }) => gbps < leastGbps),
  };
}

function byMeasure<T>(of: (measure: Measure) => T): Record<Measure, T> {
  return {
    latency: of('latency'),
    messageRate: of('messageRate'),
    bandwidth: of('bandwidth'),
    payload: of('payload'),
    busiestLink: of('busiestLink'),
  };
}

/** The result of a run, unless it failed or broke an invariant. @throws Error for a mixture that did not run */
export function trustedResult(mix: Mix, seed: number, outcomes: Outcomes): MixResult | undefined {
  const job = jobOf(mix, seed);
  const outcome = outcomes.get(job);
  if (outcome === undefined) throw new Error(`${job.command} did not run`);
  return 'result' in outcome && problemsOf(job, outcome).length === 0 ? outcome.result : undefined;
}

/** The measure of each kind of application, and what it compares. */
export const MEASURE_OF_KIND: Readonly<Record<Kind, readonly [Measure, (app: AppResult) => number]>> = {
  D: ['latency', ({ latencyUs }) => latencyUs?.avg ?? Number.POSITIVE_INFINITY],
  M: ['messageRate', ({ messageRateMmps }) => messageRateMmps],
  B: ['bandwidth', ({ throughputGbps }) => throughputGbps],
};

/** Compares two runs of one mixture. An application that got nothing in both has no ratio. */
function casesOf(
  bare: MixResult,
  under: MixResult,
  ofShares: readonly (number | undefined)[],
): Omit<Case, 'mixture' | 'command'>[] {
  const apps = bare.apps.flatMap((app, i) => {
    const [measure, of] = MEASURE_OF_KIND[app.kind];
    const ofShare = ofShares[i];
    const which = { app: app.name, ...(ofShare !== undefined && { ofShare }) };
    return caseOf(measure, [app, under.apps[i]].map(of), which);
  });
  const runs = [bare, under];
  return [
    ...apps,
    ...caseOf('payload', runs.map(payloadGbps)),
    ...caseOf('busiestLink', runs.map(busiestLinkMB)),
  ];
}

function caseOf(
  measure: Measure,
  [bare, under]: readonly number[],
  which: Pick<Case, 'app' | 'ofShare'> = {},
): Omit<Case, 'mixture' | 'command'>[] {
  const isNothing = (value: number) => value === 0 || value === Number.POSITIVE_INFINITY;
  if (isNothing(bare) && isNothing(under)) return [];
  return [{ ...which, measure, bare, under, ratio: under / bare }];
}

function payloadGbps({ apps }: MixResult): number {
  return apps.reduce((sum, { throughputGbps }) => sum + throughputGbps, 0);
}

/** Bytes on the busiest link, which may differ between runs. */
function busiestLinkMB({ links }: MixResult): number {
  return Math.max(0, ...links.map(({ bytes }) => bytes)) / 1e6;
}

/** How many times worse than bare. */
export function badness({ measure, ratio }: Pick<Case, 'measure' | 'ratio'>): number {
  return MEASURES[measure].better === 'less' ? ratio : 1 / ratio;
}

/** Whether a ratio counts as worse than bare. */
export function isWorse({ measure, ratio }: Pick<Case, 'measure' | 'ratio'>): boolean {
  const { limit, better } = MEASURES[measure];
  return better === 'less' ? ratio > limit : ratio < limit;
}

/**
 * Whether a case that is worse than bare is also more than 10 % below an equal share of its link. Atomics, which have no
 * share, always are.
 */
export function isBelowShare({ app, ofShare = 0 }: Pick<Case, 'app' | 'ofShare'>): boolean {
  return app !== undefined && ofShare < LEAST_OF_SHARE;
}

/** @param cases sorted, the worst first */
function summaryOf(measure: Measure, cases: readonly Case[]): Summary {
  const ratios = cases.map(({ ratio }) => ratio).sort((a, b) => a - b);
  const { better } = MEASURES[measure];
  const worse = cases.filter(isWorse);
  const isOfApps = cases.some(({ app }) => app !== undefined);
  return {
    of: ratios.length,
    worse: worse.length,
    ...(isOfApps && { belowShare: worse.filter(isBelowShare).length }),
    median: medianOf(ratios),
    worst: ratios.at(better === 'less' ? -1 : 0) ?? Number.NaN,
  };
}

/** The median of values in ascending order; NaN without any. */
export function medianOf(ascending: readonly number[]): number {
  const middle = ascending.length / 2;
  if (ascending.length === 0) return Number.NaN;
  if (ascending.length % 2 === 1) return ascending[Math.floor(middle)];
  return (ascending[middle - 1] + ascending[middle]) / 2;
}
