/** What tenants take of the link, and what perf's master makes of it. */
import { describe, expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import * as C from '../../src/policies/perf/columns.ts';
import { LinkRate } from '../../src/policies/perf/link-rate.ts';
import { master } from '../../src/policies/perf/master.ts';
import { granted, report } from '../support/columns.ts';

const RULES = {
  qNumAllow: 1,
  qNumCapa: 9,
  selective: false,
  rotateFrom: Number.POSITIVE_INFINITY,
  silentNs: Number.POSITIVE_INFINITY,
};

/** A tenant of large messages with this rate; it always waits for the link unless its demand says otherwise. */
const large = (wireGbps: number, demandGbps = 100, more = {}) => ({
  class: C.BANDWIDTH,
  activeQps: 1,
  largeQps: 1,
  meanBytes: 1 << 20,
  queueLength: 4,
  wireGbps,
  demandGbps,
  ...more,
});
const small = (of: number, activeQps: number, wireGbps: number, more = {}) => ({
  class: of,
  activeQps,
  meanBytes: 16,
  queueLength: of === C.DELAY ? 1 : 128,
  wireGbps,
  demandGbps: wireGbps,
  ...more,
});

/** The grants of the tenants with these reports. */
function grantsOf(reports: readonly Readonly<Record<string, number>>[], rules = RULES) {
  const coordinator = new Coordinator();
  coordinator.setLink(100);
  const pages = reports.map((one, i) => {
    const page = coordinator.join(`t${i}`)!;
    report(page, one);
    return page;
  });
  coordinator.decide(master, rules, 0);
  return (name: string) => pages.map((page) => granted(page, name));
}

describe('sharers of the link', () => {
  test('one that sends little, and does not wait for the link, leaves the rest to the others', () => {
    const grants = grantsOf([large(70), large(8, 8), small(C.DELAY, 1, 1)]);
    // 99 Gbit/s are left by D: 10 for the light tenant, 89 for the other one.
    expect(grants('busyLargeQps')[0]).toBeCloseTo(99 / 89, 6);
    expect(grants('busyLargeQps')[1]).toBe(2);
    expect(grants('split')).toEqual([1, 1, 0]);
  });

  test('one that gets less than its share, and always waits for the link, keeps its share', () => {
    expect(grantsOf([large(90), large(8), small(C.DELAY, 1, 1)])('busyLargeQps')).toEqual([2, 2, 2]);
  });

  test('with the rules of the paper, every tenant counts', () => {
    const paper = { ...RULES, selective: true };
    expect(grantsOf([large(70), large(8, 8), small(C.DELAY, 1, 1)], paper)('busyLargeQps')).toEqual([
      2, 2, 2,
    ]);
  });

  test('claims beyond the link count as the link', () => {
    const grants = grantsOf([large(1e5), large(1e5), small(C.MESSAGES, 1, 1e5)]);
    expect(grants('busyLargeQps')).toEqual([2, 2, 2]);
    expect(grants('smallGbps')).toEqual([100, 100, 100]);
  });

  test('a rare short message is one of D, and no reason for turns', () => {
    const rare = large(0.01, 0.01, { meanBytes: 1024, queueLength: 1 });
    expect(grantsOf([small(C.MESSAGES, 8, 90), rare])('qNumAllow')).toEqual([0, 0]);
    expect(grantsOf([large(90), rare])('split')).toEqual([1, 0]);
    expect(grantsOf([large(90), rare])('busyLargeQps')).toEqual([1, 1]);
  });

  test('tenants of D take the part of the message rate that they use', () => {
    const rare = Array.from({ length: 8 }, () => small(C.DELAY, 1, 0.1));
    expect(grantsOf([small(C.MESSAGES, 16, 90), ...rare])('qNumAllow')[0]).toBe(8);
    const busy = Array.from({ length: 8 }, () => small(C.DELAY, 1, 9));
    expect(grantsOf([small(C.MESSAGES, 16, 90), ...busy])('qNumAllow')[0]).toBe(1);
  });
});

describe('small messages that fill the link', () => {
  const filling = small(C.MESSAGES, 4, 99, { meanBytes: 512 });

  test('are paced next to a tenant that waits for each answer, by its queue pairs', () => {
    const grants = grantsOf([filling, small(C.DELAY, 1, 0.2)]);
    expect(grants('split')).toEqual([1, 0]);
    expect(grants('busyLargeQps')).toEqual([4, 4]);
    expect(grants('qNumAllow')).toEqual([0, 0]);
  });

  test.each([
    ['alone', [filling]],
    ['next to a tenant that waits for none', [filling, small(C.MESSAGES, 1, 0.2)]],
    ['below the rate of the link', [small(C.MESSAGES, 4, 90), small(C.DELAY, 1, 0.2)]],
    ['a small part of what fills it', [small(C.MESSAGES, 1, 11), large(88), small(C.DELAY, 1, 0.2)]],
  ])('are not paced %s', (_name, reports) => {
    expect(grantsOf(reports)('split')[0]).toBe(0);
  });

  test('are paced until they clearly no longer fill it', () => {
    const coordinator = new Coordinator();
    coordinator.setLink(100);
    const [m, d] = ['m', 'd'].map((name) => coordinator.join(name)!);
    report(d, small(C.DELAY, 1, 0.2));
    const splitAt = (wireGbps: number) => {
      report(m, { ...filling, wireGbps });
      coordinator.decide(master, RULES, 0);
      return granted(m, 'split');
    };
    expect([96, 98, 92, 88, 92].map(splitAt)).toEqual([0, 1, 1, 0, 0]);
  });
});

test('messages that stay in the device are isolated from each other only', () => {
  const inside = { loops: 1 };
  const apart = grantsOf([large(90, 100, inside), small(C.DELAY, 1, 1), small(C.MESSAGES, 128, 50)]);
  expect(apart('split')).toEqual([0, 0, 0]);
  expect(apart('qNumAllow')).toEqual([0, 0, 8]);
  const together = grantsOf([large(90, 100, inside), small(C.DELAY, 1, 1, inside), large(90)]);
  expect(together('split')).toEqual([1, 0, 0]);
  expect(together('busyLargeQps')).toEqual([1, 1, 1]);
});

describe('the rate of a context', () => {
  const MS = 1e6;

  test('is at most that of the link; what has been posted beyond it counts later', () => {
    const rate = new LinkRate(100);
    rate.add(25e6, MS, true, MS);
    expect(rate.gbps).toBe(100);
    rate.add(0, MS, true, MS);
    expect(rate.gbps).toBe(100);
  });

  test('rises at once, halves per sample, and falls faster if nothing is outstanding', () => {
    const rate = new LinkRate(100);
    rate.add(10e6, MS, true, MS);
    expect(rate.gbps).toBe(80);
    rate.add(1e6, MS, true, MS);
    expect(rate.gbps).toBe(40);
    rate.add(0, MS, false, MS);
    expect(rate.gbps).toBe(5);
    rate.add(2e6, MS, true, MS);
    expect(rate.gbps).toBe(16);
  });

  test('a context that always has something outstanding may need all of the link', () => {
    const rate = new LinkRate(100);
    rate.add(1e6, MS, true, MS);
    expect(rate.demandGbps).toBe(100);
    rate.add(1e6, MS, false, MS);
    expect(rate.demandGbps).toBe(8);
    for (let i = 0; i < 4; i++) rate.add(1e6, MS, true, MS);
    expect(rate.demandGbps).toBe(100);
  });
});
