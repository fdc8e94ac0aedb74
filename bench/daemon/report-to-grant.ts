/**
 * From what one process says of itself to what another is granted for it, by a daemon that sleeps: the first writes a
 * counter and rings, the daemon passes, the other sees its page, spinning or woken. Three processes.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as M from '#src/coordinator/member-table.ts';
import { DaemonClient } from '#src/daemon/client/client.ts';
import { nowNs } from '../clock.ts';
import { DEVICE } from './daemon-process.ts';

const CHANGES = 200;
/** The daemon is asleep again, and hears each ring. */
const PAUSE_MS = 3;
const JOIN_MS = 500;

/** What a process that spins does between two looks for the end. */
const SPINS = 1e6;

function member(socket: string, tenant: string) {
  const client = new DaemonClient({ socket, hello: { tenant }, standaloneGbps: 1, report: () => {} });
  const coordinator = client.coordinator(DEVICE);
  const page = coordinator.join('') as M.MemberPage;
  page.counters[M.RATED_QPS] = 1;
  return { client, coordinator, page };
}

/** When its rate became another one, until the parent says that it is enough. */
async function listener(socket: string, isSpinning: boolean): Promise<void> {
  const { client, coordinator, page } = member(socket, 'listener');
  const seenNs: number[] = [];
  let last = 0;
  const recordGrant = () => {
    const rate = page.grants[M.RATE_GBPS];
    if (rate === last) return;
    last = rate;
    seenNs.push(nowNs());
  };
  let isOver = false;
  process.once('message', () => {
    isOver = true;
    process.send?.(seenNs);
    process.disconnect();
    client.close();
  });
  coordinator.listen(recordGrant, () => {});
  await delay(JOIN_MS);
  process.send?.('ready');
  while (isSpinning && !isOver) {
    for (let i = 0; i < SPINS; i++) recordGrant();
    // Alive, as one that sends is: its buckets say so.
    page.counters[M.HEARTBEAT]++;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Nanoseconds of each change that was seen before the next. */
async function changesNs(socket: string, isSpinning: boolean): Promise<number[]> {
  const child = fork(fileURLToPath(import.meta.url), [socket, isSpinning ? 'spin' : 'sleep']);
  await once(child, 'message');
  const { client, page } = member(socket, 'speaker');
  await delay(JOIN_MS);
  const saidNs: number[] = [];
  for (let i = 0; i < CHANGES; i++) {
    await delay(PAUSE_MS);
    saidNs.push(nowNs());
    page.counters[M.RATED_QPS] = 1 - page.counters[M.RATED_QPS];
    client.signal();
  }
  await delay(JOIN_MS);
  const exited = once(child, 'exit');
  child.send('enough');
  const [seenNs] = (await once(child, 'message')) as [number[]];
  await exited;
  client.close();
  return saidNs.flatMap((startNs, i) => {
    const endNs = saidNs[i + 1] ?? Number.POSITIVE_INFINITY;
    const seen = seenNs.filter((atNs) => atNs >= startNs && atNs < endNs);
    return seen.length === 1 ? [seen[0] - startNs] : [];
  });
}

export interface ReportToGrantTimes {
  /** Nanoseconds each. */
  readonly toSpinning: number[];
  readonly toSleeping: number[];
}

/** One round of both. */
export async function reportToGrantTimes(socket: string): Promise<ReportToGrantTimes> {
  return { toSpinning: await changesNs(socket, true), toSleeping: await changesNs(socket, false) };
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await listener(process.argv[2], process.argv[3] === 'spin');
