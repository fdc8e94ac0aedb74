// The command on user-space RoCE: devices, bench between two processes, mix, and captures. Needs a build.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { pageOf } from '../../src/cli/manual.ts';
import { program } from '../../src/cli/program.ts';
import { MAIN } from '../support/main.ts';
import { packetOf, readPcapng } from '../support/pcapng.ts';
import { absent } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-soft-'));
const execute = promisify(execFile);
const isoverbs = async (...words: string[]) => (await execute(process.execPath, [MAIN, ...words])).stdout;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A TCP port that is free now. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** What tshark finds wrong with a capture; undefined if it is not installed. */
function malformed(file: string): string | undefined {
  try {
    return execFileSync('tshark', ['-r', file, '-Y', '_ws.malformed || _ws.expert.severity == error'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

describe.skipIf(absent !== null)('the command on user-space RoCE', () => {
  test('devices lists one for each address, the loopback interface first', async () => {
    const { devices, notes } = JSON.parse(await isoverbs('devices', '--json'));
    const soft = devices.filter(({ provider }: { provider: string }) => provider === 'soft');
    expect(soft[0]).toMatchObject({ name: 'soft0', ports: [{ state: 'ACTIVE', activeMtuBytes: 4096 }] });
    expect(soft[0].ports[0].gids[0].gid).toMatch(/^::ffff:127\.0\.0\./);
    expect(notes.join()).toContain('ISOVERBS_PROVIDER=soft');
  });

  test('bench write_bw measures between two processes', { tags: ['long'], timeout: 60_000 }, async () => {
    const words = [
      'bench',
      'write_bw',
      '--provider',
      'soft',
      '-p',
      `${await freePort()}`,
      '-n',
      '50',
      '--json',
    ];
    // The server is told by the environment.
    const env = { ...process.env, ISOVERBS_PROVIDER: 'soft' };
    const serverWords = words.filter((word) => !['--provider', 'soft'].includes(word));
    const server = spawn(process.execPath, [MAIN, ...serverWords], { stdio: 'ignore', env });
    const ended = new Promise((done) => server.on('close', done));
    let text = '';
    // The server may not listen yet.
    for (let tries = 0; text === ''; tries++) {
      text = await isoverbs(...words, '127.0.0.1').catch((error) => {
        if (tries === 20) throw error;
        return '';
      });
    }
    expect(JSON.parse(text).results).toMatchObject({ MsgSize: 65_536, n_iterations: 50 });
    expect(await ended).toBe(0);
  });

  test('mix checks each message, and --pcap writes packets with right ICRCs', {
    timeout: 60_000,
  }, async () => {
    const file = join(folder, 'run.pcapng');
    const apps = ['B:size=64KiB', 'D:size=16,op=send', 'D:op=atomic,name=a', 'B:op=read,name=r'];
    const words = apps.flatMap((app) => ['--app', app]);
    const timing = ['--duration', '400ms', '--warmup', '50ms', '--pcap', file];
    const result = JSON.parse(await isoverbs('mix', '--provider', 'soft', ...words, ...timing, '--json'));
    expect(result.invariants).toEqual([]);
    expect(result.verified).toBeGreaterThan(0);
    expect(result.apps.every(({ errors }: { errors: number }) => errors === 0)).toBe(true);
    const { frames } = readPcapng(file);
    const opcodes = new Set(frames.map((frame) => packetOf(frame).opcode));
    // WRITEs, SENDs, READs, atomics and all their answers.
    expect([...opcodes]).toEqual(expect.arrayContaining([0x04, 0x06, 0x08, 0x0c, 0x11, 0x12, 0x14]));
    expect(frames.filter(({ outbound }) => outbound).length).toBeGreaterThan(frames.length / 3);
    expect(malformed(file) ?? '').toBe('');
  });

  test('the example of mix --help runs', { timeout: 60_000 }, async () => {
    const page = pageOf((await program(['mix'])).commands[0]);
    const [line = ''] = page?.examples.map(([one]) => one).filter((one) => one.includes('soft')) ?? [];
    const { stdout } = await execute(process.execPath, [MAIN, ...line.split(' ').slice(1)], { cwd: folder });
    expect(stdout).toContain('0.9 s after 0.1 s of warm-up');
  });

  test('rc-pingpong says in one line that no server answers', async () => {
    const example = resolve(import.meta.dirname, '../../examples/rc-pingpong.mjs');
    const port = await freePort();
    const words = ['-d', 'soft0', '-g', '0', '-p', `${port}`, '127.0.0.1'];
    const ended = execute(process.execPath, [example, ...words]);
    await expect(ended).rejects.toMatchObject({
      code: 1,
      stderr: `no pingpong server answers at 127.0.0.1, port ${port}: connect ECONNREFUSED 127.0.0.1:${port} (ISO_ERR_CONNECTION)\n`,
    });
  });

  test('impossible combinations name the way out', async () => {
    const fails = async (...words: string[]) => {
      const { stderr } = await isoverbs(...words).then(
        () => ({ stderr: '' }),
        (error) => error as { stderr: string },
      );
      return stderr;
    };
    expect(await fails('bench', 'write_bw', '--provider', 'sim', '--pcap', 'x')).toMatch(/--provider soft/);
    expect(await fails('mix', '--provider', 'soft', '--app', 'B', '--pcap', '/nowhere/x')).toMatch(
      /pcap: cannot write \/nowhere\/x/,
    );
  });
});
