/**
 * What fair grants tenants: rates as upper bounds, latencies up to a target, tiny messages next to many others, and the
 * link where polls are late.
 */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { parseStep } from '../../src/mix/script/script.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { eachShort } from '../support/variants.ts';

async function runAll(apps: string[], policyOptions: Record<string, unknown>, more: Partial<MixSpec> = {}) {
  const result = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    policy: 'fair',
    policyOptions,
    apps: apps.map(parseApp),
    warmupNs: 1e6,
    durationNs: 4e6,
    ...more,
  });
  expect(result.invariants).toEqual([]);
  return result;
}

async function run(apps: string[], policyOptions: Record<string, unknown> = {}, more: Partial<MixSpec> = {}) {
  const result = await runAll(apps, policyOptions, more);
  return (name: string) => result.apps.find((app) => app.name === name)!;
}

/** The payload that a rate on the wire carries in packets of 4096 bytes. */
const PAYLOAD = 4096 / (4096 + 82);

eachShort(1, [
  '8KiB,depth=16',
  '9000,qps=4,depth=16',
  '32KiB,depth=4',
  '33000,depth=4',
  '128KiB,qps=4,depth=4',
])('messages of a few pieces fill the link, and D waits for one of them: %s', async (size) => {
  const of = await run([`B:size=${size}`, 'D'], {}, { durationNs: 2e6 });
  expect(of('B').throughputGbps).toBeGreaterThan(0.95 * 98);
  // 1.4 times its latency alone, and the time of one piece.
  expect(of('D').latencyUs!.avg).toBeLessThan(1.4 * 1.14 + 0.34);
});

eachShort(1, ['5000', '5000,depth=4', '8KiB', '12KiB', '20000', '6000,op=read,depth=4'])(
  'messages that leave most of the link idle are as fast as on a bare device: %s',
  async (size) => {
    const apps = [`B:size=${size},qps=1${size.includes('depth') ? '' : ',depth=1'}`, 'D'];
    const bare = await run(apps, {}, { durationNs: 2e6, policy: 'none' });
    const fair = await run(apps, {}, { durationNs: 2e6 });
    expect(fair('B').throughputGbps / bare('B').throughputGbps).toBeGreaterThan(0.9);
    expect(fair('D').latencyUs!.avg / bare('D').latencyUs!.avg).toBeLessThan(1.1);
  },
);

eachShort(1, [
  ['16KiB', 0.87],
  ['64KiB', 0.95],
])(
  'SENDs of a few pieces fill the link although each one ends with two more requests: %s',
  async (size, part) => {
    const apps = [`B:op=send,size=${size},batch=128,depth=128`];
    const spans = { warmupNs: 2.5e6, durationNs: 8e6 };
    const bare = await run(apps, {}, { ...spans, policy: 'none' });
    const fair = await run(apps, {}, spans);
    expect(fair('B').throughputGbps / bare('B').throughputGbps).toBeGreaterThan(part);
  },
);

const MANY = 'M:size=8,qps=128,cores=8';

test('the short messages of many queue pairs are as fast as on a bare device while no other tenant sends', async () => {
  const more = { warmupNs: 1e6, durationNs: 1.4e6 };
  const bare = await run([MANY], {}, { ...more, policy: 'none' });
  const fair = await run([MANY], {}, more);
  expect(fair('M').messageRateMmps / bare('M').messageRateMmps).toBeGreaterThan(0.98);
  expect(fair('M').latencyUs!.p999 / bare('M').latencyUs!.p999).toBeLessThan(1.05);
});

eachShort(1, [
  ['D:think=50us', 1.6e6],
  ['D', 1.6e6],
  ['D:think=1ms', 6e6],
])('they cost the cores little beside %s', async (other, durationNs) => {
  const more = { warmupNs: 1e6, durationNs };
  const bare = await run([MANY, other], {}, { ...more, policy: 'none' });
  const fair = await run([MANY, other], {}, more);
  expect(fair('M').messageRateMmps / bare('M').messageRateMmps).toBeGreaterThan(0.9);
  expect(fair('D').latencyUs!.avg / bare('D').latencyUs!.avg).toBeLessThan(1.02);
});

test('a tenant that only READs is not alone next to one that only WRITEs', async () => {
  const apps = ['M:name=R,op=read,size=8,qps=128,cores=8', 'M:name=W,op=write,size=8,qps=128,cores=8'];
  const of = await run(apps, {}, { warmupNs: 1e6, durationNs: 1.4e6 });
  const [reads, writes] = ['R', 'W'].map((name) => of(name).messageRateMmps);
  expect(reads / (reads + writes)).toBeGreaterThan(0.4);
});

test('a tenant that begins beside them has its share', { tags: ['long'] }, async () => {
  const of = await run([MANY, 'B:qps=16,start=2ms'], {}, { warmupNs: 2.6e6, durationNs: 4e6 });
  expect(of('B').throughputGbps).toBeGreaterThan(0.48 * 97.9);
  expect(of('M').messageRateMmps).toBeGreaterThan(0.48 * 112);
});

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

test('tenants share atomics by weight, however many queue pairs they have', async () => {
  const equal = await run(['M:name=a,op=atomic,qps=16', 'M:name=b,op=atomic', 'D']);
  const both = equal('a').messageRateMmps + equal('b').messageRateMmps;
  expect(both).toBeGreaterThan(4.9);
  expect(equal('a').messageRateMmps / both).toBeCloseTo(0.5, 1.7);
  expect(equal('D').latencyUs!.avg).toBeLessThan(1.3);
  const weighted = await run(['M:name=a,op=atomic,qps=4,weight=3', 'M:name=b,op=atomic,qps=4']);
  expect(weighted('a').messageRateMmps / weighted('b').messageRateMmps / 3).toBeCloseTo(1, 1.3);
});

test('a single atomic does not wait for those of a tenant with 16 queue pairs', async () => {
  const of = await run(['M:name=a,op=atomic,qps=16', 'D:name=d,op=atomic']);
  // Alone 1.74, on a bare device 52.
  expect(of('d').latencyUs!.avg).toBeLessThan(4);
  expect(of('a').messageRateMmps).toBeGreaterThan(4.6);
});

test('request rates hold together with rates in Gbit/s', async () => {
  const of = await run(['M:name=a', 'M:name=b,qps=4', 'B:name=c,size=8KiB', 'B:name=d', 'D'], {
    ratesRequestsPerS: { a: 1e6, b: 3e6, c: 5e5 },
    ratesGbps: { c: 10 },
  });
  expect(of('a').messageRateMmps).toBeCloseTo(1, 1.7);
  expect(of('b').messageRateMmps / 3).toBeCloseTo(1, 1.7);
  // 10 Gbit/s are less than 500,000 messages of 8 KiB.
  expect(of('c').throughputGbps / (10 * PAYLOAD)).toBeCloseTo(1, 1.7);
  expect(of('d').throughputGbps).toBeGreaterThan(80);
  expect(of('D').latencyUs!.avg).toBeLessThan(1.5);
});

test('a request rate limits large messages as well, whose pieces do not count', async () => {
  const of = await run(['B:name=a,size=64KiB', 'B:name=b'], { ratesRequestsPerS: { a: 40e3 } });
  expect(of('a').messageRateMmps / 0.04).toBeCloseTo(1, 1.7);
  expect(of('b').throughputGbps).toBeGreaterThan(70);
});

test('next to 100 tenants with large messages, tiny messages go as fast as next to one', async () => {
  const of = await run(['B:count=100', 'M', 'D']);
  expect(of('M').messageRateMmps).toBeGreaterThan(12);
  expect(of('D').latencyUs!.avg).toBeLessThan(1.5);
});

test('a tenant with small messages loses nothing while no others compete with it', async () => {
  const bare = await runMix({
    ...DEFAULTS,
    profile: 'cx6-100g',
    payload: false,
    apps: ['M', 'D'].map(parseApp),
    warmupNs: 1e6,
    durationNs: 4e6,
  });
  const of = await run(['M', 'D']);
  const [m] = bare.apps;
  expect(of('M').messageRateMmps / m.messageRateMmps).toBeGreaterThan(0.99);
  expect(of('D').latencyUs!.avg).toBeLessThan(1.2);
});

/** Cores keep still for so long in each poll that finds nothing. */
const late = (pollMissNs: number): Partial<MixSpec> => ({
  set: { pollMissNs, timerLateNs: pollMissNs },
});

test('the link stays busy although polls are late by up to 15 us', async () => {
  const of = await run(['B:depth=32', 'D'], {}, late(15_000));
  expect(of('B').throughputGbps).toBeGreaterThan(0.95 * 100 * PAYLOAD);
});

test('tenants share by weight although polls are late', async () => {
  const apps = [1, 2, 4].map((weight) => `B:name=w${weight},weight=${weight},depth=32`);
  const of = await run(apps, {}, { ...late(15_000), durationNs: 12e6 });
  const all = [1, 2, 4].map((weight) => of(`w${weight}`).throughputGbps);
  const sum = all.reduce((total, one) => total + one, 0);
  expect(sum).toBeGreaterThan(0.9 * 100 * PAYLOAD);
  for (const [i, weight] of [1, 2, 4].entries()) {
    expect(all[i] / sum / (weight / 7)).toBeGreaterThan(0.97);
    expect(all[i] / sum / (weight / 7)).toBeLessThan(1.03);
  }
});

test('a small message waits for no more than a piece although its host stands still now and then', async () => {
  const stalls = Array.from({ length: 40 }, (_, i) => `${i * 100 + 50}us:stall 0 15us`);
  const of = await run(['B:depth=32', 'D'], {}, { script: stalls.map(parseStep) });
  expect(of('B').throughputGbps).toBeGreaterThan(0.95 * 100 * PAYLOAD);
  // D stands still for 15 % of the time: 1.1 us on average.
  expect(of('D').latencyUs!.avg).toBeLessThan(1.1 + 1.4);
});

/** B's throughput and D's p99 with this target, once the policy has had time for it, and what it says. */
async function withTarget(targetUs?: number) {
  const options = targetUs === undefined ? {} : { targetUs };
  const { apps, policyStates } = await runAll(['B', 'D'], options, { warmupNs: 15e6, durationNs: 23e6 });
  const [{ throughputGbps }, { latencyUs }] = apps;
  return {
    gbps: throughputGbps,
    p99Us: latencyUs!.p99,
    why: `${policyStates?.find(({ device }) => device === 'sim0')?.why}`,
  };
}

test('a target is met at the cost of the throughput of others, and one that is met anyway costs nothing', {
  tags: ['long'],
}, async () => {
  const [none, loose, tight, tighter, impossible] = await Promise.all(
    [undefined, 1.4, 1.3, 1.2, 1].map((targetUs) => withTarget(targetUs)),
  );
  expect(none.p99Us).toBeGreaterThan(1.3);
  expect(loose.p99Us / none.p99Us).toBeCloseTo(1, 1.7);
  expect(loose.gbps / none.gbps).toBeCloseTo(1, 2.5);
  expect(loose.why).toContain('nothing is reduced');
  expect(tight.p99Us).toBeLessThan(1.3);
  expect(tight.gbps).toBeGreaterThan(60);
  expect(tight.why).toContain('reduced: pieces to 25 % of their length');
  // Less than 1 % of the time of the link, so that hardly any message of D finds a piece there.
  expect(tighter.p99Us).toBeLessThan(1.2);
  expect(tighter.gbps).toBeGreaterThan(0.2);
  expect(tighter.why).toContain('% of the link');
  expect(impossible.gbps / none.gbps).toBeCloseTo(1, 2);
  expect(impossible.why).toContain('the target cannot be met');
});

test('a target limits others only until the tenant with short messages has closed', async () => {
  // Its context was opened first.
  const of = await run(
    ['D', 'B'],
    { targetUs: 1.2 },
    { warmupNs: 29e6, durationNs: 165e6, script: [parseStep('30ms:close D')] },
  );
  // 100 ms later, nothing is reduced any more. At the pace of the target, B gets 0.7 Gbit/s all the time.
  expect(of('B').throughputGbps).toBeGreaterThan(10);
}, 60_000);

test('tiny messages do not wait for messages of other tenants that cannot be cut', async () => {
  const of = await run(['M:op=send,qps=4', 'B:transport=uc', 'D']);
  // As on a bare device, which sends them in turns.
  expect(of('M').messageRateMmps).toBeGreaterThan(10);
  expect(of('B').throughputGbps).toBeGreaterThan(85);
  expect(of('D').latencyUs!.avg).toBeLessThan(5.3);
});

test('messages that cannot be cut follow each other without a pause, in the order of tenants', async () => {
  const one = await run(['B:transport=uc,size=64KiB']);
  expect(one('B').throughputGbps).toBeGreaterThan(97);
  const of = await run(['B:transport=uc,qps=4,name=four', 'B:transport=uc', 'D'], {}, { durationNs: 6e6 });
  expect(of('four').throughputGbps / of('B').throughputGbps).toBeCloseTo(1, 1);
  expect(of('B').throughputGbps).toBeGreaterThan(47);
});

test('READs ahead of WRITEs in a queue pair do not count as polls that are late', async () => {
  const of = await run(['B:op=write:0.5/read:0.5', 'D']);
  // 5.9 us on a bare device, and nearly as long with a window for polls that are late.
  expect(of('D').latencyUs!.avg).toBeLessThan(1.6);
  expect(of('B').throughputGbps).toBeGreaterThan(93);
  // While it would be in the way of no others, more of them is in flight.
  const alone = await run(['B:op=write:0.5/read:0.5,size=8KiB,depth=64']);
  expect(alone('B').throughputGbps).toBeGreaterThan(145);
});

test('messages shorter than a piece report as often as pieces, although others are served in between', async () => {
  const of = await run(['B:size=1200,qps=4,depth=864,batch=32,name=short', 'B', 'M', 'D:think=1us']);
  // Completions that are reported late keep the window full while the link is idle.
  expect(of('B').throughputGbps).toBeGreaterThan(39.4);
});

test('a tenant with more queue pairs than the NIC caches has turns that pay for the misses', async () => {
  const alone = await run(['B:qps=600,size=1MiB,depth=1', 'D']);
  expect(alone('B').throughputGbps).toBeGreaterThan(93);
  expect(alone('D').latencyUs!.avg).toBeLessThan(1.4);
  const of = await run(['B:qps=600,size=1MiB,depth=1,name=many', 'B:name=one', 'D']);
  expect(of('many').throughputGbps / of('one').throughputGbps).toBeCloseTo(1, 1);
  expect(of('one').throughputGbps).toBeGreaterThan(47);
});
