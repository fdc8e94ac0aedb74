/** Runs a test of perftest: as the server, as the client, or with both ends in this process on simulated devices. */
import { writeFileSync } from 'node:fs';
import type { Context } from '../objects/index.ts';
import type { CmEnvironment } from '../objects/rdma-cm/index.ts';
import { BandwidthReceiver, BandwidthSender, bandwidthOf, Combined, type Workload } from './bandwidth.ts';
import { type Channel, connectTo, listenOn } from './channel.ts';
import { acceptCmChannel, CmChannel, connectCmChannel } from './cm-channel.ts';
import { Endpoint, requireSupported } from './endpoint.ts';
import { type BandwidthReport, exchangeReports } from './handshake.ts';
import { type Exchange, Fetch, latencyListOf, latencyOf, SendPingPong, WritePingPong } from './latency.ts';
import { MeasuringWindow } from './measuring-window.ts';
import { type CounterSource, countersOf, type PortCounters } from './port-counters.ts';
import * as Report from './report.ts';
import { Requests } from './requests.ts';
import type { Settings } from './settings.ts';
import type { Sleeper } from './sleeper.ts';

const ALL_SIZES = Array.from({ length: 23 }, (_, i) => 2 << i);
const EMPTY_REPORT: BandwidthReport = { sizeBytes: 0, iters: 0, peak: 0, average: 0, messageRate: 0 };

/** Where output goes: results, and progress. */
export interface Output {
  print(line: string): void;
  progress(messages: number): void;
  /** Sets the line that follows the table if the process is interrupted. */
  setLastLine?(line: string): void;
}

/** The results of both directions of a bidirectional test. */
interface Directions {
  readonly local: BandwidthReport;
  readonly remote: BandwidthReport;
}

/** Whether both ends run in this thread. */
const isAlone = ({ context }: Endpoint) => context.provider.name === 'sim';

/** One end of a test, and its output. */
class TestRun {
  private readonly endpoint: Endpoint;
  private readonly output: Output;
  private readonly counters: PortCounters | null;
  private readonly results: Report.Result[] = [];
  /** Average bandwidth of each interval that was reported. */
  private readonly intervals: number[] = [];
  private readonly sizes: readonly number[];
  /** Whether this end posts requests, and therefore measures. */
  private readonly isSender: boolean;
  /** Error of a result below a limit; thrown once both ends are done and everything is printed. */
  private missedLimit: string | null = null;

  constructor(endpoint: Endpoint, output: Output, counters: PortCounters | null) {
    const { settings, channel } = endpoint;
    this.endpoint = endpoint;
    this.output = output;
    this.counters = counters;
    this.isSender = channel.role === 'client' || settings.bidirectional;
    this.sizes = settings.all ? ALL_SIZES.filter((size) => size <= settings.sizeBytes) : [settings.sizeBytes];
  }

  async connect(): Promise<void> {
    const { endpoint } = this;
    const { kind } = endpoint.settings;
    this.print(Report.header(endpoint));
    await endpoint.connect((mine, theirs) => {
      for (const keys of mine) this.print(Report.address('local', keys, kind));
      for (const keys of theirs) this.print(Report.address('remote', keys, kind));
    });
    this.print(Report.LINE);
    this.print(Report.columns(endpoint.settings));
  }

  async measure(): Promise<void> {
    const { endpoint } = this;
    const { verb, measures } = endpoint.settings.kind;
    this.counters?.differences();
    if (measures === 'lat') await this.runLatency();
    else if (endpoint.settings.takesReceives) await this.runSendBandwidth();
    else if (this.isSender) await this.runBandwidth();
    else await this.awaitReport();
    this.print(Report.LINE);
    if (this.intervals.length > 0) this.print(Report.lowest(endpoint.settings, this.intervals));
    if (measures === 'bw' || verb !== 'write') await endpoint.synchronize({ patient: true });
    endpoint.channel.close();
    this.finish();
    if (this.missedLimit !== null) throw new Error(this.missedLimit);
  }

  /** On the passive end of WRITEs, READs and atomics: waits for the report of the other end. */
  private async awaitReport(): Promise<void> {
    const { endpoint } = this;
    await endpoint.synchronize({ patient: true });
    this.reportBandwidth(await exchangeReports(endpoint.channel, EMPTY_REPORT));
  }

  private async runBandwidth(): Promise<void> {
    const { endpoint } = this;
    const { bidirectional, run_infinitely, perform_warm_up } = endpoint.settings;
    let last = EMPTY_REPORT;
    for (const size of this.sizes) {
      if (perform_warm_up) await this.drive(new WarmUp(endpoint, size), size);
      if (bidirectional) await endpoint.synchronize();
      const sender = new BandwidthSender(endpoint, size);
      if (run_infinitely) await this.runForever(sender, size);
      else await this.drive(sender, size);
      if (bidirectional && this.sizes.length > 1) await endpoint.synchronize({ patient: true });
      last = this.reportOf(sender, size);
      if (bidirectional) {
        const remote = await exchangeReports(endpoint.channel, last);
        this.reportBandwidth(sum(last, remote), { local: last, remote });
      } else this.reportBandwidth(last);
    }
    if (bidirectional) return;
    await endpoint.synchronize();
    await exchangeReports(endpoint.channel, last);
  }

  private async runSendBandwidth(): Promise<void> {
    const { endpoint, isSender } = this;
    const { bidirectional, run_infinitely, durationS, all } = endpoint.settings;
    const receives = endpoint.channel.role === 'server' || bidirectional;
    for (const size of this.sizes) {
      const receiver = receives ? new BandwidthReceiver(endpoint, size) : null;
      await endpoint.synchronize({ patient: true });
      const sender = isSender ? new BandwidthSender(endpoint, size) : null;
      const workloads = [receiver, sender].filter((workload) => workload !== null);
      if (run_infinitely) await this.runForever(workloads[0], size);
      else await this.drive(workloads.length === 1 ? workloads[0] : new Combined(workloads), size);
      const local = this.reportOf(sender ?? (receiver as BandwidthReceiver), size);
      if (!bidirectional) this.reportBandwidth(local);
      else if (durationS > 0) {
        // With --duration, the ends exchange no reports, so this end counts what it has received.
        this.reportBandwidth(local, { local, remote: this.reportOf(receiver as BandwidthReceiver, size) });
      } else {
        const remote = await exchangeReports(endpoint.channel, local);
        this.reportBandwidth(sum(local, remote), { local, remote });
      }
      if (all) await endpoint.synchronize({ patient: true });
    }
  }

  private async runLatency(): Promise<void> {
    const { endpoint } = this;
    const { takesReceives, kind } = endpoint.settings;
    const { verb } = kind;
    const fetches = verb === 'read' || verb === 'atomic';
    // The server of a READ or atomic test is passive.
    if (fetches && endpoint.channel.role === 'server') return;
    for (const size of this.sizes) {
      const exchange = this.exchangeOf(size);
      if (takesReceives) await endpoint.synchronize({ patient: true });
      await this.drive(exchange, size);
      const report = latencyOf(exchange, size, fetches);
      const byTime = endpoint.settings.durationS > 0;
      const lists = this.listLatencies(exchange, fetches);
      this.results.push({ ...Report.latencyJson(report, byTime), ...lists });
      this.print(Report.latencyRow(report, byTime), report.average);
      this.reportCounters();
    }
  }

  /** Prints the latencies of all messages if they are to be listed, and returns them for the JSON. */
  private listLatencies(exchange: Exchange, roundTrip: boolean): Report.Result {
    const { settings } = this.endpoint;
    const { reportUnsorted, reportHistogram } = settings;
    if (!reportUnsorted && !reportHistogram) return {};
    const us = latencyListOf(exchange, roundTrip);
    const lists: Report.Result = {};
    if (reportUnsorted) {
      lists.t_unsorted = [...us];
      this.print(Report.latencyList(us));
    }
    us.sort();
    if (reportHistogram) {
      lists.t_sorted = [...us];
      this.print(Report.latencyList(us));
    }
    this.print(Report.LINE);
    this.print(Report.columns(settings));
    return lists;
  }

  private exchangeOf(size: number): Exchange {
    const { endpoint } = this;
    const { takesReceives, kind } = endpoint.settings;
    if (takesReceives) return new SendPingPong(endpoint, size);
    return kind.verb === 'write' ? new WritePingPong(endpoint, size) : new Fetch(endpoint, size);
  }

  private reportOf(workload: BandwidthSender | BandwidthReceiver, size: number): BandwidthReport {
    const bestNs = workload instanceof BandwidthSender ? workload.bestNs() : 0;
    return bandwidthOf(workload.window, size, { gbits: this.endpoint.settings.report_gbits, bestNs });
  }

  /** Reports the total of a run, and with --report-both its directions. */
  private reportBandwidth(report: BandwidthReport, directions?: Directions): void {
    const { settings } = this.endpoint;
    const { limit_bw, limit_msgrate, reportBoth } = settings;
    const both = reportBoth ? directions : undefined;
    this.results.push({
      ...Report.bandwidthJson(report),
      ...(both && {
        local: Report.bandwidthJson(both.local),
        remote: Report.bandwidthJson(both.remote),
      }),
      ...(this.intervals.length > 0 && { BW_min: Math.min(...this.intervals), BW_intervals: this.intervals }),
    });
    if (this.intervals.length > 0) this.print(Report.LINE);
    this.printBandwidth(report);
    this.reportCounters();
    if (both !== undefined) this.print(Report.bothDirections(settings, both));
    if (limit_bw !== undefined && report.average < limit_bw)
      this.missedLimit ??= 'BW result is below bw limit';
    if (limit_msgrate !== undefined && report.messageRate < limit_msgrate) {
      this.missedLimit ??= 'Msg rate  is below msg_rate limit';
    }
  }

  private printBandwidth(report: BandwidthReport): void {
    const { output } = this.endpoint.settings;
    this.print(Report.bandwidthRow(report), output === 'message_rate' ? report.messageRate : report.average);
  }

  /** Reports how much the counters of the port have grown since the last report. */
  private reportCounters(): void {
    if (this.counters === null) return;
    const counters = this.counters.differences();
    const last = this.results.at(-1);
    if (last !== undefined) last.counters = counters;
    this.print(Report.counterRows(counters));
  }

  /** Prints a row per --duration until the process is stopped, and then the lowest bandwidth. */
  private async runForever(workload: BandwidthSender | BandwidthReceiver, size: number): Promise<void> {
    const { endpoint, output, intervals } = this;
    for (;;) {
      workload.window.restart(endpoint.context.nowNs());
      await this.drive(workload, size);
      const report = this.reportOf(workload, size);
      intervals.push(report.average);
      output.setLastLine?.(Report.lowest(endpoint.settings, intervals));
      this.printBandwidth(report);
      this.reportCounters();
    }
  }

  /** Prints a row for each interval of --interval that is over. */
  private reportIntervals({ intervals, fromNs, intervalNs }: MeasuringWindow, sizeBytes: number): void {
    if (this.intervals.length === intervals.length) return;
    const nowNs = this.endpoint.context.nowNs();
    for (let i = this.intervals.length; i < intervals.length; i++) {
      const toNs = fromNs + (i + 1) * intervalNs;
      if (nowNs < toNs) return;
      const part = { messages: intervals[i], fromNs: 0, toNs: intervalNs };
      const gbits = this.endpoint.settings.report_gbits;
      const report = bandwidthOf(part, sizeBytes, { gbits, bestNs: 0 });
      this.intervals.push(report.average);
      if (this.endpoint.settings.output === undefined) this.printBandwidth(report);
    }
  }

  /** Steps a workload to its end; now and then yields to the event loop, which serves the channel. */
  private async drive(workload: Workload, sizeBytes: number): Promise<void> {
    const { endpoint, output } = this;
    if (endpoint.sleeper !== null) return this.driveByEvents(workload, endpoint.sleeper);
    const everyMs = isAlone(endpoint) ? 0 : 50;
    let nextMs = performance.now() + everyMs;
    for (let steps = 1; !workload.step(); steps++) {
      if (everyMs > 0 && ((steps & 0xff) !== 0 || performance.now() < nextMs)) continue;
      await new Promise((resolve) => setImmediate(resolve));
      if (endpoint.channel.ended !== null) throw endpoint.channel.ended;
      nextMs = performance.now() + everyMs;
      output.progress(workload.window.messages);
      this.reportIntervals(workload.window, sizeBytes);
    }
    this.reportIntervals(workload.window, sizeBytes);
  }

  /** Steps a workload whenever something has completed, and sleeps in between. */
  private async driveByEvents(workload: Workload, sleeper: Sleeper): Promise<void> {
    const { endpoint, output } = this;
    endpoint.channel.onEnd = () => sleeper.wake();
    const alone = isAlone(endpoint);
    for (let seen = endpoint.polled; !workload.step(); seen = endpoint.polled) {
      if (endpoint.polled === seen) {
        sleeper.arm();
        if (workload.step()) return;
        if (endpoint.polled === seen) await sleeper.sleep();
      } else if (alone) await new Promise((resolve) => setImmediate(resolve));
      if (endpoint.channel.ended !== null) throw endpoint.channel.ended;
      output.progress(workload.window.messages);
    }
  }

  /** Prints a line of the table, or with --output only `value`. */
  private print(line: string, value?: number): void {
    const { output, json } = this.endpoint.settings;
    if (json) return;
    if (output === undefined) this.output.print(line);
    else if (value !== undefined) this.output.print(value.toFixed(6));
  }

  private finish(): void {
    const { endpoint, output, results } = this;
    const { json, out_json, out_json_file } = endpoint.settings;
    if (!json && !out_json) return;
    const text = Report.json(endpoint, results);
    if (json) output.print(text);
    if (out_json) writeFileSync(out_json_file, `${text}\n`);
  }
}

const sum = (a: BandwidthReport, b: BandwidthReport): BandwidthReport => ({
  ...a,
  peak: a.peak + b.peak,
  average: a.average + b.average,
  messageRate: a.messageRate + b.messageRate,
});

/** Runs one end, from the handshake to its close. */
async function runEnd(
  settings: Settings,
  context: Context,
  channel: Channel,
  { output, counters }: { output: Output; counters: PortCounters | null },
): Promise<void> {
  let endpoint: Endpoint | undefined;
  try {
    endpoint = await Endpoint.open(settings, context, channel);
    const run = new TestRun(endpoint, output, counters);
    await run.connect();
    await run.measure();
  } catch (error) {
    channel.destroy();
    throw error;
  } finally {
    endpoint?.close();
  }
}

/** Only local connections are accepted. */
const LOCAL = '127.0.0.1';
const SILENT: Output = { print: () => {}, progress: () => {} };

/** How the ends of a test find devices and each other. */
export interface TestEnvironment {
  /** Opens a device, or the first one if the name is undefined. */
  open(device: string | undefined): Context;
  /** The environment for rdma_cm (-z, -R). */
  cm: CmEnvironment;
  /** The counters of the port of an open device. */
  counters?(device: string): CounterSource;
}

/** Runs one end of a test with another process: the client if `server` is set, otherwise the server. */
export async function runTest(
  settings: Settings,
  { open, cm, counters }: TestEnvironment,
  output: Output,
): Promise<void> {
  const { server, ibDev, rdma_cm } = settings;
  // With rdma_cm, the address determines the device.
  let context = rdma_cm && ibDev === undefined ? null : open(ibDev);
  try {
    if (context !== null) {
      requireSupported(context, settings);
      countersOf(settings.reportCounters, counters?.(context.name));
    }
    if (server === null && settings.output === undefined && !settings.json) {
      const line = '*'.repeat(36);
      output.print(`\n${line}\n* Waiting for client to connect... *\n${line}`);
    }
    const channel = await openChannel(settings, cm);
    context ??= open(channel instanceof CmChannel ? channel.deviceName : ibDev);
    await runEnd(settings, context, channel, {
      output,
      counters: countersOf(settings.reportCounters, counters?.(context.name)),
    });
  } finally {
    context?.close();
  }
}

/** Connects to the other end, or waits for it. */
function openChannel(settings: Settings, cm: CmEnvironment): Promise<Channel> {
  const { server, port, source_ip, rdma_cm, com_rdma_cm } = settings;
  if (rdma_cm || com_rdma_cm) {
    return server === null ? acceptCmChannel(cm, settings) : connectCmChannel(cm, { ...settings, server });
  }
  return server === null ? listenOn(port, () => {}, source_ip) : connectTo(server, port, source_ip);
}

/** Runs both ends of a test in this process; only the client prints. */
export async function runBothEnds(
  settings: Settings,
  contexts: { client: Context; server: Context },
  cm: CmEnvironment,
  output: Output,
  counters: PortCounters | null = null,
): Promise<void> {
  const quiet: Settings = {
    ...settings,
    json: false,
    out_json: false,
    limit_bw: undefined,
    limit_msgrate: undefined,
  };
  const { port, rdma_cm, com_rdma_cm } = settings;
  // The address of a simulated host is the name of its device.
  const [at, from] = rdma_cm || com_rdma_cm ? [contexts.server.name, contexts.client.name] : [LOCAL, LOCAL];
  const serving = { ...quiet, source_ip: at };
  const calling = { ...settings, server: at, source_ip: from };
  const channels = await (rdma_cm || com_rdma_cm
    ? openBothChannels(
        (onListening) => acceptCmChannel(cm, serving, () => onListening(port)),
        () => connectCmChannel(cm, calling),
      )
    : openBothChannels(
        (onListening) => listenOn(0, onListening, at),
        (listeningPort) => connectTo(at, listeningPort),
      ));
  await Promise.all([
    runEnd(serving, contexts.server, channels.server, { output: SILENT, counters: null }),
    runEnd(calling, contexts.client, channels.client, { output, counters }),
  ]);
}

/** Opens both channels of one process; the client connects once the server listens. */
async function openBothChannels(
  listen: (onListening: (port: number) => void) => Promise<Channel>,
  connect: (port: number) => Promise<Channel>,
): Promise<{ server: Channel; client: Channel }> {
  let onListening: (port: number) => void = () => {};
  const port = new Promise<number>((resolve) => {
    onListening = resolve;
  });
  const serving = listen(onListening);
  const calling = Promise.race([port, serving.then(() => 0)]).then(connect);
  const [server, client] = await Promise.all([serving, calling]);
  return { server, client };
}

export class WarmUp implements Workload {
  /** Warm-up requests are not counted. */
  readonly window: MeasuringWindow;
  private readonly endpoint: Endpoint;
  private left: number;

  /** Posts the requests. */
  constructor(endpoint: Endpoint, sizeBytes: number) {
    const { txDepth } = endpoint.settings;
    this.endpoint = endpoint;
    this.window = new MeasuringWindow(endpoint.settings, endpoint.context.nowNs());
    this.left = txDepth * endpoint.qps.length;
    const requests = new Requests(endpoint, sizeBytes, { cqMod: 1 });
    for (let index = 0; index < endpoint.qps.length; index++) requests.post(index, txDepth, true);
  }

  step(): boolean {
    this.left -= this.endpoint.poll(this.endpoint.sendCq);
    return this.left === 0;
  }
}
