/** C programs that the tests talk to; each is killed after a time limit, so that no test hangs. */
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

export interface Outcome {
  /** The exit code, or the signal's name if the program was killed. */
  code: number | string | undefined;
  output: string;
}

export interface Program {
  done: Promise<Outcome>;
  ended(): boolean;
  /** Ends its standard input. */
  release(): void;
  /** Kills it. */
  stop(): void;
}

const TIME_MS = 100_000;

export function isInstalled(name: string): boolean {
  return spawnSync('which', [name]).status === 0;
}

/** Words in front of each program, which start it in another network namespace than the tests. */
const before = (process.env.ISOVERBS_PEERS_IN ?? '').split(' ').filter((word) => word !== '');

export function start(...words: [name: string, ...args: string[]]): Program {
  let ended = false;
  let resolve: (outcome: Outcome) => void = () => {};
  const done = new Promise<Outcome>((settle) => {
    resolve = settle;
  });
  const [name, ...args] = [...before, ...words];
  const child = execFile(name, args, { timeout: TIME_MS }, (error, stdout, stderr) => {
    ended = true;
    const code = error === null ? 0 : (error.signal ?? error.code ?? undefined);
    resolve({ code, output: stdout + stderr });
  });
  return { done, ended: () => ended, release: () => child.stdin?.end(), stop: () => child.kill() };
}

/** Waits until a port is open, by the kernel's table, so that the listening program sees no connection. */
export async function listening(port: number): Promise<void> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const entry = new RegExp(`:${hex} [0-9A-F]+:0000 0A`);
  for (let tries = 0; tries < 600; tries++) {
    if (['tcp', 'tcp6'].some((table) => entry.test(readFileSync(`/proc/net/${table}`, 'utf8')))) return;
    await delay(50);
  }
  throw new Error(`nothing listens on port ${port}`);
}
