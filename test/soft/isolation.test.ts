// `isoverbs isolation` on user-space RoCE: each application is a process, under a daemon that the command starts or one
// that is already running. Whichever process ends, the command reports it and leaves nothing behind. Needs a build.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Isolation } from '../../src/compare/isolation/matrix.ts';
import { requestTenants } from '../../src/daemon/client/tool-request.ts';
import { daemon, folder, isoverbs, type Running } from '../daemon/command-rig.ts';
import { until } from '../daemon/rig.ts';
import { absent } from './rig.ts';

/** Both send short messages, of which many complete in a short time. */
const PAIR = [
  '--attacker',
  'PU-request/write-forward',
  '--victim',
  'te_many_qp/write-512',
  '--warmup',
  '50ms',
];
/** A test waits for this duration twice, because each application runs alone before the pair. */
const RUN = ['--duration', '2s'];
/** Such a run lasts until the test ends it. */
const ENDLESS = ['--duration', '1000s'];

/** Starts the command. Its temporary files are in `temporary`. */
function isolation(words: readonly string[], env: Record<string, string> = {}) {
  const temporary = folder();
  const args = ['isolation', '--provider', 'soft', ...PAIR, ...words];
  return { running: isoverbs(args, { TMPDIR: temporary, ...env }), temporary };
}

const APP = /mix\/live\/process\.js/;
const DAEMON = /\0daemon\0/;

/** The children of a process whose command lines match. */
function childrenOf({ child: { pid } }: Running, pattern: RegExp): number[] {
  try {
    const pids = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    return pids.map(Number).filter((one) => pattern.test(readFileSync(`/proc/${one}/cmdline`, 'utf8')));
  } catch {
    // One of them has ended.
    return [];
  }
}

/** Waits until the command has this number of children. */
async function children(running: Running, pattern: RegExp, count: number): Promise<number[]> {
  let found: number[] = [];
  await until(() => {
    found = childrenOf(running, pattern);
    return found.length === count || running.child.exitCode !== null;
  });
  expect(found.length, running.err()).toBe(count);
  return found;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe.skipIf(absent !== null)('isolation on user-space RoCE', { tags: ['long'], timeout: 120_000 }, () => {
  test('runs each application as a process, and reports what both get, relative to alone', async () => {
    const { running, temporary } = isolation([
      '--duration',
      '1s',
      '--policy',
      'none',
      '--policy',
      'fair',
      '--rounds',
      '2',
      '--json',
    ]);
    const { status, stderr, stdout } = await running.ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const { schemes, scale, runs, broken }: Isolation = JSON.parse(stdout);
    expect({ runs, broken }).toEqual({ runs: 8, broken: [] });
    expect(scale?.qps).toBeGreaterThanOrEqual(4);
    expect(schemes.map(({ scheme }) => scheme)).toEqual(['bare', 'fair']);
    for (const { meetings } of schemes) {
      expect(meetings).toHaveLength(1);
      expect(meetings[0].ofAlone).toBeGreaterThan(0);
      expect(meetings[0].work).toBeGreaterThan(meetings[0].ofAlone);
      expect(meetings[0].command).toMatch(/^isoverbs isolation --provider soft --device soft0 /);
    }
    expect(readdirSync(temporary)).toEqual([]);
  });

  test('an application that cannot start is named, with the reason', async () => {
    const { running } = isolation(ENDLESS, { ISOVERBS_FACTS: '/nowhere/facts.json' });
    const { status, stderr } = await running.ended;
    expect(status).toBe(2);
    expect(stderr).toMatch(
      /^isoverbs: app victim: its process failed: .*\/nowhere\/facts\.json.* \(ISO_ERR_CONFIG\)\n$/,
    );
  });

  test('an application that is killed ends the command', async () => {
    const { running } = isolation(ENDLESS);
    const [app] = await children(running, APP, 1);
    process.kill(app, 'SIGKILL');
    const { status, stderr } = await running.ended;
    expect(status).toBe(1);
    expect(stderr).toBe(
      'isoverbs: app victim: its process ended with SIGKILL before its result (ISO_ERR_PROCESS)\n',
    );
  });

  test('the end of its daemon ends the command and the applications', async () => {
    const { running, temporary } = isolation([...RUN, '--policy', 'fair']);
    const [own] = await children(running, DAEMON, 1);
    const apps = await children(running, APP, 2);
    process.kill(own, 'SIGKILL');
    const { status, stderr } = await running.ended;
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^isoverbs: the daemon at .* ended with SIGKILL before .* \(ISO_ERR_NO_DAEMON\)\n$/,
    );
    expect(apps.filter(isAlive)).toEqual([]);
    expect(readdirSync(temporary)).toEqual([]);
  });

  test('a running daemon has both as tenants, and its end fails the run', async () => {
    const socket = join(folder(), 'daemon.sock');
    const other = await daemon(socket, ['--provider', 'soft']);
    const { running } = isolation([...RUN, '--policy', 'fair', '--socket', socket]);
    await children(running, APP, 2);
    let tenants: string[] = [];
    while (tenants.length < 2) {
      const sending = (await requestTenants(socket)).filter(({ sentRequests }) => sentRequests > 0);
      tenants = sending.map(({ tenant }) => tenant).sort();
    }
    expect(tenants).toEqual(['attacker', 'victim']);
    other.child.kill('SIGKILL');
    const { status, stderr } = await running.ended;
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^isoverbs: app \w+: its process failed: no connection to the daemon at .* \(ISO_ERR_NO_DAEMON\)\n$/,
    );
  });

  test('a daemon that does not answer is reported before anything runs', async () => {
    const { running } = isolation([...ENDLESS, '--socket', join(folder(), 'none.sock')]);
    const { status, stderr } = await running.ended;
    expect(status).toBe(1);
    expect(stderr).toMatch(/no daemon answers at .*none\.sock.* \(ISO_ERR_NO_DAEMON\)\n$/);
  });

  test.each(['SIGTERM', 'SIGKILL'] as const)('%s to the command ends its processes', async (signal) => {
    const { running, temporary } = isolation([...RUN, '--policy', 'fair']);
    const own = await children(running, DAEMON, 1);
    const apps = await children(running, APP, 2);
    running.child.kill(signal);
    const ending = await running.ended;
    expect(ending).toMatchObject(signal === 'SIGTERM' ? { status: 128 + 15, stderr: '' } : { signal });
    await until(() => ![...own, ...apps].some(isAlive));
    const left = readdirSync(temporary, { recursive: true });
    if (signal === 'SIGTERM') expect(left).toEqual([]);
    else expect(left.filter((name) => String(name).endsWith('.sock'))).toEqual([]);
  });
});
