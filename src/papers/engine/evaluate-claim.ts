/** The runs that a claim requires, and the comparison of their measurements with its expectations. */

import { distinct, type Job, jobOf, jobsOf } from '../../mix/jobs.ts';
import type { Outcomes } from '../../mix/outcomes.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Check, Claim, Computed, Form, Runs } from './claim.ts';
import {
  type ComputationJob,
  type ComputedOutcomes,
  computationJob,
  NOTHING_COMPUTED,
} from './computation-jobs.ts';
import { distance, type ExpectationKind } from './expect.ts';
import type { Values } from './values.ts';

export type Verdict = 'holds' | 'fails' | 'reported';

/** One line of the report: the check and the seed that are farthest from the expectation. */
export interface Row {
  system: string;
  claim: string;
  part: number;
  what: string;
  /** Identifies one of several checks with the same `what`. */
  at?: string;
  form?: Form;
  unit: string;
  kind: ExpectationKind;
  expected: string;
  tolerance: string;
  /** Bounds of what holds, both inclusive; infinite if there is none. JSON has null for these. */
  min: number;
  max: number;
  measured: number;
  seed: number;
  /** Extremes of that check over all seeds. */
  lowest: number;
  highest: number;
  verdict: Verdict;
  deviation?: string;
  /** Why there is no measurement. */
  problem?: string;
}

interface Sample {
  check: Check;
  seed: number;
  measured: number;
  distance: number;
  problem?: string;
}

/** Every run that the claims need, once. */
export function claimJobs(claims: readonly Claim[], seeds: readonly number[]): Job[] {
  return distinct(claims.flatMap(({ mixes }) => Object.values(mixes).flatMap((mix) => jobsOf(mix, seeds))));
}

/** Every computation that the claims need, possibly with duplicates. */
export function claimComputations(claims: readonly Claim[], seeds: readonly number[]): ComputationJob[] {
  return claims.flatMap(({ computations = {} }) =>
    Object.values(computations).flatMap((one) => seeds.map((seed) => computationJob(one, seed))),
  );
}

/** The values of a claim's computations, or the reason why there are none. */
function computedOf(claim: Claim, seed: number, outcomes: ComputedOutcomes): Computed | string {
  const computed: Record<string, Values> = {};
  for (const [name, computation] of Object.entries(claim.computations ?? {})) {
    const outcome = outcomes.get(computationJob(computation, seed));
    if (outcome === undefined) return `${name} was not computed`;
    if ('error' in outcome) return `${name}: ${outcome.error}`;
    computed[name] = outcome.result;
  }
  return computed;
}

/** The results of a claim's mixtures, or the reason why there are none. */
function runsOf(claim: Claim, seed: number, outcomes: Outcomes): Runs | string {
  const runs: Record<string, MixResult> = {};
  for (const [name, mix] of Object.entries(claim.mixes)) {
    const outcome = outcomes.get(jobOf(mix, seed));
    if (outcome === undefined) return `${name} did not run`;
    if ('error' in outcome) return `${name}: ${outcome.error}`;
    runs[name] = outcome.result;
  }
  return runs;
}

function sample(check: Check, seed: number, runs: Runs | string, computed: Computed | string): Sample {
  if (typeof runs === 'string' || typeof computed === 'string') {
    const problem = typeof runs === 'string' ? runs : String(computed);
    return { check, seed, measured: Number.NaN, distance: Number.POSITIVE_INFINITY, problem };
  }
  const measured = check.measure(runs, computed);
  return { check, seed, measured, distance: distance(check.expect, measured) };
}

function rowOf(claim: Claim, samples: readonly Sample[]): Row {
  const worst = samples.reduce((a, b) => (b.distance > a.distance ? b : a));
  const { check, seed, measured, problem } = worst;
  const ofCheck = samples.filter((one) => one.check === check).map((one) => one.measured);
  const { kind, expected, tolerance, min, max } = check.expect;
  const missing = !Number.isFinite(worst.distance);
  return {
    system: claim.system,
    claim: claim.id,
    part: claim.part,
    what: check.what,
    at: check.at,
    form: check.form,
    unit: check.unit,
    kind,
    expected,
    tolerance,
    min,
    max,
    measured,
    seed,
    lowest: Math.min(...ofCheck),
    highest: Math.max(...ofCheck),
    verdict: worst.distance > 1 || missing ? 'fails' : kind === 'reported' ? 'reported' : 'holds',
    deviation: deviationsOf(samples),
    problem,
  };
}

/** Deviations of all checks of the line. Each is printed, even if another check is the worst. */
function deviationsOf(samples: readonly Sample[]): string | undefined {
  const all = new Set(samples.flatMap(({ check }) => check.deviation ?? []));
  return all.size === 0 ? undefined : [...all].join('; ');
}

/** One row for each `what` and form of a claim. */
export function evaluate(
  claim: Claim,
  seeds: readonly number[],
  outcomes: Outcomes,
  computedOutcomes: ComputedOutcomes = NOTHING_COMPUTED,
): Row[] {
  const lines = new Map<string, Sample[]>();
  for (const seed of seeds) {
    const runs = runsOf(claim, seed, outcomes);
    const computed = computedOf(claim, seed, computedOutcomes);
    for (const check of claim.checks) {
      const key = `${check.form} ${check.what}`;
      const line = lines.get(key) ?? [];
      line.push(sample(check, seed, runs, computed));
      lines.set(key, line);
    }
  }
  return [...lines.values()].map((samples) => rowOf(claim, samples));
}
