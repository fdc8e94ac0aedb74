// The example of congestion control by agents, under `isoverbs mix`. Requires a build.
import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { avgUs, gbps } from '../../src/mix/metrics.ts';
import type { runMix } from '../../src/mix/run.ts';
import { MAIN } from '../support/main.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const EXAMPLE = join(ROOT, 'examples/policies/delay-rates.mjs');

describe('examples/policies/delay-rates.mjs', () => {
  /** D's mean time in us while eight hosts send to its peer, and the rates of these, in Gbit/s. */
  async function incast(policy: string) {
    const apps = ['B:name=x,host=0-7,to=9,size=1MiB,count=8', 'D:host=8,to=9'].flatMap((app) => [
      '--app',
      app,
    ]);
    // Long enough for rates to settle.
    const times = ['--duration', '48ms', '--warmup', '8ms'];
    const args = ['mix', '--hosts', '10', '--policy', policy, ...times, '--no-payload', '--json', ...apps];
    const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...args], { maxBuffer: 2 ** 26 });
    const result = JSON.parse(stdout) as Awaited<ReturnType<typeof runMix>>;
    const rates = result.apps
      .filter(({ name }) => name.startsWith('x'))
      .map(({ name }) => gbps(result, name));
    return { waitUs: avgUs(result, 'D'), rates };
  }

  test('keeps queues at a receiver short, and its link in use', {
    tags: ['long'],
    timeout: 60_000,
  }, async () => {
    const [alone, controlled] = [await incast('tassel'), await incast(EXAMPLE)];
    expect(alone.waitUs).toBeGreaterThan(100);
    expect(controlled.waitUs).toBeLessThan(6);
    expect(controlled.rates.reduce((a, b) => a + b, 0)).toBeGreaterThan(85);
    expect(Math.min(...controlled.rates) / Math.max(...controlled.rates)).toBeGreaterThan(0.8);
  });
});
