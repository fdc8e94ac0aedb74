/** Tables and lines that the Markdown and the HTML page share, as plain text. */
import { type Claim, FORMS } from '../../papers/engine/claim.ts';
import type { Row, Verdict } from '../../papers/engine/evaluate-claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { short } from '../../papers/engine/expect.ts';
import { countsFor } from '../../papers/engine/paper.ts';
import { PAPERS, PARTS } from '../../papers/engine/papers.ts';
import {
  formSentences,
  heldInForms,
  type PaperClaim,
  paperSentence,
  whatOf,
} from '../../papers/engine/report.ts';
import type { Report } from './report.ts';

export interface TextTable {
  head: readonly string[];
  rows: readonly (readonly string[])[];
}

export const TITLE = 'What the papers report, and what isoverbs measures';

/** Header of the table of a paper's claims (see paperLine()). */
export const CLAIM_HEAD: readonly string[] = [
  'claim',
  'verdict',
  'line',
  'expected',
  'measured',
  'shown by, or why not shown',
];

/** Claims and figures that are not shown, with the reasons. */
export function notShownTable({ notShown }: Report): TextTable {
  const rows = notShown.map(({ ids, title, why, reason }) => [
    ids.join(', '),
    title,
    `${why === 'waiting' ? 'waiting' : 'cannot be shown'}: ${reason}`,
  ]);
  return { head: ['claims and figures', '', 'why'], rows };
}

const digits = (value: number) => (Number.isFinite(value) ? short(value) : '-');
const withUnit = (text: string, unit: string) => (unit === '' || text === '-' ? text : `${text} ${unit}`);

/** The lines of a claim, and remarks about them. */
export function linesOf({ rows }: Report, claim: Claim): TextTable & { remarks: readonly string[] } {
  const own = rows.filter((row) => row.system === claim.system && row.claim === claim.id);
  const remarks = own.flatMap(({ deviation, problem }) => [
    ...(deviation === undefined ? [] : [`Deviation: ${deviation}`]),
    ...(problem === undefined ? [] : [`Problem: ${problem}`]),
  ]);
  return {
    head: ['', 'expected', 'tolerance', 'measured', 'all seeds', 'verdict'],
    rows: own.map((row) => [
      whatOf(row),
      withUnit(row.expected, row.unit),
      row.tolerance,
      withUnit(digits(row.measured), row.unit),
      row.lowest === row.highest ? '' : `${digits(row.lowest)} to ${digits(row.highest)}`,
      row.verdict,
    ]),
    remarks: claim.note === undefined ? remarks : [claim.note, ...remarks],
  };
}

/** The lines about a system in all its forms, side by side; undefined if the system has only one. */
export function formsTable({ claims, rows }: Report, system: string): TextTable | undefined {
  const own = rows.filter((row) => row.system === system && row.form !== undefined);
  const forms = FORMS.filter((form) => own.some((row) => row.form === form));
  if (forms.length === 0) return undefined;
  const ofSystem = claims.filter((claim) => claim.system === system);
  const lines = ofSystem.flatMap(({ id }) => {
    const ofClaim = own.filter(({ claim }) => claim === id);
    const names = [...new Set(ofClaim.map(({ what }) => what))];
    return names.map((name) => {
      const inForm = (form: string) => ofClaim.find((row) => row.what === name && row.form === form);
      return [`${id}: ${name}`, ...forms.map((form) => formCell(inForm(form)))];
    });
  });
  return { head: ['', ...forms], rows: lines };
}

function formCell(row: Row | undefined): string {
  if (row === undefined) return '';
  const { measured, unit, verdict, expected, tolerance } = row;
  const cell = `${withUnit(digits(measured), unit)} ${verdict}`;
  if (expected === '-') return cell;
  const bounds = ['-', 'none'].includes(tolerance) ? expected : `${expected}, ${tolerance}`;
  return `${cell} (${bounds})`;
}

/** Claims about a system, by chapter. */
export function chaptersOf(
  { claims }: Report,
  system: string,
): { title: string; claims: readonly Claim[] }[] {
  const own = claims.filter((claim) => claim.system === system);
  const parts = [...new Set(own.map(({ part }) => part))];
  return parts.map((part) => ({
    title: PARTS[system][part],
    claims: own.filter((claim) => claim.part === part),
  }));
}

/** The claims and figures of a paper. */
export interface PaperPart {
  key: string;
  name: string;
  claims: readonly PaperClaim[];
  figures: readonly FigureResult[];
}

/** Papers with claims or figures in the report. */
export function byPaper(report: Report): PaperPart[] {
  return PAPERS.map(({ key, name }) => ({
    key,
    name,
    claims: report.paper.filter((claim) => claim.paper === name),
    figures: report.figures.filter((figure) => figure.paper === key),
  })).filter(({ claims, figures }) => claims.length + figures.length > 0);
}

/** Verdicts, in the order of the report's columns. */
const VERDICTS = ['holds', 'fails', 'reported', 'waiting', 'never', 'missing'] as const;
const WORDS: Readonly<Record<string, string>> = {
  holds: 'hold',
  fails: 'fail',
  reported: 'without a verdict',
  waiting: 'waiting',
  never: 'cannot be shown',
  missing: 'missing',
};

/** Numbers of claims by paper and verdict. */
export function verdictTable(papers: readonly PaperPart[]): TextTable {
  const of = (claims: readonly PaperClaim[], verdict: string) =>
    claims.filter((claim) => claim.verdict === verdict).length;
  const counted = papers.filter(({ claims }) => claims.length > 0);
  const line = (name: string, claims: readonly PaperClaim[]) => [
    name,
    `${claims.length}`,
    ...VERDICTS.map((verdict) => `${of(claims, verdict)}`),
  ];
  const rows = counted.map(({ name, claims }) => line(name, claims));
  const all = counted.flatMap(({ claims }) => claims);
  if (counted.length > 1) rows.push(line('All', all));
  return { head: ['paper', 'claims', ...VERDICTS.map((verdict) => WORDS[verdict])], rows };
}

/** The same numbers in sentences, paper by paper. */
export function sentences({ systems, claims, rows }: Report, papers: readonly PaperPart[]): string[] {
  const counted = papers.filter(({ claims }) => claims.length > 0);
  const lines = counted.map(({ name, claims }) => paperSentence(name, claims));
  if (counted.length > 1)
    lines.push(
      paperSentence(
        'all papers',
        counted.flatMap(({ claims }) => claims),
      ),
    );
  return [...lines, ...formSentences(heldInForms(claims, rows)), ...onlyBare(systems, counted)];
}

/** Names the papers whose own policy is not in the report: only their claims about bare devices count. */
export function onlyBare(systems: readonly string[], papers: readonly PaperPart[]): string[] {
  const names = papers.filter(({ key, claims }) => claims.length > 0 && !systems.includes(key));
  if (names.length === 0) return [];
  return [`For ${names.map(({ name }) => name).join(', ')}, only claims about bare devices are counted.`];
}

/** A paper claim, the line that decides its verdict, and the claims that show it. */
export interface PaperLine {
  id: string;
  verdict: PaperClaim['verdict'];
  what: string;
  expected: string;
  measured: string;
  /** The claims that show it. */
  shownBy: readonly Claim[];
  /** Why no claim shows it. */
  reason: string;
}

/** Picks the first line that has the verdict of the paper claim, and counts the other lines. */
export function paperLine(report: Report, { paper, id, verdict, by }: PaperClaim): PaperLine {
  const own = PAPERS.find(({ name }) => name === paper);
  const shownBy = report.claims.filter((claim) => claim.shows.includes(id));
  const rows = shownBy.flatMap((claim) =>
    report.rows.filter(
      (row) =>
        row.system === claim.system && row.claim === claim.id && (own === undefined || countsFor(own, row)),
    ),
  );
  const row = rows.find((one) => one.verdict === (verdict as Verdict)) ?? rows[0];
  const more = rows.length > 1 ? ` (and ${rows.length - 1} more)` : '';
  return {
    id,
    verdict,
    what: row === undefined ? '' : `${whatOf(row)}${more}`,
    expected: row === undefined ? '' : withUnit(row.expected, row.unit),
    measured: row === undefined ? '' : withUnit(digits(row.measured), row.unit),
    shownBy,
    reason: shownBy.length > 0 ? '' : by,
  };
}
