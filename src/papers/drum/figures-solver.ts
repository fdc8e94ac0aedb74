/** DRUM's figures about its solver. No device runs: they are computations. */
import type { Computation } from '../engine/computation.ts';
import type { CurveFigure, CurvePanel } from '../engine/figure.ts';
import { stated } from '../engine/panels.ts';
import { at } from '../engine/values.ts';
import { nameOf, type Size } from './sizes.ts';

/** Iterations, with those that the text names. */
const ITERATIONS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 25, 30, 40];
const LAST = 40;
const ENOUGH = 99.5;

const run = ([hosts, apps]: Size, options: Computation['options']): Computation => ({
  name: 'convergence',
  options: { hosts, apps, alpha: 1, sides: 'one', iterations: LAST, ...options },
});

const alphas = (size: Size) =>
  Object.fromEntries([0.5, 1, 2].map((alpha) => [`alpha ${alpha}`, run(size, { alpha })]));

const efficiency = (more: Partial<CurvePanel> = {}): CurvePanel => ({
  title: 'Efficiency of the rates that hosts would enforce',
  unit: '%',
  measure: (values, k) => 100 * at(values, 'efficiency', k - 1),
  ...more,
});

const IN_TEXT = 'III-E';
const EFFICIENCY =
  'Efficiency: the part t of the optimal rates that is worth as much. The paper plots the objective, whose zero is arbitrary.';

const objective = (number: string, size: Size, iterations: number): CurveFigure => ({
  number,
  title: `Convergence to the optimum, ${nameOf(size)}`,
  source: `DRUM III-E, fig. ${number[0]}(a): 99.5 % of the optimum in less than 20 iterations`,
  note: `One-sided verbs. ${EFFICIENCY} Dual decomposition (alpha = 1) has steps of a / sqrt(k); in the paper, a = 0.001.`,
  x: { title: 'iterations', values: ITERATIONS },
  curves: {
    ...alphas(size),
    ...Object.fromEntries(
      [0.001, 0.01, 0.1].map((step) => [`dual, a = ${step}`, run(size, { method: 'dual', step })]),
    ),
  },
  panels: [efficiency({ paper: stated('the paper', IN_TEXT, [[iterations, ENOUGH]]) })],
});

const residual = (number: string, size: Size, most: number): CurveFigure => ({
  number,
  title: `The primal residual, ${nameOf(size)}`,
  source: `DRUM III-E, fig. ${number[0]}(b): below ${most} after 10 iterations`,
  note: 'One-sided verbs. In Mops; the paper gives no unit.',
  x: { title: 'iterations', values: ITERATIONS },
  curves: alphas(size),
  panels: [
    {
      title: 'Norm of the primal residual',
      unit: 'Mops',
      log: true,
      measure: (values, k) => at(values, 'primal', k - 1),
      paper: stated('the paper', `${IN_TEXT}, at most`, [[10, most]]),
    },
  ],
});

const faults = (number: string, size: Size): CurveFigure => ({
  number,
  title: `Lost values, ${nameOf(size)}`,
  source: `DRUM III-E, fig. ${number[0]}(${number[1]}): the impact of failures is insignificant`,
  note: `Two-sided verbs, whose hosts exchange messages; each is lost independently, and the last one takes its place. ${EFFICIENCY}`,
  x: { title: 'iterations', values: ITERATIONS },
  curves: Object.fromEntries(
    [0, 0.01, 0.05, 0.1].map((loss) => [
      `${100 * loss} % lost`,
      run(size, { sides: 'two', loss, iterations: 60 }),
    ]),
  ),
  panels: [efficiency()],
});

const [SMALL, LARGE]: readonly Size[] = [
  [100, 50],
  [1000, 500],
];

/** Figures of computations. */
export const FIGURES: readonly CurveFigure[] = [
  objective('4a', SMALL, 20),
  residual('4b', SMALL, 1),
  objective('5a', LARGE, 17),
  residual('5b', LARGE, 10),
  faults('6a', SMALL),
  faults('6b', LARGE),
];
