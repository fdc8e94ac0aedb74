// `isoverbs daemon` and `isoverbs run` as processes: their start, output and end. Requires a build.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect as connectNet, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { getDeviceList } from '../../src/open.ts';
import { command } from '../mix/command.ts';
import { eachShort, variants } from '../support/variants.ts';
import { daemon, folder, isoverbs, MAIN, started, tenant } from './command-rig.ts';
import { hasPython, reason, until } from './rig.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT = { timeout: 60_000 };
const REGISTER = join(ROOT, 'dist/register.js');
/** Long enough for the timeout for a daemon that does not answer. */
const OPENS = `
  import { openDevice } from 'isoverbs';
  const context = openDevice();
  setTimeout(() => { context.close(); console.log('well'); }, 300);
`;

function file(text: string): string {
  const path = join(folder(), 'daemon.yaml');
  writeFileSync(path, text);
  return path;
}

const check = (path: string) => command('daemon', '--check-config', '--config', path);

describe('--check-config', TIMEOUT, () => {
  test.each([
    ['rulez: []', /rulez/],
    ['rules: [{ tenant: 7 }]', /rules\.0\.tenant: /],
    ['rules: [{ match: { uid: -1 } }]', /rules\.0\.match\.uid: /],
    ['rules: [{ match: { user: root } }]', /rules\.0\.match: .*user/],
    ['mode: "999"', /mode: must be permissions as '660'/],
    ['devices: { sim0: { linkGbps: fast } }', /devices\.sim0\.linkGbps: /],
    ['policy: prf', /unknown policy 'prf'; did you mean 'perf'\?/],
    ['rules: [', /:/],
  ])('%s is refused with status 2, the file and the key', async (text, problem) => {
    const path = file(text);
    const { code, out, err } = await check(path);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(/^isoverbs: .*\n$/);
    expect(err).toContain(path);
    expect(err).toMatch(problem);
  });

  test('the socket is that of --socket, of the file, of ISOVERBS_DAEMON, or else the default one', async () => {
    const path = file('socket: /run/of-file.sock');
    const env = { ISOVERBS_DAEMON: '/run/of-environment.sock' };
    const socketOf = async (...args: string[]) => {
      const { stdout } = await isoverbs(['daemon', '--check-config', ...args], env).ended;
      return /the socket is (.*)\n/.exec(stdout)?.[1];
    };
    expect(await socketOf('--config', path, '--socket', '/run/of-flag.sock')).toBe('/run/of-flag.sock');
    expect(await socketOf('--config', path)).toBe('/run/of-file.sock');
    expect(await socketOf('--config', file('rules: []'))).toBe('/run/of-environment.sock');
  });

  test('a module whose ruler names a column that it does not have is refused', async () => {
    const module = join(folder(), 'broken.mjs');
    writeFileSync(
      module,
      `export const rulers = [{
        name: 'broken', reports: [{ name: 'active', unit: '', min: 0, max: 1, default: 0 }], grants: [],
        rules: { safeParse: (data) => ({ success: true, data }) },
        begin: (members) => ({ column: members.report('activ'), decide() {} }),
      }];
      export default () => ({ name: 'broken', needs: { wait: 'none' }, slots: 0, onload: () => 0, feed() {} });`,
    );
    const { code, err } = await check(file(`policy: ${module}`));
    expect([code, err]).toEqual([
      2,
      expect.stringContaining(
        "ruler 'broken' cannot begin: ruler 'broken' has no report 'activ'; it has: active",
      ),
    ]);
  });

  test('a missing file and no file are refused', async () => {
    for (const path of ['/no/such.yaml', '/tmp']) {
      const { code, err } = await check(path);
      expect({ code, err }).toEqual({
        code: 2,
        err: expect.stringContaining(`${path} cannot be read`),
      });
    }
  });

  test('a valid file exits with 0 and names rules that never decide', async () => {
    const path = file(`rules:
  - match: { uid: 1, command: 'x*' }
  - match: { uid: 1 }
  - match: { uid: 1, cgroup: '/a' }
  - match: { declared: d }
  - match: { declared: d, gid: 5 }
  - match: {}
  - match: { uid: 2 }
`);
    const { code, out, err } = await check(path);
    expect({ code, out }).toEqual({
      code: 0,
      out: expect.stringMatching(/: 7 rules; the socket is \//),
    });
    expect(err).toBe(
      `isoverbs: ${path}: rules.2 never decides anything, because rules.1 before it matches all its clients\n` +
        `isoverbs: ${path}: rules.6 never decides anything, because rules.5 before it matches all its clients\n`,
    );
  });
});

describe.skipIf(reason !== '')('the daemon', TIMEOUT, () => {
  eachShort(1, ['SIGTERM', 'SIGINT'] as const)(
    '%s ends the daemon with status 0 and removes the socket',
    async (signal) => {
      const socket = join(folder(), 's');
      const running = await daemon(socket);
      expect(existsSync(socket)).toBe(true);
      running.child.kill(signal);
      expect(await running.ended).toMatchObject({ status: 0, signal: null, stdout: '' });
      expect(existsSync(socket)).toBe(false);
    },
  );

  test('a second daemon is refused; the socket of a killed one is taken over', async () => {
    const socket = join(folder(), 's');
    const first = await daemon(socket);
    const second = await isoverbs(['daemon', '--socket', socket]).ended;
    expect({ status: second.status, stdout: second.stdout }).toEqual({ status: 1, stdout: '' });
    expect(second.stderr).toMatch(/^isoverbs: .*another process already listens on .*\n$/m);
    expect(second.stderr).not.toMatch(/^ +at /m);
    first.child.kill('SIGKILL');
    await first.ended;
    expect(existsSync(socket)).toBe(true);
    await daemon(socket);
  });

  test('an unusable socket path is reported with a remedy', { tags: ['long'] }, async () => {
    const open = join(folder(), 'open');
    mkdirSync(open, { mode: 0o777 });
    spawnSync('chmod', ['777', open]);
    const plain = file('not a socket');
    for (const [socket, status, problem] of [
      [join(open, 's'), 2, /other users can change it; choose a path with --socket/],
      [plain, 1, /is there and is no socket/],
      [`/tmp/${'x'.repeat(120)}`, 2, /up to 107 bytes/],
      [
        '/proc/none/s',
        2,
        /the socket's folder \/proc\/none cannot be created: .*; choose another path with --socket/,
      ],
    ] as const) {
      const ending = await isoverbs(['daemon', '--socket', socket]).ended;
      expect({ socket, status: ending.status }).toEqual({ socket, status });
      expect(ending.stderr).toMatch(problem);
      expect(ending.stderr).not.toMatch(/^ +at /m);
    }
  });

  test('SIGHUP keeps the rules if the file is invalid, and replaces them otherwise', async () => {
    const socket = join(folder(), 's');
    const path = file('rules: []');
    const running = await daemon(socket, ['--config', path]);
    const logged = (pattern: RegExp) => until(() => pattern.test(running.err()));
    writeFileSync(path, 'rules: 7');
    running.child.kill('SIGHUP');
    await logged(/"level":50.*daemon\.yaml: rules: .*: the rules stay unchanged/);
    writeFileSync(path, "mode: '600'\npolicy: perf\nrules: [{}, {}]");
    running.child.kill('SIGHUP');
    await logged(/"rules":2,"msg":"reloaded the rules"/);
    await logged(/rules\.1 never decides anything/);
    await logged(/"msg":"mode, policy: changes take effect at the next start"/);
    expect((await isoverbs(['tenants', '--socket', socket]).ended).status).toBe(0);
    expect((await isoverbs(['tenants'], { ISOVERBS_DAEMON: socket }).ended).status).toBe(0);

    const setting = isoverbs(['set', 'a', 'weight=2', '--future', '--socket', socket]);
    expect(await setting.ended).toMatchObject({
      status: 0,
      stderr: "isoverbs: no tenant 'a' is present now; the setting applies once one connects\n",
    });
    await logged(/ set a"/);
    const line = running
      .err()
      .split('\n')
      .find((one) => one.includes(' set a"'));
    // A duplicate key in a JSON line would hide one of its values from readers; `pid` is the daemon's.
    expect(line?.match(/"pid":\d+/g)).toEqual([`"pid":${running.child.pid}`, `"pid":${setting.child.pid}`]);
    expect(JSON.parse(line ?? '')).toMatchObject({
      pid: running.child.pid,
      client: { pid: setting.child.pid },
    });
  });

  test('set refuses a tenant that is not present, and suggests one that is, unless --future is given', async () => {
    const socket = join(folder(), 's');
    const running = await daemon(socket, ['--policy', 'token-bucket']);
    await tenant(socket, 'storage');
    const set = (name: string, ...more: string[]) =>
      isoverbs(['set', name, 'weight=3', '--socket', socket, ...more]).ended;
    const way = 'to keep the setting until it connects, add --future';
    for (const [name, question] of [
      ['storag', "did you mean 'storage'? "],
      ['kv', ''],
    ])
      expect(await set(name)).toMatchObject({
        status: 1,
        stdout: '',
        stderr: `isoverbs: no tenant '${name}' is present; ${question}${way}\n`,
      });
    expect(running.err()).not.toContain(' set ');
    expect(await set('storage')).toMatchObject({ status: 0, stderr: '' });
    await until(() => / set storage"/.test(running.err()));
    expect(await set('kv', '--future')).toMatchObject({
      status: 0,
      stderr: "isoverbs: no tenant 'kv' is present now; the setting applies once one connects\n",
    });
    await tenant(socket, 'kv');
    const listed = await isoverbs(['tenants', '--json', '--socket', socket]).ended;
    const { tenants: rows } = JSON.parse(listed.stdout);
    expect(rows.map((one: { tenant: string; weight: number }) => [one.tenant, one.weight]).sort()).toEqual([
      ['kv', 3],
      ['storage', 3],
    ]);
    // A weight without effect.
    const both = await isoverbs(['set', 'storage', 'weight=2', 'gbps=10', '--socket', socket]).ended;
    expect(both).toMatchObject({
      status: 0,
      stderr:
        "isoverbs: the weight of tenant 'storage' is now 2, but has no effect: its rate is fixed at 10 Gbit/s; " +
        '`isoverbs set storage gbps=share` gives it a share by weight again\n',
    });
  });

  test('set says that a rate has no effect without a policy that enforces it', async () => {
    const socket = join(folder(), 's');
    await daemon(socket);
    await tenant(socket, 'storage');
    const set = async (word: string) =>
      (await isoverbs(['set', 'storage', word, '--socket', socket]).ended).stderr;
    expect(await set('gbps=0.3')).toBe(
      "isoverbs: the rate of tenant 'storage' is now 0.3 Gbit/s, but has no effect: the daemon has no policy; " +
        'token-bucket enforces rates, and tassel, drum and fair enforce them as upper bounds\n',
    );
    expect(await set('gbps=share')).toBe('');
  });

  test('a weight that was set remains so if the daemon answers no more', async () => {
    const socket = join(folder(), 's');
    await daemon(socket);
    await tenant(socket, 'storage');
    // Lets a single tool reach the daemon.
    let tools = 0;
    const gate = createServer((tool) => {
      if (++tools > 1) tool.destroy();
      else tool.pipe(connectNet(socket)).pipe(tool);
    });
    const closing = join(folder(), 'closing');
    gate.listen(closing);
    const { status, stderr } = await isoverbs(['set', 'storage', 'weight=2', '--socket', closing]).ended;
    gate.close();
    expect({ status, tools }).toEqual({ status: 0, tools: 2 });
    expect(stderr).toMatch(
      /^isoverbs: the weight of tenant 'storage' is now 2; whether it has an effect is unknown: /,
    );
    const { stdout } = await isoverbs(['tenants', '--json', '--socket', socket]).ended;
    expect(JSON.parse(stdout).tenants).toMatchObject([{ tenant: 'storage', weight: 2 }]);
  });

  test('a log that cannot be written, for example on a full disk, ends no process', {
    tags: ['long'],
  }, async () => {
    const socket = join(folder(), 's');
    const running = started('sh', [
      '-c',
      'exec "$0" "$@" 2>/dev/full',
      process.execPath,
      ...[MAIN, 'daemon', '--socket', socket],
    ]);
    await until(() => existsSync(socket));
    for (let i = 0; i < 3; i++) {
      const evil = connectNet(socket).on('error', () => {});
      evil.resume().write('garbage');
      await new Promise((resolve) => evil.once('close', resolve));
    }
    expect((await isoverbs(['tenants', '--socket', socket]).ended).status).toBe(0);
    running.child.kill('SIGTERM');
    expect((await running.ended).status).toBe(0);
  });

  test('without a daemon, a program continues even if its stderr is not read', async () => {
    const program = spawn(process.execPath, [`--import=${REGISTER}`, '--input-type=module', '-e', OPENS], {
      cwd: ROOT,
      env: {
        PATH: process.env.PATH,
        ISOVERBS_DAEMON: join(folder(), 'none'),
        ISOVERBS_POLICY: 'token-bucket',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    program.stderr.destroy();
    let said = '';
    program.stdout.on('data', (chunk) => {
      said += chunk;
    });
    const status = await new Promise((resolve) => program.once('close', resolve));
    expect([status, said]).toEqual([0, 'well\n']);
  });

  test('tenants, set and run without a daemon; invalid settings', async () => {
    const none = join(folder(), 'none');
    for (const args of [['tenants'], ['set', 'a', 'weight=2']]) {
      const { status, stdout, stderr } = await isoverbs([...args, '--socket', none]).ended;
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
      expect(stderr).toBe(
        `isoverbs: start \`isoverbs daemon\`, or name another socket with --socket or ISOVERBS_DAEMON: no daemon answers at ${none}: No such file or directory (ENOENT) (ISO_ERR_NO_DAEMON)\n`,
      );
    }
    for (const word of ['weight', 'weight=own', 'weight=0', 'weight=x', 'wait=1', 'gbps=-1', 'weight=1=2']) {
      const { code, err } = await command('set', 'a', word, '--socket', none);
      expect({ word, code }).toEqual({ word, code: 2 });
      expect(err).toContain(`invalid setting '${word}'; use weight=NUMBER (weights are from 1e-6 to 1e6); `);
    }
    const { err } = await command('set', 'a', 'wieght=3', '--socket', none);
    expect(err).toContain("; did you mean 'weight'?");
    const ran = await isoverbs(['run', '--socket', none, '--', 'echo', '1']).ended;
    expect(ran).toMatchObject({ status: 0, stdout: '1\n' });
    const [{ name, provider }] = getDeviceList();
    const opens = provider === 'sim' ? ` and opens ${name} (simulated, within one process) by default` : '';
    expect(ran.stderr).toBe(
      `isoverbs: without --policy and without a daemon, the program runs without a policy${opens}; start \`isoverbs daemon\`, or name another socket with --socket or ISOVERBS_DAEMON: no daemon answers at ${none}: No such file or directory (ENOENT)\n`,
    );
  });
});

/** Receives datagrams and prints each as a line. */
const RECEIVER = `
import socket, sys
address = sys.argv[1]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('\\0' + address[1:] if address[0] == '@' else address)
print('bound', flush=True)
while True: print(repr(s.recv(4096)), flush=True)
`;

describe.skipIf(reason !== '' || !hasPython)('systemd', TIMEOUT, () => {
  eachShort(1, ['path', 'abstract'])(
    'is notified of state changes, at a socket with a %s name',
    async (kind) => {
      const at = folder();
      const address = kind === 'path' ? join(at, 'notify') : `@isoverbs-test-${process.pid}`;
      const systemd = started('python3', ['-c', RECEIVER, address]);
      await until(() => systemd.out().includes('bound'));
      const socket = join(at, 's');
      const running = await daemon(socket, [], { NOTIFY_SOCKET: address, WATCHDOG_USEC: '200000' });
      const notified = (pattern: RegExp) => until(() => pattern.test(systemd.out()));
      await notified(/READY=1\\nSTATUS=listening on /);
      await notified(/WATCHDOG=1\\n/);
      running.child.kill('SIGHUP');
      await notified(/RELOADING=1\\nMONOTONIC_USEC=\d+\\n[\s\S]*READY=1\\n/);
      running.child.kill('SIGTERM');
      expect((await running.ended).status).toBe(0);
      await notified(/STOPPING=1\\n/);
      const usec = Number(/MONOTONIC_USEC=(\d+)/.exec(systemd.out())?.[1]);
      expect(Math.abs(Number(process.hrtime.bigint() / 1000n) - usec)).toBeLessThan(60e6);
    },
  );

  variants(
    'an unread or invalid notification socket is logged and blocks nothing: %s',
    ['/no/such', 'vsock:2:1234', `/${'x'.repeat(200)}`],
    async (address) => {
      const running = await daemon(join(folder(), 's'), [], { NOTIFY_SOCKET: address });
      await until(() => running.err().includes('systemd could not be notified: '));
      running.child.kill('SIGTERM');
      expect((await running.ended).status).toBe(0);
    },
    TIMEOUT,
  );

  test.skipIf(spawnSync('systemd-analyze', ['--version']).status !== 0)('accepts the unit', () => {
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', join(ROOT, 'docs/isoverbs.service')], {
      encoding: 'utf8',
    });
    expect(stderr.split('\n').filter((line) => line.includes('isoverbs.service'))).toEqual([]);
    expect(status).toBe(0);
  });
});

describe('run', TIMEOUT, () => {
  const none = '/no/daemon/here';
  const run = (...words: string[]) => isoverbs(['run', '--socket', none, '--policy', 'none', '--', ...words]);
  const node = (code: string, ...more: string[]) => run(process.execPath, '-e', code, ...more);

  eachShort(2, [
    ['process.exit(7)', 7],
    ["process.kill(process.pid, 'SIGKILL')", 128 + 9],
    ['process.exit(0)', 0],
    ["process.kill(process.pid, 'SIGTERM')", 128 + 15],
  ])('passes on the exit status, or 128 plus the number of a signal: %s', async (code, status) => {
    expect((await node(code).ended).status).toBe(status);
  });

  test('exits with 127 and 126 as shells do, with a message', async () => {
    const none = await run('no-such-program-here').ended;
    expect(none).toMatchObject({ status: 127, stdout: '' });
    expect(none.stderr).toBe(
      'isoverbs: no-such-program-here cannot be started: not found in any folder on the PATH (ENOENT)\n',
    );
    expect((await run('/no/program').ended).stderr).toMatch(/: there is no such file \(ENOENT\)\n$/);
    expect(await run(file('text')).ended).toMatchObject({
      status: 126,
      stderr: expect.stringMatching(/EACCES\n$/),
    });
    const script = join(folder(), 'app.mjs');
    writeFileSync(script, '');
    expect(await run(script).ended).toMatchObject({
      status: 126,
      stderr: expect.stringMatching(
        `EACCES; to run it with Node.js, use \`isoverbs run -- node ${script}\`\n$`,
      ),
    });
  });

  test('passes on arguments unchanged, the input, and the environment to children', {
    tags: ['long'],
  }, async () => {
    expect(
      (await node('console.log(process.argv.slice(1).join())', '--', '-h', '--socket', 'x y').ended).stdout,
    ).toBe('-h,--socket,x y\n');
    const cat = run('cat');
    cat.child.stdin!.end('through\n');
    expect(await cat.ended).toMatchObject({ status: 0, stdout: 'through\n' });
    const child =
      "require('child_process').execFileSync(process.execPath, ['-p', 'process.env.ISOVERBS_DAEMON'])";
    expect((await node(`process.stdout.write(${child})`).ended).stdout).toBe(`${none}\n`);
  });

  variants(
    'forwards %s and waits for the program',
    ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'] as const,
    async (signal) => {
      const running = node(
        `process.on('${signal}', () => { console.log('heard'); process.exit(3); }); setInterval(() => {}, 1e6); console.log('up')`,
      );
      await until(() => running.out().includes('up'));
      running.child.kill(signal);
      expect(await running.ended).toMatchObject({ status: 3, signal: null, stdout: 'up\nheard\n' });
    },
  );

  test('accepts the weights that set accepts', async () => {
    const { status, stdout } = await isoverbs([
      ...['run', '--socket', none, '--policy', 'none', '--weight', '1e-6', '--'],
      ...[process.execPath, '-p', 'process.env.ISOVERBS_WEIGHT'],
    ]).ended;
    expect({ status, stdout }).toEqual({ status: 0, stdout: '0.000001\n' });
  });

  test('invalid options are refused before the program starts', async () => {
    for (const words of [
      ['--weight', '1e9'],
      ['--weight', '0'],
      ['--weight', '9e-7'],
      ['--traffic', 'huge'],
      ['--tenant', 'x'.repeat(129)],
      ['--policy', 'prf'],
      ['--policy', ''],
    ]) {
      const { code, out, err } = await command('run', '--socket', none, ...words, '--', 'echo', 'ran');
      expect({ words, code, out }).toEqual({ words, code: 2, out: '' });
      expect(err).toMatch(/^isoverbs: \S/);
    }
    expect((await isoverbs(['run']).ended).status).toBe(2);
  });

  test.skipIf(!hasPython)('Ctrl-C in a terminal reaches the program once', async () => {
    const code = `let n = 0; process.on('SIGINT', () => { n++; setTimeout(() => { console.log('heard ' + n); process.exit(0); }, 300); }); setInterval(() => {}, 1e6); console.log('up')`;
    const terminal = `
import os, pty, sys
pid, fd = pty.fork()
if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])
said = b''
typed = False
while True:
    try: data = os.read(fd, 4096)
    except OSError: break
    if not data: break
    said += data
    if b'up' in said and not typed:
        typed = True
        os.write(fd, b'\\x03')
print(said.decode())
`;
    const args = ['-c', terminal, process.execPath, MAIN, 'run', '--socket', none, '--policy', 'none', '--'];
    const { stdout } = await started('python3', [...args, process.execPath, '-e', code]).ended;
    expect(stdout).toContain('heard 1');
  });
});
