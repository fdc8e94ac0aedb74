/**
 * Writes the tables of docs/systems.md and draws docs/systems.svg: what applications keep under every policy and every
 * scheduler of the NIC, in many mixtures, on all profiles. Keeps the results of runs in out/systems, so that the next
 * call continues after an interruption. Requires a build.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { parse, View } from 'vega';
import { compile } from 'vega-lite';
import { COLUMNS, OWN_FIGURES } from './systems.mjs';

const PAGE = 'docs/systems.md';
const PICTURE = 'docs/systems.svg';
const TABLES = /(<!-- tables -->\n)[\s\S]*?(<!-- end of the tables -->)/;
const KEEP = ['--keep', 'out/systems', '--seeds', '1'];
const MIXTURES = 100;
const COLUMNS_OF_PAGE = 120;
const INDENT = '  ';
/** @type {Cells} */
const NOTHING = { B: [], M: [], D: [] };

process.chdir(new URL('..', import.meta.url).pathname);
const page = readFileSync(PAGE, 'utf8');
if (!TABLES.test(page)) throw new Error(`${PAGE} lacks the comments that mark the tables`);

/** @param {string[]} words */
function isoverbs(...words) {
  /** @type {import('node:child_process').ExecFileSyncOptionsWithStringEncoding} */
  const options = { encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'inherit'] };
  return JSON.parse(execFileSync(process.execPath, ['dist/cli/main.js', ...words, '--json'], options));
}

/**
 * @typedef {'B' | 'M' | 'D'} Kind
 * @typedef {Record<Kind, number[]>} Cells
 * @typedef {{ name: string, apps: { ofAlone: Record<string, number | null> }[] }} Row
 * @typedef {{ of: number, worse: number, median: number | null, worst: number | null }} Measure
 * @typedef {{ policy: string, summary: Record<'latency' | 'messageRate' | 'busiestLink', Measure> }} UnderPolicy
 * @typedef {{ name: string, words: string[], kinds: string, byScheme: Map<string, Cells> }} Run
 */

/**
 * What each application keeps in a row of `isoverbs compare --json`: the part of its rate alone, or for D, its latency as
 * a multiple of its latency alone.
 * @param {Row} row
 * @param {{ kind: Kind }[]} of
 */
function kept({ apps }, of) {
  /** @type {Cells} */
  const cells = { B: [], M: [], D: [] };
  for (const [i, app] of apps.entries()) {
    const { throughputGbps, messageRateMmps, avgUs } = app.ofAlone;
    const value = { B: throughputGbps, M: messageRateMmps, D: avgUs }[of[i].kind];
    cells[of[i].kind].push(value ?? 0);
  }
  return cells;
}

/**
 * The part that the application that suffers most keeps.
 * @param {Cells} cells
 */
function leastKept(cells) {
  return Math.min(
    ...cells.B,
    ...cells.M,
    ...cells.D.map((times) => (times > 0 ? Math.min(1, 1 / times) : 0)),
  );
}

/** @param {Cells} cells */
function shown({ B, M, D }) {
  const percent = (/** @type {number} */ part) => `${Math.round(100 * part)} %`;
  const times = (/** @type {number} */ value) =>
    value > 0 ? `${value < 10 ? value.toPrecision(2) : Number(value.toPrecision(3))}x` : '-';
  return [...B.map(percent), ...M.map(percent), ...D.map(times)].join(' · ');
}

const groups = COLUMNS.map(({ title, explains, columns }) => {
  const runs = columns.map(({ name, words }) => {
    const { rows, apps } = isoverbs('compare', ...KEEP, ...words);
    /** @type {Run['byScheme']} */
    const byScheme = new Map(rows.map((/** @type {Row} */ row) => [row.name, kept(row, apps)]));
    const kinds = apps.map((/** @type {{ kind: Kind }} */ { kind }) => kind).join(' · ');
    return { name, words, kinds, byScheme };
  });
  return { title, explains, runs };
});
const schemes = [
  ...new Set(groups.flatMap(({ runs }) => runs.flatMap(({ byScheme }) => [...byScheme.keys()]))),
].filter((name) => name !== 'alone');

/** @param {{ title: string, explains: string, runs: Run[] }} group */
function tableOf({ title, explains, runs }) {
  const row = (/** @type {string} */ name) =>
    `| ${name} | ${runs.map(({ byScheme }) => shown(byScheme.get(name) ?? NOTHING)).join(' | ')} |`;
  return [
    `### ${title}`,
    '',
    explains,
    '',
    `| | ${runs.map(({ name, kinds }) => `${name}: ${kinds}`).join(' | ')} |`,
    `| --- |${runs.map(() => ' --- |').join('')}`,
    ...schemes.map(row),
    '',
    ...runs.map(({ name, words }) => wrapped(`- ${name}: \`isoverbs compare ${words.join(' ')}\``)),
    '',
  ];
}

/** An item of a list in lines of the pages' width. @param {string} item */
function wrapped(item) {
  return item
    .replace(new RegExp(`(.{1,${COLUMNS_OF_PAGE - INDENT.length}})(?: |$)`, 'g'), `$1\n${INDENT}`)
    .trimEnd();
}

function randomTable() {
  /** @type {{ policies: UnderPolicy[] }} */
  const { policies } = isoverbs('compare', '--random', String(MIXTURES), '--keep', 'out/systems');
  const number = (/** @type {number | null} */ value) => (value === null ? 'none' : value.toFixed(2));
  /** @param {Measure} measure */
  const cell = ({ of, worse, median, worst }) => `${worse} of ${of} | ${number(median)} | ${number(worst)}`;
  return { policies, cell };
}

function ownFigures() {
  return OWN_FIGURES.map(
    ({ system, options = '', fairOptions = '', figure, words, read, isHigherBetter }) => {
      const value = (/** @type {string} */ policy) =>
        read(isoverbs('compare', ...KEEP, ...words, '--policy', policy, '--scheduler', 'none').rows[2]);
      const [own, fair] = [value(`${system}${options}`), value(`fair${fairOptions}`)];
      const holds = isHigherBetter ? fair >= 0.98 * own : fair <= 1.02 * own;
      const row = [
        `\`${system}${options}\``,
        figure,
        own.toPrecision(3),
        fair.toPrecision(3),
        holds ? 'yes' : 'no',
      ];
      return `| ${row.join(' | ')} |`;
    },
  );
}

async function draw() {
  const values = groups.flatMap(({ title, runs }) =>
    runs.flatMap(({ name, byScheme }) =>
      schemes
        .filter((scheme) => byScheme.has(scheme))
        .map((scheme) => ({
          group: title,
          mixture: name,
          scheme,
          kept: leastKept(byScheme.get(scheme) ?? NOTHING),
        })),
    ),
  );
  const order = groups.flatMap(({ runs }) => runs.map(({ name }) => name));
  /** @type {import('vega-lite').TopLevelSpec} */
  const spec = {
    background: 'white',
    title: {
      text: 'What the application that suffers most keeps',
      subtitle: 'B and M: rate divided by rate alone; D: latency alone divided by latency. 1.0 is best.',
      anchor: 'start',
    },
    data: { values },
    encoding: {
      x: {
        field: 'mixture',
        type: 'nominal',
        sort: order,
        axis: { title: null, orient: 'top', labelAngle: -40 },
      },
      y: { field: 'scheme', type: 'nominal', sort: schemes, axis: { title: null } },
    },
    layer: [
      {
        mark: 'rect',
        encoding: {
          color: {
            field: 'kept',
            type: 'quantitative',
            scale: { scheme: 'blues', domain: [0, 1] },
            legend: null,
          },
        },
      },
      {
        mark: { type: 'text', fontSize: 9 },
        encoding: {
          text: { field: 'kept', type: 'quantitative', format: '.2f' },
          color: { condition: { test: 'datum.kept > 0.6', value: 'white' }, value: 'black' },
        },
      },
    ],
    width: { step: 42 },
    height: { step: 20 },
  };
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  writeFileSync(PICTURE, await view.toSVG());
}

const { policies, cell } = randomTable();
const lines = [
  ...groups.flatMap(tableOf),
  '### Random mixtures',
  '',
  `${MIXTURES} random mixtures ([compare](compare.md#random-mixtures)) with seed 1, relative to the same mixture on the bare`,
  'device: how many applications or links are worse by more than 10 %, the median ratio, and the worst ratio.',
  '',
  '| | D: latency | median | worst | M: rate | median | worst | busiest link | median | worst |',
  '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
  ...policies.map(
    ({ policy, summary: { latency, messageRate, busiestLink } }) =>
      `| ${policy} | ${[latency, messageRate, busiestLink].map(cell).join(' | ')} |`,
  ),
  '',
  '### Own figures',
  '',
  'The figures for which each system was built, under that system and under `fair`, with default options unless the table',
  'names some. *Holds*: the figure under `fair` is at least as good, within 2 %.',
  '',
  '| system | figure | system | fair | holds |',
  '| --- | --- | ---: | ---: | --- |',
  ...ownFigures(),
  '',
];
writeFileSync(
  PAGE,
  page.replace(TABLES, (_all, begin, end) => `${begin}\n${lines.join('\n')}\n${end}`),
);
await draw();
