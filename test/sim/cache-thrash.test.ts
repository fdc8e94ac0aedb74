/**
 * NIC caches beyond their size, against closed forms. The NIC is cx6-100g without PCIe jitter, on a link that is not a
 * bottleneck. Expected values and tolerances were written down before the first run.
 */
import { describe, expect, test } from 'vitest';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import { Bulk } from './bulk.ts';
import { connect, drain, type End, makeEnd, pair, post, SIGNALED } from './helpers.ts';

const CX6 = PROFILES['cx6-100g'];
const ENTRIES = 20;
/** The DMA read times of a context and of a table line. */
const readNs = (bytes: number) => CX6.dmaReadNs + (bytes * 8) / CX6.pcieGbps;
const SMALL = { op: 'write', size: 16, depth: 128, batch: 32 } as const;

function within(value: number, expected: number, tolerance: number): void {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
}

const missesOf = (bulk: Bulk) => bulk.sim.world.hosts.map(({ caches }) => caches.contexts.counts[1]);

describe('contexts of N queue pairs in 20 entries', () => {
  test.each([9, 16, 20])('N = %i: no misses, and 9 units are the limit', (n) => {
    const bulk = new Bulk({ qpcEntries: ENTRIES });
    for (let i = 0; i < n; i++) bulk.add({ from: 0, to: 1, ...SMALL });
    within(bulk.ratePerUs(50e3, 250e3), 9000 / CX6.wqeGapNs, 0.01);
    expect(missesOf(bulk)).toEqual([0, 0]);
  });

  // N is not 21, because short reads overtake payload, so one queue pair waiting for its requests lets the others fit.
  test.each([25, 64])(
    'N = %i: all miss, and each request occupies a unit for an additional DMA read',
    (n) => {
      const bulk = new Bulk({ qpcEntries: ENTRIES });
      for (let i = 0; i < n; i++) bulk.add({ from: 0, to: 1, ...SMALL });
      within(bulk.ratePerUs(50e3, 250e3), 9000 / (CX6.wqeGapNs + readNs(CX6.qpcBytes)), 0.02);
      // At the receiver, every packet causes one look-up.
      const { counts } = bulk.sim.world.hosts[1].caches.contexts;
      expect(counts[1]).toBeGreaterThan(0.99 * counts[0]);
      expect(counts[0]).toBeGreaterThan(1000);
    },
  );

  test('fewer queue pairs than units: each has one unit', () => {
    const bulk = new Bulk({ qpcEntries: 3 });
    for (let i = 0; i < 4; i++) bulk.add({ from: 0, to: 1, ...SMALL });
    within(bulk.ratePerUs(50e3, 250e3), 4000 / (CX6.wqeGapNs + readNs(CX6.qpcBytes)), 0.02);
  });

  test('9 datagram queue pairs with 36 destinations use 9 contexts and keep their rate', () => {
    const bulk = new Bulk({ qpcEntries: ENTRIES }, 5);
    for (let i = 0; i < 9; i++) {
      bulk.add({ from: 0, to: 1, alsoTo: [2, 3, 4], ...SMALL, op: 'datagram' });
    }
    within(bulk.ratePerUs(50e3, 250e3), 9000 / CX6.wqeGapNs, 0.01);
    expect(missesOf(bulk)).toEqual([0, 0, 0, 0, 0]);
  });

  test('the same 36 peers over reliable connections thrash', () => {
    const bulk = new Bulk({ qpcEntries: ENTRIES }, 5);
    for (let i = 0; i < 36; i++) bulk.add({ from: 0, to: 1 + (i % 4), ...SMALL });
    within(bulk.ratePerUs(50e3, 250e3), 9000 / (CX6.wqeGapNs + readNs(CX6.qpcBytes)), 0.02);
  });

  test('destroyed queue pairs free their contexts', () => {
    const [a, b, fabric] = pair({ profile: { ...CX6, qpcEntries: 2 } });
    const others = [0, 1].map(() => [makeEnd(fabric, 0), makeEnd(fabric, 1)]);
    for (const [near, far] of others) connect(near, far);
    const { contexts } = fabric.simulation.world.hosts[0].caches;
    expect([contexts.live, contexts.fits]).toEqual([3, false]);
    const [[near], [reset]] = others;
    near.v.destroyQp(near.qp);
    reset.v.modifyQp(reset.qp, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
    expect([contexts.live, contexts.fits]).toEqual([1, true]);
    a.v.modifyQp(a.qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    expect(contexts.live).toBe(0);
    expect(fabric.simulation.world.hosts[1].caches.contexts.live).toBe(3);
    expect(b.v).toBe(a.v);
  });
});

describe('regions and pages: what a miss adds to one WRITE', () => {
  const PAGES = 9;
  const PROFILE = { ...CX6, pcieJitter: 0 };

  /** Latencies of single WRITEs of `bytes` each; `target(i)` gives memory and offset. */
  function latencies(
    changes: Partial<typeof CX6>,
    count: number,
    bytes: number,
    target: (i: number, end: End, more: V.MrInfo[]) => { mr: V.MrInfo; offset: number },
  ): number[] {
    const [a, b, fabric] = pair({ profile: { ...PROFILE, ...changes } }, { bytes: PAGES * 4096 });
    const more = [a, b].map((end) => Array.from({ length: 8 }, () => end.v.allocMr(end.pd, 4096, 7)));
    return Array.from({ length: count }, (_, i) => {
      const from = target(i, a, more[0]);
      const to = target(i, b, more[1]);
      const begunNs = fabric.nowNs;
      const addr = from.mr.addr + from.offset;
      a.send.write(i, SIGNALED, addr, bytes, from.mr.lkey, to.mr.addr + to.offset, to.mr.rkey);
      post(a);
      expect(drain(fabric, a).map((wc) => wc.status)).toEqual(['SUCCESS']);
      return fabric.nowNs - begunNs;
    });
  }

  const mean = (numbers: number[]) => numbers.reduce((sum, x) => sum + x, 0) / numbers.length;
  const inTurn = (i: number, end: End, more: V.MrInfo[]) => ({
    mr: [end.mr, ...more][i % 9],
    offset: 0,
  });
  const pageInTurn = (i: number, end: End) => ({ mr: end.mr, offset: (i % PAGES) * 4096 });
  const warm = mean(latencies({}, 18, 16, inTurn));

  test('9 regions in 8 entries: one more read at each end', () => {
    const all = latencies({ mptEntries: 8 }, 36, 16, inTurn).slice(9);
    within(mean(all) - warm, 2 * readNs(64), 0.01);
  });

  test('9 regions in 9 entries: no more reads', () => {
    expect(mean(latencies({ mptEntries: 9 }, 36, 16, inTurn)) - warm).toBeCloseTo(0, 6);
  });

  test('9 pages of 17 in 8 entries: one more read at each end; a single page stays cached', () => {
    const all = latencies({ mttEntries: 8 }, 36, 16, pageInTurn).slice(9);
    within(mean(all) - warm, 2 * readNs(64), 0.01);
    const same = latencies({ mttEntries: 8 }, 36, 16, (_, end) => ({ mr: end.mr, offset: 0 })).slice(1);
    expect(mean(same) - warm).toBeCloseTo(0, 6);
  });

  test('neither region nor page is cached: one read after the other', () => {
    const all = latencies({ mptEntries: 8, mttEntries: 8 }, 36, 16, inTurn).slice(9);
    within(mean(all) - warm, 4 * readNs(64), 0.01);
  });

  test('a packet on two pages reads both at once', () => {
    const both = latencies({ mttEntries: 4 }, 36, 64, (i, end) => ({
      mr: end.mr,
      offset: ((2 * i) % 8) * 4096 + 4096 - 32,
    })).slice(8);
    const one = mean(latencies({}, 9, 64, (_, end) => ({ mr: end.mr, offset: 0 })));
    // The second line follows the first on PCIe.
    within(mean(both) - one, 2 * (readNs(64) + (64 * 8) / CX6.pcieGbps), 0.01);
  });
});
