// A daemon starts where other users may read: what they lock, or leave in its way, does not keep it from listening.
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { connectUnix, listenUnix } from '../../src/daemon/ipc/index.ts';
import { until } from '../daemon/rig.ts';
import { EVIL_UID, type Evil, evil, folder, HostileWorld, noOtherUser, reason } from './rig.ts';

const PROMPT_MS = 500;
/** A virtual machine takes its time to start a daemon. */
const TIMEOUT_MS = 240_000;

const programs: Evil[] = [];
afterEach(async () => {
  for (const { child, exited } of programs.splice(0)) {
    child.kill('SIGKILL');
    await exited;
  }
});

/** Locks a file or folder as another user. */
async function lock(...args: string[]): Promise<void> {
  const one = evil('lock.py', ...args);
  programs.push(one);
  await until(() => one.lines().includes('locked'));
}

/** Listens without waiting for another process, and leaves no file but the socket. */
function listenPromptly(path: string): void {
  const beganMs = performance.now();
  using listener = listenUnix(path, { mode: 0o600 });
  expect(performance.now() - beganMs).toBeLessThan(PROMPT_MS);
  connectUnix(listener.path)!.close();
}

describe.skipIf(reason !== '')('the lock of a socket', () => {
  test('does not depend on who has locked the folder', async () => {
    const path = folder();
    await lock(path);
    listenPromptly(join(path, 's'));
    expect(readdirSync(path)).toEqual([]);
  });

  test('the daemon starts in such a folder', { timeout: TIMEOUT_MS }, async () => {
    await using world = new HostileWorld();
    await lock(world.folder);
    await world.startDaemon();
    expect(existsSync(world.socket)).toBe(true);
  });

  test.skipIf(noOtherUser !== '')('is not a file that another user has left there and locked', async () => {
    const path = folder(0o1777);
    await lock(join(path, 's.lock'), 'create');
    listenPromptly(join(path, 's'));
  });

  test.skipIf(noOtherUser !== '')('is not a file that other users can open', async () => {
    const path = folder(0o1777);
    writeFileSync(join(path, 's.lock'), '');
    chmodSync(join(path, 's.lock'), 0o666);
    await lock(join(path, 's.lock'));
    listenPromptly(join(path, 's'));
  });

  test.skipIf(noOtherUser !== '')('follows no link', async () => {
    const path = folder(0o1777);
    const victim = join(path, 'victim');
    writeFileSync(victim, 'precious', { mode: 0o600 });
    symlinkSync(victim, join(path, 's.lock'));
    chownSync(path, EVIL_UID, EVIL_UID);
    listenPromptly(join(path, 's'));
    expect(readFileSync(victim, 'utf8')).toBe('precious');
  });

  test('if a folder has its name, the error names it', () => {
    const path = folder();
    mkdirSync(join(path, 's.lock'));
    expect(() => listenUnix(join(path, 's'))).toThrow(/s\.lock/);
  });
});
