// Messages to the own NIC do not load the link: under fair, they neither take its window nor wait for it.
import { expect, test } from 'vitest';
import { specOf } from '../../src/mix/jobs.ts';
import { type Mix, mixApp } from '../../src/mix/mixture.ts';
import type { AppResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';

const LOOPS = 'B:size=1MiB,qps=8,depth=16,cores=1,host=0,to=0,name=loops';
const LARGE = 'B:size=64KiB,depth=128,name=large';
const SHORT = 'D:name=short';

async function run(policy: string, ...apps: string[]): Promise<ReadonlyMap<string, AppResult>> {
  const mix: Mix = { profile: 'cx6-100g', policy, duration: '4ms', warmup: '2ms', apps: apps.map(mixApp) };
  const result = await runMix(specOf(mix, 1));
  expect(result.invariants).toEqual([]);
  return new Map(result.apps.map((app) => [app.name, app]));
}

const gbps = (apps: ReadonlyMap<string, AppResult>, name: string) => apps.get(name)!.throughputGbps;
const us = (apps: ReadonlyMap<string, AppResult>) => apps.get('short')!.latencyUs!.avg;

test.each(['write', 'read'])('a transfer by loopback (%s) has nearly all of its bare rate', async (op) => {
  const [bare, fair] = [await run('none', `${LOOPS},op=${op}`), await run('fair', `${LOOPS},op=${op}`)];
  expect(gbps(fair, 'loops')).toBeGreaterThan(0.95 * gbps(bare, 'loops'));
});

test.each(['write', 'send'])(
  'a transfer by the link (%s) keeps nearly all of its rate beside it',
  async (op) => {
    const [alone, both] = [
      await run('fair', `${LARGE},op=${op}`),
      await run('fair', `${LARGE},op=${op}`, LOOPS),
    ];
    expect(gbps(both, 'large')).toBeGreaterThan(0.9 * gbps(alone, 'large'));
  },
);

test('short messages by the link wait hardly longer beside it', async () => {
  const [alone, both] = [await run('fair', SHORT), await run('fair', SHORT, LOOPS)];
  expect(us(both)).toBeLessThan(1.1 * us(alone));
});

test('short messages by loopback pass a transfer by the link', async () => {
  const own = `${SHORT},host=0,to=0`;
  const [alone, both] = [await run('fair', own), await run('fair', own, LARGE)];
  expect(us(both)).toBeLessThan(1.2 * us(alone));
});
