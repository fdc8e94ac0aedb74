/** Holds what was measured against what was expected. */

import { commandOf } from '../../mix/jobs.ts';
import type { Outcome } from '../../mix/pool.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Check, Runs } from './claim.ts';
import { distance, type ExpectationKind } from './expect.ts';
import type { NamedClaim } from './load-claims.ts';

export type Verdict = 'holds' | 'fails' | 'reported';

/** One line of the report: the check and the seed that are farthest from what is expected. */
export interface Row {
  system: string;
  claim: string;
  part: number;
  what: string;
  /** Of several checks, this one. */
  at?: string;
  unit: string;
  kind: ExpectationKind;
  expected: string;
  tolerance: string;
  measured: number;
  seed: number;
  /** Of that check, over all seeds. */
  lowest: number;
  highest: number;
  verdict: Verdict;
  deviation?: string;
  /** Why nothing could be measured. */
  problem?: string;
}

interface Sample {
  check: Check;
  seed: number;
  measured: number;
  distance: number;
  problem?: string;
}

type Outcomes = ReadonlyMap<string, Outcome>;

/** The results of a claim's mixes; a string says why there are none. */
function runsOf(claim: NamedClaim, seed: number, outcomes: Outcomes): Runs | string {
  const runs: Record<string, MixResult> = {};
  for (const [name, mix] of Object.entries(claim.mixes)) {
    const outcome = outcomes.get(commandOf(mix, seed));
    if (outcome === undefined) return `${name} did not run`;
    if ('error' in outcome) return `${name}: ${outcome.error}`;
    runs[name] = outcome.result;
  }
  return runs;
}

function sample(check: Check, seed: number, runs: Runs | string): Sample {
  if (typeof runs === 'string') {
    return { check, seed, measured: Number.NaN, distance: Number.POSITIVE_INFINITY, problem: runs };
  }
  const measured = check.measure(runs);
  return { check, seed, measured, distance: distance(check.expect, measured) };
}

function rowOf(claim: NamedClaim, samples: readonly Sample[]): Row {
  const worst = samples.reduce((a, b) => (b.distance > a.distance ? b : a));
  const { check, seed, measured, problem } = worst;
  const ofCheck = samples.filter((one) => one.check === check).map((one) => one.measured);
  const { kind, expected, tolerance } = check.expect;
  const missing = !Number.isFinite(worst.distance);
  return {
    system: claim.system,
    claim: claim.id,
    part: claim.part,
    what: check.what,
    at: check.at,
    unit: check.unit,
    kind,
    expected,
    tolerance,
    measured,
    seed,
    lowest: Math.min(...ofCheck),
    highest: Math.max(...ofCheck),
    verdict: worst.distance > 1 || missing ? 'fails' : kind === 'reported' ? 'reported' : 'holds',
    deviation: deviationsOf(samples),
    problem,
  };
}

/** Of all checks of the line: it is told, too, where another one is the worst. */
function deviationsOf(samples: readonly Sample[]): string | undefined {
  const all = new Set(samples.flatMap(({ check }) => check.deviation ?? []));
  return all.size === 0 ? undefined : [...all].join('; ');
}

/** One row for each thing that a claim says. */
export function evaluate(claim: NamedClaim, seeds: readonly number[], outcomes: Outcomes): Row[] {
  const lines = new Map<string, Sample[]>();
  for (const seed of seeds) {
    const runs = runsOf(claim, seed, outcomes);
    for (const check of claim.checks) {
      const line = lines.get(check.what) ?? [];
      line.push(sample(check, seed, runs));
      lines.set(check.what, line);
    }
  }
  return [...lines.values()].map((samples) => rowOf(claim, samples));
}

/** Commands of runs that went wrong, with the reason: no claim rests on those. */
export function brokenRuns(outcomes: Outcomes): string[] {
  return [...outcomes].flatMap(([command, outcome]) => {
    if ('error' in outcome) return [`${command}: ${outcome.error}`];
    const { invariants, apps } = outcome.result;
    const errors = apps
      .filter((app) => app.errors > 0)
      .map((app) => `${app.errors} requests of ${app.name} failed`);
    return [...invariants, ...errors].map((reason) => `${command}: ${reason}`);
  });
}
