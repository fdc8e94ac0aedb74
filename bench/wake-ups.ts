/**
 * Measures how long a process takes to notice a write of another into shared memory: if it spins on the page, if it
 * sleeps in its event loop and is woken (src/daemon/ipc/wake.ts), and if it is woken by a message to a net.Socket
 * instead. Two processes, rounds of all three, JSON output. Times are CLOCK_MONOTONIC, which both share; the time of
 * the spinning process is half a round trip.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  connectUnix,
  createMemory,
  createWake,
  listenUnix,
  openMemory,
  Wake,
} from '#src/daemon/ipc/index.ts';
import { nowNs, p50, rounded } from './timing.ts';

const ROUNDS = 7;
const TRIPS = 20_000;
const WAKES = 300;
/** Long enough for the sleeper to be asleep again. */
const PAUSE_MS = 1;
const BYTES = 4096;
/** Words of the page: the last value each side has written. */
const [MINE, THEIRS] = [0, 16];
const STOP = -1;
/** Index of the page's double that holds the time of the last wake-up. */
const SENT_NS = 16;

const median = (rounds: readonly number[]) => rounded(p50(rounds));

interface Shared {
  words: Int32Array;
  times: Float64Array;
}
const over = (buffer: ArrayBuffer): Shared => ({
  words: new Int32Array(buffer),
  times: new Float64Array(buffer),
});

/** The child: while it spins it answers in the page, otherwise it records how long each wake-up took. */
function peer(path: string): void {
  const socket = connectUnix(path)!;
  const welcome = new Uint8Array(16);
  socket.watch(() => {
    const message = socket.receive(welcome, 2);
    if (message === null) return;
    const { words, times } = over(openMemory(message.fds[0], BYTES, { writable: true }).buffer);
    const wake = new Wake(message.fds[1]);
    const stream = new net.Socket({ fd: socket.take(), readable: true, writable: true });
    const wakeUpsUs: number[] = [];
    const record = () => wakeUpsUs.push((nowNs() - times[SENT_NS]) / 1000);
    wake.watch((alive) => {
      if (alive) record();
    });
    stream.on('data', (chunk) => {
      const order = chunk.toString();
      if (order === 'spin') spin(words);
      else if (order === 'report') stream.write(JSON.stringify(wakeUpsUs.splice(0)));
      else record();
    });
    stream.on('end', () => stream.end());
  });
}

function spin(words: Int32Array): void {
  for (let last = 0; last !== STOP; ) {
    const now = Atomics.load(words, MINE);
    if (now === last) continue;
    last = now;
    Atomics.store(words, THEIRS, now);
  }
}

/** Half the median round trip to a spinning peer, in microseconds. */
async function spinning({ words }: Shared, stream: net.Socket): Promise<number> {
  Atomics.store(words, MINE, 0);
  Atomics.store(words, THEIRS, 0);
  stream.write('spin');
  const times: number[] = [];
  for (let i = 1; i <= TRIPS; i++) {
    const sentNs = nowNs();
    Atomics.store(words, MINE, i);
    while (Atomics.load(words, THEIRS) !== i);
    times.push((nowNs() - sentNs) / 2000);
  }
  Atomics.store(words, MINE, STOP);
  // The first round trips include the delay of the peer's event loop.
  return p50(times.slice(TRIPS / 10));
}

/** Median microseconds from the ring until the listener of a sleeping peer runs. */
async function sleeping({ times }: Shared, stream: net.Socket, ring: () => void): Promise<number> {
  for (let i = 0; i < WAKES; i++) {
    await delay(PAUSE_MS);
    times[SENT_NS] = nowNs();
    ring();
  }
  await delay(10);
  const report = new Promise<number[]>((done) => {
    stream.once('data', (chunk) => done(JSON.parse(chunk.toString())));
  });
  stream.write('report');
  return p50(await report);
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-wake-'));
  const listener = listenUnix(join(folder, 'socket'));
  spawn(process.execPath, [fileURLToPath(import.meta.url), listener.path], { stdio: 'inherit' });
  const accepted = await new Promise<void>((done) => listener.watch(() => done())).then(
    () => listener.accept()!,
  );
  listener.close();
  rmSync(folder, { recursive: true });
  const memory = createMemory('wake-ups', BYTES);
  memory.seal();
  const [near, far] = createWake();
  accepted.send(Buffer.from('welcome'), [memory.fd, far.fd]);
  far.closeFd();
  const stream = new net.Socket({ fd: accepted.take(), readable: true, writable: true });
  const shared = over(memory.buffer);
  await delay(100);
  const rounds: Record<'spinningUs' | 'sleepingUs' | 'netSocketUs', number[]> = {
    spinningUs: [],
    sleepingUs: [],
    netSocketUs: [],
  };
  for (let round = 0; round < ROUNDS; round++) {
    rounds.sleepingUs.push(await sleeping(shared, stream, () => near.signal()));
    rounds.netSocketUs.push(await sleeping(shared, stream, () => stream.write('x')));
    rounds.spinningUs.push(await spinning(shared, stream));
    await delay(20);
  }
  stream.end();
  const medians = Object.fromEntries(Object.entries(rounds).map(([name, list]) => [name, median(list)]));
  console.log(JSON.stringify({ rounds: ROUNDS, p50: medians, all: rounds }, null, 2));
  for (const one of [near, memory]) one.close();
}

if (process.argv[2] === undefined) await main();
else peer(process.argv[2]);
