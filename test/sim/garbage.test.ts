/**
 * Nothing is allocated per packet: a million packets per run on a rich profile, each run in its own process.
 */
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';

const SCRIPT = new URL('./garbage-run.mjs', import.meta.url).pathname;
const BUILT = existsSync(new URL('../../out/bench/against-cpp/sim-load.js', import.meta.url));
/** A double on the heap takes 16 bytes. What the compiler and growing pools allocate stays below this limit. */
const MOST_BYTES_PER_PACKET = 1;

const SOME = [['cx5-100g', 'small', 'palos']];
const OTHERS = [
  ['cx3-56g', 'mixed', 'greedy'],
  ['cx6-100g', 'bulk', 'rr'],
  ['cx6-100g', 'small', 'rr'],
  ['cx6-100g', 'read', 'rr'],
  ['cx5-100g', 'mixed', 'palos'],
];

for (const words of [...SOME, ...OTHERS]) {
  const options = { tags: SOME.includes(words) ? [] : ['long'], timeout: 120_000 };
  test.skipIf(!BUILT)(`${words.join(', ')} (skipped when it is not built)`, options, () => {
    const flags = ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'];
    const { stdout, stderr } = spawnSync(process.execPath, [...flags, SCRIPT, ...words], {
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    const { bytesPerPacket, collections } = JSON.parse(stdout);
    expect(collections).toBe(0);
    expect(bytesPerPacket).toBeLessThan(MOST_BYTES_PER_PACKET);
  });
}
