/**
 * Prints the bytes allocated per packet by the built package, and the number of garbage collections:
 *   node --expose-gc --min-semi-space-size=64 --max-semi-space-size=64 test/sim/garbage-run.mjs PROFILE LOAD [SCHEDULER]
 * The young generation has room for all that a million packets could allocate: nothing is collected unseen.
 */
import { PerformanceObserver } from 'node:perf_hooks';

// Warm up until everything is compiled, since uncompiled code allocates every double.
const WARMUP = 1_500_000;
const PACKETS = 1_000_000;

const built = (/** @type {string} */ file) => import(new URL(`../../${file}`, import.meta.url).href);
/** @type {typeof import('../../bench/against-cpp/sim-load.ts')} */
const { Load } = await built('out/bench/against-cpp/sim-load.js');
/** @type {typeof import('../../src/sim/profile/overrides.ts')} */
const { override } = await built('dist/sim/profile/overrides.js');
/** @type {typeof import('../../src/sim/profile/profiles.ts')} */
const { PROFILES } = await built('dist/sim/profile/profiles.js');

const BULK = { qps: 16, sizeBytes: 64_000, batch: 1, depth: 4 };
/** @type {Record<string, import('../../bench/against-cpp/sim-load.ts').LoadOptions[]>} */
const LOADS = {
  bulk: [BULK],
  small: [{ qps: 16, sizeBytes: 64, batch: 32, depth: 128 }],
  read: [{ ...BULK, read: true }],
  mixed: [
    { qps: 4, sizeBytes: 1 << 20, batch: 1, depth: 4 },
    { qps: 8, sizeBytes: 16, batch: 32, depth: 128 },
    { ...BULK, qps: 4, read: true },
  ],
};

const [profile, name, scheduler = PROFILES[profile].scheduler] = process.argv.slice(2);
const load = new Load(override(PROFILES[profile], { scheduler }), 1);
for (const app of LOADS[name]) load.add(app);
load.start();
const runTo = (/** @type {number} */ count) => {
  while (load.packets < count) for (let i = 0; i < 1000; i++) load.sim.step();
};
runTo(WARMUP);

let collections = 0;
const observer = new PerformanceObserver((list) => {
  collections += list.getEntries().length;
});

/** Bytes per packet of the next window. */
async function measure() {
  /** @type {() => void} */ (globalThis.gc)();
  await new Promise((resolve) => setImmediate(resolve));
  observer.observe({ entryTypes: ['gc'] });
  const before = process.memoryUsage().heapUsed;
  runTo(load.packets + PACKETS);
  const bytes = process.memoryUsage().heapUsed - before;
  await new Promise((resolve) => setImmediate(resolve));
  observer.disconnect();
  return bytes / PACKETS;
}

// On a busy machine compilation is late, so the result is the first window without any allocation.
let bytesPerPacket = await measure();
for (let window = 1; window < 5 && bytesPerPacket >= 0.5; window++) {
  bytesPerPacket = Math.min(bytesPerPacket, await measure());
}
console.log(JSON.stringify({ bytesPerPacket, collections }));
