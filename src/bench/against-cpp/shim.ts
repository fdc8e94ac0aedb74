/**
 * What the shim and the interceptors cost, over the null device: post and poll through each chain against the
 * same loop without any. Medians of interleaved rounds of thread CPU time; JSON on stdout.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PerformanceObserver } from 'node:perf_hooks';
import { count, record, trace } from '../../interceptors/index.ts';
import { Lmse } from '../../policies/perf/lmse.ts';
import { perfOptions } from '../../policies/perf/options.ts';
import { createRdmaCoreProvider } from '../../providers/rdma-core/index.ts';
import { compose, type Interceptor } from '../../shim/compose.ts';
import type { Policy } from '../../shim/policy.ts';
import { createShim } from '../../shim/shim.ts';
import { LIBRARY, type NullQp, openNull } from './null-device.ts';
import { cppLoop, interleaved, loop, nullSink, ROUNDS, round2, splitLoop } from './null-loops.ts';

const PER_ROUND = 320_000;
const SPLIT_MESSAGES = 200;
/** A message of 1 MiB is 64 pieces, each with 16 WAITs. */
const SLOTS_PER_MESSAGE = 64 * 17;
const GC_REQUESTS = 5_000_000;

/** A policy that reads nothing and holds nothing. */
const passThrough = (statistics: boolean): Policy => ({
  name: 'pass-through',
  needs: { wait: 'none' },
  slots: 0,
  statistics,
  onload: (_qp, _words, _start, n) => n,
  feed: () => {},
});

/** An interceptor for people at its least: it calls on. */
const forward: Interceptor = {
  name: 'forward',
  wrap: (next) => ({
    postSend: (qp, ring, start, n) => next.postSend(qp, ring, start, n),
    pollCq: (cq, ring, start, max) => next.pollCq(cq, ring, start, max),
  }),
};

function chains(folder: string): Record<string, Interceptor[]> {
  const pass = () => createShim(() => passThrough(false));
  const traced = (full: 'wait' | 'last', name: string) => trace({ file: join(folder, name), full });
  return {
    none: [],
    pass: [pass()],
    statistics: [createShim(() => passThrough(true))],
    count: [count()],
    trace: [traced('last', 'memory.trace')],
    'trace to file': [traced('wait', 'file.trace')],
    'trace, 2 forwarding': [traced('last', 'three.trace'), forward, forward],
    'trace, 2 pass-through shims': [traced('last', 'shims.trace'), pass(), pass()],
    'record without data': [record({ file: join(folder, 'file.record'), data: false })],
  };
}

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

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-bench-'));
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const cpp = cppLoop();
  const provider = createRdmaCoreProvider();
  const benches = Object.entries(chains(folder)).map(
    ([name, chain]) => [name, openNull(compose(provider, chain))] as const,
  );
  const splitting = createShim(() => new Lmse(perfOptions.parse({ feedPieces: 32 })));
  const splitter = openNull(compose({ ...provider, wait: 'hardware' }, [splitting, nullSink]));
  const cpu = (work: () => void, units: number) => {
    const start = cpp.threadCpuNs();
    work();
    return (cpp.threadCpuNs() - start) / units;
  };
  const runs: Record<string, () => number> = {};
  for (const batch of [1, 32]) {
    for (const [name, bench] of benches) {
      // Those that write to a disk at full speed would take all the time there is.
      const total = /file|record/.test(name) ? PER_ROUND / 8 : PER_ROUND;
      runs[`${name}.${batch}`] = () => cpu(() => loop(bench, total, batch, true), total);
    }
  }
  runs.split = () => cpu(() => splitLoop(splitter, SPLIT_MESSAGES), SPLIT_MESSAGES * SLOTS_PER_MESSAGE);
  const ns = interleaved(runs);
  const gc: Record<string, number> = {};
  for (const [name, bench] of benches) {
    if (!/file|record/.test(name)) gc[name] = await collections(bench);
  }
  rmSync(folder, { recursive: true });
  report(ns, gc);
}

function report(ns: Record<string, number>, gc: Record<string, number>): void {
  const ratio = (name: string, batch: number) => round2(ns[`${name}.${batch}`] / ns[`none.${batch}`]);
  const rounded = Object.entries(ns).map(([name, value]) => [name, round2(value)]);
  const result = {
    benchmark: 'shim',
    node: process.version,
    rounds: ROUNDS,
    nsPerRequest: Object.fromEntries(rounded),
    ratios: {
      'pass-through / none, batch 32 (goal 1.05)': ratio('pass', 32),
      'pass-through / none, batch 1 (goal 1.35)': ratio('pass', 1),
      'trace and two forwarding interceptors / none, batch 32 (goal 2)': ratio('trace, 2 forwarding', 32),
      'trace and two pass-through shims / none, batch 32 (goal 2)': ratio('trace, 2 pass-through shims', 32),
    },
    'statistics of queue pairs, ns per request more, batch 32 (goal 4)': round2(
      ns['statistics.32'] - ns['pass.32'],
    ),
    'split both ways, ns per internal request (goal 12)': round2(ns.split),
    collections: { requests: GC_REQUESTS, ...gc },
  };
  console.log(JSON.stringify(result, null, 2));
}

void main();
