// Applications that post several operations at random, and applications whose messages are answered.
import { describe, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import type { AppResult, MixResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { eachShort } from '../support/variants.ts';
import { command } from './command.ts';

const SHORT = { profile: 'minimal', durationNs: 3e6, warmupNs: 1e6, payload: false };

async function run(apps: string[], more: Partial<MixSpec> = {}): Promise<MixResult> {
  const result = await runMix({ ...DEFAULTS, ...SHORT, ...more, apps: apps.map(parseApp) });
  expect(result.invariants).toEqual([]);
  for (const { name, errors } of result.apps) expect(errors, name).toBe(0);
  return result;
}

const only = async (app: string, more: Partial<MixSpec> = {}): Promise<AppResult> =>
  (await run([app], more)).apps[0];

describe('several operations', () => {
  test('are posted by their shares', async () => {
    // Sizes are equal, so bytes tell shares. READs arrive at host 0, the others at host 1.
    const { links, apps } = await run(['B:op=write:2/read:1/send:1,size=4KiB,depth=16'], {
      durationNs: 11e6,
    });
    const bytes = (from: string) => links.find((link) => link.from === from)!.bytes;
    expect(bytes('host0') / bytes('host1')).toBeGreaterThan(2.7);
    expect(bytes('host0') / bytes('host1')).toBeLessThan(3.3);
    const [{ throughputGbps, messageRateMmps }] = apps;
    expect(throughputGbps / (messageRateMmps * 4096 * 8e-3)).toBeCloseTo(1, 2);
  });

  test('use both directions of the link', async () => {
    const { throughputGbps } = await only('B:op=write:0.5/read:0.5,size=64KiB,depth=64');
    expect(throughputGbps).toBeGreaterThan(150);
  });

  test('with a share of 1, the run is the same as with this operation alone', async () => {
    const mixed = await run(['M:op=read:3,size=64', 'D:op=send:1']);
    const plain = await run(['M:op=read,size=64', 'D:op=send']);
    expect(mixed.traceHash).toBe(plain.traceHash);
  });

  // Found by a random mixture: the notice and the empty SEND at the end took slots that did not exist.
  test('SENDs in pieces fill the send queue, and do not overrun it', async () => {
    const apps = [
      'B:op=send,size=128KiB,qps=16,think=50us,to=1,kind=bandwidth',
      'M:op=read,size=32,qps=4,batch=32,depth=64,host=3,to=2,kind=throughput',
      'B:qps=4,depth=1,to=2,kind=bandwidth',
      'B:op=send,size=256KiB,qps=2,depth=2,think=50us,host=3,to=2,kind=bandwidth',
    ];
    const more = {
      hosts: 4,
      topology: 'dumbbell',
      profile: 'ideal',
      set: { congestionControl: 'dcqcn' },
    } as const;
    const { apps: results } = await run(apps, { ...more, policy: 'palos', durationNs: 2e6 });
    expect(results.at(-1)!.completed).toBeGreaterThan(10);
  });

  eachShort(1, ['none', 'perf', 'token-bucket'])(
    'complete under %s, with other sizes and with think times',
    async (policy) => {
      const apps = [
        'B:op=write:1/read:1,size=64KiB',
        'M:op=write:1/send:1',
        'B:op=send:1/read:1,size=1-64KiB,think=5us',
        'D',
      ];
      const more = { policy, profile: 'cx6-100g', durationNs: 2e6 };
      const { apps: results, traceHash } = await run(apps, more);
      for (const { completed, name } of results) expect(completed, name).toBeGreaterThan(10);
      expect((await run(apps, { ...more, payload: true })).traceHash).toBe(traceHash);
    },
  );
});

describe('answered messages', () => {
  test('latency spans the request and its answer', async () => {
    const oneWay = (await only('D:op=send')).latencyUs!.avg;
    const { latencyUs, messageRateMmps, throughputGbps } = await only('D:op=send,reply=16');
    // The minimal NIC completes a SEND after one direction and an acknowledgement.
    expect(latencyUs!.avg / oneWay).toBeGreaterThan(1.3);
    expect(latencyUs!.avg / oneWay).toBeLessThan(2.2);
    expect(latencyUs!.avg * messageRateMmps).toBeCloseTo(1, 2);
    // Requests and answers.
    expect(throughputGbps / (messageRateMmps * 32 * 8e-3)).toBeCloseTo(1, 2);
  });

  test('large answers fill the link towards the application', async () => {
    const { links } = await run(['B:op=send,size=64,reply=1MiB,depth=4']);
    const used = (from: string) => links.find((link) => link.from === from)!.utilisation;
    expect(used('host1')).toBeGreaterThan(0.98);
    expect(used('host0')).toBeLessThan(0.05);
  });

  test('many outstanding requests are answered in batches', async () => {
    const [m, one] = (await run(['M:op=send,reply=8,qps=2', 'M:name=one,op=send,reply=8,batch=1,depth=8']))
      .apps;
    expect(m.messageRateMmps).toBeGreaterThan(2);
    expect(one.messageRateMmps).toBeGreaterThan(0.5);
  });

  test('the answering core costs time', async () => {
    const set = { pollHitNs: 0, postCallNs: 1000, postWrNs: 0, doorbellNs: 0, hostJitter: 0 };
    const slow = (await only('D:op=send,reply=16', { profile: 'ideal', set })).latencyUs!.avg;
    const free = (await only('D:op=send,reply=16', { profile: 'ideal', set: { ...set, postCallNs: 0 } }))
      .latencyUs!.avg;
    // The request, the receive that the answerer reposts, and the answer.
    expect(slow - free).toBeCloseTo(3, 1);
  });

  eachShort(1, ['none', 'perf', 'token-bucket', 'token-bucket;perf'])(
    'under %s, next to other applications',
    async (policy) => {
      const [outermost, ...inner] = policy.split(';');
      const more = {
        ...{ policy: outermost, profile: 'cx6-100g', durationNs: 2e6, details: true },
        ...(inner.length > 0 && { inner: [{ policy: inner[0], policyOptions: {} }] }),
      };
      const apps = [
        'B:size=64KiB',
        'D:name=rpc,op=send,reply=200',
        'B:name=fetch,op=send,size=64,reply=128KiB',
        'M:op=send,reply=8',
      ];
      const first = await run(apps, more);
      for (const { completed, name, queuePairs } of first.apps) {
        expect(completed, name).toBeGreaterThan(10);
        expect(
          queuePairs!.reduce((sum, one) => sum + one.completed, 0),
          name,
        ).toBe(completed);
      }
      expect((await run(apps, more)).traceHash).toBe(first.traceHash);
    },
  );

  test.each(['close', 'kill'] as const)('a script can %s the application', async (kind) => {
    const action = kind === 'close' ? { kind, app: 'M' } : { kind, tenant: 'M' };
    const script = [{ atNs: 2e6, action }];
    const { apps } = await run(['M:op=send,reply=8', 'D:op=send,reply=8'], { policy: 'perf', script });
    expect(apps[0].completed).toBeGreaterThan(100);
    expect(apps[1].completed).toBeGreaterThan(100);
  });
});

test.each([
  ['D:op=write:0.5/fly:0.5', /op: 'fly' is not one of write, send, read, atomic, cas, register/],
  ['D:op=write:1/write:2', /'write' is given twice/],
  ['D:op=write/read:2', /'write' is not an operation and its share, such as read:0.3|not one of/],
  ['D:op=write:1:2', /'write:1:2' is not an operation and its share/],
  ['D:op=write:x/read:1', /'x' is not a number/],
  ['D:op=write:0/read:1', /the share of write must be above 0/],
  ['D:op=write:1/atomic:1', /only write, send and read can be mixed/],
  ['D:op=write:1/read:1,transport=uc', /transport uc does not support read/],
  ['D:op=write:1/read:1,inline=yes', /only writes and sends/],
  ['D:reply=8', /reply requires op=send and transport=rc/],
  ['D:op=send,transport=ud,reply=8', /reply requires op=send and transport=rc/],
  ['D:op=send:1/write:1,reply=8', /reply requires op=send/],
  ['D:op=send,reply=0', /reply must be a whole number from 1/],
])('isoverbs mix --app %s', async (app, sentence) => {
  const { code, out, err } = await command('mix', '--app', app);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
  expect(err).toMatch(/^isoverbs: [^\n]+ \(ISO_ERR_CONFIG\)\n$/);
});
