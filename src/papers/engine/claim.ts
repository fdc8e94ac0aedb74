/** A claim: a statement of a paper or a closed form that runs of mixtures can show, and its tolerance. */

import type { Mix } from '../../mix/mixture.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Computation } from './computation.ts';
import type { Expectation } from './expect.ts';
import type { Values } from './values.ts';

/** Results of one seed, by the names that the claim gave its mixtures. */
export type Runs = Readonly<Record<string, MixResult>>;

/** Values of one seed, by the names that the claim gave its computations. */
export type Computed = Readonly<Record<string, Values>>;

/**
 * A column of a report that shows the lines about a system side by side. `hardware` and `software` are forms of the
 * system: in the NIC, or as a policy on a NIC without it. The others are for comparison: the policy `perf`, the device
 * without a policy (`bare`), and each application on a bare device without the others (`alone`).
 */
export type Form = (typeof FORMS)[number];

/** In the order of the report's columns. */
export const FORMS = ['hardware', 'software', 'perf', 'bare', 'alone'] as const;

/** One number about which the claim makes a statement. */
export interface Check {
  /** Checks of a claim with the same `what` and form share one line of the report, which shows the worst of them. */
  what: string;
  /** Distinguishes checks with the same `what`. */
  at?: string;
  /** What is measured, if the report shows the lines about the system side by side. */
  form?: Form;
  unit: string;
  measure(runs: Runs, computed: Computed): number;
  expect: Expectation;
  /** Why `expect` changed after the first run. The report prints it. */
  deviation?: string;
}

export interface Claim {
  /** Unique within the system; frozen.json refers to it. */
  id: string;
  /** The subject of the claim: BARE, the key of the paper whose policy runs, or the key of one of OWN_SYSTEMS. */
  system: string;
  /** The chapter of the report: a key of the system's PARTS. */
  part: number;
  title: string;
  /** Paper and section, or how the expectation is derived. */
  source: string;
  /** Ids of the paper claims that this claim shows; empty if it rests on no paper of this folder. */
  shows: readonly string[];
  /** Assumptions, and reasons for not expecting more. */
  note?: string;
  /** Whether the claim belongs to the short set that every test run includes. */
  smoke?: boolean;
  mixes: Readonly<Record<string, Mix>>;
  /** What the claim measures without a device. */
  computations?: Readonly<Record<string, Computation>>;
  checks: readonly Check[];
}
