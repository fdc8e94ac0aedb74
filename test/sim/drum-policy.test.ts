/**
 * The policy `drum` on simulated devices: applications have the request rates that the solver gives them, and at most k of
 * them are served at a time. Tolerances: 5 % of a rate; 10 % of a share over 20 epochs; no request waits for two epochs of
 * service to others. They were written down before the first run.
 */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import { avgUs, mmps } from '../../src/mix/metrics.ts';
import { parseApp, parsePolicy } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { solve } from '../../src/policies/drum/solver/solve.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { egressBytes, wireFactsOf } from '../../src/policies/kit/wire.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { nicFacts } from '../../src/providers/sim/limits.ts';
import { compose } from '../../src/shim/compose.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { IBV_WR_RDMA_WRITE } from '../../src/verbs/constants.ts';
import * as V from '../../src/verbs/index.ts';
import { eachShort, variants } from '../support/variants.ts';
import { connect, makeEnd, post, take } from './helpers.ts';

const MS = 1e6;
const RATE_TOLERANCE = 0.05;
const SHARE_TOLERANCE = 0.1;

async function run(
  policy: string,
  apps: readonly string[],
  measuredNs = 0.5 * MS,
  warmupNs = 0.25 * MS,
  more: Partial<MixSpec> = {},
) {
  const result = await runMix({
    ...DEFAULTS,
    ...parsePolicy(policy),
    ...more,
    durationNs: warmupNs + measuredNs,
    warmupNs,
    payload: false,
    apps: apps.map(parseApp),
  });
  expect(result.invariants).toEqual([]);
  return result;
}

const near = (value: number, expected: number, tolerance: number) => {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
};

const NAMES = ['a', 'b', 'c'];
const WEIGHTS = [1, 2, 4];
const weighted = (size: string, more = '') =>
  NAMES.map((name, i) => `M:name=${name},size=${size},qps=8,weight=${WEIGHTS[i]}${more}`);

/** Requests per second of the shortest length that the default device serves. */
function capacity(): number {
  const nic = nicFacts(PROFILES['cx6-100g'], true);
  const wireNs = (egressBytes(wireFactsOf(nic), IBV_WR_RDMA_WRITE, 0) * 8) / nic.linkGbps!;
  return 1e9 / Math.max(nic.wqeGapNs! / nic.processingUnits!, wireNs);
}

describe('three tenants weighted 1:2:4 have the rates of the solver', () => {
  /** What the solver gives each of them, in units of the capacity. */
  function shares(alpha: number, beta: number, kind: 'linear' | 'logdomain'): number[] {
    const { rates, converged } = solve({
      ...{ hosts: 1, start: Int32Array.of(0, 3), app: Int32Array.of(0, 1, 2) },
      ...{ alpha, beta, capacity: kind, weights: Float64Array.from(WEIGHTS) },
      completions: Float64Array.of(1, 1, 1),
      requestRate: Float64Array.of(3),
      completionRate: Float64Array.of(3),
    });
    expect(converged).toBe(true);
    // Rates whose product fits the device are scaled until their sum does, too.
    const scale = Math.max(
      3,
      rates.reduce((a, b) => a + b),
    );
    return Array.from(rates, (rate) => rate / scale);
  }

  for (const [options, alpha, beta, kind] of [
    ['', 1, 0, 'linear'],
    ['alpha=2', 2, 0, 'linear'],
    ['alpha=0.5', 0.5, 0, 'linear'],
    ['beta=1', 1, 1, 'linear'],
    ['alpha=16,beta=0.1', 16, 0.1, 'linear'],
    ['alpha=2,beta=1,capacity=logdomain', 2, 1, 'logdomain'],
  ] as const)
    test(`drum:${options}`, { tags: /^$|beta=1$/.test(options) ? [] : ['long'] }, async () => {
      const result = await run(`drum:${options}`.replace(/:$/, ''), weighted('16'));
      const expected = shares(alpha, beta, kind);
      for (const [i, name] of NAMES.entries())
        near(mmps(result, name) * 1e6, expected[i] * capacity(), RATE_TOLERANCE);
    });

  eachShort(1, ['64', '1KiB', '64KiB'])('in the same proportion with messages of %s', async (size) => {
    const result = await run(
      'drum',
      weighted(size, size === '64KiB' ? ',depth=4,batch=1' : ''),
      size === '64KiB' ? 6 * MS : MS,
    );
    const total = NAMES.reduce((sum, name) => sum + mmps(result, name), 0);
    for (const [i, name] of NAMES.entries()) near(mmps(result, name) / total, WEIGHTS[i] / 7, RATE_TOLERANCE);
  });

  test('READs as well as WRITEs', async () => {
    const result = await run('drum', weighted('1KiB', ',op=read'));
    const total = NAMES.reduce((sum, name) => sum + mmps(result, name), 0);
    for (const [i, name] of NAMES.entries()) near(mmps(result, name) / total, WEIGHTS[i] / 7, RATE_TOLERANCE);
  });
});

describe('what an application does not use is for the others', () => {
  test('one that is alone is as fast as without the policy', async () => {
    const [bare, under] = [await run('none', ['M:qps=8']), await run('drum', ['M:qps=8'])];
    near(mmps(under, 'M'), mmps(bare, 'M'), 0.02);
  });

  test('after the heaviest one has ended, the others have all, in proportion to their weights', async () => {
    const [a, b, c] = weighted('16');
    const result = await run('drum', [a, b, `${c},stop=255us`]);
    near(mmps(result, 'a') * 1e6, capacity() / 3, RATE_TOLERANCE);
    near(mmps(result, 'b') * 1e6, (2 * capacity()) / 3, RATE_TOLERANCE);
  });

  test('with beta, rates are solved for when applications stop', { tags: ['long'] }, async () => {
    const [a, b, c] = weighted('16');
    const gone = [`${b},stop=255us`, `${c},stop=255us`];
    const result = await run('drum:beta=1,epochUs=20', [a, ...gone, c.replace('=c', '=d')], 2 * MS);
    const { rates } = solve({
      ...{ hosts: 1, start: Int32Array.of(0, 2), app: Int32Array.of(0, 1), alpha: 1, beta: 1 },
      ...{ capacity: 'linear', weights: Float64Array.of(1, 4), completions: Float64Array.of(1, 1) },
      ...{ requestRate: Float64Array.of(2), completionRate: Float64Array.of(2) },
    });
    near(mmps(result, 'a') * 1e6, (rates[0] / 2) * capacity(), RATE_TOLERANCE);
    near(mmps(result, 'd') * 1e6, (rates[1] / 2) * capacity(), RATE_TOLERANCE);
  });

  test('short messages next to long ones are faster than without the policy', async () => {
    const apps = ['B:name=b,qps=8', 'D'];
    const [bare, under] = [await run('none', apps), await run('drum', apps)];
    expect(avgUs(under, 'D')).toBeLessThan(avgUs(bare, 'D'));
    expect(mmps(under, 'b')).toBeGreaterThan(0.95 * mmps(bare, 'b'));
  });
});

describe('40 applications, of which 20 are served at a time', () => {
  const EPOCH_NS = 200_000;
  const policy = 'drum:topK=20,epochUs=200';

  test('each has its share over 20 epochs, and none waits for two of them', async () => {
    const result = await run(policy, ['M:count=40,size=1KiB,depth=32,batch=8'], 20 * EPOCH_NS, 5 * EPOCH_NS);
    const total = mmps(result, 'M');
    expect(result.apps.length).toBe(40);
    for (const app of result.apps) {
      near(app.messageRateMmps, total / 40, SHARE_TOLERANCE);
      expect(app.latencyUs!.max * 1e3).toBeLessThan(2 * EPOCH_NS);
    }
  });

  test('the device is not idle while applications wait', async () => {
    const apps = ['D:count=3,think=5us'];
    const [bare, one] = [await run('none', apps), await run('drum:topK=1', apps)];
    expect(mmps(one, 'D')).toBeGreaterThan(0.8 * mmps(bare, 'D'));
    expect(one.apps.every(({ completed }) => completed > 0)).toBe(true);
  });

  test('an application that is killed leaves its place to others at once', async () => {
    const fabric = createFabric({ hosts: 2, autoAdvance: false });
    const v = compose(fabric.provider, [createPolicy('drum', { topK: 1, epochUs: 1e6 })]);
    const [a, b] = ['a', 'b'].map((tenant) => {
      const openDevice: typeof v.openDevice = (name) => v.openDevice(name, { tenant });
      const [from, to] = [makeEnd({ ...fabric, provider: { ...v, openDevice } }, 0), makeEnd(fabric, 1)];
      connect(from, to);
      for (let i = 0; i < 60; i++)
        from.send.write(i, V.IBV_SEND_SIGNALED, from.mr.addr, 60_000, from.mr.lkey, to.mr.addr, to.mr.rkey);
      post(from);
      return from;
    });
    await fabric.advance(100_000);
    expect(take(a).length).toBeGreaterThan(0);
    expect(take(b)).toEqual([]);
    v.destroyQp(a.qp);
    await fabric.advance(100_000);
    expect(take(b).length).toBeGreaterThan(0);
  });
});

test('64 applications, 20 at a time, have .9 of the rate of 20 where the cache has room for 20 contexts', async () => {
  const total = async (policy: string, count: number) => {
    const more = { profile: 'cx5-40g', set: { qpcEntries: 20 } } as const;
    return mmps(await run(policy, [`M:count=${count}`], MS, 0.2 * MS, more), 'M');
  };
  expect(await total('drum:topK=20,epochUs=100', 64)).toBeGreaterThan(0.9 * (await total('none', 20)));
});

describe('64 connections of one application have .9 of the rate of 20 where the cache has room for 20 contexts', () => {
  const more = { profile: 'cx5-40g', set: { qpcEntries: 20 } } as const;
  const total = async (policy: string, count: number, op: string) =>
    mmps(await run(policy, [`M:qps=${count},batch=1,depth=4,op=${op}`], 0.5 * MS, 0.2 * MS, more), 'M');

  variants('%s', ['write', 'read'], async (op) => {
    const of20 = await total('none', 20, op);
    expect(await total('none', 64, op)).toBeLessThan(0.5 * of20);
    expect(await total('drum:connectionsPerQp=4', 64, op)).toBeGreaterThan(0.9 * of20);
  });

  test('and as many as there are contexts do not share', async () => {
    const [bare, under] = [
      await total('none', 20, 'write'),
      await total('drum:connectionsPerQp=4', 20, 'write'),
    ];
    near(under, bare, 0.02);
  });
});

describe('bad input', () => {
  test.each([
    [{ alpha: 0 }, /drum\.alpha/],
    [{ connectionsPerQp: 3 }, /drum\.connectionsPerQp/],
    [{ connectionsPerQp: 11 }, /drum\.connectionsPerQp/],
    [{ alpha: 17 }, /drum\.alpha/],
    [{ beta: -1 }, /drum\.beta/],
    [{ beta: Number.NaN }, /drum\.beta/],
    [{ topK: 0 }, /drum\.topK/],
    [{ topK: 1.5 }, /drum\.topK/],
    [{ requestsPerS: 0 }, /drum\.requestsPerS/],
    [{ epochUs: 1 }, /drum\.epochUs/],
    [{ select: 'best' }, /drum\.select/],
    [{ capacity: 'logsum', alpha: 0.5 }, /drum\.capacity: unbounded: .*use 'linear'/],
    [{ capacity: 'logdomain' }, /drum\.capacity: unbounded: .*use 'linear'/],
    [{ k: 20 }, /there is no option 'k'/],
    [{ alpha: 0, capacity: 'logsum' }, /^drum\.alpha: must be above 0, got 0$/],
  ])('%j is rejected', (options, sentence) => {
    expect(() => createPolicy('drum', options)).toThrow(sentence);
  });

  test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('a weight of %d is rejected', (weight) => {
    const v = compose(createFabric({ hosts: 1 }).provider, [createPolicy('drum')]);
    expect(() => v.openDevice('sim0', { labels: { weight } })).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' }),
    );
  });

  test('changes that have no solution leave the options as they were', () => {
    const v = compose(createFabric({ hosts: 1 }).provider, [createPolicy('drum', { alpha: 2 })]);
    expect(() => v.configurePolicy!('drum', { capacity: 'logsum', alpha: 0.5 })).toThrow(/unbounded/);
    expect(() => v.configurePolicy!('drum', { topK: 3 })).toThrow(/topK: cannot change/);
    v.configurePolicy!('drum', { capacity: 'logsum' });
  });
});
