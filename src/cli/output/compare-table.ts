/** The table of `isoverbs compare`. */
import Table from 'cli-table3';
import { bestOf, type ComparedApp, type Comparison, type Metric, ofAlone } from '../../compare/compare.ts';
import { DEFAULTS } from '../../mix/spec.ts';
import { outWidth, wrapped } from './table.ts';

interface Column {
  readonly app: number;
  readonly metric: Metric;
  readonly head: string;
}

const HEADS: Readonly<Record<Metric, string>> = {
  throughputGbps: 'Gbit/s',
  messageRateMmps: 'M/s',
  avgUs: 'avg us',
  p99Us: 'p99',
};

const NOTHING = '-';

/** Messages have a fixed size, so one rate is enough. */
const metricsOf = ({ kind }: ComparedApp): readonly Metric[] => [
  kind === 'B' ? 'throughputGbps' : 'messageRateMmps',
  'avgUs',
  'p99Us',
];

function columnsOf(apps: readonly ComparedApp[]): Column[] {
  return apps.flatMap((app, i) => metricsOf(app).map((metric) => ({ app: i, metric, head: HEADS[metric] })));
}

/** Formats a number with at most this many digits, at most three of them after the decimal point. */
export function brief(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return NOTHING;
  if (value === 0) return '0';
  const before = Math.max(1, Math.floor(Math.log10(value)) + 1);
  return value.toFixed(Math.min(3, Math.max(0, digits - before)));
}

function times(value: number): string {
  if (!Number.isFinite(value)) return NOTHING;
  return `${value >= 10 ? value.toFixed(1) : value.toFixed(2)}x`;
}

interface Cell {
  readonly value: string;
  /** A value relative to what the application gets alone. */
  readonly factor: string;
  readonly isBest: boolean;
}

/** Cells by row, then by column. */
function cellsOf(result: Comparison, columns: readonly Column[]): Cell[][] {
  const best = columns.map(
    ({ app, metric }) => new Set(bestOf(result, app, metric, (value) => brief(value))),
  );
  return result.rows.map((row, r) =>
    columns.map(({ app, metric }, c) => ({
      value: brief(row.apps[app][metric]),
      factor: row.group === 'alone' ? '' : times(ofAlone(result, r, app, metric)),
      isBest: best[c].has(r),
    })),
  );
}

const READING = [
  'Below each value: the same value relative to the application alone',
  '(1.00x is the full rate, or no additional latency)',
] as const;

/** Explains the rows, and describes the runs. */
function notes({ mix, seeds, rows, apps }: Comparison): string[] {
  const width = Math.max(...rows.map(({ name }) => name.length));
  const set = Object.entries(mix.set ?? {}).map(([name, value]) => `, ${name}=${value}`);
  const hosts = mix.hosts === DEFAULTS.hosts ? '' : `, ${mix.hosts} hosts`;
  const many = seeds.length > 1 ? `mean of seeds ${seeds.join(', ')}` : `seed ${seeds[0]}`;
  return [
    ...rows.map(({ name, says }) => `${name.padEnd(width)}  ${says}`),
    ...apps.map(({ name, words }) => `${name.padEnd(width)}  ${words}`),
    `${mix.profile}${set.join('')}${hosts}, ${many}; ${mix.duration} of virtual time, including ${mix.warmup} of warm-up`,
  ];
}

/** The applications in tables that fit the terminal, most often three of them in each. */
function tablesFor(result: Comparison, width: number): string[] {
  const tables: string[] = [];
  for (let from = 0; from < result.apps.length; ) {
    let table = tableOf(result, from, from + 1);
    let to = from + 1;
    for (; to < result.apps.length; to++) {
      const wider = tableOf(result, from, to + 1);
      if (wider.indexOf('\n') > width) break;
      table = wider;
    }
    tables.push(table);
    from = to;
  }
  return tables;
}

/** The table of the applications from one to before another. */
function tableOf(result: Comparison, from: number, to: number): string {
  const columns = columnsOf(result.apps).filter(({ app }) => app >= from && app < to);
  const out = new Table({
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
    chars: { middle: ' ' },
    colAligns: ['left', ...columns.map(() => 'right' as const)],
  });
  out.push([
    '',
    ...result.apps.slice(from, to).map((app) => ({
      content: app.name,
      colSpan: metricsOf(app).length,
      hAlign: 'center' as const,
    })),
  ]);
  out.push(['', ...columns.map(({ head }) => head)]);
  for (const [r, cells] of cellsOf(result, columns).entries()) {
    const lines = cells.map(
      ({ value, factor, isBest }) => `${value}${isBest ? '*' : ' '}${factor && `\n${factor} `}`,
    );
    out.push([result.rows[r].name, ...lines]);
  }
  return out.toString();
}

/** Wraps a line at the width of the terminal. Text that follows a name stays in a column next to it. */
function hanging(line: string): string {
  const [name] = /^\S+ {2,}/.exec(line) ?? [''];
  const indent = ' '.repeat(name.length);
  return name + wrapped(line.slice(name.length), outWidth() - name.length).replaceAll('\n', `\n${indent}`);
}

/** The tables for a terminal. */
export function compareText(result: Comparison, wallMs: number): string {
  const lines = [
    ...tablesFor(result, outWidth()),
    `${READING.join('\n')}; * is the best of its column.`,
    '',
    ...notes(result).map(hanging),
    `${result.runs} runs in ${(wallMs / 1000).toFixed(1)} s`,
  ];
  return `${lines.join('\n')}\n`;
}

/** The table for a page, as GitHub-flavoured Markdown. */
export function compareMarkdown(result: Comparison): string {
  const columns = columnsOf(result.apps);
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const heads = columns.map(
    ({ app, head }) => `${result.apps[app].name}: ${head === HEADS.p99Us ? 'p99 us' : head}`,
  );
  const body = cellsOf(result, columns).map((cells, r) =>
    row([
      result.rows[r].name,
      ...cells.map(({ value, factor, isBest }) => {
        const marked = isBest ? `**${value}**` : value;
        return factor === '' || factor === NOTHING ? marked : `${marked} (${factor})`;
      }),
    ]),
  );
  const [ran, ...said] = notes(result).reverse();
  const list = said.reverse().map((line) => `- ${line.replace(/ {2,}/, ': ')}`);
  return [
    row(['', ...heads]),
    row(['---', ...heads.map(() => '---:')]),
    ...body,
    '',
    `In brackets: ${READING.join(' ').replace('Below each value: ', '')}; the best of each column is bold. ${ran}.`,
    '',
    ...list,
    '',
  ].join('\n');
}
