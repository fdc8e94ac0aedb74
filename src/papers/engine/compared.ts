/** Claims about a policy: the same applications bare, under the policy, and under the policy as its paper describes it. */

import type { Mix } from '../../mix/mixture.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Runs } from './claim.ts';
import { type MixOptions, mix } from './mix.ts';

/** Policies by the word that is appended to a mixture's name. */
export type Policies = Readonly<Record<string, string>>;

export const PERF: Policies = Object.freeze({ bare: 'none', perf: 'perf', paper: 'perf:paper' });

/** `paper`: the rules as printed. */
export const JUSTITIA: Policies = Object.freeze({
  bare: 'none',
  justitia: 'justitia',
  paper: 'justitia:paper',
});

/** The same with these options of the policy, as `targetUs=1,chunkBytes=5000`. */
export const justitiaWith = (options: string): Policies => ({
  bare: 'none',
  justitia: `justitia:${options}`,
  paper: `justitia:paper,${options}`,
});

/** A mixture for each policy: `NAME bare`, `NAME perf`, `NAME paper`. Default profile: cx6-100g. */
export function compared(
  policies: Policies,
  name: string,
  apps: string | readonly string[],
  more: MixOptions = {},
): Record<string, Mix> {
  const { profile = 'cx6-100g', ...rest } = more;
  return Object.fromEntries(
    Object.entries(policies).map(([word, policy]) => [
      `${name} ${word}`,
      mix(profile, apps, { ...rest, policy }),
    ]),
  );
}

type Measure = (run: MixResult, app: string) => number;

/** What `app` gets in `NAME perf`, relative to what it gets in `NAME bare`. `words` selects two other policies. */
export function factor(
  runs: Runs,
  name: string,
  measure: Measure,
  app: string,
  words = ['perf', 'bare'],
): number {
  const [after, before] = words.map((word) => measure(runs[`${name} ${word}`], app));
  return after / before;
}
