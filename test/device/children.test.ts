/** Crash and lifetime tests: each a process of its own, that prints `pass` and nothing else. */
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

const CASES = [
  ...['idle-channel', 'ref-channel', 'throwing-listener', 'exit-in-listener', 'workers'],
  ...['cm-throwing-listener', 'cm-exit-in-listener', 'cm-workers', 'cm-rounds'],
];

describe.skipIf(skipReason !== '' || !built)('processes that end in odd ways', () => {
  test.each(CASES)(
    '%s',
    async (name) => {
      expect(await run(name)).toEqual({ code: 0, stdout: 'pass\n', stderr: '' });
    },
    60_000,
  );

  test('collected', async () => {
    expect(await run('collected', '--expose-gc')).toEqual({ code: 0, stdout: 'pass\n', stderr: '' });
  }, 60_000);
});
