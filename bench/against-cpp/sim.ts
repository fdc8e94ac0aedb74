/**
 * Measures the speed of the simulator relative to C++ on the same core: the hold model of native/bench/hold.cc shows
 * how fast the event queue of a simulator can be there. Every figure is a median of CPU time over rounds that alternate
 * with the hold model, in separate processes on one core. Prints JSON.
 *
 * Goals and floors are ratios to the hold model of the same run. The fastest C++ network simulator, which models no NIC, reaches
 * 0.32 of it with 16 flows.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseApp } from '#src/mix/parse.ts';
import { runMix } from '#src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '#src/mix/spec.ts';
import { PROFILES } from '#src/sim/profile/profiles.ts';
import { ROOT } from '../root.ts';
import { p50 } from '../timing.ts';
import { Load, type LoadOptions } from './sim-load.ts';

interface Case {
  apps: LoadOptions[];
  /** Packets, or messages of one packet each, before and during the measurement. */
  warmup: number;
  packets: number;
}

/** The output of a child process. */
interface Measured {
  perSecond: number;
  packets: number;
  wallMs: number;
  rssMb: number;
  /** Heap growth per packet, between two collections. */
  heapBytesPerPacket: number;
  virtualMs: number;
  gbps: number;
}

/** By case: the ratio to the hold model to reach, and the least that is acceptable. */
const TARGETS: Record<string, { goal: number; floor: number | null }> = {
  packets: { goal: 0.32, floor: 0.25 },
  messages64: { goal: 0.16, floor: 0.12 },
  apps1000: { goal: 0.16, floor: null },
};
/** By mix: wall time to reach, in milliseconds. */
const MIX_GOALS_MS: Record<string, number> = { 'mix B+D+M, 20 ms': 120 };
const ROUNDS = 7;
const HOLD_EVENTS = 1000;
const HOLD_OPERATIONS = 10_000_000;
const PROFILE = 'cx6-100g';

const BULK: LoadOptions = { qps: 16, sizeBytes: 64_000, batch: 1, depth: 4 };
const B: LoadOptions = { qps: 8, sizeBytes: 1 << 20, batch: 1, depth: 4 };
const M: LoadOptions = { qps: 1, sizeBytes: 16, batch: 32, depth: 128 };

const CASES: Record<string, Case> = {
  packets: { apps: [BULK], warmup: 300_000, packets: 2_000_000 },
  messages64: { apps: [{ ...M, qps: 16, sizeBytes: 64 }], warmup: 300_000, packets: 2_000_000 },
  apps1000: { apps: [...Array<LoadOptions>(1000).fill(B), M], warmup: 300_000, packets: 2_000_000 },
};

/** The result of a run through `isoverbs mix`, including connections, host cores and meters. */
interface MixMeasured {
  wallMs: number;
  packets: number;
  packetsPerSecond: number;
  rssMb: number;
}

const MIXES: Record<string, MixSpec> = {
  'mix B+D+M, 20 ms': {
    ...DEFAULTS,
    apps: ['B:size=1MiB', 'D:size=16', 'M:size=16'].map(parseApp),
  },
  'mix 16 QPs of 64 KB, 20 ms': { ...DEFAULTS, payload: false, apps: [parseApp('B:size=64KB,qps=16')] },
  'mix 1000 apps of 8 QPs and one M, 20 ms': {
    ...DEFAULTS,
    payload: false,
    // Messages of one packet, so that a round over 8,000 queue pairs takes 2.7 ms and the mix has completions.
    apps: [parseApp('B:size=4KiB,qps=8,count=1000'), parseApp('M:size=16')],
  },
};

async function measureMix(spec: MixSpec): Promise<MixMeasured> {
  const cpuBefore = process.cpuUsage();
  const wallBefore = performance.now();
  const { packets } = await runMix(spec);
  const cpu = process.cpuUsage(cpuBefore);
  return {
    wallMs: performance.now() - wallBefore,
    packets,
    packetsPerSecond: (packets * 1e6) / (cpu.user + cpu.system),
    rssMb: process.memoryUsage().rss / 1e6,
  };
}

function measure({ apps, warmup, packets }: Case): Measured {
  const load = new Load(PROFILES[PROFILE], 1);
  for (const app of apps) load.add(app);
  load.start();
  const { sim } = load;
  const runTo = (count: number) => {
    while (load.packets < count) for (let i = 0; i < 1000; i++) sim.step();
  };
  runTo(warmup);
  globalThis.gc?.();
  const before = {
    heap: process.memoryUsage().heapUsed,
    cpu: process.cpuUsage(),
    wall: performance.now(),
    packets: load.packets,
    ns: sim.nowNs,
    bytes: load.deliveredBytes(),
  };
  runTo(warmup + packets);
  const cpu = process.cpuUsage(before.cpu);
  const wallMs = performance.now() - before.wall;
  globalThis.gc?.();
  const count = load.packets - before.packets;
  const virtualNs = sim.nowNs - before.ns;
  return {
    perSecond: (count * 1e6) / (cpu.user + cpu.system),
    packets: count,
    wallMs,
    rssMb: process.memoryUsage().rss / 1e6,
    heapBytesPerPacket: (process.memoryUsage().heapUsed - before.heap) / count,
    virtualMs: virtualNs / 1e6,
    gbps: ((load.deliveredBytes() - before.bytes) * 8) / virtualNs,
  };
}

/** Runs a program, pinned to one core if taskset exists; returns its output. */
function onOneCore(program: string, args: string[]): string {
  const pinned = ['taskset', '-c', '0', program, ...args];
  const hasTaskset = spawnSync('taskset', ['-c', '0', 'true']).status === 0;
  const [command, ...rest] = hasTaskset ? pinned : [program, ...args];
  const { status, stdout, stderr, error } = spawnSync(command, rest, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} failed: ${error?.message ?? stderr}`);
  return stdout;
}

function buildHold(): string {
  const source = `${ROOT}native/bench/hold.cc`;
  const out = `${ROOT}out/`;
  mkdirSync(out, { recursive: true });
  const compiler = process.env.CXX ?? 'g++';
  const built = spawnSync(compiler, ['-O2', '-std=c++20', source, '-o', `${out}hold`], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`${compiler}: ${built.error?.message ?? built.stderr}`);
  return `${out}hold`;
}

function inChild<T>(name: string): T {
  return JSON.parse(onOneCore(process.execPath, ['--expose-gc', fileURLToPath(import.meta.url), name]));
}

function round(value: number, digits: number): number {
  return Number(value.toPrecision(digits));
}

function medians(runs: MixMeasured[]): MixMeasured {
  const of = (key: keyof MixMeasured) => Math.round(p50(runs.map((run) => run[key])));
  return {
    wallMs: of('wallMs'),
    packets: of('packets'),
    packetsPerSecond: of('packetsPerSecond'),
    rssMb: of('rssMb'),
  };
}

function report(rounds: number): object {
  const hold = buildHold();
  const holds: number[] = [];
  const figures: Record<string, Measured[]> = {};
  const mixes: Record<string, MixMeasured[]> = {};
  for (let i = 0; i < rounds; i++) {
    for (const name of Object.keys(CASES)) {
      holds.push(Number(onOneCore(hold, [String(HOLD_EVENTS), String(HOLD_OPERATIONS)])));
      figures[name] ??= [];
      figures[name].push(inChild(name));
    }
    for (const name of Object.keys(MIXES)) {
      mixes[name] ??= [];
      mixes[name].push(inChild(name));
    }
  }
  const holdPerSecond = p50(holds);
  const of = (name: string, key: keyof Measured) => p50(figures[name].map((m) => m[key]));
  const rate = (name: string) => ({
    perSecond: Math.round(of(name, 'perSecond')),
    ratioToHold: round(of(name, 'perSecond') / holdPerSecond, 3),
    ...TARGETS[name],
    gbps: round(of(name, 'gbps'), 4),
    heapBytesPerPacket: round(of(name, 'heapBytesPerPacket'), 2),
  });
  return {
    profile: PROFILE,
    rounds,
    holdPerSecond: Math.round(holdPerSecond),
    packets: rate('packets'),
    messages64: rate('messages64'),
    apps1000: {
      ...rate('apps1000'),
      slowerThan16Qps: round(of('packets', 'perSecond') / of('apps1000', 'perSecond'), 3),
      rssMb: Math.round(of('apps1000', 'rssMb')),
    },
    mixes: Object.fromEntries(
      Object.entries(mixes).map(([name, runs]) => [name, { ...medians(runs), goalMs: MIX_GOALS_MS[name] }]),
    ),
  };
}

const [argument] = process.argv.slice(2);
if (argument !== undefined && Object.hasOwn(CASES, argument))
  console.log(JSON.stringify(measure(CASES[argument])));
else if (argument !== undefined && Object.hasOwn(MIXES, argument))
  console.log(JSON.stringify(await measureMix(MIXES[argument])));
else console.log(JSON.stringify(report(Number(argument ?? ROUNDS)), null, 2));
