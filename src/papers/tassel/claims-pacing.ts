/**
 * Tassel's scheduler next to token buckets with a scan (SENIC's idea) and to pacing as in the kernel's fq, all in the same
 * cycle model (src/sim/tassel/others): how evenly packets leave. No device runs. What is expected of the others follows
 * from how they work. It was written down before the first run for one queue pair, and after a few runs for many.
 */
import { memoryBytes } from '../../sim/tassel/memory.ts';
import { FLOW_BYTES } from '../../sim/tassel/others/fair-queue.ts';
import { BUCKET_BYTES } from '../../sim/tassel/others/token-buckets.ts';
import type { Check, Claim } from '../engine/claim.ts';
import { atLeast, atMost, closedForm, type Expectation, equal, range } from '../engine/expect.ts';
import { type FlowRun, type LimitedFlows, type Limiter, once, runCycles } from './cycle-runs.ts';
import type { RateClasses } from './rate-classes.ts';

const MTU = 4096;
const WIRE = MTU + 98;
const TICK_NS = 4;
/** Of a packet on the link of 100 Gbit/s. */
const WIRE_NS = (WIRE * 8) / 100;
const PACKETS = 1000;

export const LIMITERS: readonly Limiter[] = ['tassel', 'buckets', 'fq'];
export const LIMITER_NAMES: Readonly<Record<Limiter, string>> = {
  tassel: 'Tassel',
  buckets: 'token buckets',
  fq: 'fq',
};

/** Gbit/s of a single queue pair. */
export const SINGLE_GBPS: readonly number[] = [0.0001, 0.000333, 0.00777, 1.23, 99.9];

/** 1,000 queue pairs with 82 Gbit/s together, and 10,000 with 80. */
const MIXTURES: Readonly<Record<string, RateClasses>> = {
  '1,000': [
    [10, 900],
    [100, 80],
    [1000, 15],
    [10_000, 5],
  ],
  '10,000': [
    [3, 8000],
    [10, 1900],
    [100, 90],
    [1000, 8],
    [10_000, 2],
  ],
};
export const COUNTS: readonly string[] = Object.keys(MIXTURES);
const FASTEST_MBPS = 10_000;

/** fq begins with ten packets at once, which last for this many ticks at most. */
const BEGIN_TICKS = 25e6;
const TICKS = 75e6;

const packetTicks = (gbps: number) => (WIRE * 8) / gbps / TICK_NS;

/** What fq sends relative to a rate: a quantum of two packets, and a timer that is 10 us late, half of which it makes up for. */
function fqPart(gbps: number): number {
  const quantumNs = (2 * WIRE * 8) / gbps;
  return quantumNs / Math.max(quantumNs, quantumNs / 2 + 10_000);
}

/** One queue pair, from its first packet on. */
const singles = new Map(
  LIMITERS.flatMap((limiter) =>
    SINGLE_GBPS.map((gbps) => {
      const flows: LimitedFlows[] = [{ bps: gbps * 1e9, qps: 1, bytes: MTU }];
      const part = limiter === 'fq' ? fqPart(gbps) : 1;
      const run = () => runCycles(flows, ((PACKETS + 2) * packetTicks(gbps)) / part, 0, { limiter })[0];
      return [`${limiter} ${gbps}`, once(run)] as const;
    }),
  ),
);

/** The run of one queue pair. */
export const singleOf = (limiter: Limiter, gbps: number): FlowRun => singles.get(`${limiter} ${gbps}`)!();

const flowsOf = (count: string): LimitedFlows[] =>
  MIXTURES[count].map(([mbps, qps]) => ({ bps: mbps * 1e6, qps, bytes: MTU }));

const many = new Map(
  LIMITERS.flatMap((limiter) =>
    COUNTS.map((count) => {
      const run = () => runCycles(flowsOf(count), TICKS, BEGIN_TICKS, { limiter, spread: true });
      return [`${limiter} ${count}`, once(run)] as const;
    }),
  ),
);

/** Packets on the wire, as times in ns. */
export interface Packet {
  readonly fromNs: number;
  readonly toNs: number;
}

/**
 * The packets of the last queue pair of each rate, the fastest first, within so many ns after the beginnings.
 * @param rates how many rates
 */
export function packetsOf(limiter: Limiter, count: string, rates: number, shownNs: number): Packet[][] {
  const flows = flowsOf(count);
  const ends = flows.map((_, i) => flows.slice(0, i + 1).reduce((sum, { qps }) => sum + qps, 0) - 1);
  const watched = ends.reverse().slice(0, rates);
  const packets = watched.map((): Packet[] => []);
  const onPacket = (qp: number, tick: number) => {
    const fromNs = (tick - BEGIN_TICKS) * TICK_NS;
    packets[watched.indexOf(qp)]?.push({ fromNs, toNs: fromNs + WIRE_NS });
  };
  runCycles(flows, shownNs / TICK_NS, BEGIN_TICKS, { limiter, spread: true, onPacket });
  return packets;
}

/** The worst of each figure among the queue pairs of a mixture, or among the fastest of them. */
export function worstOf(limiter: Limiter, count: string, onlyFastest = false) {
  const runs = many.get(`${limiter} ${count}`)!().filter(
    ({ bps }) => !onlyFastest || bps === FASTEST_MBPS * 1e6,
  );
  return {
    error: Math.max(...runs.map(({ accuracy }) => Math.abs(accuracy - 1))),
    gapNs: Math.max(...runs.map(({ gapErrorTicks }) => gapErrorTicks)) * TICK_NS,
    burstPackets: Math.max(...runs.map(({ burstPackets }) => burstPackets)),
  };
}

/** What a scan adds to a bucket of the fastest queue pairs, in packets. */
const perScan = (queuePairs: number) => (queuePairs * TICK_NS * FASTEST_MBPS) / 8e3 / WIRE;

const single = (
  limiter: Limiter,
  what: string,
  unit: string,
  of: (run: FlowRun) => number,
  expect: (gbps: number) => Expectation,
): Check[] =>
  SINGLE_GBPS.map((gbps) => ({
    what: `${LIMITER_NAMES[limiter]}: ${what}`,
    at: `${gbps} Gbps`,
    form: limiter === 'tassel' ? 'hardware' : undefined,
    unit,
    measure: () => of(singleOf(limiter, gbps)),
    expect: expect(gbps),
  }));

const accuracy = ({ accuracy }: FlowRun) => accuracy;
const burst = ({ burstPackets }: FlowRun) => burstPackets;

const alone: Claim = {
  id: 'pacing-one',
  system: 'tassel',
  part: 6,
  title: 'One queue pair: token buckets are as accurate as Tassel; fq sends in pairs, and loses high rates',
  source: 'Tassel 1: token buckets cause bursts; tc-fq(8): a quantum of two packets',
  shows: [],
  note: 'The scan has only one bucket to read. Of fq, the ten packets at the beginning count in the burst, and in the mean.',
  mixes: {},
  checks: [
    ...single('tassel', 'rate, relative to its limit', 'x', accuracy, () => equal(0.001)),
    ...single('tassel', 'burst', 'packets', burst, () => atMost(1.1)),
    ...single('buckets', 'rate, relative to its limit', 'x', accuracy, () => equal(0.001)),
    ...single('buckets', 'burst', 'packets', burst, () => atMost(1.1)),
    ...single('fq', 'rate, relative to its limit', 'x', accuracy, (gbps) =>
      closedForm(fqPart(gbps), 0.05),
    ).map(
      (check): Check => ({
        ...check,
        deviation:
          'in the first run, 99.9 Gbps ended after 70 packets, of which ten were those of the beginning',
      }),
    ),
  ],
};

const manyOf = (
  limiter: Limiter,
  what: string,
  unit: string,
  key: keyof ReturnType<typeof worstOf>,
  expect: (queuePairs: number) => Expectation,
  onlyFastest = false,
): Check[] =>
  COUNTS.map((count) => ({
    what: `${LIMITER_NAMES[limiter]}: ${what}`,
    at: `${count} queue pairs`,
    form: limiter === 'tassel' ? 'hardware' : undefined,
    unit,
    measure: () => worstOf(limiter, count, onlyFastest)[key],
    expect: expect(Number(count.replace(',', ''))),
  }));

const together: Claim = {
  id: 'pacing-many',
  system: 'tassel',
  part: 6,
  title: 'Many queue pairs: bursts of token buckets grow with their number, those of Tassel do not',
  source: 'Tassel 1: token buckets cause bursts and hurt the accuracy; a scan of n buckets takes n cycles',
  shows: [],
  note:
    '1,000 and 10,000 queue pairs of 3 Mbps to 10 Gbps, 82 and 80 Gbps together, packets of 4194 B. The largest figure of ' +
    'any queue pair. A bucket holds a packet and what its rate adds during a scan.',
  mixes: {},
  checks: [
    ...manyOf('tassel', 'error of the rate', '', 'error', () => atMost(0.005)),
    ...manyOf('tassel', 'burst', 'packets', 'burstPackets', () => atMost(1.5)),
    ...manyOf('buckets', 'error of the rate', '', 'error', () => atMost(0.005)),
    ...manyOf(
      'buckets',
      'burst of the fastest',
      'packets',
      'burstPackets',
      (n) => closedForm(1 + perScan(n), 0.25),
      true,
    ),
    ...manyOf('buckets', 'error of a gap, relative to a scan', 'x', 'gapNs', () => range(0.5, 1.5)).map(
      (check, i): Check => {
        const scanNs = Number(COUNTS[i].replace(',', '')) * TICK_NS;
        return { ...check, measure: (runs, computed) => check.measure(runs, computed) / scanNs };
      },
    ),
    ...manyOf('fq', 'burst', 'packets', 'burstPackets', () => atLeast(2)),
    ...manyOf('fq', 'error of the rate of the fastest', '', 'error', () => atLeast(0.1), true),
  ],
};

const QUEUE_PAIRS = 10_000;
const memoryOf: Readonly<Record<Limiter, number>> = {
  tassel: memoryBytes(QUEUE_PAIRS, 60) / QUEUE_PAIRS,
  buckets: BUCKET_BYTES,
  fq: FLOW_BYTES,
};

/** Memory of each queue pair, in bytes. */
export const memory: Claim = {
  id: 'pacing-memory',
  system: 'tassel',
  part: 6,
  title: 'Tassel needs less memory than token buckets and fq',
  source: 'Tassel 3.2.4: 17 B; SENIC: 30 KB for 1,000 limiters; Linux: struct fq_flow',
  shows: [],
  note: 'The packets that fq has in its queues are not counted; Tassel and SENIC leave them in host memory.',
  mixes: {},
  checks: LIMITERS.map((limiter) => ({
    what: `memory of a queue pair: ${LIMITER_NAMES[limiter]}`,
    form: limiter === 'tassel' ? 'hardware' : undefined,
    unit: 'B',
    measure: () => memoryOf[limiter],
    expect: closedForm({ tassel: 17, buckets: 30, fq: 128 }[limiter]),
  })),
};

export const CLAIMS: readonly Claim[] = [alone, together, memory];
