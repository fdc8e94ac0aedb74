/** Runs of the cycle model of Tassel's scheduler, for claims that no mixture on a device shows. They are deterministic. */
import { TICK_NS } from '../../sim/tassel/flow-tags.ts';
import { FairQueue } from '../../sim/tassel/others/fair-queue.ts';
import { TokenBuckets } from '../../sim/tassel/others/token-buckets.ts';
import { type OnDeparture, TasselScheduler } from '../../sim/tassel/scheduler.ts';

/** Bytes on the wire besides the payload of a message of one packet. */
const HEADERS = 82 + 16;

/** The largest message of one packet. */
const MTU = 4096;

/** Multiples of it, without their whole parts, are spread evenly over 0 to 1. */
const GOLDEN = 0.6180339887498949;

/** More messages than any run sends. */
const ENDLESS = 1e12;

/** Queue pairs with the same limit, which always have messages of this size. */
export interface LimitedFlows {
  bps: number;
  qps: number;
  bytes: number;
}

/** What limits the rates: Tassel, and two others in the same model (src/sim/tassel/others). */
export type Limiter = 'tassel' | 'buckets' | 'fq';

/** What left of one queue pair. */
export interface FlowRun {
  bps: number;
  packets: number;
  /** Rate on the wire from the first packet to the last one, relative to the limit. */
  accuracy: number;
  /** Largest deviation of a gap from the packet time at the limit, in ticks. */
  gapErrorTicks: number;
  /** The most that left in any interval, beyond the limit times the interval, in packets. Evenly paced, it is 1. */
  burstPackets: number;
}

/** What `runCycles` may be asked for besides. */
export interface CycleOptions {
  /** Default: Tassel. */
  readonly limiter?: Limiter;
  /** Whether queue pairs begin within a packet time of their own, instead of all in the first tick. */
  readonly spread?: boolean;
  /** Called for each packet that counts. Queue pairs are numbered in the order of `flows`. */
  onPacket?(qp: number, tick: number): void;
}

/** Runs a limiter for so many ticks; what leaves before `fromTick` does not count. */
export function runCycles(
  flows: readonly LimitedFlows[],
  ticks: number,
  fromTick = 0,
  { limiter = 'tassel', spread = false, onPacket }: CycleOptions = {},
): FlowRun[] {
  const each = flows.flatMap((flow) => Array.from({ length: flow.qps }, () => flow));
  const [first, last, packets, gapError, level, burst] = Array.from(
    { length: 6 },
    () => new Float64Array(each.length),
  );
  const gaps = each.map(({ bytes, bps }) => ((bytes + HEADERS) * 8e9) / TICK_NS / bps);
  const starts = gaps.map((gap, qp) => (spread ? Math.floor(gap * ((qp * GOLDEN) % 1)) : 0));
  const model = LIMITERS[limiter](each, starts, (qp) => {
    const tick = model.tick[0];
    if (tick < fromTick) return;
    const gap = tick - last[qp];
    if (packets[qp]++ === 0) first[qp] = tick;
    else gapError[qp] = Math.max(gapError[qp], Math.abs(gap - gaps[qp]));
    level[qp] = Math.max(0, level[qp] - gap / gaps[qp]) + 1;
    burst[qp] = Math.max(burst[qp], level[qp]);
    last[qp] = tick;
    onPacket?.(qp, tick);
  });
  model.runUntil(fromTick + ticks);
  return each.map(({ bps }, qp) => ({
    bps,
    packets: packets[qp],
    accuracy: ((packets[qp] - 1) * gaps[qp]) / (last[qp] - first[qp]),
    gapErrorTicks: gapError[qp],
    burstPackets: burst[qp],
  }));
}

interface Model {
  readonly tick: Float64Array;
  runUntil(tick: number): void;
}

type Flows = readonly Omit<LimitedFlows, 'qps'>[];
type Create = (flows: Flows, startTicks: readonly number[], onDeparture: OnDeparture) => Model;

const wireFlows = (flows: Flows, startTicks: readonly number[]) =>
  flows.map(({ bps, bytes }, qp) => ({ bps, wireBytes: bytes + HEADERS, startTick: startTicks[qp] }));

const LIMITERS: Readonly<Record<Limiter, Create>> = {
  tassel: (flows, startTicks, onDeparture) => {
    const scheduler = new TasselScheduler({ queuePairs: flows.length }, onDeparture);
    const order = [...flows.keys()].sort((a, b) => startTicks[a] - startTicks[b]);
    let started = 0;
    const runUntil = (tick: number) => {
      for (; started < order.length && startTicks[order[started]] <= tick; started++) {
        const qp = order[started];
        scheduler.runUntil(startTicks[qp]);
        scheduler.setRate(qp, flows[qp].bps);
        scheduler.doorbell(qp, ENDLESS, flows[qp].bytes);
      }
      scheduler.runUntil(tick);
    };
    return { tick: scheduler.tick, runUntil };
  },
  buckets: (flows, startTicks, onDeparture) => new TokenBuckets(wireFlows(flows, startTicks), onDeparture),
  fq: (flows, startTicks, onDeparture) =>
    new FairQueue(wireFlows(flows, startTicks), onDeparture, { mtuWireBytes: MTU + HEADERS }),
};

/** Messages that queue pairs send in all, in 10^6/s. Each has an equal part of the link as its limit. */
export function requestRateMps(qps: number, bytes: number): number {
  const ticks = 250e3;
  const runs = runCycles([{ bps: 100e9 / qps, qps, bytes }], ticks, 1000);
  return (runs.reduce((sum, { packets }) => sum + packets, 0) * 1e3) / (ticks * TICK_NS);
}

/** The same value for all callers, computed when it is first needed. */
export function once<T>(compute: () => T): () => T {
  let known: T | undefined;
  return () => {
    known ??= compute();
    return known;
  };
}
