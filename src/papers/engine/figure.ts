/** A figure of a paper: one mixture at each point of its x axis, run under several policies, and what is measured. */

import type { Mix, MixChange } from '../../mix/mixture.ts';
import type { MixResult } from '../../mix/result.ts';

/** A number, or the name of a group of bars. */
export type X = number | string;

/** A value that the paper's text states. Values are never read off a picture. */
export interface PaperPoint<T extends X = X> {
  /** A policy or another series of the figure, or a system that is not implemented here. */
  series: string;
  x: T;
  /** One value, or a range; in the panel's unit. */
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
  /** A mixture to compare with. It runs once, unchanged, for all series. */
  base?(x: T): Mix;
  /** NaN: no point at this x. `base`: the result of the panel's base; without a base, the same as `run`. */
  measure(run: MixResult, x: T, base: MixResult): number;
  paper?: readonly PaperPoint<T>[];
}

/** What one series changes in the figure's mixture. Written as a method, so that figures of any T fit one list. */
type Series<T extends X> = { change(x: T): MixChange }['change'];

export interface Figure<T extends X = X> {
  /** Number in the paper: `2b`. */
  number: string;
  title: string;
  /** Section of the paper, and what its text says about the figure. */
  source: string;
  /** Assumptions, and where the model differs from the paper. */
  note?: string;
  /** Further numbers of the paper that this figure covers: the same mixture under another system. */
  also?: readonly string[];
  /** `bytes`: values are sizes, and are printed with units. */
  x: { title: string; values: readonly T[]; log?: boolean; bytes?: boolean };
  /** The mixture at x, without a policy. */
  mix(x: T): Mix;
  /** As `--policy` of `isoverbs mix` takes them. Default: defaultPolicies(). */
  policies?: readonly string[];
  /** Further series by name, such as a hardware scheduler or other applications. */
  series?: Readonly<Record<string, Series<T>>>;
  panels: readonly Panel<T>[];
}

/** A figure with the paper it belongs to. */
export interface NamedFigure extends Figure {
  /** `perf-2b`. */
  name: string;
  paper: string;
}
