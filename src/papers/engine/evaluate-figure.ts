/** Which runs a figure needs, and what they show. */

import { commandOf, type Job, jobsOfMix } from '../../mix/jobs.ts';
import type { Outcome } from '../../mix/pool.ts';
import { policies } from '../../policies/index.ts';
import type { Mix } from './claim.ts';
import { brokenRuns } from './evaluate-claim.ts';
import type { NamedFigure, Panel, PaperPoint, X } from './figure.ts';

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

/** A figure as it is drawn. */
export interface FigureResult {
  name: string;
  paper: string;
  number: string;
  title: string;
  source: string;
  note?: string;
  x: { title: string; values: readonly X[]; log: boolean; bytes: boolean };
  seeds: readonly number[];
  panels: PanelResult[];
  /** What ran, with the first seed. */
  runs: { series: string; x: X; command: string }[];
  /** Runs without a result, whose points are missing, and runs whose result is not to be trusted. */
  problems: string[];
}

interface Run {
  series: string;
  x: X;
  mix: Mix;
}

/** `none`, and every policy that is built in; PeRF also as its paper has it. */
export function defaultPolicies(): string[] {
  const named = Object.keys(policies).filter((name) => name !== 'token-bucket');
  return ['none', ...named.flatMap((name) => (name === 'perf' ? [name, `${name}:paper`] : [name]))];
}

function merged(mix: Mix, more: Partial<Mix>): Mix {
  return { ...mix, ...more, ...(more.set && { set: { ...mix.set, ...more.set } }) };
}

/** A name, and what is different from the figure's mixture. */
type Series = [name: string, more: (x: X) => Partial<Mix>];

/** @param chosen policies instead of the figure's own; further series are drawn in any case */
function runsOf(figure: NamedFigure, chosen: readonly string[] | undefined): Run[] {
  const all: Series[] = [
    ...(chosen ?? figure.policies ?? defaultPolicies()).map((policy): Series => [policy, () => ({ policy })]),
    ...Object.entries(figure.series ?? {}),
  ];
  return all.flatMap(([series, more]) =>
    figure.x.values.map((x) => ({ series, x, mix: merged(figure.mix(x), more(x)) })),
  );
}

/** Every run that the figures need; the same one may be there more than once. */
export function figureJobs(
  figures: readonly NamedFigure[],
  seeds: readonly number[],
  chosen?: readonly string[],
): Job[] {
  return figures.flatMap((figure) =>
    [...runsOf(figure, chosen).map(({ mix }) => mix), ...basesOf(figure)].flatMap((mix) =>
      jobsOfMix(mix, seeds),
    ),
  );
}

function basesOf({ panels, x }: NamedFigure): Mix[] {
  return panels.flatMap(({ base }) => (base === undefined ? [] : x.values.map((at) => base(at))));
}

function pointOf(x: X, values: number[]): Point {
  const sorted = values.sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const value = (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
  return { x, value, lowest: sorted[0], highest: sorted[sorted.length - 1] };
}

type Outcomes = ReadonlyMap<string, Outcome>;

function panelOf(panel: Panel, runs: readonly Run[], seeds: readonly number[], outcomes: Outcomes) {
  const series = new Map<string, Point[]>(runs.map((run) => [run.series, []]));
  for (const { series: name, x, mix } of runs) {
    const values = seeds.flatMap((seed) => {
      const [run, base] = [mix, panel.base?.(x) ?? mix].map((one) => outcomes.get(commandOf(one, seed)));
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

/** What the figure shows. @param chosen as for figureJobs() */
export function evaluateFigure(
  figure: NamedFigure,
  seeds: readonly number[],
  outcomes: Outcomes,
  chosen?: readonly string[],
): FigureResult {
  const { name, paper, number, title, source, note, x } = figure;
  const runs = runsOf(figure, chosen);
  const mixes = [...runs.map(({ mix }) => mix), ...basesOf(figure)];
  const commands = mixes.flatMap((mix) => seeds.map((seed) => commandOf(mix, seed)));
  const problems = [...new Set(commands)].flatMap((command) => {
    const outcome = outcomes.get(command);
    return outcome === undefined ? [`${command}: did not run`] : brokenRuns(new Map([[command, outcome]]));
  });
  return {
    name,
    paper,
    number,
    title,
    source,
    note,
    x: { title: x.title, values: x.values, log: x.log === true, bytes: x.bytes === true },
    seeds,
    panels: figure.panels.map((panel) => panelOf(panel, runs, seeds, outcomes)),
    runs: runs.map((run) => ({ series: run.series, x: run.x, command: commandOf(run.mix, seeds[0]) })),
    problems,
  };
}
