/** What Palos stores for its chunks, and what a change of a weight costs. */

import { ChunkWeights } from '../../chunk-weights/chunk-weights.ts';
import type { Claim } from '../engine/claim.ts';
import { atMost, closedForm, range, reported } from '../engine/expect.ts';
import { PACKETS } from './forms.ts';

const TENANT = 't';
/** As in the hardware form. */
const OPTIONS = { sums: 'configured', bytesPerQp: PACKETS.mtuBytes, fractionBits: 16 } as const;
const nameOf = (group: number) => `g${group}`;

/** Queue pairs in turn in each of these groups, with weights in turn. Member i is in group i % groups. */
function tableOf(
  members: number,
  groupWeights: readonly number[],
  qpWeights: readonly number[],
): ChunkWeights {
  const table = new ChunkWeights(OPTIONS);
  for (const [i, weight] of groupWeights.entries()) table.setGroupWeight(TENANT, nameOf(i), weight);
  for (let i = 0; i < members; i++) {
    const group = table.groupOf(TENANT, nameOf(i % groupWeights.length));
    table.add(i, group, qpWeights[Math.floor(i / groupWeights.length) % qpWeights.length]);
  }
  return table;
}

const WEIGHTS = Array.from({ length: 16 }, (_, i) => 10 + i);
const GROUPS = WEIGHTS.length;

const chunkSizes: Claim = {
  id: 'chunk-sizes',
  system: 'palos',
  part: 4,
  title: 'The chunks of 16 groups of weight 10 to 25, each with queue pairs of weight 2 and 3',
  source: 'Palos V: N is 1500 B for each queue pair; equation (2) gives 685.7 to 2571.4 B in fig. 10',
  shows: ['palos-V-params'],
  note: 'In whole bytes. The device of all claims has the rates and the MTU of section V.',
  smoke: true,
  mixes: {},
  checks: [
    { what: 'smallest chunk', member: 0, bytes: (10 / 280) * (2 / 5) * 48_000 },
    { what: 'largest chunk', member: 2 * GROUPS - 1, bytes: (25 / 280) * (3 / 5) * 48_000 },
  ].map(({ what, member, bytes }) => ({
    what,
    unit: 'B',
    measure: () => tableOf(2 * GROUPS, WEIGHTS, [2, 3]).chunkBytes(member),
    expect: closedForm(bytes, 0.002),
  })),
};

const QUEUE_PAIRS = 22_000;
/** An entry takes a cycle at 100 MHz. */
const ENTRY_US = 0.01;

/** Entries that a change writes until every queue pair has its new chunk. */
function writesOf(change: (table: ChunkWeights) => void): number {
  const table = tableOf(QUEUE_PAIRS, WEIGHTS, [2, 3]);
  const readAll = () => {
    for (let i = 0; i < QUEUE_PAIRS; i++) table.chunkBytes(i);
  };
  readAll();
  const before = table.writes;
  change(table);
  readAll();
  return table.writes - before;
}

const ofQueuePair = () => writesOf((table) => table.setWeight(0, 7));
const ofGroup = () => writesOf((table) => table.setGroupWeight(TENANT, nameOf(0), 7));

const updateCost: Claim = {
  id: 'update-cost',
  system: 'palos',
  part: 8,
  title: 'A change of a weight writes few entries, whatever the number of queue pairs',
  source:
    'Palos IV-B: one entry of a queue pair and the table of groups, instead of 220 us for 22,000 entries at 100 MHz',
  shows: ['palos-IV.B-update-cost'],
  note:
    '22,000 queue pairs in 16 groups. The paper says "several ns", but one write takes 10 ns at 100 MHz. Besides the entry ' +
    'of the queue pair, the granularity of its group changes.',
  mixes: {},
  checks: [
    {
      what: "entries of queue pairs that a queue pair's weight writes",
      unit: '',
      measure: () => {
        const table = tableOf(QUEUE_PAIRS, WEIGHTS, [2, 3]);
        const before = table.writes;
        table.setWeight(0, 7);
        return table.writes - before;
      },
      expect: range(1, 1),
    },
    {
      what: "all entries that a queue pair's weight writes",
      unit: '',
      measure: ofQueuePair,
      expect: atMost(1 + GROUPS),
    },
    { what: "entries that a group's weight writes", unit: '', measure: ofGroup, expect: atMost(GROUPS) },
    {
      what: "time of these for a queue pair's weight, at 10 ns each",
      unit: 'us',
      measure: () => ofQueuePair() * ENTRY_US,
      expect: atMost(1),
    },
    {
      what: "time of these for a group's weight, at 10 ns each",
      unit: 'us',
      measure: () => ofGroup() * ENTRY_US,
      expect: atMost(1),
    },
    {
      what: 'time to write a chunk for each queue pair instead',
      unit: 'us',
      measure: () => QUEUE_PAIRS * ENTRY_US,
      expect: reported(220),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [chunkSizes, updateCost];
