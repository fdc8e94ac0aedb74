/**
 * What a steady state does not show: queue pairs that join and leave an oversubscribed link, and changes of rates. The
 * bounds were written down before the first run. Each has a mutant that must break it.
 */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import { SystemTime } from '../../../src/sim/tassel/system-time.ts';
import { HEADERS, LINK_BPS, Meter, MTU, NoRekeying, PrintedTime, packetTicks, US } from './meter.ts';

/** A link with these rates, in Gbit/s, for 100 us. The last queue pair has not started. */
function oversubscribed(gbps: number[], time: SystemTime): Meter {
  const meter = new Meter({ queuePairs: gbps.length + 1, time });
  for (const [qp, each] of gbps.entries()) meter.start(qp, each * 1e9);
  meter.run(100 * US);
  return meter;
}

const corrected = () => new SystemTime(LINK_BPS);
const printed = () => new PrintedTime(LINK_BPS);

describe('a queue pair that joins at Phi 2', () => {
  /** Time from the doorbell to the first packet, in ticks. */
  const join = (others: number[], bps: number, time: SystemTime) => {
    const meter = oversubscribed(others, time);
    expect(meter.scheduler.time.phi).toBeCloseTo(others.reduce((sum, each) => sum + each, 0) / 100, 9);
    const from = meter.scheduler.tick[0];
    // Few messages: packets without service would otherwise fill the Desc Buffer until no other is left in it.
    meter.scheduler.setRate(others.length, bps);
    meter.scheduler.doorbell(others.length, 8, MTU);
    meter.run(200 * US);
    return meter.firstAfter(others.length, from) - from;
  };
  const FEW = [80, 60, 60];
  const MANY = [...Array.from({ length: 9 }, () => 20), 10, 5, 5];

  test.each([
    ['3', FEW],
    ['12', MANY],
  ])('with 60 Gbps, the first packet leaves within 2.5 us, next to %s others', (_, others) => {
    expect(join(others, 60e9, corrected())).toBeLessThanOrEqual(2.5 * US);
  });

  test.each([1e6, 100e6, 1e9, 10e9, 30e9])('with %d bit/s, within l / r x Phi', (bps) => {
    const phi = 2 + bps / LINK_BPS;
    for (const others of [FEW, MANY]) {
      expect(join(others, bps, corrected())).toBeLessThanOrEqual(packetTicks(MTU + HEADERS, bps) * phi);
    }
  });

  test('mutant: with the formula as printed, it gets no service in 200 us', () => {
    expect(join(FEW, 60e9, printed())).toBe(Number.POSITIVE_INFINITY);
    // With more others, these fill the Desc Buffer, and the order of visits counts as well as the finish times.
    expect(join(MANY, 60e9, printed())).toBeGreaterThan(50 * US);
  });
});

describe('the end of an oversubscription', () => {
  const WINDOW = 10 * US;

  const PACKET_TICKS = packetTicks(MTU + HEADERS, LINK_BPS);

  /**
   * The most that a queue pair with 20 Gbps sends within 10 us, less a packet, in Gbit/s: in windows that begin when the
   * last packet of the others begins or, if `after`, when it has left.
   */
  const most = (time: SystemTime, after: boolean) => {
    const meter = new Meter({ queuePairs: 4, time });
    meter.start(0, 20e9);
    // The others end after about 0.9 ms.
    for (const [i, gbps] of [100, 80, 100].entries()) {
      meter.scheduler.setRate(i + 1, gbps * 1e9);
      meter.scheduler.doorbell(i + 1, Math.round(gbps * 9), MTU);
    }
    meter.run(2000 * US);
    expect(meter.scheduler.time.phi).toBeCloseTo(0.2, 9);
    const end = Math.max(...[1, 2, 3].map((qp) => meter.ticks[qp].at(-1)!));
    expect(end).toBeGreaterThan(500 * US);
    return (meter.mostBytesBeyondPacket(0, WINDOW, after ? end + PACKET_TICKS + 1 : end) * 8) / 10e3;
  };

  test('a queue pair with 20 Gbps stays within 20 Gbps plus one packet, in any 10 us', () => {
    expect(most(corrected(), true)).toBeLessThanOrEqual(20);
  });

  test('with the end itself in the window, it may catch up for the packet of another that it waited for', () => {
    // WF2Q+ does not interrupt a packet. The bound is r x (10 us + l / C), in whole packets.
    const packets = Math.floor((0.2 * (WINDOW + PACKET_TICKS)) / PACKET_TICKS) + 1;
    expect(most(corrected(), false)).toBeLessThanOrEqual((packets * (MTU + HEADERS) * 8) / 10e3);
  });

  test('mutant: with the formula as printed, it sends at almost 100 Gbps', () => {
    expect(most(printed(), true)).toBeGreaterThan(90);
  });
});

describe('a change of the rate', () => {
  const SLOW = 100e3;

  /** A queue pair of 1500 B packets that has been slow; its rate becomes 100 Gbps. Returns the delay in ticks. */
  const raise = (ticks: number, others = 0, Scheduler?: typeof NoRekeying) => {
    const meter = new Meter({ queuePairs: 1 + others }, Scheduler);
    for (let qp = 1; qp <= others; qp++) meter.start(qp, 50e9 / others);
    meter.start(0, SLOW, 1500 - HEADERS);
    meter.run(1000 * US);
    expect(meter.ticks[0]).toHaveLength(1);
    const from = meter.scheduler.tick[0];
    meter.scheduler.setRate(0, LINK_BPS);
    meter.run(ticks);
    return meter.firstAfter(0, from) - from;
  };

  test('100 Kbps to 100 Gbps acts within 10 us', () => {
    expect(raise(100 * US)).toBeLessThanOrEqual(10 * US);
    expect(raise(100 * US, 20)).toBeLessThanOrEqual(10 * US);
  });

  test('mutant: without rescaling, it acts after the packet time at the old rate', () => {
    const delayMs = raise(40e6, 0, NoRekeying) / US / 1000;
    expect(delayMs).toBeGreaterThan(110);
    expect(delayMs).toBeLessThanOrEqual(120);
  });

  test.each([100e3, 1e6, 1e9])('100 Gbps to %d bit/s acts within 2 us', (bps) => {
    const meter = new Meter({ queuePairs: 1 });
    meter.start(0, LINK_BPS, 1500);
    meter.run(100 * US);
    const from = meter.scheduler.tick[0];
    meter.scheduler.setRate(0, bps);
    meter.run(Math.ceil(40 * packetTicks(1500 + HEADERS, bps)));
    const later = meter.ticks[0].filter((tick) => tick > from + 2 * US);
    expect(later.length).toBeGreaterThan(5);
    const gaps = later.slice(1).map((tick, i) => tick - later[i]);
    // From the second on, all gaps are those of the new rate.
    const gap = packetTicks(1500 + HEADERS, bps);
    for (const each of gaps) expect(Math.abs(each - gap)).toBeLessThanOrEqual(1);
  });

  test('100,000 changes a second, up and down: the rate follows their mean, and every change acts', () => {
    const meter = new Meter({ queuePairs: 3 });
    meter.start(1, 30e9);
    meter.start(2, 100e3);
    const rates = [1e9, 5e9, 200e6, 3e9, 800e6];
    meter.start(0, 1e9);
    let bits = 0;
    for (let i = 0; i < 5000; i++) {
      meter.scheduler.setRate(0, rates[i % rates.length]);
      bits += rates[i % rates.length] * 10e-6;
      meter.run(10 * US);
    }
    const sent = (meter.ticks[0].length * (MTU + HEADERS) * 8) / bits;
    expect(Math.abs(sent - 1)).toBeLessThan(0.01);
    expect(Math.abs(meter.rate(1) / 30e9 - 1)).toBeLessThan(0.001);
  });

  test('a rate that grows 100,000 times a second: the P-heap keeps its size, others their rates', () => {
    const meter = new Meter({ queuePairs: 20 });
    for (let qp = 0; qp < 20; qp++) meter.start(qp, 1e6);
    meter.run(100 * US);
    let rate = 1e6;
    for (let i = 0; i < 1000; i++) {
      rate *= 1.005;
      for (let qp = 0; qp < 10; qp++) meter.scheduler.setRate(qp, rate);
      meter.run(10 * US);
      expect(meter.scheduler.heap.count).toBeLessThanOrEqual(20);
    }
    meter.run(1e6 * US);
    // All 20 begin in the same tick, so that a packet may wait for one of each other.
    const most = 20 * packetTicks(MTU + HEADERS, LINK_BPS);
    for (let qp = 10; qp < 20; qp++)
      expect(meter.gapError(qp, packetTicks(MTU + HEADERS, 1e6))).toBeLessThan(most);
    expect(Math.abs(meter.rate(0, 20_000 * US) / Math.round(rate) - 1)).toBeLessThan(0.005);
  });
});

describe('credits', () => {
  test('a queue pair sends as many packets as it has credits for, and continues at its rate', () => {
    const meter = new Meter({ queuePairs: 2 });
    meter.scheduler.setCredits(0, 3);
    meter.start(0, 10e9);
    meter.start(1, 90e9);
    meter.run(100 * US);
    expect(meter.ticks[0]).toHaveLength(3);
    expect(meter.scheduler.time.phi).toBeCloseTo(0.9, 9);
    meter.scheduler.setCredits(0, 5);
    meter.run(100 * US);
    expect(meter.ticks[0]).toHaveLength(8);
    meter.scheduler.setCredits(0, Number.POSITIVE_INFINITY);
    const from = meter.scheduler.tick[0];
    meter.run(1000 * US);
    expect(Math.abs(meter.rate(0, from) / 10e9 - 1)).toBeLessThan(0.005);
    expect(meter.scheduler.time.phi).toBeCloseTo(1, 9);
  });
});

test('rates outside 1 bit/s to the link, and doorbells that are not whole numbers, are rejected without any change', () => {
  const meter = new Meter({ queuePairs: 1 });
  meter.start(0, 10e9);
  meter.run(100 * US);
  const refused = expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' });
  for (const bps of [0, -1, Number.NaN, 100e9 + 1, Number.POSITIVE_INFINITY])
    expect(() => meter.scheduler.setRate(0, bps)).toThrow(refused);
  for (const [messages, bytes] of [
    [-1, 10],
    [1.5, 10],
    [1, -10],
    [Number.NaN, 10],
  ])
    expect(() => meter.scheduler.doorbell(0, messages, bytes)).toThrow(refused);
  for (const credits of [-1, Number.NaN])
    expect(() => meter.scheduler.setCredits(0, credits)).toThrow(refused);
  meter.run(900 * US);
  expect(Math.abs(meter.rate(0) / 10e9 - 1)).toBeLessThan(0.001);
});
