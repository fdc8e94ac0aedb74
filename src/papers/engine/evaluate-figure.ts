/** The runs that a figure requires, and its points. */

import { declaredFor } from '../../mix/declare.ts';
import { distinct, type Job, jobOf, jobsOf } from '../../mix/jobs.ts';
import { changed, commandOf, type Mix, type MixChange } from '../../mix/mixture.ts';
import { type Outcomes, problemsOf } from '../../mix/outcomes.ts';
import { policies } from '../../policies/index.ts';
import {
  type ComputationJob,
  type ComputedOutcomes,
  computationJob,
  NOTHING_COMPUTED,
} from './computation-jobs.ts';
import type { NamedCurveFigure, NamedFigure, NamedMixFigure, Panel, PaperPoint, X } from './figure.ts';

/** One point: the median over the seeds. */
export interface Point {
  x: X;
  value: number;
  lowest: number;
  highest: number;
}

export interface PanelResult {
  title: string;
  unit: string;
  log: boolean;
  series: { name: string; points: Point[] }[];
  paper: readonly PaperPoint[];
}

/** The points of a figure. */
export interface FigureResult {
  name: string;
  paper: string;
  number: string;
  title: string;
  source: string;
  note?: string;
  /** Further numbers of the paper that it covers. */
  also?: readonly string[];
  x: { title: string; values: readonly X[]; log: boolean; bytes: boolean };
  seeds: readonly number[];
  panels: PanelResult[];
  /** The runs of the first seed. */
  runs: { series: string; x: X; command: string }[];
  /** Runs without a result, whose points are missing, and runs that broke an invariant. */
  problems: string[];
}

interface Run {
  series: string;
  x: X;
  mix: Mix;
}

/** Policies that isolate nothing by themselves, or only what their options name. */
const BASELINES = ['token-bucket', 'chunk', 'share'];

/** `none` and every built-in policy except baselines; perf also as its paper describes it. */
export function defaultPolicies(): string[] {
  const named = Object.keys(policies).filter((name) => !BASELINES.includes(name));
  return ['none', ...named.flatMap((name) => (name === 'perf' ? [name, `${name}:paper`] : [name]))];
}

/** A name, and what the series changes in the figure's mixture. */
type NamedSeries = [name: string, change: (x: X) => MixChange];

/** @param chosen replaces the figure's policies; other series are drawn in any case */
function runsOf(figure: NamedMixFigure, chosen: readonly string[] | undefined): Run[] {
  const all: NamedSeries[] = [
    ...(chosen ?? figure.policies ?? defaultPolicies()).map(
      (policy): NamedSeries => [policy, () => ({ policy })],
    ),
    ...Object.entries(figure.series ?? {}),
  ];
  return all.flatMap(([series, change]) =>
    figure.x.values.map((x) => ({ series, x, mix: asPoliciesExpect(changed(figure.mix(x), change(x))) })),
  );
}

/** The mixture as the policies of all its hosts expect it. */
function asPoliciesExpect(mix: Mix): Mix {
  const onHosts = (mix.onHosts ?? []).map((one) => one.replace(/^@[^=]*=/, ''));
  return [mix.policy ?? 'none', ...onHosts].reduce(declaredFor, mix);
}

const isOfRuns = (figure: NamedFigure): figure is NamedMixFigure => 'mix' in figure;

/** Every computation that the figures need, possibly with duplicates. */
export function figureComputations(
  figures: readonly NamedFigure[],
  seeds: readonly number[],
): ComputationJob[] {
  return figures.flatMap((figure) =>
    isOfRuns(figure)
      ? []
      : Object.values(figure.curves).flatMap((one) => seeds.map((seed) => computationJob(one, seed))),
  );
}

/** Every run that the figures need, possibly with duplicates. */
export function figureJobs(
  figures: readonly NamedFigure[],
  seeds: readonly number[],
  chosen?: readonly string[],
): Job[] {
  return figures
    .filter(isOfRuns)
    .flatMap((figure) =>
      [...runsOf(figure, chosen).map(({ mix }) => mix), ...basesOf(figure)].flatMap((mix) =>
        jobsOf(mix, seeds),
      ),
    );
}

function basesOf({ panels, x }: NamedMixFigure): Mix[] {
  return panels.flatMap(({ base }) => (base === undefined ? [] : x.values.map((at) => base(at))));
}

function pointOf(x: X, values: number[]): Point {
  const sorted = values.sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const value = (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
  return { x, value, lowest: sorted[0], highest: sorted[sorted.length - 1] };
}

function panelOf(panel: Panel, runs: readonly Run[], seeds: readonly number[], outcomes: Outcomes) {
  const series = new Map<string, Point[]>(runs.map((run) => [run.series, []]));
  for (const { series: name, x, mix } of runs) {
    const values = seeds.flatMap((seed) => {
      const [run, base] = [mix, panel.base?.(x) ?? mix].map((one) => outcomes.get(jobOf(one, seed)));
      if (run === undefined || base === undefined || 'error' in run || 'error' in base) return [];
      return [panel.measure(run.result, x, base.result)];
    });
    if (values.length > 0 && values.every(Number.isFinite)) series.get(name)?.push(pointOf(x, values));
  }
  return {
    title: panel.title,
    unit: panel.unit,
    log: panel.log === true,
    series: [...series].map(([name, points]) => ({ name, points })),
    paper: panel.paper ?? [],
  };
}

/** What a result says about the figure itself. */
function described(
  { name, paper, number, title, source, note, also, x }: NamedFigure,
  seeds: readonly number[],
) {
  const axis = { title: x.title, values: x.values, log: x.log === true, bytes: x.bytes === true };
  return { name, paper, number, title, source, note, also, x: axis, seeds };
}

/** Computes the points of a figure. @param chosen as in figureJobs() */
export function evaluateFigure(
  figure: NamedFigure,
  seeds: readonly number[],
  outcomes: Outcomes,
  chosen?: readonly string[],
  computed: ComputedOutcomes = NOTHING_COMPUTED,
): FigureResult {
  if (!isOfRuns(figure)) return evaluateCurves(figure, seeds, computed);
  const runs = runsOf(figure, chosen);
  const mixes = [...runs.map(({ mix }) => mix), ...basesOf(figure)];
  const problems = distinct(mixes.flatMap((mix) => jobsOf(mix, seeds))).flatMap((job) => {
    const outcome = outcomes.get(job);
    return outcome === undefined ? [`${job.command}: did not run`] : problemsOf(job, outcome);
  });
  return {
    ...described(figure, seeds),
    panels: figure.panels.map((panel) => panelOf(panel, runs, seeds, outcomes)),
    runs: runs.map((run) => ({ series: run.series, x: run.x, command: commandOf(run.mix, seeds[0]) })),
    problems,
  };
}

function evaluateCurves(
  figure: NamedCurveFigure,
  seeds: readonly number[],
  computed: ComputedOutcomes,
): FigureResult {
  const problems: string[] = [];
  const curves = Object.entries(figure.curves).map(([name, computation]) => {
    const all = seeds.flatMap((seed) => {
      const job = computationJob(computation, seed);
      const outcome = computed.get(job);
      if (outcome !== undefined && 'result' in outcome) return [outcome.result];
      problems.push(`${job.command}: ${outcome === undefined ? 'was not computed' : outcome.error}`);
      return [];
    });
    return { name, all };
  });
  const panels = figure.panels.map(({ title, unit, log, measure, paper }) => ({
    ...{ title, unit, log: log === true, paper: paper ?? [] },
    series: curves.map(({ name, all }) => ({
      name,
      points: figure.x.values.flatMap((x) => {
        const values = all.map((one) => measure(one, x));
        return values.length > 0 && values.every(Number.isFinite) ? [pointOf(x, values)] : [];
      }),
    })),
  }));
  return { ...described(figure, seeds), panels, runs: [], problems };
}
