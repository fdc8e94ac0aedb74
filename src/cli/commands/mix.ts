/** `isoverbs mix`: any mixture of applications, on simulated devices in virtual time or on real ones. */
import { performance } from 'node:perf_hooks';
import type { Command } from 'commander';
import type { DriverName } from '../../drivers/index.ts';
import { specOf as mixSpec } from '../../mix/jobs.ts';
import { runLive } from '../../mix/live/run.ts';
import { LIVE_DEFAULTS, type LiveResult, type LiveSpec } from '../../mix/live/spec.ts';
import { parseApp, parsePolicy } from '../../mix/parse.ts';
import { CableCapture } from '../../mix/record/cable-capture.ts';
import type { RunObserver } from '../../mix/record/run-observer.ts';
import { RunTrace } from '../../mix/record/run-trace.ts';
import type { MixResult } from '../../mix/result.ts';
import { runMix } from '../../mix/run.ts';
import { DEFAULTS, type MixSpec, type QueuePairName, TIMELINE_POINTS } from '../../mix/spec.ts';
import type { Resource } from '../../policies/kit/cost/bottleneck.ts';
import { captureTo } from '../../providers/soft/index.ts';
import type { Departure } from '../../sim/egress/departure-log.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { meantBy } from '../../verbs/suggestions.ts';
import { NANOSECONDS, parseQuantity, parseWhole } from '../../verbs/units.ts';
import { describe } from '../manual.ts';
import { addMixOptions, collect, type MixDefaults, type MixWords, mixOf } from '../mix-options.ts';
import { jsonText } from '../output/json.ts';
import { mixSvg } from '../output/mix-svg.ts';
import { mixTable, policyStateLines } from '../output/mix-table.ts';
import { requireDistinct, requirePicture, requireWritable, writeOutput } from '../output/svg.ts';
import { outWidth, wrapped } from '../output/table.ts';
import { ticker } from '../output/ticker.ts';

/** The options as commander parses them: still strings. */
interface Options extends MixWords {
  provider: string;
  device?: string[];
  policy?: string[];
  driver?: string;
  seed?: string;
  at?: string[];
  payload: boolean;
  details?: boolean;
  departures?: string[];
  gauges?: boolean;
  pcap?: string;
  trace?: string;
  json?: boolean;
  plot?: string;
}

/** Resources of a NIC in a sentence that ends with its host. */
const RESOURCES: Readonly<Record<Resource, string>> = {
  'link out': 'the link out of',
  'link in': 'the link into',
  'PCIe read': 'PCIe reads of',
  'PCIe write': 'PCIe writes of',
  'processing units': 'the processing units of',
  receiver: 'the receiver of',
  atomics: 'the atomics of',
};

const PROVIDERS: readonly string[] = ['sim', 'rdma-core', 'soft'];

/** Defaults for simulated devices. */
const SIM_DEFAULTS: MixDefaults = {
  apps: [],
  duration: `${DEFAULTS.durationNs / 1e6}ms`,
  warmup: `${DEFAULTS.warmupNs / 1e6}ms`,
};

/** Adds `mix` to the program. */
export function addMix(command: Command): void {
  const sub = command
    .command('mix')
    .description('run a mixture of applications on simulated or real devices, and report what each achieved');
  addMixOptions(sub, { duration: '20ms; real devices: 5s', warmup: '2ms; real devices: 1s' })
    .option(
      '--provider <provider>',
      `where to run: ${PROVIDERS.join(', ')} (rdma-core and soft: in real time)`,
      'sim',
    )
    .option(
      '--device <device>',
      'real device of host 0, then of host 1, and so on; a single device serves both ends (default: the first device)',
      collect,
    )
    .option(
      '--policy <policy[:option[=value],...]>',
      'isolation policy between the applications and the device; OUTER;INNER for several policies, and @HOST=POLICY or @FIRST-LAST=POLICY for single hosts; may be repeated (default: none)',
      collect,
    )
    .option(
      '--driver <driver>',
      "core to which the policy's steps are charged: inline (the application's) or worker (its own) (default: inline)",
    )
    .option('--seed <n>', 'seed of all random variation: start phases, jitter, think times ... (default: 1)')
    .option(
      '--at <time:action>',
      "during the run, at this time: 'set APP KEY=VALUE' (rate, weight, qpWeight, group, groupWeight or kind), 'close APP', 'kill TENANT', 'stall HOST TIME', 'coordinator [HOST] down|up' or 'agent [HOST] down|up'; may be repeated",
      collect,
    );
  addResultOptions(sub).action(mix);
  describe(sub, {
    about:
      'Runs a mixture of applications of the kinds B (bandwidth), M (message rate) and D (delay), and reports ' +
      'what each of them achieved. On simulated devices, it runs in virtual time, and the same command gives ' +
      'the same result on every machine. On real devices, it runs in real time.',
    examples: [
      [
        'isoverbs mix --app B:size=1MiB --app D:size=16',
        'bulk transfers next to small messages, on a simulated ConnectX-6',
      ],
      ['isoverbs mix --app B --app D --policy perf', 'the same under a policy'],
      [
        "isoverbs mix --app B --app B:name=late,start=5ms --at '10ms:kill late' --plot run.svg",
        'a tenant that arrives and dies',
      ],
      [
        'isoverbs mix --app M:qps=4 --profile cx5-100g --set linkGbps=40 --json',
        'another NIC, with JSON output',
      ],
      [
        'isoverbs mix --provider rdma-core --device rxe0 --app B:size=256KiB --app D',
        'on a real device that serves both ends',
      ],
      [
        'isoverbs mix --provider soft --app B:size=64KiB --duration 1s --warmup 100ms --pcap run.pcapng',
        'over UDP sockets',
      ],
    ],
    failed: 'the device failed, or the run broke an invariant',
    environment: ['ISOVERBS_FACTS', 'ISOVERBS_NO_ADDON'],
    seeAlso: ['docs/mix.md', 'docs/simulation.md', 'isoverbs policies'],
  });
}

/** Adds the options that say what is reported, and where. */
function addResultOptions(sub: Command): Command {
  return sub
    .option('--no-payload', 'copy no payload bytes, which is faster and gives the same result')
    .option(
      '--details',
      'also report the 80th percentile, the results of each queue pair, the counters of the policies and of the NICs, and the resource of which each application takes the largest part',
    )
    .option('--gauges', 'also report quantities of policies over time, such as tokens and held requests')
    .option(
      '--departures <app[#n]=file>',
      'write each packet of queue pair n (default 0) to this file, as JSON, or as CSV if its name ends with .csv; may be repeated',
      collect,
    )
    .option(
      '--pcap <file[@end,...]>',
      "write the packets of all cables, or of those at these ends ('host0', 'switch0.3'), to this file: RoCEv2 in pcapng, for Wireshark and tshark; soft: those of all devices",
    )
    .option(
      '--trace <file>',
      'write the run to this file as Chrome trace events, for Perfetto: a track for each queue pair, processing unit, port and core',
    )
    .option('--json', 'print one JSON object')
    .option('--plot <file>', 'draw bandwidth, message rate and latency over time into this SVG file');
}

async function mix(options: Options): Promise<void> {
  if (!PROVIDERS.includes(options.provider)) {
    throw new ConfigError(
      `provider: '${options.provider}' is not one of ${PROVIDERS.join(', ')}${meantBy(options.provider, PROVIDERS)}`,
    );
  }
  if (options.provider === 'sim') await simulated(options);
  else await live(options);
}

async function live(options: Options): Promise<void> {
  const spec = liveSpecOf(options);
  if (options.pcap !== undefined) {
    if (spec.provider !== 'soft') {
      throw new ConfigError(
        '--pcap is for simulated devices and for user-space RoCE (--provider sim or soft)',
      );
    }
    captureTo(options.pcap);
  }
  const startMs = performance.now();
  const result = await runLive(spec);
  const wallMs = Math.round(performance.now() - startMs);
  process.stdout.write(options.json === true ? json(result, wallMs) : liveText(result));
  if (result.invariants.length > 0) throw new Error(result.invariants.join('; '));
}

async function simulated(options: Options): Promise<void> {
  const spec = specOf(options);
  const files = departureFiles(options);
  requireDistinct([
    ...files.map(({ file }) => ['departures', file] as const),
    ['pcap', captureOf(options)?.file],
    ['trace', options.trace],
    ['plot', options.plot],
  ]);
  if (options.plot !== undefined) await requirePicture('plot', options.plot);
  for (const { file } of files) requireWritable('departures', file);
  const observers = observersOf(options);
  const startMs = performance.now();
  const done = ticker('simulating');
  const { departures = [], ...result } = await runMix(spec, observers).finally(done);
  const wallMs = Math.round(performance.now() - startMs);
  for (const [i, { packets }] of departures.entries()) writeDepartures(files[i].file, packets);
  const { timeline } = result;
  if (options.plot !== undefined && timeline !== undefined)
    writeOutput(options.plot, await mixSvg(result, timeline));
  process.stdout.write(options.json === true ? json(result, wallMs) : text(result, wallMs));
  if (result.invariants.length === 0) return;
  throw new Error(`the simulation broke its invariants: ${result.invariants.join('; ')}`);
}

function time(name: string, given: string | undefined, otherwise: number): number {
  return given === undefined ? otherwise : parseQuantity(name, given, NANOSECONDS);
}

function whole(name: string, given: string | undefined, otherwise: number): number {
  return given === undefined ? otherwise : parseWhole(name, given);
}

/** Options that only apply to simulated devices. */
const SIMULATED = [
  'profile',
  'set',
  'driver',
  'hosts',
  'topology',
  'at',
  'plot',
  'details',
  'gauges',
  'departures',
  'trace',
] as const;

function liveSpecOf(options: Options): LiveSpec {
  const given: string[] = SIMULATED.filter((name) => options[name] !== undefined);
  if (!options.payload) given.push('no-payload');
  if (given.length > 0) throw new ConfigError(`--${given[0]} is for simulated devices (--provider sim)`);
  const { policy, onHosts } = policiesOf(options);
  const use = parsePolicy(policy);
  if (onHosts.length > 0 || use.inner !== undefined) {
    throw new ConfigError(
      'several policies (@HOST=POLICY, or OUTER;INNER) are for simulated devices (--provider sim)',
    );
  }
  return {
    provider: options.provider as LiveSpec['provider'],
    devices: options.device ?? [],
    ...use,
    durationNs: time('duration', options.duration, LIVE_DEFAULTS.durationNs),
    warmupNs: time('warmup', options.warmup, LIVE_DEFAULTS.warmupNs),
    seed: whole('seed', options.seed, DEFAULTS.seed),
    apps: (options.app ?? []).map(parseApp),
  };
}

/** The policy of all hosts, and those of some hosts. */
function policiesOf({ policy = [] }: Options): { policy: string; onHosts: string[] } {
  const [usual = 'none', another] = policy.filter((text) => !text.startsWith('@'));
  if (another !== undefined) {
    throw new ConfigError(
      `policy '${another}': there is '${usual}' already; write '${usual};${another}' for one inside the other, or @HOST=${another}`,
    );
  }
  return { policy: usual, onHosts: policy.filter((text) => text.startsWith('@')) };
}

function specOf(options: Options): MixSpec {
  const { device, driver, seed, at = [], payload, plot, details, gauges } = options;
  if (device !== undefined)
    throw new ConfigError('--device is for real devices (--provider rdma-core or soft)');
  return {
    ...mixSpec(
      { ...mixOf(options, SIM_DEFAULTS), ...policiesOf(options), at },
      whole('seed', seed, DEFAULTS.seed),
    ),
    ...(details === true && { details }),
    ...(options.departures !== undefined && {
      departures: departureFiles(options).map(({ app, queuePair }) => ({ app, queuePair })),
    }),
    ...(driver !== undefined && { driver: driver as DriverName }),
    payload,
    ...((plot !== undefined || gauges === true) && { timelinePoints: TIMELINE_POINTS }),
    ...(gauges === true && { gauges }),
  };
}

/** The queue pairs of `--departures`, each with its file. @throws ConfigError */
function departureFiles({ departures = [] }: Options): (QueuePairName & { file: string })[] {
  return departures.map((text) => {
    const [, app, queuePair = '0', file] = /^([^=#]+)(?:#([^=]*))?=(.+)$/.exec(text) ?? [];
    if (app === undefined) {
      throw new ConfigError(`departures '${text}' is not of the form APP=FILE or APP#N=FILE`);
    }
    return { app, queuePair: parseWhole(`departures '${text}'`, queuePair), file };
  });
}

/** The file of `--pcap`, and the ends of cables that it names. @throws ConfigError */
function captureOf({ pcap }: Options): { file: string; ends: string[] | null } | undefined {
  if (pcap === undefined) return undefined;
  const [, file, ends] = /^([^@].*?)(?:@([^@/]*))?$/.exec(pcap) ?? [];
  if (file === undefined || ends === '') {
    throw new ConfigError(`pcap '${pcap}' is not of the form FILE or FILE@END,...`);
  }
  return { file, ends: ends?.split(',') ?? null };
}

/** What records the run. @throws ConfigError for a file that cannot be written */
function observersOf(options: Options): RunObserver[] {
  const { trace } = options;
  const observers: RunObserver[] = [];
  const capture = captureOf(options);
  if (capture !== undefined) {
    requireWritable('pcap', capture.file);
    observers.push(new CableCapture(capture.file, capture.ends));
  }
  if (trace !== undefined) {
    requireWritable('trace', trace);
    observers.push(new RunTrace(trace));
  }
  return observers;
}

function writeDepartures(file: string, packets: readonly Departure[]): void {
  const columns = ['leftNs', 'host', 'psn', 'payloadBytes', 'wireBytes'] as const;
  const csv = () => [columns, ...packets.map((one) => columns.map((column) => one[column]))].join('\n');
  writeOutput(file, `${file.endsWith('.csv') ? csv() : JSON.stringify(packets)}\n`);
}

function json(result: MixResult | LiveResult, wallMs: number): string {
  const { profile, policy, seed, durationNs, warmupNs, ...rest } = result;
  return jsonText({ profile, policy, seed, durationNs, warmupNs, wallMs, ...rest });
}

function text(result: MixResult, wallMs: number): string {
  const lines: string[] = [];
  for (const { from, to, bytes, utilisation, ...counts } of result.links) {
    const some = Object.entries(counts).filter(([, value]) => value > 0);
    const more = some.map(([name, value]) => `, ${value} ${name}`).join('');
    lines.push(
      `${from} to ${to}: ${(utilisation * 100).toFixed(1)} % used, ${(bytes / 1e6).toFixed(1)} MB${more}`,
    );
  }
  lines.push(
    ...dominantLines(result),
    ...policyStateLines(result),
    ...counted(result),
    ...coordinated(result),
    ...gaugeLines(result),
  );
  const { profile, policy, seed, durationNs, warmupNs, events, packets, traceHash } = result;
  lines.push(
    `${profile}, policy ${policy}, seed ${seed}: ${(durationNs - warmupNs) / 1e6} ms after ${warmupNs / 1e6} ms of warm-up`,
    `${events} events, ${packets} packets in ${wallMs} ms; trace ${traceHash}`,
  );
  return withTable(result, lines);
}

/** The table, and lines below it that fit the terminal. */
function withTable({ apps }: MixResult | LiveResult, lines: readonly string[]): string {
  const fitting = lines.map((line) => wrapped(line, outWidth()));
  return `${[mixTable(apps), '', ...fitting].join('\n')}\n`;
}

function liveText(result: LiveResult): string {
  const { profile, policy, seed, durationNs, warmupNs, verified } = result;
  return withTable(result, [
    ...policyStateLines(result),
    `${profile}, policy ${policy}, seed ${seed}: ${(durationNs - warmupNs) / 1e9} s after ${warmupNs / 1e9} s of warm-up`,
    `${verified} messages were verified at their destination`,
  ]);
}

/** The resource of which each application took the largest part, with details. */
function dominantLines({ apps, nics }: MixResult): string[] {
  if (nics === undefined) return [];
  return apps.flatMap(({ name, dominant }) => {
    if (dominant === undefined) return [];
    const { resource, host, share } = dominant;
    return `${name}: ${(share * 100).toFixed(1)} % of ${RESOURCES[resource]} host${host}`;
  });
}

/** What the shims of each policy counted. */
function counted({ counters = [] }: MixResult): string[] {
  return counters.map(({ name, split, held, internal }) => {
    const { pieces, waits, enables, posts } = internal;
    return `${name}: ${held} requests held, ${split} split into ${pieces} pieces; ${waits} WAITs, ${enables} ENABLEs, ${posts} requests of its own`;
  });
}

/** What the coordinators did, unless that costs nothing. */
function coordinated({ coordinator }: MixResult): string[] {
  if (coordinator === undefined || coordinator.passNs === 0) return [];
  return coordinator.hosts.map(({ host, passes, busyNs }) => {
    const decisions = passes === 1 ? '1 decision' : `${passes} decisions`;
    return `coordinator of host ${host}: ${decisions}, busy for ${busyNs / 1000} us`;
  });
}

/** The course of each gauge. */
function gaugeLines({ timeline }: MixResult): string[] {
  const number = (value: number) => String(Math.round(value * 100) / 100);
  return (timeline?.gauges ?? []).map(({ policy, device, tenant, name, unit, values }) => {
    const known = values.filter((value) => value !== null);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    const ends = `min ${number(Math.min(...known))}, max ${number(Math.max(...known))}`;
    // A gauge of the whole device has no tenant, and a ratio has no unit.
    const of = tenant === '' ? '' : ` of ${tenant}`;
    const last = `last ${number(known[known.length - 1])} ${unit}`.trimEnd();
    return `${policy}: ${name}${of} on ${device}: mean ${number(mean)}, ${ends}, ${last}`;
  });
}
