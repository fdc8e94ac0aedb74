// @ts-nocheck
// A process that ends in the way of its argument while all sorts of transfers are under way, its own and those of
// its workers: `under way` is what it prints before. Its transfers go on where only workers end: then `pass`.
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
  /** Somebody else ends it. */
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

/** Two workers, both in the middle of it. */
const busyWorkers = () => Promise.all(['wait', 'wait'].map(busyWorker));

/** A worker ends, with this exit code and error; the main thread goes on. */
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
  /** It listens to the signal. */
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
