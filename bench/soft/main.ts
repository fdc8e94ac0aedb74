/**
 * User-space RoCE between two processes over the loopback interface, next to two processes that only send and receive UDP
 * packets of the same sizes with the same system calls: 64 KiB WRITEs, 2-byte WRITEs, and round trips. Rounds of all
 * conditions alternate, and JSON has their medians. With RXE_DEV, which scripts/rxe-run sets, two processes on that device
 * of kernel soft-RoCE do the same. Because it uses the port of RoCE, the others then run in a network namespace.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { p50, rounded } from '../timing.ts';
import type { Answer, Order, Role, Test } from './messages.ts';
import { UdpEnd } from './udp-end.ts';
import { type Introduction, openRxe, openSoft, VerbsEnd } from './verbs-end.ts';

const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 7);
const IDLE_MS = 2000;
const RXE = process.env.RXE_DEV;
const NAMESPACE = 'bench-soft';
const TESTS: readonly Test[] = ['write', 'messages', 'pingpong'];

/** What a child sends first; an empty object for a socket. */
type Hello = Introduction | Record<string, never>;

/** A child: answers orders until its parent ends. */
function serve(role: Role, index: number): void {
  const end =
    role === 'udp' ? new UdpEnd(index) : new VerbsEnd(role === 'soft' ? openSoft(index) : openRxe(`${RXE}`));
  process.on('disconnect', () => process.exit());
  process.on('message', (message: Order | { peer: Introduction }) => {
    if ('peer' in message) (end as VerbsEnd).connect(message.peer);
    else if (message.test === 'idle') process.send!(process.cpuUsage());
    else process.send!(end.run(message) ?? {});
  });
  process.send!('introduction' in end ? end.introduction : {});
}

async function startPair(role: Role): Promise<ChildProcess[]> {
  const node = [process.execPath, '--expose-gc'];
  const [execPath, ...execArgv] =
    RXE === undefined || role === 'rxe' ? node : ['ip', 'netns', 'exec', NAMESPACE, ...node];
  const start = (index: number) =>
    fork(fileURLToPath(import.meta.url), [role, `${index}`], { execPath, execArgv });
  const children = [start(0), start(1)];
  const hellos = await Promise.all(children.map(async (child) => (await once(child, 'message'))[0] as Hello));
  if (role !== 'udp') for (const i of [0, 1]) children[i].send({ peer: hellos[1 - i] });
  await delay(100);
  return children;
}

/** Runs a test in both processes, and returns the answer of the one that measures. */
async function run([other, measurer]: readonly ChildProcess[], test: Test): Promise<Answer> {
  const answers = [other, measurer].map(async (child) => (await once(child, 'message'))[0] as Answer);
  other.send({ test, measures: false } satisfies Order);
  measurer.send({ test, measures: true } satisfies Order);
  const [, answer] = await Promise.all(answers);
  return answer;
}

const perSecond = ({ units, ns }: Answer) => (units * 1e9) / ns;

/** The largest share of a CPU that a process uses while nothing happens, in percent. */
async function idlePercent(children: readonly ChildProcess[]): Promise<number> {
  const used = () =>
    Promise.all(
      children.map(async (child) => {
        child.send({ test: 'idle', measures: false } satisfies Order);
        const [{ user, system }] = await once(child, 'message');
        return user + system;
      }),
    );
  const before = await used();
  await delay(IDLE_MS);
  const after = await used();
  return Math.max(...after.map((us, i) => ((us - before[i]) / (IDLE_MS * 1000)) * 100));
}

function addNamespace(): void {
  execFileSync('ip', ['netns', 'add', NAMESPACE]);
  execFileSync('ip', ['-n', NAMESPACE, 'link', 'set', 'lo', 'up']);
}

async function main(): Promise<void> {
  if (RXE !== undefined) addNamespace();
  const soft = await startPair('soft');
  const udp = await startPair('udp');
  const rxe = RXE === undefined ? [] : await startPair('rxe');
  const rates: Record<string, number[]> = {};
  const note = (name: string, value: number) => {
    rates[name] ??= [];
    rates[name].push(value);
  };
  for (let round = -1; round < ROUNDS; round++) {
    for (const test of TESTS) {
      const [ours, bare] = [await run(soft, test), await run(udp, test)];
      const kernel = rxe.length > 0 ? await run(rxe, test) : undefined;
      if (round < 0) continue;
      if (kernel !== undefined) note(`${test} rxe`, perSecond(kernel));
      note(`${test} soft`, perSecond(ours));
      note(`${test} udp`, perSecond(bare));
      note(`${test} ratio`, perSecond(ours) / perSecond(bare));
    }
  }
  const median = (name: string) => p50(rates[name]);
  // JSON leaves out what is undefined.
  const onRxe = <T>(value: () => T) => (rxe.length > 0 ? value() : undefined);
  const mbit = (name: string) => rounded((median(name) * 8) / 1e6);
  const us = (name: string) => rounded(1e6 / median(name));
  const allocated = await run(soft, 'bytes');
  const { bytes = Number.NaN, longBytes = Number.NaN, streamedBytes = Number.NaN } = allocated;
  console.log(
    JSON.stringify(
      {
        rounds: ROUNDS,
        write64KiB: {
          softMbps: mbit('write soft'),
          udpMbps: mbit('write udp'),
          rxeMbps: onRxe(() => mbit('write rxe')),
          ratio: rounded(median('write ratio')),
        },
        write2B: {
          softPerSecond: Math.round(median('messages soft')),
          udpPerSecond: Math.round(median('messages udp')),
          rxePerSecond: onRxe(() => Math.round(median('messages rxe'))),
        },
        pingpong: {
          softUs: us('pingpong soft'),
          udpUs: us('pingpong udp'),
          rxeUs: onRxe(() => us('pingpong rxe')),
          times: rounded(1 / median('pingpong ratio')),
        },
        idleCpuPercent: rounded(await idlePercent(soft)),
        allocatedBytesPerPacket: {
          short: rounded(bytes),
          long: rounded(longBytes),
          streamed: rounded(streamedBytes),
        },
      },
      null,
      2,
    ),
  );
  for (const child of [...soft, ...udp, ...rxe]) child.kill();
}

const [role, index] = process.argv.slice(2);
if (index === undefined) await main();
else serve(role as Role, Number(index));
