/** Helpers for tests of processes: temporary paths, children that print their results, counts of descriptors. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll } from 'vitest';
import { requireIpc } from '../../src/daemon/ipc/native.ts';
import type { UnixListener, UnixSocket } from '../../src/daemon/ipc/socket.ts';
import { connectUnix, listenUnix } from '../../src/daemon/ipc/socket.ts';

function obstacle(): string {
  try {
    requireIpc();
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Why the tests cannot run here; empty if they can. */
export const reason = obstacle();
if (reason !== '') console.warn(`skipped: ${reason}`);

/** Whether python3 is available, for a peer that can misbehave in ways that ours cannot. */
export const hasPython = spawnSync('python3', ['--version']).status === 0;
if (!hasPython) console.warn('skipped: hostile peers are written in Python, and there is no python3');

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-ipc-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let paths = 0;
/** An unused path. */
export const newPath = () => join(folder, `${++paths}.sock`);

/** Two connected ends in this process. */
export function pair(options: { takesFds?: boolean } = {}): {
  listener: UnixListener;
  near: UnixSocket;
  far: UnixSocket;
} {
  const listener = listenUnix(newPath(), options);
  const near = connectUnix(listener.path)!;
  const far = listener.accept()!;
  return { listener, near, far };
}

/** Shared memory and sockets that this process has open, by kind. */
export function openFds(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const what = readlinkSync(`/proc/self/fd/${fd}`);
      return /memfd|socket/.test(what) ? [what] : [];
    } catch {
      return [];
    }
  });
}

/** How often memory of this name is mapped here. */
export function mappings(name: string): number {
  return readFileSync('/proc/self/maps', 'utf8').split(`/memfd:${name} `).length - 1;
}

/** Waits until the condition is true, at most twenty seconds, as the machine may be busy. */
export async function until(condition: () => boolean, timeoutMs = 20_000): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`never came true: ${condition}`);
    await delay(2);
  }
}

/** Polls until there is an answer, and returns it. */
export async function some<T>(ask: () => T | null): Promise<T> {
  let answer: T | null = null;
  await until(() => {
    answer = ask();
    return answer !== null;
  });
  return answer!;
}

const CHILDREN = resolve(import.meta.dirname, 'children');

export interface Ending {
  status: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** Starts a child of test/daemon/children; `fds` are its descriptors from 3 on. */
export function start(file: string, args: string[], fds: number[] = [], env: NodeJS.ProcessEnv = {}) {
  const [command, ...flags] = file.endsWith('.py') ? ['python3'] : [process.execPath, '--expose-gc'];
  const inherited = Object.entries(process.env).filter(([key]) => !/^(ISOVERBS_|VITEST)/.test(key));
  const child = spawn(command, [...flags, join(CHILDREN, file), ...args], {
    stdio: ['ignore', 'pipe', 'pipe', ...fds],
    env: { ...Object.fromEntries(inherited), NODE_OPTIONS: '', ...env },
    timeout: 60_000,
  });
  let stdout = '';
  let stderr = '';
  child.stdout!.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr!.on('data', (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise<Ending>((done) => {
    child.on('close', (status, signal) => done({ status, signal, stdout: stdout.trim(), stderr }));
  });
  return { child, ended, printed: () => stdout };
}

export const PASSED: Ending = { status: 0, signal: null, stdout: 'pass', stderr: '' };
