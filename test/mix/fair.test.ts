/** What fair grants tenants: rates as upper bounds, and tiny messages next to many others. */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';

async function run(apps: string[], policyOptions: Record<string, unknown> = {}) {
  const result = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    policy: 'fair',
    policyOptions,
    apps: apps.map(parseApp),
    warmupNs: 1e6,
    durationNs: 4e6,
  });
  expect(result.invariants).toEqual([]);
  return (name: string) => result.apps.find((app) => app.name === name)!;
}

/** The payload that a rate on the wire carries in packets of 4096 bytes. */
const PAYLOAD = 4096 / (4096 + 82);

test('rates are upper bounds, and other tenants share what is left', async () => {
  const of = await run(['B:name=a', 'B:name=b', 'B:name=c', 'D'], { ratesGbps: { a: 10, b: 30 } });
  expect(of('a').throughputGbps / (10 * PAYLOAD)).toBeCloseTo(1, 1.7);
  expect(of('b').throughputGbps / (30 * PAYLOAD)).toBeCloseTo(1, 1.7);
  expect(of('c').throughputGbps).toBeGreaterThan(0.95 * 59 * PAYLOAD);
  expect(of('D').latencyUs!.avg).toBeLessThan(1.5);
});

test('rates that add up to the link divide it within 2 %', async () => {
  const of = await run(['B:name=a', 'B:name=b', 'D'], { ratesGbps: { a: 30, b: 70 } });
  const [a, b] = ['a', 'b'].map((name) => of(name).throughputGbps);
  expect(a / (a + b) / 0.3).toBeGreaterThan(0.98);
  expect(a / (a + b) / 0.3).toBeLessThan(1.02);
  expect(of('D').latencyUs!.avg).toBeLessThan(1.4);
});

test('next to 100 tenants with large messages, tiny messages go as fast as next to one', async () => {
  const of = await run(['B:count=100', 'M', 'D']);
  expect(of('M').messageRateMmps).toBeGreaterThan(12);
  expect(of('D').latencyUs!.avg).toBeLessThan(1.5);
});
