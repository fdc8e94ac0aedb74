/** The table of `isoverbs compare --evade`. */
import Table from 'cli-table3';
import { type Evasion, type Evasions, LIMITS } from '../../compare/evade.ts';
import { outWidth, widestLine, withFittingPolicies, wrapped } from './table.ts';

const NOTHING = '-';
/** The least width of the names of tricks, in characters. */
const LEAST_TRICK_WIDTH = 16;

/** Percent as a whole number; what starves has no limit. */
function percent(part: number): string {
  if (Number.isNaN(part)) return NOTHING;
  if (part === Number.POSITIVE_INFINITY) return 'starved';
  const rounded = Math.round(100 * part);
  return `${rounded === 0 ? 0 : rounded} %`.replace('-', '−');
}

/** A value, marked if it is beyond its limit. */
type Mark = (text: string, isBeyond: boolean) => string;

function cellsOf({ trick, gain, harms }: Evasion, mark: Mark): string[] {
  return [
    trick,
    mark(percent(gain), gain > LIMITS.gain),
    ...harms.map(({ harm }) => mark(percent(harm), harm > LIMITS.harm)),
  ];
}

/** @param harmTo precedes the names of the other tenants */
function headsOf({ policies }: Evasions, harmTo: string): string[] {
  const harms = policies.flatMap(({ evasions }) => evasions)[0]?.harms ?? [];
  return ['policy', 'the tenant', 'gain', ...harms.map(({ tenant }) => `${harmTo}${tenant}`)];
}

/** The lines of each policy. @param onlyViolations leaves out the others */
function linesOf({ policies }: Evasions, onlyViolations: boolean, mark: Mark) {
  return policies.map(({ policy, evasions }) => ({
    policy,
    lines: evasions
      .filter(({ isViolation }) => isViolation || !onlyViolations)
      .map((one) => cellsOf(one, mark)),
  }));
}

/** How many tricks are violations under each policy. */
function countsOf({ policies }: Evasions): string[] {
  return policies.map(({ policy, evasions }) => {
    const violations = evasions.filter(({ isViolation }) => isViolation).length;
    return `${policy}: ${violations} of ${evasions.length}`;
  });
}

function notesOf({ fixed, seeds, runs }: Evasions): string[] {
  const { profile, set = {}, duration, warmup } = fixed;
  const changes = Object.entries(set).map(([name, value]) => `, ${name}=${value}`);
  const many = seeds.length > 1 ? `mean of seeds ${seeds.join(', ')}` : `seed ${seeds[0]}`;
  return [
    `${profile}${changes.join('')}, ${many}; ${runs} runs of ${duration}, including ${warmup} of warm-up`,
  ];
}

/** The table for a terminal. */
export function evadeText(result: Evasions, onlyViolations: boolean): string {
  const gain = `gain of more than ${percent(LIMITS.gain)}`;
  const notes = [
    'gain: what the tenant gets, relative to the larger of its share and what it gets when it is honest;',
    'B, M, D: what its trick costs other tenants, relative to the honest tenant: bandwidth of B, message rate of M, ' +
      'additional average latency of D;',
    `!: a violation: a ${gain}, or harm of more than ${percent(LIMITS.harm)}`,
    '',
    `Violations: ${countsOf(result).join(', ')}`,
    ...notesOf(result),
  ];
  const draw = (trickWidth: number) =>
    withFittingPolicies((policyOf) => tableText(result, onlyViolations, policyOf, trickWidth));
  const whole = draw(Number.POSITIVE_INFINITY);
  const excess = widestLine(whole) - outWidth();
  const longest = Math.max(
    ...result.policies.flatMap(({ evasions }) => evasions.map(({ trick }) => trick.length)),
  );
  const table = excess > 0 ? draw(Math.max(LEAST_TRICK_WIDTH, longest - excess)) : whole;
  return `${[table, ...notes.map((note) => wrapped(note, outWidth()))].join('\n')}\n`;
}

function tableText(
  result: Evasions,
  onlyViolations: boolean,
  policyOf: (policy: string) => string,
  trickWidth: number,
): string {
  const heads = headsOf(result, '');
  const out = new Table({
    head: heads,
    style: { head: [], border: [] },
    colAligns: heads.map((_, i) => (i < 2 ? 'left' : 'right')),
  });
  const mark: Mark = (text, isBeyond) => `${text}${isBeyond ? '!' : ' '}`;
  for (const { policy, lines } of linesOf(result, onlyViolations, mark)) {
    if (lines.length === 0) continue;
    const folded = lines.map(([trick, ...values]) => {
      const text = wrapped(trick, trickWidth);
      const rest = '\n'.repeat(text.split('\n').length - 1);
      return [text, ...values.map((value) => `${value}${rest}`)];
    });
    out.push([
      policyOf(policy),
      ...folded[0].map((_, column) => folded.map((line) => line[column]).join('\n')),
    ]);
  }
  return out.toString();
}

/** The table for a page, as GitHub-flavoured Markdown. */
export function evadeMarkdown(result: Evasions, onlyViolations: boolean): string {
  const heads = headsOf(result, 'harm to ');
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const mark: Mark = (text, isBeyond) => (isBeyond ? `**${text}**` : text);
  return [
    row(heads),
    row(heads.map((_, i) => (i < 2 ? '---' : '---:'))),
    ...linesOf(result, onlyViolations, mark).flatMap(({ policy, lines }) =>
      lines.map((cells) => row([policy, ...cells])),
    ),
    '',
    `Violations are bold. Tricks with a violation: ${countsOf(result).join(', ')}.`,
    `${notesOf(result).join('')}.`,
    '',
  ].join('\n');
}
