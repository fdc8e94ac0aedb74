/**
 * The receiver of the NIC: rates, order and receives. The NIC is cx6-100g without PCIe jitter. Expected
 * values and tolerances were written down before the first run.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import { Bulk } from './bulk.ts';
import { connect, drain, makeEnd, pair, post, postRecv, SIGNALED, take } from './helpers.ts';
import { runProgram, steps } from './programs.ts';

const CX6 = PROFILES['cx6-100g'];
const PROFILE = { ...CX6, pcieJitter: 0 };

function within(value: number, expected: number, tolerance: number): void {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
}

describe('rates of one receiver', () => {
  test('WRITEs of two hosts into one: 112 M/s', () => {
    const bulk = new Bulk({}, 3);
    for (let i = 0; i < 18; i++)
      bulk.add({ from: 1 + (i % 2), to: 0, op: 'write', size: 16, depth: 128, batch: 32 });
    within(bulk.ratePerUs(50e3, 250e3), 112, 0.01);
  });

  test('READs: 111 M/s', () => {
    const bulk = new Bulk({ processingUnits: 64 }, 3);
    for (let i = 0; i < 36; i++)
      bulk.add({ from: 1 + (i % 2), to: 0, op: 'read', size: 16, depth: 64, batch: 1 });
    within(bulk.ratePerUs(50e3, 250e3), 111, 0.01);
  });

  test('atomics: 5 M/s over all senders', () => {
    const bulk = new Bulk({}, 3);
    for (let i = 0; i < 8; i++)
      bulk.add({ from: 1 + (i % 2), to: 0, op: 'fetchAdd', size: 8, depth: 16, batch: 1 });
    within(bulk.ratePerUs(100e3, 1100e3), 5, 0.01);
  });

  test('atomics do not delay WRITEs of other queue pairs', () => {
    const rate = (atomics: number) => {
      const bulk = new Bulk({}, 3);
      for (let i = 0; i < atomics; i++)
        bulk.add({ from: 1, to: 0, op: 'fetchAdd', size: 8, depth: 16, batch: 1 });
      for (let i = 0; i < 4; i++) bulk.add({ from: 2, to: 0, op: 'write', size: 16, depth: 128, batch: 32 });
      return bulk.ratePerUs(100e3, 300e3);
    };
    // Four queue pairs have 4 x 12.4 M/s; the atomics of others come on top.
    within(rate(0), 4000 / CX6.wqeGapNs, 0.01);
    within(rate(4), 4000 / CX6.wqeGapNs + 5, 0.01);
  });
});

test('an idle receiver costs no events', () => {
  const events = (rxGapNs: number) => {
    const [a, b, fabric] = pair({ profile: { ...PROFILE, rxGapNs } }, { bytes: 1 << 20 });
    const { mr } = a;
    a.send.write(1, SIGNALED, mr.addr, 1 << 20, mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.write(2, SIGNALED, mr.addr, 16, mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    let count = 0;
    while (fabric.simulation.step()) count++;
    expect(take(a).map((wc) => wc.status)).toEqual(['SUCCESS', 'SUCCESS']);
    return [count, fabric.nowNs, fabric.traceHash()];
  };
  expect(events(CX6.rxGapNs)).toEqual(events(0));
});

test('a packet waits behind those of its own queue pair only', () => {
  const [a, b, fabric] = pair({ profile: { ...PROFILE, atomicGapNs: 10_000 } });
  const [c, d] = [makeEnd(fabric, 0), makeEnd(fabric, 1)];
  connect(c, d);
  for (let i = 0; i < 3; i++) a.send.fetchAdd(i, SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
  a.send.write(3, SIGNALED, a.mr.addr, 16, a.mr.lkey, b.mr.addr + 64, b.mr.rkey);
  c.send.write(4, SIGNALED, c.mr.addr, 16, c.mr.lkey, d.mr.addr, d.mr.rkey);
  post(a);
  post(c);
  fabric.simulation.runUntil(5000);
  expect(take(a).map((wc) => wc.wrId)).toEqual([0]);
  expect(take(c).map((wc) => wc.wrId)).toEqual([4]);
  // The third atomic starts 20 us after the first, and the WRITE starts at the same time.
  fabric.simulation.runUntil(19_000);
  expect(take(a).map((wc) => wc.wrId)).toEqual([1]);
  fabric.simulation.run();
  expect(take(a).map((wc) => wc.wrId)).toEqual([2, 3]);
});

describe('receives are fetched ahead', () => {
  const READ_NS = CX6.dmaReadNs + (64 * 8) / CX6.pcieGbps;

  /** Time from post to completion at the receiver, for each of ten SENDs. */
  function latencies(stock: number, shared: boolean): number[] {
    const [a, b, fabric] = pair({ profile: PROFILE });
    const { v } = b;
    const srq = shared ? v.createSrq(b.pd, { maxWr: 64, maxSge: 1 }).handle : 0;
    let [from, to] = [a, b];
    if (shared) {
      const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
      const { sendCq, recvCq } = b;
      const { handle, qpNum } = v.createQp(b.pd, {
        qpType: V.IBV_QPT_RC,
        sendCq,
        recvCq,
        cap,
        sqSigAll: false,
        srq,
      });
      [from, to] = [makeEnd(fabric, 0), { ...b, qp: handle, qpNum }];
      connect(from, to);
    }
    const receive = (i: number) => {
      b.recv.recv(i, b.mr.addr, 64, b.mr.lkey);
      if (!shared) postRecv(b);
      else {
        v.postSrqRecv(srq, b.recv.ring, 0, 1);
        b.recv.clear();
      }
    };
    for (let i = 0; i < stock; i++) receive(i);
    return Array.from({ length: 10 }, (_, i) => {
      if (stock === 0) receive(i);
      const begunNs = fabric.nowNs;
      from.send.send(i, SIGNALED, from.mr.addr, 16, from.mr.lkey);
      post(from);
      while (take(to, to.recvCq).length === 0) fabric.simulation.step();
      const tookNs = fabric.nowNs - begunNs;
      expect(drain(fabric, from).map((wc) => wc.status)).toEqual(['SUCCESS']);
      return tookNs;
    });
  }

  test.each([false, true])(
    'shared: %s. Only the first message waits for its receive to be fetched',
    (shared) => {
      const [first, ...others] = latencies(10, shared);
      const rest = others.reduce((sum, x) => sum + x, 0) / 9;
      // A single measurement is blurred by polls of 25 ns each.
      expect(Math.max(...others) - Math.min(...others)).toBeLessThan(60);
      expect(Math.abs(first - rest - READ_NS)).toBeLessThan(80);
      for (const each of latencies(0, shared)) expect(Math.abs(each - rest - READ_NS)).toBeLessThan(80);
    },
  );
});

test('random programs with cache misses and faulty links: everything arrives once and in order', () => {
  const profile = {
    ...CX6,
    qpcEntries: 1,
    mptEntries: 1,
    mttEntries: 2,
    rxGapNs: 150,
    readGapNs: 200,
    atomicGapNs: 900,
  };
  const share = fc.constantFrom(0, 0.1);
  fc.assert(
    fc.property(
      steps,
      fc.integer({ min: 0, max: 1e9 }),
      fc.record({ loss: share, reorder: share, duplicate: share }),
      fc.constantFrom(1, 16),
      (program, seed, faults, maxRdAtomic) =>
        runProgram(program, { seed, profile, ...faults }, V.IBV_MTU_1024, maxRdAtomic),
    ),
    { numRuns: 150 },
  );
});

test('destroying a queue pair drops the packets waiting for it', () => {
  const fabric = createFabric({ autoAdvance: false, profile: { ...PROFILE, atomicGapNs: 1e6 } });
  const [a, b] = [makeEnd(fabric, 0, { timeout: 4, retryCnt: 1 }), makeEnd(fabric, 1)];
  connect(a, b);
  for (let i = 0; i < 5; i++) a.send.fetchAdd(i, SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
  post(a);
  fabric.simulation.runUntil(10_000);
  expect(fabric.simulation.world.packets.live).toBeGreaterThan(2);
  b.v.destroyQp(b.qp);
  expect(drain(fabric, a).map((wc) => wc.status)).toContain('RETRY_EXC_ERR');
  expect(fabric.brokenInvariants()).toEqual([]);
});
