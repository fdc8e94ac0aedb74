/**
 * Measures what fair costs: a piece beyond what the shim takes to cut it, over the null device; a piece in the scheduler
 * alone, with many tenants; and a small message that passes. Prints JSON with medians of thread CPU time.
 */
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../against-cpp/null-device.ts';
import { compareGroups, SLICES } from '../conditions-in-turn.ts';
import { rounded } from '../timing.ts';
import { GROUPS } from './conditions.ts';

/** Pieces or messages in a slice. */
const UNITS = 40_960;
const GOALS = { pieceMoreNs: 60, smallMoreNs: { batch1: 20, batch32: 3 }, bytes: 0, manyRatio: 1.5 };

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const costs = await compareGroups(fileURLToPath(import.meta.url), GROUPS, UNITS);
  if (costs === null) return;
  const more = (name: string) => costs.scheduler[name].moreNs!;
  const manyRatio = rounded(
    more('10,000 queue pairs of 1,000 tenants') / more('16 queue pairs of 2 tenants'),
  );
  const of = { benchmark: 'fair', node: process.version, slices: SLICES, goals: GOALS };
  console.log(JSON.stringify({ ...of, ...costs, manyRatio }, null, 2));
}

void main();
