/** DRUM's claims about its solver. No device runs: they are computations. */
import type { Check, Claim, Computed } from '../engine/claim.ts';
import type { Computation } from '../engine/computation.ts';
import { atLeast, atMost, reported } from '../engine/expect.ts';
import { at, number } from '../engine/values.ts';
import { nameOf, type Size } from './sizes.ts';

const SIZES: readonly Size[] = [
  [100, 50],
  [1000, 500],
  [10_000, 5000],
];
const ALPHAS = [0.5, 1, 2];
/** A tenth of all values in the worst case. */
const LOSSES = [0.01, 0.05, 0.1];

const run = ([hosts, apps]: Size, options: Computation['options'] = {}): Computation => ({
  name: 'convergence',
  options: { hosts, apps, alpha: 1, sides: 'one', iterations: 40, ...options },
});

const SOLVER = { system: 'drum', mixes: {} } as const;
const ASSUMED =
  'Efficiency: the part t of the optimal rates that is worth as much as the rates that hosts would enforce. Assumed: weights of 1 to 4, batches of 1 to 5, beta = 1.';

const sizesAndAlphas = SIZES.flatMap((size) =>
  ALPHAS.map((alpha) => ({ key: `${nameOf(size)}, alpha ${alpha}`, size, alpha })),
);

const converges: Claim = {
  ...SOLVER,
  id: 'convergence',
  part: 1,
  title: 'Fewer than 20 iterations, for networks of any size',
  source:
    'DRUM III-E, figs. 4(a) and 5(a): 99.5 % of the optimum in less than 20 iterations; 17 at 1000 x 500',
  shows: ['drum-III.E-fig45a', 'drum-III.E-stop17', 'drum-III.E-params'],
  note: `One-sided verbs. ${ASSUMED} rho is not the 0.001 of the paper, with which rates in Mops make no progress, but follows from the utilities.`,
  computations: Object.fromEntries(sizesAndAlphas.map(({ key, size, alpha }) => [key, run(size, { alpha })])),
  checks: [
    ...sizesAndAlphas.map(
      ({ key }): Check => ({
        what: 'iterations to 99.5 % of the optimum',
        at: key,
        unit: '',
        measure: (_runs, computed) => number(computed[key], 'enough'),
        expect: atMost(20),
      }),
    ),
    ...ALPHAS.map(
      (alpha): Check => ({
        what: 'largest difference between the three sizes',
        at: `alpha ${alpha}`,
        unit: 'iterations',
        measure: (_runs, computed) => {
          const all = SIZES.map((size) => number(computed[`${nameOf(size)}, alpha ${alpha}`], 'enough'));
          return Math.max(...all) - Math.min(...all);
        },
        expect: atMost(2),
      }),
    ),
  ],
};

const SMALL = SIZES.slice(0, 2);

const twoSided: Claim = {
  ...SOLVER,
  id: 'convergence-two-sided',
  part: 1,
  title: 'Two-sided verbs: Algorithm 2 converges with messages between hosts alone',
  source: 'DRUM III-D, theorem 4; III-E',
  shows: ['drum-III.D-thm4'],
  note: `Two destinations per application. ${ASSUMED} The x-step sums over all destinations; with the single one that is printed, the residual falls too, but the rates are wrong.`,
  computations: Object.fromEntries(
    SMALL.map((size) => [nameOf(size), run(size, { sides: 'two', iterations: 60 })]),
  ),
  checks: SMALL.map((size) => ({
    what: 'iterations to 99.5 % of the optimum',
    at: nameOf(size),
    unit: '',
    measure: (_runs, computed) => number(computed[nameOf(size)], 'enough'),
    expect: atMost(20),
  })),
};

const residuals: Claim = {
  ...SOLVER,
  id: 'residual',
  part: 1,
  title: 'The primal residual after 10 iterations',
  source: 'DRUM III-E, figs. 4(b) and 5(b): below 1 at 100 x 50, below 10 at 1000 x 500',
  shows: ['drum-III.E-fig45b'],
  note: 'In Mops; the paper gives no unit.',
  computations: Object.fromEntries(SMALL.map((size) => [nameOf(size), run(size)])),
  checks: SMALL.map((size, i) => ({
    what: 'norm of the residual after 10 iterations',
    at: nameOf(size),
    unit: 'Mops',
    measure: (_runs, computed) => at(computed[nameOf(size)], 'primal', 9),
    expect: atMost([1, 10][i]),
  })),
};

const lyapunov: Claim = {
  ...SOLVER,
  id: 'lyapunov',
  part: 1,
  title: 'The distance to the optimum does not increase',
  source: 'DRUM III-E and theorem 1: D^k is non-increasing; residual, objective and dual converge',
  shows: ['drum-III.E-lyapunov', 'drum-III.B-thm1'],
  note: 'V = sum (u - u*)^2 / rho + rho (z - z*)^2 with linear capacities and fixed penalties: those with which the solver begins. The log-sum capacity of the paper is not convex, so that the theorem does not apply to it.',
  computations: { run: run([100, 50], { method: 'lyapunov', iterations: 60 }) },
  checks: [
    {
      what: 'largest increase of V in an iteration, relative to its beginning',
      unit: '',
      measure: (_runs, { run: { lyapunov: curve } }) => largestIncrease(curve),
      expect: atMost(1e-9),
    },
    {
      what: 'V after 60 iterations, relative to its beginning',
      unit: '',
      measure: (_runs, { run: values }) => at(values, 'lyapunov', 59),
      expect: atMost(0.01),
    },
  ],
};

function largestIncrease(curve: number | readonly number[]): number {
  if (typeof curve === 'number') return Number.NaN;
  return curve
    .slice(1)
    .reduce((most, value, k) => Math.max(most, value - curve[k]), Number.NEGATIVE_INFINITY);
}

/** The loss of efficiency by lost values, at the same iteration without them. */
function gap(computed: Computed, size: Size, loss: number, from: number, to: number): number {
  const [some, none] = [`${nameOf(size)}, ${loss}`, `${nameOf(size)}, 0`];
  let most = 0;
  for (let k = from; k <= to; k++) {
    const ratio = at(computed[some], 'efficiency', k - 1) / at(computed[none], 'efficiency', k - 1);
    most = Math.max(most, 1 - ratio);
  }
  return most * 100;
}

const losses: Claim = {
  ...SOLVER,
  id: 'loss',
  part: 2,
  title: 'Lost values cost little: those of the last iteration take their place',
  source:
    'DRUM III-E, fig. 6: with up to 10 % lost, at most 1.5 % at first; 0.2 % and 0.1 % after 20 iterations',
  shows: ['drum-III.E-fig6a'],
  note: 'Two-sided verbs, whose hosts exchange messages; each message is lost independently. Relative to the same iteration without losses.',
  computations: Object.fromEntries(
    SMALL.flatMap((size) =>
      [0, ...LOSSES].map((loss) => [
        `${nameOf(size)}, ${loss}`,
        run(size, { sides: 'two', loss, iterations: 60 }),
      ]),
    ),
  ),
  checks: SMALL.flatMap((size, i) =>
    LOSSES.flatMap((loss): Check[] => [
      {
        what: 'largest loss of efficiency in the first 10 iterations',
        at: `${nameOf(size)}, ${loss * 100} % lost`,
        unit: '%',
        measure: (_runs, computed) => gap(computed, size, loss, 1, 10),
        expect: atMost(1.5),
      },
      {
        what: `loss of efficiency after 20 iterations, ${nameOf(size)}`,
        at: `${loss * 100} % lost`,
        unit: '%',
        measure: (_runs, computed) => gap(computed, size, loss, 20, 20),
        expect: atMost([0.2, 0.1][i]),
      },
    ]),
  ),
};

/** The step of the paper, and larger ones. */
const DUAL_STEPS = [1e-3, 1e-2, 1e-1];

const baseline: Claim = {
  ...SOLVER,
  id: 'dual-decomposition',
  part: 3,
  title: 'Dual decomposition needs more iterations',
  source: 'DRUM III-E: compared with a subgradient method with steps of 0.001 / sqrt(k)',
  shows: ['drum-III.E-baseline-dd'],
  note: 'The paper gives no number. Efficiency after 20 iterations, of rates that fit.',
  computations: {
    admm: run([100, 50]),
    ...Object.fromEntries(
      DUAL_STEPS.map((step) => [`dual ${step}`, run([100, 50], { method: 'dual', step })]),
    ),
  },
  checks: [
    ...DUAL_STEPS.map(
      (step): Check => ({
        what: `efficiency of dual decomposition after 20 iterations, steps of ${step} / sqrt(k)`,
        unit: '',
        measure: (_runs, computed) => at(computed[`dual ${step}`], 'efficiency', 19),
        expect: reported('-'),
      }),
    ),
    {
      what: 'efficiency of Algorithm 1 after 20 iterations, relative to the best of these',
      unit: 'x',
      measure: (_runs, computed) =>
        at(computed.admm, 'efficiency', 19) /
        Math.max(...DUAL_STEPS.map((step) => at(computed[`dual ${step}`], 'efficiency', 19))),
      expect: atLeast(1),
    },
  ],
};

/** The utility of the better of two applications, sqrt(x). */
const better = (x: number, y: number) => Math.max(2 * Math.sqrt(x), 2 * Math.sqrt(y));

const lemma1: Claim = {
  ...SOLVER,
  id: 'lemma-1',
  part: 3,
  title: 'The utility of the best k applications is concave',
  source: 'DRUM III-A, lemma 1',
  shows: ['drum-III.A-lemma1'],
  note: 'It is not: with two applications, k = 1 and alpha = 1/2, both (4, 0) and (0, 4) are worth more than the point between them. The selection is therefore made outside the iteration, which is convex for a fixed one.',
  checks: [
    {
      what: 'utility at (2, 2), relative to the mean of (4, 0) and (0, 4)',
      unit: 'x',
      measure: () => better(2, 2) / ((better(4, 0) + better(0, 4)) / 2),
      expect: atLeast(1),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [converges, twoSided, residuals, lyapunov, losses, baseline, lemma1];
