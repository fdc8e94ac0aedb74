// @ts-nocheck
// A process that ends in the way that its argument names, in the middle of transfers of all kinds in the main thread
// and in workers. It prints `under way` first. Where only workers end, its own transfers must continue; it then
// prints `pass`.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { transfer } from './transfers.mjs';

/** Ways to end that work in any thread. */
const ends = {
  exit: () => process.exit(7),
  exception: () =>
    setImmediate(() => {
      throw new Error('meant');
    }),
  rejection: () => void Promise.reject(new Error('meant')),
  /** Another process or thread ends this one. */
  wait: () => {},
};

async function busyWorker(how) {
  const worker = new Worker(new URL(import.meta.url), { workerData: how });
  const said = [];
  worker.on('error', (error) => said.push(error.message));
  const exit = new Promise((resolve) => worker.once('exit', (code) => resolve([code, ...said].join(' '))));
  const up = new Promise((resolve) => worker.once('message', resolve));
  await Promise.race([up, exit]);
  return { worker, exit };
}

/** Starts two workers and waits until the transfers of both are under way. */
const busyWorkers = () => Promise.all(['wait', 'wait'].map(busyWorker));

/** Asserts that a worker ends with this exit code and error, and that the main thread continues. */
async function workerEnds(how, expected, { moving, close }) {
  const { worker, exit } = await busyWorker(how);
  if (how === 'wait') await worker.terminate();
  const got = await exit;
  if (got !== expected) throw new Error(`the worker ended with '${got}', not '${expected}'`);
  await moving();
  close();
  console.log('pass');
}

const endings = {
  ...ends,
  /** The process handles the signal. */
  handled: ends.wait,
  closed: ({ close }) => close(),
  'worker terminated': (own) => workerEnds('wait', '1', own),
  'worker exit': (own) => workerEnds('exit', '7', own),
  'worker exception': (own) => workerEnds('exception', '1 meant', own),
  'worker rejection': (own) => workerEnds('rejection', '1 meant', own),
  'exit beside workers': ends.exit,
  'exception beside workers': ends.exception,
  'wait beside workers': ends.wait,
  /** The main thread has nothing left to do. */
  'closed beside workers': ({ close }) => close(),
};

const ending = isMainThread ? process.argv[2] : workerData;
const own = transfer();
await own.moving();
if (ending === 'handled') {
  // Everything is closed, and the process ends by itself.
  process.once('SIGTERM', () => {
    own.close();
    console.log('closed');
  });
}
if (isMainThread) {
  if (ending.endsWith('beside workers')) for (const { worker } of await busyWorkers()) worker.unref();
  console.log('under way');
} else parentPort.postMessage('under way');
await endings[ending](own);
