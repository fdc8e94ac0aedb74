/**
 * A figure of a paper: one mixture at each point of its x axis, run under several policies, and what is measured in
 * it. Each is one file of about 20 lines, `PAPER/NUMBER.ts` beside this one; its name is `PAPER-NUMBER`.
 */

import type { MixResult } from '../../mix/result.ts';
import type { Mix } from './claim.ts';

/** A number, or the name of a group of bars. */
export type X = number | string;

/** A value that the paper's text states; no value is ever read off a picture. */
export interface PaperPoint<T extends X = X> {
  /** A policy or further series of the figure, or a system that is not here. */
  series: string;
  x: T;
  /** In the panel's unit; or from, to. */
  value: number | readonly [from: number, to: number];
  /** The section that states it. */
  from: string;
}

/** One quantity over x. */
export interface Panel<T extends X = X> {
  title: string;
  unit: string;
  /** Logarithmic axis. */
  log?: boolean;
  /** A mixture to compare with, which runs as it is: it has no series. */
  base?(x: T): Mix;
  /** NaN: nothing to show at this x. `base`: its run; without one, `run`. */
  measure(run: MixResult, x: T, base: MixResult): number;
  paper?: readonly PaperPoint<T>[];
}

export interface Figure<T extends X = X> {
  title: string;
  /** Where in the paper, and what of its text says what is drawn. */
  source: string;
  /** What is assumed, and where the model shows something else than the paper. */
  note?: string;
  /** Further numbers of the paper that this one shows too: the same mixture under another system. */
  also?: readonly string[];
  /** `bytes`: values are sizes, and are written with units. */
  x: { title: string; values: readonly T[]; log?: boolean; bytes?: boolean };
  /** What runs at x, without the policy. */
  mix(x: T): Mix;
  /** As `--policy` of `isoverbs mix` takes them. Default: defaultPolicies(). */
  policies?: readonly string[];
  /** Further series by name, with what is different from `mix`: a scheduler of the hardware, other apps. */
  series?: Readonly<Record<string, (x: T) => Partial<Mix>>>;
  panels: readonly Panel<T>[];
}

/** A figure and where its file is. */
export interface NamedFigure extends Figure {
  /** `perf-2b`. */
  name: string;
  paper: string;
  number: string;
}
