// The policy palos in virtual time: shares by equation (1), changes while it runs, faults, and bad options.
import { describe, expect, test } from 'vitest';
import { jobOf } from '../../src/mix/jobs.ts';
import { avgUs, gbps } from '../../src/mix/metrics.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import type { MixResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import type { MixSpec } from '../../src/mix/spec.ts';
import { eachShort } from '../support/variants.ts';

/** The parameters that Palos is compared with. */
const SET = { mtuBytes: 1500, pcieGbps: 128 };
const POINTS = 20;

interface Mixed {
  readonly policy?: string;
  readonly duration?: string;
  readonly warmup?: string;
  readonly at?: readonly string[];
  readonly set?: Readonly<Record<string, string | number>>;
  readonly more?: Partial<MixSpec>;
}

async function run(apps: readonly string[], o: Mixed = {}): Promise<MixResult> {
  const { policy = 'palos', duration = '3ms', warmup = '500us', at = [], set = {}, more = {} } = o;
  const all = { ...SET, ...set };
  const mix = { profile: 'cx5-100g', policy, duration, warmup, at, set: all, apps: apps.map(mixApp) };
  const { spec } = jobOf(mix, 1);
  const result = await runMix({ ...spec, payload: false, timelinePoints: POINTS, gauges: true, ...more });
  expect(result.invariants).toEqual([]);
  return result;
}

const LARGE = 'kind=bandwidth,size=256KiB,tenant=t';
const inGroup = (name: string, more = '') => `B:name=${name},${LARGE},group=${name}${more && `,${more}`}`;

/** The payload rates of an application's points. */
function gbpsOf(result: MixResult, name: string, from: number, to = POINTS): number {
  const { throughputGbps } = result.timeline!.apps.find((app) => app.name === name)!;
  const points = throughputGbps.slice(from, to);
  return points.reduce((sum, one) => sum + one, 0) / points.length;
}

/** The share of an application in the payload of all. */
function shareOf(result: MixResult, name: string): number {
  return gbps(result, name) / result.apps.reduce((sum, app) => sum + app.throughputGbps, 0);
}

function expectNear(value: number, due: number, part: number, what?: string): void {
  expect(value / due, what).toBeGreaterThan(1 - part);
  expect(value / due, what).toBeLessThan(1 + part);
}

describe('shares are those of equation (1)', () => {
  test('for two groups with queue pairs of different weights', async () => {
    const apps = [
      `B:name=a1,${LARGE},group=a,groupWeight=1,qpWeight=1`,
      `B:name=a2,${LARGE},group=a,groupWeight=1,qpWeight=3`,
      `B:name=b,${LARGE},group=b,groupWeight=2,qpWeight=1`,
    ];
    const result = await run(apps);
    for (const [name, due] of [
      ['a1', 1 / 12],
      ['a2', 3 / 12],
      ['b', 2 / 3],
    ] as const)
      expectNear(shareOf(result, name), due, 0.03, name);
  });

  eachShort(2, [
    ['READs', 'op=read,size=64KiB', 0.03],
    ['UC', 'transport=uc,size=64KiB', 0.03],
    ['SENDs that go whole', 'transport=uc,op=send,size=64KiB', 0.03],
    ['SENDs that are cut', 'op=send,size=64KiB', 0.03],
    ['UD', 'transport=ud,op=send,size=1024,depth=64', 0.03],
  ])('for %s', async (_, keys, part) => {
    const app = (name: string, weight: number) =>
      `B:name=${name},kind=bandwidth,tenant=t,qps=4,qpWeight=${weight},${keys}`;
    const result = await run([app('a', 1), app('b', 3)], { duration: '5ms' });
    expectNear(shareOf(result, 'a'), 1 / 4, part);
  });
});

describe('while it runs', () => {
  const AT_NS = 1.5e6;
  const apps = [
    `B:name=x,${LARGE},group=a`,
    `B:name=a,${LARGE},group=a,qps=3`,
    `B:name=b,${LARGE},group=b,qps=4`,
  ];

  async function changing(step: string) {
    const departures = [{ app: 'x', queuePair: 0 }];
    const result = await run(apps, { at: [`1500us:set ${step}`], more: { departures } });
    const packets = result.departures![0].packets.filter(({ host }) => host === 0);
    /** The bytes that the queue pair has sent in this time, as a part of what the link carries. */
    const share = (fromNs: number, toNs: number) => {
      const sent = packets.filter(({ leftNs }) => leftNs >= fromNs && leftNs < toNs);
      return sent.reduce((sum, { wireBytes }) => sum + wireBytes, 0) / (12.5 * (toNs - fromNs));
    };
    return { result, share };
  }

  test('a weight has its effect within one window and a round trip', async () => {
    const { result, share } = await changing('x qpWeight=7');
    expectNear(share(AT_NS - 500_000, AT_NS), 1 / 8, 0.03);
    expectNear(share(AT_NS + 15_000, AT_NS + 115_000), 7 / 20, 0.08);
    expectNear(share(AT_NS + 15_000, 3e6), 7 / 20, 0.03);
    expectNear(gbpsOf(result, 'b', 11), gbpsOf(result, 'b', 4, 10), 0.01);
  });

  test('a queue pair changes groups with requests in flight', async () => {
    const { result, share } = await changing('x group=b');
    expectNear(share(AT_NS + 15_000, 3e6), 1 / 10, 0.03);
    expect(result.apps.map(({ errors }) => errors)).toEqual([0, 0, 0]);
    // Its old group keeps its half, with one queue pair less.
    expectNear(gbpsOf(result, 'a', 11) / gbpsOf(result, 'a', 4, 10), 4 / 3, 0.03);
  });

  test('the weight of a group', async () => {
    const { share } = await changing('a groupWeight=3');
    expectNear(share(AT_NS + 15_000, 3e6), 3 / 16, 0.03);
  });
});

describe('half of a group idle', () => {
  test.each([
    ['configured', 1 / 3],
    ['active', 1 / 2],
  ])('with sums over %s queue pairs', async (sums, due) => {
    const apps = [`B:name=a,${LARGE},group=a`, `B:name=idle,${LARGE},group=a,start=2999us`, inGroup('b')];
    const result = await run(apps, { policy: `palos:sums=${sums}` });
    expectNear(shareOf(result, 'a'), due, 0.01);
  });
});

test('many queue pairs in many groups have their shares', async () => {
  // Messages of a chunk, so that a round is short.
  const apps = Array.from(
    { length: 20 },
    (_, i) =>
      `B:name=g${i},kind=bandwidth,size=6000,depth=2,tenant=t,group=g${i},groupWeight=${10 + i},qps=${i % 2 === 0 ? 10 : 20}`,
  );
  const result = await run(apps, { duration: '8ms', warmup: '2ms', set: { qpcEntries: 'inf' } });
  const sum = (20 * (10 + 29)) / 2;
  for (let i = 0; i < 20; i++) expectNear(shareOf(result, `g${i}`), (10 + i) / sum, 0.03, `g${i}`);
});

describe('messages of queue pairs with the label latency', () => {
  const bulk = `B:name=large,${LARGE},qps=4`;
  const D = 'D:name=d,kind=latency,size=64,tenant=t,think=3us';

  test('are little later next to large ones', async () => {
    const [alone, labelled, unlabelled] = await Promise.all([
      run([D]),
      run([bulk, D]),
      run([bulk, D.replace('kind=latency,', '')]),
    ]);
    const times = avgUs(labelled, 'd') / avgUs(alone, 'd');
    expect(times).toBeLessThan(1.79);
    expect(avgUs(unlabelled, 'd') / avgUs(alone, 'd')).toBeGreaterThan(times);
  });

  test('take no more of the link than the cap', async () => {
    const hog = 'M:name=hog,kind=latency,size=1024,tenant=t';
    for (const [policy, cap] of [
      ['palos', 0.05],
      ['palos:urgentShare=0.2', 0.2],
    ] as const) {
      const result = await run([bulk, hog], { policy });
      const wireGbps = (gbps(result, 'hog') * (1024 + 98)) / 1024;
      expectNear(wireGbps / 100, cap, 0.03, policy);
    }
  });

  test('go in their turn if they are longer than the limit, or the cap is 0', async () => {
    for (const [policy, size] of [
      ['palos', 4096],
      ['palos:urgentShare=0', 1024],
    ] as const) {
      const result = await run([bulk, `M:name=hog,kind=latency,size=${size},tenant=t`], { policy });
      // It is one of five queue pairs.
      expect(shareOf(result, 'hog'), policy).toBeGreaterThan(0.15);
      expect(shareOf(result, 'hog'), policy).toBeLessThan(0.22);
    }
  });
});

describe('chunks below a packet', () => {
  test('give the shares of the weights', async () => {
    const apps = [`B:name=a,${LARGE},qpWeight=1`, `B:name=b,${LARGE},qpWeight=9`];
    const result = await run(apps, { policy: 'palos:chunkMtus=0.25' });
    expectNear(shareOf(result, 'a'), 1 / 10, 0.03);
  });
});
