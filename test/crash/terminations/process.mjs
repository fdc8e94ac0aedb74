// @ts-nocheck
// A process whose workers are terminated while they are in the addons: at every step of loading one (`steps`), in every
// function that an addon calls (`callbacks`), or COUNT times at random (`random COUNT`). Prints exactly `pass`.
// ISOVERBS_LIBIBVERBS and ISOVERBS_LIBRDMACM name the null device.
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

const FOLDER = resolve(import.meta.dirname, '../../../build/Release');
const ADDONS = ['isoverbs.node', 'isoverbs_ipc.node'].map((name) => join(FOLDER, name));
/** One more than there are CPUs on a small machine, so that terminations arrive while the worker is not running. */
const WORKERS = 3;

/** Runs a worker, small enough that starting it takes most of its time. Resolves when it has ended. */
function work(text, workerData, onMessage = () => {}) {
  const worker = new Worker(text, { eval: true, workerData, trackUnmanagedFds: false });
  worker.on('message', (message) => onMessage(worker, message));
  return new Promise((done, failed) => worker.once('exit', done).once('error', failed));
}

/** Ends the worker in the middle of the assignment of export number `at`. */
const WHILE_LOADING = `
const { file, at } = require('node:worker_threads').workerData;
let assigned = 0;
const set = (target, name, value) => {
  if (assigned++ === at) process.exit(3);
  target[name] = value;
  return true;
};
process.dlopen({ exports: new Proxy({}, { set }) }, file);
process.exit(4);
`;

async function steps() {
  const require = createRequire(import.meta.url);
  const all = ADDONS.flatMap((file) => Object.keys(require(file)).map((_, at) => ({ file, at })));
  for (const step of all) {
    const code = await work(WHILE_LOADING, step);
    if (code !== 3) throw new Error(`step ${step.at} of ${step.file} ended with ${code}`);
  }
}

/** What the other kinds of workers begin with. */
const LOADED = `
// An event of watchFd (native/ipc/watch.cc).
const READABLE = 1;
const { parentPort, workerData: [core, ipc] } = require('node:worker_threads');
const load = (file) => {
  const module = { exports: {} };
  process.dlopen(module, file);
  return module.exports;
};
const shared = (bytes) => new Uint8Array(new SharedArrayBuffer(bytes));
const makeError = (code, message) => Object.assign(new Error(message), { code });
const end = () => process.exit(3);
/** Causes two events of a channel. */
const resolve = (a, listener) => {
  const channel = a.createEventChannel();
  a.watchEventChannel(channel, listener);
  a.refEventChannel(channel, true);
  for (let i = 0; i < 2; i++) a.resolveAddr(a.createId(channel, 0x106), '', 0, '127.0.0.1', 4791, 100);
};
`;

/** Ways to end inside a function that an addon calls. */
const CALLBACKS = {
  'makeError of isoverbs': 'a.init(end, shared, a.detachBuffer); a.queryDevice(99);',
  'makeError of isoverbs_ipc': 'b.init(end); b.ring(99999);',
  detach: 'a.init(makeError, shared, end); a.destroyRing(a.createWcRing(8).handle);',
  'the listener of a descriptor': 'wake(end);',
  'a listener that has closed its descriptor': 'wake((near) => { b.closeFd(near); end(); });',
  'a promise of a listener': 'wake(() => void Promise.resolve().then(end));',
  'an exception of a listener': `process.once('uncaughtException', end); wake(() => { throw new Error('meant'); });`,
  'the listener of a channel, with more events':
    'a.init(makeError, shared, a.detachBuffer); resolve(a, end);',
};

const IN_CALLBACK = `${LOADED}
const [a, b] = [load(core), load(ipc)];
const wake = (listener) => {
  b.init(makeError);
  const { near, far } = b.createWake();
  b.watchFd(near, () => listener(near), true, READABLE);
  b.ring(far);
  b.closeFd(far);
};
`;

async function callbacks() {
  for (const [name, code] of Object.entries(CALLBACKS)) {
    const ended = await work(IN_CALLBACK + code, ADDONS);
    if (ended !== 3) throw new Error(`inside ${name}: ended with ${ended}`);
  }
}

/** Loads, calls and closes until it is terminated. */
const AT_RANDOM = `${LOADED}
const views = [];
const turn = () => {
  const [a, b] = [load(core), load(ipc)];
  a.init(makeError, shared, a.detachBuffer);
  b.init(makeError);
  a.status();
  const { near, far } = b.createWake();
  b.watchFd(near, () => b.drain(near), true, READABLE);
  b.ring(far);
  b.closeFd(far);
  const { fd, buffer } = b.createMemory('terminations', 4096, 4096);
  b.closeFd(fd);
  const ring = a.createWrRing(8, 1, 0);
  const kept = a.createWcRing(8);
  views.push(buffer, ring.memory, kept.memory);
  a.destroyRing(ring.handle);
  try {
    a.destroyRing(ring.handle);
  } catch {}
  const context = a.openDevice('null0');
  const pd = a.allocPd(context);
  const channel = a.createCompChannel(context);
  a.watchCompChannel(channel, () => {});
  a.watchAsyncEvents(context, () => {});
  a.createCq(context, 8, channel, 0, 0);
  a.allocMr(pd, 4096, 1);
  a.regMr(pd, new Uint8Array(4096), 1);
  resolve(a, () => {});
  setImmediate(turn);
};
parentPort.postMessage(0);
turn();
`;

async function random(count) {
  let [left, survived] = [count, 0];
  const one = async () => {
    while (left-- > 0) {
      const ms = Math.random() * 4;
      await work(AT_RANDOM, ADDONS, async (worker) => {
        if (ms >= 1) await delay(ms);
        worker.terminate();
      });
      survived++;
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, one));
  if (survived !== count) throw new Error(`${survived} of ${count}`);
}

const [how, count] = process.argv.slice(2);
await { steps, callbacks, random }[how](Number(count));
console.log('pass');
