/** Seeds and the number of threads, as commands write them. */
import { availableParallelism } from 'node:os';
import { Option } from 'commander';
import { ConfigError } from '../verbs/errors.ts';

/** A longer range is probably a typing mistake. */
const MOST_SEEDS = 10_000;

/** Seeds as `1-5`, `7` or `1,3`. @throws ConfigError */
export function parseSeeds(text: string): number[] {
  if (!/^\d+(-\d+|(,\d+)*)$/.test(text)) {
    throw new ConfigError(`seeds must be written as 1-5, 7 or 1,3; got '${text}'`);
  }
  const [first, last] = text.split('-').map(Number);
  if (last === undefined) return distinctSeeds(text.split(',').map(Number), text);
  if (last < first || last - first >= MOST_SEEDS) {
    throw new ConfigError(`a range of seeds must ascend, with at most ${MOST_SEEDS} seeds; got '${text}'`);
  }
  return distinctSeeds(
    Array.from({ length: last - first + 1 }, (_, i) => first + i),
    text,
  );
}

/** Drops duplicates, which would count twice in a median. */
function distinctSeeds(seeds: readonly number[], text: string): number[] {
  if (seeds.every(Number.isSafeInteger)) return [...new Set(seeds)];
  throw new ConfigError(`a seed is too large; got '${text}'`);
}

/** The words of WORKERS. */
export interface WorkerWords {
  workers?: string;
  jobs?: string;
}

/** The option for the number of threads, and its former name. */
export const WORKERS: readonly Option[] = [
  new Option('--workers <n>', 'threads that run simulations (default: one per core)'),
  new Option('--jobs <n>', 'the former name of --workers').hideHelp(),
];

/** The number of threads. @throws ConfigError */
export function parseWorkers({ workers, jobs }: WorkerWords): number {
  const text = workers ?? jobs;
  if (text === undefined) return availableParallelism();
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new ConfigError(`workers must be a whole number, at least 1, got '${text}'`);
}
