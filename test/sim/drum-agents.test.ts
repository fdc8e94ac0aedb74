/**
 * The agents of drum on simulated hosts, below the policy. Tolerances: 1 % of a rate that agents give, and 5 % of what is
 * sent. They were written down before the first run.
 */
import { expect, test } from 'vitest';
import { mmps } from '../../src/mix/metrics.ts';
import { parseApp, parsePolicy } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';

const MS = 1e6;
const POINTS = 6;

async function run(policy: string, apps: readonly string[], more: Partial<MixSpec> = {}) {
  const result = await runMix({
    ...DEFAULTS,
    ...parsePolicy(policy),
    ...{ hosts: 4, topology: 'star', gauges: true, timelinePoints: POINTS, payload: false },
    ...{ durationNs: 3 * MS, warmupNs: MS },
    ...more,
    apps: apps.map(parseApp),
  });
  expect(result.invariants).toEqual([]);
  return result;
}

/** The last rate that a host's policy has for a tenant, in millions per second. */
function lastRate({ timeline }: Awaited<ReturnType<typeof run>>, host: number, tenant: string): number {
  const line = timeline!.gauges!.find(
    (one) => one.device === `sim${host}` && one.tenant === tenant && one.name === 'rate',
  );
  return line!.values.at(-1)! / 1e6;
}

const NAMES = ['a', 'b', 'c'];
/** Each on a host of its own; all send to the fourth one. */
const senders = (more: string, depth = 'depth=2,batch=1') =>
  NAMES.map((name, i) => `M:name=${name},size=16,${depth},weight=${2 ** i},host=${i},to=3,${more}`);
const SCARCE = 'drum:agents=true,requestsPerS=50e6,completionsPerS=40e6';

test('three tenants weighted 1:2:4 share the completion rate of their receiver', async () => {
  const result = await run(SCARCE, senders('op=send'));
  for (const [i, name] of NAMES.entries()) {
    const expected = (40 * 2 ** i) / 7;
    expect(Math.abs(lastRate(result, i, name) / expected - 1)).toBeLessThan(0.01);
  }
});

test('hosts from which an application sends are held to its rates there, whatever their queue pairs', {
  tags: ['long'],
}, async () => {
  const apps = [16, 8].map(
    (qps, host) => `M:name=${NAMES[host]},tenant=t,size=16,op=send,qps=${qps},depth=32,host=${host},to=3`,
  );
  const result = await run(SCARCE, apps, { durationNs: 4 * MS, warmupNs: 3 * MS });
  for (const name of ['a', 'b']) expect(Math.abs(mmps(result, name) / 20 - 1)).toBeLessThan(0.05);
});

test('requests that cause no completions at the receiver are limited by their own host', async () => {
  const result = await run(SCARCE, senders('op=write'));
  for (const [i, name] of NAMES.entries()) expect(lastRate(result, i, name)).toBeCloseTo(40, 1);
});

test('processes receive completions at the rates that agents solve for', { tags: ['long'] }, async () => {
  const app = (name: string, more: string) => `M:name=${name},size=16,depth=16,batch=1,qps=2,${more}`;
  const apps = [
    ...[app('a', 'op=send,host=0,to=3'), app('b', 'op=send,host=0,to=2')],
    app('c', 'op=write,host=3,to=2'),
  ];
  // Tokens that are saved before the agents have solved last for some milliseconds.
  const times = { durationNs: 14 * MS, warmupNs: 12 * MS };
  const result = await run('drum:agents=true,requestsPerS=5e6,completionsPerS=6e6', apps, times);
  // log a + log b + log c is largest with a + b = 5 and a + c = 6 where 1/a = 1/b + 1/c. Shares of the process would be 3 and 3.
  expect(Math.abs(mmps(result, 'a') / 1.811 - 1)).toBeLessThan(0.05);
  expect(Math.abs(mmps(result, 'c') / 4.189 - 1)).toBeLessThan(0.05);
});

test('without a completion rate, hosts limit each other in nothing', async () => {
  const result = await run('drum:agents=true,requestsPerS=50e6', senders('op=send'));
  for (const [i, name] of NAMES.entries()) expect(lastRate(result, i, name)).toBeCloseTo(50, 1);
});
