// Misuse must not crash a process. Each case is a child process that must print exactly `pass`, write nothing to
// stderr, and exit with 0. The cases run on a simulated device, and on a real one if there is one.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { getDeviceList } from '../../src/open.ts';
import { tagsIf } from '../support/variants.ts';

const CASES = resolve(import.meta.dirname, 'cases');
const real = getDeviceList().find((device) => device.provider !== 'sim');
const devices = real === undefined ? ['sim0'] : ['sim0', real.name];

function run(file: string, device: string) {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  return spawnSync(process.execPath, ['--expose-gc', resolve(CASES, file)], {
    env: { ...Object.fromEntries(inherited), NODE_OPTIONS: '', ISOVERBS_DEVICE: device },
    encoding: 'utf8',
    timeout: 60_000,
  });
}

/** terminations.test.ts and endings.test.ts terminate workers, too. */
const tagsOf = (file: string) => tagsIf(file !== 'worker-terminated.mjs');

for (const device of devices) {
  for (const file of readdirSync(CASES).filter(
    (name) => /^[a-z].*\.mjs$/.test(name) && name !== 'setup.mjs',
  )) {
    test(`${file} on ${device}`, { tags: tagsOf(file) }, () => {
      const { status, signal, stdout, stderr } = run(file, device);
      expect({ stdout: stdout.trim(), stderr, status, signal }).toEqual({
        stdout: 'pass',
        stderr: '',
        status: 0,
        signal: null,
      });
    });
  }
}
