// The crash cases with a policy in a worker thread, and crashes that only such a thread can cause. Requires a
// build.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { tagsIf } from '../support/variants.ts';

const CRASH = resolve(import.meta.dirname, '../crash/cases');
const OWN = resolve(import.meta.dirname, 'cases');

function run(file: string, args: string[]) {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  return spawnSync(process.execPath, [...args, file], {
    cwd: resolve(import.meta.dirname, '../..'),
    env: {
      ...Object.fromEntries(inherited),
      NODE_OPTIONS: '--no-warnings',
      ISOVERBS_DEVICE: 'sim0',
      ISOVERBS_POLICY: 'perf:isolation=always',
      ISOVERBS_DRIVER: 'worker',
    },
    encoding: 'utf8',
    timeout: 60_000,
  });
}

const cases = (dir: string) =>
  readdirSync(dir)
    .filter((name) => /^[a-z].*\.mjs$/.test(name) && name !== 'setup.mjs')
    .map((name) => [name, resolve(dir, name)]);

/** crash.test.ts runs most of the others in the application's own thread. */
const SHORT = /^(detached-memory|worker-dies)\.mjs$/;

for (const [name, file] of [...cases(CRASH), ...cases(OWN)]) {
  test(`${name} with a policy in a worker thread`, { tags: tagsIf(SHORT.test(name)) }, () => endsWell(file));
}

function endsWell(file: string): void {
  const args = file.startsWith(CRASH) ? ['--expose-gc', '--import', 'isoverbs/register'] : [];
  const { status, signal, stdout, stderr } = run(file, args);
  expect({ stdout: stdout.trim(), stderr, status, signal }).toEqual({
    stdout: 'pass',
    stderr: '',
    status: 0,
    signal: null,
  });
}
