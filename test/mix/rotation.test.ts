/** More bandwidth tenants than processing units: they send one after the other. The bounds are those of the claim many-b. */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';

const TENANTS = 12;
const TURN_NS = 200e3;

async function run(
  qps: number,
  others: string[],
  policyOptions?: Record<string, unknown>,
  messages = 'size=1MiB',
) {
  const apps = [`B:${messages},count=${TENANTS},qps=${qps}`, ...others].map(parseApp);
  // Two rounds, after more than one.
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

test.each([1, 8])('12 B of %i queue pairs and M: 85 Gbit/s, shared equally, and 9.5 M/s', async (qps) => {
  const { total, farthest, mmps } = await run(qps, ['M:size=16'], {});
  expect(total).toBeGreaterThan(85);
  expect(farthest).toBeLessThan(0.05);
  expect(mmps).toBeGreaterThan(9.5);
});

test.each([1, 8])(
  '12 B of %i queue pairs, M and D: still 85 Gbit/s, and D waits at most 0.4 of bare',
  async (qps) => {
    const others = ['M:size=16', 'D:size=16,think=1us'];
    const [bare, isolated] = [await run(qps, others), await run(qps, others, {})];
    expect(isolated.total).toBeGreaterThan(85);
    expect(isolated.farthest).toBeLessThan(0.05);
    expect(isolated.mmps).toBeGreaterThan(9.5);
    expect(isolated.us / bare.us).toBeLessThan(0.4);
  },
);

test('a hundred that begin at once wait until it is known who suffers: M has its rate from the first millisecond on', async () => {
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

test('without rotation their 0_WAITs take the places of those who have something to send', async () => {
  const { total, mmps } = await run(1, ['M:size=16'], { rotation: 'off' });
  expect(total).toBeLessThan(65);
  expect(mmps).toBeLessThan(9);
});

test('tenants that send one short message at a time do not keep their slots while they have no more', async () => {
  // Kept to the end, slots leave 60; handed over, 75.
  const { total } = await run(1, ['M:size=16'], {}, 'size=64KiB,depth=1');
  expect(total).toBeGreaterThan(70);
});
