/** Crash and lifetime tests: each is a child process that must print `pass` and nothing else. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { skipReason } from './rig.ts';

const built = existsSync(new URL('../../dist/providers/rdma-core/index.js', import.meta.url));

function run(name: string, ...flags: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
  const file = fileURLToPath(new URL(`./children/${name}.mjs`, import.meta.url));
  return new Promise((resolve) => {
    execFile(process.execPath, [...flags, file], { timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : (error.signal ?? error.code), stdout, stderr });
    });
  });
}

const CASES = ['idle-channel', 'exit-in-listener', 'workers', 'cm-throwing-listener', 'cm-workers'];
const MORE_OF_THE_SAME = ['ref-channel', 'throwing-listener', 'cm-exit-in-listener', 'cm-rounds'];

describe.skipIf(skipReason !== '' || !built)('processes that end abnormally', () => {
  const passes =
    (name: string, ...flags: string[]) =>
    async () => {
      expect(await run(name, ...flags)).toEqual({ code: 0, stdout: 'pass\n', stderr: '' });
    };
  for (const name of CASES) test(name, passes(name), 60_000);
  for (const name of MORE_OF_THE_SAME) test(name, { tags: ['long'], timeout: 60_000 }, passes(name));
  test('collected', passes('collected', '--expose-gc'), 60_000);
});
