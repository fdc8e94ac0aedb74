/** Programs under tassel and a real daemon, as processes that send all they can. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { cleanEnv, PROGRAMS, until, World } from './world.ts';

const PROGRAM = join(PROGRAMS, 'rated.mjs');
const CONFIG = 'devices: {sim0: {linkGbps: 100}}\n';

/** A program that sends all it can, and what each of its queue pairs sends. */
export class Sender {
  private readonly child;
  gbps: readonly number[] = [];

  constructor(world: World, tenant: string, flows: readonly object[], policy = 'tassel') {
    this.child = spawn(
      process.execPath,
      [
        `--import=${join(import.meta.dirname, '../../dist/register.js')}`,
        PROGRAM,
        ...flows.map((one) => JSON.stringify(one)),
      ],
      {
        env: {
          ...cleanEnv(),
          ISOVERBS_DAEMON: world.socket,
          ISOVERBS_POLICY: policy,
          ISOVERBS_TENANT: tenant,
        },
        stdio: ['pipe', 'pipe', 'inherit'],
      },
    );
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      this.gbps = JSON.parse(line).gbps ?? this.gbps;
    });
  }

  say(line: string): void {
    this.child.stdin.write(`${line}\n`);
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }

  [Symbol.dispose](): void {
    this.kill();
  }
}

/** A daemon. @param more lines of its configuration */
export async function worldOf(more = '', policy = 'tassel'): Promise<World> {
  const world = new World(`${CONFIG}policy: ${policy}\n${more}`);
  await world.startDaemon();
  return world;
}

/** The rate of a queue pair without one of its own: what the others leave, or less while messages are too few. */
export const REST = Number.NaN;

/**
 * Waits until the queue pairs of each program send these rates, or the first ones do, within a part of them.
 * @throws Error with the last rates
 */
export async function send(
  senders: readonly Sender[],
  gbps: readonly (number | readonly number[])[],
  tolerance = 0.02,
): Promise<void> {
  const wanted = gbps.map((one) => (typeof one === 'number' ? [one] : one));
  const isSo = () =>
    senders.every((sender, i) =>
      wanted[i].every((one, k) =>
        Number.isNaN(one) ? sender.gbps[k] > 0 : Math.abs(sender.gbps[k] - one) < tolerance * one,
      ),
    );
  await until(`${gbps.join(' and ')} Gbit/s`, isSo).catch((cause) => {
    throw new Error(`${cause.message}, but ${senders.map((one) => one.gbps.join(' ')).join(' and ')}`);
  });
}
