/** Runs a test of perftest: as a server, as a client, or on simulated devices both in this process. */
import { writeFileSync } from 'node:fs';
import type { Context } from '../objects/index.ts';
import type { CmEnvironment } from '../objects/rdma-cm/index.ts';
import { BandwidthReceiver, BandwidthSender, Both, bandwidthOf, type Party } from './bandwidth.ts';
import { type Channel, connectTo, listenOn } from './channel.ts';
import { answerByCm, CmChannel, callByCm } from './cm-channel.ts';
import { End, requireOf } from './end.ts';
import { type BandwidthReport, exchangeReports } from './handshake.ts';
import { type Exchange, Fetch, latencyOf, SendPingPong, WritePingPong } from './latency.ts';
import * as Report from './report.ts';
import type { Settings } from './settings.ts';
import type { Sleeper } from './sleeper.ts';
import { WarmUp } from './warm-up.ts';

const ALL_SIZES = Array.from({ length: 23 }, (_, i) => 2 << i);
const NOTHING: BandwidthReport = { sizeBytes: 0, iters: 0, peak: 0, average: 0, messageRate: 0 };

/** Where output goes: what a user reads, and what tells how far it is. */
export interface Output {
  print(line: string): void;
  progress(messages: number): void;
}

/** An end with what it says. */
class Run {
  private readonly end: End;
  private readonly output: Output;
  private readonly results: Record<string, number>[] = [];
  private readonly sizes: readonly number[];
  /** Only the end that measures prints results of its own. */
  private readonly sends: boolean;
  /** The limit that a result was below: said when all is told and both ends are done. */
  private below: string | null = null;

  constructor(end: End, output: Output) {
    const { settings, channel } = end;
    this.end = end;
    this.output = output;
    this.sends = channel.role === 'client' || settings.bidirectional;
    this.sizes = settings.all ? ALL_SIZES.filter((size) => size <= settings.sizeBytes) : [settings.sizeBytes];
  }

  async connect(): Promise<void> {
    const { end } = this;
    const { kind } = end.settings;
    this.say(Report.header(end));
    await end.connect((mine, theirs) => {
      for (const keys of mine) this.say(Report.address('local', keys, kind));
      for (const keys of theirs) this.say(Report.address('remote', keys, kind));
    });
    this.say(Report.LINE);
    this.say(Report.columns(end.settings));
  }

  async measure(): Promise<void> {
    const { end } = this;
    const { verb, measures } = end.settings.kind;
    if (measures === 'lat') await this.latencies();
    else if (end.settings.takesReceives) await this.sendBandwidths();
    else if (this.sends) await this.bandwidths();
    else await this.wait();
    this.say(Report.LINE);
    if (measures === 'bw' || verb !== 'write') await end.meet({ patient: true });
    end.channel.close();
    this.finish();
    if (this.below !== null) throw new Error(this.below);
  }

  /** The end whose memory is written or read hears of it at the end. */
  private async wait(): Promise<void> {
    const { end } = this;
    await end.meet({ patient: true });
    this.bandwidth(await exchangeReports(end.channel, NOTHING));
  }

  private async bandwidths(): Promise<void> {
    const { end } = this;
    const { bidirectional, run_infinitely, perform_warm_up } = end.settings;
    let last = NOTHING;
    for (const size of this.sizes) {
      if (perform_warm_up) await this.drive(new WarmUp(end, size));
      if (bidirectional) await end.meet();
      const sender = new BandwidthSender(end, size);
      if (run_infinitely) await this.forever(sender, size);
      else await this.drive(sender);
      if (bidirectional && this.sizes.length > 1) await end.meet({ patient: true });
      last = this.reportOf(sender, size);
      if (bidirectional) last = sum(last, await exchangeReports(end.channel, last));
      this.bandwidth(last);
    }
    if (bidirectional) return;
    await end.meet();
    await exchangeReports(end.channel, last);
  }

  private async sendBandwidths(): Promise<void> {
    const { end, sends } = this;
    const { bidirectional, run_infinitely, durationS, all } = end.settings;
    const receives = end.channel.role === 'server' || bidirectional;
    for (const size of this.sizes) {
      const receiver = receives ? new BandwidthReceiver(end, size) : null;
      await end.meet({ patient: true });
      const sender = sends ? new BandwidthSender(end, size) : null;
      const parties = [receiver, sender].filter((party) => party !== null);
      if (run_infinitely) await this.forever(parties[0], size);
      else await this.drive(parties.length === 1 ? parties[0] : new Both(parties));
      let report = this.reportOf(sender ?? (receiver as BandwidthReceiver), size);
      if (bidirectional && durationS === 0) report = sum(report, await exchangeReports(end.channel, report));
      this.bandwidth(report);
      if (all) await end.meet({ patient: true });
    }
  }

  private async latencies(): Promise<void> {
    const { end } = this;
    const { takesReceives, kind } = end.settings;
    const { verb } = kind;
    const fetches = verb === 'read' || verb === 'atomic';
    // What is read or counted up says nothing.
    if (fetches && end.channel.role === 'server') return;
    for (const size of this.sizes) {
      const exchange = this.exchangeOf(size);
      if (takesReceives) await end.meet({ patient: true });
      await this.drive(exchange);
      const report = latencyOf(exchange, size, fetches);
      const byTime = end.settings.durationS > 0;
      this.results.push(Report.latencyJson(report, byTime));
      this.say(Report.latencyRow(report, byTime), report.average);
    }
  }

  private exchangeOf(size: number): Exchange {
    const { end } = this;
    const { takesReceives, kind } = end.settings;
    if (takesReceives) return new SendPingPong(end, size);
    return kind.verb === 'write' ? new WritePingPong(end, size) : new Fetch(end, size);
  }

  private reportOf(party: BandwidthSender | BandwidthReceiver, size: number): BandwidthReport {
    const bestNs = party instanceof BandwidthSender ? party.bestNs() : 0;
    return bandwidthOf(party.window, size, { gbits: this.end.settings.report_gbits, bestNs });
  }

  private bandwidth(report: BandwidthReport): void {
    const { output, limit_bw, limit_msgrate } = this.end.settings;
    this.results.push(Report.bandwidthJson(report));
    this.say(Report.bandwidthRow(report), output === 'message_rate' ? report.messageRate : report.average);
    if (limit_bw !== undefined && report.average < limit_bw) this.below ??= 'BW result is below bw limit';
    if (limit_msgrate !== undefined && report.messageRate < limit_msgrate) {
      this.below ??= 'Msg rate  is below msg_rate limit';
    }
  }

  /** A row every so many seconds, until it is stopped. */
  private async forever(party: BandwidthSender | BandwidthReceiver, size: number): Promise<void> {
    const { end } = this;
    for (;;) {
      party.window.restart(end.context.nowNs());
      await this.drive(party);
      this.say(Report.bandwidthRow(this.reportOf(party, size)));
    }
  }

  /** Steps until it is done, and lets the event loop look after the other end now and then. */
  private async drive(party: Party): Promise<void> {
    const { end, output } = this;
    if (end.sleeper !== null) return this.driveAsleep(party, end.sleeper);
    const everyMs = end.context.provider.threads === 'one' ? 0 : 50;
    let nextMs = performance.now() + everyMs;
    for (let steps = 1; !party.step(); steps++) {
      if (everyMs > 0 && ((steps & 0xff) !== 0 || performance.now() < nextMs)) continue;
      await new Promise((resolve) => setImmediate(resolve));
      if (end.channel.ended !== null) throw end.channel.ended;
      nextMs = performance.now() + everyMs;
      output.progress(party.window.messages);
    }
  }

  /** Steps when something has completed. */
  private async driveAsleep(party: Party, sleeper: Sleeper): Promise<void> {
    const { end, output } = this;
    end.channel.onEnd = () => sleeper.ring();
    const alone = end.context.provider.threads === 'one';
    for (let seen = end.polled; !party.step(); seen = end.polled) {
      if (end.polled === seen) {
        sleeper.arm();
        if (party.step()) return;
        if (end.polled === seen) await sleeper.sleep();
      } else if (alone) await new Promise((resolve) => setImmediate(resolve));
      if (end.channel.ended !== null) throw end.channel.ended;
      output.progress(party.window.messages);
    }
  }

  /** A line of the table; with --output only the one number. */
  private say(line: string, value?: number): void {
    const { output, json } = this.end.settings;
    if (json) return;
    if (output === undefined) this.output.print(line);
    else if (value !== undefined) this.output.print(value.toFixed(6));
  }

  private finish(): void {
    const { end, output, results } = this;
    const { json, out_json, out_json_file } = end.settings;
    if (!json && !out_json) return;
    const text = Report.json(end, results);
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

/** One end, from the handshake to its close. */
async function runEnd(settings: Settings, context: Context, channel: Channel, output: Output): Promise<void> {
  try {
    const end = await End.open(settings, context, channel);
    const run = new Run(end, output);
    await run.connect();
    await run.measure();
  } catch (error) {
    channel.destroy();
    throw error;
  }
}

/** Nobody else is to answer. */
const LOCAL = '127.0.0.1';
const SILENT: Output = { print: () => {}, progress: () => {} };

/** Where the ends of a test find devices and each other. */
export interface Surroundings {
  /** Opens the device; undefined: the first one. */
  open(device: string | undefined): Context;
  /** Whose rdma_cm the ends speak by (-z, -R). */
  cm: CmEnvironment;
}

/** A test with another process: its client if a server is named, else the server. */
export async function runTest(settings: Settings, { open, cm }: Surroundings, output: Output): Promise<void> {
  const { server, ibDev, rdma_cm } = settings;
  // Whom rdma_cm connects is on the device that the address leads to.
  let context = rdma_cm && ibDev === undefined ? null : open(ibDev);
  try {
    if (context !== null) requireOf(context, settings);
    if (server === null && settings.output === undefined && !settings.json) {
      const line = '*'.repeat(36);
      output.print(`\n${line}\n* Waiting for client to connect... *\n${line}`);
    }
    const channel = await reach(settings, cm);
    context ??= open(channel instanceof CmChannel ? channel.deviceName : ibDev);
    await runEnd(settings, context, channel, output);
  } finally {
    context?.close();
  }
}

/** The other end: called, or waited for. */
function reach(settings: Settings, cm: CmEnvironment): Promise<Channel> {
  const { server, port, source_ip, rdma_cm, com_rdma_cm } = settings;
  if (rdma_cm || com_rdma_cm) {
    return server === null ? answerByCm(cm, settings) : callByCm(cm, { ...settings, server });
  }
  return server === null ? listenOn(port, () => {}, source_ip) : connectTo(server, port, source_ip);
}

/** A test of two devices of this process: what the client prints. */
export async function runBothEnds(
  settings: Settings,
  contexts: { client: Context; server: Context },
  cm: CmEnvironment,
  output: Output,
): Promise<void> {
  const quiet: Settings = {
    ...settings,
    json: false,
    out_json: false,
    limit_bw: undefined,
    limit_msgrate: undefined,
  };
  const { port, rdma_cm, com_rdma_cm } = settings;
  // Simulated hosts go by the names of their devices.
  const [at, from] = rdma_cm || com_rdma_cm ? [contexts.server.name, contexts.client.name] : [LOCAL, LOCAL];
  const serving = { ...quiet, source_ip: at };
  const calling = { ...settings, server: at, source_ip: from };
  const channels = await (rdma_cm || com_rdma_cm
    ? meet(
        (heard) => answerByCm(cm, serving, () => heard(port)),
        () => callByCm(cm, calling),
      )
    : meet(
        (heard) => listenOn(0, heard, at),
        (heardAt) => connectTo(at, heardAt),
      ));
  await Promise.all([
    runEnd(serving, contexts.server, channels.server, SILENT),
    runEnd(calling, contexts.client, channels.client, output),
  ]);
}

/** Two ends of one process: who calls waits until somebody listens. */
async function meet(
  listen: (heard: (port: number) => void) => Promise<Channel>,
  call: (port: number) => Promise<Channel>,
): Promise<{ server: Channel; client: Channel }> {
  let heard: (port: number) => void = () => {};
  const port = new Promise<number>((resolve) => {
    heard = resolve;
  });
  const serving = listen(heard);
  const calling = Promise.race([port, serving.then(() => 0)]).then(call);
  const [server, client] = await Promise.all([serving, calling]);
  return { server, client };
}
