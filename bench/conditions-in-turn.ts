/**
 * Compares conditions, each in a process of its own, because compiled code depends on what else has run. Slices of all
 * processes alternate, so that a slow moment of the machine affects all alike. A benchmark that uses this is started again
 * with the names of a group and a condition as its arguments.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { cppLoop } from './against-cpp/null-loops.ts';
import { p50, quantile, rounded } from './timing.ts';

/** A loop, which does this many units of work. */
export type Work = (units: number) => void;

/** The conditions by group. The first of each is what the others are compared with. */
export type Groups = Readonly<Record<string, Readonly<Record<string, () => Work>>>>;

/** Measured slices of each condition; more of them warm it up. */
export const SLICES = 81;
export const WARMUP_SLICES = 20;

const cpp = cppLoop();

/** CPU time of this thread for a unit of work, in nanoseconds. */
export function cpuNs(work: Work, units: number): number {
  const fromNs = cpp.threadCpuNs();
  work(units);
  return (cpp.threadCpuNs() - fromNs) / units;
}

/** Bytes allocated for a unit of work: the least of several, because the rest is the compiler's. */
export function allocatedBytes(work: Work, units: number): number {
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

/** Measures one condition, a slice of so many units for each message. */
function serve(work: Work, units: number): void {
  process.on('message', (request: Request) => {
    // The pause between two slices has emptied the caches.
    work(units / 4);
    process.send!(request === 'ns' ? cpuNs(work, units) : allocatedBytes(work, units));
  });
}

async function ask(child: ChildProcess, request: Request): Promise<number> {
  child.send(request);
  const [answer] = await once(child, 'message');
  return answer as number;
}

export interface Compared {
  readonly ns: number;
  readonly moreNs?: number;
  readonly ratio?: number;
  /** The middle half of the differences. */
  readonly moreNsRange?: readonly number[];
  readonly bytes: number;
}

/**
 * Compares the conditions of all groups. In a process that was started for one condition, it measures that one instead,
 * and returns null.
 * @param script the path of the benchmark
 * @param units of a slice
 */
export async function compareGroups(
  script: string,
  groups: Groups,
  units: number,
): Promise<Record<string, Record<string, Compared>> | null> {
  const [group, condition] = process.argv.slice(2);
  if (condition !== undefined) {
    serve(groups[group][condition](), units);
    return null;
  }
  const costs: Record<string, Record<string, Compared>> = {};
  for (const [name, conditions] of Object.entries(groups))
    costs[name] = await compareAll(script, name, Object.keys(conditions));
  return costs;
}

/** Compares each condition of a group with the first one. @param script the path of the benchmark */
async function compareAll(
  script: string,
  group: string,
  names: readonly string[],
): Promise<Record<string, Compared>> {
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

/** Compares condition `i` of each slice with the first one. */
export function compared(slices: readonly number[][], i: number, bytes: number): Compared {
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
