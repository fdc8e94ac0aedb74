// Creating, using and closing every object repeatedly leaks no memory, in the main thread and in a worker.
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { tagsIf } from '../support/variants.ts';
import { realDevices, realOnly } from './ground.ts';

const CHILD = resolve(import.meta.dirname, 'children/rounds.mjs');
const PATIENCE_MS = 600_000;
/** A round takes a tenth of a second on an emulated machine, so the full run requires ISOVERBS_ROUNDS=1000. */
const REAL_ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 30);
const [rxe] = typeof realDevices === 'string' ? [undefined] : realDevices;

function rounds(device: string, count: number, warmUp: number, where: string) {
  const args = ['--expose-gc', CHILD, device, String(count), String(warmUp), where];
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  const env = { ...Object.fromEntries(inherited), NODE_OPTIONS: '' };
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    env,
    encoding: 'utf8',
    timeout: PATIENCE_MS,
  });
  return { out: stdout, err: stderr };
}

const PASS = { out: 'pass\n', err: '' };

describe.each(['main thread', 'worker'])('in the %s', (where) => {
  // The worker does the same as the main thread, and then ends.
  const isShort = where === 'worker';
  const tags = tagsIf(isShort);
  test.skipIf(realOnly || !isShort)('200 rounds on a simulated device', { timeout: PATIENCE_MS }, () =>
    expect(rounds('sim0', 200, 50, where)).toEqual(PASS),
  );
  test.skipIf(realOnly)('1000 rounds on a simulated device', { tags: ['long'], timeout: PATIENCE_MS }, () =>
    expect(rounds('sim0', 1000, isShort ? 100 : 3000, where)).toEqual(PASS),
  );
  test.skipIf(rxe === undefined)(
    `${REAL_ROUNDS} rounds on a real device`,
    { tags, timeout: PATIENCE_MS },
    () => expect(rounds(rxe as string, REAL_ROUNDS, 20, where)).toEqual(PASS),
  );
});
