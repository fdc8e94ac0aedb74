/** The workloads of latency tests: one message at a time, and its answer. A step never blocks. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { Workload } from './bandwidth.ts';
import type { Endpoint } from './endpoint.ts';
import { MeasuringWindow } from './measuring-window.ts';
import { Requests } from './requests.ts';

/** The result of a latency test. Times are in microseconds. */
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
  /** Messages per second. */
  perS: number;
}

/** Every message uses the same addresses. */
const FIXED_ADDRESS = { bytes: 0, positions: 1 };
/** Longest latency of the histogram: one hour. */
const HIGHEST_NS = 3600e9;
/** Samples buffered before they are recorded: recording would add to the latency of the next message. */
const BUFFERED_SAMPLES = 2 ** 20;
/** Reads of the awaited memory per step, and so per poll of the completion queue. */
const MEMORY_READS_PER_STEP = 64;

/** Sends messages and measures the time until their answers. */
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
  /** Whether messages wait until they are due. */
  private readonly isPaced: boolean;
  private dueNs: number;
  /** The time at which the last answer arrived; -1 if none has. */
  private answeredNs = -1;
  /** Start of the latency of the last message; -1 if there is none yet. */
  private pendingSinceNs = -1;
  private completed = 0;
  private readonly times: Float64Array;
  private buffered = 0;
  /** Latencies measured so far. */
  private measured = 0;
  private readonly recorded: RecordableHistogram = createHistogram({ highest: HIGHEST_NS, figures: 4 });

  constructor(endpoint: Endpoint, sizeBytes: number) {
    const { iters, exchange_rate, latency_gap, reportHistogram, reportUnsorted } = endpoint.settings;
    this.endpoint = endpoint;
    this.sizeBytes = sizeBytes;
    this.requests = new Requests(endpoint, sizeBytes, { stride: FIXED_ADDRESS });
    this.dueNs = endpoint.context.nowNs();
    this.window = new MeasuringWindow(endpoint.settings, this.dueNs);
    this.iters = this.window.byTime ? Number.POSITIVE_INFINITY : iters;
    // Only the end that sends first sets the pace.
    const setsPace = exchange_rate !== undefined && sendsFirst(endpoint);
    this.periodNs = setsPace ? 1e9 / exchange_rate : 0;
    this.pauseNs = latency_gap * 1000;
    this.isPaced = this.periodNs > 0 || this.pauseNs > 0;
    const isListed = reportHistogram || reportUnsorted;
    this.times = new Float64Array(isListed ? iters : Math.min(this.iters, BUFFERED_SAMPLES));
  }

  step(): boolean {
    const { endpoint, window } = this;
    if (this.completed < this.sent) this.completed += this.pollCompletions();
    else if (this.sent < this.iters && this.mayPost() && this.isDue()) this.post();
    // No completion is awaited, but polls advance simulated time and report a failed connection.
    else endpoint.poll(endpoint.sendCq);
    if (this.hasAnswer()) this.recordAnswer();
    if (window.byTime) return window.ended(endpoint.context);
    return this.answered >= this.iters && this.sent >= this.iters && this.completed >= this.iters;
  }

  /** The latencies so far, in nanoseconds. */
  histogram(): RecordableHistogram {
    const { times, recorded } = this;
    for (let i = 0; i < this.buffered; i++) recorded.record(times[i]);
    this.buffered = 0;
    return recorded;
  }

  /** All latencies in the order of the messages, in nanoseconds. Complete only with --report-histogram or --report-unsorted. */
  latencies(): Float64Array {
    return this.times.slice(0, this.measured);
  }

  /** Whether the next answer has arrived. */
  protected abstract hasAnswer(): boolean;

  /** Whether the protocol allows this end to send now. */
  protected abstract mayPost(): boolean;

  /** Called before each post. */
  protected prepareMessage(): void {}

  /** Polls; returns the requests that completed. */
  protected pollCompletions(): number {
    return this.endpoint.poll(this.endpoint.sendCq);
  }

  protected recordAnswer(): void {
    const nowNs = this.endpoint.context.nowNs();
    this.answered++;
    this.answeredNs = nowNs;
    this.window.count(1, nowNs);
    // The end that sends second gets a message before it has sent any.
    if (this.pendingSinceNs >= 0) this.buffer(Math.max(1, Math.round(nowNs - this.pendingSinceNs)));
    if (this.isPaced) this.dueNs = this.periodNs > 0 ? this.dueNs + this.periodNs : nowNs + this.pauseNs;
  }

  private buffer(ns: number): void {
    this.measured++;
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

  /** Start of the latency of the next message. */
  private startNs(): number {
    // At a given rate, the time when the message was due, because a delay in sending it is latency too.
    if (this.periodNs > 0) return this.dueNs;
    // If the message follows the last answer at once, the time of that answer, which saves a clock read.
    return this.isPaced || this.answeredNs < 0 ? this.endpoint.context.nowNs() : this.answeredNs;
  }
}

/** READs and atomics: the completion is the answer. */
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

/** Whether this end sends first: as in perftest 4.5, the server if WRITEs are detected in memory, otherwise the client. */
function sendsFirst({ channel, settings }: Endpoint): boolean {
  const byMemory = settings.kind.verb === 'write' && !settings.takesReceives;
  return (channel.role === 'server') === byMemory;
}

/** Two ends that answer each other's messages. */
abstract class PingPong extends Exchange {
  /** Messages that this end sends before it has received any. */
  private readonly ahead: number;

  constructor(endpoint: Endpoint, sizeBytes: number) {
    super(endpoint, sizeBytes);
    this.ahead = sendsFirst(endpoint) ? 1 : 0;
  }

  protected override mayPost(): boolean {
    return this.sent < this.answered + this.ahead;
  }
}

/** WRITE: the last byte of a message is a counter, which the other end awaits in its memory. */
export class WritePingPong extends PingPong {
  private readonly memory: Int8Array;
  private readonly answerIndex: number;
  private readonly reads: number;

  constructor(endpoint: Endpoint, sizeBytes: number) {
    super(endpoint, sizeBytes);
    const { buffer, byteOffset, byteLength } = endpoint.mr.bytes;
    this.memory = new Int8Array(buffer, byteOffset, byteLength);
    this.answerIndex = endpoint.settings.qp * endpoint.bufferBytes + sizeBytes - 1;
    // On a single-threaded device the memory cannot change between reads.
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

  /** Writes and posts the receives. */
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

/** The latencies of a test in microseconds, in the order of the messages: full if `roundTrip`, otherwise half of each. */
export function latencyListOf(exchange: Exchange, roundTrip: boolean): Float64Array {
  return exchange.latencies().map((ns) => ns / (roundTrip ? 1000 : 2000));
}

/** The result of a test: the full latency if `roundTrip`, otherwise half of it. */
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
