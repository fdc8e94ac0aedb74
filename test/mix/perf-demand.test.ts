/** perf weighs what tenants send, not which tenants are present. */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';
import { variants } from '../support/variants.ts';

/** What each application achieves after 6 ms, in the order given. */
async function run(policy: string, apps: readonly string[], durationNs = 10e6) {
  const o = { profile: 'cx6-100g', payload: false, durationNs, warmupNs: 6e6 };
  const result = await runMix({ ...DEFAULTS, ...o, policy, apps: apps.map(parseApp) });
  return result.apps.map(({ throughputGbps, messageRateMmps, latencyUs }) => ({
    gbps: throughputGbps,
    mmps: messageRateMmps,
    us: latencyUs?.avg ?? Number.NaN,
  }));
}

describe('a tenant that sends one message now and then costs others nothing', () => {
  const rare = 'B:name=w,size=1KiB,think=5ms,depth=1';

  test('M with 8 queue pairs keeps its rate', async () => {
    const [m] = await run('perf', ['M:qps=8', rare]);
    expect(m.mmps).toBeGreaterThan(98);
  });

  test('B keeps the link', async () => {
    const [b, w] = await run('perf', ['B', rare]);
    expect(b.gbps).toBeGreaterThan(96);
    expect(w.us).toBeLessThan(3);
  });

  test('with large messages: B gets the rest of the link, next to D as well', async () => {
    const rarelyLarge = 'B:name=w,size=256KiB,think=2ms,depth=1';
    const [b, d] = await run('perf', ['B', 'D', rarelyLarge]);
    expect(b.gbps).toBeGreaterThan(92);
    expect(d.us).toBeLessThan(2.2);
  });

  test('with 8 tenants of D, M with 16 queue pairs keeps half of its rate', { tags: ['long'] }, async () => {
    const [m] = await run('perf', ['M:qps=16', 'D:count=8,think=1ms']);
    expect(m.mmps).toBeGreaterThan(50);
  });
});

test('within milliseconds, B gets the share of another one that has stopped', async () => {
  const [b] = await run('perf', ['B', 'D', 'B:name=early,stop=6100us'], 16e6);
  // Half of the link until its last messages have gone, and nearly all of it then.
  expect(b.gbps).toBeGreaterThan(80);
});

test('tenants that share the link unequally while they are bare still share it equally', async () => {
  const [b, many] = await run('perf', ['B', 'B:name=many,qps=8']);
  expect(b.gbps / many.gbps).toBeGreaterThan(0.95);
  expect(b.gbps / many.gbps).toBeLessThan(1.05);
});

describe('messages that fill the link are paced, whatever their size', () => {
  const APPS = [
    'B:size=1200,depth=128,batch=32',
    'M:size=1000',
    'B:size=900-1300,depth=128,batch=32',
    'M:size=512,qps=4',
    'M:size=256,qps=8',
  ];
  variants('%s next to D', APPS, async (app) => {
    const [bare] = await run('none', [app, 'D']);
    const [of, d] = await run('perf', [app, 'D']);
    expect(d.us).toBeLessThan(1.6);
    expect(of.gbps / bare.gbps).toBeGreaterThan(0.95);
  });
});

describe('messages that do not leave by the link do not count there', () => {
  const CASES: [string, string[]][] = [
    ['M:name=l,size=8,qps=8,to=0', ['long']],
    ['B:name=l,size=64KiB,qps=8,to=0', ['long']],
  ];
  for (const [loopback, tags] of CASES) test(loopback, { tags }, () => keepsRates(loopback));

  async function keepsRates(loopback: string) {
    const apps = ['M:size=8,qps=128', loopback];
    const [bare, perf] = [await run('none', apps), await run('perf', apps)];
    expect(perf[0].mmps / bare[0].mmps).toBeGreaterThan(0.97);
    expect(perf[1].gbps / bare[1].gbps).toBeGreaterThan(0.97);
  }

  test('next to B in the device, D in the device is isolated as at the link', async () => {
    const [b, d] = await run('perf', ['B:to=0', 'D:to=0']);
    expect(b.gbps).toBeGreaterThan(95);
    expect(d.us).toBeLessThan(3.5);
  });

  test('a context that sends to both counts for what it sends by the link', async () => {
    const tenant = ['B:tenant=t,name=l,to=0', 'B:tenant=t,name=b'];
    const [inside, b, d] = await run('perf', [...tenant, 'D']);
    expect(inside.gbps).toBeGreaterThan(95);
    expect(b.gbps).toBeGreaterThan(94);
    expect(d.us).toBeLessThan(2.2);
  });
});

test('many queue pairs with few messages each get next to M what they get bare', {
  tags: ['long'],
}, async () => {
  const apps = ['M:size=8,qps=128', 'B:name=few,size=257,qps=96'];
  const [bare, perf] = [await run('none', apps), await run('perf', apps)];
  expect(perf[0].mmps / bare[0].mmps).toBeGreaterThan(0.9);
});
