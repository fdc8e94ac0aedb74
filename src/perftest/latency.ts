/** One message at a time, and its answer. Each step does what can be done now, and never waits. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { Workload } from './bandwidth.ts';
import type { Endpoint } from './endpoint.ts';
import { MeasuringWindow } from './measuring-window.ts';
import { Requests } from './requests.ts';

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
const FIXED_ADDRESS = { bytes: 0, places: 1 };
/** Longest time that the histogram tells apart: an hour. */
const HIGHEST_NS = 3600e9;
/** Times that are kept before the histogram gets them, which would take part of the next message's time. */
const BUFFERED_SAMPLES = 2 ** 20;
/** While an end waits for memory to change, it reads at its queue once in so many reads at memory. */
const MEMORY_READS_PER_STEP = 64;

/** Sends, hears the answer, and notes how long it took. */
abstract class Exchange implements Workload {
  readonly window: MeasuringWindow;
  protected readonly endpoint: Endpoint;
  protected readonly sizeBytes: number;
  protected sent = 0;
  protected answered = 0;
  protected readonly requests: Requests;
  private readonly iters: number;
  private readonly periodNs: number;
  private readonly pauseNs: number;
  /** Messages go when they are due, not at once. */
  private readonly isPaced: boolean;
  private dueNs: number;
  /** When the last answer came. */
  private answeredNs = -1;
  /** When the message that is not answered yet was sent; -1: none was. */
  private pendingSinceNs = -1;
  private completed = 0;
  private readonly times: Float64Array;
  private buffered = 0;
  private readonly recorded: RecordableHistogram = createHistogram({ highest: HIGHEST_NS, figures: 4 });

  constructor(endpoint: Endpoint, sizeBytes: number) {
    const { iters, exchange_rate, latency_gap } = endpoint.settings;
    this.endpoint = endpoint;
    this.sizeBytes = sizeBytes;
    this.requests = new Requests(endpoint, sizeBytes, { stride: FIXED_ADDRESS });
    this.dueNs = endpoint.context.nowNs();
    this.window = new MeasuringWindow(endpoint.settings, this.dueNs);
    this.iters = this.window.byTime ? Number.POSITIVE_INFINITY : iters;
    // Who begins sets the pace.
    const paces = exchange_rate !== undefined && sendsFirst(endpoint);
    this.periodNs = paces ? 1e9 / exchange_rate : 0;
    this.pauseNs = latency_gap * 1000;
    this.isPaced = this.periodNs > 0 || this.pauseNs > 0;
    this.times = new Float64Array(Math.min(this.iters, BUFFERED_SAMPLES));
  }

  step(): boolean {
    const { endpoint, window } = this;
    if (this.completed < this.sent) this.completed += this.pollCompletions();
    else if (this.sent < this.iters && this.mayPost() && this.isDue()) this.post();
    // Nothing is awaited from the queue. Simulated time goes on by reads; and a connection that failed tells there.
    else endpoint.poll(endpoint.sendCq);
    if (this.hasAnswer()) this.recordAnswer();
    if (window.byTime) return window.ended(endpoint.context);
    return this.answered >= this.iters && this.sent >= this.iters && this.completed >= this.iters;
  }

  /** How long messages took, in nanoseconds. */
  histogram(): RecordableHistogram {
    const { times, recorded } = this;
    for (let i = 0; i < this.buffered; i++) recorded.record(times[i]);
    this.buffered = 0;
    return recorded;
  }

  /** Whether the answer has come that was not there before. */
  protected abstract hasAnswer(): boolean;

  /** Whether it is this end's turn. */
  protected abstract mayPost(): boolean;

  /** Before message `sent` is posted. */
  protected prepareMessage(): void {}

  /** Requests that completed. */
  protected pollCompletions(): number {
    return this.endpoint.poll(this.endpoint.sendCq);
  }

  protected recordAnswer(): void {
    const nowNs = this.endpoint.context.nowNs();
    this.answered++;
    this.answeredNs = nowNs;
    this.window.count(1, nowNs);
    // One of two hears before it has said anything.
    if (this.pendingSinceNs >= 0) this.buffer(Math.max(1, Math.round(nowNs - this.pendingSinceNs)));
    if (this.isPaced) this.dueNs = this.periodNs > 0 ? this.dueNs + this.periodNs : nowNs + this.pauseNs;
  }

  private buffer(ns: number): void {
    this.times[this.buffered++] = ns;
    if (this.buffered === this.times.length) this.histogram();
  }

  private isDue(): boolean {
    return !this.isPaced || this.endpoint.context.nowNs() >= this.dueNs;
  }

  private post(): void {
    this.prepareMessage();
    this.pendingSinceNs = this.startNs();
    this.requests.post(0, 1, false);
    this.sent++;
  }

  /** From when the next message counts. */
  private startNs(): number {
    // At a given rate from when it was due: that it could not be sent then is latency, too.
    if (this.periodNs > 0) return this.dueNs;
    // Where it follows the last answer at once, from there: one look at the clock serves both.
    return this.isPaced || this.answeredNs < 0 ? this.endpoint.context.nowNs() : this.answeredNs;
  }
}

/** READ and atomics: the completion is the answer. */
export class Fetch extends Exchange {
  private fetched = 0;

  protected override mayPost(): boolean {
    return this.answered === this.sent;
  }

  protected override pollCompletions(): number {
    const n = super.pollCompletions();
    this.fetched += n;
    return n;
  }

  protected override hasAnswer(): boolean {
    return this.fetched > this.answered;
  }
}

/** Of two ends that answer each other, where WRITEs are looked for in memory the server begins, else the client (perftest 4.5). */
function sendsFirst({ channel, settings }: Endpoint): boolean {
  const byMemory = settings.kind.verb === 'write' && !settings.takesReceives;
  return (channel.role === 'server') === byMemory;
}

/** Two ends that answer each other. */
abstract class PingPong extends Exchange {
  /** Messages that this end sends before it has heard any. */
  private readonly ahead: number;

  constructor(endpoint: Endpoint, sizeBytes: number) {
    super(endpoint, sizeBytes);
    this.ahead = sendsFirst(endpoint) ? 1 : 0;
  }

  protected override mayPost(): boolean {
    return this.sent < this.answered + this.ahead;
  }
}

/** WRITE: the last byte of the message counts, and is waited for in memory. */
export class WritePingPong extends PingPong {
  private readonly memory: Int8Array;
  private readonly answerIndex: number;
  private readonly reads: number;

  constructor(endpoint: Endpoint, sizeBytes: number) {
    super(endpoint, sizeBytes);
    const { buffer, byteOffset, byteLength } = endpoint.mr.bytes;
    this.memory = new Int8Array(buffer, byteOffset, byteLength);
    this.answerIndex = endpoint.settings.qp * endpoint.bufferBytes + sizeBytes - 1;
    // Where nobody else changes it, looking again is no use.
    this.reads = endpoint.context.provider.threads === 'one' ? 1 : MEMORY_READS_PER_STEP;
  }

  protected override prepareMessage(): void {
    this.requests.stamp(this.sent + 1);
  }

  protected override hasAnswer(): boolean {
    const { memory, answerIndex, reads } = this;
    const awaited = ((this.answered + 1) << 24) >> 24;
    for (let i = 0; i < reads; i++) if (Atomics.load(memory, answerIndex) === awaited) return true;
    return false;
  }
}

/** SEND, and WRITE with immediate data. */
export class SendPingPong extends PingPong {
  private posted = 0;
  private arrived = 0;

  /** Posts the receives. */
  constructor(endpoint: Endpoint, sizeBytes: number) {
    super(endpoint, sizeBytes);
    endpoint.writeReceives(0, sizeBytes);
    this.postReceives(endpoint.settings.rxDepth);
  }

  protected override hasAnswer(): boolean {
    if (this.arrived > this.answered) return true;
    this.arrived += this.endpoint.poll(this.endpoint.recvCq);
    return this.arrived > this.answered;
  }

  protected override recordAnswer(): void {
    super.recordAnswer();
    const { iters } = this.endpoint.settings;
    if (this.window.byTime || this.posted < iters) this.postReceives(1);
  }

  private postReceives(count: number): void {
    this.endpoint.postReceives(0, count);
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
