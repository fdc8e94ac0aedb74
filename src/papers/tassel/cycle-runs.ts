/** Runs of the cycle model of Tassel's scheduler, for claims that no mixture on a device shows. They are deterministic. */
import { TICK_NS } from '../../sim/tassel/flow-tags.ts';
import { TasselScheduler } from '../../sim/tassel/scheduler.ts';

/** Bytes on the wire besides the payload of a message of one packet. */
const HEADERS = 82 + 16;

/** More messages than any run sends. */
const ENDLESS = 1e12;

/** Queue pairs with the same limit, which always have messages of this size. */
export interface LimitedFlows {
  bps: number;
  qps: number;
  bytes: number;
}

/** What left of one queue pair. */
export interface FlowRun {
  bps: number;
  packets: number;
  /** Rate on the wire from the first packet to the last one, relative to the limit. */
  accuracy: number;
  /** Largest deviation of a gap from the packet time at the limit, in ticks. */
  gapErrorTicks: number;
}

/** Runs the model for so many ticks; what leaves before `fromTick` does not count. */
export function runCycles(flows: readonly LimitedFlows[], ticks: number, fromTick = 0): FlowRun[] {
  const each = flows.flatMap((flow) => Array.from({ length: flow.qps }, () => flow));
  const [first, last] = [0, 1].map(() => new Float64Array(each.length));
  const packets = new Float64Array(each.length);
  const gapError = new Float64Array(each.length);
  const gaps = each.map(({ bytes, bps }) => ((bytes + HEADERS) * 8e9) / TICK_NS / bps);
  const scheduler = new TasselScheduler({ queuePairs: each.length }, (qp) => {
    const tick = scheduler.tick[0];
    if (tick < fromTick) return;
    if (packets[qp]++ === 0) first[qp] = tick;
    else gapError[qp] = Math.max(gapError[qp], Math.abs(tick - last[qp] - gaps[qp]));
    last[qp] = tick;
  });
  for (const [qp, { bps, bytes }] of each.entries()) {
    scheduler.setRate(qp, bps);
    scheduler.doorbell(qp, ENDLESS, bytes);
  }
  scheduler.runUntil(fromTick + ticks);
  return each.map(({ bps }, qp) => ({
    bps,
    packets: packets[qp],
    accuracy: ((packets[qp] - 1) * gaps[qp]) / (last[qp] - first[qp]),
    gapErrorTicks: gapError[qp],
  }));
}

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
