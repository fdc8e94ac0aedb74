// Random calls of the addon's functions in a child process (npm run fuzz:native), and the regressions found so far.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { addonStatus } from '../../src/providers/rdma-core/index.ts';
import { buildNullDevice } from './null-device.mjs';

const { loaded, verbs } = addonStatus();
const { library, reason } =
  loaded && verbs ? buildNullDevice() : { library: '', reason: 'no addon with verbs' };
if (reason !== '') console.warn(`the addon is not fuzzed: ${reason}`);

function run(program: string, ...args: string[]) {
  const env = {
    ...process.env,
    ISOVERBS_LIBIBVERBS: library,
    ISOVERBS_LIBRDMACM: library,
    ISOVERBS_NO_ADDON: '',
  };
  const file = resolve(import.meta.dirname, program);
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', file, ...args], {
    encoding: 'utf8',
    timeout: 110_000,
    env,
  });
  return { status, signal, stdout, stderr };
}

describe.skipIf(reason !== '')('the native boundary', () => {
  const fuzz = (seed: string, faults: string) => {
    const { stdout, ...ending } = run(
      'native.mjs',
      ...['--rounds', '20480', '--seed', seed, '--faults', faults],
    );
    expect(ending).toEqual({ status: 0, signal: null, stderr: '' });
    return JSON.parse(stdout);
  };

  test.each([
    ['a device that does what it is told', '0'],
    ['a device that fails 30 of 1000 calls', '30'],
  ])(
    '20,480 random calls, %s',
    (_title, faults) => {
      const { never, told, uncaught } = fuzz('21', faults);
      // Every function must succeed at least once, except accept, because a request may not arrive in time.
      expect(never.filter((name: string) => name !== 'accept')).toEqual([]);
      expect(told).toBeGreaterThan(50);
      expect(uncaught).toBeGreaterThan(0);
    },
    120_000,
  );

  test('20,480 random calls, channels destroyed with unclaimed connection requests', () => {
    expect(fuzz('17', '0').counts.destroyEventChannel.passed).toBeGreaterThan(20);
  }, 120_000);

  test.each(['srq-elements', 'srq-detached', 'rereg-nothing', 'init-halfway'])('regression: %s', (name) => {
    expect(run('regressions.mjs', name)).toEqual({ status: 0, signal: null, stdout: 'pass\n', stderr: '' });
  });
});
