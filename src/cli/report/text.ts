/** The report on a terminal. */
import Table from 'cli-table3';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import {
  driftText,
  formSentences,
  heldClaims,
  heldInForms,
  notShownText,
  paperText,
  tableOf,
} from '../../papers/engine/report.ts';
import { figureTable } from './figure-table.ts';
import type { Report } from './report.ts';
import { byPaper, formsTable, onlyBare, type TextTable } from './sections.ts';

/** Tables of claims and figures, and a summary. */
export function reportText(report: Report): string {
  const { systems, claims, rows } = report;
  const tables = systems.flatMap((system) => {
    const forms = formsTable(report, system);
    const table = tableOf(
      claims.filter((claim) => claim.system === system),
      rows.filter((row) => row.system === system),
    );
    return forms === undefined ? [table] : [table, formsText(forms)];
  });
  const summary = claims.length > 0 ? [summaryOf(report)] : withoutClaims(report);
  return `${[...tables, ...report.figures.map(figureText), ...summary].join('\n')}\n`;
}

/** The forms of a system in columns. */
function formsText({ head, rows }: TextTable): string {
  const table = new Table({
    head: [...head],
    style: { head: [], border: [], compact: true },
    wordWrap: true,
    colWidths: head.map((_name, i) => (i === 0 ? 72 : 34)),
  });
  for (const row of rows) table.push([...row]);
  return table.toString();
}

function withoutClaims({ broken, notShown }: Report): string[] {
  const lines = broken.map((line) => `broken: ${line}`);
  return notShown.length === 0 ? lines : [...lines, `Not drawn:\n${notShownText(notShown)}`];
}

/** The summary below the tables. */
function summaryOf(report: Report): string {
  const { claims, rows, runs, broken, drift, notShown, paper } = report;
  const failed = rows.filter((row) => row.verdict === 'fails').length;
  const [held, counted] = heldClaims(claims, rows);
  const lines = [
    `${rows.length} lines, of which ${failed} fail; ${runs} runs, of which ${broken.length} are broken.`,
    `${held} of ${counted} claims hold in every line.`,
    ...formSentences(heldInForms(claims, rows)),
    ...broken.map((line) => `broken: ${line}`),
  ];
  if (drift.length > 0) lines.push(`Changed since the profiles were frozen:\n${driftText(drift)}`);
  if (notShown.length > 0) lines.push(`Not counted:\n${notShownText(notShown)}`);
  if (paper.length > 0) lines.push(paperText(paper), ...onlyBare(report.systems, byPaper(report)));
  return lines.join('\n');
}

function figureText(figure: FigureResult): string {
  const { name, title, source, note, problems } = figure;
  const { head, rows } = figureTable(figure);
  const table = new Table({ head, style: { head: [], border: [], compact: true } });
  for (const row of rows) table.push(row);
  const remarks = note === undefined ? problems : [`(${note})`, ...problems];
  return [`${name}: ${title}. ${source}`, table.toString(), ...remarks].join('\n');
}
