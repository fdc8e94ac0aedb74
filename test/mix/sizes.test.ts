/** Bandwidth tenants with different message sizes at queue depth 1. The bounds are those of the claim `sizes`. */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';

const SIZES = ['16KiB', '64KiB', '256KiB', '1MiB', '4MiB'];

async function run(policy: string, others: readonly string[] = []) {
  const apps = [...SIZES.map((size) => `B:name=${size},size=${size},depth=1`), ...others].map(parseApp);
  const times = { warmupNs: 2e6, durationNs: 7e6 };
  const result = await runMix({ ...DEFAULTS, profile: 'cx6-100g', payload: false, policy, apps, ...times });
  expect(result.invariants).toEqual([]);
  const each = result.apps.slice(0, SIZES.length).map(({ throughputGbps }) => throughputGbps);
  const total = each.reduce((sum, gbps) => sum + gbps);
  const farthest = Math.max(...each.map((gbps) => Math.abs((gbps * SIZES.length) / total - 1)));
  return { total, farthest, result };
}

test('tenants with messages of 16 KiB to 4 MiB share equally within 5 %, and fill the link', async () => {
  const { total, farthest } = await run('perf');
  expect(farthest).toBeLessThan(0.05);
  expect(total).toBeGreaterThan(85);
  // Bare, the shortest queue runs dry most often.
  expect((await run('none')).farthest).toBeGreaterThan(0.3);
});

test('they also share equally next to D, which has at most 40 % of its bare latency', async () => {
  const others = ['D:size=16,think=1us'];
  const [bare, perf] = [await run('none', others), await run('perf', others)];
  expect(perf.farthest).toBeLessThan(0.05);
  const avgUs = ({ result }: typeof bare) => result.apps.at(-1)!.latencyUs!.avg;
  expect(avgUs(perf) / avgUs(bare)).toBeLessThan(0.4);
});
