/**
 * Measures the cost of posting and polling through the packed rings, against a C++ loop over the same null device in
 * the same process. Prints JSON with medians of thread CPU time over interleaved rounds.
 */
import { PerformanceObserver } from 'node:perf_hooks';
import { perf } from '#src/policies/perf/index.ts';
import { perfOptions } from '#src/policies/perf/options.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import { rounded } from '../timing.ts';
import { LIBRARY, type NullQp, openNull } from './null-device.ts';
import { cppLoop, interleaved, loop, nullSink, ROUNDS, splitLoop } from './null-loops.ts';

const PER_ROUND = 640_000;
const GC_POSTS = 10_000_000;

const forward: Interceptor = {
  name: 'forward',
  wrap: (next) => ({
    postSend: (qp, ring, start, count) => next.postSend(qp, ring, start, count),
    pollCq: (cq, ring, start, max) => next.pollCq(cq, ring, start, max),
  }),
};

async function gcDuringPosts(bench: NullQp): Promise<{ posts: number; collections: number }> {
  let collections = 0;
  const observer = new PerformanceObserver((list) => {
    collections += list.getEntries().length;
  });
  global.gc?.();
  await new Promise((resolve) => setTimeout(resolve, 20));
  observer.observe({ entryTypes: ['gc'] });
  loop(bench, GC_POSTS, 32, false);
  await new Promise((resolve) => setTimeout(resolve, 20));
  observer.disconnect();
  return { posts: GC_POSTS, collections };
}

async function main(): Promise<void> {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  const cpp = cppLoop();
  const provider = createRdmaCoreProvider();
  const plain = openNull(provider);
  const forwarded = openNull(compose(provider, [forward]));
  const split = perf(perfOptions.parse({ isolation: 'always', waits: 'fixed', feedPieces: 32 }));
  const shimmed = openNull(compose({ ...provider, wait: 'hardware' }, [split, nullSink]));

  const cpu = (work: () => void, units: number) => {
    const start = cpp.threadCpuNs();
    work();
    return (cpp.threadCpuNs() - start) / units;
  };
  const runs: Record<string, () => number> = {};
  for (const [mode, poll] of [
    ['post', false],
    ['postPoll', true],
  ] as const) {
    for (const batch of [1, 8, 32, 256]) {
      runs[`cpp.${mode}.${batch}`] = () => cpp.run(LIBRARY, PER_ROUND, batch, poll)!;
      runs[`js.${mode}.${batch}`] = () => cpu(() => loop(plain, PER_ROUND, batch, poll), PER_ROUND);
    }
  }
  runs['interceptor.postPoll.32'] = () => cpu(() => loop(forwarded, PER_ROUND, 32, true), PER_ROUND);
  const messages = 400;
  runs['split.slot'] = () => cpu(() => splitLoop(shimmed, messages), messages * 64 * 17);
  const ns = interleaved(runs);
  const gc = await gcDuringPosts(plain);
  const ratio = (a: string, b: string) => rounded(ns[a] / ns[b]);
  const report = {
    benchmark: 'datapath',
    node: process.version,
    rounds: ROUNDS,
    nsPerRequest: Object.fromEntries(Object.entries(ns).map(([name, value]) => [name, rounded(value)])),
    ratios: {
      'post batch 32 / C++ (goal 2.2)': ratio('js.post.32', 'cpp.post.32'),
      'post batch 1 / C++ (goal 7)': ratio('js.post.1', 'cpp.post.1'),
      'post+poll batch 32 / C++ (goal 2.5)': ratio('js.postPoll.32', 'cpp.postPoll.32'),
      'one forwarding interceptor / none, batch 32 (goal 1.05)': ratio(
        'interceptor.postPoll.32',
        'js.postPoll.32',
      ),
    },
    'split 1 MiB into 64 x (1 + 16 WAIT), ns per slot (goal 8)': rounded(ns['split.slot']),
    garbageCollections: gc,
  };
  console.log(JSON.stringify(report, null, 2));
}

void main();
