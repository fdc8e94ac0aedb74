/** What Tassel is compared with in its cycle model: token buckets with a scan, and pacing as in the kernel's fq. */
import { describe, expect, test } from 'vitest';
import { FairQueue } from '../../../src/sim/tassel/others/fair-queue.ts';
import { TokenBuckets } from '../../../src/sim/tassel/others/token-buckets.ts';
import { HEADERS, MTU, packetTicks, US } from './meter.ts';

const WIRE = MTU + HEADERS;
const flow = (bps: number) => ({ bps, wireBytes: WIRE, startTick: 0 });

/** The ticks at which packets of queue pair 0 leave. */
function bucketTicks(rates: number[], ticks: number): number[] {
  const left: number[] = [];
  const model = new TokenBuckets(rates.map(flow), (qp) => qp === 0 && left.push(model.tick[0]));
  model.runUntil(ticks);
  return left;
}

function fqTicks(bps: number, ticks: number, slackNs?: number): number[] {
  const left: number[] = [];
  const model = new FairQueue([flow(bps)], () => left.push(model.tick[0]), { mtuWireBytes: WIRE, slackNs });
  model.runUntil(ticks);
  return left;
}

const gapsOf = (ticks: number[]) => ticks.slice(1).map((tick, i) => tick - ticks[i]);

describe('token buckets', () => {
  test.each([100e3, 1.23e9, 99.9e9])('one at %d bit/s: every gap within one tick', (bps) => {
    const gap = packetTicks(WIRE, bps);
    const gaps = gapsOf(bucketTicks([bps], 500 * gap));
    expect(gaps.length).toBeGreaterThan(490);
    for (const each of gaps) expect(Math.abs(each - gap)).toBeLessThanOrEqual(1);
  });

  test('1,000: a packet waits for its turn in the scan, and what accrues in 4 us leaves at once', () => {
    const ticks = bucketTicks([50e9, ...Array.from({ length: 999 }, () => 1e6)], 4000 * US);
    const gap = packetTicks(WIRE, 50e9);
    const rate = ((ticks.length - 1) * gap) / (ticks.at(-1)! - ticks[0]);
    expect(Math.abs(rate - 1)).toBeLessThan(0.01);
    // 25 kB in a scan are 5 or 6 packets, one behind another on the link.
    const within = ticks.map((tick) => ticks.filter((each) => each >= tick && each < tick + 500).length);
    expect(Math.max(...within)).toBeGreaterThanOrEqual(5);
  });
});

describe('fq', () => {
  test('sends a quantum of two packets at once, after ten at the beginning', () => {
    const ticks = fqTicks(1e9, 4000 * US, 0);
    const wire = packetTicks(WIRE, 100e9);
    expect(gapsOf(ticks.slice(0, 10)).every((gap) => gap <= wire + 1)).toBe(true);
    const pairs = gapsOf(ticks.slice(10));
    for (const [i, gap] of pairs.entries()) {
      if (i % 2 === 0) expect(gap).toBeLessThanOrEqual(wire + 1);
      else expect(Math.abs(gap + wire - 2 * packetTicks(WIRE, 1e9))).toBeLessThanOrEqual(2);
    }
  });

  test('sends single packets up to 550 kbit/s', () => {
    const gap = packetTicks(WIRE, 500e3);
    for (const each of gapsOf(fqTicks(500e3, 50 * gap, 0)).slice(1))
      expect(Math.abs(each - gap)).toBeLessThanOrEqual(1);
  });

  test('makes up for a late timer, but not for more than half of the time of a quantum', () => {
    const part = (bps: number) => {
      const ticks = fqTicks(bps, 20_000 * US).slice(10);
      return ((ticks.length - 1) * packetTicks(WIRE, bps)) / (ticks.at(-1)! - ticks[0]);
    };
    expect(Math.abs(part(1e9) - 1)).toBeLessThan(0.01);
    // 8388 B take 3.36 us at 20 Gbit/s, and 1.68 + 10 us are between two quanta.
    expect(Math.abs(part(20e9) / (3.355 / 11.68) - 1)).toBeLessThan(0.03);
  });
});
