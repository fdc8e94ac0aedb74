// @ts-nocheck
// A thread that repeatedly runs example programs, each time with one injected fault, and posts the results.
import { resolve } from 'node:path';
import { format } from 'node:util';
import { parentPort } from 'node:worker_threads';

const ROOT = resolve(import.meta.dirname, '../..');
const { fault } = await import(`${ROOT}/dist/interceptors/index.js`);
const { processInterceptors } = await import(`${ROOT}/dist/process-interceptors.js`);
const { Context } = await import(`${ROOT}/dist/index.js`);
const { RequestLedger } = await import('./ledger.mjs');

/** Turns of the event loop after a program's end, during which all of its pending work finishes. */
const SETTLE_TURNS = 40;

/** Verbs that create a handle, with those that destroy it. */
const PAIRS = {
  closeDevice: ['openDevice'],
  closeXrcd: ['openXrcd'],
  deallocPd: ['allocPd'],
  deregMr: ['allocMr', 'regMr'],
  deallocMw: ['allocMw'],
  destroyAh: ['createAh'],
  destroyCompChannel: ['createCompChannel'],
  destroyCq: ['createCq'],
  destroySrq: ['createSrq'],
  destroyQp: ['createQp'],
  destroyRing: ['createWrRing', 'createWcRing'],
};

let calls = {};
const live = new Map();

/** The innermost interceptor, which records the objects of the device. */
const objectLedger = {
  name: 'objectLedger',
  wrap(next) {
    const verbs = {};
    for (const [take, gives] of Object.entries(PAIRS)) {
      for (const give of gives) {
        verbs[give] = (...args) => {
          const made = next[give](...args);
          live.set(typeof made === 'number' ? made : made.handle, give);
          return made;
        };
      }
      verbs[take] = (handle) => {
        next[take](handle);
        live.delete(handle);
      };
    }
    return verbs;
  },
};

/** Members of a provider that are not verbs. */
const NO_VERBS = ['nowNs', 'sleep', 'describeWait', 'describeNic'];

/** The outermost interceptor, which counts the calls of the program. */
const counting = {
  name: 'counting',
  wrap: (next) =>
    Object.fromEntries(
      Object.entries(next)
        .filter(([verb, value]) => typeof value === 'function' && !NO_VERBS.includes(verb))
        .map(([verb, call]) => [
          verb,
          (...args) => {
            calls[verb] = (calls[verb] ?? 0) + 1;
            return call(...args);
          },
        ]),
    ),
};

/** A fault that is disabled once the program has ended, so that cleaning up after it succeeds. */
function whileArmed(options, state) {
  const inner = fault(options, (injection) => state.injected.push(injection));
  if (options.verb === undefined) return inner;
  return {
    name: 'fault',
    wrap(next) {
      const faulty = inner.wrap(next);
      return Object.fromEntries(
        Object.entries(faulty).map(([verb, call]) => [
          verb,
          (...args) => (state.armed ? call(...args) : next[verb](...args)),
        ]),
      );
    },
  };
}

// Every open context is tracked by the leak detection, which therefore lists all of them.
const contexts = new Set();
const { register } = FinalizationRegistry.prototype;
FinalizationRegistry.prototype.register = function (target, ...rest) {
  if (target instanceof Context) contexts.add(target);
  return register.call(this, target, ...rest);
};

const lines = [];
console.log = (...args) => lines.push(format(...args));
/** Errors that would end a process, each recorded once; a promise may reject before it is awaited. */
const strays = new Set();
let dead = () => {};
function stray(error) {
  strays.add(error);
  dead();
}
process.on('uncaughtException', stray);
process.on('unhandledRejection', stray);
// Programs that print an error themselves would end this thread with it.
console.error = () => {};
process.exit = () => {};

const turn = () => new Promise((done) => setImmediate(done));

async function settle() {
  for (let i = 0; i < SETTLE_TURNS; i++) await turn();
}

function toldOf(error) {
  const { code, verb, index, posted, status, message, name } = error ?? {};
  return { code, verb, index, posted, status, name, message: message ?? String(error) };
}

let runs = 0;

function takeStrays() {
  const told = [...strays].map(toldOf);
  strays.clear();
  return told;
}

/** Imports a program. Resolves when it ends, or when an error occurs that would end its process. */
async function execute(file) {
  const died = new Promise((resolve) => {
    dead = resolve;
  });
  await Promise.race([died, import(`${file}?run=${runs++}`).catch(stray)]);
  const errors = takeStrays();
  await settle();
  process.removeAllListeners('uncaughtException').on('uncaughtException', stray);
  return { errors: errors.length > 0 ? errors : takeStrays(), afterwards: takeStrays() };
}

function closeAll() {
  const failed = [];
  for (const context of contexts) {
    try {
      context.close();
    } catch (error) {
      failed.push(toldOf(error));
    }
  }
  return failed;
}

async function run({ example, argv, options }) {
  const state = { armed: true, injected: [] };
  const file = resolve(ROOT, 'examples', `${example}.mjs`);
  process.argv = [process.execPath, file, ...argv];
  calls = {};
  lines.length = 0;
  strays.clear();
  live.clear();
  contexts.clear();
  const requests = new RequestLedger();
  const faults = options === null ? [] : [whileArmed(options, state)];
  processInterceptors().interceptors = [counting, requests, ...faults, objectLedger];
  const { errors, afterwards } = await execute(file);
  const leftOpen = live.size;
  const output = lines.join('\n');
  state.armed = false;
  const cleanup = closeAll();
  await settle();
  return {
    injected: state.injected,
    /** The error that ended the program, and those of the turns after that. */
    errors,
    afterwards: [...afterwards, ...takeStrays()],
    cleanup,
    output,
    leftOpen,
    leaked: [...live.values()],
    calls: { ...calls },
    completions: requests.completions,
    failures: Math.max(0, ...requests.failed.values()),
    wrong: requests.wrong,
  };
}

parentPort.on('message', async (request) => parentPort.postMessage(await run(request)));
