// Two processes over user-space RoCE: the example programs, unchanged. Needs a build.
// @module-tag wide
import { type ChildProcess, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { ROCE_PORT } from '../../src/roce/icrc.ts';
import { MAIN } from '../support/main.ts';
import { eachShort } from '../support/variants.ts';
import { realDevices } from '../verbs/ground.ts';
import { absent } from './rig.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const children: ChildProcess[] = [];

afterEach(() => {
  for (const { pid } of children.splice(0)) endGroup(pid as number);
});

/** Ends a program and what it has started: `isoverbs run` starts another one. */
function endGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

interface Running {
  child: ChildProcess;
  /** What it has printed so far. */
  out(): string;
  /** Resolves once it has printed this. */
  printed(text: string): Promise<void>;
  ended: Promise<number | null>;
}

function start(args: string[], env: Record<string, string | undefined>): Running {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    detached: true,
    env: { ...Object.fromEntries(inherited), NODE_OPTIONS: '', ISOVERBS_PROVIDER: 'soft', ...env },
  });
  children.push(child);
  let out = '';
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      out += chunk;
      for (const listener of listeners) listener();
    });
  }
  const printed = (text: string) =>
    new Promise<void>((done, fail) => {
      const check = () => out.includes(text) && done();
      listeners.add(check);
      child.on('exit', () =>
        out.includes(text) ? done() : fail(new Error(`'${text}' is missing in: ${out}`)),
      );
      check();
    });
  const ended = new Promise<number | null>((done) => child.on('close', done));
  return { child, out: () => out, printed, ended };
}

async function portOf(server: Running): Promise<string> {
  await server.printed('port ');
  return /port (\d+)/.exec(server.out())?.[1] ?? '';
}

const REGISTER = ['--import', 'isoverbs/register'];

describe.skipIf(absent !== null)('programs in two processes', () => {
  eachShort(2, [
    ['file-transfer', ['--size', '4M'], 'sha256 ok', {}],
    ['kv-store', ['--count', '200'], '200 GETs', { ISOVERBS_POLICY: 'perf' }],
    ['file-transfer', ['--size', '4M'], 'sha256 ok', { ISOVERBS_POLICY: 'perf' }],
    ['kv-store', ['--count', '200'], '200 GETs', {}],
  ])('%s %j prints "%s" with %j', async (name, more, says, env) => {
    const program = [...REGISTER, `examples/${name}.mjs`];
    const server = start([...program, '--listen', '0'], env);
    const port = await portOf(server);
    const client = start([...program, '--connect', `127.0.0.1:${port}`, ...more], env);
    expect(await client.ended, client.out() + server.out()).toBe(0);
    expect(client.out()).toContain(says);
  });

  eachShort(1, [
    ['kv-store', ['--count', '20'], '20 GETs'],
    ['rdma-cm-echo', [], 'echo: hello, world'],
  ])('%s runs both ends in one process, on the first device', async (name, more, says) => {
    const program = start([`examples/${name}.mjs`, ...more], {});
    expect(await program.ended, program.out()).toBe(0);
    expect(program.out()).toContain(says);
  });

  // Each process has an address of its own, and all contexts of soft0 are seats of one device of the daemon.
  eachShort(1, [[['--policy', 'perf']], [[]]])('under a daemon, started with %j', async (policy) => {
    const folder = mkdtempSync(join(tmpdir(), 'isoverbs-soft-'));
    const socket = ['--socket', join(folder, 'socket')];
    const daemon = start([MAIN, 'daemon', ...socket, ...policy], {});
    await daemon.printed('listening');
    const under = (tenant: string, ...words: string[]) =>
      start([MAIN, 'run', ...socket, '--tenant', tenant, '--', process.execPath, ...words], {});
    const programs = [
      ['store', 'kv-store', '--count', '200', '200 GETs'],
      ['bulk', 'file-transfer', '--size', '4M', 'sha256 ok'],
    ];
    const runs = programs.map(async ([tenant, name, option, value, says]) => {
      const program = `examples/${name}.mjs`;
      const server = under(tenant, program, '--listen', '0');
      const port = await portOf(server);
      const client = under(tenant, program, '--connect', `127.0.0.1:${port}`, option, value);
      expect(await client.ended, client.out() + server.out()).toBe(0);
      expect(client.out()).toContain(says);
      expect(client.out() + server.out()).not.toContain('refused');
    });
    await Promise.all(runs);
    const rows = start([MAIN, 'tenants', ...socket, '--json'], {});
    await rows.ended;
    const { tenants } = JSON.parse(rows.out());
    const seats = tenants.map(({ device, tenant }: Record<string, string>) => `${device} ${tenant}`);
    expect(seats.toSorted()).toEqual(['soft0 bulk', 'soft0 store']);
    rmSync(folder, { recursive: true });
  });

  // On a machine with an RDMA device, the daemon prefers that.
  test.skipIf(typeof realDevices !== 'string')(
    'a daemon without an RDMA device lets programs open soft0 by default, and others by name',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'isoverbs-soft-'));
      const socket = ['--socket', join(folder, 'socket')];
      const open = { ISOVERBS_PROVIDER: undefined };
      const code = `
        import { openDevice } from 'isoverbs';
        const names = [[], ['sim0'], [undefined, { provider: 'sim' }]].map((args) => openDevice(...args).name);
        console.log('opened', names.join());
        process.exit();`;
      const run = async (words: string[], env: Record<string, string | undefined> = open) => {
        const program = [process.execPath, '--input-type=module', '-e', code];
        const running = start([MAIN, 'run', ...socket, ...words, '--', ...program], env);
        await running.ended;
        return running.out();
      };
      const isSaid = 'opens soft0 (user-space RoCE) by default; --provider sim selects simulated devices\n';
      const daemon = start([MAIN, 'daemon', ...socket], open);
      await daemon.printed('listening');
      expect(daemon.out()).toContain('programs that `isoverbs run` starts open soft0');
      for (const words of [[], ['--policy', 'perf']]) {
        const out = await run(words);
        expect(out).toContain('opened soft0,sim0,sim0\n');
        expect(out).toContain(isSaid);
      }
      expect(await run(['--provider', 'sim'])).toBe('opened sim0,sim0,sim0\n');
      expect(await run([], { ...open, ISOVERBS_DEVICE: 'sim1' })).toBe('opened sim1,sim0,sim1\n');
      rmSync(folder, { recursive: true });
    },
  );

  eachShort(1, [[[]], [['--device', 'soft0']]])(
    'a daemon started with %j does not need the sockets of the devices',
    async (words) => {
      const folder = mkdtempSync(join(tmpdir(), 'isoverbs-soft-'));
      const taken = createSocket('udp4');
      taken.bind(ROCE_PORT, '127.0.0.77');
      await once(taken, 'listening');
      const daemon = start([MAIN, 'daemon', '--socket', join(folder, 'socket'), ...words], {
        ISOVERBS_SOFT_ADDRESSES: '127.0.0.77',
      });
      await daemon.printed('listening');
      taken.close();
      rmSync(folder, { recursive: true });
    },
  );

  test('a daemon with --provider sim leaves the choice to the programs', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'isoverbs-soft-'));
    const socket = ['--socket', join(folder, 'socket')];
    const open = { ISOVERBS_PROVIDER: undefined };
    const daemon = start([MAIN, 'daemon', ...socket, '--provider', 'sim'], open);
    await daemon.printed('listening');
    const program = [process.execPath, '-p', 'process.env.ISOVERBS_PROVIDER'];
    const running = start([MAIN, 'run', ...socket, '--', ...program], open);
    expect(await running.ended).toBe(0);
    expect(running.out()).toBe('undefined\n');
    rmSync(folder, { recursive: true });
  });

  test('after kill -9 of the peer, requests end with RETRY_EXC_ERR', async () => {
    const server = start(['examples/file-transfer.mjs', '--listen', '0'], {});
    const port = await portOf(server);
    const client = start(
      [
        'examples/file-transfer.mjs',
        '--connect',
        `127.0.0.1:${port}`,
        '--size',
        '4M',
        '--seconds',
        '60',
        '--progress',
      ],
      {},
    );
    await client.printed('WRITEs');
    server.child.kill('SIGKILL');
    expect(await client.ended).not.toBe(0);
    expect(client.out()).toMatch(/RETRY_EXC_ERR|closed|flush/i);
  });
});
