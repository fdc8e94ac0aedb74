/**
 * Rates in one direction of a link. The bounds of the software form of Tassel were written down before the first run: means
 * within 1 %, gaps within a piece's time on the link, 2 % for thousands of queue pairs, 3 % of r / Phi where rates exceed the
 * link, the first piece of a queue pair that joins within 2.5 us or l/r x Phi, and a change of a rate within 10 us.
 */
import { describe, expect, test } from 'vitest';
import { Tags } from '../../../src/policies/tassel/tags.ts';
import { LINK_PER_NS, PIECE, Rig } from './rig.ts';

const PIECE_NS = PIECE / LINK_PER_NS;

describe('one queue pair', () => {
  test.each([1e-4, 333e-6, 7.77e-3, 1.23, 99.9])('%d Gbit/s', (gbps) => {
    const rig = new Rig();
    const qp = rig.add(gbps);
    rig.run(1000 + (1100 * 8 * PIECE) / gbps);
    expect(rig.sent[qp].bytes / PIECE).toBeGreaterThan(1000);
    expect(Math.abs(rig.gbpsOf(qp) / gbps - 1)).toBeLessThan(0.01);
    expect(rig.sent[qp].gapErrorNs).toBeLessThan(PIECE_NS);
  });
});

describe('thousands of queue pairs with different rates', () => {
  const counts: [number, string[]][] = [
    [1000, []],
    [10_000, ['long']],
  ];
  for (const [count, tags] of counts) test(`${count} queue pairs`, { tags }, () => rated(count));

  function rated(count: number): void {
    const rig = new Rig();
    // From 1 to 100 parts, 80 % of the link together.
    const parts = Array.from({ length: count }, (_, i) => 10 ** ((2 * ((i * 7919) % count)) / count));
    const sum = parts.reduce((a, b) => a + b, 0);
    const rates = parts.map((part) => (part / sum) * 80);
    for (const gbps of rates) rig.add(gbps);
    const slowest = Math.min(...rates);
    rig.run(1000 + (12 * 8 * PIECE) / slowest);
    const errors = rates.map((gbps, qp) => Math.abs(rig.gbpsOf(qp) / gbps - 1));
    expect(Math.max(...errors)).toBeLessThan(0.02);
  }
});

describe('rates that exceed the link', () => {
  test.each([2, 5])('each queue pair has its rate over Phi = %d', (phi) => {
    const rig = new Rig();
    const rates = Array.from({ length: 100 }, (_, i) => ((1 + (i % 10)) / 550) * 100 * phi);
    for (const gbps of rates) rig.add(gbps);
    rig.run(20e6);
    rig.forget();
    rig.run(120e6);
    expect(rig.tags.phi).toBeCloseTo(phi, 6);
    for (const [qp, gbps] of rates.entries())
      expect(Math.abs((rig.sent[qp].bytes * 8) / 100e6 / (gbps / phi) - 1)).toBeLessThan(0.03);
  });

  test.each([
    [60, PIECE],
    [6, PIECE],
    [0.6, PIECE],
    [0.6, 162],
    [0.06, 162],
  ])('a queue pair with %d Gbit/s that joins with pieces of %d bytes is soon served', (gbps, bytes) => {
    const rig = new Rig();
    for (const each of [90, 60, 50]) rig.add(each);
    rig.run(1e6);
    const qp = rig.prepare(gbps, bytes);
    rig.join(qp);
    const phi = (200 + gbps) / 100;
    rig.run(1.4e6);
    const delayNs = rig.sent[qp].firstNs - 1e6;
    expect(delayNs).toBeLessThan(gbps === 60 ? 2500 : ((8 * bytes) / gbps) * phi);
  });

  test('while the link is behind, short messages go before long ones that would end later', () => {
    const rig = new Rig();
    const [long, short] = [rig.prepare(10), rig.prepare(1, 162)];
    for (const qp of [long, short]) rig.join(qp);
    expect(rig.tags.next()).toBe(short);
  });

  describe('a queue pair with 10 Gbit/s that could not send for a while', () => {
    /** Bits per ns of its rate that it sends in 10 ms, relative to it. `lateNs`: of a timer before. */
    function sentNs(lateNs: number, heldNs: number, wasHeld: boolean): number {
      const rig = new Rig();
      const qp = rig.add(10);
      rig.run(1e6);
      rig.nowNs = rig.tags.wakeNs + lateNs;
      rig.run(rig.nowNs + 100_000);
      rig.leave(qp);
      rig.run(rig.nowNs + heldNs);
      rig.join(qp, wasHeld);
      rig.run(200e6);
      return (rig.sent[qp].bytes * 8) / 10;
    }

    test('makes up for that time where the host has been late', () => {
      expect(sentNs(500_000, 1e6, true) / 200e6).toBeCloseTo(1, 4);
    });

    test('makes up for no longer time than the host has been late by', () => {
      expect(sentNs(500_000, 49e6, true) / (151e6 + 64 * 0.5e6)).toBeLessThan(1.0001);
      expect(sentNs(100e6, 99e6, true) / (200e6 - 99e6 + 50e6)).toBeLessThan(1.0001);
    });

    test('makes up for nothing where the host is in time, or if it had nothing to send', () => {
      expect(sentNs(0, 1e6, true) / 199e6).toBeCloseTo(1, 4);
      expect(sentNs(500_000, 1e6, false) / 199e6).toBeCloseTo(1, 4);
    });
  });

  test('the lateness of a host is forgotten while timers are in time', () => {
    const rig = new Rig();
    rig.add(10);
    rig.run(1e6);
    rig.nowNs = rig.tags.wakeNs + 500_000;
    rig.run(2e6);
    expect(rig.tags.lateNs).toBeGreaterThan(0);
    rig.run(6e6);
    expect(rig.tags.lateNs).toBe(0);
  });

  test('time without a queue pair is no lateness', () => {
    const rig = new Rig();
    const qp = rig.add(10);
    rig.run(1e6);
    rig.leave(qp);
    rig.run(50e6);
    rig.join(qp);
    rig.run(51e6);
    expect(rig.tags.lateNs).toBe(0);
  });

  test('a rate next to nothing', () => {
    const rig = new Rig();
    const slow = rig.add(1e-300);
    rig.run(1e9);
    expect(rig.sent[slow].bytes).toBeLessThanOrEqual(PIECE);
    rig.leave(slow);
    expect(rig.tags.count).toBe(0);
  });

  /** The most bytes of a queue pair with 20 Gbit/s in any 10 us after rates have exceeded the link. */
  function mostAfterwards(rig: Rig): number {
    const slow = rig.add(20);
    const others = [100, 80].map((gbps) => rig.add(gbps));
    rig.run(1e6);
    for (const qp of others) rig.leave(qp);
    const times: number[] = [];
    rig.onPiece = (qp, nowNs) => qp === slow && times.push(nowNs);
    rig.run(2e6);
    const within = (startNs: number) => times.filter((ns) => ns >= startNs && ns < startNs + 10e3).length;
    return PIECE * Math.max(...times.map(within));
  }

  test('after it ends, a queue pair does not exceed its rate in any 10 us', () => {
    expect(mostAfterwards(new Rig())).toBeLessThanOrEqual((20 * 10e3) / 8 + PIECE);
  });

  /** System time as printed in section 3.1.2: it runs faster, the more rates exceed the link. */
  class Printed extends Tags {
    protected override slowdownAt(load: number): number {
      return 1 / Math.max(1, load);
    }
  }

  test('with the formula as printed, neither holds', () => {
    const printed = () => new Rig((rates) => new Printed(rates, LINK_PER_NS));
    const rig = printed();
    for (const each of [90, 60, 50]) rig.add(each);
    rig.run(1e6);
    const qp = rig.add(60);
    rig.run(1.2e6);
    expect(rig.sent[qp].bytes).toBe(0);
    // Nearly the whole link.
    expect(mostAfterwards(printed())).toBeGreaterThan((90 * 10e3) / 8);
  });
});

describe('a rate that changes', () => {
  test('from 100 Kbit/s to 100 Gbit/s within 10 us, and down within 2 us', () => {
    const rig = new Rig();
    const qp = rig.add(1e-4);
    rig.run(1e6);
    expect(rig.sent[qp].bytes).toBe(PIECE);
    rig.setRate(qp, 100);
    rig.forget();
    rig.run(1e6 + 10e3);
    expect(rig.sent[qp].firstNs).toBeLessThan(1e6 + 10e3);
    rig.run(2e6);
    rig.setRate(qp, 1e-4);
    rig.forget();
    rig.run(3e6);
    // What the new rate allows, and a piece.
    expect(rig.sent[qp].bytes).toBeLessThanOrEqual(PIECE);
  });

  test('if what is left of the last piece stays, it lasts for long', () => {
    class Unscaled extends Tags {
      override rescale(): void {}
    }
    const rig = new Rig((rates) => new Unscaled(rates, LINK_PER_NS));
    const qp = rig.add(1e-4);
    rig.run(1e6);
    rig.setRate(qp, 100);
    rig.forget();
    rig.run(100e6);
    expect(rig.sent[qp].bytes).toBe(0);
  });

  test('a hundred thousand times a second, without any growth', () => {
    const rig = new Rig();
    const qp = rig.add(1);
    const rate = (i: number) => (i % 2 === 0 ? 10 : 30);
    for (let i = 0; i < 10_000; i++) {
      rig.setRate(qp, rate(i));
      rig.run(rig.nowNs + 10_000);
    }
    expect(rig.tags.entries).toBeLessThanOrEqual(1);
    expect(Math.abs((rig.sent[qp].bytes * 8) / (rig.nowNs - 1000) / 20 - 1)).toBeLessThan(0.02);
  });
});

describe('limits that several queue pairs share', () => {
  const shared = (limitGbps: number[], count: number, own = 0) => {
    const rig = new Rig();
    for (const [limit, gbps] of limitGbps.entries()) {
      rig.rates.setLimit(limit, 8 / gbps);
      rig.tags.begin(limit);
    }
    for (let i = 0; i < count; i++) {
      const qp = rig.prepare(own);
      rig.rates.setOwn(qp, own === 0 ? 0 : 8 / own);
      for (const limit of limitGbps.keys()) rig.rates.assign(qp, limit, limit);
      rig.rates.fit(qp);
      rig.join(qp);
    }
    rig.run(50e6);
    return rig.sent.map(({ bytes }) => (bytes * 8) / 50e6);
  };

  test('the lowest of several limits holds, in equal parts', () => {
    for (const rates of [[10], [40, 10], [10, 40], [25, 30, 10]]) {
      const each = shared(rates, 20);
      for (const gbps of each) expect(Math.abs(gbps / 0.5 - 1)).toBeLessThan(0.02);
    }
  });

  test('what a full window takes from a limit in use is made up for', () => {
    const rig = new Rig();
    rig.rates.setLimit(0, 8);
    rig.tags.begin(0);
    const qp = rig.prepare(1);
    rig.rates.setOwn(qp, 0);
    rig.rates.assign(qp, 0, 0);
    rig.rates.fit(qp);
    rig.join(qp);
    let pieces = 0;
    rig.onPiece = () => {
      pieces++;
      if (pieces % 20 === 0) rig.nowNs += 500e3;
    };
    rig.run(50e6);
    expect(Math.abs((rig.sent[qp].bytes * 8) / 50e6 - 1)).toBeLessThan(0.02);
  });

  test('a loose limit that queue pairs share does not forgive what the link takes from their own rates', () => {
    const rig = new Rig();
    rig.rates.setLimit(0, 8 / 40);
    rig.tags.begin(0);
    const qps = [2, 2, 2].map((gbps) => {
      const qp = rig.prepare(gbps);
      rig.rates.assign(qp, 0, 0);
      rig.rates.fit(qp);
      rig.join(qp);
      return qp;
    });
    let pieces = 0;
    rig.onPiece = () => {
      pieces++;
      if (pieces % 20 === 0) rig.nowNs += 50e3;
    };
    rig.run(50e6);
    for (const qp of qps) expect(Math.abs((rig.sent[qp].bytes * 8) / 50e6 / 2 - 1)).toBeLessThan(0.01);
  });

  test('queue pairs with lower rates of their own do not use up the limit', () => {
    const each = shared([10], 20, 0.25);
    for (const gbps of each) expect(Math.abs(gbps / 0.25 - 1)).toBeLessThan(0.02);
  });
});

test('a clock that jumps back or far ahead costs at most what may be made up for', () => {
  const rig = new Rig();
  const qp = rig.add(10);
  rig.run(1e6);
  rig.nowNs = 1000;
  rig.forget();
  rig.run(1e6);
  expect(Math.abs((rig.sent[qp].bytes * 8) / 1e6 / 10 - 1)).toBeLessThan(0.02);
  rig.nowNs += 60e9;
  const sentBytes = rig.sent[qp].bytes;
  rig.run(rig.nowNs + 30e6);
  // 30 ms at the rate, and at most 50 ms more.
  expect((rig.sent[qp].bytes - sentBytes) * 8).toBeLessThan(1.02 * 10 * 80e6);
});
