/** Shows on stderr, if it is a terminal, that a run which keeps this thread busy is still going, and for how long. */
import { Worker } from 'node:worker_threads';

/** Nothing is shown for runs that end sooner. */
const QUIET_MS = 1000;
const EVERY_MS = 500;

/** Runs in a thread of its own, because the run leaves the event loop of this one no time. */
const LINE = `
const { writeSync } = require('node:fs');
const { workerData: { what, quietMs, everyMs, flag } } = require('node:worker_threads');
const over = new Int32Array(flag);
const startMs = performance.now();
let shown = false;
for (let waitMs = quietMs; Atomics.wait(over, 0, 0, waitMs) === 'timed-out'; waitMs = everyMs) {
  shown = true;
  writeSync(2, '\\r\\u001b[K' + what + ', ' + Math.round((performance.now() - startMs) / 1000) + ' s ...');
}
if (shown) writeSync(2, '\\r\\u001b[K');
Atomics.store(over, 0, 2);
Atomics.notify(over, 0);
`;

/** Starts the line; the returned function clears it. */
export function ticker(what: string): () => void {
  if (!process.stderr.isTTY) return () => {};
  const flag = new SharedArrayBuffer(4);
  const over = new Int32Array(flag);
  const workerData = { what, quietMs: QUIET_MS, everyMs: EVERY_MS, flag };
  const worker = new Worker(LINE, { eval: true, workerData });
  worker.unref();
  return () => {
    Atomics.store(over, 0, 1);
    Atomics.notify(over, 0);
    // The line is cleared before anything else is printed.
    Atomics.wait(over, 0, 1, EVERY_MS);
  };
}
