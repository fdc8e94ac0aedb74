/** The table of `isoverbs reproduce`. */
import Table from 'cli-table3';
import { type Claim, FORMS, type Form } from './claim.ts';
import type { Row, Verdict } from './evaluate-claim.ts';
import { short } from './expect.ts';
import type { Drift } from './frozen.ts';
import { countsFor, type NotShown, type Paper } from './paper.ts';
import { idsAbout, PAPERS, PARTS } from './papers.ts';

const digits = (value: number) => (Number.isFinite(value) ? short(value) : '-');

/** What a row measures, of which of several checks, and in which form. */
export function whatOf({ what, at, form }: Pick<Row, 'what' | 'at' | 'form'>): string {
  return [what, at !== undefined && ` (${at})`, form !== undefined && `, ${form}`].filter(Boolean).join('');
}

/** The cells of a row: what it measures, expected, tolerance, measured, all seeds, verdict. */
export function cells(row: Row): string[] {
  const unit = row.unit === '' ? '' : ` ${row.unit}`;
  return [
    `  ${whatOf(row)}`,
    `${row.expected}${unit}`,
    row.tolerance,
    `${digits(row.measured)}${unit}`,
    row.lowest === row.highest ? '' : `${digits(row.lowest)} to ${digits(row.highest)}`,
    row.verdict,
  ];
}

/** The source of a claim, with the ids of the paper claims that it shows. */
export function sourceText({ source, shows }: Pick<Claim, 'source' | 'shows'>): string {
  return shows.length === 0 ? source : `${source} (${shows.join(', ')})`;
}

/** Each row shows the worst of its checks and seeds. */
export function tableOf(claims: readonly Claim[], rows: readonly Row[]): string {
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
    table.push([{ colSpan: head.length, content: `${claim.id}: ${claim.title}. ${sourceText(claim)}` }]);
    for (const row of rows.filter((one) => one.claim === claim.id)) {
      table.push(cells(row));
      const remarks = [row.deviation && `deviation: ${row.deviation}`, row.problem].filter(Boolean);
      for (const remark of remarks) table.push([{ colSpan: head.length, content: `  ${remark}` }]);
    }
    if (claim.note !== undefined) table.push([{ colSpan: head.length, content: `  (${claim.note})` }]);
  }
  return table.toString();
}

/** Paper claims and figures that are not shown, with the reasons. */
export function notShownText(list: readonly NotShown[]): string {
  const lines = list.map(({ ids, title, why, reason }) => {
    const head = why === 'waiting' ? 'waiting' : 'cannot be shown';
    return `${head}: ${title} (${ids.join(', ')}): ${reason}`;
  });
  return lines.join('\n');
}

/** A table of verdicts for each paper, followed by how many of its claims hold. */
export function paperText(claims: readonly PaperClaim[]): string {
  const papers = [...new Set(claims.map(({ paper }) => paper))];
  const of = (paper: string) => claims.filter((claim) => claim.paper === paper);
  const sentences = papers.map((paper) => paperSentence(paper, of(paper)));
  if (papers.length > 1) sentences.push(paperSentence('all papers', claims));
  return [...papers.map((paper) => paperTable(paper, of(paper))), ...sentences].join('\n');
}

function paperTable(paper: string, claims: readonly PaperClaim[]): string {
  const table = new Table({
    head: [`what ${paper} says`, 'verdict', 'shown by these claims, or why not'],
    style: { head: [], border: [], compact: true },
    wordWrap: true,
    colWidths: [34, 34, 86],
  });
  for (const claim of claims) table.push([`  ${claim.id}`, verdictText(claim), claim.by]);
  return table.toString();
}

/** The verdict, with the number of lines that it rests on and the number of lines that are only reported. */
export function verdictText({ verdict, lines }: PaperClaim): string {
  if (verdict === 'never') return 'cannot be shown';
  if (verdict !== 'holds' && verdict !== 'fails') return verdict;
  const judged = lines.holds + lines.fails;
  const counted = verdict === 'fails' ? `${lines.fails} of ${judged} lines` : `${judged} lines`;
  const more = lines.reported > 0 ? `, ${lines.reported} reported` : '';
  return `${verdict} (${judged === 1 ? '1 line' : counted}${more})`;
}

/** How many claims hold, and the verdicts of the others. */
export function paperSentence(paper: string, claims: readonly PaperClaim[]): string {
  const of = (verdict: PaperClaim['verdict']) => claims.filter((claim) => claim.verdict === verdict);
  const count = (verdict: PaperClaim['verdict']) => of(verdict).length;
  const others = (['fails', 'missing'] as const)
    .filter((verdict) => count(verdict) > 0)
    .map((verdict) => {
      const ids = of(verdict).map(({ id }) => id);
      const word = verdict === 'fails' && ids.length > 1 ? 'fail' : verdict;
      return ` ${ids.length} ${word}: ${ids.join(', ')}.`;
    });
  return (
    `${count('holds')} of ${claims.length} claims of ${paper} hold; ${count('reported')} reported; ` +
    `${count('waiting')} waiting; ${count('never')} cannot be shown.${others.join('')}`
  );
}

/** How many claims hold in every line. Claims that only report do not count. */
export function heldClaims(claims: readonly Claim[], rows: readonly Row[]): [held: number, of: number] {
  const verdicts = claims
    .map(({ system, id }) =>
      rows.filter((row) => row.system === system && row.claim === id && row.verdict !== 'reported'),
    )
    .filter((counted) => counted.length > 0)
    .map((counted) => counted.every((row) => row.verdict === 'holds'));
  return [verdicts.filter((held) => held).length, verdicts.length];
}

/** How many lines and claims hold in one form of a system. */
export interface HeldInForm {
  readonly system: string;
  readonly form: Form;
  /** Lines that hold, and lines with a verdict. */
  readonly lines: readonly [held: number, of: number];
  /** The same of claims, which hold if all their lines in this form hold. */
  readonly claims: readonly [held: number, of: number];
}

/** For each form of each system that has forms. */
export function heldInForms(claims: readonly Claim[], rows: readonly Row[]): HeldInForm[] {
  const systems = [...new Set(claims.map(({ system }) => system))];
  return systems.flatMap((system) =>
    FORMS.flatMap((form) => {
      const own = rows.filter((row) => row.system === system && row.form === form);
      const judged = own.filter(({ verdict }) => verdict !== 'reported');
      if (judged.length === 0) return [];
      const held = judged.filter(({ verdict }) => verdict === 'holds').length;
      return [{ system, form, lines: [held, judged.length] as const, claims: heldClaims(claims, own) }];
    }),
  );
}

/** One sentence for each form. */
export function formSentences(forms: readonly HeldInForm[]): string[] {
  return forms.map(({ system, form, lines, claims }) => {
    const percent = Math.round((100 * lines[0]) / lines[1]);
    return `${system}, ${form}: ${lines[0]} of ${lines[1]} lines hold (${percent} %), and all lines of ${claims[0]} of ${claims[1]} claims.`;
  });
}

/** Lines that have changed since the profiles were frozen. */
export function driftText(drift: readonly Drift[]): string {
  const show = (value: number | undefined) => (value === undefined ? 'nothing' : digits(value));
  return drift.map(({ line, was, is }) => `${line}: was ${show(was)}, is ${show(is)}`).join('\n');
}

export interface PaperClaim {
  /** Name of the paper. */
  paper: string;
  id: string;
  /** `missing`: no claim shows it, and no reason is given. */
  verdict: Verdict | NotShown['why'] | 'missing';
  /** Lines of the claims that show it, by verdict. */
  lines: Readonly<Record<Verdict, number>>;
  /** The claims that show the paper claim, or the reason why none does. */
  by: string;
}

/** A paper claim holds when every line of every claim that shows it holds; reported lines do not count. */
function paperClaim(paper: Paper, id: string, claims: readonly Claim[], rows: readonly Row[]): PaperClaim {
  const showing = claims.filter((claim) => claim.shows.includes(id));
  const its = rows.filter(
    (row) =>
      countsFor(paper, row) && showing.some((one) => one.id === row.claim && one.system === row.system),
  );
  const count = (verdict: Verdict) => its.filter((row) => row.verdict === verdict).length;
  const lines = { holds: count('holds'), fails: count('fails'), reported: count('reported') };
  const known = paper.notShown.find(({ ids }) => ids.includes(id));
  const shown = (['fails', 'holds', 'reported'] as const).find((verdict) => lines[verdict] > 0);
  const by = showing.length > 0 ? showing.map((claim) => claim.id).join(', ') : (known?.reason ?? '');
  return { paper: paper.name, id, verdict: shown ?? known?.why ?? 'missing', lines, by };
}

/** Verdicts on all claims of papers about these systems, paper by paper. */
export function paperClaims(
  systems: readonly string[],
  claims: readonly Claim[],
  rows: readonly Row[],
): PaperClaim[] {
  return PAPERS.flatMap((paper) => {
    const ids = new Set(systems.flatMap((system) => idsAbout(paper, system)));
    return [...ids].map((id) => paperClaim(paper, id, claims, rows));
  });
}
