/**
 * Measures the time from the daemon's write of a grant until its recipient sees it: a process that spins on its page,
 * and one that sleeps in its event loop and is woken. This process acts as the daemon, with Host, memory and wake-ups
 * as in src/daemon/server.ts.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as M from '#src/coordinator/member-table.ts';
import { Client } from '#src/daemon/devices.ts';
import { Host } from '#src/daemon/host.ts';
import {
  connectUnix,
  createMemory,
  createWake,
  listenUnix,
  openMemory,
  type SharedMemory,
  Wake,
} from '#src/daemon/ipc/index.ts';
import type { Pages, Row } from '#src/daemon/pages.ts';
import { NO_LABELS } from '#src/daemon/rules.ts';
import { nowNs } from '../timing.ts';
import { DEVICE } from './daemon-process.ts';
import { RATE_AT, RATED_AT, RULINGS, SHAPE, seatRow } from './layout.ts';

const TRIPS = 20_000;
const WARM_UP = 2000;
const WAKES = 300;
/** Long enough for the sleeper to be asleep again. */
const PAUSE_MS = 1;
const LONGEST_WAIT_NS = 10e9;
/** Columns in which the reader answers: the last rate it has seen, and when. */
const [ANSWER, ANSWERED_NS] = [M.HEARTBEAT, M.LATENCY_NS];

/** The high word of a double, which differs for all whole numbers below 2 ** 21. */
const highWord = ({ buffer, byteOffset }: Float64Array, column: number) =>
  new Int32Array(buffer, byteOffset + column * 8 + 4, 1);

/** The child: writes into its counters which rate it saw, and at what time. */
function reader(path: string, isSpinning: boolean): void {
  const socket = connectUnix(path)!;
  socket.watch(() => {
    const message = socket.receive(new Uint8Array(1), 3);
    if (message === null) return;
    socket.watch(null);
    const [counters, grants, far] = message.fds;
    const pages: Pages = {
      counters: new Float64Array(openMemory(counters, SHAPE.reportsBytes, { writable: true }).buffer),
      grants: new Float64Array(openMemory(grants, SHAPE.grantsBytes).buffer),
    };
    const wake = new Wake(far);
    const columns = seatRow(pages, 0);
    const answer = () => {
      columns.counters[ANSWERED_NS] = nowNs();
      columns.counters[ANSWER] = columns.grants[RATE_AT];
    };
    process.send?.('ready');
    if (isSpinning) spin(columns, answer);
    else wake.watch((alive) => (alive ? answer() : process.exit()), { keepAlive: true });
  });
}

/** Answers each new rate until the parent ends the process. */
function spin({ grants }: Row, answer: () => void): void {
  const rate = highWord(grants, RATE_AT);
  for (let last = Atomics.load(rate, 0); ; ) {
    const now = Atomics.load(rate, 0);
    if (now === last) continue;
    last = now;
    answer();
  }
}

/** A reader in a separate process, and the daemon's side of the connection. */
class GrantReader {
  readonly host = new Host({
    rulings: RULINGS,
    linkGbps: () => 100,
  });
  private readonly memories: SharedMemory[] = [];
  private readonly pages: Pages;
  private readonly columns: Row;
  private readonly child: ChildProcess;
  private readonly wake: Wake;
  private rateGbps = 1;

  private constructor(child: ChildProcess, wake: Wake, memories: SharedMemory[]) {
    this.child = child;
    this.wake = wake;
    this.memories = memories;
    const [counters, grants] = memories;
    this.pages = {
      counters: new Float64Array(counters.buffer),
      grants: new Float64Array(grants.buffer),
    };
    this.columns = seatRow(this.pages, 0);
    for (const [i, tenant] of ['reader', 'other'].entries()) {
      const identity = { tenant, weight: 1, gbps: null, labels: NO_LABELS, maxQps: 0 };
      const client = new Client({ ...identity, maxRequestsPerS: 0, hasTenants: false }, this.pages, i);
      this.host.join(client, i, DEVICE, 0);
      seatRow(this.pages, i).counters[RATED_AT] = 1;
    }
    this.host.fullPass(0);
  }

  static async start(isSpinning: boolean): Promise<GrantReader> {
    const folder = mkdtempSync(join(tmpdir(), 'isoverbs-bench-sight-'));
    const listener = listenUnix(join(folder, 'socket'));
    const script = fileURLToPath(import.meta.url);
    const child = fork(script, [listener.path, isSpinning ? 'spin' : 'sleep']);
    await new Promise<void>((resolve) => listener.watch(resolve));
    const socket = listener.accept()!;
    listener.close();
    rmSync(folder, { recursive: true });
    const memories = [
      createMemory('bench-counters', SHAPE.reportsBytes),
      createMemory('bench-grants', SHAPE.grantsBytes),
    ];
    memories[0].seal();
    memories[1].seal({ readOnlyForOthers: true });
    const [near, far] = createWake();
    socket.send(new Uint8Array(1), [...memories.map(({ fd }) => fd), far.fd]);
    far.closeFd();
    await once(child, 'message');
    socket.close();
    return new GrantReader(child, near, memories);
  }

  private grant(rateGbps: number): void {
    this.host.set('reader', { gbps: rateGbps });
    // Time stands still, so no member is considered silent.
    this.host.pass(0);
  }

  private seenNs(rateGbps: number): number | null {
    const { counters } = this.columns;
    return Atomics.load(highWord(counters, ANSWER), 0) >= 0 && counters[ANSWER] === rateGbps
      ? counters[ANSWERED_NS]
      : null;
  }

  /** Nanoseconds from a write into the page until the spinning reader sees it. */
  writeNs(): number {
    const rateGbps = ++this.rateGbps;
    const startNs = nowNs();
    this.columns.grants[RATE_AT] = rateGbps;
    return this.spinFor(rateGbps) - startNs;
  }

  /** The same, measured from the start of the pass that writes the grant. */
  passNs(): number {
    const rateGbps = ++this.rateGbps;
    const startNs = nowNs();
    this.grant(rateGbps);
    return this.spinFor(rateGbps) - startNs;
  }

  private spinFor(rateGbps: number): number {
    const untilNs = nowNs() + LONGEST_WAIT_NS;
    for (;;) {
      const seenNs = this.seenNs(rateGbps);
      if (seenNs !== null) return seenNs;
      if (nowNs() > untilNs) throw new Error('the reader did not see the grant');
    }
  }

  /** Nanoseconds from the pass until the listener of a sleeping reader runs. */
  async wakeNs(): Promise<number> {
    await delay(PAUSE_MS);
    const rateGbps = ++this.rateGbps;
    const startNs = nowNs();
    this.grant(rateGbps);
    for (const _ of this.host.takeClientsToNotify()) this.wake.signal();
    for (;;) {
      await delay(PAUSE_MS);
      const seenNs = this.seenNs(rateGbps);
      if (seenNs !== null) return seenNs - startNs;
      if (nowNs() > startNs + LONGEST_WAIT_NS) throw new Error('the reader was not woken');
    }
  }

  async stop(): Promise<void> {
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
    this.wake.close();
    for (const memory of this.memories) memory.close();
  }
}

export interface GrantDeliveryTimes {
  /** Times in nanoseconds. */
  readonly writeToSpinning: number[];
  readonly passToSpinning: number[];
  readonly passToSleeping: number[];
}

/** One round of all three measurements. */
export async function grantDeliveryTimes(): Promise<GrantDeliveryTimes> {
  const spinning = await GrantReader.start(true);
  const times = (measure: () => number) => Array.from({ length: TRIPS }, measure).slice(WARM_UP);
  const writeToSpinning = times(() => spinning.writeNs());
  const passToSpinning = times(() => spinning.passNs());
  await spinning.stop();
  const sleeping = await GrantReader.start(false);
  const passToSleeping: number[] = [];
  for (let i = 0; i < WAKES; i++) passToSleeping.push(await sleeping.wakeNs());
  await sleeping.stop();
  return { writeToSpinning, passToSpinning, passToSleeping };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) reader(process.argv[2], process.argv[3] === 'spin');
