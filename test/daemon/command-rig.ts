/** The command `isoverbs` as processes: daemons, programs under them, and tools. Requires a build. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach } from 'vitest';
import { BUILT, MAIN } from '../support/main.ts';
import { type Ending, until } from './rig.ts';

export { MAIN };

export const WRITES = resolve(import.meta.dirname, 'children/writes.mjs');

let main = MAIN;
const cleanUp: (() => void)[] = [];
afterEach(() => {
  main = MAIN;
  for (const undo of cleanUp.splice(0).reverse()) undo();
});

/** A folder that is removed after the test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'isoverbs-cli-'));
  cleanUp.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const INHERITED = Object.entries(process.env).filter(
  ([key]) => !/^(ISOVERBS_|VITEST|NODE_|NOTIFY_)/.test(key),
);

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ending>;
  out(): string;
  err(): string;
}

/** Starts a process, which is killed after the test if it still runs. */
export function started(command: string, args: readonly string[], env: Record<string, string> = {}): Running {
  const child = spawn(command, args, { env: { ...Object.fromEntries(INHERITED), ...env }, timeout: 120_000 });
  const said = { out: '', err: '' };
  child.stdout.on('data', (chunk) => {
    said.out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    said.err += chunk;
  });
  const ended = new Promise<Ending>((done) => {
    child.on('close', (status, signal) => done({ status, signal, stdout: said.out, stderr: said.err }));
  });
  cleanUp.push(() => child.kill('SIGKILL'));
  return { child, ended, out: () => said.out, err: () => said.err };
}

/** `isoverbs ARGS`. */
export function isoverbs(args: readonly string[], env?: Record<string, string>): Running {
  return started(process.execPath, [main, ...args], env);
}

/** Starts a daemon and waits until it listens. */
export async function daemon(
  socket: string,
  args: readonly string[] = [],
  env?: Record<string, string>,
): Promise<Running> {
  // A policy from a module must import the copy of isoverbs that runs.
  if (args.some((arg) => arg.includes('.mjs'))) main = BUILT;
  const running = isoverbs(['daemon', '--socket', socket, ...args], env);
  await until(() => /"listening"/.test(running.err()) || running.child.exitCode !== null);
  if (running.child.exitCode !== null) throw new Error(running.err());
  return running;
}

/** A tenant's program, which sends data. It must print `going` when it begins. */
export async function tenant(socket: string, name: string, program = WRITES): Promise<Running> {
  const args = ['run', '--socket', socket, '--tenant', name, '--', process.execPath, program];
  const running = isoverbs(args);
  await until(() => running.out().includes('going') || running.child.exitCode !== null);
  if (running.child.exitCode !== null) throw new Error(running.err());
  return running;
}
