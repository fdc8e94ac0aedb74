/** The report as one self-contained HTML page, without scripts, fonts or network access. */

import type { Claim } from '../../papers/engine/claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { sourceText } from '../../papers/engine/report.ts';
import type { Layout } from './chart.ts';
import { figureTable } from './figure-table.ts';
import { escapeHtml, html, Markup } from './markup.ts';
import type { Report } from './report.ts';
import {
  byPaper,
  CLAIM_HEAD,
  chaptersOf,
  linesOf,
  notShownTable,
  type PaperPart,
  paperLine,
  sentences,
  type TextTable,
  TITLE,
  verdictTable,
} from './sections.ts';
import { STYLE } from './style.ts';

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
  return html`<section id="system-${system}"><h2>Claims about ${system}</h2>${chapters}</section>`;
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
