/** Tassel's claims about its own scheduler, shown by the cycle model (src/sim/tassel). No device runs. */
import { memoryBytes } from '../../sim/tassel/memory.ts';
import { OPERATION_CYCLES, PHeap } from '../../sim/tassel/p-heap.ts';
import { SystemTime } from '../../sim/tassel/system-time.ts';
import { TimingWheel, WHEEL_SLOTS } from '../../sim/tassel/timing-wheel.ts';
import type { Check, Claim } from '../engine/claim.ts';
import { atMost, closedForm, equal, range } from '../engine/expect.ts';
import { type FlowRun, type LimitedFlows, once, requestRateMps, runCycles } from './cycle-runs.ts';
import { BELOW_LINK, TWICE_LINK } from './rate-classes.ts';

const MTU = 4096;
const GBPS = [0.0001, 0.001, 0.01, 0.1, 1, 10, 100];

const single = new Map(
  GBPS.map((gbps) => {
    const packetTicks = ((MTU + 98) * 2) / gbps;
    const run = () => runCycles([{ bps: gbps * 1e9, qps: 1, bytes: MTU }], 1002 * packetTicks)[0];
    return [gbps, once(run)];
  }),
);
const singleOf = (gbps: number) => (single.get(gbps) as () => FlowRun)();

const oneQueuePair: Claim = {
  id: 'cycle-one',
  system: 'tassel',
  part: 1,
  title: 'One queue pair keeps any limit from 100 Kbps to 100 Gbps',
  source: 'Tassel 4, fig. 7: accurate over the whole range; clock of 4 ns',
  shows: ['tassel-4-fig7'],
  note: 'Messages of 4096 B, 1,000 packets, rates in bytes on the wire.',
  smoke: true,
  mixes: {},
  checks: GBPS.flatMap((gbps): Check[] => [
    {
      what: 'rate, relative to its limit',
      at: `${gbps} Gbps`,
      form: 'hardware',
      unit: 'x',
      measure: () => singleOf(gbps).accuracy,
      expect: equal(0.001),
    },
    {
      what: 'largest error of a gap between packets',
      at: `${gbps} Gbps`,
      form: 'hardware',
      unit: 'ticks',
      measure: () => singleOf(gbps).gapErrorTicks,
      expect: atMost(1),
    },
  ]),
};

/** Slow queue pairs have short messages, for enough packets in 100 ms. */
const mixture = (limited: readonly (readonly [mbps: number, qps: number])[]): LimitedFlows[] =>
  limited.map(([mbps, qps]) => ({ bps: mbps * 1e6, qps, bytes: mbps < 100 ? 256 : MTU }));

/** 100 ms. */
const TICKS = 25e6;
const fits = once(() => runCycles(mixture(BELOW_LINK), TICKS));
const exceeds = once(() => runCycles(mixture(TWICE_LINK), 6 * TICKS, TICKS / 10));
const worst = (runs: readonly FlowRun[], share: number) =>
  Math.max(...runs.map(({ accuracy }) => Math.abs(accuracy / share - 1)));
/** 199.999 Gbps of limits. */
const PHI = TWICE_LINK.reduce((mbps, [each, qps]) => mbps + each * qps, 0) / 100_000;

const manyQueuePairs: Claim = {
  id: 'cycle-many',
  system: 'tassel',
  part: 2,
  title: '1,000 queue pairs keep their limits, and share the link by them when they exceed it',
  source: 'Tassel 4, fig. 8(a) and 8(b): accurate; each falls to its limit / Phi',
  shows: ['tassel-4-fig8a'],
  note: 'Limits of 1 Mbps to 10 Gbps, 17 and 200 Gbps together. The largest error of any queue pair.',
  mixes: {},
  checks: [
    {
      what: 'error of the rate, 17 Gbps together',
      form: 'hardware',
      unit: '',
      measure: () => worst(fits(), 1),
      expect: atMost(0.005),
    },
    {
      what: 'error of the share, Phi = 2',
      form: 'hardware',
      unit: '',
      measure: () => worst(exceeds(), 1 / PHI),
      expect: atMost(0.01),
      deviation:
        'the first run lasted 100 ms (0.055): the slowest sent 16 packets, and WF2Q+ may delay each by its time at the share. 600 ms are 100 packets',
    },
  ],
};

const KB = 1024;

const throughput: Claim = {
  id: 'cycle-throughput',
  system: 'tassel',
  part: 4,
  title: 'n = 8 WQEs per fetch and k = 60 descriptors bound the message rate',
  source: 'Tassel 3.2.3: 8 Mrps of one queue pair with 1 us of PCIe latency; k packets per period of 1 us',
  shows: ['tassel-3.2.3-n', 'tassel-3.2.3-k'],
  mixes: {},
  checks: [
    {
      what: 'requests of one queue pair',
      form: 'hardware',
      unit: 'M/s',
      measure: () => requestRateMps(1, KB),
      expect: closedForm(8),
    },
    {
      what: 'payload of one queue pair, 1 KB requests',
      form: 'hardware',
      unit: 'Gbps',
      measure: () => requestRateMps(1, KB) * KB * 8e-3,
      expect: closedForm(65.5),
    },
    {
      what: 'requests of 16 queue pairs',
      form: 'hardware',
      unit: 'M/s',
      measure: () => requestRateMps(16, 64),
      expect: closedForm(60),
    },
  ],
};

const QUEUE_PAIRS = 10_000;

/** Packets with the same start time that a wheel takes at once. */
function wheelRoom(): number {
  const wheel = new TimingWheel(new SystemTime(100e9));
  while (wheel.insert(0, new Float64Array(2), 0));
  return wheel.count;
}

/** Cycles until the first of two operations of a P-heap is done, and between their beginnings. */
function heapCycles(): { latency: number; apart: number } {
  const heap = new PHeap(QUEUE_PAIRS);
  heap.enqueue(0, 0, new Float64Array(2), 0, 0);
  return { latency: heap.doneCycle, apart: heap.freeCycle };
}

const structures: Claim = {
  id: 'cycle-structures',
  system: 'tassel',
  part: 5,
  title: 'Memory and data structures for 10,000 queue pairs',
  source:
    'Tassel 3.2.2, 3.2.4 and appendix A: 17 B per queue pair and 480 B; 250 slots of 4 ns; height of the P-heap',
  shows: ['tassel-3.2.4-memory', 'tassel-3.2.2-wheel', 'tassel-3.2.2-pheap'],
  mixes: {},
  checks: [
    {
      what: 'on-chip memory',
      form: 'hardware',
      unit: 'KiB',
      measure: () => memoryBytes(QUEUE_PAIRS, 60) / KB,
      expect: closedForm(166.5, 0.001),
    },
    {
      what: 'slots of the wheel',
      form: 'hardware',
      unit: '',
      measure: wheelRoom,
      expect: range(WHEEL_SLOTS, WHEEL_SLOTS),
    },
    {
      what: 'latency of an operation of the P-heap: its height',
      form: 'hardware',
      unit: 'cycles',
      measure: () => heapCycles().latency,
      expect: closedForm(Math.ceil(Math.log2(QUEUE_PAIRS + 1)), 0.001),
    },
    {
      what: 'cycles between two operations of the P-heap',
      form: 'hardware',
      unit: 'cycles',
      measure: () => heapCycles().apart,
      expect: range(OPERATION_CYCLES, OPERATION_CYCLES),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [oneQueuePair, manyQueuePairs, throughput, structures];
