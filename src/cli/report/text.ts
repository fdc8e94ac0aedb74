/** The report on a terminal. */
import Table from 'cli-table3';
import type { Claim } from '../../papers/engine/claim.ts';
import type { Row } from '../../papers/engine/evaluate-claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { PARTS } from '../../papers/engine/papers.ts';
import {
  cells,
  driftText,
  formSentences,
  heldClaims,
  heldInForms,
  notShownText,
  paperSentence,
  paperText,
  sourceText,
  tableOf,
  verdictText,
} from '../../papers/engine/report.ts';
import { painted, type Style } from '../output/style.ts';
import { foldedTable, outWidth, widestLine, wrapped } from '../output/table.ts';
import { comparisonSentences, comparisonTable } from './against.ts';
import { type FigureTable, figureTable } from './figure-table.ts';
import type { Report } from './report.ts';
import { byPaper, formsTable, onlyBare, type TextTable } from './sections.ts';

/** Columns of the tables with lines; a narrower terminal, or a file, gets lists instead. */
const TABLE_WIDTH = 159;
const VERDICT_INDENT = ' '.repeat(12);

/** Tables of claims and figures, and a summary. */
export function reportText(report: Report): string {
  const { systems, claims, rows } = report;
  const tables = systems.flatMap((system) => {
    const forms = formsTable(report, system);
    const ofSystem = <T extends { system: string }>(all: readonly T[]) =>
      all.filter((one) => one.system === system);
    const table = claimsText(ofSystem(claims), ofSystem(rows));
    return forms === undefined ? [table] : [table, formsText(forms)];
  });
  const summary = [
    ...(claims.length > 0 ? [summaryOf(report)] : withoutClaims(report)),
    ...comparedText(report),
  ];
  return `${[...tables, ...report.figures.map(figureText), ...summary].join('\n')}\n`;
}

/** What differs from an older report. */
function comparedText({ against }: Report): string[] {
  if (against === undefined) return [];
  const lines = comparisonTable(against).rows.map(([what, was, is]) =>
    indented(`${what}: ${[was !== '' && `was ${was}, is`, is].filter(Boolean).join(' ')}`, '  '),
  );
  return [...comparisonSentences(against).map((line) => indented(line, '')), ...lines];
}

/** Claims as a table with lines, or without lines if the terminal is too narrow for it. */
function claimsText(claims: readonly Claim[], rows: readonly Row[]): string {
  if (outWidth() >= TABLE_WIDTH) return tableOf(claims, rows);
  return claims
    .flatMap((claim, i) => {
      const { system, part } = claim;
      const isNew = i === 0 || claims[i - 1].part !== part;
      const heading = painted('head', `${part}. ${PARTS[system][part]}`);
      return isNew ? [heading, claimText(claim, rows)] : [claimText(claim, rows)];
    })
    .join('\n');
}

/** A claim, and below it what it measured: the verdict first, then the numbers. */
function claimText(claim: Claim, rows: readonly Row[]): string {
  const lines = [
    painted('head', indented(`${claim.id}: ${claim.title}. ${sourceText(claim)}`, '')),
    ...rows.filter((row) => row.claim === claim.id).map(rowText),
  ];
  if (claim.note !== undefined) lines.push(indented(`(${claim.note})`, '  '));
  return lines.join('\n');
}

const VERDICT_STYLES: Readonly<Record<string, Style>> = { holds: 'good', fails: 'bad', reported: 'dim' };

function rowText(row: Row): string {
  const [what, expected, tolerance, measured, seeds, verdict] = cells(row).map((cell) => cell.trim());
  const numbers = [
    `expected ${expected}${tolerance === '-' ? '' : ` (${tolerance})`}`,
    `measured ${measured}${seeds === '' ? '' : ` (${seeds})`}`,
  ].join(', ');
  const remarks = [row.deviation && `deviation: ${row.deviation}`, row.problem].filter((one) => one);
  const said = [numbers, ...remarks].map((text) => indented(`${text}`, VERDICT_INDENT));
  const [first, ...more] = indented(what, VERDICT_INDENT).split('\n');
  const head = painted(VERDICT_STYLES[verdict], `  ${verdict}`.padEnd(VERDICT_INDENT.length));
  return [head + first.slice(VERDICT_INDENT.length), ...more, ...said].join('\n');
}

function indented(text: string, indent: string): string {
  return wrapped(text, outWidth() - indent.length).replace(/^/gm, indent);
}

/** The forms of a system in columns. */
function formsText({ head, rows }: TextTable): string {
  if (outWidth() < TABLE_WIDTH) return rows.map((row) => formText(head, row)).join('\n');
  const table = new Table({
    head: [...head],
    style: { head: [], border: [], compact: true },
    wordWrap: true,
    colWidths: head.map((_name, i) => (i === 0 ? 72 : 34)),
  });
  for (const row of rows) table.push([...row]);
  return table.toString();
}

function formText(head: readonly string[], [first, ...forms]: readonly string[]): string {
  const lines = forms.map((text, i) => indented(`${head[i + 1]}: ${text}`, '    '));
  return [indented(`${head[0]}: ${first}`, '  '), ...lines].join('\n');
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
  if (paper.length > 0) lines.push(verdictsText(paper), ...onlyBare(report.systems, byPaper(report)));
  return lines.join('\n');
}

/** What was found about each sentence of the papers. */
function verdictsText(paper: Report['paper']): string {
  if (outWidth() >= TABLE_WIDTH) return paperText(paper);
  const lines = paper.map(({ id, by, ...claim }) =>
    indented(`${id}: ${verdictText({ id, by, ...claim })}: ${by}`, '  '),
  );
  const papers = [...new Set(paper.map((claim) => claim.paper))];
  const of = (name: string) => paper.filter((claim) => claim.paper === name);
  return [...lines, ...papers.map((name) => indented(paperSentence(name, of(name)), ''))].join('\n');
}

/** The numbers of a figure as a table with lines, or folded, panel by panel, if the terminal is too narrow for it. */
function figureText(figure: FigureResult): string {
  const { name, title, source, note, problems, panels } = figure;
  const { head, rows } = figureTable(figure);
  const table = new Table({ head, style: { head: [], border: [], compact: true } });
  for (const row of rows) table.push(row);
  const text = table.toString();
  const numbers =
    widestLine(text) <= outWidth()
      ? [text]
      : panels.flatMap((panel) => foldedPanel(figureTable({ ...figure, panels: [panel] })));
  const remarks = note === undefined ? problems : [`(${note})`, ...problems];
  const wrap = (line: string) => indented(line, '');
  return [wrap(`${name}: ${title}. ${source}`), ...numbers, ...remarks.map(wrap)].join('\n');
}

/** The panel's title, its numbers by x, and what the paper states. */
function foldedPanel({ head, rows }: FigureTable): string[] {
  if (rows.length === 0) return [];
  const [[title]] = rows;
  const x = head[1];
  const columns = head.slice(1, -1).map((name) => ({ head: name, part: 0 }));
  const stated = rows.flatMap(([, value, ...cells]) => {
    const text = cells[cells.length - 1];
    return text === '' ? [] : [indented(`stated for ${x} ${value}: ${text}`, '  ')];
  });
  const numbers = foldedTable(
    columns,
    rows.map((row) => row.slice(1, -1)),
  );
  return [painted('head', indented(title, '')), numbers, ...stated];
}
