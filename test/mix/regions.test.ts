// Applications with memory regions of their own, and peers that post no receives or few.
// @module-tag wide
import { expect, test } from 'vitest';
import { type Changes, resolve, runApps } from './app-runs.ts';

const SHORT = { durationNs: 1e6, warmupNs: 2e5 };

const run = (apps: string[], more: Changes = {}) => runApps(apps, { ...SHORT, ...more });

test('regionSize determines the number of buffers, and buffers the size of a region', () => {
  const one = { regions: 1, isRandom: false };
  expect(resolve('B').memory).toBeNull();
  expect(resolve('B:size=512,regions=4').memory).toEqual({
    ...one,
    regions: 4,
    regionBytes: 512,
    buffers: 1,
  });
  expect(resolve('B:size=512,buffers=16').memory).toEqual({ ...one, regionBytes: 8192, buffers: 16 });
  expect(resolve('B:size=1-512,regionSize=1GiB').memory).toEqual({
    ...one,
    regionBytes: 2 ** 30,
    buffers: 2 ** 21,
  });
  expect(resolve('B:size=4KiB,regionSize=1MiB,buffers=3,access=random').memory).toEqual({
    regions: 1,
    isRandom: true,
    regionBytes: 1 << 20,
    buffers: 3,
  });
  // A datagram's buffer has room for its GRH.
  expect(resolve('B:size=512,op=send,transport=ud,buffers=2').memory?.regionBytes).toBe(2 * 552);
});

test.each([
  ['B:access=random', 'app B: access needs several buffers: add regions, buffers or regionSize'],
  ['B:regions=0', 'app B: regions must be a whole number from 1 to 65536, got 0'],
  ['B:regionSize=2GiB', 'app B: regionSize must be a whole number from 1 to 1073741824, got 2147483648'],
  [
    'B:regionSize=64KiB',
    'app B: a region of 65536 bytes has room for 0 buffers of 1048576 bytes, not for 1; set a larger regionSize',
  ],
  [
    'B:size=4KiB,regionSize=8KiB,buffers=3',
    'app B: a region of 8192 bytes has room for 2 buffers of 4096 bytes, not for 3; set a larger regionSize',
  ],
  [
    'B:op=send,reply=8,regions=2',
    'app B: responses use one buffer: leave out regions, buffers and regionSize',
  ],
  ['B:receives=none', 'app B: receives requires op=send: only SENDs need receives'],
  ['B:op=send,reply=8,receives=none', 'app B: receives must be a whole number from 1 to 16384, got 0'],
  [
    'B:op=send,transport=uc,rnrTimer=3',
    'app B: rnrTimer requires op=send and transport=rc, which alone has RNR NAKs',
  ],
  ['B:op=send,rnrTimer=32', 'app B: rnrTimer must be a whole number from 0 to 31, got 32'],
])('%s is rejected', (text, message) => {
  expect(() => resolve(text)).toThrow(new RegExp(`^${message.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`));
});

// An inline WRITE is translated at the receiver only. Every access misses both caches: one DMA read for the region, one
// for the page.
const NO_JITTER = { pcieJitter: 0, hostJitter: 0, mptEntries: 16, mttEntries: 16 };
const READS_NS = 2 * (500 + (64 * 8) / 220);

test('every access in turn misses when there are more regions than the NIC caches', async () => {
  const { apps: cached } = await run(['D:regions=8'], { set: NO_JITTER });
  const { apps: missing } = await run(['D:regions=64'], { set: NO_JITTER });
  const more = 1000 * (missing[0].latencyUs!.avg - cached[0].latencyUs!.avg);
  expect(more).toBeGreaterThan(READS_NS - 30);
  expect(more).toBeLessThan(READS_NS + 30);
});

test('accesses at random hit the part of the regions that the NIC caches', async () => {
  const { apps: cached } = await run(['D:regions=8,access=random'], { set: NO_JITTER });
  const { apps: some } = await run(['D:regions=64,access=random'], { set: NO_JITTER });
  const more = 1000 * (some[0].latencyUs!.avg - cached[0].latencyUs!.avg);
  // 16 of 64 are cached.
  expect(more / READS_NS).toBeGreaterThan(0.65);
  expect(more / READS_NS).toBeLessThan(0.85);
});

test('one region of 1 GiB has more pages than the NIC caches', async () => {
  const { apps } = await run(['D:regionSize=1GiB,access=random'], { payload: false });
  const { apps: small } = await run(['D'], { payload: false });
  const more = 1000 * (apps[0].latencyUs!.avg - small[0].latencyUs!.avg);
  // Its pages miss, its only region does not.
  expect(more).toBeGreaterThan(0.6 * 500);
  expect(more).toBeLessThan(1.1 * 500);
});

test('buffers divide a region evenly', async () => {
  // 16 buffers of 16 bytes are in one page, or in 16.
  const packed = await run(['D:buffers=16'], { set: NO_JITTER });
  const spread = await run(['D:regionSize=64KiB,buffers=16'], {
    set: { ...NO_JITTER, mptEntries: 1, mttEntries: 8 },
  });
  const more = 1000 * (spread.apps[0].latencyUs!.avg - packed.apps[0].latencyUs!.avg);
  expect(more).toBeGreaterThan(READS_NS / 2 - 30);
  expect(more).toBeLessThan(READS_NS / 2 + 30);
});

test.each(['write', 'read', 'send', 'atomic', 'write:1/send:1'])(
  '%s uses all regions at both ends',
  async (op) => {
    const size = op === 'atomic' ? 8 : 512;
    for (const use of ['none', 'perf', 'fair', 'token-bucket']) {
      const { apps } = await run([`B:op=${op},size=${size},regions=32,buffers=4,qps=4,contexts=2`], { use });
      expect(apps[0].errors).toBe(0);
      expect(apps[0].completed).toBeGreaterThan(100);
    }
  },
);

test('datagrams and replaced contexts use all regions', async () => {
  const { apps } = await run([
    'B:op=send,transport=ud,size=512,regions=32',
    'M:regions=8,buffers=8,contexts=2,qps=2,contextLife=100us',
  ]);
  for (const { errors, completed } of apps) expect([errors, completed > 100]).toEqual([0, true]);
});

test('the result does not depend on whether payload is copied', async () => {
  const app = 'B:op=send,size=4KiB,regions=16,buffers=4,access=random';
  expect((await run([app], { payload: false })).traceHash).toBe((await run([app])).traceHash);
});

test.each(['none', 'perf', 'fair', 'token-bucket'])(
  'SENDs without receives never arrive under %s',
  async (use) => {
    const apps = ['rc,rnrTimer=longest', 'rc,rnrTimer=shortest', 'uc', 'ud'].map(
      (transport, i) => `B:name=a${i},op=send,size=4000,depth=1,receives=none,transport=${transport}`,
    );
    const { apps: results } = await run([...apps, 'D'], { use });
    for (const { errors, throughputGbps } of results.slice(0, 4))
      expect([errors, throughputGbps]).toEqual([0, 0]);
    // Reliable senders wait, others do not learn that their messages are lost.
    expect(results.map(({ completed }) => completed > 100)).toEqual([false, false, true, true, true]);
  },
);

test('a reliable sender repeats its message after each RNR timer', async () => {
  const packetsOf = async (rnrTimer: string) => {
    const app = `B:op=send,size=4000,depth=1,receives=none,rnrTimer=${rnrTimer}`;
    return (await run([app])).packets;
  };
  expect(await packetsOf('longest')).toBe(1);
  // Between two of its packets: the timer, a step (81 ns), the wire (328 + 100 ns), the receiver (120 ns) and the NAK back
  // (107 ns). NAKs are not counted.
  const expected = (timerNs: number) => 1e6 / (timerNs + 81 + 428 + 120 + 107);
  for (const [code, timerNs] of [
    ['1', 10e3],
    ['4', 40e3],
  ] as const)
    expect(Math.abs((await packetsOf(code)) - expected(timerNs))).toBeLessThanOrEqual(1);
});

test('fewer receives than messages in flight slow a sender down', async () => {
  const { apps: few } = await run(['M:op=send,receives=2,rnrTimer=shortest']);
  const { apps: usual } = await run(['M:op=send']);
  expect(few[0].completed).toBeGreaterThan(100);
  expect(few[0].completed).toBeLessThan(usual[0].completed / 3);
});
