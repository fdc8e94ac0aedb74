/** Bandwidth tenants that send datagrams: the policy paces and schedules their queue pairs without WAIT and ENABLE. */
import { describe, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';

const B = 'B:transport=ud,op=send,size=4096,depth=64,batch=16';

async function run(policy: string, policyOptions: Record<string, unknown>, ...apps: string[]) {
  const result = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    policy,
    policyOptions,
    apps: apps.map(parseApp),
    warmupNs: 0.5e6,
    durationNs: 2e6,
  });
  expect(result.invariants).toEqual([]);
  const app = (name: string) => result.apps.find((one) => one.name === name)!;
  return {
    gbps: (name: string) => app(name).throughputGbps,
    mmps: app('M')?.messageRateMmps ?? 0,
    averageUs: app('D')?.latencyUs?.avg ?? 0,
  };
}

const bare = (...apps: string[]) => run('none', {}, ...apps);
const under = (...apps: string[]) => run('perf', {}, ...apps);

test('perf leaves one queue pair 92 % of its bandwidth and cuts the latency of D by 60 %', async () => {
  const [before, after] = [await bare(B, 'D'), await under(B, 'D')];
  expect(after.gbps('B')).toBeGreaterThan(0.92 * before.gbps('B'));
  expect(after.averageUs).toBeLessThan(0.4 * before.averageUs);
});

test('perf gives one queue pair 87 Gbit/s, and M 9 M/s instead of 2.9', async () => {
  const { gbps, mmps } = await under(B, 'M');
  expect((await bare(B, 'M')).mmps).toBeLessThan(3);
  expect(gbps('B')).toBeGreaterThan(87);
  expect(mmps).toBeGreaterThan(9);
});

describe.each(['B', 'UD'])('eight queue pairs next to a tenant with one (%s)', (other) => {
  const single = other === 'B' ? 'B:name=S' : `${B},name=S`;
  test('perf shares equally within 5 %, and cuts the latency of D by 60 %', async () => {
    const before = await bare(`${B},qps=8`, single, 'D');
    const after = await under(`${B},qps=8`, single, 'D');
    expect(before.gbps('B') / before.gbps('S')).toBeGreaterThan(7);
    expect(Math.abs(after.gbps('B') / after.gbps('S') - 1)).toBeLessThan(0.05);
    expect(after.averageUs).toBeLessThan(0.4 * before.averageUs);
  });

  test('perf gives M 9 M/s instead of 0.4', async () => {
    expect((await bare(`${B},qps=8`, single, 'M')).mmps).toBeLessThan(0.4);
    expect((await under(`${B},qps=8`, single, 'M')).mmps).toBeGreaterThan(9);
  });
});

test('a higher qNumAllow gives a tenant with many queue pairs more', async () => {
  const of = async (qNumAllow: number) =>
    (await run('perf', { qNumAllow }, `${B},qps=8`, 'B:name=S', 'D')).gbps('B');
  const [one, two, four] = [await of(1), await of(2), await of(4)];
  expect(two).toBeGreaterThan(1.2 * one);
  expect(four).toBeGreaterThan(1.1 * two);
});

test('small datagrams of many queue pairs leave a single queue pair its message rate', {
  tags: ['long'],
  timeout: 90_000,
}, async () => {
  const many = 'M:name=many,transport=ud,op=send,qps=16';
  const before = await bare(many, 'M');
  const after = await under(many, 'M');
  expect(before.mmps).toBeLessThan(7);
  expect(after.mmps).toBeGreaterThan(9);
});

test('perf costs no bandwidth when there is nothing to isolate', async () => {
  const [before, after] = [await bare(`${B},qps=8`), await under(`${B},qps=8`)];
  expect(after.gbps('B')).toBeGreaterThan(0.99 * before.gbps('B'));
});
