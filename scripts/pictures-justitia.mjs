/**
 * Draws the pictures of docs/policies/justitia.md into docs/pictures from runs of mixtures. Requires a build, vega and
 * vega-lite. Results of runs stay in out/pictures, and are used again until the build changes.
 *   node scripts/pictures-justitia.mjs [--figures]     prints the values, too
 */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { drawSvg } from '#src/cli/output/svg.ts';
import { chartOf, FONT } from '#src/cli/report/chart.ts';
import { distinct, jobOf } from '#src/mix/jobs.ts';
import { mixApp } from '#src/mix/mixture.ts';
import { runJobs } from '#src/mix/pool.ts';
import { buildHash, RunCache } from '#src/mix/run-cache.ts';
import { evaluateFigure, figureJobs } from '#src/papers/engine/evaluate-figure.ts';
import { bandwidth, median, p99 } from '#src/papers/engine/panels.ts';

/** @typedef {import('#src/papers/engine/figure.ts').NamedFigure} NamedFigure */
/** @typedef {import('#src/papers/engine/figure.ts').X} X */
/** @typedef {import('#src/mix/mixture.ts').Mix} Mix */

const FOLDER = new URL('../docs/pictures/', import.meta.url);
const SEEDS = [1];
const PROFILE = 'cx6-100g';
/** Names of series, which are policies. */
const [DEFAULT, PAPER] = ['justitia', 'justitia:paper'];
const TARGET_US = 2;
const B = 'B:size=1MB,kind=bandwidth';
const D = 'D:size=16,kind=latency';

/**
 * A mixture that is measured after SafeUtil has risen for the first time.
 * @param {string[]} apps
 * @param {Partial<Mix>} [more]
 * @returns {Mix}
 */
const settled = (apps, more) => ({
  ...{ profile: PROFILE, duration: '220ms', warmup: '120ms' },
  ...more,
  apps: apps.map(mixApp),
});

/**
 * The effect of an option on B and D.
 * @param {string} name
 * @param {readonly X[]} values
 * @param {{ apps?: (value: X) => string[], options?: (value: X) => string, bytes?: boolean }} [more] `options`: of the
 * policy
 * @returns {NamedFigure}
 */
function optionFigure(
  name,
  values,
  { apps = () => [B, D], options = (value) => `${name}=${value}`, bytes } = {},
) {
  /** @param {string} policy */
  const seriesOf = (policy) =>
    /** @type {const} */ ([
      policy,
      (/** @type {X} */ value) => ({ policy: `${policy}${policy === PAPER ? ',' : ':'}${options(value)}` }),
    ]);
  return {
    ...{ name, paper: '', number: '', title: '', source: '' },
    x: { title: '', values, bytes, log: typeof values[0] === 'number' },
    mix: (value) => settled(apps(value)),
    policies: [],
    series: Object.fromEntries([DEFAULT, PAPER].map(seriesOf)),
    panels: [bandwidth('B', { title: `${name}: B` }), p99('D', { title: `${name}: p99 of D` })],
  };
}

/** A target that is never met, so that SafeUtil stays at R_min. */
const PINNED = 'targetUs=1';
const FOUR_D = [1, 2, 3, 4].map((i) => `${D},name=D.${i}`);

/** @type {readonly NamedFigure[]} */
const OPTIONS = [
  optionFigure('targetUs', [1, 1.5, 2, 2.5, 3, 4]),
  optionFigure('chunkBytes', [1000, 2000, 5000, 10_000, 20_000, 50_000], { bytes: true }),
  optionFigure('refCount', [200, 1000, 10_000, 50_000]),
  optionFigure('refPeriodUs', [5, 10, 20, 50, 100]),
  optionFigure('weight', [1, 2, 4, 8], {
    apps: (weight) => [`${B},weight=${weight}`, D],
    options: () => PINNED,
  }),
  optionFigure('splitQp', ['auto', 'always', 'never']),
  optionFigure('latencyCounts', ['one', 'weight'], {
    apps: () => [B, ...FOUR_D],
    options: (value) => `${PINNED},latencyCounts=${value}`,
  }),
  optionFigure('granularity', ['application', 'flow'], { apps: () => [`${B},qps=4`, `${B},name=other`, D] }),
];

const LATE = ['0', '2us', '15us', '1ms'];
/** Values of backlogBytes. */
const BACKLOGS = { 'one token': 1, '8 KiB': 8192, '32 KiB': 32_768, '128 KiB': 131_072 };

/** Lateness of timers. @type {NamedFigure} */
const LATENESS = {
  ...{ name: 'late', paper: '', number: '', title: '', source: '' },
  x: { title: 'timerLateNs', values: LATE },
  mix: (late) => settled([B, D], { set: { timerLateNs: `${late}` } }),
  policies: [],
  series: Object.fromEntries(
    Object.entries(BACKLOGS).map(([name, bytes]) => [
      name,
      () => ({ policy: `${DEFAULT}:backlogBytes=${bytes}` }),
    ]),
  ),
  panels: [
    bandwidth('B', { title: 'B' }),
    median('D', { title: 'median of D' }),
    p99('D', { title: 'p99 of D' }),
  ],
};

const D_TIMES = [
  [50, 230],
  [290, 400],
];

/**
 * A latency application that comes and goes. One that is declared counts whether it sends or not, so it declares itself
 * when it begins. Until then, the paper counts it as a B, here of next to no weight. @param {string} policy
 * @returns {Mix}
 */
const traced = (policy) => ({
  ...{ profile: PROFILE, policy, duration: '400ms', warmup: '0', gauges: true },
  apps: [B, ...D_TIMES.map(([from], i) => `D:size=16,name=D.${i},weight=0.001,start=${from}ms`)].map(mixApp),
  at: D_TIMES.flatMap(([from, to], i) => [
    `${from}001us:set D.${i} kind=latency`,
    ...(to < 400 ? [`${to}ms:close D.${i}`] : []),
  ]),
});

const LINES = /** @type {const} */ ({
  'B, payload': '#56b4e9',
  SafeUtil: '#0072b2',
  R_min: '#6b6b6b',
  estimate: '#d55e00',
  'D, mean': '#009e73',
  target: '#6b6b6b',
});

/**
 * The lines of one trace: milliseconds, value and name.
 * @param {import('#src/mix/result.ts').MixResult} run
 */
function linesOf({ timeline }) {
  if (timeline === undefined) throw new Error('pictures: the run has no timeline');
  const { apps, gauges = [], stepNs } = timeline;
  /** @param {keyof typeof LINES} line @param {readonly (number | null)[]} values @param {number} [least] */
  const rows = (line, values, least = 0) =>
    values.map((value, i) => ({
      line,
      ms: ((i + 1) * stepNs) / 1e6,
      // No estimate, and no latency of a D that is absent.
      value: value !== null && value > least ? Number(value.toPrecision(3)) : null,
    }));
  /** @param {string} name */
  const gauge = (name) => gauges.find((one) => one.name === name && one.device === 'sim0')?.values ?? [];
  const [b, ...ds] = apps;
  const latencies = b.throughputGbps.map(
    (_, i) => ds.map(({ latencyUs }) => latencyUs[i]).find(Boolean) ?? null,
  );
  const isThere = (/** @type {{ ms: number }} */ { ms }) =>
    D_TIMES.some(([from, to]) => ms > from && ms <= to);
  return {
    rates: [
      ...rows('B, payload', b.throughputGbps),
      ...rows('SafeUtil', gauge('safeUtil')),
      ...rows('R_min', gauge('rMin')).filter(isThere),
    ],
    tails: [...rows('estimate', gauge('estimate')), ...rows('D, mean', latencies)],
  };
}

/** @param {string} policy @param {ReturnType<typeof linesOf>} lines @param {number} most */
function traceSpec(policy, { rates, tails }, most) {
  const names = Object.keys(LINES);
  const color = {
    ...{ field: 'line', type: 'nominal', title: null },
    scale: { domain: names, range: Object.values(LINES) },
    legend: { orient: 'bottom', columns: 3, symbolType: 'stroke', labelLimit: 300 },
  };
  const x = { field: 'ms', type: 'quantitative', title: 'ms', scale: { domain: [0, 400] } };
  const there = {
    data: { values: D_TIMES.map(([from, to]) => ({ from, to })) },
    mark: { type: 'rect', color: '#f3efe2' },
    encoding: { x: { ...x, field: 'from' }, x2: { field: 'to' } },
  };
  const target = D_TIMES.flatMap(([from, to], i) =>
    [from, to].map((ms) => ({ ms, value: TARGET_US, line: 'target', part: i })),
  );
  /** @param {string} title @param {object[]} values @param {number[]} domain @param {object[]} more */
  const panel = (title, values, domain, more = []) => ({
    ...{ width: 330, height: 130, title: { text: title, anchor: 'start', fontSize: 12 } },
    layer: [
      there,
      {
        data: { values: [...values, ...more] },
        mark: { type: 'line', strokeWidth: 1.5, clip: true, interpolate: 'step-before' },
        encoding: {
          x,
          color,
          detail: { field: 'part' },
          y: { field: 'value', type: 'quantitative', title: null, scale: { domain, nice: false } },
        },
      },
    ],
  });
  return {
    vconcat: [
      panel(`${policy}: rates, Gbps`, rates, [0, 105]),
      panel(`${policy}: latencies, us`, tails, [0, most], target),
    ],
  };
}

/** @param {Partial<import('vega-lite').TopLevelSpec>} spec @returns {import('vega-lite').TopLevelSpec} */
const asSpec = (spec) =>
  /** @type {import('vega-lite').TopLevelSpec} */ ({
    ...{ background: 'white', padding: 8 },
    ...spec,
    config: {
      ...{ aria: false, font: FONT, view: { stroke: null } },
      axis: { labelFontSize: 11, titleFontSize: 11, titleFontWeight: 'normal', tickCount: 5 },
      legend: { orient: 'bottom', labelFontSize: 11 },
    },
  });

/**
 * The charts of figures as one, with panels of this size.
 * @param {readonly import('#src/papers/engine/evaluate-figure.ts').FigureResult[]} figures
 * @param {{ columns: number, width: number, height: number }} shape
 */
function panelsOf(figures, { columns, width, height }) {
  const concat = figures.flatMap((figure) => {
    const { concat } = /** @type {{ concat: { height: unknown }[] }} */ (
      /** @type {unknown} */ (chartOf(figure, 'wide'))
    );
    return concat.map((panel) => ({
      ...panel,
      width,
      height: typeof panel.height === 'number' ? height : panel.height,
    }));
  });
  return asSpec(/** @type {object} */ ({ columns, concat, spacing: 24 }));
}

/** @param {string} name @param {import('vega-lite').TopLevelSpec} spec */
async function write(name, spec) {
  const svg = await drawSvg(spec);
  // What no reader of the page needs would double the size.
  const small = svg
    .replaceAll(/ (?:aria-hidden|role|aria-roledescription|class|pointer-events|font-family)="[^"]*"/g, '')
    .replaceAll('<path d="M0,0h0v0h0Z"/>', '')
    .replaceAll(/\d+\.\d{2,}/g, (number) => `${Number(Number(number).toFixed(1))}`)
    .replace('<svg ', `<svg role="img" font-family="${FONT}" `);
  writeFileSync(new URL(name, FOLDER), `${small}\n`);
}

const jobs = [
  ...figureJobs([...OPTIONS, LATENESS], SEEDS),
  ...[DEFAULT, PAPER].map((one) => jobOf(traced(one), SEEDS[0])),
];
const outcomes = await runJobs(distinct(jobs), {
  threads: cpus().length,
  cache: new RunCache('out/pictures', buildHash()),
  onDone: (done, of) => process.stderr.write(`\r${done} of ${of} runs${done === of ? '\n' : ''}`),
});
const [options, late] = [OPTIONS, [LATENESS]].map((figures) =>
  figures.map((figure) => evaluateFigure(figure, SEEDS, outcomes)),
);
const problems = [...options, ...late].flatMap((figure) => figure.problems);
if (problems.length > 0) throw new Error(`pictures: ${problems.join('\n')}`);
if (process.argv.includes('--figures')) {
  for (const { x, panels } of [...options, ...late])
    for (const { title, series } of panels)
      for (const { name, points } of series)
        console.log(
          x.title,
          title,
          name,
          points.map((one) => `${one.x}: ${one.value.toPrecision(3)}`).join(', '),
        );
}
const traces = [DEFAULT, PAPER].map((policy) => {
  const outcome = outcomes.get(jobOf(traced(policy), SEEDS[0]));
  if (outcome === undefined || 'error' in outcome) throw new Error(`pictures: ${outcome?.error}`);
  return traceSpec(policy, linesOf(outcome.result), 3);
});
await write('justitia-trace.svg', asSpec(/** @type {object} */ ({ hconcat: traces })));
await write('justitia-options.svg', panelsOf(options, { columns: 4, width: 180, height: 110 }));
await write('justitia-late.svg', panelsOf(late, { columns: 3, width: 200, height: 130 }));
