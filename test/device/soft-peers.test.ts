/**
 * User-space RoCE against kernel soft-RoCE: the C programs ibv_rc_pingpong and ibv_uc_pingpong, which check what they
 * receive, and perftest's on a kernel device; examples/rc-pingpong.mjs and `isoverbs bench` on `soft0` in another network
 * namespace. Needs root, so it runs in the virtual machine only (ISOVERBS_GROUND=rxe), and a build.
 */
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isInstalled, listening, type Program, start } from './peers/program.ts';

const MAIN = resolve(import.meta.dirname, '../../dist/cli/main.js');
const EXAMPLE = resolve(import.meta.dirname, '../../examples/rc-pingpong.mjs');
const here = process.env.ISOVERBS_GROUND === 'rxe' && isInstalled('ibv_rc_pingpong') && isInstalled('ip');

const SPACE = 'isoverbs-soft';
const DEVICE = 'rxe9';
const KERNEL_END = 'veth90';
const OWN_END = 'veth91';
const KERNEL_ADDRESS = '10.9.0.1';
const OWN_ADDRESS = '10.9.0.2';
const ITERS = '50';
const PATIENCE = 120_000;

const run = (...words: string[]) => execFileSync(words[0], words.slice(1), { encoding: 'utf8' });
const ip = (words: string) => run('ip', ...words.split(' '));

/** The number of the GID that stands for the address of the kernel's end. */
async function gidIndex(): Promise<string> {
  for (let tries = 0; tries < 100; tries++) {
    const found = /GID\[\s*(\d+)\]:\s*::ffff:10\.9\.0\.1\b/.exec(run('ibv_devinfo', '-v', '-d', DEVICE));
    if (found !== null) return found[1];
    await delay(100);
  }
  throw new Error(`${DEVICE} has no GID for ${KERNEL_ADDRESS}`);
}

type Kind = 'rc' | 'uc';
const theirs = (kind: Kind, gid: string, port: number, ...host: string[]) =>
  start(`ibv_${kind}_pingpong`, '-c', '-d', DEVICE, '-g', gid, '-n', ITERS, '-p', `${port}`, ...host);

/** Starts a program of ours in the other namespace. */
const elsewhere = (...words: string[]) =>
  start(
    ...(['ip', 'netns', 'exec', SPACE, 'env', 'ISOVERBS_PROVIDER=soft'] as const),
    ...[`ISOVERBS_SOFT_ADDRESSES=${OWN_ADDRESS}`, process.execPath, ...words],
  );

const ours = (kind: Kind, port: number, ...host: string[]) =>
  elsewhere(EXAMPLE, '-d', 'soft0', '--type', kind.toUpperCase(), '-n', ITERS, '-p', `${port}`, ...host);

/** Each of perftest's tests, and each transport. */
const PERFTEST = [
  ['write_bw', '-n 100'],
  ['send_bw', '-n 100'],
  ['read_bw', '-n 100'],
  ['atomic_bw', '-n 100'],
  ['write_lat', '-n 100'],
  ['send_lat', '-n 100'],
  ['read_lat', '-n 100'],
  ['atomic_lat', '-n 100'],
  ['write_lat', '-n 100 -c UC'],
  ['send_lat', '-n 100 -c UD'],
] as const;

describe.skipIf(!here)('programs on kernel soft-RoCE', () => {
  let gid = '';

  beforeAll(async () => {
    ip(`netns add ${SPACE}`);
    ip(`link add ${KERNEL_END} type veth peer name ${OWN_END} netns ${SPACE}`);
    ip(`addr add ${KERNEL_ADDRESS}/24 dev ${KERNEL_END}`);
    ip(`link set ${KERNEL_END} up`);
    ip(`-n ${SPACE} addr add ${OWN_ADDRESS}/24 dev ${OWN_END}`);
    ip(`-n ${SPACE} link set ${OWN_END} up`);
    run('rdma', 'link', 'add', DEVICE, 'type', 'rxe', 'netdev', KERNEL_END);
    gid = await gidIndex();
  }, PATIENCE);

  afterAll(() => {
    run('rdma', 'link', 'delete', DEVICE);
    ip(`link delete ${KERNEL_END}`);
    ip(`netns delete ${SPACE}`);
  });

  /** Both programs end well. Returns what ours has printed. */
  async function bothEnd(mine: Program, other: Program): Promise<string> {
    const [a, b] = await Promise.all([mine.done, other.done]);
    expect(a, a.output + b.output).toMatchObject({ code: 0 });
    expect(b, b.output).toMatchObject({ code: 0 });
    return a.output;
  }

  test.each(['rc', 'uc'] as const)('ibv_%s_pingpong is our server', { timeout: PATIENCE }, async (kind) => {
    const port = kind === 'rc' ? 19_301 : 19_303;
    const server = theirs(kind, gid, port);
    await listening(port);
    expect(await bothEnd(ours(kind, port, KERNEL_ADDRESS), server)).toContain(`${ITERS} iters`);
  });

  describe.skipIf(!isInstalled('ib_write_bw'))('perftest', () => {
    for (const [i, [name, flags]] of PERFTEST.entries()) {
      const words = flags.split(' ');
      const more = (port: number) => ['-p', `${port}`, ...words];
      const theirProgram = (port: number, ...host: string[]) =>
        start(`ib_${name}`, '-d', DEVICE, '-x', gid, '-F', ...more(port), ...host);
      const ourProgram = (port: number, ...host: string[]) =>
        elsewhere(MAIN, 'bench', name, '-d', 'soft0', ...more(port), ...host);

      test(`ib_${name} ${flags} is our server`, { tags: ['long'], timeout: PATIENCE }, async () => {
        const port = 19_400 + 2 * i;
        const server = theirProgram(port);
        await listening(port);
        await bothEnd(ourProgram(port, KERNEL_ADDRESS), server);
      });

      test(`ib_${name} ${flags} is our client`, { tags: ['long'], timeout: PATIENCE }, async () => {
        const port = 19_401 + 2 * i;
        const server = ourProgram(port);
        await waitForServer(port);
        await bothEnd(server, theirProgram(port, OWN_ADDRESS));
      });
    }
  });

  test('ibv_rc_pingpong is our client, with lost packets in both directions', {
    timeout: PATIENCE,
  }, async () => {
    run('tc', ...`qdisc add dev ${KERNEL_END} root netem loss 2%`.split(' '));
    run(...['ip', 'netns', 'exec', SPACE, 'tc'], ...`qdisc add dev ${OWN_END} root netem loss 2%`.split(' '));
    const server = ours('rc', 19_302);
    await waitForServer(19_302);
    await bothEnd(server, theirs('rc', gid, 19_302, OWN_ADDRESS));
  });
});

/** Waits for a port in the other namespace, which only a program there sees. */
async function waitForServer(port: number): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    const table = run('ip', 'netns', 'exec', SPACE, 'cat', '/proc/net/tcp', '/proc/net/tcp6');
    if (new RegExp(`:${port.toString(16).toUpperCase()} [0-9A-F]+:0000 0A`).test(table)) return;
    await delay(50);
  }
  throw new Error(`nothing listens on port ${port} there`);
}
