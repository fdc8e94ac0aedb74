/**
 * READ responses leave through the peer's NIC. There, D, M and B with several queue pairs are isolated from what that
 * host sends, in both directions. The bounds are those of the claim read-against-write.
 */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';

/** Both kinds of traffic leave host 1. */
const READ = 'op=read';
const WRITE = 'op=write,host=1,to=0';

async function run(apps: readonly string[], policy: string, more: Record<string, unknown> = {}) {
  const result = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    policy,
    apps: apps.map(parseApp),
    warmupNs: 1e6,
    durationNs: 4e6,
    ...more,
  });
  expect(result.invariants).toEqual([]);
  return (name: string) => result.apps.find((app) => app.name === name)!;
}

const WAYS = [
  ['READs', READ, WRITE, 0.4, 2.7],
  ['WRITEs', WRITE, READ, 0.52, 2],
] as const;

test.each(WAYS)('perf isolates D from a B that %s', async (_does, b, other, most) => {
  const apps = [`B:size=1MiB,${b}`, `D:size=16,think=5us,${other}`];
  const [bare, perf] = [await run(apps, 'none'), await run(apps, 'perf')];
  expect(perf('D').latencyUs!.avg / bare('D').latencyUs!.avg).toBeLessThan(most);
  expect(perf('B').throughputGbps / bare('B').throughputGbps).toBeGreaterThan(0.92);
});

test.each(WAYS)('perf isolates M from a B that %s', async (_does, b, other, _most, least) => {
  const apps = [`B:size=1MiB,${b}`, `M:size=16,${other}`];
  const [bare, perf] = [await run(apps, 'none'), await run(apps, 'perf')];
  expect(perf('M').messageRateMmps / bare('M').messageRateMmps).toBeGreaterThan(least);
  expect(perf('B').throughputGbps / bare('B').throughputGbps).toBeGreaterThan(0.9);
});

test.each([
  ['READs', 'WRITEs', READ, WRITE],
  ['WRITEs', 'READs', WRITE, READ],
  ['READs', 'READs', READ, READ],
])('a B that %s and a B of 15 queue pairs that %s get equal shares', async (_b, _multi, b, multi) => {
  const perf = await run([`B:size=1MiB,${b}`, `B:name=multi,qps=15,size=1MiB,${multi}`], 'perf');
  const [one, many] = [perf('B').throughputGbps, perf('multi').throughputGbps];
  expect(one + many).toBeGreaterThan(96);
  expect(Math.abs(many / one - 1)).toBeLessThan(0.05);
});

test('READs across a switch keep their bandwidth although the round trip is longer than the FIFO', async () => {
  const apps = ['B:size=1MiB,op=read,to=1', 'D:size=16,think=5us,op=read,host=2,to=1'];
  const [bare, perf] = [await run(apps, 'none', { hosts: 3 }), await run(apps, 'perf', { hosts: 3 })];
  expect(perf('B').throughputGbps / bare('B').throughputGbps).toBeGreaterThan(0.92);
  expect(perf('D').latencyUs!.avg / bare('D').latencyUs!.avg).toBeLessThan(0.52);
});
