/** Mixtures on a NIC that schedules by weight: `isoverbs mix --set scheduler=palos`. */
import { describe, expect, test } from 'vitest';
import { parseApp } from '../../../src/mix/parse.ts';
import { runMix } from '../../../src/mix/run.ts';
import { DEFAULTS } from '../../../src/mix/spec.ts';
import { PROFILES } from '../../../src/sim/profile/profiles.ts';
import { eachShort } from '../../support/variants.ts';

const SET = { scheduler: 'palos', mtuBytes: 1500, pcieGbps: 128 };

interface Run {
  readonly set?: Record<string, unknown>;
  readonly profile?: string;
  readonly durationNs?: number;
}

/** Throughput of each application, and the result. */
async function run(apps: readonly string[], { set, profile = 'cx5-100g', durationNs = 4e6 }: Run = {}) {
  const result = await runMix({
    ...DEFAULTS,
    profile,
    payload: false,
    apps: apps.map((app) => parseApp(app.includes('tenant=') ? app : `${app},tenant=t`)),
    warmupNs: 1e6,
    durationNs,
    set: { ...SET, ...set } as never,
  });
  expect(result.invariants).toEqual([]);
  const gbps = (name: string) => result.apps.find((app) => app.name === name)!.throughputGbps;
  return { gbps, result };
}

const large = (name: string, more = '') => `B:name=${name},size=2MB${more}`;

describe('payload follows weights', () => {
  eachShort(2, Object.keys(PROFILES))('on %s', async (profile) => {
    const apps = [large('a'), large('b', ',qpWeight=3')];
    const { gbps } = await run(apps, { profile, durationNs: profile === 'rxe' ? 40e6 : 6e6 });
    expect(Math.abs(gbps('b') / gbps('a') / 3 - 1)).toBeLessThan(0.03);
  });

  test.each([256, 1024, 4096])('of 16 small flows of %i bytes and a large one', async (bytes) => {
    const { gbps } = await run([`M:name=small,size=${bytes},qps=16`, large('large')]);
    const total = gbps('small') + gbps('large');
    expect(Math.abs(((gbps('large') / total) * 17) / 1 - 1)).toBeLessThan(0.01);
  });

  test('of tenants first, then of queue pairs', async () => {
    const { gbps } = await run([
      large('a', ',tenant=one,weight=3'),
      large('b', ',tenant=two,qpWeight=2'),
      large('c', ',tenant=two,qpWeight=6'),
    ]);
    expect(gbps('a') / (gbps('b') + gbps('c'))).toBeCloseTo(3, 1);
    expect(gbps('c') / gbps('b')).toBeCloseTo(3, 1);
  });

  test('of the responder for READ responses, which share its link with its requests', async () => {
    const apps = [large('reads', ',op=read'), large('writes', ',host=1,to=0,qpWeight=3')];
    const { gbps } = await run(apps);
    expect(gbps('writes') / gbps('reads')).toBeCloseTo(3, 1);
    expect(gbps('writes') + gbps('reads')).toBeGreaterThan(94);
  });

  test('of unreliable connections and datagrams', async () => {
    const { gbps } = await run([
      'B:name=uc,size=64KB,transport=uc,op=send,qpWeight=3',
      'M:name=ud,size=1500,transport=ud,op=send',
    ]);
    expect(gbps('uc') / gbps('ud')).toBeCloseTo(3, 1);
  });
});

describe('while half of a group is idle', () => {
  const apps = [large('a', ',group=x'), large('idle', ',group=x,start=3990us'), large('b', ',group=y,qps=2')];
  test.each([
    ['configured', 1 / 3],
    ['active', 1 / 2],
  ])('the group has its part by %s sums', async (palosSums, part) => {
    const { gbps } = await run(apps, { set: { palosSums } });
    expect(gbps('a') / (gbps('a') + gbps('b'))).toBeCloseTo(part, 2);
  });
});

describe('next to 16 large flows', () => {
  const D = 'D:size=16,think=1us';
  const delay = async (d: string, more: readonly string[], set?: Record<string, unknown>) => {
    const { result, gbps } = await run([d, ...more], { set });
    return { ns: result.apps[0].latencyUs!.avg * 1000, gbps };
  };
  const hog = 'M:name=hog,size=1500';

  test('a labelled latency flow is nearly as fast as alone, also next to a labelled hog', async () => {
    const alone = await delay(D, []);
    const bare = await delay(D, [large('l', ',qps=16')], { scheduler: 'rr' });
    const labelled = await delay(`${D},kind=latency`, [large('l', ',qps=16')]);
    expect(labelled.ns / alone.ns).toBeLessThan(1.3);
    expect(bare.ns / alone.ns).toBeGreaterThan(3);
    expect(labelled.gbps('l') / bare.gbps('l')).toBeGreaterThan(0.97);
    const besideHog = await delay(`${D},kind=latency`, [large('l', ',qps=16'), `${hog},kind=latency`]);
    expect(besideHog.ns / alone.ns).toBeLessThan(1.4);
    expect(besideHog.gbps('hog') / besideHog.gbps('l')).toBeLessThan(1.02 / 16);
  });

  test('a longer message than palosUrgentBytes takes its turn', async () => {
    const long = (kind: string) =>
      delay(`D:size=2000,inline=no,think=1us,kind=${kind}`, [large('l', ',qps=16')]);
    const [labelled, plain] = [await long('latency'), await long('undeclared')];
    expect(labelled.ns / plain.ns).toBeCloseTo(1, 1);
  });
});
