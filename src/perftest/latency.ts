/** One message at a time, and its answer. Each step does what can be done now, and never waits. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { Party } from './bandwidth.ts';
import type { End } from './end.ts';
import { Requests } from './requests.ts';
import { Window } from './window.ts';

/** In microseconds. */
export interface LatencyReport {
  sizeBytes: number;
  iters: number;
  min: number;
  max: number;
  /** The median. */
  typical: number;
  average: number;
  stdev: number;
  p99: number;
  p999: number;
  /** Messages a second. */
  perS: number;
}

/** A message goes always from the same place to the same place. */
const STAY = { bytes: 0, places: 1 };
/** Longest time that the histogram tells apart: an hour. */
const HIGHEST_NS = 3600e9;
/** Times that are kept before the histogram gets them, which would take part of the next message's time. */
const KEPT = 2 ** 20;
/** While an end waits for memory to change, it looks at its queue once in so many looks at memory. */
const LOOKS = 64;

/** Sends, hears the answer, and notes how long it took. */
abstract class Exchange implements Party {
  readonly window: Window;
  protected readonly end: End;
  protected readonly sizeBytes: number;
  protected sent = 0;
  protected answered = 0;
  protected readonly requests: Requests;
  private readonly iters: number;
  private readonly periodNs: number;
  private readonly pauseNs: number;
  /** Messages go when they are due, not at once. */
  private readonly waits: boolean;
  private dueNs: number;
  /** When the last answer came. */
  private heardNs = -1;
  /** When the message that is not answered yet was sent; -1: none was. */
  private sinceNs = -1;
  private completed = 0;
  private readonly times: Float64Array;
  private kept = 0;
  private readonly recorded: RecordableHistogram = createHistogram({ highest: HIGHEST_NS, figures: 4 });

  constructor(end: End, sizeBytes: number) {
    const { iters, exchange_rate, latency_gap } = end.settings;
    this.end = end;
    this.sizeBytes = sizeBytes;
    this.requests = new Requests(end, sizeBytes, { stride: STAY });
    this.dueNs = end.context.nowNs();
    this.window = new Window(end.settings, this.dueNs);
    this.iters = this.window.byTime ? Number.POSITIVE_INFINITY : iters;
    // Who begins sets the pace.
    const paces = exchange_rate !== undefined && begins(end);
    this.periodNs = paces ? 1e9 / exchange_rate : 0;
    this.pauseNs = latency_gap * 1000;
    this.waits = this.periodNs > 0 || this.pauseNs > 0;
    this.times = new Float64Array(Math.min(this.iters, KEPT));
  }

  step(): boolean {
    const { end, window } = this;
    if (this.completed < this.sent) this.completed += this.polled();
    else if (this.sent < this.iters && this.mayPost() && this.isDue()) this.post();
    // Nothing is awaited from the queue. Simulated time goes on by looks; and a connection that failed tells there.
    else end.poll(end.sendCq);
    if (this.heard()) this.note();
    if (window.byTime) return window.ended(end.context);
    return this.answered >= this.iters && this.sent >= this.iters && this.completed >= this.iters;
  }

  /** How long messages took, in nanoseconds. */
  histogram(): RecordableHistogram {
    const { times, recorded } = this;
    for (let i = 0; i < this.kept; i++) recorded.record(times[i]);
    this.kept = 0;
    return recorded;
  }

  /** Whether the answer has come that was not there before. */
  protected abstract heard(): boolean;

  /** Whether it is this end's turn. */
  protected abstract mayPost(): boolean;

  /** Before message `sent` is posted. */
  protected prepare(): void {}

  /** Requests that completed. */
  protected polled(): number {
    return this.end.poll(this.end.sendCq);
  }

  protected note(): void {
    const nowNs = this.end.context.nowNs();
    this.answered++;
    this.heardNs = nowNs;
    this.window.count(1, nowNs);
    // One of two hears before it has said anything.
    if (this.sinceNs >= 0) this.keep(Math.max(1, Math.round(nowNs - this.sinceNs)));
    if (this.waits) this.dueNs = this.periodNs > 0 ? this.dueNs + this.periodNs : nowNs + this.pauseNs;
  }

  private keep(ns: number): void {
    this.times[this.kept++] = ns;
    if (this.kept === this.times.length) this.histogram();
  }

  private isDue(): boolean {
    return !this.waits || this.end.context.nowNs() >= this.dueNs;
  }

  private post(): void {
    this.prepare();
    this.sinceNs = this.beginsNs();
    this.requests.post(0, 1, false);
    this.sent++;
  }

  /** From when the next message counts. */
  private beginsNs(): number {
    // At a given rate from when it was due: that it could not be sent then is latency, too.
    if (this.periodNs > 0) return this.dueNs;
    // Where it follows the last answer at once, from there: one look at the clock serves both.
    return this.waits || this.heardNs < 0 ? this.end.context.nowNs() : this.heardNs;
  }
}

/** READ and atomics: the completion is the answer. */
export class Fetch extends Exchange {
  private fetched = 0;

  protected override mayPost(): boolean {
    return this.answered === this.sent;
  }

  protected override polled(): number {
    const n = super.polled();
    this.fetched += n;
    return n;
  }

  protected override heard(): boolean {
    return this.fetched > this.answered;
  }
}

/** Of two ends that answer each other, where WRITEs are looked for in memory the server begins, else the client (perftest 4.5). */
function begins({ channel, settings }: End): boolean {
  const byMemory = settings.kind.verb === 'write' && !settings.takesReceives;
  return (channel.role === 'server') === byMemory;
}

/** Two ends that answer each other. */
abstract class PingPong extends Exchange {
  /** Messages that this end sends before it has heard any. */
  private readonly ahead: number;

  constructor(end: End, sizeBytes: number) {
    super(end, sizeBytes);
    this.ahead = begins(end) ? 1 : 0;
  }

  protected override mayPost(): boolean {
    return this.sent < this.answered + this.ahead;
  }
}

/** WRITE: the last byte of the message counts, and is waited for in memory. */
export class WritePingPong extends PingPong {
  private readonly memory: Int8Array;
  private readonly inAt: number;
  private readonly looks: number;

  constructor(end: End, sizeBytes: number) {
    super(end, sizeBytes);
    const { buffer, byteOffset, byteLength } = end.mr.bytes;
    this.memory = new Int8Array(buffer, byteOffset, byteLength);
    this.inAt = end.settings.qp * end.partBytes + sizeBytes - 1;
    // Where nobody else changes it, looking again is no use.
    this.looks = end.context.provider.threads === 'one' ? 1 : LOOKS;
  }

  protected override prepare(): void {
    this.requests.stamp(this.sent + 1);
  }

  protected override heard(): boolean {
    const { memory, inAt, looks } = this;
    const awaited = ((this.answered + 1) << 24) >> 24;
    for (let i = 0; i < looks; i++) if (Atomics.load(memory, inAt) === awaited) return true;
    return false;
  }
}

/** SEND, and WRITE with immediate data. */
export class SendPingPong extends PingPong {
  private posted = 0;
  private arrived = 0;

  /** Posts the receives. */
  constructor(end: End, sizeBytes: number) {
    super(end, sizeBytes);
    end.writeReceives(0, sizeBytes);
    this.receive(end.settings.rxDepth);
  }

  protected override heard(): boolean {
    if (this.arrived > this.answered) return true;
    this.arrived += this.end.poll(this.end.recvCq);
    return this.arrived > this.answered;
  }

  protected override note(): void {
    super.note();
    const { iters } = this.end.settings;
    if (this.window.byTime || this.posted < iters) this.receive(1);
  }

  private receive(count: number): void {
    this.end.postReceives(0, count);
    this.posted += count;
  }
}

/** What a test found; of two ends that answer each other, the half of a round trip. */
export function latencyOf(exchange: Exchange, sizeBytes: number, roundTrip: boolean): LatencyReport {
  const { window } = exchange;
  const histogram = exchange.histogram();
  const us = (ns: number) => (Number.isFinite(ns) ? ns / (roundTrip ? 1000 : 2000) : 0);
  return {
    sizeBytes,
    iters: window.messages,
    min: us(histogram.min),
    max: us(histogram.max),
    typical: us(histogram.percentile(50)),
    average: us(histogram.mean),
    stdev: us(histogram.stddev),
    p99: us(histogram.percentile(99)),
    p999: us(histogram.percentile(99.9)),
    perS: window.messages / ((window.toNs - window.fromNs) / 1e9),
  };
}

export type { Exchange };
