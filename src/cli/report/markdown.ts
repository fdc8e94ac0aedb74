/** The report as Markdown. */

import type { Claim } from '../../papers/engine/claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { sourceText } from '../../papers/engine/report.ts';
import { comparisonSentences, comparisonTable } from './against.ts';
import { figureTable } from './figure-table.ts';
import { claimCommand, type Report } from './report.ts';
import {
  addressOf,
  byPaper,
  CLAIM_HEAD,
  chaptersOf,
  citationText,
  formsTable,
  linesOf,
  notShownTable,
  type PaperPart,
  paperLine,
  resultSentences,
  sentences,
  type TextTable,
  TITLE,
  verdictTable,
} from './sections.ts';

/** Escapes text so that no renderer treats it as markup. */
export function escapeMarkdown(text: string): string {
  return text
    .replace(/[\\`*_[\]|~]/g, '\\$&')
    .replaceAll('<', '&lt;')
    .replace(/\s*\n\s*/g, ' ');
}

function table({ head, rows }: TextTable): string {
  const line = (cells: readonly string[]) => `| ${cells.map(escapeMarkdown).join(' | ')} |`;
  return [line(head), `|${' --- |'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

function claim(report: Report, one: Claim): string {
  const { remarks, ...lines } = linesOf(report, one);
  const title = `**${escapeMarkdown(one.id)}**: ${escapeMarkdown(`${one.title}. ${sourceText(one)}.`)} \`${claimCommand(one, report.seeds)}\``;
  return [title, table(lines), ...remarks.map(escapeMarkdown)].join('\n\n');
}

function systemText(report: Report, system: string): string {
  const chapters = chaptersOf(report, system).map(({ title, claims }) =>
    [`### ${title}`, ...claims.map((one) => claim(report, one))].join('\n\n'),
  );
  const forms = formsTable(report, system);
  const columns = forms === undefined ? [] : ['### The forms side by side', table(forms)];
  return [`## Claims about ${system}`, ...chapters, ...columns].join('\n\n');
}

/** The address of a figure's picture, if it has one. */
export type Picture = (figure: FigureResult) => string | undefined;

function figureText(figure: FigureResult, picture: Picture): string {
  const { name, title, source, note, problems } = figure;
  const image = picture(figure);
  const lines = [
    `### ${name}: ${escapeMarkdown(title)}`,
    `${escapeMarkdown(source)}. \`isoverbs reproduce --figure ${name}\``,
    ...(image === undefined ? [] : [`![${escapeMarkdown(`${name}: ${title}`)}](${image})`]),
    table(figureTable(figure)),
    ...(note === undefined ? [] : [escapeMarkdown(note)]),
    ...problems.map((problem) => `Problem: ${escapeMarkdown(problem)}`),
  ];
  return lines.join('\n\n');
}

function paperText(report: Report, { name, cited, claims, figures }: PaperPart, picture: Picture) {
  const rows = claims.map((one) => {
    const { id, verdict, where, says, what, expected, measured, shownBy, reason } = paperLine(report, one);
    const states = where === '' ? says : `${says} (${where})`;
    const measure = what === '' ? '' : `${what}: ${measured}`;
    const why = [shownBy.map((by) => by.id).join(', '), reason].filter((text) => text !== '');
    return [id, verdict, states, measure, expected, why.join('. ')];
  });
  return [
    `## ${name}`,
    [escapeMarkdown(citationText(cited)), addressOf(cited)].filter(Boolean).join(' '),
    ...(rows.length === 0 ? [] : [table({ head: CLAIM_HEAD, rows })]),
    ...figures.map((figure) => figureText(figure, picture)),
  ].join('\n\n');
}

/** Claims and figures that are not shown, and broken runs. */
function remarks(report: Report): string[] {
  const { broken, notShown } = report;
  const out: string[] = [];
  if (notShown.length > 0) out.push('## Not shown', table(notShownTable(report)));
  if (broken.length > 0) out.push('## Broken runs', ...broken.map((line) => `- ${escapeMarkdown(line)}`));
  return out;
}

function comparison({ against }: Report): string[] {
  if (against === undefined) return [];
  const changes = comparisonTable(against);
  const text = escapeMarkdown(comparisonSentences(against).join(' '));
  return changes.rows.length === 0 ? [text] : [text, table(changes)];
}

/** The whole report. `intro` follows the first heading. */
export function markdownOf(
  report: Report,
  intro: readonly string[],
  picture: Picture = () => undefined,
): string {
  const papers = byPaper(report);
  const verdicts = verdictTable(papers);
  const text = [
    `# ${TITLE}`,
    escapeMarkdown(resultSentences(report, papers).join(' ')),
    ...intro,
    ...comparison(report),
    ...(verdicts.rows.length === 0 ? [] : [table(verdicts)]),
    ...sentences(report, papers).map(escapeMarkdown),
    ...papers.map((paper) => paperText(report, paper, picture)),
    ...report.systems.map((system) => systemText(report, system)),
    ...remarks(report),
  ];
  return `${text.join('\n\n')}\n`;
}
