/** The table of `isoverbs compare --evade`. */
import Table from 'cli-table3';
import { type Evasion, type Evasions, LIMITS } from '../../compare/evade.ts';

const NOTHING = '-';

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
  const heads = headsOf(result, '');
  const out = new Table({
    head: heads,
    style: { head: [], border: [] },
    colAligns: heads.map((_, i) => (i < 2 ? 'left' : 'right')),
  });
  const mark: Mark = (text, isBeyond) => `${text}${isBeyond ? '!' : ' '}`;
  for (const { policy, lines } of linesOf(result, onlyViolations, mark)) {
    if (lines.length === 0) continue;
    out.push([policy, ...lines[0].map((_, column) => lines.map((line) => line[column]).join('\n'))]);
  }
  const lines = [
    out.toString(),
    'gain: what the tenant gets, relative to the larger of its share and what it gets when it is honest;',
    'B, M, D: what its trick costs other tenants, relative to the honest tenant: bandwidth of B, message',
    'rate of M, additional average latency of D;',
    `!: a violation: a gain of more than ${percent(LIMITS.gain)}, or harm of more than ${percent(LIMITS.harm)}`,
    '',
    `Violations: ${countsOf(result).join(', ')}`,
    ...notesOf(result),
  ];
  return `${lines.join('\n')}\n`;
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
