/**
 * 0_WAITs and congestion control in the NIC: when congestion control holds a queue pair back, 0_WAITs must
 * not add to it. The tolerance of 5 % was chosen before the first run.
 */
import { describe, expect, test } from 'vitest';
import { runMix } from '../../src/mix/run.ts';
import type { AppSpec, MixSpec } from '../../src/mix/spec.ts';
import { eachShort } from '../support/variants.ts';

const KEPT = 0.95;
const SEEDS = [1, 2, 3];
const D: AppSpec = { kind: 'D', host: 0, to: 1 };
const DCQCN = { congestionControl: 'dcqcn' };

function run(apps: readonly AppSpec[], more: Partial<MixSpec>) {
  const common = { profile: 'cx6-100g', set: {}, policy: 'perf', hosts: 3, seed: 1, payload: false };
  return runMix({ ...common, durationNs: 12e6, warmupNs: 4e6, ...more, apps });
}

const mean = (values: readonly (number | null)[]) =>
  values.reduce<number>((sum, value) => sum + (value ?? Number.NaN), 0) / values.length;

describe('DCQCN: B of host 0, next to D, and B of another host meet at a switch', () => {
  const apps: AppSpec[] = [{ kind: 'B', host: 0, to: 2 }, D, { kind: 'B', host: 1, to: 2 }];
  /**
   * Rate of B, rate of the other B (alone on its host, without 0_WAITs), and latency of D; means over all
   * seeds.
   */
  const means = async (more: Partial<MixSpec>) => {
    const runs = await Promise.all(SEEDS.map((seed) => run(apps, { set: DCQCN, ...more, seed })));
    for (const { invariants } of runs) expect(invariants).toEqual([]);
    const of = (app: number) => mean(runs.map((one) => one.apps[app].throughputGbps));
    return { gbps: of(0), other: of(2), dUs: mean(runs.map((one) => one.apps[1].latencyUs!.avg)) };
  };

  test('B keeps its bare rate and equals the other B; with the fixed rule it does not', {
    tags: ['long'],
  }, async () => {
    const bare = await means({ policy: 'none' });
    const perf = await means({});
    const fixed = await means({ policyOptions: { waits: 'fixed' } });
    expect(perf.gbps / bare.gbps).toBeGreaterThanOrEqual(KEPT);
    expect(perf.gbps / perf.other).toBeGreaterThanOrEqual(KEPT);
    // Notifications are shared, so only 0_WAITs make the difference.
    expect(fixed.gbps / fixed.other).toBeLessThan(KEPT);
    // Packets held back by the NIC do not occupy the FIFO.
    expect(perf.dUs).toBeLessThanOrEqual(bare.dUs / KEPT);
  });
});

test('DCQCN: after the other B ends, B regains its rate, and 0_WAITs protect D again', async () => {
  // Faster than in reality, so that the return to line rate takes a few milliseconds.
  const set = { ...DCQCN, dcqcnIncreaseTimerNs: 55e3, dcqcnHaiMbps: 5000 };
  const last = async (policy: string, others: readonly AppSpec[]) => {
    const times = { durationNs: 14e6, warmupNs: 1e6, timelinePoints: 14 };
    const { timeline } = await run([{ kind: 'B', host: 0, to: 2 }, D, ...others], { set, policy, ...times });
    const [b, d] = timeline!.apps;
    return {
      during: mean(b.throughputGbps.slice(2, 6)),
      gbps: mean(b.throughputGbps.slice(-4)),
      dUs: mean(d.latencyUs.slice(-4)),
    };
  };
  const after = await last('perf', [{ kind: 'B', host: 1, to: 2, stopNs: 6e6 }]);
  const never = await last('perf', []);
  const bare = await last('none', []);
  expect(after.during).toBeLessThan(never.gbps * 0.6);
  expect(after.gbps / never.gbps).toBeGreaterThanOrEqual(KEPT);
  expect(never.dUs / after.dUs).toBeGreaterThanOrEqual(KEPT);
  expect(after.dUs).toBeLessThan(bare.dUs * 0.6);
});

eachShort(2, [20, 40, 60, 80, 85, 90, 95])(
  'a rate limit of %i Gbit/s in the NIC: B reaches it with and without 0_WAITs',
  async (rateGbps) => {
    const apps: AppSpec[] = [{ kind: 'B', host: 0, to: 2, rateGbps }, D];
    const rate = async (policy: string) =>
      (await run(apps, { policy, durationNs: 4e6, warmupNs: 1e6 })).apps[0].throughputGbps;
    expect((await rate('perf')) / (await rate('none'))).toBeGreaterThanOrEqual(KEPT);
  },
);
