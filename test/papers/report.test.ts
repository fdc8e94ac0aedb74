// The report's files: no text becomes markup, the page needs no other resources, and a browser opens it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { escapeHtml, html, htmlOf } from '../../src/cli/report/html.ts';
import { escapeMarkdown, markdownOf } from '../../src/cli/report/markdown.ts';
import type { Report } from '../../src/cli/report/report.ts';
import { byPaper, verdictTable } from '../../src/cli/report/sections.ts';
import { slim } from '../../src/cli/report/write.ts';
import type { Row } from '../../src/papers/engine/evaluate-claim.ts';
import { allFigures } from '../../src/papers/engine/figures.ts';
import { mix } from '../../src/papers/engine/mix.ts';
import { claimsAbout, reproducibleOf, SYSTEMS } from '../../src/papers/engine/papers.ts';

const MAIN = resolve(import.meta.dirname, '../../dist/cli/main.js');
const folder = mkdtempSync(join(tmpdir(), 'report-'));
afterAll(() => rmSync(folder, { recursive: true }));

const EVIL = `<script>alert("x")</script> & 'y' | z`;
const ROW: Row = {
  system: 'bare',
  claim: 'x',
  part: 1,
  what: EVIL,
  unit: 'x',
  kind: 'range',
  expected: '1 to 2',
  tolerance: '-',
  measured: 3,
  seed: 1,
  lowest: 2,
  highest: 3,
  verdict: 'fails',
  deviation: EVIL,
};
const PAPER = { paper: 'PeRF', lines: { holds: 0, fails: 1, reported: 0 } };
const REPORT: Report = {
  command: EVIL,
  versions: { isoverbs: '1', node: '20', code: 'c' },
  profiles: 'p',
  systems: ['bare'],
  seeds: [1],
  runs: 1,
  broken: [EVIL],
  drift: [],
  notShown: [{ ids: ['perf-9'], title: EVIL, why: 'never', reason: EVIL }],
  paper: [
    { ...PAPER, id: 'perf-1', verdict: 'fails', by: 'x' },
    { ...PAPER, id: 'perf-9', verdict: 'never', by: EVIL },
  ],
  claims: [
    {
      id: 'x',
      system: 'bare',
      part: 1,
      title: EVIL,
      source: EVIL,
      shows: ['perf-1'],
      note: EVIL,
      mixes: { a: mix('ideal', 'B') },
      checks: [],
    },
  ],
  rows: [ROW],
  figures: [
    {
      name: 'perf-0',
      paper: 'perf',
      number: '0',
      title: EVIL,
      source: EVIL,
      note: EVIL,
      x: { title: EVIL, values: [EVIL], log: false, bytes: false },
      seeds: [1],
      panels: [
        {
          title: EVIL,
          unit: EVIL,
          log: false,
          series: [{ name: EVIL, points: [{ x: EVIL, value: 1, lowest: 1, highest: 1 }] }],
          paper: [{ series: EVIL, x: EVIL, value: [1, 2], from: EVIL }],
        },
      ],
      runs: [{ series: EVIL, x: EVIL, command: EVIL }],
      problems: [EVIL],
    },
  ],
};

test('html`` escapes text but not markup', () => {
  expect(escapeHtml(EVIL)).toBe('&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#39;y&#39; | z');
  const bold = html`<b>${'<'}</b>`;
  expect(html`<p title="${'"'}">${bold}${[bold, bold]}${undefined}${false}${0}</p>`.text).toBe(
    '<p title="&quot;"><b>&lt;</b><b>&lt;</b>\n<b>&lt;</b>0</p>',
  );
});

test('texts of claims and figures never become markup', () => {
  const chart = '<svg width="1"><text>t</text></svg>';
  const page = htmlOf(REPORT, new Map([['perf-0', { wide: chart, narrow: chart }]]));
  expect(page).not.toMatch(/<script|alert\("/i);
  expect(page.match(/&lt;script&gt;/g)?.length).toBeGreaterThan(20);
  const text = markdownOf(REPORT, [], () => 'figures/perf-0.svg');
  expect(text).not.toMatch(/<script|[^\\]\| z/i);
  expect(escapeMarkdown('a_b\n*c*')).toBe('a\\_b \\*c\\*');
});

test('a paper claim has the deciding line, and the claims that show it or the reason why none does', () => {
  const text = markdownOf(REPORT, []);
  expect(text).toMatch(/\| perf-1 \| fails \|.*\| 1 to 2 x \| 3 x \| x \|/);
  expect(text).toMatch(/\| perf-9 \| never \| {2}\| {2}\| {2}\| &lt;script/);
  expect(verdictTable(byPaper(REPORT)).rows).toEqual([['PeRF', '2', '0', '1', '0', '0', '1', '0']]);
});

test('for a paper without a system here, the report says that only claims about bare devices count', () => {
  const sentence = 'For PeRF, only claims about bare devices are counted.';
  expect(markdownOf(REPORT, [])).toContain(sentence);
  expect(htmlOf(REPORT, null)).toContain(sentence);
  expect(markdownOf({ ...REPORT, systems: ['bare', 'perf'] }, [])).not.toContain('only claims about');
});

test('without vega, the page has its tables and names the missing packages', () => {
  const page = htmlOf(REPORT, null);
  expect(page).toContain('optional packages vega and vega-lite are not installed');
  expect(page).toContain('<details><summary>Numbers</summary>');
  expect(page).not.toContain('<svg');
});

test('slim() removes only redundant parts of a picture', () => {
  const empty = '<path class="background" aria-hidden="true" d="M0,0h0v0h0Z" pointer-events="none"/>';
  const line =
    '<line class="a" x2="1.25" stroke-width="1" opacity="0.5"/><g class="mark-text"><text fill="#000">1.25</text></g>';
  expect(slim(`<svg width="1">${empty}${line}</svg>`)).toMatch(
    /^<svg font-family="[^"]+" font-size="11px" width="1"><line x2="1.2" opacity="0.5"\/><g fill="#000"><text>1.25<\/text><\/g><\/svg>$/,
  );
});

function reproduce(...args: string[]) {
  const command = [MAIN, 'reproduce', ...args];
  const child = spawnSync(process.execPath, command, { encoding: 'utf8', timeout: 170_000 });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

const out = join(folder, 'out');
const words = ['--figure', 'perf-2b', '--policy', 'none', 'perf', '--seeds', '1', '--out', out];

test('--out writes the three files, and a second call runs nothing again', { timeout: 180_000 }, () => {
  expect(reproduce(...words)).toMatchObject({ code: 0, err: '' });
  expect(readdirSync(out).sort()).toEqual(['figures', 'report.html', 'report.json', 'report.md', 'runs']);
  const runs = () =>
    readdirSync(join(out, 'runs')).map((name) => [name, statSync(join(out, 'runs', name)).mtimeMs]);
  const before = runs();
  expect(before).toHaveLength(4);
  const page = readFileSync(join(out, 'report.html'), 'utf8');
  expect(reproduce(...words)).toMatchObject({ code: 0, err: '' });
  expect(runs()).toEqual(before);
  expect(readFileSync(join(out, 'report.html'), 'utf8')).toBe(page);
  expect(page).toContain('npm run reproduce -- --figure perf-2b --policy none perf --seeds 1<');
  expect(page).toContain('isoverbs mix --profile cx6-100g --policy perf ');
  expect(page.match(/<svg role="img"/g)).toHaveLength(2);
  expect(page.replaceAll(/xmlns(:xlink)?="[^"]*"/g, '')).not.toMatch(/https?:|<script|src=|@import/);
  const { figures, versions } = JSON.parse(readFileSync(join(out, 'report.json'), 'utf8'));
  expect(figures[0].panels[2].series[0].points[0].value).toBeGreaterThan(90);
  expect(versions.node).toBe(process.versions.node);
  expect(readFileSync(join(out, 'report.md'), 'utf8')).toContain('](figures/perf-2b.svg)');
});

test('a folder that cannot be written is rejected before anything runs', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const { code, out: text, err } = reproduce('--figure', 'perf-2b', '--out', file);
  expect({ code, text }).toEqual({ code: 2, text: '' });
  expect(err).toMatch(/^isoverbs: out: .* cannot be written/);
});

const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'];
const browser = BROWSERS.find((name) => spawnSync(name, ['--version']).status === 0);

/** Opens a file in a browser and returns the DOM and the console output. */
function browse(file: string, width: number) {
  const quiet = ['--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${join(folder, 'browser')}`];
  const more = [
    '--enable-logging=stderr',
    '--v=0',
    `--window-size=${width},900`,
    '--dump-dom',
    `file://${file}`,
  ];
  const child = spawnSync(browser ?? '', [...quiet, ...more], { encoding: 'utf8', timeout: 110_000 });
  return { dom: child.stdout, console: child.stderr.split('\n').filter((line) => line.includes('CONSOLE')) };
}

test.skipIf(browser === undefined)(
  `the page opens in a browser without console output${browser ? '' : ' (skipped: no chromium here)'}`,
  { timeout: 240_000 },
  () => {
    const noisy = join(folder, 'noisy.html');
    writeFileSync(noisy, '<!doctype html><script>console.error("heard")</script>');
    expect(browse(noisy, 1280).console.join()).toContain('heard');
    const { dom, console } = browse(join(out, 'report.html'), 1280);
    expect(console).toEqual([]);
    expect(dom.match(/<svg role="img"/g)).toHaveLength(2);
    expect(dom).toContain('perf-2b: D_App alongside B_App');
  },
);

const DOCS = resolve(import.meta.dirname, '../../docs');

test('docs/reproduction.md names every claim and figure, and its pictures exist and are small', () => {
  const text = readFileSync(join(DOCS, 'reproduction.md'), 'utf8');
  const claims = SYSTEMS.flatMap(claimsAbout).filter(({ id }) => !id.includes('/'));
  expect(claims.filter(({ id }) => !text.includes(`**${id}**`)).map(({ id }) => id)).toEqual([]);
  const figures = allFigures().map(({ name }) => name);
  expect(figures.filter((name) => !text.includes(`### ${name}: `))).toEqual([]);
  const reported = SYSTEMS.flatMap(reproducibleOf);
  expect(reported.filter((id) => !text.includes(`| ${escapeMarkdown(id)} |`))).toEqual([]);
  const pictures = [...text.matchAll(/\]\(reproduction\/([\w.-]+)\)/g)].map((match) => match[1]);
  expect(pictures.sort()).toEqual(readdirSync(join(DOCS, 'reproduction')).sort());
  const bytes = pictures.map((name) => statSync(join(DOCS, 'reproduction', name)).size);
  expect(bytes.reduce((sum, one) => sum + one, 0)).toBeLessThan(1.5e6);
});
