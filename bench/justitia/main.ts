/**
 * Measures what justitia costs: a token among 512 tenants with 4,096 queue pairs, a chunk of a long message beyond what
 * the shim takes to cut it, and post and poll of a latency application, over the null device. The last two run each chain
 * in a process of its own, because compiled code depends on what else has run. Slices of all processes alternate. Prints
 * JSON with medians of thread CPU time.
 */
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../against-cpp/null-device.ts';
import {
  allocatedBytes,
  compared,
  compareGroups,
  cpuNs,
  SLICES,
  WARMUP_SLICES,
} from '../conditions-in-turn.ts';
import { GROUPS } from './conditions.ts';
import { bareTokens, FLOWS, TENANTS, tokens } from './tokens.ts';

/** Units of work in a slice: a few milliseconds. */
const UNITS = 12_800;
const TOKENS_PER_SLICE = 20_480;
const TOKEN_GOAL_NS = 200;
const CHUNK_GOAL_NS = 30;
const LATENCY_GOAL = 1.01;

function tokenCosts() {
  const works = {
    bare: bareTokens(),
    equal: tokens(() => 1),
    weighted: tokens((tenant) => 1 + (tenant % 7)),
  };
  const slices = Array.from({ length: WARMUP_SLICES + SLICES }, () =>
    Object.values(works).map((work) => cpuNs(work, TOKENS_PER_SLICE)),
  ).slice(WARMUP_SLICES);
  return Object.fromEntries(
    Object.entries(works).map(([name, work], i) => [
      name,
      compared(slices, i, allocatedBytes(work, TOKENS_PER_SLICE)),
    ]),
  );
}

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const groups = await compareGroups(fileURLToPath(import.meta.url), GROUPS, UNITS);
  if (groups === null) return;
  const token = tokenCosts();
  const result = {
    benchmark: 'justitia',
    node: process.version,
    tenants: TENANTS,
    queuePairs: FLOWS,
    slices: SLICES,
    goals: { tokenNs: TOKEN_GOAL_NS, chunkMoreNs: CHUNK_GOAL_NS, latencyRatio: LATENCY_GOAL, bytes: 0 },
    token,
    ...groups,
  };
  console.log(JSON.stringify(result, null, 2));
}

void main();
