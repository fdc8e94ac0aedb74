/**
 * More bandwidth tenants than processing units, which send one after another. The bounds are those of the claim many-b.
 */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';
import { eachShort } from '../support/variants.ts';

const TENANTS = 12;
const TURN_NS = 200e3;

async function run(
  qps: number,
  others: string[],
  policyOptions?: Record<string, unknown>,
  messages = 'size=1MiB',
) {
  const apps = [`B:${messages},count=${TENANTS},qps=${qps}`, ...others].map(parseApp);
  // Two rounds, after a warm-up of one and a half.
  const warmupNs = 1.5 * TENANTS * TURN_NS;
  const durationNs = warmupNs + 2 * TENANTS * TURN_NS;
  const result = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    policy: policyOptions === undefined ? 'none' : 'perf',
    policyOptions,
    apps,
    warmupNs,
    durationNs,
  });
  expect(result.invariants).toEqual([]);
  const of = (kind: string) => result.apps.filter((app) => app.kind === kind);
  const each = of('B').map(({ throughputGbps }) => throughputGbps);
  const total = each.reduce((sum, gbps) => sum + gbps);
  const farthest = Math.max(...each.map((gbps) => Math.abs((gbps * TENANTS) / total - 1)));
  return { total, farthest, mmps: of('M')[0].messageRateMmps, us: of('D')[0]?.latencyUs?.avg ?? Number.NaN };
}

eachShort(1, [1, 8])('12 B of %i queue pairs share 85 Gbit/s equally, and M gets 9.5 M/s', async (qps) => {
  const { total, farthest, mmps } = await run(qps, ['M:size=16'], {});
  expect(total).toBeGreaterThan(85);
  expect(farthest).toBeLessThan(0.05);
  expect(mmps).toBeGreaterThan(9.5);
});

eachShort(1, [1, 8])(
  'next to M and D, 12 B of %i queue pairs get 85 Gbit/s, and D has at most 0.4 of its bare latency',
  async (qps) => {
    const others = ['M:size=16', 'D:size=16,think=1us'];
    const [bare, isolated] = [await run(qps, others), await run(qps, others, {})];
    expect(isolated.total).toBeGreaterThan(85);
    expect(isolated.farthest).toBeLessThan(0.05);
    expect(isolated.mmps).toBeGreaterThan(9.5);
    expect(isolated.us / bare.us).toBeLessThan(0.4);
  },
);

test('a hundred B that start at once wait for the classification, so M gets its rate from the first millisecond', async () => {
  const result = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    policy: 'perf',
    apps: ['B:size=1MiB,count=100', 'M:size=16'].map(parseApp),
    warmupNs: 0.5e6,
    durationNs: 1.5e6,
  });
  const of = (kind: string) => result.apps.filter((app) => app.kind === kind);
  expect(of('B').reduce((sum, { throughputGbps }) => sum + throughputGbps, 0)).toBeGreaterThan(85);
  expect(of('M')[0].messageRateMmps).toBeGreaterThan(9.5);
});

test('without rotation, 0_WAITs occupy the processing units that other queue pairs need', async () => {
  const { total, mmps } = await run(1, ['M:size=16'], { rotation: 'off' });
  expect(total).toBeLessThan(65);
  expect(mmps).toBeLessThan(9);
});

test('tenants that send one short message at a time give up their tenant slots early', async () => {
  // Tenant slots kept to their end leave 60 Gbit/s; given up early, 75.
  const { total } = await run(1, ['M:size=16'], {}, 'size=64KiB,depth=1');
  expect(total).toBeGreaterThan(70);
});
