/** Runs the programs of a comparison. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

export interface Outcome {
  failed: boolean;
  /** stdout and stderr. */
  output: string;
}

/** Runs a program to its end; never rejects. */
export function runProgram(program: string, args: readonly string[], timeoutMs: number): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(program, args, { timeout: timeoutMs }, (error, stdout, stderr) =>
      resolve({ failed: error !== null, output: `${stdout}${stderr}${error?.message ?? ''}` }),
    );
  });
}

/** TCP_LISTEN in /proc/net/tcp. */
const LISTENS = '0A';
const TRIES = 600;

/** Waits until a process listens on the port. The kernel's table shows it without connecting to the process. */
export async function untilListening(port: number): Promise<void> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const entry = new RegExp(`:${hex} [0-9A-F]+:0000 ${LISTENS}`);
  for (let tries = 0; tries < TRIES; tries++) {
    if (['tcp', 'tcp6'].some((table) => entry.test(readFileSync(`/proc/net/${table}`, 'utf8')))) return;
    await delay(100);
  }
  throw new Error(`nothing listens on port ${port}`);
}
