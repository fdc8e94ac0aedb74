/** Counts what one application did, in total and inside its measuring window. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { Qp } from '../sim/transport/qp.ts';
import type { LatencyUs } from './result.ts';

// Indexes of Meter.times.
/** Start of the post call, and end of the poll that returned the completion being counted. */
export const START = 0;
export const END = 1;
export const OPEN = 2;
export const CLOSE = 3;

// Indexes of Meter.sums, counted from the start of the run.
export const COMPLETED = 0;
export const LATENCY_SUM = 1;
export const LATENCY_COUNT = 2;
/** The same sums inside the window. */
const WINDOW_COMPLETED = 3;
const WINDOW_LATENCY_SUM = 4;
const WINDOW_LATENCY_COUNT = 5;
const WINDOW_LATENCY_MAX = 6;
const DELIVERED_BEFORE = 7;
const DELIVERED_AFTER = 8;
const SUMS = 9;

/** Longest latency that is recorded; longer ones count as this one. */
const LONGEST_NS = 1e11;
/** Latencies that are kept one by one: a histogram takes longer to create than an application with few requests to run. */
const FEW = 500;

const newHistogram = () => createHistogram({ lowest: 1, highest: LONGEST_NS, figures: 3 });
/** Shared by the meters with few latencies: each fills it when it is read. */
let shared: RecordableHistogram | null = null;

export class Meter {
  readonly times: Float64Array;
  readonly sums = new Float64Array(SUMS);
  /** Requests. */
  posted = 0;
  errors = 0;
  outstanding = 0;
  /** The queue pairs that count its payload on arrival. */
  readonly receivingQps: Qp[] = [];
  /** The meter of each queue pair; they open and close with this one. Empty unless the result has details. */
  readonly parts: Meter[] = [];
  /** Empty once there is a histogram. */
  private few: number[] = [];
  private histogram: RecordableHistogram | null = null;

  constructor(openNs: number, closeNs: number) {
    this.times = new Float64Array([0, 0, openNs, closeNs]);
  }

  /** Starts the window. */
  open(): void {
    this.sums[DELIVERED_BEFORE] = this.deliveredBytes();
    for (const part of this.parts) part.open();
  }

  /** Ends the window. */
  close(): void {
    this.sums[DELIVERED_AFTER] = this.deliveredBytes();
    for (const part of this.parts) part.close();
  }

  /** Counts one completion, posted at times[START] and polled at times[END], which completed `messages` messages. */
  complete(messages: number): void {
    const { times, sums } = this;
    const ns = times[END] - times[START];
    sums[COMPLETED] += messages;
    sums[LATENCY_SUM] += ns;
    sums[LATENCY_COUNT]++;
    if (times[END] < times[OPEN] || times[END] > times[CLOSE]) return;
    sums[WINDOW_COMPLETED] += messages;
    if (times[START] < times[OPEN]) return;
    sums[WINDOW_LATENCY_SUM] += ns;
    sums[WINDOW_LATENCY_COUNT]++;
    if (ns > sums[WINDOW_LATENCY_MAX]) sums[WINDOW_LATENCY_MAX] = ns;
    this.record(Math.max(1, Math.round(Math.min(ns, LONGEST_NS))));
  }

  private record(ns: number): void {
    if (this.histogram !== null) this.histogram.record(ns);
    else if (this.few.push(ns) === FEW) {
      this.histogram = newHistogram();
      for (const each of this.few) this.histogram.record(each);
      this.few = [];
    }
  }

  /** Payload that has arrived since the start of the run. */
  deliveredBytes(): number {
    let bytes = 0;
    for (const qp of this.receivingQps) bytes += qp.deliveredBytes;
    return bytes;
  }

  get windowNs(): number {
    return this.times[CLOSE] - this.times[OPEN];
  }

  get windowCompleted(): number {
    return this.sums[WINDOW_COMPLETED];
  }

  get windowBytes(): number {
    return this.sums[DELIVERED_AFTER] - this.sums[DELIVERED_BEFORE];
  }

  latencyUs(hasP80 = false): LatencyUs | null {
    const { sums } = this;
    const count = sums[WINDOW_LATENCY_COUNT];
    if (count === 0) return null;
    const max = sums[WINDOW_LATENCY_MAX] / 1000;
    const histogram = this.histogram ?? this.shareHistogram();
    // The histogram returns the upper end of a bucket, which can exceed the maximum.
    const us = (percentile: number) => Math.min(max, histogram.percentile(percentile) / 1000);
    const avg = sums[WINDOW_LATENCY_SUM] / count / 1000;
    const p80 = hasP80 ? { p80: us(80) } : {};
    return { avg, p50: us(50), ...p80, p99: us(99), p999: us(99.9), max };
  }

  private shareHistogram(): RecordableHistogram {
    shared ??= newHistogram();
    shared.reset();
    for (const ns of this.few) shared.record(ns);
    return shared;
  }
}
