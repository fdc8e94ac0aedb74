/**
 * Mixes in virtual time. Expected values follow from the parameters of the profile, or are the figures from which the
 * minimal NIC was derived (test/sim/calibration.test.ts). They and their tolerances were fixed before the first run.
 */
import { describe, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import type { AppResult, MixResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';

const SHORT = { durationNs: 3e6, warmupNs: 1e6, payload: false };

async function run(profile: string, apps: string[], more: Partial<MixSpec> = {}): Promise<MixResult> {
  const result = await runMix({ ...DEFAULTS, ...SHORT, profile, ...more, apps: apps.map(parseApp) });
  expect(result.invariants).toEqual([]);
  return result;
}

function appOf(result: MixResult, name: string): AppResult {
  const app = result.apps.find((one) => one.name === name);
  if (app === undefined) throw new Error(`no app ${name}`);
  return app;
}

function within(value: number, expected: number, tolerance: number): void {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
}

/** Payload rate of a full wire. */
const WIRE_GBPS = (100 * 4096) / (4096 + 78);
/** D as in the calibration: it pauses, so that it does not run in lockstep with the packets of others. */
const D = 'D:think=200ns';

describe.each([1, 2, 3, 4, 5])('the minimal NIC, seed %i', (seed) => {
  test('B gets 96.0 Gbps and M 2.93 M/s', async () => {
    const result = await run('minimal', ['B', 'M'], { seed, durationNs: 6e6 });
    within(appOf(result, 'B').throughputGbps, 96.0, 0.01);
    within(appOf(result, 'M').messageRateMmps, 2.93, 0.02);
  });

  test('B gets 98.0 Gbps, and D takes 4.8 times as long as alone', async () => {
    const alone = appOf(await run('minimal', [D], { seed }), 'D').latencyUs!.avg;
    const result = await run('minimal', ['B', D], { seed, durationNs: 6e6 });
    within(appOf(result, 'B').throughputGbps, 98.0, 0.01);
    within(appOf(result, 'D').latencyUs!.avg / alone, 4.8, 0.03);
  });
});

test('D alone on the minimal NIC takes 0.9 us, one step, its time on the wire, and at most one poll', async () => {
  const { latencyUs, throughputGbps, messageRateMmps } = appOf(await run('minimal', ['D']), 'D');
  const { avg, p50, p99, p999, max } = latencyUs!;
  const expected = 0.9 + 0.0806 + (16 + 78) * 8e-5;
  expect(avg).toBeGreaterThanOrEqual(expected - 1e-9);
  expect(max).toBeLessThanOrEqual(expected + 0.0251);
  expect([p50, p99, p999, max].toSorted((a, b) => a - b)).toEqual([p50, p99, p999, max]);
  // One message at a time.
  within(messageRateMmps * avg, 1, 0.01);
  within(throughputGbps, messageRateMmps * 16 * 8e-3, 0.01);
});

describe('operations and transports on the minimal NIC', () => {
  test.each(['B', 'B:op=send', 'B:op=read', 'B:transport=uc', 'B:transport=uc,op=send'])(
    '%s fills the wire',
    async (app) => {
      const { throughputGbps, errors, completed } = appOf(await run('minimal', [app]), 'B');
      within(throughputGbps, WIRE_GBPS, 0.01);
      expect(completed).toBeGreaterThan(20);
      expect(errors).toBe(0);
    },
  );

  test.each(['M', 'M:op=send', 'M:transport=ud,op=send', 'M:transport=uc', 'M:inline=yes', 'M:batch=1'])(
    '%s reaches 12.4 M/s',
    async (app) => {
      const { messageRateMmps, errors } = appOf(await run('minimal', [app]), 'M');
      within(messageRateMmps, 12.4, 0.01);
      expect(errors).toBe(0);
    },
  );

  test.each(['D:op=send', 'D:op=read', 'D:op=atomic', 'D:op=send,transport=ud', 'D:transport=uc'])(
    '%s has one message at a time',
    async (app) => {
      const { latencyUs, messageRateMmps, completed } = appOf(await run('minimal', [app]), 'D');
      within(messageRateMmps * latencyUs!.avg, 1, 0.01);
      expect(completed).toBeGreaterThan(1000);
    },
  );

  test('messages of a size range are delivered in full', async () => {
    const { throughputGbps, messageRateMmps, messageBytes } = appOf(
      await run('minimal', ['B:size=100-4000,depth=64']),
      'B',
    );
    expect(messageBytes).toBe(2050);
    within(throughputGbps, messageRateMmps * 2050 * 8e-3, 0.01);
  });
});

test('a seed determines the trace, with or without payload', async () => {
  const mix = ['B', 'M', 'D:think=1us', 'M:op=send,name=S', 'B:op=read,host=1,name=R'];
  const hash = async (more: Partial<MixSpec>) =>
    (await run('cx6-100g', mix, { durationNs: 300e3, warmupNs: 100e3, ...more })).traceHash;
  const first = await hash({ payload: true });
  expect(await hash({ payload: true })).toBe(first);
  expect(await hash({ payload: false })).toBe(first);
  expect(await hash({ seed: 2 })).not.toBe(first);
});

test('a timeline leaves the run unchanged and agrees with its totals', async () => {
  const bare = await run('minimal', ['B', 'M']);
  const drawn = await run('minimal', ['B', 'M'], { timelinePoints: 30 });
  expect(drawn.traceHash).toBe(bare.traceHash);
  expect(drawn.apps).toEqual(bare.apps);
  drawn.timeline!.apps.forEach(({ throughputGbps, messageRateMmps }, i) => {
    const mean = (values: readonly number[]) => values.slice(10).reduce((sum, one) => sum + one, 0) / 20;
    within(mean(throughputGbps), drawn.apps[i].throughputGbps, 1e-6);
    within(mean(messageRateMmps), drawn.apps[i].messageRateMmps, 1e-6);
  });
});

describe('the host', () => {
  const slow = { postWrNs: 40, postCallNs: 0, doorbellNs: 0, pollHitNs: 0, hostJitter: 0 };

  test('one core posts 25 M/s for all queue pairs at 40 ns each', async () => {
    const result = await run('ideal', ['M:qps=8,cores=1'], { set: slow });
    within(appOf(result, 'M').messageRateMmps, 25, 0.02);
  });

  test('two cores post twice as fast', async () => {
    const result = await run('ideal', ['M:qps=2'], { set: slow });
    within(appOf(result, 'M').messageRateMmps, 50, 0.02);
  });

  test('the latency includes the cost of posting and polling', async () => {
    const costs = { postCallNs: 100, postWrNs: 50, doorbellNs: 30, pollHitNs: 60 };
    const free = appOf(await run('ideal', ['D'], { set: { pollMissNs: 1 } }), 'D').latencyUs!.avg;
    const result = await run('ideal', ['D'], { set: { ...costs, pollMissNs: 1 } });
    const { avg } = appOf(result, 'D').latencyUs!;
    expect(avg - free).toBeGreaterThan(0.239);
    expect(avg - free).toBeLessThan(0.241);
  });

  test('a core finds a completion when its polling round reaches the queue', async () => {
    // Polls of the seven other queues delay it by half a round, 400 ns, on average.
    const base = appOf(await run('ideal', ['D:think=3us'], { set: { pollMissNs: 1 } }), 'D').latencyUs!.avg;
    const result = await run('ideal', ['D:think=3us,qps=8,cores=1'], {
      set: { pollMissNs: 100 },
      durationNs: 11e6,
    });
    within(appOf(result, 'D').latencyUs!.avg - base, 0.4, 0.1);
  });

  test('interceptors cost time per request and per completion', async () => {
    const set = { interceptorWrNs: 100, pollMissNs: 1 };
    const bare = appOf(await run('ideal', ['D'], { set }), 'D').latencyUs!.avg;
    const shimmed = appOf(await run('ideal', ['D'], { set, policy: 'perf' }), 'D').latencyUs!.avg;
    expect(shimmed - bare).toBeGreaterThan(0.198);
    expect(shimmed - bare).toBeLessThan(0.202);
  });

  test('the seed determines the jitter of host costs', async () => {
    const set = { postCallNs: 1000, hostJitter: 0.05 };
    const [a, again, b] = await Promise.all(
      [1, 1, 2].map(async (seed) => appOf(await run('ideal', ['D'], { set, seed }), 'D').latencyUs!),
    );
    expect(again).toEqual(a);
    expect(b).not.toEqual(a);
    within(a.avg, b.avg, 0.01);
    expect(a.max - a.p50).toBeGreaterThan(0.03);
  });
});

describe('start, stop, rate and hosts', () => {
  test('an app that starts later is measured from its start; until then the other app has the whole wire', async () => {
    const result = await run('ideal', ['B', 'B:name=late,start=6ms'], { durationNs: 11e6 });
    const all = (100 * 4096) / (4096 + 82);
    within(appOf(result, 'late').throughputGbps, all / 2, 0.01);
    within(appOf(result, 'B').throughputGbps, (all * 5 + (all / 2) * 5) / 10, 0.01);
  });

  test('an app that stops leaves the whole wire to the other app', async () => {
    // 64 KiB instead of 1 MiB, because outstanding requests are still sent after the stop.
    const result = await run('ideal', ['B', 'B:name=brief,size=64KiB,stop=6ms'], { durationNs: 11e6 });
    const all = (100 * 4096) / (4096 + 82);
    within(appOf(result, 'brief').throughputGbps, all / 2, 0.01);
    within(appOf(result, 'B').throughputGbps, (all * 5 + (all / 2) * 5) / 10, 0.02);
  });

  test('a rate limit includes headers', async () => {
    const { throughputGbps } = appOf(await run('minimal', ['B:rate=10Gbps']), 'B');
    within(throughputGbps, (10 * 4096) / (4096 + 78), 0.01);
  });

  test('two apps in opposite directions both fill the wire', async () => {
    const result = await run('minimal', ['B', 'B:name=back,host=1']);
    for (const name of ['B', 'back']) within(appOf(result, name).throughputGbps, WIRE_GBPS, 0.01);
    expect(result.links.map(({ from, to }) => `${from} ${to}`)).toEqual(['host0 host1', 'host1 host0']);
    for (const { utilisation } of result.links) within(utilisation, 1, 0.01);
  });

  test('two hosts behind a switch share the cable of a third', async () => {
    const result = await run('ideal', ['B:count=2,host=1-2,to=0'], { hosts: 3 });
    for (const { throughputGbps } of result.apps)
      within(throughputGbps, (100 * 4096) / (4096 + 82) / 2, 0.02);
    const last = result.links.find(({ to }) => to === 'host0');
    expect(last).toMatchObject({ from: 'switch0.0', drops: 0, marks: 0 });
    within(last!.utilisation, 1, 0.01);
    // Each host offers twice its share. The third one sends only acknowledgements.
    const senders = result.links.filter(({ from }) => from === 'host1' || from === 'host2');
    expect(senders.map(({ to, pauses }) => [to, pauses > 0])).toEqual([
      ['switch0', true],
      ['switch0', true],
    ]);
  });

  test('four apps on one host share its wire', async () => {
    const result = await run('minimal', ['B:count=4']);
    expect(result.apps.map(({ name }) => name)).toEqual(['B.0', 'B.1', 'B.2', 'B.3']);
    for (const { throughputGbps } of result.apps) within(throughputGbps, WIRE_GBPS / 4, 0.02);
  });
});

test('perf halves the latency of D next to B, which keeps 90 Gbps', async () => {
  const bare = await run('minimal', ['B', D]);
  const perf = await run('minimal', ['B', D], { policy: 'perf' });
  expect(appOf(perf, 'B').throughputGbps).toBeGreaterThan(90);
  expect(appOf(perf, 'D').latencyUs!.avg).toBeLessThan(appOf(bare, 'D').latencyUs!.avg / 2);
});

test('with the greedy scheduler, rate-limited queue pairs do not block processing units', async () => {
  const M = 'M:size=16';
  const rate = async (apps: string[]) =>
    appOf(await run('cx3-56g', apps, { durationNs: 4e6, warmupNs: 3e6, payload: false }), 'M')
      .messageRateMmps;
  const beside = await rate(['B:size=1MiB,qps=3,rate=100Mbps', M]);
  // Three units, three limited queue pairs with 0.3 of 56 Gbps.
  expect(beside / (await rate([M]))).toBeGreaterThan(0.97);
});

test("with a policy, a SEND that has arrived in pieces may count the shim's notice of it as payload", async () => {
  const result = await run('cx5-100g', ['B:op=send,size=32KiB,depth=4,think=50us', 'D'], { policy: 'perf' });
  const [b, d] = result.apps;
  expect(b.completed).toBeGreaterThan(50);
  expect(d.completed).toBeGreaterThan(500);
});
