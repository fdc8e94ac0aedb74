// How commands end: the exit status of each, Ctrl-C, and closed pipes. Needs a build.
// @module-tag wide
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { USAGE } from '../../src/cli/program.ts';
import { command } from '../mix/command.ts';
import { MAIN } from '../support/main.ts';
import { eachShort } from '../support/variants.ts';

const ENV = { ...process.env, ISOVERBS_LOG: '', ISOVERBS_NO_ADDON: '1', ISOVERBS_POLICY: '' };

/** The line in which bench names the simulated devices that it selected. */
const DEVICES_LINE = /^isoverbs: both ends run in this process.*\n/;

function isoverbs(line: string, env: Record<string, string> = {}) {
  const child = spawnSync(process.execPath, [MAIN, ...line.split(' ').filter((word) => word !== '')], {
    env: { ...ENV, ...env },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { code: child.status, out: child.stdout, err: child.stderr.replace(DEVICES_LINE, '') };
}

test.each([
  'devices --bogus',
  'policies nosuch',
  'demo --ms x',
  'mix --app Q',
  'bench write_bandwidth',
  'bench write_bw -c XC',
  'calibrate --profile nosuch',
  'calibrate --profile rxe --peer sim7',
  'calibrate --hosts 1',
  'calibrate --provider rdma-core --seed 1',
  'reproduce --system nosuch',
  'trace',
  'completion tcsh',
  'bogus',
])('a usage error exits with 2 and a one-line message: isoverbs %s', async (line) => {
  const { code, out, err } = await command(...line.split(' '));
  expect({ code, out }).toEqual({ code: USAGE, out: '' });
  expect(err).toMatch(/^isoverbs: \S/);
  expect(err).not.toMatch(/^ +at /m);
});

eachShort(3, [
  'demo --ms 0.1 --json /dev/null/no.json',
  'bench write_bw --provider sim -n 100 -w 100000000',
  'bench write_bw -d none0',
  'calibrate --profile minimal --out /no/such/folder/facts.json',
  'trace /no/such.trace',
])('a failure exits with 1 and a one-line message: isoverbs %s', (line) => {
  const { code, err } = isoverbs(line);
  expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/^isoverbs: .*\n$/) });
});

test('devices exits with 2 if ISOVERBS_PROVIDER names an unknown provider', async () => {
  vi.stubEnv('ISOVERBS_PROVIDER', 'foo');
  const { code, out, err } = await command('devices');
  vi.unstubAllEnvs();
  expect({ code, out }).toEqual({ code: USAGE, out: '' });
  expect(err).toMatch(
    /^isoverbs: ISOVERBS_PROVIDER: unknown provider 'foo'; use one of rdma-core, sim, soft \(ISO_ERR_CONFIG\)\n$/,
  );
});

test('without a command, isoverbs prints its help on stderr and exits with 2', () => {
  const { code, out, err } = isoverbs('');
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(/^NAME\n {2}isoverbs - /);
});

test('a misspelt name gets a suggestion and a pointer to the help', async () => {
  expect(isoverbs('benhc').err).toBe(
    "isoverbs: unknown command 'benhc'\n(Did you mean bench?)\nSee: isoverbs --help\n",
  );
  for (const [words, err] of [
    ['help nix', "isoverbs: unknown command 'nix'\n(Did you mean mix?)\nSee: isoverbs --help\n"],
    ['--log error help nix', "isoverbs: unknown command 'nix'\n(Did you mean mix?)\nSee: isoverbs --help\n"],
    [
      'help drum slove',
      "isoverbs: unknown command 'slove'\n(Did you mean solve?)\nSee: isoverbs drum --help\n",
    ],
    [
      'drum help slove',
      "isoverbs: unknown command 'slove'\n(Did you mean solve?)\nSee: isoverbs drum --help\n",
    ],
  ])
    expect(await command(...words.split(' '))).toEqual({ code: 2, out: '', err });
  expect((await command('help', 'drum', 'solve')).out).toMatch(/^NAME\n {2}isoverbs drum solve - /);
  expect((await command('mix', '--polcy', 'perf')).err).toContain(
    '(Did you mean --policy?)\nSee: isoverbs mix --help\n',
  );
});

test('environment variables are applied, and invalid ones are named', () => {
  expect(isoverbs('devices', { ISOVERBS_LOG: 'loud' })).toMatchObject({
    code: 2,
    err: expect.stringContaining('ISOVERBS_LOG'),
  });
  expect(isoverbs('bench write_bw -n 100', { ISOVERBS_POLICY: 'prf' })).toMatchObject({
    code: 2,
    err: expect.stringContaining("policy 'prf'"),
  });
});

test('ISOVERBS_DAEMON=none means no daemon to all commands', async () => {
  vi.stubEnv('ISOVERBS_DAEMON', 'none');
  for (const line of ['daemon', 'daemon --check-config', 'tenants', 'top --once', 'set a weight=2']) {
    expect({ line, ...(await command(...line.split(' '))) }).toEqual({
      ...{ line, code: USAGE, out: '' },
      err: 'isoverbs: ISOVERBS_DAEMON=none turns the daemon off: unset the variable, or name a socket with --socket (ISO_ERR_CONFIG)\n',
    });
  }
  expect((await command('daemon', '--socket', 'none')).err).toBe(
    "isoverbs: --socket: 'none' turns the daemon off, so choose another path for the socket (ISO_ERR_CONFIG)\n",
  );
  vi.unstubAllEnvs();
  const run = (before: string, env: Record<string, string> = {}) =>
    isoverbs(`run ${before} -- ${process.execPath} -p process.env.ISOVERBS_DAEMON`, env);
  const silently = { code: 0, out: 'none\n', err: '' };
  expect(run('', { ISOVERBS_DAEMON: 'none' })).toEqual(silently);
  expect(run('--socket none')).toEqual(silently);
});

test('a full disk is reported in one line', () => {
  const shell = `"${process.execPath}" "${MAIN}" policies > /dev/full; echo $?`;
  const { stdout, stderr } = spawnSync('bash', ['-c', shell], {
    env: ENV,
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect(stdout).toBe('1\n');
  expect(stderr).toMatch(/^isoverbs: cannot write the output: ENOSPC.*\n$/);
});

test('Ctrl-C ends a command silently, with the status that shells expect', async () => {
  const child = spawn(
    process.execPath,
    [MAIN, 'bench', 'write_bw', '--provider', 'sim', '--run_infinitely'],
    {
      env: ENV,
    },
  );
  let err = '';
  child.stderr.on('data', (data) => {
    err += data;
  });
  await once(child.stdout, 'data');
  child.kill('SIGINT');
  expect(await once(child, 'exit')).toEqual([null, 'SIGINT']);
  expect(err.replace(DEVICES_LINE, '')).toBe('');
});

test('a command that fails leaves no empty picture behind', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-exit-'));
  try {
    const picture = join(folder, 'picture.svg');
    for (const line of ['compare --policy nosuch --svg', 'drum solve /no/such.yaml --svg'])
      expect((await command(...line.split(' '), picture)).code).not.toBe(0);
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
