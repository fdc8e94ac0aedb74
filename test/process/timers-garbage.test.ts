/** Nothing is allocated per timer of a policy: a run in its own process. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';

const SCRIPT = new URL('./timers-garbage-run.mjs', import.meta.url).pathname;
const BUILT = existsSync(new URL('../../dist/shim/timers/timers.js', import.meta.url));

test.skipIf(!BUILT)(
  'nothing is allocated when timers are set, moved and fired (skipped when it is not built)',
  () => {
    const flags = ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'];
    const { stdout, stderr } = spawnSync(process.execPath, [...flags, SCRIPT], { encoding: 'utf8' });
    expect(stderr).toBe('');
    const { bytesPerTimer, collections } = JSON.parse(stdout);
    expect(collections).toBe(0);
    expect(bytesPerTimer).toBeLessThan(0.1);
  },
  60_000,
);
