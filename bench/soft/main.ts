/**
 * User-space RoCE between two processes over the loopback interface, next to two processes that only send and receive UDP
 * packets of the same sizes with the same system calls: 64 KiB WRITEs, 2-byte WRITEs, and round trips. Rounds of all
 * conditions alternate, and JSON has their medians.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { p50, rounded } from '../timing.ts';
import type { Answer, Order, Role, Test } from './messages.ts';
import { type Introduction, SoftEnd } from './soft-end.ts';
import { UdpEnd } from './udp-end.ts';

const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 7);
const IDLE_MS = 2000;
const TESTS: readonly Test[] = ['write', 'messages', 'pingpong'];

/** What a child sends first; null for a socket. */
type Hello = Introduction | null;

/** A child: answers orders until its parent ends. */
function serve(role: Role, index: number): void {
  const end = role === 'soft' ? new SoftEnd(index) : new UdpEnd(index);
  process.on('disconnect', () => process.exit());
  process.on('message', (message: Order | { peer: Introduction }) => {
    if ('peer' in message) (end as SoftEnd).connect(message.peer);
    else if (message.test === 'idle') process.send!(process.cpuUsage());
    else process.send!(end.run(message) ?? {});
  });
  process.send!('introduction' in end ? end.introduction : {});
}

async function startPair(role: Role): Promise<ChildProcess[]> {
  const start = (index: number) =>
    fork(fileURLToPath(import.meta.url), [role, `${index}`], { execArgv: ['--expose-gc'] });
  const children = [start(0), start(1)];
  const hellos = await Promise.all(children.map(async (child) => (await once(child, 'message'))[0] as Hello));
  if (role === 'soft') for (const i of [0, 1]) children[i].send({ peer: hellos[1 - i] });
  await delay(100);
  return children;
}

/** Both processes do their part; the answer of the one that measures, with the CPU time of both if it has that. */
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

async function main(): Promise<void> {
  const soft = await startPair('soft');
  const udp = await startPair('udp');
  const rates: Record<string, number[]> = {};
  const note = (name: string, value: number) => {
    rates[name] ??= [];
    rates[name].push(value);
  };
  for (let round = -1; round < ROUNDS; round++) {
    for (const test of TESTS) {
      const [ours, bare] = [await run(soft, test), await run(udp, test)];
      if (round < 0) continue;
      note(`${test} soft`, perSecond(ours));
      note(`${test} udp`, perSecond(bare));
      note(`${test} ratio`, perSecond(ours) / perSecond(bare));
    }
  }
  const median = (name: string) => p50(rates[name]);
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
          ratio: rounded(median('write ratio')),
        },
        write2B: {
          softPerSecond: Math.round(median('messages soft')),
          udpPerSecond: Math.round(median('messages udp')),
        },
        pingpong: {
          softUs: us('pingpong soft'),
          udpUs: us('pingpong udp'),
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
  for (const child of [...soft, ...udp]) child.kill();
}

const [role, index] = process.argv.slice(2);
if (index === undefined) await main();
else serve(role as Role, Number(index));
