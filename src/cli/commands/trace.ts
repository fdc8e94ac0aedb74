/** `isoverbs trace`: prints the files of the trace interceptor. */
import type { Command } from 'commander';
import type { TraceRecord } from '../../interceptors/index.ts';
import { COUNTERS, callText } from '../../interceptors/trace/records.ts';
import { treatmentText } from '../../shim/counters.ts';
import { handleIndex } from '../../verbs/handles.ts';
import type { ShimCounters } from '../../verbs/provider.ts';
import { escaped, escapedLines } from '../escape.ts';
import { describe } from '../manual.ts';

interface LayeredRecord extends TraceRecord {
  /** Position in the chain: the interceptors and the provider below. */
  layer: string;
}

interface Source {
  layer: string;
  records: Generator<TraceRecord>;
}

/** Adds `isoverbs trace`. */
export function addTrace(command: Command): void {
  const sub = command
    .command('trace')
    .description('print the files of the trace interceptor, merged by time')
    .argument('<file...>', 'isoverbs-PID-THREAD.trace')
    .option('--json', 'print JSON, one record per line')
    .action(async (files: string[], options: { json?: boolean }) => {
      const { readTrace } = await import('../../interceptors/index.ts');
      const sources = files.map((file): Source => {
        const { header, records } = readTrace(file);
        return { layer: [...header.below, header.provider].join('>'), records: records() };
      });
      if (options.json) printJson(sources);
      else printTable(sources);
    });
  describe(sub, {
    about:
      'Prints the calls, requests and completions that the trace interceptor logged, one per line. ' +
      'Lines of several files, such as those of the threads or processes of one run, are sorted by time.',
    examples: [
      ['ISOVERBS_INTERCEPTORS=trace:file=app.trace node --import isoverbs/register app.js', 'write the file'],
      ['isoverbs trace app.trace', 'print it'],
      ['isoverbs trace app.trace --json', 'print it as JSON, one record per line'],
    ],
    failed: 'a file is missing, is not a trace, or is truncated',
    seeAlso: ['docs/interceptors.md'],
  });
}

/** All records by time. Records of one file keep their order. */
function* merged(sources: Source[]): Generator<LayeredRecord> {
  const heads = sources.map((source) => ({ source, next: source.records.next() }));
  for (;;) {
    let first: (typeof heads)[number] | undefined;
    for (const head of heads) {
      if (head.next.done) continue;
      if (first === undefined || first.next.done || head.next.value.timeNs < first.next.value.timeNs)
        first = head;
    }
    if (first === undefined || first.next.done) return;
    const record = first.next.value;
    first.next = first.source.records.next();
    yield { ...record, layer: first.source.layer };
  }
}

function printJson(sources: Source[]): void {
  for (const record of merged(sources)) {
    if (process.stdout.errored) return;
    process.stdout.write(`${escapedLines(JSON.stringify(record))}\n`);
  }
}

/** Queue pair numbers, by layer and name. */
type QpNums = Map<string, number>;

function noteQpNum({ layer, verb, result }: LayeredRecord, qpNums: QpNums): void {
  if (verb !== 'createQp' || result === undefined) return;
  const { handle, qpNum } = result as { handle: number; qpNum: number };
  qpNums.set(`${layer} qp${handleIndex(handle)}`, qpNum);
}

const COLUMNS: readonly [string, number][] = [
  ['time ns', 14],
  ['verb', 18],
  ['on', 13],
  ['wr_id', 12],
  ['opcode', 19],
  ['flags', 14],
  ['bytes', 10],
  ['sges', 4],
  ['status', 0],
];
const RIGHT = new Set(['time ns', 'bytes']);

function cellsLine(cells: readonly string[]): string {
  return cells
    .map((cell, i) => {
      const [name, width] = COLUMNS[i];
      return RIGHT.has(name) ? cell.padStart(width) : cell.padEnd(width);
    })
    .join('  ')
    .trimEnd();
}

function printTable(sources: Source[]): void {
  // With one file, every line has the same position in the chain.
  const width = sources.length > 1 ? Math.max(...sources.map(({ layer }) => layer.length)) : 0;
  const put = (layer: string, text: string) =>
    process.stdout.write(`${escaped(`${width > 0 ? `${layer.padEnd(width)}  ` : ''}${text}`)}\n`);
  put(width > 0 ? 'above' : '', cellsLine(COLUMNS.map(([name]) => name)));
  const qpNums: QpNums = new Map();
  let closed = 0;
  let startNs = -1;
  for (const record of merged(sources)) {
    if (process.stdout.errored) return;
    if (startNs < 0) startNs = record.timeNs;
    noteQpNum(record, qpNums);
    if (record.verb !== 'end') put(record.layer, cellsLine(cells(record, startNs, qpNums)));
    else {
      closed++;
      if (record.lost) note(`${record.lost} requests and completions were lost`);
    }
  }
  if (closed < sources.length) note('a trace was not closed: its process was killed, or is still running');
}

function note(text: string): void {
  process.stderr.write(`isoverbs: ${text}\n`);
}

/** `qp0:17`: the handle and the number, which identifies the queue pair on the wire. */
function objectName({ layer }: LayeredRecord, object: string, qpNums: QpNums): string {
  const qpNum = qpNums.get(`${layer} ${object}`);
  return qpNum === undefined ? object : `${object}:${qpNum}`;
}

function cells(record: LayeredRecord, startNs: number, qpNums: QpNums): string[] {
  const time = (record.timeNs - startNs).toFixed(0);
  const { verb } = record;
  const object = record.object === undefined ? '' : objectName(record, record.object, qpNums);
  if (record.verb === 'lost') return [time, verb, `${record.lost} requests and completions are missing here`];
  if (record.verb === COUNTERS) {
    const { seen, ...treated } = record.result as ShimCounters;
    return [time, verb, String(record.args?.[0]), `${seen} requests: ${treatmentText(treated)}`];
  }
  if (record.args !== undefined) return [time, verb, object, callText(record)];
  return [
    time,
    verb,
    record.qp === undefined ? object : objectName(record, record.qp, qpNums),
    record.wrId ?? '',
    record.opcode ?? '',
    (record.flags ?? []).map((flag) => flag.slice(0, 3)).join('|'),
    record.bytes === undefined ? '' : String(record.bytes),
    record.sges === undefined ? '' : String(record.sges),
    record.status ?? '',
  ];
}
