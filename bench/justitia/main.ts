/**
 * Measures what justitia costs: a token among 512 tenants with 4,096 queue pairs, a chunk of a long message beyond what
 * the shim takes to cut it, and post and poll of a latency application, over the null device. The last two run each chain
 * in a process of its own, because compiled code depends on what else has run. Slices of all processes alternate. Prints
 * JSON with medians of thread CPU time.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../against-cpp/null-device.ts';
import { cppLoop } from '../against-cpp/null-loops.ts';
import { p50, quantile, rounded } from '../timing.ts';
import { GROUPS, type Work } from './conditions.ts';
import { bareTokens, FLOWS, TENANTS, tokens } from './tokens.ts';

const SLICES = 81;
const WARMUP_SLICES = 20;
/** Units of work in a slice: a few milliseconds. */
const UNITS = 12_800;
const TOKENS_PER_SLICE = 20_480;
const TOKEN_GOAL_NS = 200;
const CHUNK_GOAL_NS = 30;
const LATENCY_GOAL = 1.01;

const cpp = cppLoop();

function cpuNs(work: Work, units: number): number {
  const fromNs = cpp.threadCpuNs();
  work(units);
  return (cpp.threadCpuNs() - fromNs) / units;
}

/** The least of several: the rest is the compiler's. */
function allocatedBytes(work: Work, units: number): number {
  const each = Array.from({ length: 10 }, () => {
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;
    work(units);
    return (process.memoryUsage().heapUsed - before) / units;
  });
  return rounded(Math.max(0, Math.min(...each)));
}

/** What a process answers with: nanoseconds, or bytes. */
type Request = 'ns' | 'bytes';

/** Measures one condition, a slice for each message. */
function serve(group: string, condition: string): void {
  const work = GROUPS[group][condition]();
  process.on('message', (request: Request) => {
    // The pause between two slices has emptied the caches.
    work(UNITS / 4);
    process.send!(request === 'ns' ? cpuNs(work, UNITS) : allocatedBytes(work, UNITS));
  });
}

async function ask(child: ChildProcess, request: Request): Promise<number> {
  child.send(request);
  const [answer] = await once(child, 'message');
  return answer as number;
}

interface Compared {
  readonly ns: number;
  readonly moreNs?: number;
  readonly ratio?: number;
  /** The middle half of the differences. */
  readonly moreNsRange?: readonly number[];
  readonly bytes: number;
}

/** Compares each condition with the first one. */
async function compareAll(group: string): Promise<Record<string, Compared>> {
  const names = Object.keys(GROUPS[group]);
  const script = fileURLToPath(import.meta.url);
  const children = names.map((name) => fork(script, [group, name], { execArgv: ['--expose-gc'] }));
  const slices: number[][] = [];
  for (let i = 0; i < WARMUP_SLICES + SLICES; i++) {
    const slice: number[] = [];
    for (const child of children) slice.push(await ask(child, 'ns'));
    if (i >= WARMUP_SLICES) slices.push(slice);
  }
  const bytes: number[] = [];
  for (const child of children) bytes.push(await ask(child, 'bytes'));
  for (const child of children) child.kill();
  return Object.fromEntries(names.map((name, i) => [name, compared(slices, i, bytes[i])]));
}

function compared(slices: readonly number[][], i: number, bytes: number): Compared {
  const ns = rounded(p50(slices.map((slice) => slice[i])));
  if (i === 0) return { ns, bytes };
  const more = slices.map((slice) => slice[i] - slice[0]);
  return {
    ns,
    moreNs: rounded(p50(more)),
    moreNsRange: [rounded(quantile(more, 0.25)), rounded(quantile(more, 0.75))],
    ratio: rounded(p50(slices.map((slice) => slice[i] / slice[0]))),
    bytes,
  };
}

function tokenCosts() {
  const works = {
    bare: bareTokens(),
    equal: tokens(() => 1),
    weighted: tokens((tenant) => 1 + (tenant % 7)),
  };
  const slices = Array.from({ length: WARMUP_SLICES + SLICES }, () =>
    Object.values(works).map((work) => cpuNs(work, TOKENS_PER_SLICE)),
  ).slice(WARMUP_SLICES);
  return Object.fromEntries(
    Object.entries(works).map(([name, work], i) => [
      name,
      compared(slices, i, allocatedBytes(work, TOKENS_PER_SLICE)),
    ]),
  );
}

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const [group, condition] = process.argv.slice(2);
  if (condition !== undefined) {
    serve(group, condition);
    return;
  }
  const token = tokenCosts();
  const groups: Record<string, Record<string, Compared>> = {};
  for (const name of Object.keys(GROUPS)) groups[name] = await compareAll(name);
  const result = {
    benchmark: 'justitia',
    node: process.version,
    tenants: TENANTS,
    queuePairs: FLOWS,
    slices: SLICES,
    goals: { tokenNs: TOKEN_GOAL_NS, chunkMoreNs: CHUNK_GOAL_NS, latencyRatio: LATENCY_GOAL, bytes: 0 },
    token,
    ...groups,
  };
  console.log(JSON.stringify(result, null, 2));
}

void main();
