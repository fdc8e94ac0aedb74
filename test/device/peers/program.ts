/** Programs of rdmacm-utils that the tests talk to: each is killed when its time is up, so that nothing hangs. */
import { execFile, spawnSync } from 'node:child_process';

export interface Outcome {
  /** 0: as the program meant it; a signal's name when it was killed. */
  code: number | string | undefined;
  output: string;
}

export interface Program {
  done: Promise<Outcome>;
  ended(): boolean;
}

const TIME_MS = 40_000;

export function isInstalled(name: string): boolean {
  return spawnSync('which', [name]).status === 0;
}

export function start(name: string, ...args: string[]): Program {
  let ended = false;
  const done = new Promise<Outcome>((resolve) => {
    execFile(name, args, { timeout: TIME_MS }, (error, stdout, stderr) => {
      ended = true;
      const code = error === null ? 0 : (error.signal ?? error.code ?? undefined);
      resolve({ code, output: stdout + stderr });
    });
  });
  return { done, ended: () => ended };
}
