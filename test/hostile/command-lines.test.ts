// Command lines and files that cannot work end with an error, and do not hang. Requires a build.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { daemon, folder, isoverbs } from '../daemon/command-rig.ts';
import { reason } from '../daemon/rig.ts';
import { command } from '../mix/command.ts';
import { eachShort } from '../support/variants.ts';

const TIMEOUT = { timeout: 60_000 };

describe('command lines that cannot work end with an error', TIMEOUT, () => {
  const check = async (...args: string[]) => {
    const { code, err } = await command('daemon', '--check-config', ...args);
    return { status: code, stderr: err };
  };

  test.each([
    [`/tmp/${'x'.repeat(102)}`, 0],
    [`/tmp/${'x'.repeat(101)}ü`, 2],
    [`/tmp/${'x'.repeat(200)}`, 2],
  ])('--check-config measures the path of the socket: %s', async (path, status) => {
    const config = join(folder(), 'daemon.yaml');
    for (const text of [`socket: ${path}`, `metrics: [9464, ${path}]`]) {
      writeFileSync(config, text);
      const ending = await check('--config', config);
      expect(ending.status).toBe(status);
      if (status !== 0) expect(ending.stderr).toMatch(/daemon\.yaml: (socket|metrics): .* up to 107 bytes/);
    }
    expect((await check('--socket', path)).status).toBe(status);
  });

  test.each(['__proto__', 'constructor', 'toString', 'a b', 'a/b', '"a\\e[2Jb"', `x${'x'.repeat(63)}`])(
    '--check-config refuses a device with the name %s',
    async (name) => {
      const config = join(folder(), 'daemon.yaml');
      writeFileSync(config, `devices: { ? ${name} : { linkGbps: 3 } }`);
      const { status, stderr } = await check('--config', config);
      expect(status).toBe(2);
      expect(stderr).toMatch(/devices: must have names of devices/);
    },
  );

  test('--config of a FIFO or a device is refused at once', { tags: ['long'] }, async () => {
    const fifo = join(folder(), 'fifo');
    expect(spawnSync('mkfifo', [fifo]).status).toBe(0);
    for (const path of [fifo, '/dev/zero', '/dev/null', '/dev/tty']) {
      const { status, stderr } = await isoverbs(['daemon', '--check-config', '--config', path]).ended;
      expect({ path, status }).toEqual({ path, status: 2 });
      expect(stderr).toMatch(/cannot be read: (it is not a regular file|ENXIO)/);
    }
  });

  test('a named file of subordinate user IDs must be readable', async () => {
    const config = join(folder(), 'daemon.yaml');
    writeFileSync(config, 'subuid: /no/such/file');
    expect(await check('--config', config)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('/no/such/file cannot be read'),
    });
  });

  eachShort(2, [
    ['reproduce', '--figure', 'perf-2b', '--out', '/proc/x'],
    ['reproduce', '--figure', 'perf-2b', '--out', '/proc/x/y/z'],
    ['compare', '--keep', '/proc/x', '--app', 'D', '--duration', '1ms'],
  ])('isoverbs %s %s %s %s %s', async (...args) => {
    const { status, signal, stderr } = await isoverbs(args).ended;
    expect(signal).toBeNull();
    expect(status).not.toBe(0);
    expect(stderr).toMatch(/\/proc\/x/);
  });

  test('--svg creates no folder', async () => {
    const around = folder();
    const args = ['compare', '--app', 'D', '--duration', '1ms', '--svg', join(around, 'a/b.svg')];
    expect(await isoverbs(args).ended).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/svg: .*b\.svg cannot be written: ENOENT.*; create the folder .*\/a, or/),
    });
    expect(existsSync(join(around, 'a'))).toBe(false);
  });

  test.skipIf(reason !== '')('the daemon serves metrics on a port and on a socket', async () => {
    const [socket, metrics] = ['s', 'm'].map((name) => join(folder(), name));
    const running = await daemon(socket, ['--metrics', '0', metrics]);
    expect(running.err()).toMatch(/"url":"http:\/\/127\.0\.0\.1:\d+\/metrics"/);
    expect(running.err()).toContain(`"url":"unix:${metrics}:/metrics"`);
    running.child.kill('SIGTERM');
    expect((await running.ended).status).toBe(0);
    expect(existsSync(metrics)).toBe(false);
  });
});
