/**
 * Measures the cost of the shim and of interceptors over the null device: post and poll through each chain, against the
 * same loop without one. A program has one chain, so each chain is measured in a separate process, in alternation with
 * no chain. Prints JSON with medians of thread CPU time.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { workerDriver } from '#src/drivers/worker/front.ts';
import { count, record, trace } from '#src/interceptors/index.ts';
import { perf } from '#src/policies/perf/index.ts';
import { perfOptions } from '#src/policies/perf/options.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import type { Policy } from '#src/shim/policy.ts';
import { createShim } from '#src/shim/shim.ts';
import * as V from '#src/verbs/index.ts';
import { rounded } from '../timing.ts';
import { anotherQp, LIBRARY, type NullQp, openNull } from './null-device.ts';
import { type Comparison, compare, cppLoop, loop, nullSink, splitLoop } from './null-loops.ts';

const PER_SLICE = 16_000;
const SPLIT_MESSAGES = 20;
/** A message of 1 MiB becomes 64 pieces with 16 WAITs each. */
const SLOTS_PER_MESSAGE = 64 * 17;
const GC_REQUESTS = 5_000_000;
/** Queue pairs whose memory is measured, each of perftest's depth. */
const QPS = 1000;
const DEPTH = 128;
/** Tenants whose memory is measured, each with a context and a queue pair, after some that only load the code. */
const TENANTS = 8;
const TENANTS_BEFORE = 4;

/** A policy that passes everything through. */
const passThrough = (statistics: boolean): Policy => ({
  name: 'pass-through',
  needs: { wait: 'none' },
  slots: 0,
  statistics,
  onload: (_qp, _words, _start, n) => n,
  feed: () => {},
});

/** The smallest possible interceptor: it only forwards. */
const forward: Interceptor = {
  name: 'forward',
  wrap: (next) => ({
    postSend: (qp, ring, start, n) => next.postSend(qp, ring, start, n),
    pollCq: (cq, ring, start, max) => next.pollCq(cq, ring, start, max),
  }),
};

/** Declares that the device executes WAIT, so that nothing is emulated below the policy. */
const hardware: Interceptor = { name: 'hardware', wrap: () => ({ wait: 'hardware' }) };

const pass = () => createShim(() => passThrough(false));
const traced = (folder: string, full: 'wait' | 'last' = 'last') =>
  trace({ file: join(folder, 'trace'), full });

const CHAINS: Record<string, (folder: string) => Interceptor[]> = {
  'pass-through': () => [pass()],
  statistics: () => [createShim(() => passThrough(true))],
  count: () => [count()],
  trace: (folder) => [traced(folder)],
  'trace to file': (folder) => [traced(folder, 'wait')],
  'trace, 2 forwarding': (folder) => [traced(folder), forward, forward],
  'trace, 2 pass-through shims': (folder) => [traced(folder), pass(), pass()],
  'record without data': (folder) => [record({ file: join(folder, 'record'), data: false })],
  perf: () => [perf(perfOptions.parse({})), hardware],
  'perf, WAIT emulated': () => [perf(perfOptions.parse({}))],
};

interface ChainCost {
  readonly 1: Comparison;
  readonly 32: Comparison;
  readonly collections: number | null;
}

/** Garbage collections during many requests. */
async function collections(bench: NullQp): Promise<number> {
  let found = 0;
  const observer = new PerformanceObserver((list) => {
    found += list.getEntries().length;
  });
  global.gc?.();
  await new Promise((resolve) => setTimeout(resolve, 20));
  observer.observe({ entryTypes: ['gc'] });
  loop(bench, GC_REQUESTS, 32, true);
  await new Promise((resolve) => setTimeout(resolve, 20));
  observer.disconnect();
  return found;
}

const cpp = cppLoop();

function cpuNs(work: () => void, units: number): number {
  const start = cpp.threadCpuNs();
  work();
  return (cpp.threadCpuNs() - start) / units;
}

async function chainCost(name: string): Promise<ChainCost> {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-bench-'));
  const provider = createRdmaCoreProvider();
  const none = openNull(provider);
  const bench = openNull(compose(provider, CHAINS[name](folder)));
  // Chains that write to disk are slow, so their slices are shorter.
  const writes = /file|record/.test(name);
  const total = writes ? PER_SLICE / 4 : PER_SLICE;
  const at = (batch: number) =>
    compare(
      () => cpuNs(() => loop(none, PER_SLICE, batch, true), PER_SLICE),
      () => cpuNs(() => loop(bench, total, batch, true), total),
    );
  const cost = { 1: at(1), 32: at(32), collections: writes ? null : await collections(bench) };
  rmSync(folder, { recursive: true });
  return cost;
}

/** Nanoseconds of post and poll per slot that a split message becomes. */
function splitNs(): number {
  const splitting = perf(perfOptions.parse({ isolation: 'always', waits: 'fixed', feedPieces: 32 }));
  const splitter = openNull(
    compose({ ...createRdmaCoreProvider(), wait: 'hardware' }, [splitting, nullSink]),
  );
  const run = () => cpuNs(() => splitLoop(splitter, SPLIT_MESSAGES), SPLIT_MESSAGES * SLOTS_PER_MESSAGE);
  return compare(run, run).ns;
}

/** Heap and buffer bytes per queue pair that has held a request. */
function bytesPerQp(chain: readonly Interceptor[]): number {
  const bench = openNull(compose(createRdmaCoreProvider(), chain));
  const before = usedBytes();
  for (let i = 0; i < QPS; i++) {
    const qp = anotherQp(bench, DEPTH);
    bench.send.clear().write(i, 2, 0x10000000, 1 << 20, 7, 0x20000000, 9);
    bench.provider.postSend(qp, bench.send.ring, 0, 1);
    while (bench.provider.pollCq(bench.cq, bench.wcs.ring, 0, 16) > 0);
  }
  return (usedBytes() - before) / QPS;
}

function usedBytes(): number {
  global.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function memory(): number {
  return bytesPerQp([perf(perfOptions.parse({ isolation: 'always' })), hardware, nullSink]);
}

const TENANT_CHAINS: Record<string, () => Interceptor[]> = {
  none: () => [],
  inline: () => [perf(perfOptions.parse({ isolation: 'always' }))],
  worker: () => [workerDriver([{ name: 'perf', options: { isolation: 'always' } }])],
};

/** Opens a tenant as a program would: with its own chain and context, and a queue pair that has held a request. */
function openTenant(chain: readonly Interceptor[]): NullQp {
  const bench = openNull(compose(createRdmaCoreProvider(), chain));
  const qp = anotherQp(bench, DEPTH);
  bench.send.clear().write(1, V.IBV_SEND_SIGNALED, 0x10000000, 1 << 20, 7, 0x20000000, 9);
  bench.provider.postSend(qp, bench.send.ring, 0, 1);
  while (bench.provider.pollCq(bench.cq, bench.wcs.ring, 0, 16) === 0);
  return bench;
}

const tenants: NullQp[] = [];

/** Resident memory of an additional tenant. */
async function bytesPerTenant(name: string): Promise<number> {
  const resident = async (count: number) => {
    for (let i = 0; i < count; i++) tenants.push(openTenant(TENANT_CHAINS[name]()));
    await delay(500);
    global.gc?.();
    return process.memoryUsage.rss();
  };
  const before = await resident(TENANTS_BEFORE);
  return ((await resident(TENANTS)) - before) / TENANTS;
}

/** Runs one measurement in a child process. */
function inChild<T>(name: string): T {
  const script = fileURLToPath(import.meta.url);
  return JSON.parse(execFileSync(process.execPath, ['--expose-gc', script, name], { encoding: 'utf8' }));
}

/** Megabytes that the policy adds to a tenant. */
function tenantMb(name: string): number {
  return rounded((inChild<number>(`tenant ${name}`) - inChild<number>('tenant none')) / 2 ** 20);
}

async function child(name: string): Promise<unknown> {
  if (name.startsWith('tenant ')) return bytesPerTenant(name.slice('tenant '.length));
  if (name === 'split') return splitNs();
  if (name === 'memory') return memory();
  return chainCost(name);
}

function report(costs: Record<string, ChainCost>, split: number, bytes: number): void {
  const ratio = (name: string, batch: 1 | 32) => rounded(costs[name][batch].ratio);
  const more = (name: string, batch: 1 | 32) => rounded(costs[name][batch].moreNs);
  // Each is compared with no chain in its own process: the ratio of ratios is not disturbed by how fast that was.
  const emulatedRatio = (batch: 1 | 32) =>
    rounded(costs['perf, WAIT emulated'][batch].ratio / costs.perf[batch].ratio);
  const each = <T>(of: (cost: ChainCost) => T) =>
    Object.fromEntries(Object.entries(costs).map(([name, cost]) => [name, of(cost)]));
  const figures = ({ ns, baseNs, ratio }: Comparison) => ({
    none: rounded(baseNs),
    ns: rounded(ns),
    ratio: rounded(ratio),
  });
  const result = {
    benchmark: 'shim',
    node: process.version,
    nsPerRequest: each((cost) => ({ batch1: figures(cost[1]), batch32: figures(cost[32]) })),
    'pass-through / none, batch 32 (goal 1.05)': ratio('pass-through', 32),
    'pass-through / none, batch 1 (goal 1.35)': ratio('pass-through', 1),
    'trace and two forwarding interceptors / none, batch 32 (goal 2)': ratio('trace, 2 forwarding', 32),
    'trace and two pass-through shims / none, batch 32 (goal 2)': ratio('trace, 2 pass-through shims', 32),
    'statistics of queue pairs, ns per request more, batch 32 (goal 4)': rounded(
      more('statistics', 32) - more('pass-through', 32),
    ),
    'small requests under perf, ns per request more, batch 1 (goal 15)': more('perf', 1),
    'small requests under perf, ns per request more, batch 32 (goal 4)': more('perf', 32),
    'small requests under perf, WAIT emulated / in the device, batch 1 (goal 1.1)': emulatedRatio(1),
    'small requests under perf, WAIT emulated / in the device, batch 32 (goal 1.1)': emulatedRatio(32),
    'split both ways, ns per internal request (goal 12)': rounded(split),
    'split of 1 MiB into 64 x (1 + 16), us of processor time (goal 10)': rounded(
      (split * SLOTS_PER_MESSAGE) / 1000,
    ),
    'queue pair of depth 128 under perf, KB (goal 64)': rounded(bytes / 1024),
    'tenant with one queue pair under perf, inline, MB (goal 9)': tenantMb('inline'),
    'tenant with one queue pair under perf, in a worker of its own, MB (goal 9)': tenantMb('worker'),
    collections: { requests: GC_REQUESTS, ...each((cost) => cost.collections) },
  };
  console.log(JSON.stringify(result, null, 2));
}

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const name = process.argv[2];
  if (name !== undefined) {
    console.log(JSON.stringify(await child(name)));
    // The tenants' workers would keep the process alive.
    process.exit(0);
  }
  const costs = Object.fromEntries(Object.keys(CHAINS).map((chain) => [chain, inChild<ChainCost>(chain)]));
  report(costs, inChild<number>('split'), inChild<number>('memory'));
}

void main();
