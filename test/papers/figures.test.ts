// Figures of the papers: each figure is complete, and its points are the measured values.
import { expect, test } from 'vitest';
import { jobOf } from '../../src/mix/jobs.ts';
import { gbps } from '../../src/mix/metrics.ts';
import { Outcomes } from '../../src/mix/outcomes.ts';
import { appsOf, paramsOf } from '../../src/mix/resolve.ts';
import type { MixResult } from '../../src/mix/result.ts';
import { runComputations } from '../../src/papers/engine/computation-jobs.ts';
import {
  defaultPolicies,
  evaluateFigure,
  figureComputations,
  figureJobs,
} from '../../src/papers/engine/evaluate-figure.ts';
import type { NamedCurveFigure, NamedMixFigure } from '../../src/papers/engine/figure.ts';
import { ALL_NUMBERS, allFigures, selectFigures, shows } from '../../src/papers/engine/figures.ts';
import { FIGURES_NOT_SHOWN } from '../../src/papers/engine/figures-not-shown.ts';
import { mix } from '../../src/papers/engine/mix.ts';
import { at } from '../../src/papers/engine/values.ts';
import { createPolicy } from '../../src/policies/index.ts';

const FIGURES = allFigures();

test.each(FIGURES)('$name can run, and its points are on its axis', (figure) => {
  for (const { spec, command } of figureJobs([figure], [1])) {
    if (spec.policy !== 'none') createPolicy(spec.policy, spec.policyOptions);
    expect(appsOf(spec, paramsOf(spec)).length, command).toBeGreaterThan(0);
  }
  expect(figureJobs([figure], [1]).length + figureComputations([figure], [1]).length).toBeGreaterThan(0);
  expect(figure.panels.length).toBeGreaterThan(0);
  expect(new Set(figure.x.values).size).toBe(figure.x.values.length);
  for (const { paper = [] } of figure.panels) {
    for (const { x, from } of paper) {
      expect(figure.x.values).toContain(x);
      expect(from).not.toBe('');
    }
  }
});

test('figure names are unique, and an unknown name is rejected with a list', () => {
  expect(new Set(FIGURES.map(({ name }) => name)).size).toBe(FIGURES.length);
  expect(selectFigures(FIGURES, ['all'])).toEqual(FIGURES);
  expect(selectFigures(FIGURES, ['perf-2b']).map(({ name }) => name)).toEqual(['perf-2b']);
  expect(selectFigures(FIGURES, [])).toEqual([]);
  expect(selectFigures(FIGURES, ['perf-9d', 'perf-18b']).map(({ name }) => name)).toEqual([
    'perf-9b',
    'perf-18',
  ]);
  expect(() => selectFigures(FIGURES, ['perf-4'])).toThrow("figure 'perf-4' is not drawn: it is a drawing");
  expect(() => selectFigures(FIGURES, ['perf-2b', 'x'])).toThrow("unknown figure 'x'; choose from: all, ");
});

test('every figure and table of the papers is drawn once, or listed once as not drawn', () => {
  const not = FIGURES_NOT_SHOWN.flatMap(({ ids }) => ids);
  for (const number of ALL_NUMBERS) {
    const by = [
      ...FIGURES.filter((figure) => shows(figure, number)).map(({ name }) => name),
      ...not.filter((id) => id === number),
    ];
    expect(by, number).toHaveLength(1);
  }
  for (const id of not) expect(ALL_NUMBERS).toContain(id);
  for (const figure of FIGURES)
    expect(
      ALL_NUMBERS.some((number) => shows(figure, number)),
      figure.name,
    ).toBe(true);
  for (const { paper, also = [] } of FIGURES) {
    for (const number of also) expect(ALL_NUMBERS).toContain(`${paper}-${number}`);
  }
});

test('a figure shows its number, the parts of it, and the numbers in `also`', () => {
  const figure = { ...FIGURES[0], name: 'perf-1', paper: 'perf', number: '1', also: ['9d'] };
  expect(['perf-1', 'perf-1a', 'perf-9d'].filter((name) => shows(figure, name))).toHaveLength(3);
  expect(
    ['perf-10', 'perf-10a', 'perf-9', 'palos-1', 'perf-1ab'].filter((name) => shows(figure, name)),
  ).toEqual([]);
});

const FIGURE: NamedMixFigure = {
  name: 'perf-0',
  paper: 'perf',
  number: '0',
  title: 'T',
  source: 'S',
  x: { title: 'queue pairs', values: [1, 2] },
  mix: (qps) => mix('ideal', `B:qps=${qps}`, { set: { linkGbps: 40 } }),
  policies: ['none'],
  series: { ets: () => ({ set: { scheduler: 'ets' } }) },
  panels: [{ title: 'P', unit: 'Gbps', measure: (run, x) => (x === 2 ? Number.NaN : gbps(run, 'B')) }],
};

/** Outcomes with these rates by series and seed, the same at each x. */
function outcomesOf(rates: Record<string, number[]>, seeds: readonly number[]): Outcomes {
  const outcomes = new Outcomes();
  for (const job of figureJobs([FIGURE], seeds)) {
    const { set, seed } = job.spec;
    const rate = rates[String(set.scheduler ?? 'none')][seeds.indexOf(seed)];
    const result = { apps: [{ name: 'B', throughputGbps: rate }], invariants: [] } as unknown as MixResult;
    if (!Number.isNaN(rate)) outcomes.set(job, { result });
  }
  return outcomes;
}

test('a point is the median over the seeds, with the lowest and the highest', () => {
  const seeds = [1, 2, 3];
  const { panels, problems } = evaluateFigure(
    FIGURE,
    seeds,
    outcomesOf({ none: [3, 9, 4], ets: [1, 1, 1] }, seeds),
  );
  expect(panels[0].series).toEqual([
    { name: 'none', points: [{ x: 1, value: 4, lowest: 3, highest: 9 }] },
    { name: 'ets', points: [{ x: 1, value: 1, lowest: 1, highest: 1 }] },
  ]);
  expect(problems).toEqual([]);
  const even = evaluateFigure(FIGURE, [1, 2], outcomesOf({ none: [3, 4], ets: [1, 1] }, [1, 2]));
  expect(even.panels[0].series[0].points[0].value).toBe(3.5);
});

test('a missing run leaves no point and is reported', () => {
  const { panels, problems } = evaluateFigure(FIGURE, [1], outcomesOf({ none: [3], ets: [Number.NaN] }, [1]));
  expect(panels[0].series[1].points).toEqual([]);
  expect(problems).toHaveLength(2);
  expect(problems[0]).toContain('scheduler=ets');
  expect(problems[0]).toContain('did not run');
});

test('a missing run or a broken invariant of any seed is reported', () => {
  const outcomes = outcomesOf({ none: [3, 4], ets: [1, Number.NaN] }, [1, 2]);
  expect(evaluateFigure(FIGURE, [1, 2], outcomes).problems).toHaveLength(2);
  const [[job, outcome]] = outcomes;
  if ('result' in outcome) outcomes.set(job, { result: { ...outcome.result, invariants: ['a leak'] } });
  expect(evaluateFigure(FIGURE, [1, 2], outcomes).problems).toContain(`${job.command}: a leak`);
});

test('the base of a panel runs without a policy, and is compared per seed', () => {
  const base = mix('ideal', 'B:name=base');
  const figure: NamedMixFigure = {
    ...FIGURE,
    series: {},
    panels: [
      {
        title: 'P',
        unit: 'x',
        base: () => base,
        measure: (run, _x, alone) => gbps(run, 'B') / gbps(alone, 'base'),
      },
    ],
  };
  const jobs = figureJobs([figure], [1, 2], ['perf']);
  expect(new Set(jobs.map(({ key }) => key)).size).toBe(6);
  const outcomes = new Outcomes(
    jobs.map((job) => {
      const apps = [
        { name: 'B', throughputGbps: 60 },
        { name: 'base', throughputGbps: 20 * job.spec.seed },
      ];
      return [job, { result: { apps, invariants: [] } as unknown as MixResult }];
    }),
  );
  const { panels, problems } = evaluateFigure(figure, [1, 2], outcomes, ['perf']);
  expect(panels[0].series[0].points[0]).toEqual({ x: 1, value: 2.25, lowest: 1.5, highest: 3 });
  expect(problems).toEqual([]);
  outcomes.delete(jobOf(base, 1));
  outcomes.delete(jobOf(base, 2));
  const without = evaluateFigure(figure, [1, 2], outcomes, ['perf']);
  expect(without.panels[0].series[0].points).toEqual([]);
  expect(without.problems).toHaveLength(2);
});

test('--policy replaces the policies; hardware series remain and keep what the mixture sets', () => {
  const commands = figureJobs([FIGURE], [1], ['perf', 'none']).map(({ command }) => command);
  expect(commands).toHaveLength(6);
  expect(commands[0]).toContain('--policy perf ');
  expect(commands.at(-1)).toContain('--set linkGbps=40 --set scheduler=ets --policy none');
});

test('applications declare their kind of traffic under Justitia, on all hosts or some, and not otherwise', () => {
  const commands = (policy: string) => figureJobs([{ ...FIGURE, series: {} }], [1], [policy])[0].command;
  expect(commands('justitia:paper,targetUs=2')).toContain('--app B:qps=1,kind=bandwidth');
  expect(commands('token-bucket;justitia')).toContain('kind=bandwidth');
  expect(commands('perf')).not.toContain('kind=');
  const series = { some: () => ({ onHosts: ['@1=justitia'] }) };
  expect(figureJobs([{ ...FIGURE, series }], [1], [])[0].command).toContain('kind=bandwidth');
});

test('the default is the bare device and every built-in policy', () => {
  expect(defaultPolicies()).toEqual(expect.arrayContaining(['none', 'perf', 'perf:paper']));
});

test('curves of computations have a point at each x that they reach, and failed ones are reported', async () => {
  const options = { hosts: 4, apps: 20, alpha: 1, sides: 'one', iterations: 3 } as const;
  const figure: NamedCurveFigure = {
    ...{ name: 'drum-0', paper: 'drum', number: '0', title: 'T', source: 'S' },
    x: { title: 'iterations', values: [1, 2, 4] },
    curves: {
      good: { name: 'convergence', options },
      bad: { name: 'convergence', options: { ...options, alpha: -1 } },
    },
    panels: [{ title: 'P', unit: '%', measure: (values, k) => at(values, 'efficiency', k - 1) }],
  };
  const jobs = figureComputations([figure], [1, 2]);
  expect(jobs).toHaveLength(4);
  expect(figureJobs([figure], [1, 2])).toEqual([]);
  const computed = await runComputations(jobs, { threads: 1 });
  const { panels, problems } = evaluateFigure(figure, [1, 2], new Outcomes(), undefined, computed);
  const [good, bad] = panels[0].series;
  expect(good.points.map(({ x }) => x)).toEqual([1, 2]);
  expect(good.points[0].lowest).toBeLessThan(good.points[0].highest);
  expect(bad.points).toEqual([]);
  expect(problems).toHaveLength(2);
  expect(problems[0]).toContain('alpha is -1');
  expect(evaluateFigure(figure, [1], new Outcomes()).problems[0]).toContain('was not computed');
});
