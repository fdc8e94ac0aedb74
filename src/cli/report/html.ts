/** The report as one self-contained HTML page, without fonts or network access. Its script is not needed to read it. */

import type { Claim } from '../../papers/engine/claim.ts';
import type { Row } from '../../papers/engine/evaluate-claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { sourceText } from '../../papers/engine/report.ts';
import { comparisonSentences, comparisonTable } from './against.ts';
import type { Layout } from './chart.ts';
import { figureTable } from './figure-table.ts';
import { escapeHtml, html, Markup } from './markup.ts';
import { PAGE_SCRIPT } from './page-script.ts';
import { claimCommand, commandsOf, type Report } from './report.ts';
import {
  addressOf,
  byPaper,
  CLAIM_HEAD,
  chaptersOf,
  citationText,
  formsTable,
  linesOf,
  notShownTable,
  type PaperLine,
  type PaperPart,
  paperLine,
  resultSentences,
  sentences,
  type TextTable,
  TITLE,
  toleranceBar,
  verdictTable,
} from './sections.ts';
import { STYLE } from './style.ts';

/** SVGs of each figure, by name. */
export type Charts = ReadonlyMap<string, Readonly<Record<Layout, string>>>;

const NO_CHARTS =
  'There are no pictures, because the optional packages vega and vega-lite are not installed: npm install vega vega-lite.';

const anchor = (claim: Claim) => `claim-${claim.system}-${claim.id.replaceAll('/', '-')}`;
const NUMBER = /^-?\d[\d.]*$/;
const verdictCell = (verdict: string) => html`<td class="${verdict}">${verdict}</td>`;
const heads = (cells: readonly string[]) => cells.map((cell) => html`<th scope="col">${cell}</th>`);

/** @param name for screen readers, which list the boxes of a page */
function table({ head, rows }: TextTable, name: string): Markup {
  const body = rows.map((cells) => html`<tr>${cells.map((cell) => cellOf(cell))}</tr>`);
  const isNumber = (at: number) => rows.some((cells) => NUMBER.test(cells[at]));
  const top = head.map(
    (cell, at) => html`<th scope="col" class="${isNumber(at) ? 'number' : ''}">${cell}</th>`,
  );
  return boxed(html`<thead><tr>${top}</tr></thead><tbody>${body}</tbody>`, name);
}

/** A box in which a wide or long table scrolls, below its heads. It can be focused with the keyboard. */
function boxed(content: Markup, name: string, className = ''): Markup {
  return html`<div class="box" tabindex="0" role="region" aria-label="${name}"><table class="${className}">${content}</table></div>`;
}

function cellOf(cell: string): Markup {
  if (['holds', 'fails', 'reported'].includes(cell)) return verdictCell(cell);
  return NUMBER.test(cell) ? html`<td class="number">${cell}</td>` : html`<td>${cell}</td>`;
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
  return html`${one('wide')}${one('narrow')}
<p class="actions" hidden><button type="button" data-save="svg">Save as SVG</button> <button type="button" data-save="png">Save as PNG</button></p>`;
}

const claimLink = (id: string) => html`<a href="#${id}">${id}</a> `;

/** @param about claims of the paper that refer to the figure */
function figureSection(figure: FigureResult, charts: Charts, about: readonly PaperLine[]): Markup {
  const { name, title, source, note, runs, problems } = figure;
  const commands = [...new Set(runs.map(({ command }) => command))];
  return html`<section id="${name}">
<h3><a href="#${name}">${name}</a>: ${title}</h3>
<p>${source}. <code>isoverbs reproduce --figure ${name} --seeds ${figure.seeds.join(',')}</code></p>
${about.length > 0 && html`<p>Claims about this figure: ${about.map(({ id, verdict }) => html`<a href="#${id}">${id}</a> (${verdict}) `)}</p>`}
${chart(figure, charts)}
${note !== undefined && html`<p class="note">${note}</p>`}
${problems.map((problem) => html`<p class="fails">${problem}</p>`)}
<details><summary>Numbers</summary><p class="actions" hidden><button type="button" data-save="csv">Save as CSV</button></p>
${table(figureTable(figure), `Numbers of ${name}`)}</details>
${
  commands.length > 0 &&
  html`<details><summary>Commands of the runs</summary>
<pre tabindex="0">${commands.join('\n')}</pre></details>`
}
</section>`;
}

/** Where the measured value lies in what holds. */
function bar(row: Row | undefined): Markup | undefined {
  const drawn = row === undefined ? undefined : toleranceBar(row);
  if (drawn === undefined) return undefined;
  const at = (share: number) => (share * 90 + 3).toFixed(1);
  const width = ((drawn.to - drawn.from) * 90).toFixed(1);
  return html`<svg class="bar" viewBox="0 0 96 14" role="img" aria-label="${drawn.text}"><title>${drawn.text}</title>
<rect class="track" x="3" y="4" width="90" height="6"/><rect class="allowed" x="${at(drawn.from)}" y="4" width="${width}" height="6"/>
<rect class="measured" x="${Number(at(drawn.at)) - 1.5}" y="1" width="3" height="12"/></svg>`;
}

function claimRow(key: string, line: PaperLine): Markup {
  const { id, verdict, where, says, what, expected, measured, row, figures, shownBy, reason } = line;
  const links = [
    ...shownBy.map((claim) => html`<a href="#${anchor(claim)}">${claim.id}</a> `),
    ...figures.map(({ name }) => html`<a href="#${name}">figure ${name}</a> `),
  ];
  return html`<tr id="${id}" data-paper="${key}" data-verdict="${verdict}"><th scope="row">${claimLink(id)}</th>
${verdictCell(verdict)}<td>${says} <span class="where">${where}</span></td>
<td>${what}${what !== '' && html`: <strong>${measured}</strong>`}</td><td>${expected}${bar(row)}</td>
<td>${links} ${reason !== '' && html`<span class="note">${reason}</span>`}</td></tr>`;
}

const options = (values: readonly (readonly [string, string])[]) =>
  values.map(([value, text]) => html`<option value="${value}">${text}</option>`);

/** All claims of all papers. */
function claimsSection(
  papers: readonly PaperPart[],
  lines: ReadonlyMap<string, readonly PaperLine[]>,
): Markup | undefined {
  const counted = papers.filter(({ claims }) => claims.length > 0);
  if (counted.length === 0) return undefined;
  const verdicts = [...new Set(counted.flatMap(({ claims }) => claims.map(({ verdict }) => verdict)))];
  const rows = counted.flatMap(({ key }) => (lines.get(key) ?? []).map((line) => claimRow(key, line)));
  return html`<section id="claims" class="claims">
<h2>What the papers state, and what we measure</h2>
<p class="note">Statements are in our words. Of several lines that show a claim, the table has the one that decides the
verdict. The bar has the allowed values in green, and the measured value as a stroke.</p>
<form class="filter" hidden><label>Paper <select name="paper">${options([['', 'all'], ...counted.map(({ key, name }) => [key, name] as const)])}</select></label>
<label>Verdict <select name="verdict">${options([['', 'all'], ...verdicts.map((one) => [one, one] as const)])}</select></label>
<label>Words <input name="text" type="search"></label> <output></output></form>
${boxed(
  html`<thead><tr>${heads(CLAIM_HEAD)}</tr></thead>
<tbody>${rows}</tbody>`,
  'Claims of the papers',
  'sorts',
)}
</section>`;
}

function paperSection(
  { key, name, cited, figures }: PaperPart,
  lines: readonly PaperLine[],
  charts: Charts,
): Markup {
  const address = addressOf(cited);
  return html`<section id="paper-${key}">
<h2>${name}</h2>
<p><cite>${citationText(cited)}</cite> ${address !== undefined && html`<a href="${address}">${address}</a>`}</p>
${lines.length > 0 && html`<p><a href="#claims?paper=${key}">The ${lines.length} claims of ${name}</a></p>`}
${figures.map((figure) =>
  figureSection(
    figure,
    charts,
    lines.filter((line) => line.figures.includes(figure)),
  ),
)}
</section>`;
}

function claimBlock(report: Report, claim: Claim): Markup {
  const { remarks, ...lines } = linesOf(report, claim);
  const commands = [...new Set(Object.values(commandsOf(claim, report.seeds)))];
  return html`<section id="${anchor(claim)}">
<h4><a href="#${anchor(claim)}">${claim.id}</a>: ${claim.title}</h4>
<p>${sourceText({ ...claim, shows: [] })} ${claim.shows.map(claimLink)}</p>
<p><code>${claimCommand(claim, report.seeds)}</code></p>
${table(lines, `Lines of ${claim.id}`)}
${remarks.map((remark) => html`<p class="note">${remark}</p>`)}
<details><summary>Commands of the runs</summary><pre tabindex="0">${commands.join('\n')}</pre></details>
</section>`;
}

function systemSection(report: Report, system: string): Markup {
  const chapters = chaptersOf(report, system).map(
    ({ title, claims }) => html`<h3>${title}</h3>${claims.map((claim) => claimBlock(report, claim))}`,
  );
  const forms = formsTable(report, system);
  const columns =
    forms !== undefined && html`<h3>The forms side by side</h3>${table(forms, `Forms of ${system}`)}`;
  return html`<section id="system-${system}"><h2>Lines about ${system}</h2>${chapters}${columns}</section>`;
}

function contents(report: Report, papers: readonly PaperPart[]): Markup {
  const ofPapers = papers.map(({ key, name, figures }) => {
    const items = figures.map(
      (figure) => html`<li><a href="#${figure.name}">${figure.name}: ${figure.title}</a></li>`,
    );
    return html`<li><a href="#paper-${key}">${name}</a>${items.length > 0 && html`<ul>${items}</ul>`}</li>`;
  });
  const ofSystems = report.systems.map(
    (system) => html`<li><a href="#system-${system}">Lines about ${system}</a></li>`,
  );
  return html`<nav aria-label="Contents"><h2>Contents</h2><ul>
${report.paper.length > 0 && html`<li><a href="#claims">What the papers state, and what we measure</a></li>`}
${ofPapers}${ofSystems}
${report.notShown.length > 0 && html`<li><a href="#not-shown">Not shown</a></li>`}</ul></nav>`;
}

function notShown(report: Report): Markup | undefined {
  if (report.notShown.length === 0) return undefined;
  return html`<section id="not-shown"><h2>Not shown</h2>${table(notShownTable(report), 'Not shown')}</section>`;
}

function comparison({ against }: Report): Markup | undefined {
  if (against === undefined) return undefined;
  const changes = comparisonTable(against);
  return html`<section id="against"><h2>Compared with an older report</h2>
<p>${comparisonSentences(against).join(' ')}</p>
${changes.rows.length > 0 && table(changes, 'Changes')}</section>`;
}

/** Date, versions, how to repeat the report, and its data. */
function facts({ date, versions, profiles, seeds, command }: Report): Markup {
  return html`<dl class="facts"><dt>Date</dt><dd>${date}</dd>
<dt>Version</dt><dd>isoverbs ${versions.isoverbs}, Node.js ${versions.node}, profiles ${profiles.slice(0, 12)}, code ${versions.code.slice(0, 12)}</dd>
<dt>Repeat</dt><dd><code>${command}</code></dd><dt>Seeds</dt><dd>${seeds.join(', ')}</dd></dl>
<p class="actions" hidden><button type="button" data-save="claims">Claims as CSV</button>
<button type="button" data-save="lines">Lines as CSV</button> <button type="button" data-save="json">All as JSON</button></p>`;
}

function verdictsSection(report: Report, papers: readonly PaperPart[]): Markup | undefined {
  const verdicts = verdictTable(papers);
  if (verdicts.rows.length === 0) return undefined;
  return html`${table(verdicts, 'Verdicts by paper')}
<details><summary>Verdicts in sentences</summary>${sentences(report, papers).map((line) => html`<p>${line}</p>`)}</details>`;
}

/** The data that the page's script saves: lines, claims and the points of figures, without the commands of runs. */
function dataOf(report: Report, lines: ReadonlyMap<string, readonly PaperLine[]>): string {
  const paper = [...lines.values()].flat().map(({ id, verdict, where, says, what, expected, measured }) => {
    return { id, verdict, where, says, what, expected, measured };
  });
  const { command, date, versions, profiles, seeds, runs, rows } = report;
  const figures = report.figures.map(({ name, title, panels }) => ({ name, title, panels }));
  const data = { command, date, versions, profiles, seeds, runs, paper, rows, figures };
  return JSON.stringify(data).replaceAll('<', '\\u003c');
}

/** Bundlers rewrite templates with a tag that contain the end of a script. */
const script = (attributes: string, text: string) => new Markup(`<script${attributes}>${text}</script>`);

/** The whole page. */
export function htmlOf(report: Report, charts: Charts | null): string {
  const papers = byPaper(report);
  const lines = new Map(papers.map(({ key, claims }) => [key, claims.map((one) => paperLine(report, one))]));
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
<p class="result">${resultSentences(report, papers).join(' ')}</p>
${facts(report)}
${verdictsSection(report, papers)}
<p class="note">All runs are on simulated devices, in virtual time. Points of figures are medians, with the lowest and the
highest value where they differ. Lines of claims show the worst seed. Diamonds are numbers that the paper's text states; on
a bar, a diamond is the middle of a stated range. No number was read off a picture. Commands are those of the installed
package; in a clone, write <code>node dist/cli/main.js</code> for <code>isoverbs</code>.</p>
${charts === null && html`<p class="note">${NO_CHARTS}</p>`}
</header>
${contents(report, papers)}
<main>
${comparison(report)}
${report.broken.length > 0 && html`<section id="broken"><h2>Broken runs</h2>${report.broken.map((line) => html`<p class="fails">Broken: ${line}</p>`)}</section>`}
${claimsSection(papers, lines)}
${papers.map((paper) => paperSection(paper, lines.get(paper.key) ?? [], charts ?? new Map()))}
${report.systems.map((system) => systemSection(report, system))}
${notShown(report)}
</main>
${script(' type="application/json" id="data"', dataOf(report, lines))}
${script('', PAGE_SCRIPT)}
</body>
</html>
`;
  return page.text;
}
