/** Seeds and the number of threads, as commands write them. */
import { availableParallelism } from 'node:os';
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

/** The number of threads. Default: one per core. @throws ConfigError */
export function parseJobs(text: string | undefined): number {
  if (text === undefined) return availableParallelism();
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new ConfigError(`jobs must be a whole number, at least 1, got '${text}'`);
}
