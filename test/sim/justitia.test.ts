// Justitia in virtual time: faults of tenants and queue pairs, outages, late timers, and what latency applications notice.
import { describe, expect, test } from 'vitest';
import { jobOf } from '../../src/mix/jobs.ts';
import { gauge } from '../../src/mix/metrics.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import type { MixResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import type { MixSpec } from '../../src/mix/spec.ts';
import { eachShort } from '../support/variants.ts';

const LINK_GBPS = 100;
/** MaxRate next to latency applications. */
const MAX_GBPS = 0.97 * LINK_GBPS;
/** The payload of that many bytes on the wire, in packets of one MTU. */
const payload = (wireGbps: number) => (wireGbps * 4096) / (4096 + 82);

interface Mixed {
  readonly policy?: string;
  readonly duration?: string;
  readonly at?: readonly string[];
  readonly set?: Readonly<Record<string, string | number>>;
  readonly seed?: number;
  readonly more?: Partial<MixSpec>;
}

async function run(apps: readonly string[], o: Mixed = {}): Promise<MixResult> {
  const { policy = 'justitia', duration = '5ms', at = [], set = {}, seed = 1, more = {} } = o;
  const mix = { profile: 'cx6-100g', policy, duration, warmup: '500us', at, set, apps: apps.map(mixApp) };
  const { spec } = jobOf(mix, seed);
  const result = await runMix({ ...spec, payload: false, timelinePoints: POINTS, gauges: true, ...more });
  expect(result.invariants).toEqual([]);
  return result;
}

const POINTS = 20;
const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;

/** The payload rates of an application's points. */
function gbpsOf(result: MixResult, name: string, from: number, to = POINTS): number {
  const line = result.timeline!.apps.find((app) => app.name === name)!;
  return mean(line.throughputGbps.slice(from, to));
}

const [B, D] = ['B:kind=bandwidth,size=1MB', 'D:kind=latency'];
/** A target that no rate meets, so that SafeUtil stays at R_min. */
const PINNED = 'justitia:targetUs=0.001';

describe('a tenant that is killed while it holds tokens', () => {
  eachShort(1, [
    ['without latency applications', [] as string[], LINK_GBPS / 2, LINK_GBPS],
    ['next to a latency application', [D], MAX_GBPS / 3, MAX_GBPS / 2],
  ])('%s, the others have its share within 50 ms', async (_, others, before, after) => {
    const apps = [`${B},name=a`, `${B},name=x,qps=4`, ...others];
    const result = await run(apps, { policy: PINNED, at: ['2500us:kill x'] });
    expect(gbpsOf(result, 'a', 4, 10) / payload(before)).toBeCloseTo(1, 1);
    // One millisecond is the time after which its processes are missed.
    expect(gbpsOf(result, 'a', 16) / payload(after)).toBeCloseTo(1, 1);
  });
});

describe('applications that want more than their share', () => {
  test.each([
    ['its weight', 'justitia', (i: number) => `qpWeight=${1 + (i % 2)}`],
    ['its group', 'justitia:granularity=group', (i: number) => `group=g${i}`],
  ])('one that changes %s with each token gains nothing', async (_, policy, label) => {
    const at = Array.from({ length: 100 }, (__, i) => `${500 + 40 * i}us:set x ${label(i)}`);
    const result = await run([`${B},name=a`, `${B},name=x`], { policy, at });
    const share = payload(LINK_GBPS / 2);
    expect(gbpsOf(result, 'a', 4, 14) / share).toBeGreaterThan(0.95);
    expect(gbpsOf(result, 'x', 4, 14) / share).toBeLessThan(1.05);
    expect(gbpsOf(result, 'x', 4, 14) / share).toBeGreaterThan(0.7);
  });

  test('one whose messages cannot be cut has most of its share, and leaves the other one most of its own', async () => {
    const apps = [`${B},name=a`, 'B:name=x,kind=bandwidth,transport=uc,size=16MiB'];
    const { apps: got } = await run(apps, { duration: '40ms' });
    for (const { name, throughputGbps } of got)
      expect(throughputGbps / payload(LINK_GBPS / 2), name).toBeGreaterThan(0.8);
  });
});

describe('without latency applications', () => {
  eachShort(1, [
    ['one message outstanding', 'size=1MB,depth=1', 'size=1GB'],
    ['16 queue pairs', 'size=4MB,qps=16', 'size=4MB,depth=1'],
  ])('%s: equal shares, and almost the whole link', async (_, one, other) => {
    const apps = [`B:kind=bandwidth,name=a,${one}`, `B:kind=bandwidth,name=b,${other}`];
    const result = await run(apps, { duration: '10ms' });
    const [a, b] = ['a', 'b'].map((name) => gbpsOf(result, name, 2));
    expect(a / b).toBeGreaterThan(0.95);
    expect(a / b).toBeLessThan(1.05);
    expect((a + b) / payload(LINK_GBPS)).toBeGreaterThan(0.97);
  });
});

test('the state names the receiver with the longest tail, and what reference flows take of the link', async () => {
  const result = await run([B, D], { duration: '8ms', policy: PINNED });
  const says =
    /the longest tail is [\d.]+ us to ::ffff:10\.0\.0\.2; reference flows take 0\.04\d* % of the link$/;
  const states = result.policyStates!.filter(({ device }) => device === 'sim0');
  expect(states.map(({ kind }) => kind).sort()).toEqual(['B', 'D']);
  for (const { why } of states) expect(why).toMatch(says);
  expect(gauge(result, 'referenceShare').at(-1)).toBeCloseTo(0.043, 3);
});

test("on a slow device, whose agents request each other's connections at once, both measure soon", async () => {
  const result = await run([B, D], { duration: '20ms', more: { profile: 'rxe' } });
  // A message that is lost before the peer is connected would be repeated after 67 ms.
  for (const device of ['sim0', 'sim1']) expect(gauge(result, 'estimate', device).at(-1)).toBeGreaterThan(0);
});

describe('outages', () => {
  const apps = [`${B},name=a`, `${B},name=b`, D];
  const total = (result: MixResult, from: number, to = POINTS) =>
    gbpsOf(result, 'a', from, to) + gbpsOf(result, 'b', from, to);

  test.each(['coordinator down', 'agent down'])(
    'after "%s", rates hold, and all together are at most MaxRate',
    async (what) => {
      const result = await run(apps, { policy: PINNED, at: [`2500us:${what}`] });
      expect(total(result, 4, 10) / payload((2 / 3) * MAX_GBPS)).toBeCloseTo(1, 1);
      expect(total(result, 11) / total(result, 4, 10)).toBeCloseTo(1, 1);
      expect(gbpsOf(result, 'a', 11) / gbpsOf(result, 'b', 11)).toBeCloseTo(1, 1);
    },
  );

  test('while the coordinator is down, applications that begin do not raise the rate of the device', async () => {
    const late = [`${B},name=a`, `${B},name=b,start=2500us`, `${B},name=c,start=2500us`, D];
    const result = await run(late, { policy: PINNED, at: ['2ms:coordinator 0 down'] });
    const before = gbpsOf(result, 'a', 4, 8);
    expect(before / payload(MAX_GBPS / 2)).toBeCloseTo(1, 1);
    expect((total(result, 12) + gbpsOf(result, 'c', 12)) / before).toBeLessThan(1.05);
  });

  test('a coordinator that comes back decides by what is reported then', async () => {
    const late = [`${B},name=a`, `${B},name=b,start=2ms`, D];
    const at = ['1500us:coordinator 0 down', '3ms:coordinator 0 up'];
    const result = await run(late, { policy: PINNED, at });
    expect(total(result, 15) / payload((2 / 3) * MAX_GBPS)).toBeCloseTo(1, 1);
  });

  test('without agents, SafeUtil stays at R_min, and no target is called unmet', async () => {
    // An application of next to no weight makes the ruler decide when it begins.
    const late = [...apps, `${B},name=late,start=3ms,weight=0.001`];
    const result = await run(late, { at: ['0us:agent down'] });
    expect(total(result, 4) / payload((2 / 3) * MAX_GBPS)).toBeCloseTo(1, 1);
    expect(new Set(gauge(result, 'safeUtil'))).toEqual(new Set(gauge(result, 'rMin')));
    for (const { why } of result.policyStates!) expect(why).not.toContain('cannot be met');
  });
});

describe('timers', () => {
  // The bytes of a packet of one MTU with headers.
  const PACKET = 4096 + 82;
  const TOKEN = 5000;

  test.each(
    [0, 2000, 15_000, 1e6].flatMap((lateNs) =>
      [1, 8192, 30_000].map((backlog) => [lateNs, backlog] as const),
    ),
  )(
    'that are %d ns late, with a backlog of %d bytes: no burst is longer',
    async (timerLateNs, backlogBytes) => {
      const policy = `${PINNED},splitQp=never,backlogBytes=${backlogBytes}`;
      const more = { departures: [{ app: 'B', queuePair: 0 }] };
      const result = await run([B, D], { policy, duration: '3ms', set: { timerLateNs }, more });
      const packets = result.departures![0].packets.filter(({ host }) => host === 0);
      expect(packets.length).toBeGreaterThan(10);
      const bytesPerNs = (MAX_GBPS / 2 / 8) * 1.001;
      // The largest excess over the rate, of any interval: after the first latency application has been declared.
      let [excess, most, lastNs] = [0, 0, 0];
      for (const { leftNs, wireBytes } of packets) {
        if (leftNs < 5e5) continue;
        excess = Math.max(0, excess - bytesPerNs * (leftNs - lastNs)) + wireBytes;
        most = Math.max(most, excess);
        lastNs = leftNs;
      }
      // A debt of one chunk's headers, and packets that the wire delays.
      expect(most).toBeLessThan(Math.max(TOKEN, backlogBytes) + 2 * PACKET);
    },
  );
});

describe('latency applications', () => {
  test('a B that declares latency is held to its share after two windows', async () => {
    const apps = ['B:name=liar,kind=latency,size=256KiB', `${B},name=b`, `${D},name=d`];
    // On a slow link, there is less to simulate.
    const policy = `${PINNED},maxGbps=20`;
    const result = await run(apps, { policy, duration: '24ms', set: { linkGbps: 20 } });
    const state = result.policyStates!.find(({ tenant }) => tenant === 'liar')!;
    expect([state.kind, state.does]).toEqual(['B', expect.stringContaining('Gbit/s on the wire')]);
    // From 20 ms on.
    for (const name of ['liar', 'b'])
      expect(gbpsOf(result, name, 17) / payload((0.97 * 20) / 3), name).toBeCloseTo(1, 1);
  });

  test('pass untouched: nothing is held, cut or made for them, and alone they are as fast as without a shim', async () => {
    const more = { details: true };
    const alone = await run([D], { more });
    const [{ held, split, internal }] = alone.counters!;
    expect([held, split, internal]).toEqual([0, 0, { pieces: 0, waits: 0, enables: 0, posts: 0 }]);
    const bare = await run([D], { policy: 'none' });
    expect(alone.apps[0].latencyUs!.avg / bare.apps[0].latencyUs!.avg).toBeLessThan(1.02);
  });
});

describe('the same seed', () => {
  test('gives the same trace, and another seed another one', async () => {
    const apps = [B, 'M:kind=throughput', D, `${B},name=r,op=read`];
    const hash = async (seed: number) => (await run(apps, { duration: '1ms', seed })).traceHash;
    const first = await hash(1);
    expect(await hash(1)).toBe(first);
    expect(await hash(2)).not.toBe(first);
  });
});
