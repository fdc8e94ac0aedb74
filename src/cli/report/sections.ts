/** Tables and lines that the Markdown and the HTML page share, as plain text. */
import { type Claim, FORMS } from '../../papers/engine/claim.ts';
import type { Row, Verdict } from '../../papers/engine/evaluate-claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { short } from '../../papers/engine/expect.ts';
import { shows } from '../../papers/engine/figures.ts';
import { type Citation, countsFor } from '../../papers/engine/paper.ts';
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
  'the paper states',
  'we measure',
  'expected',
  'shown by, or why not',
];

/** Claims and figures that are not shown, with the reasons. */
export function notShownTable({ notShown }: Report): TextTable {
  const rows = notShown.map(({ ids, title, why, reason }) => [
    ids.join(', '),
    title,
    `${why === 'waiting' ? 'waiting' : 'cannot be shown'}: ${reason}`,
  ]);
  return { head: ['claims and figures', 'what', 'why'], rows };
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
    head: ['line', 'expected', 'tolerance', 'measured', 'all seeds', 'verdict'],
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
  return { head: ['line', ...forms], rows: lines };
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
  cited: Citation;
  claims: readonly PaperClaim[];
  figures: readonly FigureResult[];
}

/** Papers with claims or figures in the report. */
export function byPaper(report: Report): PaperPart[] {
  return PAPERS.map(({ key, name, cited }) => ({
    key,
    name,
    cited,
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

/** The result of a report, in two sentences. */
export function resultSentences(
  { rows, runs, seeds, figures, systems }: Report,
  papers: readonly PaperPart[],
): string[] {
  const claims = papers.flatMap((paper) => paper.claims);
  const count = (verdict: string) => claims.filter((claim) => claim.verdict === verdict).length;
  const judged = rows.filter(({ verdict }) => verdict !== 'reported');
  const held = judged.filter(({ verdict }) => verdict === 'holds').length;
  const not = claims.length - count('holds') - count('fails');
  const first =
    claims.length > 0
      ? `Of ${claims.length} claims of ${papers.length === 1 ? papers[0].cited.title : `${papers.length} papers`}, ` +
        `${count('holds')} hold on simulated devices, ${count('fails')} fail, and ${not} cannot be judged.`
      : judged.length > 0
        ? `${held} of ${judged.length} lines about ${systems.join(', ')} hold on simulated devices.`
        : `This report draws ${figures.length} figures of ${papers.map(({ name }) => name).join(', ')}, and checks no claims.`;
  const seedsText = seeds.length === 1 ? `seed ${seeds[0]}` : `the worst of the seeds ${seeds.join(', ')}`;
  const second =
    judged.length > 0
      ? `The verdicts rest on ${runs} runs and ${judged.length} measured lines, of which ${held} hold, with ${seedsText}.`
      : `The points are medians of ${runs} runs, with the seeds ${seeds.join(', ')}.`;
  return [first, second];
}

/** How to cite a paper, without its address. */
export function citationText({ title, authors, venue }: Citation): string {
  return `${authors}: ${title}.${venue === undefined ? '' : ` ${venue}.`}`;
}

/** The address of a paper, by its DOI if it has one. */
export function addressOf({ doi, url }: Citation): string | undefined {
  return doi === undefined ? url : `https://doi.org/${doi}`;
}

/** The numbers of figures in a text such as `Figs. 4(a), 5(a) and 9(b)-(d), section 2`: 4a, 5a, 9b, 9c, 9d. */
export function figureNumbers(where: string): string[] {
  const [, list = ''] = /Figs?\. (.*?)(?=,? \(?(?:and )?(?:section|Appendix|Test)|$)/.exec(where) ?? [];
  return [...list.matchAll(/(\d+)(?:-(\d+))?((?:-?\([a-z]\))*)/g)].flatMap(([, first, last, letters]) => {
    const numbers = Array.from(
      { length: Number(last ?? first) - Number(first) + 1 },
      (_, i) => Number(first) + i,
    );
    const parts = lettersOf(letters);
    return numbers.flatMap((number) =>
      parts.length === 0 ? [`${number}`] : parts.map((part) => `${number}${part}`),
    );
  });
}

/** `(a)-(c)` as a, b and c; `(a)(c)` as a and c. */
function lettersOf(text: string): string[] {
  const range = /^\((.)\)-\((.)\)$/.exec(text);
  if (range === null) return [...text.matchAll(/\((.)\)/g)].map(([, letter]) => letter);
  const [from, to] = [range[1].charCodeAt(0), range[2].charCodeAt(0)];
  return Array.from({ length: to - from + 1 }, (_, i) => String.fromCharCode(from + i));
}

/** The figures of the report to which a claim of a paper refers. */
export function figuresOf({ figures }: Report, key: string, where: string): FigureResult[] {
  const wanted = figureNumbers(where).map((number) => `${key}-${number}`);
  const isPart = (name: string, one: string) =>
    name.startsWith(one) && /^[a-z]$/.test(name.slice(one.length));
  return figures.filter((figure) => wanted.some((one) => shows(figure, one) || isPart(figure.name, one)));
}

/** A paper claim, the line that decides its verdict, and the claims that show it. */
export interface PaperLine {
  id: string;
  verdict: PaperClaim['verdict'];
  /** The place in the paper, and what it states there. */
  where: string;
  says: string;
  what: string;
  expected: string;
  measured: string;
  /** The line itself. */
  row?: Row;
  figures: readonly FigureResult[];
  /** The claims that show it. */
  shownBy: readonly Claim[];
  /** Why no claim shows it; why it fails, if a claim says so. */
  reason: string;
}

/** Picks the first line that has the verdict of the paper claim, and counts the other lines. */
export function paperLine(report: Report, { paper, id, verdict, by }: PaperClaim): PaperLine {
  const own = PAPERS.find(({ name }) => name === paper);
  const { where, says } = own?.statements[id] ?? { where: '', says: '' };
  const shownBy = report.claims.filter((claim) => claim.shows.includes(id));
  const rowsOf = (claim: Claim) =>
    report.rows.filter(
      (row) =>
        row.system === claim.system && row.claim === claim.id && (own === undefined || countsFor(own, row)),
    );
  const rows = shownBy.flatMap(rowsOf);
  const row = rows.find((one) => one.verdict === (verdict as Verdict)) ?? rows[0];
  const more = rows.length > 1 ? ` (and ${rows.length - 1} more)` : '';
  const failing = shownBy.filter((claim) => rowsOf(claim).some((one) => one.verdict === 'fails'));
  const notes = [...new Set(failing.flatMap(({ note }) => note ?? []))].join(' ');
  return {
    id,
    verdict,
    where,
    says,
    what: row === undefined ? '' : `${whatOf(row)}${more}`,
    expected: row === undefined ? '' : expectedOf(row),
    measured: row === undefined ? '' : withUnit(digits(row.measured), row.unit),
    row,
    figures: own === undefined ? [] : figuresOf(report, own.key, where),
    shownBy,
    reason: shownBy.length > 0 ? notes : by,
  };
}

/** What holds, with the tolerance. */
function expectedOf({ expected, tolerance, unit }: Row): string {
  const text = withUnit(expected, unit);
  return ['-', 'none'].includes(tolerance) ? text : `${text}, ${tolerance}`;
}

/** Where the measured value lies, and what holds, from 0 to 1 across a bar. */
export interface ToleranceBar {
  from: number;
  to: number;
  at: number;
  text: string;
}

/** The scale shows the whole interval and the measured value; beyond four times the interval, the value is at the edge. */
export function toleranceBar({ kind, min, max, measured, unit }: Row): ToleranceBar | undefined {
  const [hasMin, hasMax] = [Number.isFinite(min), Number.isFinite(max)];
  if (kind === 'reported' || !Number.isFinite(measured) || !(hasMin || hasMax)) return undefined;
  const centre = hasMin && hasMax ? (min + max) / 2 : hasMin ? min : max;
  const half = hasMin && hasMax ? (max - min) / 2 : Math.abs(centre) / 4;
  const reach = 1.25 * Math.min(Math.max(Math.abs(measured - centre), half), 4 * half) || 1;
  const place = (value: number) => Math.min(Math.max((value - centre + reach) / (2 * reach), 0), 1);
  const allowed =
    hasMin && hasMax
      ? `${digits(min)} to ${digits(max)}`
      : hasMin
        ? `at least ${digits(min)}`
        : `at most ${digits(max)}`;
  return {
    from: hasMin ? place(min) : 0,
    to: hasMax ? place(max) : 1,
    at: place(measured),
    text: `measured ${withUnit(digits(measured), unit)}, allowed ${allowed}`,
  };
}
