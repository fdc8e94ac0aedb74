// @ts-nocheck
/**
 * Calls every function of the addon with random arguments of every type, random handles and random words in the
 * slots of rings, on the null device (native/bench): npm run fuzz:native -- --rounds N --seed S [--faults N]
 * With --faults, N of a thousand calls into the device fail. Nothing may crash, throw an untyped error, or keep a closed
 * object alive. Prints JSON.
 */
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { makeError } from '../../dist/verbs/errors.js';
import { CALLS, CLOSERS, MAKERS, most } from './calls.mjs';
import { buildNullDevice } from './null-device.mjs';
import { junk, Random } from './random.mjs';
import { World } from './world.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
/** Rounds between two turns of the event loop, in which listeners are called and garbage is collected. */
const ROUNDS_PER_TURN = 64;
const TURNS_PER_SWEEP = 40;
/** How often the device may refuse a close, with --faults. */
const PATIENCE = 1000;

const { values } = parseArgs({
  options: { rounds: { type: 'string' }, seed: { type: 'string' }, faults: { type: 'string' } },
});
const rounds = Number(values.rounds ?? 1_000_000);
const seed = Number(values.seed ?? 1);
const faults = Number(values.faults ?? 0);

const { library, reason } = buildNullDevice();
if (reason !== '') throw new Error(reason);
process.env.ISOVERBS_LIBIBVERBS = library;
process.env.ISOVERBS_LIBRDMACM = library;
process.env.ISOVERBS_NULL_FAULTS = `${faults}:${seed}`;
const native = createRequire(import.meta.url)('bindings')({ bindings: 'isoverbs', module_root: ROOT });

const random = new Random(seed);
const world = new World(random);
world.told = 0;
world.makeError = makeError;
world.allocShared = (bytes) => new Uint8Array(new SharedArrayBuffer(bytes));
// Does what addon.ts does.
world.detach = 'transfer' in ArrayBuffer.prototype ? (buffer) => buffer.transfer(0) : native.detachBuffer;
const counts = Object.fromEntries(Object.keys(CALLS).map((name) => [name, { calls: 0, passed: 0 }]));

const table = Object.keys(native).filter((name) => typeof native[name] === 'function');
const unknown = table.filter((name) => !(name in CALLS));
if (unknown.length > 0) throw new Error(`calls.mjs does not say how to call ${unknown.join(', ')}`);

/** Only typed errors that name the verb may be thrown. */
function check(name, error) {
  if (error instanceof Error && /^ISO_ERR_/.test(error.code)) return;
  throw new Error(`${name} threw what is no typed error`, { cause: error });
}

function invoke(name, args) {
  counts[name].calls++;
  let result;
  try {
    result = native[name](...args);
  } catch (error) {
    check(name, error);
    return false;
  } finally {
    // init accepts any function as makeError, even one that returns no error.
    if (name === 'init') init();
  }
  counts[name].passed++;
  CALLS[name].made?.(world, result, args);
  return true;
}

/** Makes one call, most of whose arguments may be valid. */
world.try = (name) => {
  if (!(name in native)) return false;
  if (random.chance(0.03)) {
    const nonsense = Array.from({ length: random.below(8) }, () => junk(random));
    return invoke(name, nonsense);
  }
  return invoke(
    name,
    CALLS[name].args(world).map((arg) => world.maybe(arg)),
  );
};

const plain = table.filter((name) => !CALLS[name].once && !CALLS[name].rare);
const often = table.filter((name) => CALLS[name].often);
const rare = table.filter((name) => CALLS[name].rare);

function choose() {
  if (random.chance(0.4)) return random.pick(often);
  if (random.chance(0.005)) return random.pick(rare);
  const name = random.pick(plain);
  const kind = MAKERS[name];
  if (kind === undefined || world.all(kind).length < most(kind)) return name;
  return CLOSERS.find(([closed]) => closed === kind)[1];
}

/** Detaches a buffer of the application while it is registered. */
function detachOne() {
  const [buffer] = world.foreign.splice(random.below(world.foreign.length), 1);
  if (buffer?.byteLength > 0) structuredClone(buffer, { transfer: [buffer] });
}

/** A queue pair leaves its multicast groups first. */
function leaveGroups(qp) {
  for (const group of world.groups) if (group[0] === qp) invoke('detachMcast', group);
}

/** Closes everything, children first. No close may fail, unless the device fails. */
function closeAll() {
  for (const [kind, closer] of CLOSERS) {
    for (const handle of [...world.all(kind)]) {
      let tries = 0;
      while (world.all(kind).includes(handle)) {
        if (kind === 'qp') leaveGroups(handle);
        const closed = invoke(closer, [handle]);
        // A close may release the handle even though the device fails.
        if (!closed && faults > 0 && isClosed(closer, handle)) world.remove(kind, handle);
        else if (!closed && ++tries > (faults > 0 ? PATIENCE : 0))
          throw new Error(`a ${kind} cannot be closed`);
      }
    }
  }
}

function isClosed(closer, handle) {
  try {
    native[closer](handle);
  } catch (error) {
    return error.code === 'ISO_ERR_HANDLE';
  }
  return true;
}

let uncaught = 0;
process.on('uncaughtException', (error) => {
  if (error.message === 'thrown by a listener') {
    uncaught++;
    return;
  }
  console.error(error);
  process.exit(1);
});

function init() {
  native.init(makeError, world.allocShared, world.detach);
}

async function main() {
  const began = performance.now();
  init();
  const block = native.callBlock();
  world.call = new Uint32Array(block.memory, block.byteOffset, block.words);
  counts.callBlock = { calls: 1, passed: 1 };
  for (let round = 1; round <= rounds; round++) {
    world.try(choose());
    if (random.chance(0.002)) detachOne();
    if (round % ROUNDS_PER_TURN !== 0) continue;
    await new Promise((resolve) => setImmediate(resolve));
    if (round % (ROUNDS_PER_TURN * TURNS_PER_SWEEP) !== 0) continue;
    closeAll();
    world.groups.length = 0;
    world.joined.length = 0;
    globalThis.gc?.();
  }
  // The end of the process closes what is still open.
  const never = Object.keys(counts).filter((name) => name in native && counts[name].passed === 0);
  const seconds = Number(((performance.now() - began) / 1000).toFixed(1));
  console.log(JSON.stringify({ rounds, seed, faults, seconds, told: world.told, uncaught, never, counts }));
  process.exit(0);
}

main();
