// The daemon in busy mode hands out the tokens of justitia to real processes.
// @module-tag wide
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { requestTenants } from '../../src/daemon/client/tool-request.ts';
import { eachShort } from '../support/variants.ts';
import { daemon, folder, isoverbs, type Running } from './command-rig.ts';
import { reason, until } from './rig.ts';

const FLOODS = resolve(import.meta.dirname, 'children/floods.mjs');
const TIMEOUT_MS = 120_000;
/** A token takes 10 ms, and a process may be 80 ms late, because it may wait for a CPU. */
const GBPS = 0.05;
const POLICY = `justitia:maxGbps=${GBPS},bulkChunkBytes=64KiB,backlogBytes=512KiB`;
const MEASURED_MS = 4000;

/** The last CPU that this process may use. */
const CPU = /^Cpus_allowed_list:.*?(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';

interface Sent {
  readonly bytes: number;
  readonly ms: number;
}

function flood(socket: string, tenant: string, weight: number): Running {
  const words = ['run', '--socket', socket, '--tenant', tenant, '--', process.execPath, FLOODS];
  return isoverbs(words, { ISOVERBS_WEIGHT: `${weight}` });
}

/** What a program has sent, as of its last report. */
function sent(running: Running): Sent {
  const line = running.out().trimEnd().split('\n').at(-1);
  if (!line) throw new Error(`no report: ${running.err()}`);
  return JSON.parse(line) as Sent;
}

/** The rates of programs over a while, in Gbit/s. */
async function ratesOf(programs: readonly Running[], forMs: number): Promise<number[]> {
  const from = programs.map(sent);
  await delay(forMs);
  return programs.map((one, i) => {
    const { bytes, ms } = sent(one);
    return ((bytes - from[i].bytes) * 8) / (ms - from[i].ms) / 1e6;
  });
}

/** Waits until the programs send, and have joined a daemon. Before that, nothing paces them. */
async function begun(socket: string, programs: readonly Running[]): Promise<void> {
  await until(() => programs.every((one) => one.out().includes('\n') && sent(one).bytes > 0));
  while ((await requestTenants(socket)).length < programs.length) await delay(50);
}

describe.skipIf(reason !== '')('a daemon in busy mode', () => {
  test('divides SafeUtil by weight, gives all of it to the one that is left, and may die', {
    tags: ['long'],
    timeout: TIMEOUT_MS,
  }, async () => {
    const socket = join(folder(), 's');
    const busy = await daemon(socket, ['--policy', POLICY, '--busy', CPU]);
    const status = readFileSync(`/proc/${busy.child.pid}/status`, 'utf8');
    expect(/^Cpus_allowed_list:\s*(\S+)/m.exec(status)?.[1]).toBe(CPU);
    const [light, heavy] = [flood(socket, 'light', 1), flood(socket, 'heavy', 3)];
    await begun(socket, [light, heavy]);
    await delay(500);
    const [less, more] = await ratesOf([light, heavy], MEASURED_MS);
    expect(less + more).toBeLessThan(1.1 * GBPS);
    expect(less + more).toBeGreaterThan(0.8 * GBPS);
    expect(more / (less + more)).toBeGreaterThan(0.67);
    expect(more / (less + more)).toBeLessThan(0.83);

    heavy.child.kill('SIGKILL');
    await delay(500);
    const [alone] = await ratesOf([light], MEASURED_MS / 2);
    expect(alone).toBeGreaterThan(0.8 * GBPS);
    expect(alone).toBeLessThan(1.15 * GBPS);

    busy.child.kill('SIGKILL');
    await until(() => /its last grants stay in force/.test(light.err()));
    // Its own tokens come in the time of its simulated device, which is not that of the daemon.
    const before = sent(light).bytes;
    await until(() => sent(light).bytes > before + 2 ** 20);

    const calm = await daemon(socket, ['--policy', POLICY]);
    await begun(socket, [light]);
    const again = sent(light).bytes;
    await until(() => sent(light).bytes > again + 2 ** 20);
    calm.child.kill('SIGTERM');
    expect((await calm.ended).status).toBe(0);
  });

  test(
    'serves its sockets between passes, and may be stopped',
    async () => {
      const socket = join(folder(), 's');
      const busy = await daemon(socket, ['--policy', POLICY, '--busy', CPU]);
      const program = flood(socket, 'one', 1);
      await begun(socket, [program]);
      const listed = await isoverbs(['tenants', '--json', '--socket', socket]).ended;
      expect(JSON.parse(listed.stdout)).toMatchObject({ tenants: [{ tenant: 'one' }] });
      const set = await isoverbs(['set', 'one', 'weight=2', '--socket', socket]).ended;
      expect(set.status).toBe(0);

      busy.child.kill('SIGSTOP');
      const before = sent(program).bytes;
      await until(() => sent(program).bytes > before + 2 ** 21);
      busy.child.kill('SIGCONT');
      await begun(socket, [program]);
    },
    TIMEOUT_MS,
  );

  eachShort(2, [
    ['-1', /--busy: must be the number of a CPU, got '-1'; CPUs that this process may use: \d/],
    ['9999', /busy: there is no CPU 9999; CPUs that this process may use: \d/],
    ['x', /--busy: must be the number of a CPU, got 'x'; CPUs that this process may use: \d/],
    ['', /--busy: must be the number of a CPU, got ''; CPUs that this process may use: \d/],
    ['1.5', /--busy: must be the number of a CPU, got '1.5'; CPUs that this process may use: \d/],
    ['65536', /--busy: must be the number of a CPU, got '65536'; CPUs that this process may use: \d/],
  ])('--busy %j is refused in one sentence', async (cpu, message) => {
    const refused = await isoverbs(['daemon', '--socket', join(folder(), 's'), '--busy', cpu]).ended;
    expect(refused.status).toBe(2);
    expect(refused.stderr).toMatch(message);
    expect(refused.stderr.trim().split('\n')).toHaveLength(1);
    expect(refused.stderr).toContain('ISO_ERR_CONFIG');
  });
});
