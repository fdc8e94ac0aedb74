// A worker that is terminated while it loads the addons, or is in one of their functions, must not take the process with
// it. The workers run in a child process, over the null device.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { addonStatus } from '../../src/providers/rdma-core/index.ts';
import { buildNullDevice } from '../fuzz/null-device.mjs';
import { tagsIf } from '../support/variants.ts';

const PROGRAM = resolve(import.meta.dirname, 'terminations/process.mjs');
const TIME_MS = 300_000;

const { loaded, verbs } = addonStatus();
const { library, reason } =
  loaded && verbs ? buildNullDevice() : { library: '', reason: 'no addon with verbs' };
if (reason !== '') console.warn(`workers are not terminated in the addon: ${reason}`);

function run(...args: string[]) {
  const env = { ...process.env, ISOVERBS_LIBIBVERBS: library, ISOVERBS_LIBRDMACM: library };
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
    encoding: 'utf8',
    timeout: TIME_MS,
    env,
  });
  return { status, signal, stdout, stderr };
}

const PASSED = { status: 0, signal: null, stdout: 'pass\n', stderr: '' };

describe.skipIf(reason !== '')('the process survives its workers', () => {
  test('one ends at each step of loading an addon', { tags: ['long'], timeout: TIME_MS }, () => {
    expect(run('steps')).toEqual(PASSED);
  });

  test('one ends inside each function that an addon calls', { timeout: TIME_MS }, () => {
    expect(run('callbacks')).toEqual(PASSED);
  });

  for (const count of [100, 2000]) {
    const options = { tags: tagsIf(count === 100), timeout: TIME_MS };
    test(`${count} are terminated at random in the addons`, options, () => {
      expect(run('random', String(count))).toEqual(PASSED);
    });
  }
});
