/**
 * Measures what palos costs: a piece of the messages of 16 queue pairs beyond what the shim takes to cut it, over the null
 * device; a piece in the scheduler alone, with 16 and with 10,000 queue pairs; and a change of a weight among 22,000 queue
 * pairs. Prints JSON with medians of thread CPU time.
 */
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../against-cpp/null-device.ts';
import { type Compared, compareGroups, SLICES } from '../conditions-in-turn.ts';
import { rounded } from '../timing.ts';
import { GROUPS } from './conditions.ts';
import { QUEUE_PAIRS, updateCosts, GROUPS as WEIGHT_GROUPS } from './weights.ts';

/** Pieces in a slice: several milliseconds, and several rounds of 10,000 queue pairs. */
const UNITS = 40_960;
const PIECE_GOAL_NS = 40;
const MANY_GOAL = 1.5;
const CHANGE_GOAL_NS = 1000;
/** Section IV-B: a table of the chunks of all queue pairs, at 100 MHz. */
const PAPER_REWRITE_NS = 220_000;

/** What a piece takes beyond the device, with 10,000 queue pairs relative to 16. */
function manyRatio(costs: Record<string, Compared>, more: string): number {
  return rounded(costs[`10,000 queue pairs${more}`].moreNs! / costs[`16 queue pairs${more}`].moreNs!);
}

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const costs = await compareGroups(fileURLToPath(import.meta.url), GROUPS, UNITS);
  if (costs === null) return;
  const result = {
    benchmark: 'palos',
    node: process.version,
    slices: SLICES,
    goals: { pieceMoreNs: PIECE_GOAL_NS, bytes: 0, manyRatio: MANY_GOAL, changeNs: CHANGE_GOAL_NS },
    ...costs,
    manyRatio: {
      default: manyRatio(costs.scheduler, ''),
      'a chunk is a piece': manyRatio(costs.scheduler, ', a chunk is a piece'),
    },
    changes: {
      ...{ queuePairs: QUEUE_PAIRS, groups: WEIGHT_GROUPS },
      ...updateCosts(),
      paperRewriteNs: PAPER_REWRITE_NS,
    },
  };
  console.log(JSON.stringify(result, null, 2));
}

void main();
