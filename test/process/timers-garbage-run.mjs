/**
 * Prints how many bytes were allocated per timer that was set, moved and fired, and how often the collector ran
 * meanwhile, on the built package:
 *   node --expose-gc --min-semi-space-size=64 --max-semi-space-size=64 test/process/timers-garbage-run.mjs
 */
import { PerformanceObserver } from 'node:perf_hooks';

const TIMERS = 10_000;
const ROUNDS = 20;

const built = (/** @type {string} */ file) => import(new URL(`../../dist/${file}`, import.meta.url).href);
/** @type {typeof import('../../src/shim/timers/timers.ts')} */
const { ContextTimers, Timers } = await built('shim/timers/timers.js');

const clock = new Float64Array(1);
const context = { handle: 1, closed: false, waiting: 0, timers: new ContextTimers() };
const alarm = { atNs: new Float64Array(1), set() {}, close() {} };
let fired = 0;
const timers = new Timers(/** @type {any} */ ({ nowNs: () => clock[0], createAlarm: () => alarm }), () => {
  fired++;
});

/** Every other timer may be late, and each changes that when it is moved. */
function round() {
  clock[0] = 0;
  for (let pass = 0; pass < 2; pass++) {
    for (let i = 0; i < TIMERS; i++) {
      timers.dueNs[0] = 0.5 + ((i * 7919) % 10_007);
      timers.put(/** @type {any} */ (context), i, ((i + pass) & 1) === 0);
    }
  }
  clock[0] = 20_000;
  timers.run(/** @type {any} */ (context));
}

let collections = 0;
const observer = new PerformanceObserver((list) => {
  collections += list.getEntries().length;
});

/** Bytes per timer of the next rounds. */
async function measure() {
  /** @type {() => void} */ (globalThis.gc)();
  await new Promise((resolve) => setImmediate(resolve));
  observer.observe({ entryTypes: ['gc'] });
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < ROUNDS; i++) round();
  const bytes = process.memoryUsage().heapUsed - before;
  await new Promise((resolve) => setImmediate(resolve));
  observer.disconnect();
  return bytes / (ROUNDS * TIMERS);
}

for (let i = 0; i < ROUNDS; i++) round();
// On a busy machine compilation is late, so the first window without any counts.
let bytesPerTimer = await measure();
for (let window = 1; window < 40 && bytesPerTimer >= 0.05; window++) {
  bytesPerTimer = Math.min(bytesPerTimer, await measure());
}
if (fired === 0 || context.timers.size > 0) throw new Error(`${fired} timers fired`);
console.log(JSON.stringify({ bytesPerTimer, collections }));
