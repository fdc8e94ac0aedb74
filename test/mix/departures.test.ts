// Records of the packets of single queue pairs, and the counters of policies.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { command } from './command.ts';

const folder = mkdtempSync(join(tmpdir(), 'departures-'));
afterAll(() => rmSync(folder, { recursive: true }));

const run = (apps: string[], more: Partial<MixSpec> = {}) =>
  runMix({
    ...DEFAULTS,
    profile: 'minimal',
    durationNs: 1e6,
    warmupNs: 0,
    ...more,
    apps: apps.map(parseApp),
  });

const sum = (values: readonly number[]) => values.reduce((total, one) => total + one, 0);

test.each(['none', 'perf'])(
  'under %s, the packets of a queue pair leave in order, and the run is the same',
  async (policy) => {
    const apps = ['B:qps=3,size=64KiB', 'D'];
    const plain = await run(apps, { policy });
    const recorded = await run(apps, {
      policy,
      departures: [
        { app: 'B', queuePair: 1 },
        { app: 'D', queuePair: 0 },
      ],
    });
    expect(recorded.traceHash).toBe(plain.traceHash);
    const [b, d] = recorded.departures!;
    expect([b.app, b.queuePair, d.app, d.queuePair]).toEqual(['B', 1, 'D', 0]);
    for (const [i, { leftNs, host, wireBytes, payloadBytes, psn }] of b.packets.entries()) {
      expect([host, psn]).toEqual([0, i]);
      expect(wireBytes).toBeGreaterThan(payloadBytes);
      // Two packets of a wire of 100 Gbit/s are at least as far apart as the second one is long.
      if (i > 0) expect(leftNs - b.packets[i - 1].leftNs).toBeGreaterThanOrEqual(wireBytes * 0.08 - 1e-3);
    }
    expect(b.packets.length).toBeGreaterThan(500);
    // One packet per message; the last one may be on its way.
    expect(d.packets.length - plain.apps[1].completed).toBeGreaterThanOrEqual(0);
    expect(d.packets.length - plain.apps[1].completed).toBeLessThanOrEqual(1);
  },
);

test('requests leave at the host of the application, and the data of READs at its peer', async () => {
  const { departures, apps } = await run(['B:op=read,size=64KiB'], {
    departures: [{ app: 'B', queuePair: 0 }],
  });
  const at = (host: number) => departures![0].packets.filter((one) => one.host === host);
  expect(sum(at(0).map(({ payloadBytes }) => payloadBytes))).toBe(0);
  const bytes = sum(at(1).map(({ payloadBytes }) => payloadBytes));
  expect(bytes / 65536).toBeGreaterThanOrEqual(apps[0].completed);
  expect(bytes / 65536).toBeLessThan(apps[0].completed + 5);
});

test('details include what the shim of each policy counted', async () => {
  const inner = [{ policy: 'perf', policyOptions: {} }];
  const { counters } = await run(['B', 'D'], { policy: 'token-bucket', inner, details: true });
  expect(counters!.map(({ name }) => name)).toEqual(['token-bucket', 'perf']);
  expect(counters![0].internal.pieces).toBeGreaterThan(counters![0].split);
  expect(counters![1].internal.waits).toBeGreaterThan(0);
  expect((await run(['B', 'D'], { details: true })).counters).toBeUndefined();
});

test('isoverbs mix --departures writes CSV and JSON', async () => {
  const [csv, json] = ['b.csv', 'd.json'].map((name) => join(folder, name));
  const args = ['mix', '--duration', '200us', '--warmup', '0us', '--app', 'B:qps=2', '--app', 'D', '--json'];
  const { code, out, err } = await command(
    ...args,
    '--departures',
    `B#1=${csv}`,
    '--departures',
    `D=${json}`,
  );
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(JSON.parse(out)).not.toHaveProperty('departures');
  const [head, ...rows] = readFileSync(csv, 'utf8').trimEnd().split('\n');
  expect(head).toBe('leftNs,host,psn,payloadBytes,wireBytes');
  expect(rows.length).toBeGreaterThan(100);
  expect(rows.every((row) => /^[\d.]+,0,\d+,4096,\d+$/.test(row))).toBe(true);
  const packets = JSON.parse(readFileSync(json, 'utf8'));
  expect(packets[0]).toMatchObject({ host: 0, psn: 0, payloadBytes: 16 });
});

test.each([
  ['B', /departures 'B' is not of the form APP=FILE or APP#N=FILE/],
  ['B#x=f', /'x' is not a whole number/],
  ['B#2=f', /app B has queue pairs 0 to 1, not 2/],
  ['X=f', /unknown app 'X'; use one of B/],
])('isoverbs mix --departures %s', async (text, sentence) => {
  const given = text.replace(/=f$/, `=${join(folder, 'f')}`);
  const { code, out, err } = await command('mix', '--app', 'B:qps=2', '--departures', given);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
});

test('gauges show what a policy does over time, and change nothing', async () => {
  const apps = ['B:name=a', 'B:name=b,start=400us', 'D'];
  const more = { policy: 'token-bucket', timelinePoints: 20 };
  const plain = await run(apps, more);
  const { timeline, traceHash } = await run(apps, { ...more, gauges: true });
  expect(traceHash).toBe(plain.traceHash);
  expect(plain.timeline!.gauges).toBeUndefined();
  const line = (name: string, tenant: string) => {
    const found = timeline!.gauges!.find(
      (one) => one.name === name && one.tenant === tenant && one.device === 'sim0',
    );
    if (found === undefined) throw new Error(`no gauge ${name} of ${tenant}`);
    return found;
  };
  expect(line('rate', 'a')).toMatchObject({ policy: 'token-bucket', unit: 'Gbit/s' });
  for (const gbps of line('rate', 'a').values) expect(gbps).toBeCloseTo(100 / 3, 6);
  // a posts four messages of 64 pieces; b holds nothing until it starts.
  expect(Math.max(...line('held', 'a').values.map(Number))).toBeGreaterThan(0);
  expect(line('held', 'b').values.slice(0, 7)).toEqual(Array(7).fill(0));
  expect(Math.max(...line('held', 'b').values.map(Number))).toBeGreaterThan(0);
  // An idle tenant has saved all its tokens, and one that sends beyond its rate has none.
  expect(line('tokens', 'b').values[5]).toBe(65536);
  expect(Math.max(...line('tokens', 'a').values.map(Number))).toBeLessThan(16384);
  // The other host sends nothing, so nothing is held there.
  expect(timeline!.gauges!.some(({ name, device }) => name === 'held' && device === 'sim1')).toBe(false);
});

test('isoverbs mix --gauges prints a line for each gauge', async () => {
  const args = [
    'mix',
    '--policy',
    'perf',
    '--duration',
    '300us',
    '--warmup',
    '0us',
    '--app',
    'B',
    '--app',
    'D',
  ];
  const { code, out, err } = await command(...args, '--gauges');
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toMatch(/^perf: held of B on sim0: mean [\d.]+, min \d+, max \d+, last \d+ requests$/m);
  expect(out).toMatch(/^perf: split of B on sim0: mean [\d.]+, min [01], max 1, last 1 0 or 1$/m);
});

test('isoverbs mix --gauges leaves out the tenant and the unit of a gauge that has none', async () => {
  const words = ['--policy', 'tassel', '--duration', '300us', '--warmup', '0us', '--app', 'D', '--gauges'];
  const { code, out } = await command('mix', ...words);
  expect(code).toBe(0);
  expect(out).toMatch(/^tassel: phi on sim0: mean [\d.]+, min [\d.]+, max [\d.]+, last [\d.]+$/m);
});

test('with details, each application has its rate on the wire: of requests, or of the responses to READs', async () => {
  const apps = ['B:name=w,qps=2', 'B:name=r,op=read', 'B:name=m,op=write:0.5/read:0.5'];
  const more = { warmupNs: 2e5, details: true };
  const departures = [0, 1].map((queuePair) => ({ app: 'w', queuePair }));
  const { apps: results, departures: records } = await run(apps, { ...more, departures });
  const [writes, reads, mixed] = results;
  const within = records!
    .flatMap(({ packets }) => packets)
    .filter(({ leftNs }) => leftNs > 2e5 && leftNs <= 1e6);
  expect(writes.wireGbps).toBeCloseTo((sum(within.map(({ wireBytes }) => wireBytes)) * 8) / 8e5, 9);
  // 82 bytes of headers for each packet of 4096.
  const part = reads.wireGbps! / reads.throughputGbps;
  expect(part).toBeGreaterThan(0.98 * (4178 / 4096));
  expect(part).toBeLessThan(1.02 * (4178 / 4096));
  expect(mixed.wireGbps).toBeUndefined();
  expect((await run(apps, { warmupNs: 2e5 })).apps[0].wireGbps).toBeUndefined();
});
