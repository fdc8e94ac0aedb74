// The policy tassel under a daemon: rates of tenants hold over all their processes, which come, go and are killed, and
// rates that exceed the link are reduced alike in all processes.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test } from 'vitest';
import { request } from '../../src/daemon/client/tool-request.ts';
import { reason } from './rig.ts';
import { cleanEnv, PROGRAMS, until, World } from './world.ts';

const PROGRAM = join(PROGRAMS, 'rated.mjs');
const TIMEOUT_MS = 120_000;
const CONFIG = 'devices: {sim0: {linkGbps: 100}}\npolicy: tassel\n';

/** About what a program without a rate sends: its messages are whole, so they have fewer headers than are counted. */
const ALL = [97];

/** A program that sends all it can, and what each of its queue pairs sends. */
class Sender {
  private readonly child;
  gbps: readonly number[] = [];

  constructor(world: World, tenant: string, flows: readonly object[]) {
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
          ISOVERBS_POLICY: 'tassel',
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

async function worldOf(): Promise<World> {
  const world = new World(CONFIG);
  await world.startDaemon();
  return world;
}

/** Waits until the first queue pairs send these rates, within a part of them. */
async function send(senders: readonly Sender[], gbps: readonly number[], tolerance = 0.02): Promise<void> {
  const isSo = () => senders.every((one, i) => Math.abs(one.gbps[0] - gbps[i]) < tolerance * gbps[i]);
  await until(`${gbps.join(' and ')} Gbit/s`, isSo).catch((cause) => {
    throw new Error(`${cause.message}, but ${senders.map((one) => one.gbps.join(' ')).join(' and ')}`);
  });
}

const set = (world: World, tenant: string, setting: object) =>
  request(world.socket, { type: 'set', tenant, ...setting });

describe.skipIf(reason !== '')('tassel under a daemon', { concurrent: true, timeout: TIMEOUT_MS }, () => {
  test('a rate bounds all processes of the tenant, whose parts a killed one gives back', async () => {
    await using world = await worldOf();
    using one = new Sender(world, 'a', [{}]);
    await send([one], ALL, 0.05);
    await set(world, 'a', { gbps: 10 });
    await send([one], [10]);
    using two = new Sender(world, 'a', [{}]);
    await send([one, two], [5, 5]);
    two.kill();
    await send([one], [10]);
    await set(world, 'a', { gbps: null });
    await send([one], ALL, 0.05);
  });

  test('rates that exceed the link are reduced alike, until one is killed', async () => {
    await using world = await worldOf();
    using one = new Sender(world, 'a', [{ kbps: 90e6 }]);
    using two = new Sender(world, 'b', [{ kbps: 60e6 }]);
    const sum = 150 / 99.5;
    await send([one, two], [90 / sum, 60 / sum], 0.03);
    one.kill();
    await send([two], [60]);
  });

  test('tenants with rates above the link', async () => {
    await using world = await worldOf();
    await set(world, 'a', { gbps: 90 });
    await set(world, 'b', { gbps: 60 });
    using one = new Sender(world, 'a', [{}]);
    using two = new Sender(world, 'b', [{}]);
    const sum = 150 / 99.5;
    await send([one, two], [90 / sum, 60 / sum], 0.03);
    await set(world, 'a', { gbps: 20 });
    await send([one, two], [20, 60]);
  });
});
