/**
 * Measures the time from one process's report to another's new grant through a sleeping daemon: the first writes a
 * counter and rings, the daemon runs a pass, and the other finds the grant in its page, either spinning or woken. Three
 * processes.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as M from '#src/coordinator/member-table.ts';
import { DaemonClient } from '#src/daemon/client/client.ts';
import { RATE_GBPS, RATED_QPS, shares } from '#src/policies/token-bucket/shares.ts';
import { nowNs } from '../timing.ts';
import { DEVICE } from './daemon-process.ts';

const CHANGES = 200;
/** Long enough for the daemon to be asleep again, so that each ring wakes it. */
const PAUSE_MS = 3;
const JOIN_MS = 500;

/** Reads of the grant between two checks for the end of the run. */
const SPINS = 1e6;

function member(socket: string, tenant: string) {
  const client = new DaemonClient({
    socket,
    hello: { tenant },
    standalone: { shares: { rateGbps: 1 } },
    report: () => {},
  });
  const coordinator = client.coordinator(DEVICE);
  const page = coordinator.join('') as M.MemberPage;
  page.columns(shares).reports[RATED_QPS] = 1;
  return { client, coordinator, page };
}

/** The child: records when its rate changes, until the parent ends the run. */
async function listener(socket: string, isSpinning: boolean): Promise<void> {
  const { client, coordinator, page } = member(socket, 'listener');
  const seenNs: number[] = [];
  let last = 0;
  const recordGrant = () => {
    const rate = page.columns(shares).grants[RATE_GBPS];
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
    // The heartbeat of a process that sends.
    page.counters[M.HEARTBEAT]++;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Nanoseconds of each change that was seen before the next change. */
async function changesNs(socket: string, isSpinning: boolean): Promise<number[]> {
  const child = fork(fileURLToPath(import.meta.url), [socket, isSpinning ? 'spin' : 'sleep']);
  await once(child, 'message');
  const { client, page } = member(socket, 'speaker');
  await delay(JOIN_MS);
  const saidNs: number[] = [];
  for (let i = 0; i < CHANGES; i++) {
    await delay(PAUSE_MS);
    saidNs.push(nowNs());
    page.columns(shares).reports[RATED_QPS] = 1 - page.columns(shares).reports[RATED_QPS];
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
  /** Times in nanoseconds. */
  readonly toSpinning: number[];
  readonly toSleeping: number[];
}

/** One round of both measurements. */
export async function reportToGrantTimes(socket: string): Promise<ReportToGrantTimes> {
  return { toSpinning: await changesNs(socket, true), toSleeping: await changesNs(socket, false) };
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await listener(process.argv[2], process.argv[3] === 'spin');
