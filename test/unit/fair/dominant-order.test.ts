// The order of fair: the tenant that has had least of what it needs most is next.
import { describe, expect, test } from 'vitest';
import { DominantOrder } from '../../../src/policies/fair/dominant-order.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';

const COSTS = { nsPerByte: 1, nsPerRequest: 100, turnBytes: 1000, lagNs: 500 };

/** Queue pairs of these tenants, none of which has joined. */
function ground(tenants: readonly number[], weights: readonly number[] = []) {
  const order = new DominantOrder((qp) => tenants[qp], COSTS);
  for (const tenant of new Set(tenants)) {
    order.begin(tenant);
    order.setWeight(tenant, weights[tenant] ?? 1);
  }
  for (const qp of tenants.keys()) order.reset(qp);
  const sent = tenants.map(() => 0);
  /** The next queue pair sends a message of this many bytes. Returns the queue pair. */
  const send = (bytesOf: (qp: number) => number) => {
    const qp = order.next();
    if (qp === NONE) return NONE;
    const bytes = bytesOf(qp);
    order.spend(qp, bytes);
    order.charge(qp, bytes);
    sent[qp] += bytes;
    return qp;
  };
  const sendMany = (count: number, bytesOf: (qp: number) => number = () => 1000) =>
    Array.from({ length: count }, () => send(bytesOf));
  return { order, sent, sendMany };
}

describe('tenants', () => {
  test('share the link by bytes, whatever the lengths of their messages and the numbers of their queue pairs', () => {
    const { order, sent, sendMany } = ground([0, 1, 1, 1]);
    for (let qp = 0; qp < 4; qp++) order.join(qp);
    sendMany(4000, (qp) => (qp === 0 ? 1000 : 250));
    const others = sent[1] + sent[2] + sent[3];
    expect(sent[0] / others).toBeCloseTo(1, 2);
    expect(sent[1] / others).toBeCloseTo(1 / 3, 2);
  });

  test('share in proportion to their weights', () => {
    const { order, sent, sendMany } = ground([0, 1, 2], [1, 2, 4]);
    for (let qp = 0; qp < 3; qp++) order.join(qp);
    sendMany(7000);
    expect(sent.map((bytes) => bytes / sent[0])).toEqual([1, 2, 4].map((one) => expect.closeTo(one, 1)));
  });

  test('with many short messages pay for the processing units instead of the link', () => {
    const { order, sent, sendMany } = ground([0, 1]);
    order.join(0);
    order.join(1);
    sendMany(5000, (qp) => (qp === 0 ? 1000 : 10));
    // A request takes 100 ns of the processing units, as long as 100 bytes on the wire.
    expect(sent[0] / 1000).toBeCloseTo(sent[1] / 10 / 10, -1);
  });

  test('that were idle have saved up no more than the lag', () => {
    const { order, sent, sendMany } = ground([0, 1]);
    order.join(0);
    sendMany(100);
    order.join(1);
    expect(sendMany(3)).toEqual([1, 1, 0]);
    sendMany(100);
    expect(Math.abs(sent[0] - 100_000 - sent[1])).toBeLessThanOrEqual(2000);
  });
});

describe('a tenant is behind', () => {
  test('while it has had less than those being served, and no longer when it has used the lag', () => {
    const { order, sendMany } = ground([0, 1]);
    order.join(0);
    sendMany(10);
    let passed = 0;
    for (; order.isBehind(1); passed += 100) order.pass(1, 100);
    expect(passed).toBe(500);
    sendMany(1);
    expect(order.isBehind(1)).toBe(true);
  });

  test('never if it alone sends', () => {
    const { order, sendMany } = ground([0]);
    expect(order.isBehind(0)).toBe(false);
    order.join(0);
    sendMany(3);
    expect(order.isBehind(0)).toBe(false);
    order.leave(0);
    expect(order.isBehind(0)).toBe(false);
    expect(order.next()).toBe(NONE);
  });
});

test('queue pairs of a tenant have turns, and yield what is left of them', () => {
  const { order, sendMany } = ground([0, 0, 0]);
  for (let qp = 0; qp < 3; qp++) order.join(qp);
  expect(sendMany(6, () => 500)).toEqual([0, 0, 1, 1, 2, 2]);
  expect(sendMany(1, () => 500)).toEqual([0]);
  order.yield(0);
  expect(sendMany(2, () => 500)).toEqual([1, 1]);
  order.leave(1);
  order.leave(2);
  expect(sendMany(2, () => 500)).toEqual([0, 0]);
  expect(order.totalBytes).toBe(11 * 500);
});
