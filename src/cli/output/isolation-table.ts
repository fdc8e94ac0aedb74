/** The tables of `isoverbs isolation`. */
import {
  ALPHA,
  countsOf,
  type Isolation,
  type Meeting,
  type SchemeMeetings,
} from '../../compare/isolation/matrix.ts';
import { CLASSES } from '../../compare/isolation/suite.ts';
import { foldedCommand, foldedTable, outWidth, wrapped } from './table.ts';

const NOTHING = '-';
/** How many of the worst pairs are listed. */
const WORST = 5;
/** The most pairs of which a table shows every ratio. */
const MAX_RATIOS = 24;

/** `3 of 60`: violations among the pairs with these attackers. */
function violations(meetings: readonly Meeting[]): string {
  if (meetings.length === 0) return NOTHING;
  const { violated, pairs } = countsOf(meetings);
  return `${violated} of ${pairs}`;
}

const part = (value: number) => (Number.isNaN(value) ? NOTHING : value.toFixed(2));

function rowOf({ scheme, meetings }: SchemeMeetings): string[] {
  const { medianWork, leastOfDue } = countsOf(meetings);
  return [
    scheme,
    ...CLASSES.map((name) => violations(meetings.filter((one) => one.class === name))),
    violations(meetings),
    part(leastOfDue),
    part(medianWork),
  ];
}

const HEADS = ['scheme', 'bandwidth', 'PCIe', 'processing units', 'caches', 'all', 'worst, of due', 'work'];

/** The violations of a scheme, the worst first. */
function worstOf({ meetings }: SchemeMeetings): Meeting[] {
  const ofDue = ({ gotGbps, dueGbps }: Meeting) => gotGbps / dueGbps;
  return meetings.filter(({ isViolation }) => isViolation).sort((a, b) => ofDue(a) - ofDue(b));
}

function lineOf({ attacker, victim, ofAlone, dueGbps, aloneGbps, contention }: Meeting): string {
  const why = contention === null ? 'nothing is scarce' : contention.resource;
  return `${victim} next to ${attacker}: ${part(ofAlone)} of alone, due ${part(dueGbps / aloneGbps)} (${why})`;
}

function notesOf({ fixed, seed, runs, scale }: Isolation): string {
  const { profile, set = {}, duration, warmup } = fixed;
  const changes = Object.entries(set).map(([name, value]) => `, ${name}=${value}`);
  const machine =
    scale === undefined
      ? ''
      : `; an application has at most ${scale.qps} queue pairs, and ${scale.depth} requests outstanding on each (CPUs: ${scale.cpus})`;
  return `${profile}${changes.join('')}, seed ${seed}; ${runs} runs of ${duration}, including ${warmup} of warm-up${machine}`;
}

/** What both applications of each pair get, relative to alone: rates of real devices mean little on other machines. */
function ratioLines({ schemes, scale }: Isolation): string[] {
  const [{ meetings }] = schemes;
  if (scale === undefined || meetings.length > MAX_RATIOS) return [];
  const columns = ['victim and attacker', ...schemes.map(({ scheme }) => scheme)].map((head, i) => ({
    head,
    part: i,
  }));
  const ratios = ({ ofAlone, work }: Meeting) => `${part(ofAlone)} and ${part(work - ofAlone)}`;
  const rows = meetings.map(({ victim, attacker }, at) => [
    `${victim}, ${attacker}`,
    ...schemes.map((one) => ratios(one.meetings[at])),
  ]);
  const legend = 'What the victim and the attacker get, each relative to itself alone without a policy.';
  return ['', foldedTable(columns, rows), wrapped(legend, outWidth())];
}

const LEGEND = [
  `Violations: pairs whose victim gets less than ${ALPHA} of what it is due, by the class of the attacker.`,
  'Due: what it gets alone, or half of the resource that both need if that is less.',
  'Work: what both tenants get, each relative to itself alone, as the median over the pairs.',
];

/** The tables for a terminal. @param all lists every violation, not only the worst */
export function isolationText(result: Isolation, all: boolean): string {
  const width = outWidth();
  // The counts of violations stay together.
  const columns = HEADS.map((head, i) => ({ head, part: i < HEADS.indexOf('worst, of due') ? 0 : 1 }));
  const table = foldedTable(
    columns,
    result.schemes.map((scheme) => rowOf(scheme)),
  );
  const lines = [
    table,
    ...[...LEGEND, notesOf(result)].map((text) => wrapped(text, width)),
    ...ratioLines(result),
  ];
  for (const scheme of result.schemes) {
    const worst = worstOf(scheme);
    if (worst.length === 0) continue;
    const listed = all ? worst : worst.slice(0, WORST);
    lines.push('', `${scheme.scheme}, ${all ? 'every violation' : 'the worst'}:`);
    for (const one of listed)
      lines.push(
        ...wrapped(lineOf(one), width - 4)
          .split('\n')
          .map((line, i) => `${i === 0 ? '  ' : '    '}${line}`),
      );
    lines.push(foldedCommand(worst[0].command, '  '));
  }
  return `${lines.join('\n')}\n`;
}

/** The violations of a scheme by attacker, the most first: `BW-4KB 14 of 63`. */
function byAttacker({ scheme, meetings }: SchemeMeetings): string {
  const familyOf = ({ attacker }: Meeting) => attacker.slice(0, attacker.indexOf('/'));
  const counts = [...new Set(meetings.map(familyOf))]
    .map((name) => ({ name, ...countsOf(meetings.filter((one) => familyOf(one) === name)) }))
    .filter(({ violated }) => violated > 0)
    .sort((a, b) => b.violated / b.pairs - a.violated / a.pairs);
  const parts = counts.map(({ name, violated, pairs }) => `\`${name}\` ${violated} of ${pairs}`);
  return `- ${scheme}: ${parts.join(', ') || 'none'}`;
}

/** The tables for a page, as GitHub-flavoured Markdown. */
export function isolationMarkdown(result: Isolation): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [
    row(HEADS),
    row(HEADS.map((_, i) => (i === 0 ? '---' : '---:'))),
    ...result.schemes.map((scheme) => row(rowOf(scheme))),
    '',
    ...LEGEND,
    `${notesOf(result)}.`,
    '',
    'Violations by attacker:',
    '',
    ...result.schemes.map(byAttacker),
    '',
  ].join('\n');
}
