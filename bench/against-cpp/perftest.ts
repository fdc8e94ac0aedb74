/**
 * Compares `isoverbs bench` with the C perftest on the same two devices, in alternation: both ends isoverbs, both ends
 * C, and for some tests an isoverbs client with a C server. Each end is a separate process. Prints JSON.
 *
 * Bandwidth tests run for a fixed time with unmeasured margins, in which memory, caches and Node.js's compiler warm up.
 * Latency tests run for a fixed number of iterations, and their medians are compared.
 * RXE_DEV, RXE_DEV2: the devices. ISOVERBS_ROUNDS: rounds (5). ISOVERBS_CASES: a selection such as
 * 'write_bw:2 read_lat:2'. ISOVERBS_SECONDS (10), ISOVERBS_ITERS (30000): length of a run.
 */

import { COMMAND } from '../root.ts';
import { p50 } from '../timing.ts';
import { type Outcome, runProgram, untilListening } from './run-program.ts';

const [CLIENT_DEVICE, SERVER_DEVICE] = [process.env.RXE_DEV ?? 'rxe0', process.env.RXE_DEV2 ?? 'rxe1'];
const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 5);
const SECONDS = Number(process.env.ISOVERBS_SECONDS ?? 10);
const MARGIN_SECONDS = Math.floor(SECONDS / 3);
const BANDWIDTH_FLAGS = ['-D', `${SECONDS}`, '-f', `${MARGIN_SECONDS}`];
const LATENCY_FLAGS = ['-n', process.env.ISOVERBS_ITERS ?? '30000'];
const TIMEOUT_MS = 300_000;

/** The program at one end. */
type Implementation = 'isoverbs' | 'c';
/** The programs at both ends. */
type Pair = readonly [client: Implementation, server: Implementation];

interface Case {
  test: string;
  sizeBytes: number;
  /** Required ratio of isoverbs to C at both ends: a minimum for bandwidth, a maximum for latency. */
  goal?: number;
}

const CASES: readonly Case[] = [
  { test: 'write_bw', sizeBytes: 65536, goal: 0.97 },
  { test: 'write_bw', sizeBytes: 2, goal: 0.9 },
  { test: 'write_lat', sizeBytes: 2, goal: 1.15 },
  { test: 'send_bw', sizeBytes: 65536 },
  { test: 'send_bw', sizeBytes: 2 },
  { test: 'send_lat', sizeBytes: 2 },
  { test: 'read_bw', sizeBytes: 65536 },
  { test: 'read_lat', sizeBytes: 2 },
];

const THEIRS: Pair = ['c', 'c'];
const OURS: Pair = ['isoverbs', 'isoverbs'];
const MIXED: Pair = ['isoverbs', 'c'];

const isLatency = ({ test }: Case) => test.endsWith('_lat');
/** Columns of a row: BW average, MsgRate, t_typical. */
const [AVERAGE, RATE, TYPICAL] = [3, 4, 4];

let port = 18700;

/** Runs one test. Returns the client's result in MiB/s, messages per second (small sizes), or microseconds. */
async function measure(one: Case, [client, server]: Pair): Promise<number> {
  const { test, sizeBytes } = one;
  const flags = isLatency(one) ? LATENCY_FLAGS : BANDWIDTH_FLAGS;
  const common = ['-F', '-s', `${sizeBytes}`, '-p', `${++port}`, ...flags];
  const serving = startEnd(server, test, ['-d', SERVER_DEVICE, ...common]);
  await Promise.race([untilListening(port), serving]);
  const outcome = await startEnd(client, test, ['-d', CLIENT_DEVICE, ...common, '127.0.0.1']);
  const row = rowOf(outcome, sizeBytes);
  await serving;
  if (isLatency(one)) return row[TYPICAL];
  return isRate(one) ? row[RATE] * 1e6 : row[AVERAGE];
}

function startEnd(maker: Implementation, test: string, flags: string[]): Promise<Outcome> {
  const [program, ...first] = maker === 'c' ? [`ib_${test}`] : [process.execPath, COMMAND, 'bench', test];
  return runProgram(program, [...first, ...flags], TIMEOUT_MS);
}

function rowOf({ failed, output }: Outcome, sizeBytes: number): number[] {
  const row = output.split('\n').find((line) => new RegExp(`^ ${sizeBytes}\\s+\\d`).test(line));
  if (failed || row === undefined) throw new Error(`the client failed:\n${output}`);
  return row.trim().split(/\s+/).map(Number);
}

/** Whether messages are so small that the message rate is compared instead of the bandwidth. */
const isRate = (one: Case) => !isLatency(one) && one.sizeBytes < 1024;

const unitOf = (one: Case) => (isLatency(one) ? 'us' : isRate(one) ? 'messages/s' : 'MiB/s');

async function compare(one: Case): Promise<object> {
  const pairs = one.goal === undefined ? [THEIRS, OURS] : [THEIRS, OURS, MIXED];
  const runs = pairs.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, pair] of pairs.entries()) {
      runs[i].push(await measure(one, pair));
      console.error(`${one.test} ${one.sizeBytes} B, ${pair.join(' to ')}: ${runs[i][round]} ${unitOf(one)}`);
    }
  }
  const summary = pairs.map((pair, i) => ({
    pair: pair.join(' to '),
    ...summaryOf(one, runs[i], runs[0]),
    runs: runs[i],
  }));
  const { goal } = one;
  const { ratio } = summary[1];
  const met = goal === undefined ? {} : { met: isLatency(one) ? ratio <= goal : ratio >= goal };
  return { ...one, ...met, unit: unitOf(one), pairs: summary };
}

/** The median, and the best run, because other load on the machine only makes runs worse. */
function summaryOf(one: Case, runs: number[], theirs: number[]) {
  const best = (values: number[]) => (isLatency(one) ? Math.min(...values) : Math.max(...values));
  return {
    median: p50(runs),
    ratio: p50(runs) / p50(theirs),
    best: best(runs),
    bestRatio: best(runs) / best(theirs),
  };
}

function chosen(): readonly Case[] {
  const names = process.env.ISOVERBS_CASES?.split(' ');
  return CASES.filter(({ test, sizeBytes }) => names?.includes(`${test}:${sizeBytes}`) ?? true);
}

async function main(): Promise<void> {
  const results = [];
  for (const one of chosen()) results.push(await compare(one));
  const devices = [CLIENT_DEVICE, SERVER_DEVICE];
  console.log(JSON.stringify({ benchmark: 'perftest', devices, rounds: ROUNDS, results }, null, 2));
}

await main();
