// Parts of the NIC that are off in all profiles: packets of PCIe, units for messages without receives, and the cache of
// receives. What each of them costs is compared with a closed form.
import { describe, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import type { MixResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { Pcie } from '../../src/sim/nic/pcie.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';

const CX6 = PROFILES['cx6-100g'];
const STILL = { pcieJitter: 0, hostJitter: 0 };

async function run(apps: string[], set: MixSpec['set'] = {}): Promise<MixResult> {
  const result = await runMix({
    ...DEFAULTS,
    durationNs: 1e6,
    warmupNs: 2e5,
    payload: false,
    set: { ...STILL, ...set },
    apps: apps.map(parseApp),
  });
  expect(result.invariants).toEqual([]);
  return result;
}

describe('packets of PCIe', () => {
  const busyNs = (bytes: number, set: object) => {
    const pcie = new Pcie(
      override(CX6, { ...STILL, ...set }),
      new Float64Array(1),
      new RandomStream(1, 'pcie'),
    );
    pcie.write(bytes);
    return pcie.busyNs;
  };
  const PACKETS = { pciePayloadBytes: 256 };

  test('full packets take as long as without packets', () => {
    for (const bytes of [256, 4096]) expect(busyNs(bytes, PACKETS)).toBeCloseTo(busyNs(bytes, {}), 9);
  });

  test.each([
    [257, 256],
    [129, 128],
    [64, 256],
  ])('%i bytes in packets of %i take a header each', (bytes, payload) => {
    const packets = Math.ceil(bytes / payload);
    const expected = ((bytes + packets * 24) * (payload / (payload + 24)) * 8) / 220;
    expect(busyNs(bytes, { pciePayloadBytes: payload })).toBeCloseTo(expected, 9);
  });

  test('a byte above a packet costs the WRITEs of many queue pairs what its header takes', async () => {
    // PCIe is the bottleneck: WQEs, payload, and their headers.
    const rate = async (size: number) => {
      const app = `B:size=${size},depth=128,qps=32,cores=32`;
      return (await run([app], { ...PACKETS, pcieGbps: 40 })).apps[0].throughputGbps / size;
    };
    const bytesOf = (size: number) => size + Math.ceil(size / 256) * 24 + (64 + 24);
    const ratio = (await rate(257)) / (await rate(256));
    expect(Math.abs(ratio / (bytesOf(256) / bytesOf(257)) - 1)).toBeLessThan(0.05);
  });

  test('WQEs and contexts do not wait for messages, which wait for them', () => {
    const pcie = new Pcie(
      override(CX6, { ...STILL, ...PACKETS }),
      new Float64Array(1),
      new RandomStream(1, 'pcie'),
    );
    const ns = (bytes: number) => (bytes * 8 * 256) / 280 / 220;
    for (let i = 0; i < 100; i++) pcie.read(512);
    expect(pcie.done[0]).toBeCloseTo(500 + 100 * ns(512 + 48), 6);
    pcie.readControl(64);
    expect(pcie.done[0]).toBeCloseTo(500 + ns(64 + 24), 6);
    pcie.read(512);
    expect(pcie.done[0]).toBeCloseTo(500 + 101 * ns(512 + 48) + ns(64 + 24), 6);
  });

  test('short reads do not exceed the rate of the link', async () => {
    // Each message fetches a context: 512 bytes more than its payload.
    await run(['B:size=512,depth=8,qps=600,cores=16'], PACKETS);
  });

  test('sizes that would hang a run are rejected', () => {
    expect(() => override(CX6, { pciePayloadBytes: 1 })).toThrow('pciePayloadBytes must be at least 64');
  });
});

describe('units for messages without receives', () => {
  const M = 'M:size=8,qps=32,cores=32';
  const UNITS = { processingUnits: 4, rnrUnitNs: 2000, rxGapNs: 0 };

  test.each([
    ['to its receiver', 'transport=uc,host=1,to=0'],
    ['to its receiver, a datagram', 'transport=ud,host=1,to=0'],
    ['to its sender, which gets a NAK', 'rnrTimer=shortest,host=0,to=1'],
  ])('one costs units %s', async (_, how) => {
    const flood = `B:name=f,op=send,size=256,depth=1,receives=none,${how}`;
    const { apps: free } = await run([M, flood], { ...UNITS, rnrUnitNs: 0 });
    const { apps, durationNs } = await run([M, flood], UNITS);
    // Each message takes 2 us of the 4 units.
    const messagesPerNs = how.startsWith('rnr') ? 1 / 10_700 : apps[1].completed / (durationNs - 2e5);
    const left = 1 - (messagesPerNs * UNITS.rnrUnitNs) / UNITS.processingUnits;
    expect(Math.abs(apps[0].messageRateMmps / free[0].messageRateMmps / left - 1)).toBeLessThan(0.04);
  });

  test('they share units with queue pairs in turn, however many they are', async () => {
    const flood = 'B:name=f,op=send,size=64,depth=16,qps=16,receives=none,transport=uc,host=1,to=0';
    const single = 'M:size=8,batch=1,depth=4,qps=32,cores=32';
    const { apps } = await run([single, flood], { ...UNITS, processingUnits: 1 });
    // A step of 80.6 ns after each 2 us.
    expect(Math.abs(apps[0].messageRateMmps * 2.0806 - 1)).toBeLessThan(0.05);
  });
});

describe('the cache of receives', () => {
  const app = (qps: number) => `M:op=send,size=64,depth=1,batch=1,qps=${qps},cores=1`;
  const latency = async (qps: number, set: MixSpec['set']) =>
    (await run([app(qps)], set)).apps[0].latencyUs!.avg;

  test('costs nothing while it holds a batch of each queue', async () => {
    expect(await latency(8, { recvWqeEntries: 64 })).toBe(await latency(8, {}));
  });

  test('costs a DMA read per message when queues evict each other', async () => {
    const one = async (set: MixSpec['set']) =>
      (await run(['D:op=send,qps=2,cores=1'], set)).apps[0].latencyUs!.avg;
    const more = 1000 * ((await one({ recvWqeEntries: 8 })) - (await one({})));
    // One read of a batch of 8 WQEs of 64 bytes; the core's polling adds up to two polls.
    expect(more).toBeGreaterThan(500 - 50);
    expect(more).toBeLessThan(500 + (512 * 8) / 220 + 60);
  });
});
