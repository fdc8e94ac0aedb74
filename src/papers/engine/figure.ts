/**
 * A figure of a paper: one mixture at each point of its x axis, run under several policies, and its metrics; or, without a
 * device, curves of computations.
 */

import type { Mix, MixChange } from '../../mix/mixture.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Computation } from './computation.ts';
import type { Values } from './values.ts';

/** A number, or the name of a group of bars. */
export type X = number | string;

/** A value that the paper's text states. Values are never read from a picture. */
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
  /** Whether the axis is logarithmic. */
  log?: boolean;
  /** A mixture to compare with. It runs once, unchanged, for all series. */
  base?(x: T): Mix;
  /** NaN: no point at this x. `base`: the result of the panel's base; without a base, the same as `run`. */
  measure(run: MixResult, x: T, base: MixResult): number;
  paper?: readonly PaperPoint<T>[];
}

/** The changes of one series to the figure's mixture. Written as a method, so that figures of any T fit one list. */
type Series<T extends X> = { change(x: T): MixChange }['change'];

/** What figures of all kinds say about themselves. */
interface Described<T extends X = X> {
  /** Number in the paper: `2b`. */
  number: string;
  title: string;
  /** The section of the paper, and its statement about the figure. */
  source: string;
  /** Assumptions, and where the model differs from the paper. */
  note?: string;
  /** Further numbers of the paper that this figure covers: the same mixture under another system. */
  also?: readonly string[];
  /** With `bytes`, values are sizes and are printed with units. */
  x: { title: string; values: readonly T[]; log?: boolean; bytes?: boolean };
}

export interface Figure<T extends X = X> extends Described<T> {
  /** The mixture at x, without a policy. */
  mix(x: T): Mix;
  /** Policies, in the form of `--policy` of `isoverbs mix`. Default: defaultPolicies(). */
  policies?: readonly string[];
  /** Further series by name, such as a hardware scheduler or other applications. */
  series?: Readonly<Record<string, Series<T>>>;
  panels: readonly Panel<T>[];
}

/** One quantity of computations over x. */
export interface CurvePanel {
  title: string;
  unit: string;
  /** Whether the axis is logarithmic. */
  log?: boolean;
  /** NaN: no point at this x. */
  measure(values: Values, x: number): number;
  paper?: readonly PaperPoint<number>[];
}

/** A figure without a device. One computation gives all points of a series. */
export interface CurveFigure extends Described<number> {
  /** By name of the series. */
  curves: Readonly<Record<string, Computation>>;
  panels: readonly CurvePanel[];
}

/** The name of a figure, such as `perf-2b`, and the paper to which it belongs. */
interface Named {
  name: string;
  paper: string;
}

/** A figure of runs, with its paper. */
export type NamedMixFigure = Figure & Named;
/** A figure of computations, with its paper. */
export type NamedCurveFigure = CurveFigure & Named;
export type NamedFigure = NamedMixFigure | NamedCurveFigure;
