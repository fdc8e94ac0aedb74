/**
 * The policy `tassel` on simulated devices: queue pairs, groups, applications and tenants have their rates on the wire,
 * whatever else shares the link. Tolerances: 1 % of a rate (2 % for payload, which comes in whole messages), 3 % where rates
 * exceed the link; they were written down before the first run.
 */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import { avgUs, gbps, mmps } from '../../src/mix/metrics.ts';
import { parseApp, parsePolicy } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { eachShort } from '../support/variants.ts';
import { connect, makeEnd, modify, post, take } from './helpers.ts';

const run = (policy: string, ...apps: string[]) =>
  runMix({
    ...DEFAULTS,
    ...parsePolicy(policy),
    durationNs: 22e6,
    warmupNs: 2e6,
    payload: false,
    apps: apps.map(parseApp),
  });

/** Bytes on the wire for each byte of payload, in WRITEs of one MTU. */
const WIRE = (4096 + 98) / 4096;

const near = (value: number, expected: number, tolerance: number) => {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
};

const linkGbps = ({ links, durationNs, warmupNs }: Awaited<ReturnType<typeof run>>) =>
  (links[0].bytes * 8) / (durationNs - warmupNs);

describe('one queue pair', () => {
  eachShort(2, [0.1, 1.23, 10, 50, 99.4])('%d Gbit/s', async (rate) => {
    const result = await run(`tassel:qpGbps=${rate}`, 'B:size=64KiB');
    near(linkGbps(result), rate, 0.01);
    expect(result.invariants).toEqual([]);
  });

  test('the rate that a program sets needs no limiter of the device', async () => {
    const result = await run('tassel', 'B:size=64KiB,rate=7.7Gbps', 'D');
    near(gbps(result, 'B') * WIRE, 7.7, 0.02);
  });
});

describe('a host that polls late, and its timers', () => {
  const late = (lateNs: number, policy: string, ...apps: string[]) =>
    runMix({
      ...DEFAULTS,
      ...parsePolicy(policy),
      set: { pollMissNs: lateNs, timerLateNs: lateNs },
      durationNs: 120e6,
      warmupNs: 20e6,
      payload: false,
      apps: apps.map(parseApp),
    });

  eachShort(1, [
    [15_000, 40],
    [100_000, 40],
    [1e6, 10],
  ])('by up to %d ns, at %d Gbit/s', async (lateNs, rate) => {
    near(linkGbps(await late(lateNs, `tassel:qpGbps=${rate}`, 'B:size=1MiB')), rate, 0.01);
  });

  test('each of several applications has its rate', async () => {
    const result = await late(15_000, 'tassel', 'B:size=1MiB,rate=40Gbps', 'D', 'M:rate=1Gbps');
    near(gbps(result, 'B') * WIRE, 40, 0.02);
    near((mmps(result, 'M') * (16 + 98) * 8) / 1e3, 1, 0.02);
  });

  test('rates that exceed the link are reduced alike', async () => {
    const result = await late(15_000, 'tassel', 'B:size=1MiB,rate=60Gbps', 'B:name=C,size=1MiB,rate=80Gbps');
    near(gbps(result, 'B') * WIRE, 60 / 1.4, 0.03);
    near(gbps(result, 'C') * WIRE, 80 / 1.4, 0.03);
  });
});

describe('what counts', () => {
  eachShort(1, [5000, 8192, 65_536])(
    'SENDs of %d bytes in pieces, with all that ends them',
    async (bytes) => {
      near(linkGbps(await run('tassel:qpGbps=4', `B:op=send,size=${bytes}B,depth=8`)), 4, 0.01);
    },
  );

  test('behind a switch, the round trip is measured while queue pairs with rates send', async () => {
    const result = await runMix({
      ...DEFAULTS,
      ...parsePolicy('tassel:qpGbps=19'),
      ...{ profile: 'cx5-40g', hosts: 3, durationNs: 8e6, warmupNs: 2e6, payload: false },
      apps: ['B:name=a', 'B:name=b'].map(parseApp),
    });
    near(linkGbps(result), 38, 0.01);
  });
});

describe('several limits', () => {
  test('a tenant has its rate, however many queue pairs it has, and the others have the rest', async () => {
    const result = await run('tassel:ratesGbps=a:10', 'B:name=a,size=64KiB,qps=16', 'B:name=b,size=64KiB');
    near(gbps(result, 'a') * WIRE, 10, 0.02);
    near(linkGbps(result), 98.5, 0.02);
  });

  test('an application, and each of its queue pairs', async () => {
    const each = await run('tassel:applicationGbps=20,qpGbps=3', 'B:size=16KiB,qps=4');
    near(linkGbps(each), 12, 0.01);
    const all = await run('tassel:applicationGbps=20,qpGbps=3', 'B:size=16KiB,qps=10');
    near(linkGbps(all), 20, 0.01);
  });

  test('a group of queue pairs', async () => {
    const result = await run(
      'tassel:groupRatesGbps=kv:5',
      'B:name=a,size=16KiB,qps=3,group=kv,tenant=t',
      'B:name=b,size=16KiB,tenant=t',
    );
    near(gbps(result, 'a') * WIRE, 5, 0.02);
  });
});

describe('rates that exceed the link', () => {
  test('all are reduced alike', async () => {
    const rates = { a: 90, b: 60, c: 30, d: 20 };
    const result = await run(
      'tassel',
      ...Object.entries(rates).map(([name, rate]) => `B:name=${name},size=64KiB,rate=${rate}Gbps`),
    );
    for (const [name, rate] of Object.entries(rates)) near(gbps(result, name) * WIRE, rate / 2, 0.03);
  });

  test('what has no rate is not shut out', async () => {
    const result = await run(
      'tassel',
      ...['a', 'b'].map((name) => `B:name=${name},size=64KiB,rate=80Gbps`),
      'B:name=c,size=64KiB',
    );
    expect(gbps(result, 'c')).toBeGreaterThan(0.5);
  });
});

describe('other operations', () => {
  test.each(['read', 'send'])('%s', async (op) => {
    const result = await run('tassel:qpGbps=10', `B:size=64KiB,op=${op}`);
    near(gbps(result, 'B') * (op === 'read' ? (4096 + 82.25) / 4096 : (4096 + 82) / 4096), 10, 0.02);
  });

  test('atomics count with their headers', async () => {
    const result = await run('tassel:qpGbps=0.1', 'M:op=atomic,size=8,batch=1');
    // Headers of a packet and AtomicETH; a simulated device leaves out 12 bytes of the latter.
    near((mmps(result, 'M') * (82 + 28) * 8) / 1e3, 0.1, 0.02);
  });

  test('small messages', async () => {
    const result = await run('tassel:qpGbps=0.5', 'M:size=16');
    near(linkGbps(result), 0.5, 0.01);
  });
});

test('a delay-sensitive tenant next to paced ones is as fast as alone', async () => {
  const alone = await run('none', 'D');
  const result = await run('tassel:ratesGbps=B:40', 'B:size=1MiB', 'D');
  expect(avgUs(result, 'D')).toBeLessThan(1.4 * avgUs(alone, 'D'));
});

describe('rates set by a program', () => {
  const pair = () => {
    const fabric = createFabric({ hosts: 2, profile: 'minimal', autoAdvance: false });
    const v = compose(fabric.provider, [createPolicy('tassel')]);
    const shimmed = { ...fabric, provider: v };
    return { fabric, v, from: makeEnd(shimmed, 0), to: makeEnd(shimmed, 1) };
  };
  const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

  test('are checked as by a device with limiters', () => {
    const { v, from, to } = pair();
    const limit = (rateLimitKbps: unknown) =>
      v.modifyQpRateLimit(from.qp, { rateLimitKbps } as V.QpRateLimit);
    expect(() => limit(1000)).toThrow(code('STATE'));
    connect(from, to);
    for (const bad of [-1, 1.5, Number.NaN, '7', undefined, 1e9])
      expect(() => limit(bad)).toThrow(code('ARGUMENT'));
    expect(() => v.modifyQpRateLimit(from.qp, null as unknown as V.QpRateLimit)).toThrow(code('ARGUMENT'));
    expect(() => v.modifyQpRateLimit(0x7fffffff, { rateLimitKbps: 1 })).toThrow(code('HANDLE'));
    limit(8000);
    expect(v.queryQp(from.qp).attr.rateLimitKbps).toBe(8000);
    modify(from, { rateLimitKbps: 16_000 });
    expect(v.queryQp(from.qp).attr.rateLimitKbps).toBe(16_000);
    modify(from, { qpState: V.IBV_QPS_RESET });
    expect(v.queryQp(from.qp).attr.rateLimitKbps).toBe(0);
  });

  test('act on requests that wait already', async () => {
    const { fabric, v, from, to } = pair();
    connect(from, to);
    v.modifyQpRateLimit(from.qp, { rateLimitKbps: 1 });
    for (let i = 0; i < 4; i++)
      from.send.write(i, V.IBV_SEND_SIGNALED, from.mr.addr, 4096, from.mr.lkey, to.mr.addr, to.mr.rkey);
    post(from);
    await fabric.advance(1e6);
    // The first one may go at once.
    expect(take(from)).toHaveLength(1);
    v.modifyQpRateLimit(from.qp, { rateLimitKbps: 0 });
    await fabric.advance(100e3);
    expect(take(from)).toHaveLength(3);
  });
});

test('what a tenant owes survives a change of its queue pairs', async () => {
  const fabric = createFabric({ hosts: 2, autoAdvance: false });
  const shim = compose(fabric.provider, [createPolicy('tassel', { ratesGbps: { a: 1 } })]);
  const openDevice: typeof shim.openDevice = (name) => shim.openDevice(name, { tenant: 'a' });
  const bytes = 60_000;
  const from = makeEnd({ ...fabric, provider: { ...shim, openDevice } }, 0, { bytes });
  const to = makeEnd(fabric, 1, { bytes });
  shim.destroyQp(from.qp);
  let sent = 0;
  for (let i = 0; i < 20; i++) {
    const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const [own, peer] = [from, to].map((end) => {
      const { v, pd, sendCq, recvCq } = end;
      const made = v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false });
      return { ...end, qp: made.handle, qpNum: made.qpNum };
    });
    connect(own, peer);
    own.send.write(1, V.IBV_SEND_SIGNALED, own.mr.addr, bytes, own.mr.lkey, peer.mr.addr, peer.mr.rkey);
    post(own);
    while (take(own).length === 0) await fabric.advance(20_000);
    sent += bytes;
    own.v.destroyQp(own.qp);
    peer.v.destroyQp(peer.qp);
  }
  // Each message may end a piece early, because the next one is not there yet.
  expect((sent * 8) / fabric.nowNs).toBeLessThan(1.02);
});

test.each([
  [{ qpGbps: 0 }, /tassel\.qpGbps/],
  [{ qpGbps: -1 }, /tassel\.qpGbps/],
  [{ applicationGbps: Number.NaN }, /tassel\.applicationGbps/],
  [{ ratesGbps: 'a' }, /tassel\.ratesGbps.*TENANT:NUMBER/],
  [{ groupRatesGbps: 'a:1/a:2' }, /group 'a' twice/],
  [{ enforce: 'nic' }, /tassel\.enforce/],
  [{ rate: 1 }, /there is no option 'rate'/],
])('%j is rejected', (options, sentence) => {
  expect(() => createPolicy('tassel', options)).toThrow(sentence);
});
