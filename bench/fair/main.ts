/**
 * Measures what fair costs: a piece beyond what the shim takes to cut it, over the null device; a piece in the scheduler
 * alone, with many tenants; and a small message that passes. Prints JSON with medians of thread CPU time.
 */
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../against-cpp/null-device.ts';
import { type Compared, compareAll, SLICES, serve } from '../conditions-in-turn.ts';
import { rounded } from '../timing.ts';
import { GROUPS } from './conditions.ts';

/** Pieces or messages in a slice. */
const UNITS = 40_960;
const GOALS = { pieceMoreNs: 60, smallMoreNs: { batch1: 20, batch32: 3 }, bytes: 0, manyRatio: 1.5 };

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const [group, condition] = process.argv.slice(2);
  if (condition !== undefined) {
    serve(GROUPS[group][condition](), UNITS);
    return;
  }
  const script = fileURLToPath(import.meta.url);
  const costs: Record<string, Record<string, Compared>> = {};
  for (const [name, conditions] of Object.entries(GROUPS))
    costs[name] = await compareAll(script, name, Object.keys(conditions));
  const more = (name: string) => costs.scheduler[name].moreNs!;
  const manyRatio = rounded(
    more('10,000 queue pairs of 1,000 tenants') / more('16 queue pairs of 2 tenants'),
  );
  const of = { benchmark: 'fair', node: process.version, slices: SLICES, goals: GOALS };
  console.log(JSON.stringify({ ...of, ...costs, manyRatio }, null, 2));
}

void main();
