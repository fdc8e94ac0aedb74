/** Runs tricks of one tenant under policies, and compares what it gets, and what others lose, with an honest tenant. */
import { distinct, jobsOf, specOf } from '../mix/jobs.ts';
import { mean } from '../mix/metrics.ts';
import { commandOf, type Mix, mixApp, withKeys } from '../mix/mixture.ts';
import { brokenRuns, type Outcomes } from '../mix/outcomes.ts';
import { runJobs } from '../mix/pool.ts';
import { type App, appsOf, paramsOf } from '../mix/resolve.ts';
import type { AppResult, MixResult } from '../mix/result.ts';
import type { RunCache } from '../mix/run-cache.ts';
import type { NicParams } from '../sim/profile/params.ts';
import { ConfigError } from '../verbs/errors.ts';
import { requireRunnable } from './compare.ts';
import { shareNextTo, wireGbpsOf } from './equal-share.ts';
import { type Scheme, schemesOf } from './schemes.ts';
import { type Gained, TRICKSTER, type Trick, tricksOf, VICTIMS } from './tricks.ts';
import { MEASURE_OF_KIND, MEASURES, trustedResult } from './worse-off.ts';

/** A trick that gains more than this part of what the tenant is due, or harms another by more than that, is a violation. */
export const LIMITS = Object.freeze({ gain: 0.1, harm: 0.05 });

/** The harm to one other tenant. */
export interface Harm {
  readonly tenant: string;
  /** Its bandwidth, message rate or latency: next to the honest tenant, and next to the trick. */
  readonly honest: number;
  readonly trick: number;
  /** What it got next to the honest tenant, or its share of the link if that is less. */
  readonly due: number;
  /** The part of this that it loses, or by which its latency grows; negative if it is better off. */
  readonly harm: number;
}

/** One trick under one policy. Figures are means over the seeds. */
export interface Evasion {
  readonly trick: string;
  readonly gains: Gained;
  /** Gbit/s on the link, headers included, or millions of messages per second; NaN if it does not use the link. */
  readonly got: number;
  /** The larger of its share and of what it got when it was honest. */
  readonly due: number;
  /** got, relative to due, minus 1. */
  readonly gain: number;
  readonly harms: readonly Harm[];
  readonly isViolation: boolean;
  /** The commands that repeat the two runs of the first seed. */
  readonly commands: { readonly honest: string; readonly trick: string };
}

export interface PolicyEvasions {
  /** `bare`, or the policy. */
  readonly policy: string;
  readonly says: string;
  /** A trick one of whose runs failed is missing. */
  readonly evasions: readonly Evasion[];
}

export interface Evasions {
  readonly seeds: readonly number[];
  readonly fixed: EvadeOptions['fixed'];
  readonly tricks: readonly Trick[];
  readonly policies: readonly PolicyEvasions[];
  readonly runs: number;
  /** Runs that failed or broke an invariant, with the reason. */
  readonly broken: readonly string[];
}

export interface EvadeOptions {
  readonly fixed: Pick<Mix, 'profile' | 'set' | 'duration' | 'warmup'>;
  readonly seeds: readonly number[];
  /** Policies, each as `--policy` takes it; `none` is the bare device. Default: that and all policies. */
  readonly policies?: readonly string[];
  /** Names of tricks. Default: all. */
  readonly tricks?: readonly string[];
  readonly threads: number;
  readonly cache?: RunCache;
  onDone?(done: number, of: number): void;
}

/** The mixtures of one trick, each under every scheme. */
interface Plan {
  readonly trick: Trick;
  readonly honest: readonly Scheme[];
  readonly tried: readonly Scheme[];
}

/**
 * Runs the tricks. The same options always give the same result.
 * @throws ConfigError for an unknown policy, trick, profile or parameter, before anything runs
 */
export async function evade(options: EvadeOptions): Promise<Evasions> {
  const { fixed, seeds, threads, cache, onDone } = options;
  const params = paramsOf(specOf({ ...fixed, apps: [] }, seeds[0]));
  const tricks = chosenTricks(params, options.tricks);
  const schemes = (mix: Mix) => chosenSchemes(mix, params, options.policies);
  const plans = tricks.map((trick): Plan => {
    const { honest, apps, at } = trick;
    return { trick, honest: schemes(mixOf(fixed, [honest])), tried: schemes(mixOf(fixed, apps, at)) };
  });
  const alone = VICTIMS.map((words): Mix => ({ ...fixed, apps: [mixApp(words)] }));
  const planned = plans.flatMap(({ honest, tried }) => [...honest, ...tried].map(({ mix }) => mix));
  const mixes = [...alone, ...planned];
  for (const mix of mixes) requireRunnable(mix, seeds[0]);
  // The honest runs of most tricks are the same.
  const jobs = distinct(mixes.flatMap((mix) => jobsOf(mix, seeds)));
  const outcomes = await runJobs(jobs, { threads, cache, onDone });
  const grounds = seeds.map((seed): Ground => {
    const demands = alone.map((mix) => demandOf(mix, seed, params, outcomes));
    return { seed, params, outcomes, demands };
  });
  return {
    seeds,
    fixed,
    tricks,
    policies: plans[0].honest.map(({ name, says }, at) => ({
      policy: name,
      says,
      evasions: plans.flatMap(({ trick, honest, tried }) =>
        evasionOf(trick, honest[at].mix, tried[at].mix, grounds),
      ),
    })),
    runs: jobs.length,
    broken: brokenRuns(outcomes),
  };
}

function chosenTricks(params: Readonly<NicParams>, names: readonly string[] | undefined): Trick[] {
  const all = tricksOf(params);
  if (names === undefined) return all;
  return names.map((name) => {
    const trick = all.find((one) => one.name === name);
    if (trick !== undefined) return trick;
    throw new ConfigError(`unknown trick '${name}'; available: ${all.map((one) => one.name).join('; ')}`);
  });
}

/** The bare device and all policies, or those that are named. */
function chosenSchemes(
  mix: Mix,
  params: Readonly<NicParams>,
  policies: readonly string[] | undefined,
): Scheme[] {
  const [bare, ...others] = schemesOf(mix, params, { policies, schedulers: [] });
  return policies === undefined || policies.includes('none') ? [bare, ...others] : others;
}

/** The applications of the trickster, and the others. */
function mixOf(fixed: EvadeOptions['fixed'], apps: readonly string[], at?: readonly string[]): Mix {
  const own = apps.map((words, i) => {
    const name = i === 0 ? TRICKSTER : `${TRICKSTER}-${i + 1}`;
    return withKeys(mixApp(words), { name, tenant: TRICKSTER });
  });
  return { ...fixed, ...(at !== undefined && { at }), apps: [...own, ...VICTIMS.map(mixApp)] };
}

/** What the runs of one seed are compared by. */
interface Ground {
  readonly seed: number;
  readonly params: Readonly<NicParams>;
  readonly outcomes: Outcomes;
  /** By victim. */
  readonly demands: readonly Demand[];
}

/** What an application gets alone on the bare device. */
interface Demand {
  readonly wireGbps: number;
  readonly messageRateMmps: number;
}

function demandOf(mix: Mix, seed: number, params: Readonly<NicParams>, outcomes: Outcomes): Demand {
  const result = trustedResult(mix, seed, outcomes);
  // Without a result, the share is an equal part.
  if (result === undefined) return { wireGbps: params.linkGbps, messageRateMmps: Number.POSITIVE_INFINITY };
  const [app] = appsOf(specOf(mix, seed), params);
  const [{ messageRateMmps }] = result.apps;
  return { wireGbps: wireGbpsOf(app, result.apps[0], params), messageRateMmps };
}

/** The comparison of the honest runs and the runs of the trick; none if one of them failed. */
function evasionOf(trick: Trick, honestMix: Mix, mix: Mix, grounds: readonly Ground[]): Evasion[] {
  const { name, gains } = trick;
  const pairs = grounds.flatMap((ground): Pair[] => {
    const [honest, tried] = [honestMix, mix].map((one) => trustedResult(one, ground.seed, ground.outcomes));
    if (honest === undefined || tried === undefined) return [];
    return [{ honest: { mix: honestMix, result: honest }, tried: { mix, result: tried }, ground }];
  });
  if (pairs.length < grounds.length) return [];
  const all = pairs.map(gains === 'bandwidth' ? bandwidthOf : messagesOf);
  const [got, due] = [mean(all.map((one) => one.got)), mean(all.map((one) => one.due))];
  const gain = got / due - 1;
  const harms = harmsOf(pairs);
  const [{ seed }] = grounds;
  return [
    {
      ...{ trick: name, gains, got, due, gain, harms },
      isViolation: gain > LIMITS.gain || harms.some(({ harm }) => harm > LIMITS.harm),
      commands: { honest: commandOf(honestMix, seed), trick: commandOf(mix, seed) },
    },
  ];
}

interface Run {
  readonly mix: Mix;
  readonly result: MixResult;
}

/** The runs of one seed. */
interface Pair {
  readonly honest: Run;
  readonly tried: Run;
  readonly ground: Ground;
}

type Gain = Pick<Evasion, 'got' | 'due'>;

/** The host that sends the payload of an application; null: it stays on its host. */
function sourceOf({ op, host, to }: App): number | null {
  if (host === to) return null;
  return op === 'read' ? to : host;
}

/** What the trickster puts on the link of the host that sends its payload, and what it is due there. */
function bandwidthOf({ honest, tried, ground }: Pair): Gain {
  const { seed, params, demands } = ground;
  const appsIn = ({ mix }: Run) => appsOf(specOf(mix, seed), params);
  const source = sourceOf(appsIn(tried)[0]);
  const wireGbps = (run: Run) =>
    appsIn(run).reduce((sum, app, i) => {
      const isOwn = app.tenant === TRICKSTER && sourceOf(app) === source;
      return isOwn ? sum + wireGbpsOf(app, run.result.apps[i], params) : sum;
    }, 0);
  if (source === null) return { got: Number.NaN, due: Number.NaN };
  const victims = appsIn(tried).slice(-demands.length);
  const others = demands.filter((_, i) => sourceOf(victims[i]) === source).map((one) => one.wireGbps);
  return { got: wireGbps(tried), due: Math.max(wireGbps(honest), shareNextTo(others, params.linkGbps)) };
}

/** The messages of the trickster, and its share of all messages that complete next to its trick. */
function messagesOf({ honest, tried, ground }: Pair): Gain {
  const rateOf = (apps: readonly AppResult[]) => apps.reduce((sum, one) => sum + one.messageRateMmps, 0);
  const own = ({ result }: Run) => rateOf(result.apps.filter(({ tenant }) => tenant === TRICKSTER));
  const others = ground.demands.map((one) => one.messageRateMmps);
  return {
    got: own(tried),
    due: Math.max(own(honest), shareNextTo(others, rateOf(tried.result.apps))),
  };
}

/** The share of the link of a tenant that always sends, next to one more of these and the others, in Gbit/s of payload. */
function shareOf({ honest, ground }: Pair, i: number): number {
  const { seed, params, demands } = ground;
  const at = i - VICTIMS.length;
  const app = appsOf(specOf(honest.mix, seed), params).at(at)!;
  const result = honest.result.apps.at(at)!;
  const others = demands.filter((_, j) => j !== i).map(({ wireGbps }) => wireGbps);
  const share = shareNextTo([...others, Number.POSITIVE_INFINITY], params.linkGbps);
  return (share * result.throughputGbps) / wireGbpsOf(app, result, params);
}

/** What the others lose, in their order. */
function harmsOf(pairs: readonly Pair[]): Harm[] {
  return VICTIMS.map((_, i) => {
    const appOf = ({ result }: Run) => result.apps.at(i - VICTIMS.length)!;
    const { name, kind } = appOf(pairs[0].honest);
    const [measure, of] = MEASURE_OF_KIND[kind];
    const honest = mean(pairs.map((pair) => of(appOf(pair.honest))));
    const trick = mean(pairs.map((pair) => of(appOf(pair.tried))));
    const due =
      measure === 'bandwidth' ? Math.min(honest, mean(pairs.map((pair) => shareOf(pair, i)))) : honest;
    const harm = MEASURES[measure].better === 'less' ? trick / due - 1 : 1 - trick / due;
    return { tenant: name, honest, trick, due, harm };
  });
}
