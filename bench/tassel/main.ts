/**
 * Measures what tassel takes for a piece of a queue pair with a rate, timers included, with up to 10,000 queue pairs. Prints
 * JSON with medians of thread CPU time.
 */
import { fileURLToPath } from 'node:url';
import { compareGroups, SLICES } from '../conditions-in-turn.ts';
import { GROUPS } from './conditions.ts';

/** Pieces in a slice: several of each of 10,000 queue pairs. */
const UNITS = 81_920;
const GOALS = { pieceMoreNs: 40, pieceMoreNsOf10000: 80, bytes: 0 };

async function main(): Promise<void> {
  const costs = await compareGroups(fileURLToPath(import.meta.url), GROUPS, UNITS);
  if (costs === null) return;
  console.log(
    JSON.stringify(
      { benchmark: 'tassel', node: process.version, slices: SLICES, goals: GOALS, ...costs },
      null,
      2,
    ),
  );
}

void main();
