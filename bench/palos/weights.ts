/** What a change of a weight takes among 22,000 queue pairs, the number of section IV-B. */
import { ChunkWeights } from '#src/chunk-weights/chunk-weights.ts';
import { cpuNs } from '../conditions-in-turn.ts';
import { p50, rounded } from '../timing.ts';

export const QUEUE_PAIRS = 22_000;
export const GROUPS = 16;
const TENANT = 't';
const MTU_BYTES = 1500;
const CHANGES = 2000;
const ROUNDS = 21;
const WARMUP_ROUNDS = 5;

const names = Array.from({ length: GROUPS }, (_, group) => `g${group}`);

function tableOf(): ChunkWeights {
  const table = new ChunkWeights({ sums: 'configured', bytesPerQp: MTU_BYTES });
  for (const [i, name] of names.entries()) table.setGroupWeight(TENANT, name, 10 + i);
  for (let i = 0; i < QUEUE_PAIRS; i++)
    table.add(i, table.groupOf(TENANT, names[i % GROUPS]), 2 + (Math.floor(i / GROUPS) % 2));
  return table;
}

const table = tableOf();
const chunks = new Float64Array(QUEUE_PAIRS);

/** The chunk of one queue pair of each group, so that all groups have their new granularity. */
function readGroups(): void {
  for (let i = 0; i < GROUPS; i++) chunks[i] = table.chunkBytes(i);
}

function readAll(): void {
  for (let i = 0; i < QUEUE_PAIRS; i++) chunks[i] = table.chunkBytes(i);
}

let changes = 0;
/** Weights that differ from each other and from those of the table. */
const nextWeight = () => 3 + (++changes % 7) / 8;
const changeQp = () => table.setWeight(changes % QUEUE_PAIRS, nextWeight());
const changeGroup = () => table.setGroupWeight(TENANT, names[changes % GROUPS], nextWeight());

const repeated = (change: () => void) => (count: number) => {
  for (let i = 0; i < count; i++) change();
};

const LOOPS = {
  "queue pair's weight": repeated(changeQp),
  "queue pair's weight, with the chunks of all groups": repeated(() => {
    changeQp();
    readGroups();
  }),
  "group's weight": repeated(changeGroup),
  "group's weight, with the chunks of all groups": repeated(() => {
    changeGroup();
    readGroups();
  }),
};

/** Entries that a change writes at once, and until all queue pairs have their new chunks. */
function writesOf(change: () => void): { atOnce: number; withChunks: number } {
  readAll();
  const before = table.writes;
  change();
  const atOnce = table.writes - before;
  readAll();
  return { atOnce, withChunks: table.writes - before };
}

/** Entries and nanoseconds of each kind of change. */
export function updateCosts() {
  const writes = { "queue pair's weight": writesOf(changeQp), "group's weight": writesOf(changeGroup) };
  const rounds = Array.from({ length: WARMUP_ROUNDS + ROUNDS }, () => ({
    ...Object.fromEntries(Object.entries(LOOPS).map(([name, loop]) => [name, cpuNs(loop, CHANGES)])),
    'chunks of all queue pairs, rewritten': cpuNs(readAll as () => void, 1),
  })).slice(WARMUP_ROUNDS);
  const ns = Object.fromEntries(
    Object.keys(rounds[0]).map((name) => [
      name,
      rounded(p50(rounds.map((round) => (round as Record<string, number>)[name]))),
    ]),
  );
  return { writes, ns };
}
