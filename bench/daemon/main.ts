/**
 * Measures the cost and the speed of the daemon (docs/daemon.md) against its goals. Prints JSON with medians over
 * rounds that run all measurements. `ISOVERBS_ROUNDS=1` makes a quick run.
 */
import { p50, p99, rounded } from '../timing.ts';
import { attachOverheadNs } from './attach-overhead.ts';
import { clientUids, DaemonProcess } from './daemon-process.ts';
import { grantDeliveryTimes } from './grant-delivery.ts';
import { joinTimesMs } from './join-time.ts';
import { ManyClients } from './many-clients.ts';
import { passTimes } from './pass-time.ts';
import { reportToGrantTimes } from './report-to-grant.ts';

const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 3);
const JOINS = 40;
const PASSES = 500;
const TENANTS = 3000;
const CONTEXTS = 4096;
const FEW_CLIENTS = 100;
const IDLE_MS = 5000;
/** Active clients per process: a few dozen among thousands. */
const ACTIVE_PER_PROCESS = 20;

type Figures = Record<string, number>;

/** The measurements with at most a few clients. */
async function measureAlone(): Promise<Figures> {
  const daemon = await DaemonProcess.start();
  const idle = await daemon.cpuPercent(IDLE_MS);
  const joins = await joinTimesMs(daemon.socket, JOINS);
  const reported = await reportToGrantTimes(daemon.socket);
  const delivered = await grantDeliveryTimes();
  const small = daemon.memoryMb();
  await daemon.stop();
  const us = (timesNs: number[]) => p50(timesNs) / 1000;
  return {
    'join, p50 (goal 5), ms': p50(joins),
    'join, p99 (goal 5), ms': p99(joins),
    'grant to a spinning tenant, from the write, p50 (goal 1), us': us(delivered.writeToSpinning),
    'grant to a spinning tenant, from the pass that writes it, p50, us': us(delivered.passToSpinning),
    'grant to a sleeping tenant, from the pass that writes it, p50 (goal 60), us': us(
      delivered.passToSleeping,
    ),
    'from one program to another that spins, through a sleeping daemon, p50, us': us(reported.toSpinning),
    'from one program to another that sleeps, through a sleeping daemon, p50, us': us(reported.toSleeping),
    'CPU of a daemon without clients (goal 1), %': idle,
    'memory of a daemon without clients, MB': small.total,
    'memory of a daemon without clients, code of Node.js only, MB': small.code,
  };
}

/** CPU time and memory with clients that are first idle and then active. */
async function measureWithClients(clients: number, contexts: number): Promise<Figures> {
  const daemon = await DaemonProcess.start();
  const crowd = await ManyClients.join(daemon.socket, clients, contexts);
  const silent = await daemon.cpuPercent(IDLE_MS);
  await crowd.setActive(ACTIVE_PER_PROCESS);
  const some = await daemon.cpuPercent(IDLE_MS);
  await crowd.setActive(clients);
  const all = await daemon.cpuPercent(IDLE_MS);
  const memory = daemon.memoryMb();
  const joins = await joinTimesMs(daemon.socket, JOINS);
  await crowd.leave();
  await daemon.stop();
  const suffix = `with ${clients} clients`;
  return {
    [`CPU ${suffix}, all idle (goal 1), %`]: silent,
    [`CPU ${suffix}, some active, %`]: some,
    [`CPU ${suffix}, all active, %`]: all,
    [`memory ${suffix} and ${contexts} contexts (goal 100), MB`]: memory.total,
    [`memory ${suffix} and ${contexts} contexts, of it code of Node.js, MB`]: memory.code,
    [`memory ${suffix} and ${contexts} contexts, of it pages, MB`]: memory.shared,
    [`join ${suffix} that are active, p50 (goal 5), ms`]: p50(joins),
    [`join ${suffix} that are active, p99 (goal 5), ms`]: p99(joins),
  };
}

function measurePass(): Figures {
  const { ring, scan } = passTimes(TENANTS, CONTEXTS, PASSES);
  const what = `over ${TENANTS} tenants and ${CONTEXTS} contexts`;
  return {
    [`a pass ${what}, after a ring, p50 (goal 1), ms`]: p50(ring) / 1e6,
    [`a pass ${what}, that scans all counters, p50 (goal 1), ms`]: p50(scan) / 1e6,
    [`a pass ${what}, that scans all counters, p99, ms`]: p99(scan) / 1e6,
  };
}

async function measureRound(): Promise<Figures> {
  const isRoot = clientUids().length > 1;
  return {
    ...(await measureAlone()),
    ...measurePass(),
    ...(await measureWithClients(FEW_CLIENTS, FEW_CLIENTS)),
    // A user can have at most 1,024 clients, so more clients need other users.
    ...(isRoot ? await measureWithClients(TENANTS, CONTEXTS) : {}),
  };
}

async function main(): Promise<void> {
  const rounds: Figures[] = [];
  for (let i = 0; i < ROUNDS; i++) rounds.push(await measureRound());
  const daemon = await DaemonProcess.start();
  const attached = attachOverheadNs(daemon.socket);
  await daemon.stop();
  const median = (name: string) => rounded(p50(rounds.map((one) => one[name])));
  const result = {
    benchmark: 'daemon',
    node: process.version,
    rounds: ROUNDS,
    ...Object.fromEntries(Object.keys(rounds[0]).map((name) => [name, median(name)])),
    'ns per request more with a daemon and nothing to isolate (goal 0.5 at batch 32)': attached,
  };
  console.log(JSON.stringify(result, null, 2));
}

await main();
