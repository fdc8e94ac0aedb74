/** Runs victims alone, and next to attackers: bare, under policies and under hardware schedulers. */
import { distinct, jobOf, specOf } from '../../mix/jobs.ts';
import { commandOf, type Mix, withKeys } from '../../mix/mixture.ts';
import { brokenRuns, type Outcomes } from '../../mix/outcomes.ts';
import { runJobs } from '../../mix/pool.ts';
import { appsOf, paramsOf } from '../../mix/resolve.ts';
import type { AppResult } from '../../mix/result.ts';
import type { RunCache } from '../../mix/run-cache.ts';
import type { NicParams } from '../../sim/profile/params.ts';
import { requireRunnable } from '../compare.ts';
import { type Scheme, type SchemeGroup, schemesOf } from '../schemes.ts';
import { medianOf, trustedResult } from '../worse-off.ts';
import { type Contention, contentionOf } from './contention.ts';
import type { Scale } from './scale.ts';
import { type Attacker, type AttackerClass, attackersOf, type Test, victimsOf } from './suite.ts';

/** A victim that gets less than this part of what it is due is violated. Husky's alpha. */
export const ALPHA = 0.9;

/** One attacker and one victim, as the resource model sees them before any run. */
export interface Pairing {
  readonly attacker: string;
  readonly class: AttackerClass;
  readonly victim: string;
  /** What both want more of than there is; null if the device has enough for both. */
  readonly contention: Contention | null;
}

/** One pair under one scheme. Rates are Gbit/s of payload, because some victims count bytes and all sizes are fixed. */
export interface Meeting extends Pairing {
  /** The victim alone on the bare device, and next to the attacker. */
  readonly aloneGbps: number;
  readonly gotGbps: number;
  /** min(alone, half of the most that the scarcest resource allows the victim's pattern). */
  readonly dueGbps: number;
  readonly ofAlone: number;
  readonly isViolation: boolean;
  /** The sum of what both get, each relative to itself alone. NaN: the attacker moves no messages. */
  readonly work: number;
  /** Repeats the run. */
  readonly command: string;
}

export interface SchemeMeetings {
  readonly scheme: string;
  readonly group: Exclude<SchemeGroup, 'alone'>;
  readonly says: string;
  /** A pair one of whose runs failed is missing. */
  readonly meetings: readonly Meeting[];
}

export interface Isolation {
  readonly fixed: IsolationOptions['fixed'];
  readonly seed: number;
  readonly pairings: readonly Pairing[];
  readonly schemes: readonly SchemeMeetings[];
  readonly runs: number;
  /** Runs that failed or broke an invariant, with the reason. */
  readonly broken: readonly string[];
  /** On real devices: the most that an application had. */
  readonly scale?: Scale;
}

export interface IsolationOptions {
  readonly fixed: Pick<Mix, 'profile' | 'set' | 'duration' | 'warmup'>;
  readonly seed: number;
  /** Policies, each as `--policy` takes it; `none` is the bare device. Default: POLICIES. */
  readonly policies?: readonly string[];
  /** Hardware schedulers. Default: SCHEDULERS; none if policies are named. */
  readonly schedulers?: readonly string[];
  /** Classes, tests or forms (suite.ts). Default: all. */
  readonly attackers?: readonly string[];
  readonly victims?: readonly string[];
  readonly threads: number;
  readonly cache?: RunCache;
  onDone?(done: number, of: number): void;
}

/** What the suite compares by default. */
export const POLICIES: readonly string[] = [
  'none',
  'token-bucket',
  'perf',
  'justitia',
  'palos',
  'tassel',
  'drum',
  'fair',
];
export const SCHEDULERS: readonly string[] = ['sp', 'ets'];

/** Names of the applications of a pair. */
export const VICTIM = 'victim';
export const ATTACKER = 'attacker';

/** A pair, and its mixture under every scheme. */
interface Plan {
  readonly pairing: Pairing;
  readonly schemes: readonly Scheme[];
  readonly aloneVictim: Mix;
  /** Null: it moves no messages, and nothing of it is measured. */
  readonly aloneAttacker: Mix | null;
}

/**
 * Runs the suite. The same options always give the same result.
 * @throws ConfigError for an unknown policy, scheduler, attacker, victim, profile or parameter, before anything runs
 */
export async function isolation(options: IsolationOptions): Promise<Isolation> {
  const { fixed, seed, threads, cache, onDone } = options;
  const plans = plansOf(options);
  const mixes = plans.flatMap(({ schemes, aloneVictim, aloneAttacker }) => [
    aloneVictim,
    ...(aloneAttacker === null ? [] : [aloneAttacker]),
    ...schemes.map(({ mix }) => mix),
  ]);
  const jobs = distinct(mixes.map((mix) => jobOf(mix, seed)));
  for (const mix of mixes) requireRunnable(mix, seed);
  const outcomes = await runJobs(jobs, { threads, cache, onDone });
  return {
    fixed,
    seed,
    pairings: plans.map(({ pairing }) => pairing),
    schemes: plans[0].schemes.map(({ name, group, says }, at) => ({
      ...{ scheme: name, group, says },
      meetings: plans.flatMap((plan) => meetingOf(plan, plan.schemes[at].mix, seed, outcomes)),
    })),
    runs: jobs.length,
    broken: brokenRuns(outcomes),
  };
}

function plansOf(options: IsolationOptions): Plan[] {
  const { fixed, seed } = options;
  const params = paramsOf(specOf({ ...fixed, apps: [] }, seed));
  const victims = victimsOf(options.victims);
  return attackersOf(options.attackers).flatMap((attacker) =>
    victims.map((victim) => planOf(attacker, victim, params, options)),
  );
}

function planOf(
  attacker: Attacker,
  victim: Test,
  params: Readonly<NicParams>,
  options: IsolationOptions,
): Plan {
  const { fixed, seed, policies = POLICIES } = options;
  const own = withKeys(victim.app, { name: VICTIM });
  const other = withKeys(attacker.app, { name: ATTACKER });
  const mix: Mix = { ...fixed, apps: [own, other] };
  const [victimApp, attackerApp] = appsOf(specOf(mix, seed), params);
  const schedulers = options.schedulers ?? (options.policies === undefined ? SCHEDULERS : []);
  const [bare, ...others] = schemesOf(mix, params, { policies, schedulers });
  return {
    pairing: {
      ...{ attacker: attacker.name, class: attacker.class, victim: victim.name },
      contention: contentionOf(victimApp, attackerApp, params),
    },
    schemes: policies.includes('none') ? [bare, ...others] : others,
    aloneVictim: { ...fixed, apps: [own] },
    aloneAttacker: attackerApp.isRegistering ? null : { ...fixed, apps: [other] },
  };
}

/** What came of a pair; none if one of its runs failed. */
function meetingOf(
  { pairing, aloneVictim, aloneAttacker }: Plan,
  mix: Mix,
  seed: number,
  outcomes: Outcomes,
) {
  const appsIn = (one: Mix) => trustedResult(one, seed, outcomes)?.apps;
  const [own, both] = [appsIn(aloneVictim), appsIn(mix)];
  const other = aloneAttacker === null ? null : appsIn(aloneAttacker)?.[0];
  if (own === undefined || other === undefined || both === undefined) return [];
  return [{ ...judged(pairing, own[0], other, both), command: commandOf(mix, seed) }];
}

/** What counts of the result of an application. */
type Rate = Pick<AppResult, 'throughputGbps'>;

/**
 * What came of a pair.
 * @param own the victim alone
 * @param other the attacker alone; null: it moves no messages
 * @param both the victim and the attacker together
 */
export function judged(
  pairing: Pairing,
  own: Rate,
  other: Rate | null,
  both: readonly Rate[],
): Omit<Meeting, 'command'> {
  const [{ throughputGbps: aloneGbps }, { throughputGbps: gotGbps }] = [own, both[0]];
  const dueGbps = Math.min(aloneGbps, pairing.contention?.dueGbps ?? Number.POSITIVE_INFINITY);
  const part = (app: Rate, alone: Rate) => app.throughputGbps / alone.throughputGbps;
  return {
    ...pairing,
    ...{ aloneGbps, gotGbps, dueGbps },
    ofAlone: gotGbps / aloneGbps,
    isViolation: gotGbps < ALPHA * dueGbps,
    work: other === null ? Number.NaN : part(both[0], own) + part(both[1], other),
  };
}

/** What the pairs of one scheme come to. */
export interface Counts {
  readonly pairs: number;
  readonly violated: number;
  /** The least that a victim got, relative to what it was due. NaN without pairs. */
  readonly leastOfDue: number;
  readonly medianWork: number;
}

/** Counts violations. */
export function countsOf(meetings: readonly Meeting[]): Counts {
  const works = meetings.map(({ work }) => work).filter((work) => !Number.isNaN(work));
  return {
    pairs: meetings.length,
    violated: meetings.filter(({ isViolation }) => isViolation).length,
    leastOfDue: meetings.reduce(
      (least, { gotGbps, dueGbps }) => Math.min(least, gotGbps / dueGbps),
      Infinity,
    ),
    medianWork: medianOf(works.sort((a, b) => a - b)),
  };
}
