/**
 * A claim: what some paper, or a closed form, says that a run of a mixture shows, and how far off it may be.
 * Each is one file of a folder beside this one (bare/: the device without any policy; perf/: a policy); the file's
 * name is its id.
 */

import type { MixResult } from '../../mix/result.ts';
import type { TopologyName } from '../../sim/network/topology.ts';
import type { Expectation } from './expect.ts';
import { BARE, PAPERS } from './papers.ts';

/** A mixture in the words of `isoverbs mix`; the seed comes from the run. */
export interface Mix {
  /** A name of PROFILES, and parameters that are different from it. */
  profile: string;
  set?: Readonly<Record<string, string | number>>;
  /** Default none. */
  policy?: string;
  /** Virtual time of the whole run, and of the part of it that does not count. */
  duration: string;
  warmup: string;
  /** Default 2. */
  hosts?: number;
  /** Default one cable, or one switch for more than two hosts. */
  topology?: TopologyName;
  /** Each as `--app` takes it. */
  apps: readonly string[];
}

/** Results of one seed by the names that the claim gave its mixes. */
export type Runs = Readonly<Record<string, MixResult>>;

/** One number that the claim is about. */
export interface Check {
  /** Checks of a claim with the same `what` are one line of the report, which shows the worst of them. */
  what: string;
  /** Which of those this is. */
  at?: string;
  unit: string;
  measure(runs: Runs): number;
  expect: Expectation;
  /** Why `expect` is another than before the first run; the report prints it. */
  deviation?: string;
}

export interface Claim {
  /** A key of the system's PARTS. */
  part: number;
  title: string;
  /** Paper and place, or how it is derived. */
  source: string;
  /** What one would otherwise ask: what is assumed, and why no more is expected. */
  note?: string;
  /** Whether it belongs to the short set that every test run has. */
  smoke?: boolean;
  mixes: Readonly<Record<string, Mix>>;
  checks: readonly Check[];
}

/** The chapter about the bare device in the report about a policy. */
export const BARE_PART = 9;

/** Chapters of the report, by system. */
export const PARTS: Readonly<Record<string, Readonly<Record<number, string>>>> = Object.freeze({
  [BARE]: Object.freeze({
    1: 'Shares follow from the packet round',
    2: 'Rates and latencies of the devices',
    3: 'The size of what is in the background',
    4: 'Bandwidth applications of different message size',
    5: 'Many queue pairs, large batches',
    6: 'READ against WRITE; small messages among themselves',
    7: 'A greedy device',
    8: 'Priorities of the hardware',
    9: 'Many senders, one receiver',
    10: 'Further claims about bare devices',
  }),
  ...Object.fromEntries(
    PAPERS.flatMap(({ key, policy }) =>
      policy === undefined
        ? []
        : [[key, { ...policy.parts, [BARE_PART]: 'What the paper says of the bare device' }]],
    ),
  ),
});

const SHORT = { duration: '5ms', warmup: '1ms' };

/** A mix of 5 ms, of which the first does not count, unless `more` says otherwise. */
export function mix(profile: string, apps: string | readonly string[], more: Partial<Mix> = {}): Mix {
  return { profile, apps: typeof apps === 'string' ? [apps] : apps, ...SHORT, ...more };
}
