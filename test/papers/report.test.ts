// The report's files: no text becomes markup, the page needs no other resources, and a browser opens it.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { compared, comparisonSentences, readReport } from '../../src/cli/report/against.ts';
import { htmlOf } from '../../src/cli/report/html.ts';
import { escapeMarkdown, markdownOf } from '../../src/cli/report/markdown.ts';
import { escapeHtml, html } from '../../src/cli/report/markup.ts';
import type { Report } from '../../src/cli/report/report.ts';
import { byPaper, figureNumbers, toleranceBar, verdictTable } from '../../src/cli/report/sections.ts';
import { slim, writeReport } from '../../src/cli/report/write.ts';
import type { Row } from '../../src/papers/engine/evaluate-claim.ts';
import { allFigures } from '../../src/papers/engine/figures.ts';
import { mix } from '../../src/papers/engine/mix.ts';
import { claimsAbout, reproducibleOf, SYSTEMS } from '../../src/papers/engine/papers.ts';
import { paperClaims } from '../../src/papers/engine/report.ts';
import { MAIN } from '../support/main.ts';

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
  min: 1,
  max: 2,
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
  date: '2026-01-31',
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
  // Nothing but the data and the script of the page.
  expect(page.match(/<script/gi)).toHaveLength(2);
  expect(page).not.toMatch(/alert\("/);
  expect(page.match(/&lt;script&gt;/g)?.length).toBeGreaterThan(20);
  const text = markdownOf(REPORT, [], () => 'figures/perf-0.svg');
  expect(text).not.toMatch(/<script|[^\\]\| z/i);
  expect(escapeMarkdown('a_b\n*c*')).toBe('a\\_b \\*c\\*');
});

test('a paper claim has the deciding line, and the claims that show it or the reason why none does', () => {
  const text = markdownOf(REPORT, []);
  expect(text).toMatch(/\| perf-1 \| fails \|.*: 3 x \| 1 to 2 x \| x\. /);
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
  expect(page).not.toContain('class="chart');
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
  const again = reproduce(...words);
  expect(again).toMatchObject({ code: 0, err: '' });
  for (const line of again.out.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  expect(runs()).toEqual(before);
  expect(readFileSync(join(out, 'report.html'), 'utf8')).toBe(page);
  expect(page).toContain('npm run reproduce -- --figure perf-2b --policy none perf --seeds 1<');
  expect(page).toContain('isoverbs mix --profile cx6-100g --policy perf ');
  expect(page.match(/<svg role="img"/g)).toHaveLength(2);
  expect(page.replaceAll(/xmlns(:xlink)?="[^"]*"/g, '')).not.toMatch(
    /(?<!<a )href="https?:|src=|@import|fetch\(/,
  );
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
function browse(file: string, width: number, flags: readonly string[] = []) {
  const quiet = ['--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${join(folder, 'browser')}`];
  const more = [
    ...flags,
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

/** A report with all claims about bare devices, with made-up measurements, and with the figure of the test above. */
async function wholeReport(): Promise<string> {
  if (!existsSync(join(out, 'report.json'))) reproduce(...words);
  const claims = claimsAbout('bare');
  const rows = claims.flatMap(({ id: claim, part, checks }) =>
    checks.map(({ what, unit, expect: { kind, expected, tolerance, min, max } }): Row => {
      const line = { system: 'bare', claim, part, what, unit, kind, expected, tolerance, min, max };
      const measured = Number.isFinite(min) ? min : Number.isFinite(max) ? max : 1;
      const verdict = kind === 'reported' ? 'reported' : 'holds';
      return { ...line, measured, seed: 1, lowest: measured, highest: measured, verdict };
    }),
  );
  const { figures } = JSON.parse(readFileSync(join(out, 'report.json'), 'utf8'));
  const made = {
    systems: ['bare'],
    claims,
    rows,
    paper: paperClaims(['bare'], claims, rows),
    figures,
    broken: [],
  };
  await writeReport(
    { ...REPORT, ...made, command: 'isoverbs reproduce', notShown: [] },
    join(folder, 'whole'),
  );
  return readFileSync(join(folder, 'whole', 'report.html'), 'utf8');
}

/** Opens a copy of the report with one more script, and returns what the script writes as JSON. */
async function inBrowser(name: string, script: string, ...flags: string[]): Promise<unknown> {
  const page = await wholeReport();
  const copy = join(folder, `${name}.html`);
  const write = `const said = document.createElement('pre'); said.id = 'said'; document.body.append(said);
    const say = (value) => { said.textContent = btoa(JSON.stringify(value)); };`;
  writeFileSync(
    copy,
    page.replace('</body>', () => `<script>${write}${script}</script></body>`),
  );
  const { dom } = browse(copy, 1280, ['--virtual-time-budget=20000', ...flags]);
  const [, said] = /<pre id="said">([\w+/=]*)<\/pre>/.exec(dom) ?? [];
  return JSON.parse(atob(said));
}

test.skipIf(browser === undefined)(
  'in a browser, claims are filtered, sorted, linked and saved',
  { timeout: 120_000 },
  async () => {
    const said = (await inBrowser(
      'used',
      `const saved = [];
    URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text)); return '#'; };
    const shown = () => [...document.querySelectorAll('.claims tbody tr')].filter((row) => !row.hidden).map((row) => row.id);
    const { paper, verdict, text } = document.querySelector('.filter').elements;
    const all = shown();
    paper.value = 'perf'; paper.dispatchEvent(new Event('input', { bubbles: true }));
    const ofPerf = shown();
    const link = location.hash;
    text.value = 'turn packet'; text.dispatchEvent(new Event('input', { bubbles: true }));
    const withWords = shown();
    location.hash = '#claims?paper=tassel';
    window.dispatchEvent(new HashChangeEvent('hashchange'));
    const linked = shown();
    const head = document.querySelector('.claims thead th');
    head.querySelector('button').click();
    head.querySelector('button').click();
    const order = [head.getAttribute('aria-sort'), ...shown()];
    for (const one of ['claims', 'lines', 'json', 'csv', 'svg']) document.querySelector('[data-save=' + one + ']').click();
    const tip = document.querySelector('.chart.wide path title').textContent;
    setTimeout(() => say({ all, ofPerf, link, withWords, linked, order, tip, saved }), 500);`,
    )) as Record<string, string[]> & { link: string; tip: string };
    expect(said.all).toHaveLength(49);
    expect(said.ofPerf).toEqual(said.all.filter((id) => id.startsWith('perf-')));
    expect(said.link).toBe('#claims?paper=perf');
    expect(said.withWords).toEqual(['perf-2.2-rules']);
    expect(said.linked).toEqual(['tassel-2.1-commercial', 'tassel-2.2-model']);
    expect(said.order).toEqual(['descending', 'tassel-2.2-model', 'tassel-2.1-commercial']);
    expect(said.tip).toMatch(/^bare, .*: [\d.]+/);
    const [claims, lines, json, numbers, picture] = said.saved;
    expect(claims.split('\n')[0]).toBe('id,verdict,where,says,what,expected,measured');
    expect(lines.split('\n').length).toBeGreaterThan(100);
    expect(JSON.parse(json).paper).toHaveLength(49);
    expect(numbers).toContain('bare');
    expect(picture).toMatch(/^<svg .*fill="white"/);
  },
);

test.skipIf(browser === undefined)(
  'in a browser, a figure is saved as a PNG of its size',
  { timeout: 120_000, tags: ['long'] },
  async () => {
    const said = (await inBrowser(
      'png',
      `const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      if (blob.type === 'image/png') {
        createImageBitmap(blob).then(({ width, height }) => say({ width, height, of: picture.viewBox.baseVal.width }));
      }
      return make.call(URL, blob);
    };
    const picture = document.querySelector('.chart svg');
    document.querySelector('[data-save=png]').click();`,
    )) as { width: number; height: number; of: number };
    expect(said.width).toBeGreaterThanOrEqual(Math.floor(said.of));
    expect(said.height).toBeGreaterThan(100);
  },
);

const AXE = fileURLToPath(import.meta.resolve('axe-core/axe.min.js'));

const SCHEMES: [string, string[]][] = [
  ['light', []],
  ['dark', ['--blink-settings=preferredColorScheme=0']],
];
for (const [name, flags] of SCHEMES) {
  const options = { timeout: 240_000, tags: ['long'] };
  test.skipIf(browser === undefined)(`axe-core has no serious finding, ${name}`, options, async () => {
    const axe = readFileSync(AXE, 'utf8').replaceAll('</script', '<\\/script');
    const script = `${axe}
    const brief = ({ id, impact, nodes }) => ({ id, impact, nodes: nodes.length, first: nodes[0].html.slice(0, 200) });
    for (const one of document.querySelectorAll('details')) one.open = true;
    axe.run().then(({ violations, passes }) => say({ found: violations.map(brief), passes: passes.length,
      dark: matchMedia('(prefers-color-scheme: dark)').matches }));`;
    const { found, passes, dark } = (await inBrowser(`axe-${name}`, script, ...flags)) as {
      found: { impact: string }[];
      passes: number;
      dark: boolean;
    };
    expect(dark).toBe(name === 'dark');
    expect(passes).toBeGreaterThan(10);
    expect(found.filter(({ impact }) => impact === 'serious' || impact === 'critical')).toEqual([]);
  });
}

test('tolerance bars show one-sided and two-sided bounds, and keep far values at the edge', () => {
  const bar = (min: number, max: number, measured: number) => toleranceBar({ ...ROW, min, max, measured });
  expect(bar(0, 2, 1)).toMatchObject({ from: 0.1, to: 0.9, at: 0.5 });
  expect(bar(0, 2, 99)).toMatchObject({ at: 1, text: 'measured 99 x, allowed 0 to 2' });
  const most = bar(Number.NEGATIVE_INFINITY, 0.8, 0.4);
  expect(most).toMatchObject({ from: 0, to: 0.5, text: 'measured 0.4 x, allowed at most 0.8' });
  expect(most?.at).toBeCloseTo(0.1);
  expect(bar(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, 1)).toBeUndefined();
  expect(bar(1, 2, Number.NaN)).toBeUndefined();
  expect(toleranceBar({ ...ROW, kind: 'reported' })).toBeUndefined();
});

test.each([
  ['Fig. 1(a), section 2.2', '1a'],
  ['Fig. 9(a)-(c), section 5.2.3', '9a 9b 9c'],
  ['section 3.1.2, Appendix B, Figs. 26-28', '26 27 28'],
  ['Figs. 4(a), 5(a), section III-E', '4a 5a'],
  ['Fig. 3(a)(b), section 3.1.1', '3a 3b'],
  ['section 4', ''],
])('the figures of %j are %j', (where, numbers) => {
  expect(figureNumbers(where).join(' ')).toBe(numbers);
});

test('a comparison names verdicts and measurements that changed, and lines that only one report has', () => {
  const file = join(folder, 'old.json');
  const gone = { ...ROW, what: 'gone', min: null };
  const old = {
    ...REPORT,
    rows: [{ ...ROW, verdict: 'holds', measured: 2 }, gone],
    paper: [{ ...PAPER, id: 'perf-1', verdict: 'holds' }],
  };
  writeFileSync(file, JSON.stringify(old));
  const found = compared(REPORT, readReport(file), 'old.json');
  expect(found).toMatchObject({
    with: 'old.json (isoverbs 1, code c, 2026-01-31, seeds 1)',
    otherSeeds: false,
    verdicts: [{ what: 'perf-1' }, { what: `bare/x: ${EVIL}`, was: 'holds', is: 'fails' }],
    measured: [{ was: 2, is: 3, unit: 'x' }],
    figures: [],
    added: [],
    gone: ['bare/x: gone'],
  });
  const text = comparisonSentences(found).join(' ');
  expect(text).toContain(
    '2 verdicts differ; 1 lines and 0 points of 0 figures changed by more than 1 %. 1 lines are only',
  );
  expect(htmlOf({ ...REPORT, against: found }, null)).toContain('Compared with an older report');
  expect(markdownOf({ ...REPORT, against: found }, [])).toContain('2 verdicts differ');
  writeFileSync(file, '{"rows": 1}');
  expect(() => readReport(file)).toThrow(
    /^against: .*old\.json is not a report\.json of this version of isoverbs/,
  );
});

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
