/** The comparison of a report with an older one. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Row } from '../../papers/engine/evaluate-claim.ts';
import { short } from '../../papers/engine/expect.ts';
import { whatOf } from '../../papers/engine/report.ts';
import { ConfigError } from '../../verbs/errors.ts';
import type { Comparison, Report } from './report.ts';
import type { TextTable } from './sections.ts';

/** Smaller relative changes are left out: seeds differ by more. */
const SAME = 0.01;

const POINT = z.object({ x: z.union([z.number(), z.string()]), value: z.number().nullable() });
/** What a comparison needs of report.json; other fields are ignored. */
const OLD = z.object({
  date: z.string().optional(),
  versions: z.object({ isoverbs: z.string(), code: z.string() }),
  seeds: z.array(z.number()),
  paper: z.array(z.object({ id: z.string(), verdict: z.string() })),
  rows: z.array(
    z.object({
      system: z.string(),
      claim: z.string(),
      what: z.string(),
      form: z.string().optional(),
      unit: z.string(),
      measured: z.number().nullable(),
      verdict: z.string(),
    }),
  ),
  figures: z.array(
    z.object({
      name: z.string(),
      panels: z.array(
        z.object({
          title: z.string(),
          series: z.array(z.object({ name: z.string(), points: z.array(POINT) })),
        }),
      ),
    }),
  ),
});
export type OldReport = z.infer<typeof OLD>;

/** Reads report.json of an earlier run. @throws ConfigError if the file cannot be read or is no report */
export function readReport(file: string): OldReport {
  const hint = "name the report.json that 'isoverbs reproduce --out FOLDER' writes";
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException;
    throw new ConfigError(`against: ${file} ${UNREADABLE[code] ?? `cannot be read (${code})`}; ${hint}`, {
      cause,
    });
  }
  try {
    return OLD.parse(JSON.parse(text));
  } catch (cause) {
    throw new ConfigError(`against: ${file} is not a report.json of this version of isoverbs; ${hint}`, {
      cause,
    });
  }
}

/** By the code of the error. */
const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EISDIR: 'is a folder',
  EACCES: 'may not be read by this user',
};

const isSame = (was: number | null, is: number | null) =>
  was === is || (was !== null && is !== null && Math.abs(is - was) <= SAME * Math.abs(was));
const finite = (value: number) => (Number.isFinite(value) ? value : null);

/** A row without its worst check, which may be another one in another run. */
const lineOf = ({ system, claim, what, form }: Pick<Row, 'system' | 'claim' | 'what'> & { form?: string }) =>
  `${system}/${claim}: ${whatOf({ what, form } as Row)}`;

function figuresOf({ figures }: Pick<Report, 'figures'>, old: OldReport): Comparison['figures'] {
  return figures.flatMap(({ name, panels }) => {
    const before = old.figures.find((one) => one.name === name);
    const pairs = panels.flatMap((panel) =>
      panel.series.flatMap((series) => {
        const was = before?.panels
          .find(({ title }) => title === panel.title)
          ?.series.find((one) => one.name === series.name);
        return series.points.flatMap(({ x, value }) => {
          const point = was?.points.find((one) => one.x === x);
          return point === undefined ? [] : [isSame(point.value, finite(value))];
        });
      }),
    );
    const changed = pairs.filter((same) => !same).length;
    return changed === 0 ? [] : [{ name, changed, points: pairs.length }];
  });
}

/** Compares a report with an older one. @param file for readers */
export function compared(report: Omit<Report, 'against'>, old: OldReport, file: string): Comparison {
  const was = new Map(old.rows.map((row) => [lineOf(row), row]));
  const is = new Map(report.rows.map((row) => [lineOf(row), row]));
  const both = [...is].flatMap(([what, row]) => {
    const before = was.get(what);
    return before === undefined ? [] : [{ what, before, row }];
  });
  const claims = report.paper.flatMap(({ id, verdict }) => {
    const before = old.paper.find((one) => one.id === id);
    return before === undefined || before.verdict === verdict
      ? []
      : [{ what: id, was: before.verdict, is: verdict }];
  });
  const lines = both
    .filter(({ before, row }) => before.verdict !== row.verdict)
    .map(({ what, before, row }) => ({ what, was: before.verdict, is: row.verdict }));
  const { isoverbs, code } = old.versions;
  return {
    with: `${file} (isoverbs ${isoverbs}, code ${code.slice(0, 12)}${old.date === undefined ? '' : `, ${old.date}`}, seeds ${old.seeds.join(', ')})`,
    otherSeeds: String(old.seeds) !== String(report.seeds),
    verdicts: [...claims, ...lines],
    measured: both
      .map(({ what, before, row }) => ({
        what,
        was: before.measured,
        is: finite(row.measured),
        unit: row.unit,
      }))
      .filter((line) => !isSame(line.was, line.is)),
    figures: figuresOf(report, old),
    added: [...is.keys()].filter((what) => !was.has(what)),
    gone: [...was.keys()].filter((what) => !is.has(what)),
  };
}

/** A comparison in sentences. */
export function comparisonSentences({
  otherSeeds,
  verdicts,
  measured,
  figures,
  ...one
}: Comparison): string[] {
  const points = figures.reduce((sum, { changed }) => sum + changed, 0);
  const only = [
    one.added.length > 0 && `${one.added.length} lines are new.`,
    one.gone.length > 0 && `${one.gone.length} lines are only in the older report.`,
    otherSeeds && 'The seeds differ, which changes measurements by itself.',
  ];
  return [
    `Compared with ${one.with}: ${verdicts.length} verdicts differ; ${measured.length} lines and ${points} points of ` +
      `${figures.length} figures changed by more than 1 %.`,
    ...only.filter((line) => line !== false),
  ];
}

const number = (value: number | null) => (value === null ? '-' : short(value));

/** A comparison as a table: verdicts first, then lines by the size of their change, then figures. */
export function comparisonTable({ verdicts, measured, figures }: Comparison): TextTable {
  const sizeOf = ({ was, is }: Comparison['measured'][number]) =>
    was === null || is === null || was === 0 ? Number.POSITIVE_INFINITY : Math.abs(is / was - 1);
  const sorted = [...measured].sort((a, b) => sizeOf(b) - sizeOf(a));
  return {
    head: ['line', 'was', 'is'],
    rows: [
      ...verdicts.map(({ what, was, is }) => [what, was, is]),
      ...sorted.map(({ what, was, is, unit }) => [what, number(was), `${number(is)} ${unit}`.trim()]),
      ...figures.map(({ name, changed, points }) => [name, '', `${changed} of ${points} points changed`]),
    ],
  };
}
