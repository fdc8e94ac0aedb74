/** Lines about fair: a bound on it, next to what perf, the bare device, and an application alone give. */

import { avgUs, gbps, mmps, p99Us } from '../../mix/metrics.ts';
import { type Mix, mixApp } from '../../mix/mixture.ts';
import { KINDS } from '../../mix/parse.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Kind } from '../../mix/spec.ts';
import type { Check, Form, Runs } from '../engine/claim.ts';
import { compared, type Policies } from '../engine/compared.ts';
import { atLeast, atMost, type Expectation, reported } from '../engine/expect.ts';
import { type MixOptions, mix } from '../engine/mix.ts';

/** The source of all claims. */
export const GOAL = 'Our own goal, set before the policy was tuned';

/** The applications of most lines. D pauses for 1 us between messages. */
export const D = 'D:think=1us';
export const PROFILE = 'cx6-100g';

/** Policies by form. */
export const POLICIES: Policies = Object.freeze({ software: 'fair', perf: 'perf', bare: 'none' });

/**
 * `NAME software`, `NAME perf` and `NAME bare`: the mixture in these forms; `NAME alone KIND`: its applications of these
 * kinds without the others. Default profile: PROFILE.
 */
export function alongside(
  name: string,
  apps: readonly string[],
  more: MixOptions = {},
  kinds: readonly Kind[] = KINDS,
): Record<string, Mix> {
  const { profile = PROFILE, ...rest } = more;
  const alone = apps
    .map(mixApp)
    .filter(({ spec }) => kinds.includes(spec.kind))
    .map(({ spec, words }) => [`${name} alone ${spec.kind}`, mix(profile, words, rest)]);
  return { ...compared(POLICIES, name, apps, { profile, ...rest }), ...Object.fromEntries(alone) };
}

/** A bound on what fair does to a mixture of alongside(). */
export interface Line {
  /** The mixture. */
  readonly name: string;
  readonly what: string;
  readonly unit: string;
  readonly expect: Expectation;
  /** What the column `alone` is about. Default: there is no such value. */
  readonly alone?: Kind;
  measure(run: MixResult, runs: Runs): number;
}

/** The check of a line, and the same measured in the other forms. */
export function checksOf({ name, what, unit, expect, alone, measure }: Line): Check[] {
  const check = (form: Form, mixture: string, expected: Expectation): Check => ({
    what,
    form,
    unit,
    expect: expected,
    measure: (runs) => measure(runs[mixture], runs),
  });
  return [
    check('software', `${name} software`, expect),
    check('perf', `${name} perf`, reported('-')),
    check('bare', `${name} bare`, reported('-')),
    ...(alone === undefined ? [] : [check('alone', `${name} alone ${alone}`, reported('-'))]),
  ];
}

/** Bounds on B, M and D: at least these rates, at most these latencies. */
export interface Bounds {
  readonly gbps?: number | undefined;
  readonly mmps?: number;
  readonly avgUs: number;
  readonly p99Us: number;
}

/** cx6-100g: B alongside D, and both alongside M. */
export const WITH_D: Bounds = { gbps: 96, avgUs: 1.4, p99Us: 1.6 };
export const WITH_M_AND_D: Bounds = { gbps: 86, mmps: 12, avgUs: 1.4, p99Us: 1.7 };

/** Bounds within this part of others. */
export const within = (part: number, bounds: Bounds): Bounds => ({
  ...(bounds.gbps !== undefined && { gbps: bounds.gbps * (1 - part) }),
  ...(bounds.mmps !== undefined && { mmps: bounds.mmps * (1 - part) }),
  avgUs: bounds.avgUs * (1 + part),
  p99Us: bounds.p99Us * (1 + part),
});

/** Lines about B (all tenants together), M and D in a mixture of alongside(), whose name starts each line. */
export function boundLines(name: string, bounds: Bounds): Check[] {
  const rate = (app: Kind, what: string, unit: string, least: number | undefined, measure: typeof gbps) =>
    least === undefined
      ? []
      : checksOf({
          name,
          what: `${name}: ${what}`,
          unit,
          expect: atLeast(least),
          alone: app,
          measure: (run) => measure(run, app),
        });
  const latency = (what: string, most: number, measure: typeof avgUs) =>
    checksOf({
      name,
      what: `${name}: ${what} latency of D`,
      unit: 'us',
      expect: atMost(most),
      alone: 'D',
      measure: (run) => measure(run, 'D'),
    });
  return [
    ...rate('B', 'bandwidth of B', 'Gbps', bounds.gbps, gbps),
    ...rate('M', 'rate of M', 'Mmps', bounds.mmps, mmps),
    ...latency('average', bounds.avgUs, avgUs),
    ...latency('p99', bounds.p99Us, p99Us),
  ];
}

/** A line about the average latency of D relative to that of the bare device on the same seed. */
export const latencyToBare = (name: string): Check[] =>
  checksOf({
    name,
    what: `${name}: average latency of D, relative to bare`,
    unit: 'x',
    expect: atMost(1),
    alone: 'D',
    measure: (run, runs) => avgUs(run, 'D') / avgUs(runs[`${name} bare`], 'D'),
  });
