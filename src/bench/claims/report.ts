/** The table of `isoverbs reproduce`. */
import Table from 'cli-table3';
import { PARTS } from './claim.ts';
import type { Row } from './evaluate.ts';
import { short } from './expect.ts';
import type { Drift } from './frozen.ts';
import type { NamedClaim } from './load.ts';
import type { NotShown } from './not-shown.ts';
import type { PaperClaim } from './papers.ts';

const digits = (value: number) => (Number.isFinite(value) ? short(value) : '-');

function cells(row: Row): string[] {
  const what = row.at === undefined ? row.what : `${row.what} (${row.at})`;
  const unit = row.unit === '' ? '' : ` ${row.unit}`;
  return [
    `  ${what}`,
    `${row.expected}${unit}`,
    row.tolerance,
    `${digits(row.measured)}${unit}`,
    row.lowest === row.highest ? '' : `${digits(row.lowest)} to ${digits(row.highest)}`,
    row.verdict,
  ];
}

/** Of lines with several points, and of several seeds, each row shows the worst. */
export function tableOf(claims: readonly NamedClaim[], rows: readonly Row[]): string {
  const head = ['', 'expected', 'tolerance', 'measured', 'all seeds', 'verdict'];
  const table = new Table({
    head,
    style: { head: [], border: [], compact: true },
    wordWrap: true,
    colWidths: [72, 22, 12, 16, 20, 10],
  });
  let part = 0;
  for (const claim of claims) {
    if (claim.part !== part) {
      part = claim.part;
      table.push([{ colSpan: head.length, content: `${part}. ${PARTS[claim.system][part]}` }]);
    }
    table.push([{ colSpan: head.length, content: `${claim.id}: ${claim.title}. ${claim.source}` }]);
    for (const row of rows.filter((one) => one.claim === claim.id)) {
      table.push(cells(row));
      const remarks = [row.deviation && `deviation: ${row.deviation}`, row.problem].filter(Boolean);
      for (const remark of remarks) table.push([{ colSpan: head.length, content: `  ${remark}` }]);
    }
    if (claim.note !== undefined) table.push([{ colSpan: head.length, content: `  (${claim.note})` }]);
  }
  return table.toString();
}

/** What nobody needs to look for in the table. */
export function notShownText(list: readonly NotShown[]): string {
  const lines = list.map(({ ids, title, why, reason }) => {
    const head = why === 'waiting' ? 'waiting' : 'cannot be shown';
    return `${head}: ${title} (${ids.join(', ')}): ${reason}`;
  });
  return lines.join('\n');
}

/** What became of each claim of the paper, and how many of those that can be judged hold. */
export function paperText(claims: readonly PaperClaim[]): string {
  const of = (...verdicts: string[]) => claims.filter(({ verdict }) => verdicts.includes(verdict)).length;
  const [held, judged] = [of('holds'), of('holds', 'fails', 'missing')];
  const rest = (['reported', 'waiting', 'never'] as const).filter((verdict) => of(verdict) > 0);
  const head = [`${held} of ${judged} hold`, ...rest.map((verdict) => `${of(verdict)} ${VERDICTS[verdict]}`)];
  const lines = claims.map(({ id, verdict, by }) => `  ${id}: ${verdict} (${by})`);
  return [`Claims of the paper: ${head.join(', ')}.`, ...lines].join('\n');
}

const VERDICTS = { reported: 'without a verdict', waiting: 'waiting', never: 'cannot be shown' };

/** How many claims hold as a whole; those that only report do not count. */
export function heldClaims(claims: readonly NamedClaim[], rows: readonly Row[]): [held: number, of: number] {
  const verdicts = claims
    .map(({ id }) => rows.filter((row) => row.claim === id && row.verdict !== 'reported'))
    .filter((counted) => counted.length > 0)
    .map((counted) => counted.every((row) => row.verdict === 'holds'));
  return [verdicts.filter((held) => held).length, verdicts.length];
}

/** What is not as it was when the profiles were frozen. */
export function driftText(drift: readonly Drift[]): string {
  const show = (value: number | undefined) => (value === undefined ? 'nothing' : digits(value));
  return drift.map(({ line, was, is }) => `${line}: was ${show(was)}, is ${show(is)}`).join('\n');
}
