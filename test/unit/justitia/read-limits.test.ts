// Limits on READs by responder.
import { expect, test } from 'vitest';
import { ReadLimits } from '../../../src/policies/justitia/read-limits.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';
import type { ContextView, QpView } from '../../../src/shim/policy.ts';

const GID = '::ffff:10.0.0.2';
const OTHER = '::ffff:10.0.0.3';
const CHUNK = 5000;

const contextOf = (index: number) => ({ index }) as ContextView;
const qpOf = (index: number, context: ContextView, dgid = GID) => ({ index, context, dgid }) as QpView;

test('without a word from the responder, READs are not limited', () => {
  const limits = new ReadLimits();
  const qp = qpOf(0, contextOf(0));
  limits.assign(qp);
  limits.allow(contextOf(0), GID, 0, CHUNK);
  for (let i = 0; i < 100; i++) {
    expect(limits.admits(qp, 1, 0)).toBe(true);
    limits.charge(qp, 1 << 20);
  }
  expect(limits.unpark()).toBe(NONE);
});

test('READs keep to the rate for a unit of weight, over all queue pairs of a context', () => {
  const [limits, context] = [new ReadLimits(), contextOf(0)];
  limits.allow(context, GID, 8, CHUNK);
  const qps = [qpOf(3, context), qpOf(100, context)];
  for (const qp of qps) limits.assign(qp);
  let [bytes, nowNs] = [0, 0];
  for (const endNs = 1e6; nowNs < endNs; ) {
    const [qp] = qps;
    if (limits.admits(qp, 2, nowNs)) {
      limits.charge(qp, CHUNK);
      bytes += CHUNK;
      qps.reverse();
      continue;
    }
    nowNs = limits.readyNs(qp);
    expect(limits.unpark()).toBe(qp.index);
  }
  // 8 Gbit/s are a byte per nanosecond, for a weight of two.
  expect(bytes).toBeGreaterThanOrEqual(2e6);
  expect(bytes).toBeLessThanOrEqual(2e6 + 3 * CHUNK);
});

test('each responder and each context has a limit of its own', () => {
  const limits = new ReadLimits();
  const [a, b] = [contextOf(0), contextOf(1)];
  limits.allow(a, GID, 1, CHUNK);
  const qps = [qpOf(0, a), qpOf(1, a, OTHER), qpOf(2, b)];
  for (const qp of qps) {
    limits.assign(qp);
    limits.charge(qp, 1 << 20);
  }
  expect(qps.map((qp) => limits.admits(qp, 1, 0))).toEqual([false, true, true]);
});

test('queue pairs that wait are returned once, in turn, and destroyed ones never', () => {
  const [limits, context] = [new ReadLimits(), contextOf(0)];
  limits.allow(context, GID, 1, CHUNK);
  const qps = [0, 1, 2].map((index) => qpOf(index, context));
  for (const qp of qps) limits.assign(qp);
  limits.charge(qps[0], 1 << 20);
  for (const qp of [...qps, ...qps]) expect(limits.admits(qp, 1, 0)).toBe(false);
  limits.forget(1);
  expect([limits.unpark(), limits.unpark(), limits.unpark()]).toEqual([0, 2, NONE]);
});

test('a limit that the responder takes back no longer holds', () => {
  const [limits, context] = [new ReadLimits(), contextOf(0)];
  limits.allow(context, GID, 1, CHUNK);
  const qp = qpOf(0, context);
  limits.assign(qp);
  limits.charge(qp, 1 << 20);
  expect(limits.admits(qp, 1, 0)).toBe(false);
  limits.allow(context, GID, 0, CHUNK);
  expect(limits.admits(qp, 1, 0)).toBe(true);
});

test.each([-1e9, -1e6, 1e6, 1e12])(
  'a clock that jumps by %d ns brings at most a bucket, and no standstill',
  (jumpNs) => {
    const [limits, context] = [new ReadLimits(), contextOf(0)];
    limits.allow(context, GID, 8, CHUNK);
    const qp = qpOf(0, context);
    limits.assign(qp);
    /** READs for this long. Returns the bytes. */
    const read = (fromNs: number, ns: number) => {
      let bytes = 0;
      for (let nowNs = fromNs; nowNs < fromNs + ns; ) {
        if (limits.admits(qp, 1, nowNs)) {
          limits.charge(qp, CHUNK);
          bytes += CHUNK;
        } else nowNs = limits.readyNs(qp);
        limits.unpark();
      }
      return bytes;
    };
    const startNs = 2e9;
    read(startNs, 1e6);
    const bytes = read(startNs + 1e6 + jumpNs, 1e6);
    expect(bytes).toBeGreaterThanOrEqual(1e6 - 2 * CHUNK);
    expect(bytes).toBeLessThanOrEqual(1e6 + 3 * CHUNK);
  },
);
