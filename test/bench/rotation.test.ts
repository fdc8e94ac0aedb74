/**
 * More bandwidth tenants than processing units: they send one after the other. The bounds are those of the claim
 * many-b, less 1 Gbit/s where queue pairs take turns as well: it is known to fall short there.
 */
import { expect, test } from 'vitest';
import { runMix } from '../../src/bench/mix/run.ts';
import { DEFAULTS, parseApp } from '../../src/bench/mix/spec.ts';

const TENANTS = 12;
const TURN_NS = 200e3;

async function run(qps: number, policyOptions: Record<string, unknown> = {}) {
  const apps = [`B:size=1MiB,count=${TENANTS},qps=${qps}`, 'M:size=16'].map(parseApp);
  // Two rounds, after more than one.
  const warmupNs = 1.5 * TENANTS * TURN_NS;
  const durationNs = warmupNs + 2 * TENANTS * TURN_NS;
  const result = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    policy: 'perf',
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
  return { total, farthest, mmps: of('M')[0].messageRateMmps };
}

test.each([1, 8])(
  '12 B of %i queue pairs and M: 84 Gbit/s or more, shared equally, and 9.5 M/s',
  async (qps) => {
    const { total, farthest, mmps } = await run(qps);
    expect(total).toBeGreaterThan(qps === 1 ? 85 : 84);
    expect(farthest).toBeLessThan(0.05);
    expect(mmps).toBeGreaterThan(9.5);
  },
);

test('without rotation their 0_WAITs take the places of those who have something to send', async () => {
  const { total, mmps } = await run(1, { rotation: 'off' });
  expect(total).toBeLessThan(65);
  expect(mmps).toBeLessThan(9);
});
