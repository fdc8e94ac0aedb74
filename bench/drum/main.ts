/**
 * Measures what the solver of DRUM takes for a variable and iteration, and for a decision, and what the policy adds to a
 * request that passes. Prints JSON with medians of thread CPU time.
 */
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../against-cpp/null-device.ts';
import { compareGroups, SLICES } from '../conditions-in-turn.ts';
import { GROUPS } from './conditions.ts';

/** Variables and iterations in a slice: all of several iterations. */
const UNITS = 16_384;
/** A decision is 1 ms for 250 connections. */
const GOALS = { linearNs: 150, logsumNs: 400, decisionNsOfAConnection: 4000, requestMoreNs: 40 };

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const costs = await compareGroups(fileURLToPath(import.meta.url), GROUPS, UNITS);
  if (costs === null) return;
  console.log(
    JSON.stringify(
      { benchmark: 'drum', node: process.version, slices: SLICES, goals: GOALS, ...costs },
      null,
      2,
    ),
  );
}

void main();
