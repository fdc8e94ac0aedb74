// The round trip that palos measures with the traffic itself.
import { describe, expect, test } from 'vitest';
import { RoundTrip } from '../../../src/policies/link/round-trip.ts';
import type { QpView } from '../../../src/shim/policy.ts';
import { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD } from '../../../src/verbs/constants.ts';

/** 100 Gbit/s. */
const PER_NS = 12.5;
/** 100 ns on the link. */
const BYTES = 1250;
/** More requests than any measurement takes. */
const MANY = 1000;

class Rig {
  readonly roundTrip = new RoundTrip(PER_NS);
  nowNs = 1000;

  /** A request that nothing else is in flight with, and its completion. Returns whether the round trip has changed. */
  once(qp: number, roundTripNs: number): boolean {
    this.roundTrip.issued(qp, BYTES, true, false, this.nowNs);
    return this.end(roundTripNs + BYTES / PER_NS);
  }

  end(afterNs: number): boolean {
    this.nowNs += afterNs;
    return this.roundTrip.drained(this.nowNs);
  }

  /** Requests that go one at a time, until it has measured enough. Returns how many. */
  measure(qp: number, roundTripNs: number): number {
    let count = 0;
    do this.once(qp, roundTripNs);
    while (this.roundTrip.isMeasuring && ++count < MANY);
    return count + 1;
  }
}

test('the time that the bytes take on the link is not part of it', () => {
  const { roundTrip, ...rig } = new Rig();
  roundTrip.connect(0, 'peer');
  roundTrip.issued(0, 10 * BYTES, true, false, rig.nowNs);
  roundTrip.drained(rig.nowNs + 1000 + 3000);
  expect(roundTrip.ns).toBeCloseTo(3000, 6);
});

test('a few requests go one at a time, and the shortest sample of a peer counts', () => {
  const rig = new Rig();
  rig.roundTrip.connect(0, 'peer');
  expect(rig.roundTrip.isMeasuring).toBe(false);
  expect(rig.once(0, 5000)).toBe(true);
  expect(rig.roundTrip.isMeasuring).toBe(true);
  expect(rig.once(0, 3000)).toBe(true);
  expect(rig.once(0, 9000)).toBe(false);
  expect(rig.roundTrip.isMeasuring).toBe(true);
  expect(rig.once(0, 4000)).toBe(false);
  expect(rig.roundTrip.isMeasuring).toBe(false);
  expect(rig.roundTrip.ns).toBeCloseTo(3000, 6);
  // Later samples count, too, if they are shorter, and need no requests that go one at a time.
  expect(rig.once(0, 2000)).toBe(true);
  expect(rig.roundTrip.isMeasuring).toBe(false);
  expect(rig.roundTrip.ns).toBeCloseTo(2000, 6);
});

test('samples that were polled late do not count next to many short messages', () => {
  const { roundTrip, ...rig } = new Rig();
  let nowNs = rig.nowNs;
  const once = (isShort: boolean, roundTripNs: number) => {
    roundTrip.issued(0, isShort ? 0 : BYTES, true, isShort, nowNs);
    nowNs += roundTripNs + (isShort ? 0 : BYTES / PER_NS);
    roundTrip.drained(nowNs);
  };
  roundTrip.connect(0, 'peer');
  once(false, 63_000);
  let count = 1;
  for (; roundTrip.isMeasuring && count < MANY; count++) once(true, 1400);
  expect(count).toBeLessThan(MANY);
  expect(roundTrip.ns).toBeGreaterThanOrEqual(1400);
  expect(roundTrip.ns).toBeLessThanOrEqual(2 * (1400 + BYTES / PER_NS));
});

test('the longest of the peers counts', () => {
  const rig = new Rig();
  const { roundTrip } = rig;
  roundTrip.connect(0, 'near');
  roundTrip.connect(1, 'far');
  roundTrip.connect(2, 'near');
  rig.measure(0, 2000);
  expect(roundTrip.ns).toBeCloseTo(2000, 6);
  rig.measure(1, 8000);
  expect(roundTrip.ns).toBeCloseTo(8000, 6);
  // Another queue pair to a peer that has been measured requires nothing.
  rig.once(2, 3000);
  expect([roundTrip.isMeasuring, Math.round(roundTrip.ns)]).toEqual([false, 8000]);
});

test('a queue pair that is connected with another peer measures that one', () => {
  const rig = new Rig();
  rig.roundTrip.connect(0, 'near');
  rig.measure(0, 2000);
  rig.roundTrip.connect(0, 'far');
  expect(rig.measure(0, 6000)).toBeGreaterThan(1);
  expect(rig.roundTrip.ns).toBeCloseTo(6000, 6);
});

describe('what is no sample', () => {
  test('a request next to others in flight', () => {
    const rig = new Rig();
    rig.roundTrip.connect(0, 'peer');
    rig.roundTrip.issued(0, BYTES, true, false, rig.nowNs);
    rig.roundTrip.issued(0, BYTES, false, false, rig.nowNs);
    expect(rig.end(1e6)).toBe(false);
    expect(rig.roundTrip.ns).toBe(0);
  });

  test('one whose end was no completion', () => {
    const rig = new Rig();
    rig.roundTrip.connect(0, 'peer');
    rig.roundTrip.issued(0, BYTES, true, false, rig.nowNs);
    rig.roundTrip.cancel();
    expect(rig.end(10)).toBe(false);
    expect(rig.roundTrip.ns).toBe(0);
  });

  test('one of a queue pair that is not connected', () => {
    const rig = new Rig();
    for (const qp of [0, 5000]) rig.once(qp, 3000);
    expect([rig.roundTrip.ns, rig.roundTrip.isMeasuring]).toEqual([0, false]);
  });

  test('a second end of the same request', () => {
    const rig = new Rig();
    rig.roundTrip.connect(0, 'peer');
    rig.once(0, 3000);
    rig.end(1);
    expect(rig.roundTrip.ns).toBeCloseTo(3000, 6);
  });
});

test('a completion that is polled before the bytes can have left counts as 1 ns at least', () => {
  const rig = new Rig();
  rig.roundTrip.connect(0, 'peer');
  rig.once(0, -2000);
  expect(rig.roundTrip.ns).toBe(1);
});

describe('a peer that is never alone in flight', () => {
  /** Requests of queue pair 1 take their turns with ones of queue pair 0, which are first. */
  function neverFirst() {
    const rig = new Rig();
    const { roundTrip } = rig;
    roundTrip.connect(0, 'near');
    roundTrip.connect(1, 'far');
    rig.measure(0, 2000);
    roundTrip.issued(1, BYTES, false, false, rig.nowNs);
    rig.end(100);
    let waits = 1;
    for (; roundTrip.isMeasuring && waits < MANY; waits++) rig.once(0, 2000);
    return { rig, waits };
  }

  test('keeps others waiting for 64 requests at most', () => {
    const { rig, waits } = neverFirst();
    expect(waits).toBe(64);
    rig.roundTrip.issued(1, BYTES, false, false, rig.nowNs);
    rig.end(100);
    expect(rig.roundTrip.isMeasuring).toBe(false);
  });

  test('is measured when it is alone later', () => {
    const { rig } = neverFirst();
    expect(rig.once(1, 7000)).toBe(true);
    expect(rig.roundTrip.ns).toBeCloseTo(7000, 6);
  });
});

describe('of many peers that come and go', () => {
  const FAR_NS = 50_000;
  const KEPT = 1024;

  test('the oldest one without queue pairs is forgotten, and no longer counts', () => {
    const rig = new Rig();
    const { roundTrip } = rig;
    roundTrip.connect(0, 'stays');
    rig.measure(0, 2000);
    roundTrip.connect(1, 'far');
    rig.measure(1, FAR_NS);
    for (let i = 2; i < KEPT; i++) roundTrip.connect(1, `peer ${i}`);
    expect(rig.once(0, 3000)).toBe(false);
    expect(Math.round(roundTrip.ns)).toBe(FAR_NS);
    roundTrip.connect(1, 'one more');
    expect(rig.once(0, 3000)).toBe(true);
    expect(Math.round(roundTrip.ns)).toBe(2000);
    expect(rig.measure(1, 4000)).toBeGreaterThan(1);
    expect(Math.round(roundTrip.ns)).toBe(4000);
  });

  test('one that is being measured keeps nothing waiting once it is forgotten', () => {
    const rig = new Rig();
    const { roundTrip } = rig;
    roundTrip.connect(0, 'begun');
    rig.once(0, 2000);
    expect(roundTrip.isMeasuring).toBe(true);
    roundTrip.disconnect(0);
    for (let i = 0; i < KEPT; i++) roundTrip.connect(1, `peer ${i}`);
    expect(roundTrip.isMeasuring).toBe(false);
  });

  test('those with queue pairs are all kept', () => {
    const rig = new Rig();
    const { roundTrip } = rig;
    roundTrip.connect(0, 'far');
    rig.measure(0, FAR_NS);
    for (let i = 1; i < 2 * KEPT; i++) roundTrip.connect(i, `peer ${i}`);
    rig.measure(1, 2000);
    expect(Math.round(roundTrip.ns)).toBe(FAR_NS);
  });
});

test('after a restart, the former round trip holds until a longer one has been measured', () => {
  const rig = new Rig();
  rig.roundTrip.connect(0, 'peer');
  const count = rig.measure(0, 3000);
  rig.roundTrip.restart();
  expect(rig.roundTrip.ns).toBeCloseTo(3000, 6);
  expect(rig.measure(0, 4000)).toBe(count);
  expect(rig.roundTrip.ns).toBeCloseTo(4000, 6);
});

describe('short messages', () => {
  /** A short message that nothing else is in flight with, and its completion. */
  function short(rig: Rig, qp: number, roundTripNs: number): boolean {
    rig.roundTrip.issued(qp, 0, true, true, rig.nowNs);
    return rig.end(roundTripNs);
  }

  test('show the least that a round trip can be, by the peer for which that is longest', () => {
    const rig = new Rig();
    const { roundTrip } = rig;
    roundTrip.connect(0, 'near');
    roundTrip.connect(1, 'far');
    expect(short(rig, 0, 2000)).toBe(true);
    expect(short(rig, 0, 2500)).toBe(false);
    expect(short(rig, 1, 5000)).toBe(true);
    expect([roundTrip.ns, roundTrip.leastNs]).toEqual([0, 5000]);
    expect(short(rig, 1, 4000)).toBe(true);
    expect(roundTrip.leastNs).toBe(4000);
  });

  test('do not measure a peer', () => {
    const rig = new Rig();
    rig.roundTrip.connect(0, 'peer');
    for (let i = 0; i < 10; i++) short(rig, 0, 2000);
    expect(rig.roundTrip.isMeasuring).toBe(true);
    rig.measure(0, 3000);
    expect(rig.roundTrip.ns).toBeCloseTo(3000, 6);
  });

  test('are a lower bound for peers that nothing else goes to, also next to measured ones', () => {
    const rig = new Rig();
    const { roundTrip } = rig;
    roundTrip.connect(0, 'near');
    roundTrip.connect(1, 'far');
    rig.measure(0, 1000);
    short(rig, 0, 2000);
    expect(roundTrip.ns).toBeCloseTo(1000, 6);
    short(rig, 1, 9000);
    expect([roundTrip.ns, roundTrip.leastNs]).toEqual([9000, 9000]);
    rig.measure(1, 3000);
    expect(roundTrip.ns).toBeCloseTo(3000, 6);
  });
});

describe('unreliable queue pairs', () => {
  const qp = (index: number, type: number, dgid: string) => ({ index, type, dgid }) as QpView;

  test('count only while no other peer has been measured, because their requests complete early', () => {
    const rig = new Rig();
    const { roundTrip } = rig;
    roundTrip.changed(qp(0, IBV_QPT_UC, 'peer'), 'state');
    roundTrip.changed(qp(1, IBV_QPT_UD, ''), 'state');
    roundTrip.changed(qp(2, IBV_QPT_RC, 'peer'), 'state');
    rig.measure(0, 80);
    expect(roundTrip.ns).toBeCloseTo(80, 6);
    expect(roundTrip.isUnknown(1)).toBe(false);
    rig.measure(2, 2000);
    expect(roundTrip.ns).toBeCloseTo(2000, 6);
    expect([0, 1, 2].map((i) => roundTrip.isUnacked(i))).toEqual([true, true, false]);
  });

  test('have no say even if their requests take long because they are never cut', () => {
    const rig = new Rig();
    rig.roundTrip.changed(qp(0, IBV_QPT_UC, 'peer'), 'state');
    rig.roundTrip.changed(qp(1, IBV_QPT_RC, 'peer'), 'state');
    rig.measure(0, 7000);
    rig.measure(1, 1500);
    expect(rig.roundTrip.ns).toBeCloseTo(1500, 6);
  });
});
