/** Files that another user has left where isoverbs/register looks for a configuration. */
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cleanEnv } from '../daemon/world.ts';
import { EVIL_UID, folder, isRoot } from './rig.ts';

const REGISTER = resolve(import.meta.dirname, '../../dist/register.js');
const CODE =
  "require('node:fs').writeFileSync(require('node:path').join(__dirname, 'ran'), ''); module.exports = {};";

/** A folder that all users share, with a folder of this user in it. */
function shared(): { readonly path: string; readonly work: string } {
  const path = folder();
  chmodSync(path, 0o1777);
  const work = join(path, 'work');
  mkdirSync(work);
  return { path, work };
}

function plant(path: string, name: string, text: string, uid = EVIL_UID): void {
  writeFileSync(join(path, name), text);
  chownSync(join(path, name), uid, uid);
}

function run(cwd: string, env = {}) {
  const options = { cwd, env: { ...cleanEnv(), ...env }, encoding: 'utf8' } as const;
  return spawnSync(process.execPath, ['--import', REGISTER, '-e', "console.log('pass')"], options);
}

describe.skipIf(!isRoot)('a configuration of another user in a shared folder', { timeout: 60_000 }, () => {
  test('runs no code in programs below the folder, and the warning names both', () => {
    const { path, work } = shared();
    plant(path, 'isoverbs.config.js', CODE);
    const { stdout, stderr } = run(work);
    expect(stdout).toBe('pass\n');
    expect(existsSync(join(path, 'ran'))).toBe(false);
    expect(stderr).toContain(`[ISO_CONFIG] Warning: ${join(path, 'isoverbs.config.js')} is ignored`);
    expect(stderr).toContain(`belongs to user ${EVIL_UID}`);
  });

  test('names no policy by a package.json', () => {
    const { path, work } = shared();
    plant(path, 'policy.cjs', CODE);
    plant(path, 'package.json', JSON.stringify({ isoverbs: { policy: join(path, 'policy.cjs') } }));
    expect(run(work).stdout).toBe('pass\n');
    expect(existsSync(join(path, 'ran'))).toBe(false);
  });

  test('is no link to code of this user', () => {
    const { path, work } = shared();
    plant(work, 'script.js', CODE, 0);
    symlinkSync('work/script.js', join(path, 'isoverbs.config.js'));
    spawnSync('chown', ['-h', `${EVIL_UID}`, join(path, 'isoverbs.config.js')]);
    expect(run(work).stdout).toBe('pass\n');
    expect(existsSync(join(work, 'ran'))).toBe(false);
  });

  test('counts if it is named, or if the working directory belongs to that user', () => {
    const named = shared();
    plant(named.path, 'isoverbs.config.js', CODE);
    run(named.work, { ISOVERBS_CONFIG: join(named.path, 'isoverbs.config.js') });
    expect(existsSync(join(named.path, 'ran'))).toBe(true);
    const own = shared();
    plant(own.work, 'isoverbs.config.js', CODE);
    chownSync(own.work, EVIL_UID, EVIL_UID);
    expect(run(own.work).stderr).toBe('');
    expect(existsSync(join(own.work, 'ran'))).toBe(true);
  });
});
