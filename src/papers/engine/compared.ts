/** Claims about a policy: the same applications bare, under it, and under it as its paper has it. */
import type { MixResult } from '../../mix/result.ts';
import { type Mix, mix, type Runs } from './claim.ts';

/** By the word that is put behind a mix's name. */
export type Policies = Readonly<Record<string, string>>;

export const PERF: Policies = Object.freeze({ bare: 'none', perf: 'perf', paper: 'perf:paper' });

/** Mixes `NAME bare`, `NAME perf`, `NAME paper`. */
export function compared(
  policies: Policies,
  name: string,
  apps: string | readonly string[],
  more: Partial<Mix> & { profile?: string } = {},
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

/** What `app` gets in the mix `NAME perf`, as a factor of what it gets in `NAME bare`; or in other two. */
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
