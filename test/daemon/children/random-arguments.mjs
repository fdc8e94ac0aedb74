// @ts-nocheck
// Every function of the addon with arguments of every type: only typed errors may result.
import { dirname } from 'node:path';
import { requireIpc } from '../../../dist/daemon/ipc/native.js';
import { makeError } from '../../../dist/verbs/errors.js';
import { junk, Random } from '../../fuzz/random.mjs';

const SEED = Number(process.env.SEED ?? 1);
const native = requireIpc();
const random = new Random(SEED);
const path = process.argv[2];
// Sockets with random names are left there.
process.chdir(dirname(path));
const listening = native.listenUnix(path, 0o600, 4096, true);
const near = native.connectUnix(path);
const far = native.acceptUnix(listening);
const { fd: memory } = native.createMemory('fuzz', 4096, 4096);
native.sealMemory(memory, false);
const { near: left, far: right } = native.createWake();
// Sealed by one of the calls.
const { fd: unsealed } = native.createMemory('fuzz', 4096, 4096);
const opened = [listening, near, far, memory, left, right];
/** Uses only our own descriptors, because others belong to Node.js or are the standard streams. */
const fd = () =>
  random.chance(0.9)
    ? random.pick(opened)
    : random.pick([-1, 0, 1, 2, 0.5, 2 ** 31, 99_999, Number.NaN, '3', null]);
const bytes = () =>
  random.pick([
    new Uint8Array(8),
    new Uint8Array(0),
    new Uint8Array(new SharedArrayBuffer(64)),
    new Uint8Array(4096),
  ]);
const fds = () =>
  Uint32Array.from({ length: random.below(70) }, () =>
    random.chance(0.95) ? random.pick(opened) : random.u32(),
  );
// GID of 127.0.0.1.
const LOOPBACK = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1);
const GROUP = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 239, 7, 7, 7);
const udp = native.openUdp(LOOPBACK, 0, 4096, 0);
const udpFd = () => (random.chance(0.8) ? udp : fd());
const rows = () =>
  Uint32Array.from({ length: random.below(80) }, () => (random.chance(0.7) ? 0 : random.u32()));
const flag = () => random.chance(0.5);
let listeners = 2;
function oneEnd() {
  const ends = native.createWake();
  native.closeFd(ends.far);
  return ends.near;
}

const CALLS = {
  init: () => [makeError],
  detachBuffer: () => [new ArrayBuffer(8)],
  closeFd: () => [random.pick([-1, 0.5, 99_999, undefined, Number.NaN])],
  createMemory: () => [
    random.pick(['', 'x', 'x'.repeat(249)]),
    1 + random.below(10_000),
    1 + random.below(5000),
  ],
  sealMemory: () => [random.chance(0.1) ? unsealed : fd(), flag()],
  mapMemory: () => [fd(), random.pick([4096, 4095, 0]), flag()],
  listenUnix: () => [
    random.pick([path, `${path}.2`, '/proc/x', '/']),
    random.below(0o1000),
    1 + random.below(100),
    flag(),
  ],
  acceptUnix: () => [fd()],
  connectUnix: () => [random.pick([path, `${path}.none`, '/etc/passwd'])],
  peerCredentials: () => [fd()],
  isPeerAlive: () => [fd()],
  closeSocket: () => [oneEnd(), () => {}],
  closeListener: () => [native.listenUnix(`${path}.${++listeners}`, 0o600, 8, false)],
  sendFds: () => [fd(), bytes(), fds()],
  receiveFds: () => [fd(), bytes(), random.below(70)],
  createWake: () => [],
  ring: () => [fd()],
  drain: () => [fd()],
  sendDatagram: () => [
    random.pick([path, '@nobody', '', 'x'.repeat(200)]),
    random.pick(['READY=1', '', bytes()]),
  ],
  watchFd: () => [
    fd(),
    random.pick([
      null,
      () => {},
      () => native.receiveFds(near, new Uint8Array(4096), 64).fds.forEach(native.closeFd),
    ]),
    flag(),
    random.pick([1, 2, 3, 0, 4]),
  ],
  openUdp: () => [
    random.pick([LOOPBACK, LOOPBACK, bytes()]),
    random.pick([0, 0, 1, 65_536]),
    random.below(100_000),
    random.pick([0, 1, 2, -1]),
  ],
  joinUdp: () => [
    random.pick([GROUP, GROUP, LOOPBACK, bytes()]),
    random.pick([LOOPBACK, LOOPBACK, bytes()]),
    random.pick([0, 0, 1, 65_536]),
    random.below(100_000),
    random.pick([0, 1, 2, -1]),
  ],
  sendUdp: () => [
    udpFd(),
    bytes(),
    rows(),
    random.below(9),
    random.below(65_536),
    random.pick([LOOPBACK, bytes()]),
  ],
  receiveUdp: () => [
    udpFd(),
    random.pick([bytes(), new Uint8Array(2 ** 17)]),
    random.pick([rows(), new Uint32Array(2048)]),
    random.pick([LOOPBACK, bytes()]),
  ],
  readClock: () => [random.pick([new Float64Array(1), new Float64Array(0), bytes()])],
};

const missing = Object.keys(native).filter((name) => typeof native[name] === 'function' && !(name in CALLS));
if (missing.length > 0) throw new Error(`not called: ${missing}`);
const passed = Object.fromEntries(Object.keys(CALLS).map((name) => [name, 0]));

/** Closes at once whatever a call opened. */
function tidy(name, result) {
  if (name === 'createMemory') native.closeFd(result.fd);
  if (name === 'createWake') [result.near, result.far].forEach(native.closeFd);
  if (/listen|accept|connect|openUdp|joinUdp/.test(name) && result >= 0) native.closeFd(result);
  if (name === 'receiveFds') result?.fds.forEach(native.closeFd);
}

function call(name) {
  const args = CALLS[name]().map((arg) => (random.chance(0.05) ? junk(random) : arg));
  // This function closes any descriptor number that it is given.
  if (name === 'closeFd' && typeof args[0] === 'number' && args[0] < 99_999) return;
  try {
    tidy(name, native[name](...args));
    passed[name]++;
  } catch (error) {
    if (!/^ISO_ERR_/.test(error?.code))
      throw new Error(`${name} threw what is no typed error`, { cause: error });
  } finally {
    // This function accepts any function, even one that does not create an error.
    if (name === 'init') native.init(makeError);
  }
}

process.on('uncaughtException', (error) => {
  // Options of a listener.
  if (/^ISO_ERR_/.test(error.code) || /\bfds\b/.test(error.message)) return;
  console.error(error);
  process.exit(1);
});

const names = Object.keys(CALLS).filter((name) => name !== 'closeFd');
for (let round = 0; round < 20_000; round++) {
  call(random.chance(0.02) ? 'closeFd' : random.pick(names));
  if (round % 100 === 0) await new Promise((done) => setImmediate(done));
}
passed.closeFd = 1;
// No socket here receives datagrams; see commands.test.ts for one that does.
passed.sendDatagram = 1;
const never = Object.keys(passed).filter((name) => passed[name] === 0);
console.log(never.length === 0 ? 'pass' : `seed ${SEED}: never succeeded: ${never}`);
process.exit(0);
