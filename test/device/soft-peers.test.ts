/**
 * User-space RoCE against kernel soft-RoCE, both as servers and as clients: the C programs ibv_rc_pingpong, ibv_uc_pingpong
 * and ibv_ud_pingpong, whose messages both ends compare, and perftest's programs, on a kernel device; our pingpong and
 * `isoverbs bench` on `soft0` in another network namespace. Those over reliable connections run a second time with lost
 * packets. Needs root, so it runs in the virtual machine only (ISOVERBS_GROUND=rxe), and a build.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAIN } from '../support/main.ts';
import { tagsIf } from '../support/variants.ts';
import type { PingpongOptions } from './peers/pingpong.ts';
import { isInstalled, listening, type Program, start } from './peers/program.ts';
import { ip, listeningIn, run, startIn } from './peers/spaces.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const PINGPONG = join(import.meta.dirname, 'children/soft-pingpong.mjs');
const here = process.env.ISOVERBS_GROUND === 'rxe' && isInstalled('ibv_rc_pingpong') && isInstalled('ip');

const SPACE = 'isoverbs-soft';
const DEVICE = 'rxe9';
const KERNEL_END = 'veth90';
const OWN_END = 'veth91';
const KERNEL_ADDRESS = '10.9.0.1';
const OWN_ADDRESS = '10.9.0.2';
const ITERS = 50;
const PATIENCE = 120_000;

/** The number of the GID that stands for the address of the kernel's end. */
async function gidIndex(): Promise<string> {
  for (let tries = 0; tries < 100; tries++) {
    const found = /GID\[\s*(\d+)\]:\s*::ffff:10\.9\.0\.1\b/.exec(run('ibv_devinfo', '-v', '-d', DEVICE));
    if (found !== null) return found[1];
    await delay(100);
  }
  throw new Error(`${DEVICE} has no GID for ${KERNEL_ADDRESS}`);
}

/** Starts a program of ours in the other namespace. */
const elsewhere = (...words: string[]) => startIn(SPACE, OWN_ADDRESS, ...words);

/** The module of our pingpong in JavaScript, as a URL, because older versions of Node.js load no TypeScript. */
function pingpongModule(): string {
  const text = readFileSync(join(import.meta.dirname, 'peers/pingpong.ts'), 'utf8');
  const { module, target } = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(text, { compilerOptions: { module, target } });
  const code = outputText
    .replace('../../../src/index.ts', pathToFileURL(join(ROOT, 'dist/index.js')).href)
    .replace('../../..', pathToFileURL(ROOT).href);
  return `data:text/javascript;base64,${Buffer.from(code).toString('base64')}`;
}

type Kind = 'rc' | 'uc' | 'ud';

/** Our pingpong; with `host`, it is the client. */
function ours(module: string, kind: Kind, lossy: boolean, port: number, host?: string): Program {
  const shape = { kind, sizeBytes: SIZES[kind], qps: 1, events: true, iters: ITERS, lossy };
  const options: PingpongOptions = { ...shape, device: 'soft0', gidIndex: 0, host, port };
  return elsewhere(PINGPONG, module, JSON.stringify(options));
}

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

/** Messages of several packets, and of one. */
const SIZES = { rc: 20_000, uc: 20_000, ud: 1024 };

describe.skipIf(!here)('programs on kernel soft-RoCE', () => {
  let gid = '';
  let module = '';

  beforeAll(async () => {
    ip(`netns add ${SPACE}`);
    ip(`link add ${KERNEL_END} type veth peer name ${OWN_END} netns ${SPACE}`);
    ip(`addr add ${KERNEL_ADDRESS}/24 dev ${KERNEL_END}`);
    ip(`link set ${KERNEL_END} up`);
    ip(`-n ${SPACE} addr add ${OWN_ADDRESS}/24 dev ${OWN_END}`);
    ip(`-n ${SPACE} link set ${OWN_END} up`);
    run('rdma', 'link', 'add', DEVICE, 'type', 'rxe', 'netdev', KERNEL_END);
    gid = await gidIndex();
    module = pingpongModule();
  }, PATIENCE);

  afterAll(() => {
    run('rdma', 'link', 'delete', DEVICE);
    ip(`link delete ${KERNEL_END}`);
    ip(`netns delete ${SPACE}`);
  });

  /** Both programs end well, theirs first. */
  async function bothEnd(mine: Program, other: Program): Promise<void> {
    const theirs = await Promise.race([other.done, mine.done]);
    mine.release();
    const [a, b] = await Promise.all([mine.done, other.done]);
    const outputs = a.output + b.output;
    expect(theirs.code, outputs).toBe(0);
    expect(a, outputs).toMatchObject({ code: 0 });
    expect(b, outputs).toMatchObject({ code: 0 });
    expect(b.output).not.toContain('invalid data');
  }

  /** With -c, the C program checks what it receives. */
  const theirPingpong = (kind: Kind, port: number, ...host: string[]) =>
    start(
      ...([`ibv_${kind}_pingpong`, '-c', '-d', DEVICE, '-g', gid, '-n', `${ITERS}`] as const),
      ...['-s', `${SIZES[kind]}`, '-p', `${port}`, ...host],
    );

  /** CI runs one role of each transport. */
  function pingpongs(kind: Kind, lossy: boolean, port: number, shortRole: 'server' | 'client'): void {
    const options = (role: typeof shortRole) => ({ tags: tagsIf(role === shortRole), timeout: PATIENCE });

    test(`ibv_${kind}_pingpong is our server`, options('server'), async () => {
      const server = theirPingpong(kind, port);
      await listening(port);
      await bothEnd(ours(module, kind, lossy, port, KERNEL_ADDRESS), server);
    });

    test(`ibv_${kind}_pingpong is our client`, options('client'), async () => {
      const server = ours(module, kind, lossy, port + 1);
      await listeningIn(SPACE, port + 1);
      await bothEnd(server, theirPingpong(kind, port + 1, OWN_ADDRESS));
    });
  }

  function perftest(name: string, flags: string, at: number): void {
    const more = (port: number) => ['-p', `${port}`, ...flags.split(' ')];
    const theirProgram = (port: number, ...host: string[]) =>
      start(`ib_${name}`, '-d', DEVICE, '-x', gid, '-F', ...more(port), ...host);
    const ourProgram = (port: number, ...host: string[]) =>
      elsewhere(MAIN, 'bench', name, '-d', 'soft0', ...more(port), ...host);
    const options = { tags: ['long'], timeout: PATIENCE };

    test.skipIf(!isInstalled('ib_write_bw'))(`ib_${name} ${flags} is our server`, options, async () => {
      const server = theirProgram(at);
      await listening(at);
      await bothEnd(ourProgram(at, KERNEL_ADDRESS), server);
    });

    test.skipIf(!isInstalled('ib_write_bw'))(`ib_${name} ${flags} is our client`, options, async () => {
      const server = ourProgram(at + 1);
      await listeningIn(SPACE, at + 1);
      await bothEnd(server, theirProgram(at + 1, OWN_ADDRESS));
    });
  }

  describe('without losses', () => {
    pingpongs('rc', false, 19_301, 'server');
    pingpongs('uc', false, 19_303, 'client');
    pingpongs('ud', false, 19_305, 'server');
    for (const [i, [name, flags]] of PERFTEST.entries()) perftest(name, flags, 19_400 + 2 * i);
  });

  describe('with 1 % of the datagrams lost in both directions', () => {
    beforeAll(() => {
      const words = (device: string) => `qdisc add dev ${device} root netem loss 1%`.split(' ');
      run('tc', ...words(KERNEL_END));
      run('ip', 'netns', 'exec', SPACE, 'tc', ...words(OWN_END));
    });

    pingpongs('rc', true, 19_321, 'client');
    for (const [i, [name, flags]] of PERFTEST.entries()) {
      if (!flags.includes('-c')) perftest(name, flags, 19_450 + 2 * i);
    }
  });
});
