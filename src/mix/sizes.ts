/** Sizes of messages: one size, a range, or a distribution from a file. */
import { readFileSync } from 'node:fs';
import { ConfigError } from '../verbs/errors.ts';

/** A cumulative distribution: the share of messages that are at most as large. Sizes and shares ascend; the last share is 1. */
export interface SizeDistribution {
  readonly points: readonly (readonly [bytes: number, share: number])[];
}

/** The fields of an application that drawBytes() uses. */
export interface Sizes {
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Null: all sizes from minBytes to maxBytes are equally likely. */
  readonly sizes: SizeDistribution | null;
}

/**
 * Reads a file with one point per line: bytes, and the share of messages that are at most as large, up to 1 or up to 100
 * (percent). `#` starts a comment.
 * @throws ConfigError for a file that cannot be read or is not a distribution; the error names the line
 */
export function readSizes(what: string, path: string): SizeDistribution {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${what}: ${path} cannot be read: ${(error as Error).message}`);
  }
  const points: [number, number][] = [];
  for (const [i, line] of text.split('\n').entries()) {
    const words = line.replace(/#.*/, '').trim();
    if (words === '') continue;
    const [bytes, share, ...more] = words.split(/[\s,]+/).map(Number);
    const [lastBytes, lastShare] = points.at(-1) ?? [0, 0];
    const isPoint = Number.isInteger(bytes) && Number.isFinite(share) && more.length === 0;
    if (!isPoint || bytes <= lastBytes || share < lastShare) {
      throw new ConfigError(
        `${what}: ${path}:${i + 1}: '${words}' is not a size in bytes and a share, both above those of the line before`,
      );
    }
    points.push([bytes, share]);
  }
  const whole = points.at(-1)?.[1];
  if (whole === undefined)
    throw new ConfigError(
      `${what}: ${path} has no sizes; write one point per line: a size in bytes and the share of messages up to that size, such as 4096 1`,
    );
  if (whole !== 1 && whole !== 100) {
    throw new ConfigError(`${what}: ${path}: the last share must be 1 or 100, the whole, not ${whole}`);
  }
  return { points: points.map(([bytes, share]) => [bytes, share / whole]) };
}

/** The size at this point of the distribution. @param u uniformly distributed in [0, 1) */
export function drawBytes({ minBytes, maxBytes, sizes }: Sizes, u: number): number {
  if (sizes === null) return minBytes + Math.floor(u * (maxBytes - minBytes + 1));
  const { points } = sizes;
  let at = 0;
  while (points[at][1] < u) at++;
  if (at === 0) return minBytes;
  const [bytes, share] = points[at - 1];
  const [nextBytes, nextShare] = points[at];
  return Math.round(bytes + ((u - share) / (nextShare - share)) * (nextBytes - bytes));
}

/** The mean size. */
export function meanBytes({ minBytes, maxBytes, sizes }: Sizes): number {
  if (sizes === null) return (minBytes + maxBytes) / 2;
  const { points } = sizes;
  let sum = points[0][0] * points[0][1];
  for (let i = 1; i < points.length; i++) {
    sum += ((points[i][0] + points[i - 1][0]) / 2) * (points[i][1] - points[i - 1][1]);
  }
  return sum;
}
