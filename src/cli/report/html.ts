/** The report as one self-contained HTML page, without scripts, fonts or network access. */

import type { Claim } from '../../papers/engine/claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { sourceText } from '../../papers/engine/report.ts';
import type { Layout } from './chart.ts';
import { figureTable } from './figure-table.ts';
import type { Report } from './report.ts';
import {
  byPaper,
  CLAIM_HEAD,
  chaptersOf,
  formsTable,
  linesOf,
  notShownTable,
  type PaperPart,
  paperLine,
  sentences,
  type TextTable,
  TITLE,
  verdictTable,
} from './sections.ts';

/** SVGs of each figure, by name. */
export type Charts = ReadonlyMap<string, Readonly<Record<Layout, string>>>;

const NO_CHARTS =
  'There are no pictures, because the optional packages vega and vega-lite are not installed: npm install vega vega-lite.';

const anchor = (claim: Claim) => `claim-${claim.system}-${claim.id.replaceAll('/', '-')}`;
const verdictCell = (verdict: string) => html`<td class="${verdict}">${verdict}</td>`;

function table({ head, rows }: TextTable): Markup {
  const body = rows.map((cells) => html`<tr>${cells.map((cell) => cellOf(cell))}</tr>`);
  return boxed(html`<thead><tr>${head.map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>
<tbody>${body}</tbody>`);
}

/** A box in which a wide table scrolls. It can be focused with the keyboard. */
function boxed(content: Markup): Markup {
  return html`<div class="box" tabindex="0" role="region" aria-label="table"><table>${content}</table></div>`;
}

function cellOf(cell: string): Markup {
  return ['holds', 'fails', 'reported'].includes(cell) ? verdictCell(cell) : html`<td>${cell}</td>`;
}

/** Adds a name and a description to an SVG. A screen reader reads these instead of all texts. */
function named(svg: string, id: string, title: string, description: string): Markup {
  const head = `<svg role="img" aria-labelledby="${id}-t ${id}-d" `;
  const texts = `<title id="${id}-t">${escapeHtml(title)}</title><desc id="${id}-d">${escapeHtml(description)}</desc>`;
  return new Markup(svg.replace(/^<svg /, () => head).replace('>', () => `>${texts}`));
}

function chart(figure: FigureResult, charts: Charts): Markup | undefined {
  const drawn = charts.get(figure.name);
  if (drawn === undefined) return undefined;
  const { name, title, panels, x } = figure;
  const series = panels[0].series.map((one) => one.name).join(', ');
  const description = `${panels.map((panel) => panel.title).join('; ')}${x.title === '' ? '' : ` over ${x.title}`}, for ${series}. The table below has the numbers.`;
  const one = (layout: Layout) =>
    html`<div class="chart ${layout}">${named(drawn[layout], `${name}-${layout}`, `${name}: ${title}`, description)}</div>`;
  return html`${one('wide')}${one('narrow')}`;
}

function figureSection(figure: FigureResult, charts: Charts): Markup {
  const { name, title, source, note, runs, problems } = figure;
  const commands = [...new Set(runs.map(({ command }) => command))];
  return html`<section id="${name}">
<h3>${name}: ${title}</h3>
<p>${source}. <code>isoverbs reproduce --figure ${name}</code></p>
${chart(figure, charts)}
${note !== undefined && html`<p class="note">${note}</p>`}
${problems.map((problem) => html`<p class="fails">${problem}</p>`)}
<details><summary>Numbers</summary>${table(figureTable(figure))}</details>
<details><summary>Commands of the runs</summary>
<pre tabindex="0">${commands.join('\n')}</pre></details>
</section>`;
}

function paperSection(report: Report, { key, name, claims, figures }: PaperPart, charts: Charts): Markup {
  const rows = claims.map((one) => {
    const { id, verdict, what, expected, measured, shownBy, reason } = paperLine(report, one);
    const links = shownBy.map((claim) => html`<a href="#${anchor(claim)}">${claim.id}</a> `);
    return html`<tr><th scope="row">${id}</th>${verdictCell(verdict)}<td>${what}</td><td>${expected}</td><td>${measured}</td><td>${reason}${links}</td></tr>`;
  });
  const claimed =
    boxed(html`<thead><tr>${CLAIM_HEAD.map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>
<tbody>${rows}</tbody>`);
  return html`<section id="paper-${key}">
<h2>${name}</h2>
${rows.length > 0 && claimed}
${figures.map((figure) => figureSection(figure, charts))}
</section>`;
}

function claimBlock(report: Report, claim: Claim): Markup {
  const { remarks, ...lines } = linesOf(report, claim);
  return html`<section id="${anchor(claim)}">
<h4>${claim.id}: ${claim.title}</h4>
<p>${sourceText(claim)}</p>
${table(lines)}
${remarks.map((remark) => html`<p class="note">${remark}</p>`)}
</section>`;
}

function systemSection(report: Report, system: string): Markup {
  const chapters = chaptersOf(report, system).map(
    ({ title, claims }) => html`<h3>${title}</h3>${claims.map((claim) => claimBlock(report, claim))}`,
  );
  const forms = formsTable(report, system);
  const columns = forms !== undefined && html`<h3>The forms side by side</h3>${table(forms)}`;
  return html`<section id="system-${system}"><h2>Claims about ${system}</h2>${chapters}${columns}</section>`;
}

function contents(report: Report, papers: readonly PaperPart[]): Markup {
  const ofPapers = papers.map(({ key, name, figures }) => {
    const items = figures.map(
      (figure) => html`<li><a href="#${figure.name}">${figure.name}: ${figure.title}</a></li>`,
    );
    return html`<li><a href="#paper-${key}">${name}</a>${items.length > 0 && html`<ul>${items}</ul>`}</li>`;
  });
  const ofSystems = report.systems.map(
    (system) => html`<li><a href="#system-${system}">Claims about ${system}</a></li>`,
  );
  return html`<nav aria-label="Contents"><h2>Contents</h2><ul>${ofPapers}${ofSystems}
${report.notShown.length > 0 && html`<li><a href="#not-shown">Not shown</a></li>`}</ul></nav>`;
}

function notShown(report: Report): Markup | undefined {
  if (report.notShown.length === 0) return undefined;
  return html`<section id="not-shown"><h2>Not shown</h2>${table(notShownTable(report))}</section>`;
}

/** The whole page. */
export function htmlOf(report: Report, charts: Charts | null): string {
  const papers = byPaper(report);
  const verdicts = verdictTable(papers);
  const { versions, profiles, seeds, runs, broken } = report;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>${TITLE}</title>
<style>${new Markup(STYLE)}</style>
</head>
<body>
<header>
<h1>${TITLE}</h1>
<p>Simulated devices in virtual time: ${runs} runs, seeds ${seeds.join(', ')}. Points of figures are medians, with the
lowest and the highest value where they differ. Lines of claims show the worst seed. Diamonds are numbers that the paper's
text states; on a bar, a diamond is the middle of a stated range. No number was read off a picture.</p>
<p><code>${report.command}</code></p>
<p class="note">isoverbs ${versions.isoverbs}, Node.js ${versions.node}, profiles ${profiles.slice(0, 12)}, code ${versions.code.slice(0, 12)}</p>
${charts === null && html`<p class="fails">${NO_CHARTS}</p>`}
${broken.map((line) => html`<p class="fails">Broken: ${line}</p>`)}
${verdicts.rows.length > 0 && table(verdicts)}
${sentences(report, papers).map((line) => html`<p>${line}</p>`)}
</header>
${contents(report, papers)}
<main>
${papers.map((paper) => paperSection(report, paper, charts ?? new Map()))}
${report.systems.map((system) => systemSection(report, system))}
${notShown(report)}
</main>
</body>
</html>
`;
  return page.text;
}

/** The style sheet of the HTML page. Charts are dark on white in any colour scheme. */
const STYLE = `
:root { color-scheme: light dark; --text: #1c1c1c; --page: #fff; --soft: #595959; --line: #d0d0d0; --head: #f3f3f3;
  --link: #0b57a4; --good: #1b6e35; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --page: #17191c; --soft: #a8a8a8; --line: #3c4046;
  --head: #24272c; --link: #8ab8f0; --good: #7fd197; --bad: #ff9a91; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 1180px; color: var(--text); background: var(--page);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.35rem; margin-top: 2.5rem; }
h3 { font-size: 1.1rem; margin-top: 2rem; } h4 { font-size: 1rem; margin-bottom: 0; } h4 + p { margin-top: 0; }
a { color: var(--link); } nav ul { padding-left: 1.2rem; margin: 0.2rem 0; }
nav ul ul { columns: 24rem auto; font-size: 0.9rem; }
code, pre { font: 0.85rem/1.45 ui-monospace, monospace; } pre { overflow-x: auto; padding: 0.5rem; background: var(--head); }
.note, h4 + p { color: var(--soft); font-size: 0.9rem; }
.box { overflow-x: auto; margin: 0.5rem 0 1rem; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--line); min-width: 4rem; }
thead th { background: var(--head); }
.holds { color: var(--good); } .fails, .missing { color: var(--bad); font-weight: 600; }
.waiting, .never, .reported { color: var(--soft); }
.chart { background: #fff; border: 1px solid var(--line); border-radius: 4px; margin: 0.5rem 0; }
.chart svg { display: block; max-width: 100%; height: auto; }
.narrow { display: none; }
summary { cursor: pointer; }
@media (max-width: 760px) { .wide { display: none; } .narrow { display: block; } body { padding: 0.75rem; } }
`;

/** Text that is already HTML. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes text for elements and quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character]);
}

type Value = string | number | Markup | readonly Markup[] | false | undefined;

function textOf(value: Value): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'object') return value.map(({ text }) => text).join('\n');
  return escapeHtml(String(value));
}

/** A template that escapes every value except markup. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(parts.map((part, i) => (i === 0 ? part : textOf(values[i - 1]) + part)).join(''));
}
