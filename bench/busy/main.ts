/**
 * Compares the two modes of the daemon under justitia: clients that make their own tokens at the rates that they are
 * granted, and a daemon in busy mode that hands out tokens. The clients are processes over the null device, which
 * completes everything at once. Prints JSON with medians over rounds that run all conditions; a busy
 * daemon runs on the last CPU, before all other processes if this runs as root. `ISOVERBS_ROUNDS=1` makes a quick run.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism, cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { DaemonProcess } from '../daemon/daemon-process.ts';
import { p50, p99, rounded } from '../timing.ts';
import type { Order, Report } from './client.ts';
import { busyPass } from './pass-time.ts';

const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 5);
/** Low enough for tokens that take about as long as a process waits for a CPU. */
const MAX_GBPS = 1;
const TOKENS = [
  { tokenBytes: 1_000_000, backlogBytes: 8192 },
  { tokenBytes: 64_000, backlogBytes: 8192 },
  { tokenBytes: 64_000, backlogBytes: 1_000_000 },
];
const SETTLE_MS = 200;
const MEASURED_MS = 1000;
const PROBES = 100;
const STOPS = 3;
const AFTER_STOP_MS = 300;
/** Another client's share has arrived when this part of SafeUtil is reached over this many tokens. */
const FULL_PART = 0.8;
const FULL_TOKENS = 8;
const PASS_MEMBERS = [2, 64, 512];
const PASSES = 5000;
const CLIENT = fileURLToPath(new URL('./client.js', import.meta.url));

type Figures = Record<string, number>;

/** A client process. */
class Client {
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.child = child;
  }

  static async start(socket: string, tenant: string, weight: number, options: object): Promise<Client> {
    const child = fork(CLIENT, [socket, tenant, `${weight}`, JSON.stringify(options)]);
    await once(child, 'message');
    return new Client(child);
  }

  async ask<T>(order: Order): Promise<T> {
    const answer = once(this.child, 'message');
    this.child.send(order);
    return (await answer)[0] as T;
  }

  async stop(): Promise<void> {
    const exited = once(this.child, 'exit');
    this.child.disconnect();
    await exited;
  }
}

/** Lets clients send for a while. */
async function measureShares(daemon: DaemonProcess, clients: readonly Client[]) {
  for (const client of clients) await client.ask({ do: 'flood' });
  await delay(SETTLE_MS);
  const before = await Promise.all(clients.map((client) => client.ask<Report>({ do: 'report' })));
  const daemonCpu = await daemon.cpuPercent(MEASURED_MS);
  const after = await Promise.all(clients.map((client) => client.ask<Report>({ do: 'report' })));
  for (const client of clients) await client.ask({ do: 'stop' });
  const rates = after.map(({ bytes, atNs }, i) => ((bytes - before[i].bytes) * 8) / (atNs - before[i].atNs));
  const sum = rates.reduce((all, rate) => all + rate, 0);
  const clientCpu = p50(
    after.map(({ cpuNs, atNs }, i) => ((cpuNs - before[i].cpuNs) / (atNs - before[i].atNs)) * 100),
  );
  return { part: rates.at(-1)! / sum, total: sum / MAX_GBPS, daemonCpu, clientCpu };
}

/** The time until one client has all of SafeUtil after another one stops sending, in nanoseconds. */
async function takeoverNs([stopping, staying]: readonly Client[], tokenBytes: number): Promise<number> {
  for (const client of [stopping, staying]) await client.ask({ do: 'flood' });
  await delay(SETTLE_MS);
  const stopNs = await stopping.ask<number>({ do: 'stop' });
  await delay(AFTER_STOP_MS);
  const times = (await staying.ask<number[]>({ do: 'log' })).filter((atNs) => atNs >= stopNs);
  await staying.ask({ do: 'stop' });
  const fullNs = (FULL_TOKENS * tokenBytes * 8) / MAX_GBPS / FULL_PART;
  const first = times.findIndex((atNs, i) => times[i + FULL_TOKENS] - atNs <= fullNs);
  return first < 0 ? AFTER_STOP_MS * 1e6 : times[first] - stopNs;
}

/** All measurements of one condition. */
async function measure({ tokenBytes, backlogBytes }: (typeof TOKENS)[0], isBusy: boolean): Promise<Figures> {
  const options = { maxGbps: MAX_GBPS, bulkChunkBytes: tokenBytes, backlogBytes };
  const policy = `justitia:${Object.entries(options).map((pair) => pair.join('='))}`;
  const lastCpu = `${availableParallelism() - 1}`;
  const daemon = await DaemonProcess.start(['--policy', policy, ...(isBusy ? ['--busy', lastCpu] : [])]);
  if (isBusy) daemon.prefer();
  const start = (tenant: string, weight: number) => Client.start(daemon.socket, tenant, weight, options);
  const [one, other] = [await start('one', 1), await start('other', 1)];
  const idleCpu = await daemon.cpuPercent(MEASURED_MS / 2);
  const equal = await measureShares(daemon, [one, other]);
  const takeovers: number[] = [];
  for (let i = 0; i < STOPS; i++) takeovers.push(await takeoverNs([one, other], tokenBytes));
  await delay(SETTLE_MS);
  const alone = await measureShares(daemon, [one]);
  await one.ask({ do: 'flood' });
  const waits = await other.ask<number[]>({ do: 'probe', count: PROBES });
  await other.stop();
  await one.ask({ do: 'stop' });
  const heavy = await start('heavy', 3);
  const weighted = await measureShares(daemon, [one, heavy]);
  for (const client of [one, heavy]) await client.stop();
  await daemon.stop();
  return {
    'share of one of two equal clients (ideal .5)': equal.part,
    'share of weight 3 next to weight 1 (ideal .75)': weighted.part,
    'two equal clients, payload as a part of SafeUtil': equal.total,
    'weights 1 and 3, payload as a part of SafeUtil': weighted.total,
    'one client alone, payload as a part of SafeUtil': alone.total,
    'a stopped client: time until its share is used, p50, us': p50(takeovers) / 1e3,
    'from a post of an idle client to its first token, p50, us': p50(waits) / 1e3,
    'from a post of an idle client to its first token, p99, us': p99(waits) / 1e3,
    'CPU of the daemon with idle clients, %': idleCpu,
    'CPU of the daemon with two clients that send, %': equal.daemonCpu,
    'CPU of a client that sends and polls, %': equal.clientCpu,
  };
}

async function main(): Promise<void> {
  const conditions = TOKENS.flatMap((tokens) =>
    [false, true].map((isBusy) => ({ tokens, isBusy, rounds: [] as Figures[] })),
  );
  for (let i = 0; i < ROUNDS; i++)
    for (const { tokens, isBusy, rounds } of conditions) rounds.push(await measure(tokens, isBusy));
  const results = conditions.map(({ tokens: { tokenBytes, backlogBytes }, isBusy, rounds }) => [
    `tokens of ${tokenBytes} bytes, backlogBytes=${backlogBytes}, ${isBusy ? 'handed out by a busy daemon' : 'made by the clients'}`,
    Object.fromEntries(
      Object.keys(rounds[0]).map((name) => {
        const values = rounds.map((one) => one[name]).toSorted((a, b) => a - b);
        const [median, least, most] = [p50(values), values[0], values.at(-1)!].map(rounded);
        return [name, { median, least, most }];
      }),
    ),
  ]);
  const passes = Object.fromEntries(
    PASS_MEMBERS.map((members) => [
      `a busy pass over ${members} members, CPU time in ns, and bytes allocated`,
      Object.values(busyPass(members, PASSES)).map(rounded),
    ]),
  );
  const machine = { node: process.version, cpus: cpus().length, rounds: ROUNDS, maxGbps: MAX_GBPS };
  console.log(
    JSON.stringify({ benchmark: 'busy', ...machine, ...passes, ...Object.fromEntries(results) }, null, 2),
  );
}

await main();
