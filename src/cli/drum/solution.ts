/** The result of `isoverbs drum solve`, by the names in the file. */
import type { Solution, TraceEntry } from '../../policies/drum/solver/solve.ts';
import { tableText } from '../output/table.ts';
import type { Place, ProblemFile } from './problem-file.ts';
import { solveInThreads } from './threads.ts';

/** Rates of one application on one host, in the unit of the file. */
export interface Rates extends Place {
  readonly requests: number;
  /** Completions that its requests cause on its own host. */
  readonly completions: number;
}

/** What the command prints. */
export interface Allocation extends Pick<Solution, 'utility' | 'iterations' | 'converged'> {
  readonly allocation: readonly Rates[];
  /** Of each iteration: both residuals, and the utility of the rates that hosts would enforce then. */
  readonly trace: readonly TraceEntry[];
}

/** @throws ProblemError for problems without a solution */
export async function allocate(
  { problem, options, places }: ProblemFile,
  threads: number,
): Promise<Allocation> {
  const { rates, ...rest } = await solveInThreads(problem, options, threads);
  const allocation = places.map((place, v) => ({
    ...place,
    requests: rates[v],
    completions: problem.completions[v] * rates[v],
  }));
  return { ...rest, allocation };
}

const HEAD = ['host', 'application', 'weight', 'requests', 'completions'];
const shown = (value: number) => `${Number(value.toPrecision(6))}`;

/** The table of rates, and how the iteration ended. */
export function asText({ allocation, utility, iterations, converged, trace }: Allocation): string {
  const rows = allocation.map(({ host, application, weight, requests, completions }) => [
    host,
    application,
    ...[weight, requests, completions].map(shown),
  ]);
  const { primal = 0, dual = 0 } = trace.at(-1) ?? {};
  const how = converged
    ? `converged after ${iterations} iterations`
    : `not converged after ${iterations} iterations`;
  return `${tableText(rows, { head: HEAD })}\n\nutility ${shown(utility)}; ${how}; residuals ${shown(primal)} and ${shown(dual)}\n`;
}
