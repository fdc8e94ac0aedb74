/**
 * User-space RoCE against kernel soft-RoCE: the C program ibv_rc_pingpong, which checks what it receives, on a kernel
 * device, and examples/rc-pingpong.mjs on `soft0` in another network namespace. Needs root, so it runs in the virtual
 * machine only (ISOVERBS_GROUND=rxe), and a build.
 */
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isInstalled, listening, start } from './peers/program.ts';

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

const theirs = (gid: string, port: number, ...host: string[]) =>
  start('ibv_rc_pingpong', '-c', '-d', DEVICE, '-g', gid, '-n', ITERS, '-p', `${port}`, ...host);

const ours = (port: number, ...host: string[]) =>
  start(
    ...(['ip', 'netns', 'exec', SPACE, 'env', 'ISOVERBS_PROVIDER=soft'] as const),
    ...[`ISOVERBS_SOFT_ADDRESSES=${OWN_ADDRESS}`, process.execPath, EXAMPLE],
    ...['-d', 'soft0', '-n', ITERS, '-p', `${port}`, ...host],
  );

describe.skipIf(!here)('ibv_rc_pingpong on kernel soft-RoCE', () => {
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

  test('as our server', { timeout: PATIENCE }, async () => {
    const server = theirs(gid, 19_301);
    await listening(19_301);
    const [mine, other] = await Promise.all([ours(19_301, KERNEL_ADDRESS).done, server.done]);
    expect(mine, mine.output).toMatchObject({ code: 0 });
    expect(other, other.output).toMatchObject({ code: 0 });
    expect(mine.output).toContain(`${ITERS} iters`);
  });

  test('as our client, with lost packets in both directions', { timeout: PATIENCE }, async () => {
    run('tc', ...`qdisc add dev ${KERNEL_END} root netem loss 2%`.split(' '));
    run(...['ip', 'netns', 'exec', SPACE, 'tc'], ...`qdisc add dev ${OWN_END} root netem loss 2%`.split(' '));
    const server = ours(19_302);
    await waitForServer(19_302);
    const client = theirs(gid, 19_302, OWN_ADDRESS);
    const [mine, other] = await Promise.all([server.done, client.done]);
    expect(mine, mine.output).toMatchObject({ code: 0 });
    expect(other, other.output).toMatchObject({ code: 0 });
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
