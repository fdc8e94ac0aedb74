// @ts-nocheck
// Workers that end while they listen, map and signal: on their own, and terminated. What they listened to is
// closed.
import { readdirSync, readlinkSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { createMemory, createWake } from '../../../dist/daemon/ipc/index.js';

const memory = createMemory('shared', 4096);
memory.seal();
const words = new Int32Array(memory.buffer);
const program = `
import { workerData } from 'node:worker_threads';
const { createMemory, createWake, listenUnix, Wake } = await import(workerData.module);
const [near, far] = createWake();
near.watch(() => far.signal(), { keepAlive: workerData.stays });
far.watch(() => near.signal());
near.signal();
const memory = createMemory('own', 4096);
const wake = new Wake(workerData.fd);
wake.signal();
`;
const module = new URL('../../../dist/daemon/ipc/index.js', import.meta.url).href;
const [near, far] = createWake();
const sockets = () =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
let rung = 0;
let before = 0;
near.watch(() => rung++, { keepAlive: true });
for (let i = 0; i < 10; i++) {
  const stays = i % 2 === 0;
  const worker = new Worker(program, {
    eval: true,
    execArgv: ['--input-type=module'],
    workerData: { module, fd: far.fd, stays },
  });
  const ended = new Promise((done) => worker.once('exit', done));
  const rungBefore = rung;
  while (stays && rung === rungBefore) await new Promise((done) => setTimeout(done, 1));
  if (stays) await worker.terminate();
  await ended;
  words[0]++;
  if (i === 1) before = sockets();
}
globalThis.gc();
const left = sockets() - before;
near.close();
far.close();
memory.close();
console.log(rung > 0 && words.length === 0 && left === 0 ? 'pass' : `rung ${rung}, ${left} sockets left`);
