/** The limits of contexts, in total and at each peer, and the queue pairs that wait for them. */
import { expect, test } from 'vitest';
import { FlowLimits, type QpLimits } from '../../../src/policies/fair/flow-limits.ts';
import type { QpView } from '../../../src/shim/policy.ts';

const REQUEST_BYTES = 98;
/** A rate, in bytes per nanosecond. */
const RATE = 2;
const US = 1e3;

const qp = (index: number) => ({ index }) as QpView;

/** Limits of one context with two peers; queue pairs 0 and 1 go to the first, and 2 to the second. */
function rig() {
  const limits = new FlowLimits(REQUEST_BYTES);
  const own = { out: limits.create(), in: limits.create() };
  const peer = (): QpLimits => ({ ...own, peerOut: limits.create(), peerIn: limits.create() });
  const [first, second] = [peer(), peer()];
  limits.assign(qp(0), first);
  limits.assign(qp(1), first);
  limits.assign(qp(2), second);
  return { limits, own, first, second };
}

test('without a rate, nothing is limited', () => {
  const { limits } = rig();
  expect(limits.isLimiting).toBe(false);
  expect(limits.limits(0)).toBe(false);
  expect(limits.flightBytes(0, false, US)).toBe(Number.POSITIVE_INFINITY);
});

test('a limit at one peer leaves the others, and the other direction, alone', () => {
  const { limits, first } = rig();
  limits.set(first.peerOut!, RATE, 0);
  limits.take(0, false, 1000, 1);
  expect([0, 1, 2].map((one) => limits.lacking(one, false, 0))).toEqual([first.peerOut, first.peerOut, null]);
  expect(limits.lacking(0, true, 0)).toBe(null);
  first.peerOut!.senders = 2;
  expect(limits.flightBytes(0, false, US)).toBe((RATE * US) / 2);
  expect(limits.flightBytes(0, true, US)).toBe(Number.POSITIVE_INFINITY);
});

test('requests of READs count as sent, and their data as received', () => {
  const { limits, own } = rig();
  limits.set(own.out, RATE, 0);
  limits.set(own.in, RATE, 0);
  limits.lacking(0, true, 10 * US);
  const before = [own.out.bucket.tokens, own.in.bucket.tokens];
  limits.take(0, true, 5000, 3);
  expect(before[0] - own.out.bucket.tokens).toBe(3 * REQUEST_BYTES);
  limits.lacking(0, true, 10 * US);
  expect(own.in.bucket.tokens).toBe(RATE * 10 * US - 5000);
});

test('queue pairs that wait go on in their order, and before those that come later', () => {
  const { limits, own } = rig();
  limits.set(own.out, RATE, 0);
  limits.take(0, false, RATE * 10 * US, 1);
  for (const one of [1, 0]) limits.park(qp(one), own.out);
  expect(limits.release(9 * US)).toBe(null);
  expect(limits.lacking(2, false, 11 * US)).toBe(own.out);
  expect(limits.readyNs).toBe(12 * US);
  expect(limits.release(limits.readyNs)?.index).toBe(1);
  expect(limits.lacking(1, false, 12 * US)).toBe(null);
  expect(limits.release(12 * US)?.index).toBe(0);
  expect(limits.release(12 * US)).toBe(null);
  // The first one has used up what was saved.
  limits.take(1, false, RATE * 4 * US, 1);
  expect(limits.lacking(0, false, 12 * US)).toBe(own.out);
});

test('an idle limit saves up no more than a short burst, unless timers are late', () => {
  const { limits, own } = rig();
  limits.set(own.out, RATE, 0);
  limits.lacking(0, false, 1e9);
  expect(own.out.bucket.tokens).toBe(RATE * 20 * US);
  limits.take(0, false, RATE * 30 * US, 1);
  limits.park(qp(0), own.out);
  const lateNs = 100 * US;
  expect(limits.release(limits.readyNs + lateNs)?.index).toBe(0);
  expect(own.out.bucket.tokens).toBeCloseTo(RATE * (lateNs + 2 * US));
});

test('queue pairs that wait for a limit go on once it ends', () => {
  const { limits, first } = rig();
  limits.set(first.peerOut!, RATE, 0);
  limits.take(0, false, 1e6, 1);
  limits.park(qp(0), first.peerOut!);
  limits.set(first.peerOut!, 0, US);
  expect(limits.readyNs).toBe(0);
  expect(limits.release(US)?.index).toBe(0);
  expect(limits.isLimiting).toBe(false);
});

test('a queue pair that is destroyed no longer waits', () => {
  const { limits, first } = rig();
  limits.set(first.peerOut!, RATE, 0);
  limits.take(0, false, 1e6, 1);
  limits.park(qp(0), first.peerOut!);
  limits.remove(0);
  expect(limits.waits(0)).toBe(false);
  expect(limits.release(1e9)).toBe(null);
  limits.remove(1);
  limits.drop(first.peerOut!);
  expect(limits.isLimiting).toBe(false);
});

test('a limit that has ended while it let queue pairs pass, and begins again, lets those that wait go on', () => {
  const { limits, own } = rig();
  limits.set(own.out, RATE, 0);
  limits.take(0, false, RATE * 10 * US, 1);
  limits.park(qp(0), own.out);
  expect(limits.release(limits.readyNs)?.index).toBe(0);
  limits.set(own.out, 0, 20 * US);
  limits.set(own.out, RATE, 30 * US);
  expect(limits.lacking(0, false, 30 * US)).toBe(own.out);
  limits.park(qp(0), own.out);
  expect(limits.release(limits.readyNs)?.index).toBe(0);
});

test('a rate of less than a byte in a burst lets those that wait go on, although it is told again and again', () => {
  const { limits, own } = rig();
  const perNs = 1e-8;
  limits.set(own.out, perNs, 0);
  limits.park(qp(0), own.out);
  for (let ns = 0; ns <= 1e9; ns += 1e6) limits.set(own.out, perNs, ns);
  expect(limits.release(1e9)?.index).toBe(0);
});
