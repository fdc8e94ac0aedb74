/** Programs of ours on user-space RoCE, each in a network namespace. Needs root. */
import { execFileSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { type Program, start } from './program.ts';

export const run = (...words: string[]) => execFileSync(words[0], words.slice(1), { encoding: 'utf8' });
export const ip = (words: string) => run('ip', ...words.split(' '));

/** Starts a program of ours in a namespace, with a device at this address. */
export const startIn = (space: string, address: string, ...words: string[]): Program =>
  start(
    ...(['ip', 'netns', 'exec', space, 'env', 'ISOVERBS_PROVIDER=soft'] as const),
    ...[`ISOVERBS_SOFT_ADDRESSES=${address}`, process.execPath, ...words],
  );

/** Waits until a program listens on a port in a namespace. Only programs in the namespace can see the port. */
export async function listeningIn(space: string, port: number): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    const table = run('ip', 'netns', 'exec', space, 'cat', '/proc/net/tcp', '/proc/net/tcp6');
    if (new RegExp(`:${port.toString(16).toUpperCase()} [0-9A-F]+:0000 0A`).test(table)) return;
    await delay(50);
  }
  throw new Error(`nothing listens on port ${port} in ${space}`);
}
