// A worker pinned to a CPU, as seen by the kernel. Requires a build and the addon.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import {
  driverOf,
  type WorkerDriverOptions,
  workerDriver,
  workerOptionsOf,
} from '../../src/drivers/index.ts';
import { addonStatus } from '../../src/providers/rdma-core/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { ConfigError, UnsupportedError } from '../../src/verbs/index.ts';

const NO_SUCH_CPU = 65_535;
const PERF = [{ name: 'perf', options: {} }];
const before = process.env.ISOVERBS_NO_ADDON;

function allowed(thread: string): string {
  try {
    const status = readFileSync(`/proc/${thread}/status`, 'utf8');
    return /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '';
  } catch {
    // The thread has ended in the meantime.
    return '';
  }
}

/** How many threads of this process may run only on this CPU. */
function pinnedTo(cpu: number): number {
  const threads = readdirSync('/proc/self/task').map((tid) => allowed(`self/task/${tid}`));
  return threads.filter((list) => list === String(cpu)).length;
}

async function untilPinned(cpu: number, count: number): Promise<void> {
  for (let i = 0; i < 500 && pinnedTo(cpu) !== count; i++) await sleep(10);
  expect(pinnedTo(cpu)).toBe(count);
}

/**
 * The last of the CPUs that this thread may use; null if there is only one, to which every thread is bound
 * anyway.
 */
function someCpu(): number | null {
  const list = process.platform === 'linux' ? allowed('thread-self') : '';
  return /[-,]/.test(list) ? Number(/\d+$/.exec(list)?.[0]) : null;
}

function open({ provider }: Fabric, options: WorkerDriverOptions): () => void {
  const shim = compose(provider, [workerDriver(PERF, options)]);
  const context = shim.openDevice('sim0');
  return () => shim.closeDevice(context);
}

afterEach(() => {
  if (before === undefined) delete process.env.ISOVERBS_NO_ADDON;
  else process.env.ISOVERBS_NO_ADDON = before;
});

const cpu = someCpu();

describe.runIf(cpu !== null && addonStatus().loaded)('with the addon', () => {
  const wanted = cpu ?? 0;

  test('only the worker is pinned, and the next worker is not', async () => {
    const fabric = createFabric({ hosts: 1, seed: 1, autoAdvance: false });
    const mine = allowed('thread-self');
    expect(pinnedTo(wanted)).toBe(0);
    const close = open(fabric, { cpu: wanted });
    expect(pinnedTo(wanted)).toBe(1);
    expect(allowed('thread-self')).toBe(mine);
    close();
    const closeFree = open(fabric, {});
    await untilPinned(wanted, 0);
    closeFree();
    // A reused worker is pinned for its next user.
    const closeAgain = open(fabric, { cpu: wanted });
    expect(pinnedTo(wanted)).toBe(1);
    closeAgain();
    await untilPinned(wanted, 0);
  });

  test('a CPU that does not exist is refused, and nothing stays behind', async () => {
    const fabric = createFabric({ hosts: 1, seed: 1, autoAdvance: false });
    const run = () => open(fabric, { cpu: NO_SUCH_CPU });
    expect(run).toThrow(ConfigError);
    expect(run).toThrow(
      `driver worker: cpu: there is no CPU ${NO_SUCH_CPU}; CPUs that this process may use: `,
    );
    open(fabric, { cpu: wanted })();
    await untilPinned(wanted, 0);
  });

  test('the CPU of a program is set by the environment', () => {
    const program = `
      import { readdirSync, readFileSync } from 'node:fs';
      import { openDevice } from 'isoverbs';
      const context = openDevice('sim0');
      const lists = readdirSync('/proc/self/task').map((tid) =>
        /Cpus_allowed_list:\\s*(\\S+)/.exec(readFileSync('/proc/self/task/' + tid + '/status', 'utf8'))[1]);
      console.log(lists.filter((list) => list === '${wanted}').length);
      context.close();`;
    const args = ['--import', 'isoverbs/register', '--input-type=module', '-e', program];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: resolve(import.meta.dirname, '../..'),
      env: {
        ...process.env,
        ISOVERBS_POLICY: 'perf',
        ISOVERBS_DRIVER: `worker:cpu=${wanted}`,
        ISOVERBS_LOG: 'info',
      },
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect({ status, stdout }).toEqual({ status: 0, stdout: '1\n' });
    expect(stderr).toContain(`in a worker thread on CPU ${wanted}`);
  });
});

test('without the addon pinning is refused before anything runs', () => {
  process.env.ISOVERBS_NO_ADDON = '1';
  const run = () => workerDriver(PERF, { cpu: 0 });
  expect(run).toThrow(UnsupportedError);
  expect(run).toThrow(
    'pinning a thread to a CPU requires the native addon, which is not loaded: ISOVERBS_NO_ADDON=1 is set',
  );
  expect(workerDriver(PERF).name).toBe('perf');
});

test.each([-1, 1.5, Number.NaN, 65_536, '3' as unknown as number])('%s is not a CPU', (wrong) => {
  expect(() => workerDriver(PERF, { cpu: wrong })).toThrow(ConfigError);
  expect(() => workerDriver(PERF, { cpu: wrong })).toThrow('cpu: must be a whole number from 0 to 65535');
});

test.each([
  ['inline', 'inline'],
  ['worker', 'worker'],
  ['worker:cpu=03', 'worker:cpu=3'],
  [{ name: 'worker' }, 'worker'],
  [{ name: 'worker', cpu: 3 }, 'worker:cpu=3'],
  ['worker:spin=1ms', 'worker:spin=1000000ns'],
  ['worker:spin=0', 'worker:spin=0ns'],
  ['worker:spin=200us,cpu=1', 'worker:cpu=1,spin=200000ns'],
  [{ name: 'worker', cpu: 1, spinNs: 5000 }, 'worker:cpu=1,spin=5000ns'],
  [{ name: 'inline' }, 'inline'],
])('the driver %j', (choice, expected) => {
  const driver = driverOf(choice, 'x');
  expect(driver).toBe(expected);
  expect(driverOf(driver, 'x')).toBe(driver);
});

test('the options of a driver come back from its string', () => {
  expect(workerOptionsOf(driverOf('worker:spin=0.2ms,cpu=1', 'x'))).toEqual({ cpu: 1, spinNs: 200_000 });
  expect(workerOptionsOf('worker')).toEqual({});
});

test.each([
  ['thread', "x: unknown driver 'thread'; use inline, worker or worker:cpu=NUMBER,spin=TIME"],
  ['worker:cpu=', "x: unknown driver 'worker:cpu='; use"],
  ['worker:core=3', "x: unknown driver 'worker:core=3'; use"],
  ['inline:cpu=3', "x: unknown driver 'inline:cpu=3'; use"],
  ['worker:cpu=65536', 'x: cpu: must be a whole number from 0 to 65535, got 65536'],
  [{ name: 'worker', cpu: '3' }, "x: cpu: must be a whole number from 0 to 65535, got '3'"],
  [{ name: 'worker', core: 3 }, "x: unknown key 'core'; the keys are name, cpu and spinNs"],
  ['worker:spin=5', "x: spin: '5' requires a unit"],
  ['worker:spin=5us,', "x: unknown driver 'worker:spin=5us,'; use"],
  ['worker:spin=2s', 'x: spinNs: must be a number of nanoseconds from 0 to 1000000000, got 2000000000'],
  [{ name: 'worker', spinNs: -1 }, 'x: spinNs: must be a number of nanoseconds'],
  [{ name: 'inline', spinNs: 5 }, "x: spinNs: only the driver 'worker'"],
  [{ name: 'inline', cpu: 3 }, "x: cpu: only the driver 'worker'"],
  [{ cpu: 3 }, "x: name: unknown driver 'undefined'; use inline or worker"],
  [null, 'x: unknown driver null; use'],
  [5, 'x: unknown driver 5; use'],
])('the driver %j is refused', (choice, expected) => {
  expect(() => driverOf(choice, 'x')).toThrow(ConfigError);
  expect(() => driverOf(choice, 'x')).toThrow(expected);
});
