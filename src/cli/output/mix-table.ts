/** The table of `isoverbs mix`, and the states of its policies. */
import type { AppResult, LatencyUs, MixResult, QueuePairResult } from '../../mix/result.ts';
import { type Cell, type FoldingColumn, foldedTable, outWidth, wrapped } from './table.ts';

/** More applications of one `count` than this become one row, unless there are details. */
const MOST_LISTED = 8;

const RATES = 0;
const LATENCIES = 1;

/** A row for each application, for each queue pair with details, and one for all applications of a large `count`. */
export function mixTable(apps: readonly AppResult[], width?: number): string {
  const details = apps.some(({ queuePairs }) => queuePairs !== undefined);
  const groups = details ? apps.map((app) => [app]) : grouped(apps);
  const rows = groups.flatMap((group) => (group.length > MOST_LISTED ? [summed(group)] : group));
  const cells = rows.flatMap((app) => rowsOf(app, details));
  const table = foldedTable(columnsOf(details), cells, width);
  const sums = groups.filter((group) => group.length > MOST_LISTED);
  if (sums.length === 0) return table;
  const note =
    'A row of several applications has the sums of their rates and counts, the mean of their average latencies, ' +
    'and the highest of each percentile. --details lists each of them.';
  return `${table}\n\n${wrapped(note, width ?? outWidth())}`;
}

/** How the policy classifies each context, and why; tenants with the same state share a line. */
export function policyStateLines({ policyStates = [] }: Pick<MixResult, 'policyStates'>): string[] {
  const tenants = new Map<string, string[]>();
  for (const { device, tenant, kind, because, does, why } of policyStates) {
    const state = `on ${device}: ${kind} (${because}); ${does} (${why})`;
    tenants.set(state, [...(tenants.get(state) ?? []), tenant]);
  }
  return [...tenants].map(([state, names]) => `${several(names)} ${state}`);
}

function several(names: readonly string[]): string {
  if (names.length <= 3) return names.join(', ');
  return `${names[0]}, ${names[1]} ... ${names.at(-1)} (${names.length} tenants)`;
}

function columnsOf(details: boolean): FoldingColumn[] {
  const percentiles = details ? ['p50', 'p80', 'p99', 'p99.9'] : ['p50', 'p99', 'p99.9'];
  return [
    { head: 'app', part: RATES },
    ...['QPs', 'bytes', 'Gbit/s', 'M/s', 'done', 'errors'].map((head) => ({ head, part: RATES })),
    ...['avg us', ...percentiles, 'max'].map((head) => ({ head, part: LATENCIES })),
  ];
}

function rowsOf(app: AppResult, details: boolean): Cell[][] {
  const { name, qps, messageBytes, queuePairs = [] } = app;
  const bytes = `${Math.round(messageBytes * 10) / 10}`;
  const rows = [[name, `${qps}`, bytes, ...cellsOf(app, details)]];
  if (queuePairs.length < 2) return rows;
  return [...rows, ...queuePairs.map((one, i) => [`${name} #${i}`, '', '', ...cellsOf(one, details)])];
}

function cellsOf(one: QueuePairResult, details: boolean): Cell[] {
  const { latencyUs: us } = one;
  const p80 = details ? [us?.p80] : [];
  return [
    one.throughputGbps.toFixed(2),
    one.messageRateMmps.toFixed(3),
    `${one.completed}`,
    one.errors === 0 ? '0' : { text: `${one.errors}`, style: 'bad' },
    ...[us?.avg, us?.p50, ...p80, us?.p99, us?.p999, us?.max].map((value) => value?.toFixed(2) ?? '-'),
  ];
}

/** Applications of one `count` together: NAME.0, NAME.1 and so on. */
function grouped(apps: readonly AppResult[]): AppResult[][] {
  const groups: AppResult[][] = [];
  for (const app of apps) {
    const group = groups.at(-1);
    const stem = app.name.replace(/\.\d+$/, '');
    const next = group !== undefined && group[0].kind === app.kind && `${stem}.${group.length}` === app.name;
    if (next && group[0].name === `${stem}.0`) group.push(app);
    else groups.push([app]);
  }
  return groups;
}

function summed(group: readonly AppResult[]): AppResult {
  const sum = (value: (app: AppResult) => number) => group.reduce((total, app) => total + value(app), 0);
  const measured = group.flatMap(({ latencyUs }) => (latencyUs === null ? [] : [latencyUs]));
  const highest = (value: (us: LatencyUs) => number) =>
    measured.reduce((most, us) => Math.max(most, value(us)), 0);
  const [first] = group;
  return {
    ...first,
    name: `${first.name}-${group.length - 1}`,
    qps: sum(({ qps }) => qps),
    messageBytes: sum(({ messageBytes }) => messageBytes) / group.length,
    throughputGbps: sum(({ throughputGbps }) => throughputGbps),
    messageRateMmps: sum(({ messageRateMmps }) => messageRateMmps),
    completed: sum(({ completed }) => completed),
    errors: sum(({ errors }) => errors),
    latencyUs:
      measured.length === 0
        ? null
        : {
            avg: measured.reduce((total, { avg }) => total + avg, 0) / measured.length,
            p50: highest(({ p50 }) => p50),
            p99: highest(({ p99 }) => p99),
            p999: highest(({ p999 }) => p999),
            max: highest(({ max }) => max),
          },
  };
}
