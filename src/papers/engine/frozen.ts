/**
 * The profiles are frozen: frozen.json contains a hash of all their parameters, and the value that every line of the
 * report measured with them. After changing a parameter, update the file with `npm run reproduce -- --system bare
 * --freeze`, which runs every line again.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { PROFILES } from '../../sim/profile/profiles.ts';
import type { Row } from './evaluate-claim.ts';

export interface Frozen {
  /** Hash of all parameters of all profiles. */
  profiles: string;
  seeds: readonly number[];
  /** Measured values by claim and line. */
  measured: Readonly<Record<string, number>>;
}

/** A line whose measurement has changed since the profiles were frozen. */
export interface Drift {
  line: string;
  was: number | undefined;
  is: number | undefined;
}

// This path is the same from src and from dist.
const FILE = new URL('../../../src/papers/engine/frozen.json', import.meta.url);
/** Relative changes below this are ignored. */
const SAME = 1e-3;

/** Parameters are hashed as text, because JSON has no infinity; sorted, so that their order does not matter. */
export function profilesHash(): string {
  const lines = Object.entries(PROFILES).flatMap(([profile, params]) =>
    Object.entries(params).map(([name, value]) => `${profile}.${name}=${String(value)}\n`),
  );
  return createHash('sha256').update(lines.sort().join('')).digest('hex');
}

/** Null if the file does not exist yet. */
export function readFrozen(): Frozen | null {
  return existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')) : null;
}

const lineOf = ({ claim, what }: Row) => `${claim}: ${what}`;

export function writeFrozen(rows: readonly Row[], seeds: readonly number[]): void {
  const measured = Object.fromEntries(rows.map((row) => [lineOf(row), Number(row.measured.toPrecision(6))]));
  const frozen: Frozen = { profiles: profilesHash(), seeds, measured };
  writeFileSync(FILE, `${JSON.stringify(frozen, null, 2)}\n`);
}

/** Lines that have changed since. @param all whether `rows` has every line, so that missing lines count as changes */
export function driftOf(
  frozen: Frozen,
  rows: readonly Row[],
  seeds: readonly number[],
  all: boolean,
): Drift[] {
  if (String(seeds) !== String(frozen.seeds)) return [];
  const is = new Map(rows.map((row) => [lineOf(row), row.measured]));
  const lines = new Set([...is.keys(), ...(all ? Object.keys(frozen.measured) : [])]);
  return [...lines]
    .map((line) => ({ line, was: frozen.measured[line], is: is.get(line) }))
    .filter(
      ({ was, is: now }) =>
        was === undefined || now === undefined || !(Math.abs(now - was) <= SAME * Math.abs(was)),
    );
}
