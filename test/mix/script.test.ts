// Scripts of a mix: rates that change, applications that close, tenants that die, hosts that stand still.
// @module-tag wide
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { jobOf } from '../../src/mix/jobs.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { eachShort, tagsIf } from '../support/variants.ts';
import { command } from './command.ts';
import { EXACTLY_ONCE, gaugeOf, lineOf, mean, requestsOf, run } from './script-run.ts';

/** Payload rate of a full wire. */
const WIRE_GBPS = (100 * 4096) / (4096 + 78);

test('set rate= limits every queue pair of an app and its copies, and 0 lifts the limit', async () => {
  const { timeline } = await run(
    ['2ms:set B rate=10Gbps', '6ms:set B rate=0'],
    ['B:count=2,qps=2,size=64KiB'],
  );
  for (const { throughputGbps } of timeline!.apps) {
    expect(mean(throughputGbps.slice(1, 4))).toBeCloseTo(WIRE_GBPS / 2, 0);
    // Two queue pairs of 10 Gbit/s each, headers included.
    expect(mean(throughputGbps.slice(5, 12))).toBeCloseTo((20 * 4096) / (4096 + 78), 0);
    expect(mean(throughputGbps.slice(14))).toBeCloseTo(WIRE_GBPS / 2, 0);
  }
});

test('set changes labels of an application, and of the contexts of its tenant', async () => {
  const policy = join(import.meta.dirname, 'label-log.mjs');
  const { policyStates } = await run(
    ['2ms:set B qpWeight=2', '3ms:set B weight=5', '4ms:set B group=', '5ms:set B kind=latency'],
    ['B:qpWeight=0.5,weight=3,group=g,kind=bandwidth', 'D'],
    { policy },
  );
  const labels = policyStates?.filter(({ tenant }) => tenant === 'B').map(({ kind }) => kind);
  expect(labels).toEqual(Array(2).fill('3 g 0.5 3, 3 g 2 3, 5 g 2 3, 5  2 3, 5  2 1'));
});

test('groupWeight creates the groups of a tenant, and set changes a weight', async () => {
  const policy = join(import.meta.dirname, 'label-log.mjs');
  const { policyStates } = await run(
    ['2ms:set kv groupWeight=4', '3ms:set scan group=bulk', '4ms:set scan groupWeight=0.5'],
    [
      'D:name=kv,tenant=shop,group=constructor,groupWeight=3',
      'B:name=scan,tenant=shop,group=scan,groupWeight=2',
      'B:name=more,tenant=shop,group=scan,groupWeight=1.5',
    ],
    { policy },
  );
  const groups = policyStates?.map(({ does }) => does);
  expect(groups).toEqual(Array(2).fill('constructor 3, scan 2, constructor 4, bulk 0.5'));
});

test.each([
  ['software', { policy: 'palos' }],
  ['hardware', { set: { scheduler: 'palos' } }],
])('under palos in %s, shares of groups and of tenants follow weights that are set', async (_, form) => {
  const profile = 'cx5-100g';
  for (const [first, second, step] of [
    ['tenant=t,group=x,groupWeight=3', 'tenant=t,group=y', 'groupWeight=3'],
    ['weight=3', '', 'weight=3'],
  ]) {
    const apps = [`B:name=a,${first}`, `B:name=b${second === '' ? '' : `,${second}`}`];
    const result = await run([`5ms:set b ${step}`], apps, { profile, ...form });
    const [a, b] = ['a', 'b'].map((name) => lineOf(result, name).throughputGbps);
    const ratio = (from: number, to: number) => mean(a.slice(from, to)) / mean(b.slice(from, to));
    expect(ratio(2, 9)).toBeCloseTo(3, 1);
    expect(ratio(11, 20)).toBeCloseTo(1, 1);
  }
});

eachShort(1, ['token-bucket', 'perf', 'token-bucket;perf'])(
  'under %s, shares follow a weight that is set, whatever the weights before',
  async (policy) => {
    for (const before of ['', ',weight=2']) {
      const apps = [`B:name=a,size=64KiB${before}`, 'B:name=b,size=64KiB', 'B:name=c,size=64KiB,weight=0.5'];
      const result = await run(['5100us:set b weight=3', '5100us:set c weight=1'], apps, { policy });
      const [a, b, c] = ['a', 'b', 'c'].map((name) => lineOf(result, name).throughputGbps);
      const weight = before === '' ? 1 : 2;
      const ratio = (of: readonly number[], from: number, to: number) =>
        mean(a.slice(from, to)) / mean(of.slice(from, to));
      expect(ratio(b, 2, 10)).toBeCloseTo(weight, 1);
      expect(ratio(c, 2, 10) / 2).toBeCloseTo(weight, 1);
      // From the next step on.
      expect(3 * ratio(b, 11, 20)).toBeCloseTo(weight, 0);
      expect(ratio(c, 11, 20)).toBeCloseTo(weight, 0);
    }
  },
);

test('under perf, a kind of traffic that is set changes the class', async () => {
  const splits = async (at: string[]) =>
    gaugeOf(await run(at, ['B', 'D'], { policy: 'perf', duration: '20ms' }), 'B', 'split');
  expect((await splits([])).slice(2)).toEqual(Array(18).fill(1));
  // Both are delay applications now, with nothing to isolate.
  expect((await splits(['2500us:set B kind=latency'])).slice(8)).toEqual(Array(12).fill(0));
});

test('perf takes the declared kind for the class', async () => {
  const apps = ['B:kind=latency', 'D:kind=throughput', 'M'];
  const { policyStates } = await run([], apps, { policy: 'perf' });
  const of = (name: string) => policyStates?.find(({ tenant }) => tenant === name)?.kind;
  expect([of('B'), of('D'), of('M')]).toEqual(['D_single', 'M_single', 'M_single']);
});

eachShort(1, ['none', 'token-bucket', 'perf', 'token-bucket;perf'])(
  'close under %s: what is outstanding completes',
  async (policy) => {
    const apps = [
      'B:name=a',
      'B:name=late,qps=2',
      'M:name=m,op=send,qps=2',
      'M:name=u,op=send,transport=ud',
      'D',
    ];
    const result = await run(['3ms:close late', '4ms:close m', '5ms:close u', '6ms:close a'], apps, {
      policy,
    });
    for (const [name, from] of [
      ['late', 12],
      ['m', 9],
      ['u', 11],
      ['a', 14],
    ] as const) {
      expect(
        lineOf(result, name)
          .throughputGbps.slice(from)
          .every((gbps) => gbps === 0),
        name,
      ).toBe(true);
    }
    // D alone, without queues.
    expect(lineOf(result, 'D').latencyUs.at(-1)).toBeLessThan(1.3);
  },
);

test('a closed app gives back what stop= keeps: its context and its share of the link', async () => {
  const b = async (at: string[], late: string) =>
    lineOf(await run(at, ['B', late], { policy: 'token-bucket' }), 'B').throughputGbps.at(-1);
  expect(await b([], 'B:name=late,stop=5ms')).toBeCloseTo(WIRE_GBPS / 2, 0);
  expect(await b(['5ms:close late'], 'B:name=late')).toBeCloseTo(WIRE_GBPS, 0);
});

/** Samples every 0.5 ms. */
const PERF = 'perf:samplePeriodNs=500us';

describe('kill', () => {
  test('without a policy, what the tenant had posted stops at once', async () => {
    const result = await run(['5ms:kill b'], ['B', 'B:name=x,tenant=b', 'M:tenant=b']);
    expect(
      lineOf(result, 'B')
        .throughputGbps.slice(11)
        .every((gbps) => Math.abs(gbps - WIRE_GBPS) < 1),
    ).toBe(true);
    for (const name of ['x', 'M']) {
      expect(lineOf(result, name).throughputGbps.slice(10), name).toEqual(Array(10).fill(0));
    }
  });

  test('under token-bucket, the others have its share one period later', async () => {
    const { throughputGbps } = lineOf(
      await run(['5ms:kill x'], ['B', 'B:name=x'], { policy: 'token-bucket' }),
      'B',
    );
    // The period is 1 ms, two points.
    expect(mean(throughputGbps.slice(1, 11))).toBeCloseTo(WIRE_GBPS / 2, 0);
    expect(mean(throughputGbps.slice(13))).toBeCloseTo(WIRE_GBPS, 0);
  });

  test('under perf, the others have its share after the period and the next sample', async () => {
    const o = { policy: 'perf', profile: 'cx6-100g', duration: '30ms' };
    const { throughputGbps } = lineOf(await run(['5ms:kill x'], ['B', 'B:name=x', 'D'], o), 'B');
    expect(mean(throughputGbps.slice(1, 3))).toBeCloseTo(48, 0);
    // 1 ms, and at most two samples of 5 ms.
    expect(mean(throughputGbps.slice(11))).toBeGreaterThan(94);
  });

  eachShort(1, ['token-bucket', PERF, `token-bucket;${PERF}`, `${PERF};token-bucket`])(
    'under %s, the others lose and double no completion, and have the share within one period',
    async (policy) => {
      const apps = [
        'B:name=a,size=64KiB,qps=2',
        'B:name=x,qps=2',
        'M:name=y,tenant=x,op=send',
        'M:name=m,op=send,qps=3',
        'D:name=rpc,op=send,reply=4KiB',
        'D:name=kv,op=write:1/read:9',
      ];
      const others = ['a', 'm', 'rpc', 'kv'];
      const at = ['2100us:kill x', ...others.map((name) => `4500us:close ${name}`)];
      const o = { policy: `${EXACTLY_ONCE};${policy}`, duration: '5ms' };
      const result = await run(at, apps, o);
      for (const name of others) {
        const { completed, outstanding } = requestsOf(result, name);
        // The peer stops before it polls the completion of its last response.
        expect(outstanding, name).toBe(name === 'rpc' ? 1 : 0);
        expect(completed, name).toBeGreaterThan(100);
        // Nothing stalls, neither before nor after.
        expect(Math.min(...lineOf(result, name).messageRateMmps.slice(1, 18)), name).toBeGreaterThan(0);
      }
      expect(requestsOf(result, 'x').outstanding).toBeGreaterThan(0);
      // The coordinator misses the processes after 1 ms, and perf decides at its next sample.
      const { throughputGbps } = lineOf(result, 'a');
      const before = mean(throughputGbps.slice(2, 8));
      for (const gbps of throughputGbps.slice(15, 18)) expect(gbps).toBeGreaterThan(1.15 * before);
    },
  );

  test('under perf, the slot of a tenant that dies ends, and the others rotate on', async () => {
    const apps = ['B:name=a,qps=40', 'B:name=b,qps=40', 'B:name=c,qps=40', 'D'];
    const o = { policy: 'perf', profile: 'cx5-100g' };
    const result = await run(['4ms:kill b', '4100us:kill a'], apps, o);
    expect(mean(lineOf(result, 'c').throughputGbps.slice(-4))).toBeGreaterThan(40);
    expect(lineOf(result, 'D').throughputGbps.every((gbps) => gbps > 0)).toBe(true);
  });
});

test('a host that stalls neither posts nor polls, and then goes on', async () => {
  const result = await run(['5ms:stall 0 1ms'], ['B:size=64KiB', 'M:op=send', 'D:host=1,to=0']);
  for (const name of ['B', 'M']) {
    const { messageRateMmps } = lineOf(result, name);
    expect(messageRateMmps.slice(10, 12), name).toEqual([0, 0]);
    expect(mean(messageRateMmps.slice(13)) / mean(messageRateMmps.slice(1, 9)), name).toBeCloseTo(1, 1);
  }
  // One-sided requests to a host do not need its cores.
  expect(Math.min(...lineOf(result, 'D').messageRateMmps)).toBeGreaterThan(0.5);
});

test('on a host that stalls, the timers of policies wait', async () => {
  // A rate of 5 Gbit/s spaces the messages by timers.
  const o = { policy: 'token-bucket:ratesGbps=B:5' };
  const { throughputGbps } = lineOf(
    await run(['5ms:stall 0 1ms'], ['B:size=16KiB', 'D:host=1,to=0'], o),
    'B',
  );
  expect(throughputGbps.slice(10, 12)).toEqual([expect.closeTo(0, 0), 0]);
  expect(throughputGbps.at(-1)).toBeCloseTo(4.9, 0);
});

/** A random script for four tenants with random applications. */
function randomScript(seed: number): { apps: string[]; at: string[] } {
  const random = new RandomStream(seed, 'script');
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random.next() * of.length)];
  const us = () => Math.floor(600 + random.next() * 1000);
  const apps = ['a', 'b', 'c', 'd'].map((tenant) => {
    const [kind, size] = pick([
      ['B', '256KiB'],
      ['M', '16'],
      ['D', '16'],
      ['B', '1-100000'],
    ] as const);
    const op = pick(['write', 'send', 'read', 'write', kind === 'D' ? 'atomic' : 'send']);
    const bytes = op === 'atomic' ? 8 : size;
    return `${kind}:name=${tenant},size=${bytes},op=${op},qps=${pick([1, 2, 5])},host=${pick([0, 1])}`;
  });
  // Tenant d survives.
  const ends = ['a', 'b', 'c'].map((tenant) => `${us()}us:${pick(['close', 'kill'])} ${tenant}`);
  const stalls = [0, 1].map((host) => `${us()}us:stall ${host} ${Math.ceil(random.next() * 100)}us`);
  return { apps, at: [...ends, ...stalls, '300us:set d rate=20Gbps', `${us()}us:set d rate=0`] };
}

const SEEDS = Array.from({ length: 5 }, (_, i) => 1 + i);

for (const policy of ['none', 'perf', 'token-bucket', 'perf;token-bucket'])
  describe(`random scripts under ${policy}`, { tags: tagsIf(/none|;/.test(policy)) }, () => {
    eachShort(1, SEEDS)('seed %i: the survivors lose nothing, and the run can be repeated', async (seed) => {
      const { apps, at } = randomScript(seed);
      const o = { policy, profile: 'cx5-100g', duration: '2ms', seed };
      const first = await run(at, apps, o);
      expect(
        lineOf(first, 'd')
          .messageRateMmps.slice(-2)
          .some((mmps) => mmps > 0),
        apps.join(' '),
      ).toBe(true);
      expect((await run(at, apps, o)).traceHash).toBe(first.traceHash);
    });
  });

test('steps that come to nothing leave the run unchanged; the command repeats the script', async () => {
  const apps = ['B', 'D'];
  const plain = await run([], apps);
  // A limit of the whole link.
  const scripted = await run(['9999us:close D'], apps);
  expect(scripted.timeline!.apps[0].throughputGbps.slice(0, -1)).toEqual(
    plain.timeline!.apps[0].throughputGbps.slice(0, -1),
  );
  const mix = {
    profile: 'minimal',
    duration: '1ms',
    warmup: '0ms',
    at: ['1us:stall 0 1us'],
    apps: [mixApp('D')],
  };
  expect(jobOf(mix, 1).command).toMatch(/ --at '1us:stall 0 1us' --app D$/);
  expect(jobOf(mix, 1).key).not.toBe(jobOf({ ...mix, at: [] }, 1).key);
});

test('isoverbs mix --at', async () => {
  const args = ['mix', '--duration', '2ms', '--warmup', '100us', '--app', 'B', '--app', 'D'];
  const { code, err } = await command(...args, '--at', '1ms:close B', '--at', '1500us:kill D');
  expect({ code, err }).toEqual({ code: 0, err: '' });
});

test.each<[string[], RegExp]>([
  [['x'], /at 'x' is not of the form TIME:ACTION, such as '5ms:close B'/],
  [['-5ms:close B'], /'-5ms' is not a number with one of the units/],
  [['5ms:explode B'], /unknown action 'explode'; use one of set, close, kill, stall, coordinator/],
  [['5ms:toString B'], /unknown action 'toString'/],
  [['5ms:close'], /is not of the form TIME:close APP/],
  [['5ms:close B D'], /is not of the form TIME:close APP/],
  [['5ms:set B'], /is not of the form TIME:set APP KEY=VALUE/],
  [['5ms:set B depth=3'], /unknown key 'depth'; use rate, groupWeight, weight, qpWeight, group, kind/],
  [['5ms:set B groupWeight=0'], /groupWeight must be a number from 1e-6 to 1e6, got 0/],
  [['5ms:set B groupWeight=2'], /set at 5ms: app B is in no group: give it one with group=NAME/],
  [['5ms:set B weight=0'], /weight must be a number from 1e-6 to 1e6, got 0/],
  [['5ms:set B qpWeight=1e9'], /qpWeight must be a number from 1e-6 to 1e6, got 1000000000/],
  [['5ms:set B weight=NaN'], /weight: 'NaN' is not a number/],
  [['5ms:set B kind=D'], /kind: 'D' is not one of undeclared, latency, throughput, bandwidth/],
  [[`5ms:set B group=${'g'.repeat(65)}`], /group must be a name of at most 64 printable characters/],
  [['5ms:set B rate=1'], /rate: '1' requires a unit/],
  [['5ms:set B rate=1000Gbps'], /a rate of 1000 Gbps is not between 0 and the link's 100 Gbps/],
  [['5ms:stall x 1us'], /host: 'x' is not a whole number/],
  [['5ms:stall 2 1us'], /unknown host 2; hosts are 0 to 1/],
  [['5ms:coordinator'], /is not of the form TIME:coordinator \[HOST\] down\|up/],
  [['5ms:coordinator 0 1 up'], /is not of the form TIME:coordinator \[HOST\] down\|up/],
  [['5ms:coordinator 0'], /'0' is not one of down, up/],
  [['5ms:coordinator x up'], /host: 'x' is not a whole number/],
  [['5ms:coordinator 2 down'], /unknown host 2; hosts are 0 to 1/],
  [['5ms:coordinator up'], /coordinator at 5ms: every coordinator is up already/],
  [['5ms:coordinator down', '6ms:coordinator 1 down'], /the coordinator of host 1 is down already/],
  [['5ms:stall 0 0us'], /the host must stall for more than 0 ns/],
  [['20ms:close B'], /close at 20ms: the time is not within the run, from 0 to 20ms/],
  [['5ms:close X'], /unknown app 'X'; there is B, D/],
  [['5ms:kill X'], /unknown tenant 'X'; there is B, shared/],
  [['6ms:close B', '5ms:close B'], /close at 6ms: app B was closed at 5ms already/],
  [['5ms:kill B', '6ms:set B rate=0'], /app B was killed at 5ms already/],
  [['5ms:close B', '6ms:kill B'], /all apps of tenant B have ended; the last was closed/],
  [['3ms:set D rate=0'], /app D starts at 4ms, so the step comes too early/],
  [['4ms:kill shared'], /app D starts at 4ms, so the step comes too early/],
  [['1ms:close B'], /app B: it runs from 0ns to 1ms and gives no samples/],
])('a script of %j is rejected in one sentence', async (steps, sentence) => {
  const args = ['mix', '--app', 'B', '--app', 'D:start=4ms,tenant=shared'];
  const { code, out, err } = await command(...args, ...steps.flatMap((step) => ['--at', step]));
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
  expect(err).toMatch(/^isoverbs: [^\n]+ \(ISO_ERR_CONFIG\)\n$/);
});

test('real devices have no script', async () => {
  const { code, err } = await command('mix', '--provider', 'rdma-core', '--app', 'D', '--at', '5ms:close D');
  expect(code).toBe(2);
  expect(err).toMatch(/--at is for simulated devices/);
});
