// Messages that go before all others under palos: their limit on the wire, and turns.
// @module-tag wide
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EventClock } from '../../../src/policies/kit/event-clock.ts';
import { egressBytes, ROCE } from '../../../src/policies/kit/wire.ts';
import { Urgent } from '../../../src/policies/palos/urgent.ts';
import { BYTES, COLUMNS } from '../../../src/shim/counters.ts';
import type { QpView } from '../../../src/shim/policy.ts';
import { IBV_WR_RDMA_WRITE } from '../../../src/verbs/constants.ts';
import * as L from '../../../src/verbs/layout.ts';
import { HeldRequests } from '../kit/held-requests.ts';

const TOKEN = 7;
/** 5 % of 100 Gbit/s. */
const PER_NS = 0.05 * 12.5;
const BURST = 12_500;
const LONGEST = 1000;
const MESSAGE = 256;
const onWire = (bytes: number) => egressBytes(ROCE, IBV_WR_RDMA_WRITE, bytes);
const WIRE = onWire(MESSAGE);

/** Queue pairs of these tenants ('': one of its own). */
function ground(tenants: readonly string[], limits: Partial<{ perNs: number; burstBytes: number }> = {}) {
  const requests = new HeldRequests(1e6);
  const { out } = requests;
  const options = { perNs: PER_NS, burstBytes: BURST, longestBytes: LONGEST, ...limits };
  const clock = new EventClock();
  const urgent = new Urgent({ wire: ROCE, clock, ...options });
  const qps = tenants.map((tenant, index) => {
    const view = requests.qp(index, { tenant, handle: tenant === '' ? 100 + index : 0 });
    const qp: QpView = { ...view, counts: new Float64Array(COLUMNS) };
    urgent.add(qp);
    return qp;
  });
  const words = new Uint32Array(L.HEADER_WORDS + 64 * L.SLOT_WORDS);
  return {
    requests,
    urgent,
    qps,
    hold(index: number, count: number, bytes = MESSAGE) {
      for (let i = 0; i < count; i++) requests.hold(index, { bytes });
      urgent.enlist(qps[index]);
    },
    serve: (isAlone = false) => {
      clock.begin();
      return urgent.serve(out, isAlone, TOKEN);
    },
    /** Posts requests of these lengths. Returns how many go at once. */
    post(index: number, lengths: readonly number[], isAlone = false) {
      for (const [i, bytes] of lengths.entries()) {
        const at = L.slotAt(i);
        words[at + L.WR_OP] = IBV_WR_RDMA_WRITE | (1 << 16);
        words[at + L.WR_SGE0 + L.SGE_LENGTH] = bytes;
      }
      return urgent.admit(qps[index], words, 0, lengths.length, requests.nowNs, isAlone);
    },
    /** The queue pairs in the order in which messages were issued. */
    get order() {
      return requests.issued.map(({ qp }) => qp);
    },
    get wireBytes() {
      return requests.issued.reduce((sum, { bytes }) => sum + onWire(bytes), 0);
    },
  };
}

describe('the limit', () => {
  test('is exact in bytes on the wire: what may be saved, the rate, and at most one message', () => {
    const g = ground(['a']);
    g.hold(0, 100_000);
    g.serve();
    expect(g.wireBytes).toBe(Math.ceil(BURST / WIRE) * WIRE);
    for (let wakes = 0; wakes < 2000; wakes++) {
      expect(g.requests.timerNs).toBeGreaterThan(g.requests.nowNs);
      g.requests.nowNs = g.requests.timerNs;
      g.serve();
      const allowed = BURST + PER_NS * g.requests.nowNs;
      expect(g.wireBytes).toBeGreaterThan(allowed - 1);
      expect(g.wireBytes).toBeLessThan(allowed + WIRE);
    }
    expect(g.wireBytes / g.requests.nowNs / PER_NS).toBeCloseTo(1, 1);
  });

  test('holds for random lengths and wakes, also for what goes when it is posted', () => {
    const step = fc.record({
      lengths: fc.array(fc.nat(LONGEST), { minLength: 1, maxLength: 8 }),
      waitNs: fc.nat(5000),
      isHeld: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 50, maxLength: 200 }), (steps) => {
        const g = ground(['a', 'b']);
        let passed = 0;
        for (const { lengths, waitNs, isHeld } of steps) {
          g.requests.nowNs += waitNs;
          if (isHeld) for (const bytes of lengths) g.hold(1, 1, bytes);
          else {
            const count = g.post(0, lengths);
            for (const bytes of lengths.slice(0, count)) passed += onWire(bytes);
          }
          g.serve();
          const allowed = BURST + PER_NS * g.requests.nowNs;
          expect(g.wireBytes + passed).toBeLessThan(allowed + onWire(LONGEST));
        }
      }),
    );
  });

  test('counts the bytes of messages that go when they are posted', () => {
    const g = ground(['a']);
    expect(g.post(0, Array(64).fill(MESSAGE))).toBe(Math.ceil(BURST / WIRE));
    expect(g.post(0, [MESSAGE])).toBe(0);
    expect(g.qps[0].counts[BYTES]).toBe(Math.ceil(BURST / WIRE) * MESSAGE);
    g.requests.nowNs = (2 * WIRE) / PER_NS;
    expect(g.post(0, [MESSAGE, MESSAGE, MESSAGE])).toBeGreaterThan(0);
  });

  test('a message above the limit of length is held, and those behind it', () => {
    const g = ground(['a']);
    expect(g.post(0, [LONGEST, LONGEST + 1, 8])).toBe(1);
    g.requests.hold(0, { bytes: LONGEST + 1 }, { bytes: 8 });
    expect(g.urgent.admits(g.qps[0], g.requests.out)).toBe(false);
  });

  test('while others wait here, none goes when it is posted', () => {
    const g = ground(['a', 'b']);
    g.hold(1, 1000);
    g.serve();
    g.requests.nowNs = 1e6;
    expect(g.post(0, [8])).toBe(0);
  });

  test('changes with the options, and what has been sent counts', () => {
    const g = ground(['a']);
    g.hold(0, 100_000);
    g.serve();
    const before = g.wireBytes;
    g.urgent.configure({ perNs: 2 * PER_NS, burstBytes: BURST, longestBytes: LONGEST }, 0);
    g.serve();
    expect(g.wireBytes).toBe(before);
    g.requests.nowNs = 10_000;
    g.serve();
    expect(g.wireBytes - before).toBeGreaterThan(2 * PER_NS * 10_000 - 2 * WIRE);
    expect(g.wireBytes - before).toBeLessThan(2 * PER_NS * 10_000 + WIRE);
  });

  test('a length of -1 gives all back, also those that wait for tokens', () => {
    const g = ground(['a', 'b', 'b']);
    for (const { index } of g.qps) g.hold(index, 1000);
    g.serve();
    g.urgent.configure({ perNs: 0, burstBytes: 1, longestBytes: -1 }, 0);
    expect(g.post(0, [0])).toBe(0);
    expect(new Set([g.serve(), g.serve(), g.serve()])).toEqual(new Set(g.qps));
    expect(g.urgent.isEmpty).toBe(true);
  });

  test('a rate without limit lets everything go at once', () => {
    const g = ground(['a'], { perNs: Number.POSITIVE_INFINITY, burstBytes: BURST });
    g.requests.nowNs = 1;
    g.hold(0, 10_000);
    for (let i = 0; i < 1000 && g.requests.issued.length < 10_000; i++) {
      g.serve();
      g.requests.nowNs += 1;
    }
    expect(g.requests.issued).toHaveLength(10_000);
    expect(g.requests.nowNs).toBeLessThan(1000);
  });
});

describe('while no others wait', () => {
  test('there is no limit, and no debt is left', () => {
    const g = ground(['a']);
    g.hold(0, 10_000);
    expect(g.serve(true)).toBe(null);
    expect(g.requests.issued).toHaveLength(10_000);
    expect(g.post(0, Array(64).fill(MESSAGE), true)).toBe(64);
    // As soon as tokens for one byte have arrived, a message goes next to others, too.
    g.requests.nowNs = 2 / PER_NS;
    g.hold(0, 1);
    g.serve();
    expect(g.requests.issued).toHaveLength(10_001);
  });
});

describe('turns', () => {
  /** Serves until this many messages have been issued. */
  const serveUntil = (g: ReturnType<typeof ground>, count: number) => {
    for (let i = 0; i < 1e5 && g.requests.issued.length < count; i++) {
      g.serve();
      g.requests.nowNs += 100;
    }
  };
  const counted = (order: readonly number[], of: (qp: number) => boolean) => order.filter(of).length;

  test('one message of each queue pair', () => {
    const g = ground(['a', 'a', 'a']);
    for (const qp of [0, 1, 2]) g.hold(qp, 1000);
    serveUntil(g, 300);
    for (const qp of [0, 1, 2]) expect(Math.abs(counted(g.order, (one) => one === qp) - 100)).toBeLessThan(3);
  });

  test('a tenant with many queue pairs has no more than one with a single queue pair', () => {
    const g = ground(['b', ...Array(9).fill('a')]);
    for (const { index } of g.qps) g.hold(index, 2000);
    serveUntil(g, 1000);
    expect(Math.abs(counted(g.order, (qp) => qp === 0) - 500)).toBeLessThan(3);
  });

  test('tenants share the cap by bytes, whatever the lengths of their messages', () => {
    const g = ground(['long', 'short', 'short']);
    g.hold(0, 5000, LONGEST);
    for (const qp of [1, 2]) g.hold(qp, 5000, 16);
    serveUntil(g, 5000);
    const bytesOf = (isLong: boolean) =>
      g.requests.issued
        .filter(({ qp }) => (qp === 0) === isLong)
        .reduce((sum, { bytes }) => sum + onWire(bytes), 0);
    expect(bytesOf(true) / bytesOf(false)).toBeCloseTo(1, 1);
  });

  test('contexts without a tenant are tenants of their own', () => {
    const g = ground(['', '', 'a', 'a']);
    for (const { index } of g.qps) g.hold(index, 2000);
    serveUntil(g, 900);
    expect([0, 1].map((qp) => Math.round(counted(g.order, (one) => one === qp) / 30))).toEqual([10, 10]);
  });

  test('a queue pair with a single message passes those that always have another one', () => {
    const g = ground(['a', 'a', 'a', 'a']);
    for (const qp of [0, 1, 2]) g.hold(qp, 1000);
    serveUntil(g, 100);
    g.hold(3, 1);
    const before = g.requests.issued.length;
    serveUntil(g, before + 1);
    expect(g.order[before]).toBe(3);
  });

  test('a queue pair whose next message is not urgent is given back', () => {
    const g = ground(['a', 'a']);
    g.requests.hold(0, { bytes: 8 }, { bytes: LONGEST + 1 });
    g.urgent.enlist(g.qps[0]);
    g.hold(1, 1);
    expect(g.serve()).toBe(g.qps[0]);
    expect(g.serve()).toBe(null);
    expect(g.order).toEqual([0, 1]);
    expect(g.urgent.isEmpty).toBe(true);
  });

  test('a queue pair that is destroyed, or leaves, holds up none', () => {
    const g = ground(['a', 'b', 'c']);
    for (const qp of [0, 1, 2]) g.hold(qp, 3);
    g.urgent.drop(g.qps[0]);
    g.urgent.leave(g.qps[1]);
    g.urgent.leave(g.qps[1]);
    g.serve();
    expect(g.order).toEqual([2, 2, 2]);
    g.urgent.drop(g.qps[1]);
    expect(g.urgent.isEmpty).toBe(true);
  });

  test('a queue pair without room leaves, and its tenant takes no turn', () => {
    const g = ground(['a', 'b']);
    Object.assign(g.requests, { depth: 2 });
    g.hold(0, 5);
    g.serve();
    expect([g.order, g.urgent.isEmpty]).toEqual([[0, 0], true]);
    g.hold(1, 1);
    g.serve();
    expect(g.order).toEqual([0, 0, 1]);
  });
});
