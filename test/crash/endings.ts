/** How processes end in the middle of transfers: with the right exit code and no foreign output on stderr. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

const PROGRAM = resolve(import.meta.dirname, 'endings/process.mjs');
const TIME_MS = 110_000;

/** What Node.js itself prints for an uncaught error, with nothing before or after it. */
const UNCAUGHT = /^\S+:\d+\n.*\n\s*\^\n\n?Error: meant\n( {4}at .*\n)+\nNode\.js v[\d.]+\n$/;
const SILENT = /^$/;

interface Ending {
  code: number | null;
  signal?: string;
  stderr?: RegExp;
  /** Expected output after `under way`. */
  stdout?: string;
  /** Whether the test sends SIGTERM as soon as the transfers are under way. */
  killed?: boolean;
}

const ENDINGS: Record<string, Ending> = {
  exit: { code: 7 },
  exception: { code: 1, stderr: UNCAUGHT },
  rejection: { code: 1, stderr: UNCAUGHT },
  wait: { code: null, signal: 'SIGTERM', killed: true },
  handled: { code: 0, stdout: 'closed\n', killed: true },
  closed: { code: 0 },
  'worker terminated': { code: 0, stdout: 'pass\n' },
  'worker exit': { code: 0, stdout: 'pass\n' },
  'worker exception': { code: 0, stdout: 'pass\n' },
  'worker rejection': { code: 0, stdout: 'pass\n' },
  'exit beside workers': { code: 7 },
  'exception beside workers': { code: 1, stderr: UNCAUGHT },
  'wait beside workers': { code: null, signal: 'SIGTERM', killed: true },
  'closed beside workers': { code: 0 },
};

async function run(device: string, name: string, killed: boolean) {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  const env = { ...Object.fromEntries(inherited), NODE_OPTIONS: '', ISOVERBS_DEVICE: device };
  const child = spawn(process.execPath, [PROGRAM, name], { env });
  const late = setTimeout(() => child.kill('SIGKILL'), TIME_MS);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
    if (killed && stdout === 'under way\n') child.kill('SIGTERM');
  });
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  const [code, signal] = await once(child, 'close');
  clearTimeout(late);
  return { code, signal, stdout, stderr };
}

/** The number of times that each test runs. */
const RUNS = Number(process.env.ISOVERBS_RUNS ?? 1);

/** Declares a test for each ending on this device; endings not named have the tag `long`. */
export function endings(device: string, names = Object.keys(ENDINGS)): void {
  for (const [name, ending] of Object.entries(ENDINGS)) {
    const { code, signal = null, stderr = SILENT, stdout = '', killed = false } = ending;
    const options = { tags: names.includes(name) ? [] : ['long'], timeout: (TIME_MS + 10_000) * RUNS };
    test(`${name} on ${device}`, options, async () => {
      for (let i = 0; i < RUNS; i++) {
        const expected = {
          code,
          signal,
          stdout: `under way\n${stdout}`,
          stderr: expect.stringMatching(stderr),
        };
        expect(await run(device, name, killed)).toEqual(expected);
      }
    });
  }
}
