/** Without the addon, the install succeeds, and the package reports what is missing. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import {
  addonStatus,
  createRdmaCoreProvider,
  isAddonAvailable,
} from '../../src/providers/rdma-core/index.ts';
import { NoDeviceError } from '../../src/verbs/index.ts';

const script = fileURLToPath(new URL('../../scripts/install.mjs', import.meta.url));
const before = process.env.ISOVERBS_NO_ADDON;

afterEach(() => {
  if (before === undefined) delete process.env.ISOVERBS_NO_ADDON;
  else process.env.ISOVERBS_NO_ADDON = before;
});

function install(env: NodeJS.ProcessEnv) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], { env, encoding: 'utf8' });
  return { status, stderr, lines: stdout.trimEnd().split('\n') };
}

test('ISOVERBS_NO_ADDON=1 builds nothing and says so in one line', () => {
  const { status, stderr, lines } = install({ ...process.env, ISOVERBS_NO_ADDON: '1' });
  expect([status, stderr, lines.length]).toEqual([0, '', 1]);
  expect(lines[0]).toMatch(/not built \(ISOVERBS_NO_ADDON=1\); the simulated device works without it/);
});

test.runIf(process.platform === 'linux')('a machine without a compiler', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-path-'));
  symlinkSync(process.execPath, join(folder, 'node'));
  const { status, lines } = install({ PATH: folder, HOME: process.env.HOME });
  expect([status, lines.length]).toEqual([0, 1]);
  expect(lines[0]).toMatch(/no C\+\+ compiler/);
});

test('ISOVERBS_NO_ADDON=1 at run time: a typed error with advice', () => {
  process.env.ISOVERBS_NO_ADDON = '1';
  expect(isAddonAvailable()).toBe(false);
  const status = addonStatus();
  expect(status).toMatchObject({ available: false, loaded: false, libraries: {} });
  expect(status.notes.join('\n')).toMatch(/ISOVERBS_NO_ADDON=1 is set[\s\S]*unset ISOVERBS_NO_ADDON/);
  expect(() => createRdmaCoreProvider()).toThrow(NoDeviceError);
  expect(() => createRdmaCoreProvider()).toThrow(/Possible solutions:\n {2}- unset/);
});
