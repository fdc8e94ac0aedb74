/**
 * Accuracy of the cycle model: what Tassel's figures 7 and 8 show, with the tolerances written down before the first
 * run. A rate counts bytes on the wire.
 */
import { describe, expect, test } from 'vitest';
import { RandomStream } from '../../../src/sim/kernel/random.ts';
import { HEADERS, LINK_BPS, Meter, MTU, packetTicks, US } from './meter.ts';

describe('one queue pair (figure 7)', () => {
  const RATES = [100e3, 333e3, 7.77e6, 1.23e9, 99.9e9];

  test.each(RATES)('at %d bit/s: mean within 0.1 %, every gap within one tick, over 1,000 packets', (bps) => {
    const gap = packetTicks(MTU + HEADERS, bps);
    const meter = new Meter({ queuePairs: 10_000 });
    meter.start(7, bps);
    meter.run(Math.ceil(1000.5 * gap) + 3 * US);
    expect(meter.ticks[7].length).toBeGreaterThan(1000);
    expect(Math.abs(meter.rate(7) / bps - 1)).toBeLessThan(0.001);
    expect(meter.gapError(7, gap)).toBeLessThanOrEqual(1);
  });

  test('messages of 1 B to 64 KiB mixed: mean within 0.1 %', () => {
    const bps = 5e9;
    const random = new RandomStream(1, 'sizes');
    const meter = new Meter({ queuePairs: 1 });
    meter.scheduler.setRate(0, bps);
    for (let i = 0; i < 1000; i++) meter.scheduler.doorbell(0, 1, 1 + (random.u32() % 65536));
    meter.run(3e7);
    expect(meter.ticks[0].length).toBeGreaterThan(5000);
    expect(Math.abs(meter.rate(0) / bps - 1)).toBeLessThan(0.001);
  });

  test('alternating messages: each packet keeps its own time, from the start to the end of a run', () => {
    const meter = new Meter({ queuePairs: 1 });
    meter.scheduler.setRate(0, 3e9);
    for (let i = 0; i < 200; i++) {
      meter.scheduler.doorbell(0, 1, 64);
      meter.scheduler.doorbell(0, 1, MTU);
    }
    meter.run(1e6);
    let ideal = meter.ticks[0][0];
    for (const [i, tick] of meter.ticks[0].entries()) {
      expect(Math.abs(tick - ideal)).toBeLessThanOrEqual(1);
      ideal += packetTicks(meter.bytes[0][i], 3e9);
    }
    expect(meter.ticks[0]).toHaveLength(400);
  });
});

/** Rates of so many queue pairs in these proportions, and the size of their messages. */
const MIXED: [bps: number, share: number, bytes: number][] = [
  [100e3, 0.3, 64],
  [333e3, 0.3, 64],
  [1e6, 0.25, 256],
  [7.77e6, 0.13, MTU],
  [50e6, 0.015, MTU],
];

/** The mixture with a few fast queue pairs, which bring the sum to about 90 % of the link. */
function mixed(queuePairs: number): { bps: number; bytes: number }[] {
  const slow = MIXED.flatMap(([bps, share, bytes]) =>
    Array.from({ length: Math.floor(queuePairs * share) }, () => ({ bps, bytes })),
  );
  const left = 0.9 * LINK_BPS - slow.reduce((sum, { bps }) => sum + bps, 0);
  const fast = queuePairs - slow.length;
  return [...slow, ...Array.from({ length: fast }, () => ({ bps: Math.floor(left / fast), bytes: MTU }))];
}

describe('many queue pairs (figure 8a)', () => {
  /** Runs for 100 ms after the last doorbell: 7 packets of the slowest. */
  function run(queuePairs: number, startTick: () => number) {
    const flows = mixed(queuePairs);
    const meter = new Meter({ queuePairs });
    const starts = flows.map((flow, qp) => ({ ...flow, qp, tick: startTick() }));
    for (const { qp, bps, bytes, tick } of starts.sort((a, b) => a.tick - b.tick)) {
      meter.scheduler.runUntil(tick);
      meter.start(qp, bps, bytes);
    }
    meter.run(25e6);
    return { flows, meter };
  }

  const expectAccurate = ({ flows, meter }: ReturnType<typeof run>) => {
    for (const [qp, { bps }] of flows.entries()) {
      expect(meter.ticks[qp].length).toBeGreaterThan(5);
      expect(Math.abs(meter.rate(qp) / bps - 1), `${bps} bit/s`).toBeLessThan(0.005);
    }
  };

  test('1,000 of mixed rates that begin in the same tick: each within 0.5 %, first packet to last', () => {
    expectAccurate(run(1000, () => 0));
  }, 60_000);

  test('10,000 of mixed rates that begin within 13 ms: each within 0.5 %, first packet to last', {
    tags: ['long'],
    timeout: 120_000,
  }, () => {
    const random = new RandomStream(1, 'starts');
    expectAccurate(run(10_000, () => random.u32() % 3.25e6));
  });
});

describe('oversubscription (figure 8b)', () => {
  const shares = (rates: number[]) => {
    const meter = new Meter({ queuePairs: rates.length });
    for (const [qp, bps] of rates.entries()) meter.start(qp, bps);
    meter.run(10_000 * US);
    return rates.map((_, qp) => meter.rate(qp, 1000 * US));
  };

  test.each([
    [2, [100e9, 50e9, 30e9, 15e9, 5e9]],
    [5, [100e9, 100e9, 100e9, 90e9, 50e9, 40e9, 19e9, 1e9]],
  ])('Phi %d: each at r / Phi within 1 %', (phi, rates) => {
    for (const [i, rate] of shares(rates).entries())
      expect(Math.abs(rate / (rates[i] / phi) - 1)).toBeLessThan(0.01);
  });

  test('1,000 queue pairs at Phi 2: each at r / Phi within 1 %', () => {
    const rates = [
      ...Array.from({ length: 900 }, () => 10e6),
      ...Array.from({ length: 80 }, () => 100e6),
      ...Array.from({ length: 20 }, () => 9.15e9),
    ];
    const meter = new Meter({ queuePairs: 1000 });
    // Slow queue pairs have short messages, for enough packets in 100 ms.
    for (const [qp, bps] of rates.entries()) meter.start(qp, bps, bps < 100e6 ? 256 : MTU);
    meter.run(25e6);
    expect(meter.scheduler.time.phi).toBeCloseTo(2, 9);
    for (const [qp, bps] of rates.entries())
      expect(Math.abs(meter.rate(qp) / (bps / 2) - 1), `${bps} bit/s`).toBeLessThan(0.01);
  }, 60_000);

  test('the link is never used beyond its capacity, except for one packet and one tick', () => {
    const meter = new Meter({ queuePairs: 3 });
    for (const [qp, bytes] of [4096, 3000, 2000].entries()) meter.start(qp, 60e9, bytes);
    meter.run(1000 * US);
    const { log } = meter;
    let sum = 0;
    for (const [i, { tick }] of log.entries()) {
      expect(sum * 0.02).toBeLessThanOrEqual(tick - log[0].tick + 1);
      sum += log[i].bytes;
    }
    expect(sum * 0.02).toBeGreaterThan(0.99 * 1000 * US - 3 * US);
  });
});

describe('throughput of the structure (3.2.3)', () => {
  test('n = 8: 8.0 M requests/s and 65.5 Gbps of 1 KB messages', () => {
    const meter = new Meter({ queuePairs: 1 });
    meter.start(0, LINK_BPS, 1024);
    meter.run(1000 * US);
    const perUs = meter.ticks[0].length / (1000 - 1);
    expect(Math.abs(perUs / 8 - 1)).toBeLessThan(0.01);
    expect(Math.abs((perUs * 1024 * 8e-3) / 65.5 - 1)).toBeLessThan(0.01);
  });

  test('with n = 8, packets of 1563 B reach 100 Gbps and smaller ones do not (headers excluded)', () => {
    const gbps = (bytes: number) => {
      const meter = new Meter({ queuePairs: 1, headerBytes: 0, rethBytes: 0 });
      meter.start(0, LINK_BPS, bytes);
      meter.run(1000 * US);
      return (meter.ticks[0].length * bytes * 8) / 999e3;
    };
    expect(gbps(1500)).toBeGreaterThan(95.5);
    expect(gbps(1500)).toBeLessThan(96.5);
    expect(gbps(1563)).toBeGreaterThan(99.5);
  });

  test('k = 60: 60 M/s from many queue pairs', () => {
    const meter = new Meter({ queuePairs: 16 });
    for (let qp = 0; qp < 16; qp++) meter.start(qp, LINK_BPS / 16, 64);
    meter.run(1000 * US);
    expect(Math.abs(meter.log.length / 999 / 60 - 1)).toBeLessThan(0.01);
  });

  test('half the descriptors send half as much', () => {
    const meter = new Meter({ queuePairs: 16, descriptors: 30 });
    for (let qp = 0; qp < 16; qp++) meter.start(qp, LINK_BPS / 16, 64);
    meter.run(1000 * US);
    expect(Math.abs(meter.log.length / 999 / 30 - 1)).toBeLessThan(0.01);
  });
});

test('a queue pair without messages uses nothing of the link, and sends again at its rate', () => {
  const meter = new Meter({ queuePairs: 2 });
  meter.scheduler.setRate(0, 1e9);
  meter.start(1, 99e9);
  for (let i = 0; i < 100; i++) {
    meter.scheduler.doorbell(0, 1, MTU);
    // The next message comes long after the packet time of 33.5 us, or within it.
    meter.run((i % 2 === 0 ? 100 : 10) * US);
  }
  expect(meter.ticks[0]).toHaveLength(100);
  expect(meter.scheduler.time.phi).toBeLessThanOrEqual(1);
  const gaps = meter.ticks[0].slice(1).map((tick, i) => tick - meter.ticks[0][i]);
  expect(Math.min(...gaps)).toBeGreaterThan(packetTicks(MTU + HEADERS, 1e9) - US / 2);
});
