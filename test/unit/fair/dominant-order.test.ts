// The order of fair: the tenant that has had least of what it needs most is next.
import { describe, expect, test } from 'vitest';
import { DominantOrder } from '../../../src/policies/fair/dominant-order.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';

const COSTS = {
  nsPerByte: 1,
  nsPerRequest: 100,
  turnBytes: 1000,
  missTurnBytes: 3000,
  lagNs: 500,
  tinyBytes: 0,
};

/** Queue pairs of these tenants, none of which has joined. */
function ground(tenants: readonly number[], weights: readonly number[] = [], missing = -1) {
  const order = new DominantOrder(
    (qp) => tenants[qp],
    COSTS,
    (tenant) => tenant === missing,
  );
  for (const tenant of new Set(tenants)) {
    order.begin(tenant);
    order.setWeight(tenant, weights[tenant] ?? 1);
  }
  for (const qp of tenants.keys()) {
    order.reset(qp);
    order.setQpWeight(qp, 1);
  }
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

const mayPass = (order: DominantOrder, tenant: number, bytes: number) =>
  order.passable(tenant, bytes, 1) === 1;

describe('tenants', () => {
  test('share the link by bytes, whatever the lengths of their messages and the numbers of their queue pairs', () => {
    const { order, sent, sendMany } = ground([0, 1, 1, 1]);
    for (let qp = 0; qp < 4; qp++) order.join(qp);
    sendMany(4000, (qp) => (qp === 0 ? 1000 : 250));
    const others = sent[1] + sent[2] + sent[3];
    expect(sent[0] / others).toBeCloseTo(1, 2);
    expect(sent[1] / others).toBeCloseTo(1 / 3, 2);
  });

  test('send short messages in rows of an eighth of a turn, and others one at a time', () => {
    const { order, sent, sendMany } = ground([0, 1]);
    order.join(0);
    order.join(1);
    const rows = (bytes: number) => sendMany(16, () => bytes).join('');
    sendMany(2, () => 100);
    expect(rows(100)).toBe('0101010101010101');
    expect(rows(30)).toBe('0000111100001111');
    sendMany(4000, () => 30);
    expect(sent[0] / sent[1]).toBeCloseTo(1, 2);
  });

  test('begin before the row of another one is over', () => {
    const { order, sendMany } = ground([0, 1]);
    order.join(0);
    sendMany(10, () => 30);
    order.join(1);
    expect(sendMany(4, () => 30)).toEqual([1, 1, 1, 1]);
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

describe('a short message may pass', () => {
  test('while it has had less than those being served, and no longer when it has used the lag', () => {
    const { order, sendMany } = ground([0, 1]);
    order.join(0);
    sendMany(10);
    let passed = 0;
    for (; mayPass(order, 1, 100); passed += 100) order.pass(1, 100);
    expect(passed).toBe(500);
    sendMany(1);
    expect(mayPass(order, 1, 100)).toBe(true);
  });

  test('never if it alone sends', () => {
    const { order, sendMany } = ground([0]);
    expect(mayPass(order, 0, 100)).toBe(false);
    order.join(0);
    sendMany(3);
    expect(mayPass(order, 0, 100)).toBe(false);
    order.leave(0);
    expect(mayPass(order, 0, 100)).toBe(false);
    expect(order.next()).toBe(NONE);
  });
});

test.each([1, 0.1])(
  'queue pairs share what their tenant has in proportion to their weights, x %d',
  (unit) => {
    const { order, sent, sendMany } = ground([0, 0, 0, 1]);
    for (const [qp, weight] of [1, 2, 4].entries()) order.setQpWeight(qp, weight * unit);
    for (let qp = 0; qp < 4; qp++) order.join(qp);
    sendMany(14_000);
    expect(sent.map((bytes) => bytes / sent[0])).toEqual([1, 2, 4, 7].map((one) => expect.closeTo(one, 1)));
  },
);

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

test('queue pairs of a tenant that has more than fit into the cache have longer turns, at no cost to others', () => {
  const { order, sendMany } = ground([0, 0, 1, 1], [], 0);
  for (let qp = 0; qp < 4; qp++) order.join(qp);
  expect(sendMany(16)).toEqual([0, 2, 0, 3, 0, 2, 1, 3, 1, 2, 1, 3, 0, 2, 0, 3]);
});

describe('tiny messages', () => {
  const TINY = { ...COSTS, nsPerRequest: 0, tinyBytes: 200 };
  /** The part of all bytes that tenant 0 has sent, with messages of this length next to tenants with larger ones. */
  const partOf = (bytes: number, others: number, tiny = 1) => {
    const tenants = Array.from({ length: tiny + others }, (_, tenant) => tenant);
    const { order, sent, sendMany } = ground(tenants);
    order.configure(TINY);
    for (const qp of tenants) order.join(qp);
    sendMany(60_000, (qp) => (qp < tiny ? bytes : 1000));
    return sent.slice(0, tiny).reduce((a, b) => a + b) / sent.reduce((a, b) => a + b);
  };

  test('get an eighth of the device, however many others there are', () => {
    expect(partOf(100, 99)).toBeCloseTo(1 / 8, 2);
    expect(partOf(200, 999)).toBeCloseTo(1 / 8, 2);
  });

  test('get no more than their share if that is larger', () => {
    expect(partOf(100, 1)).toBeCloseTo(1 / 2, 2);
    expect(partOf(100, 3)).toBeCloseTo(1 / 4, 2);
  });

  test('of all tenants together get no more than half beyond their shares', () => {
    expect(partOf(100, 1000, 50)).toBeCloseTo(1 / 2, 1);
    expect(partOf(100, 1000, 50)).toBeLessThan(0.52);
  });

  test('are those up to the limit', () => {
    expect(partOf(201, 99)).toBeCloseTo(1 / 100, 3);
  });

  test('pass as long as the allowance lasts, which others renew', () => {
    const { order, sendMany } = ground([0, 1, 2]);
    order.configure(TINY);
    order.join(1);
    order.join(2);
    sendMany(20);
    let passed = 0;
    for (; mayPass(order, 0, 200); passed += 200) order.pass(0, 200);
    // The lag, and then what it is allowed in any case.
    expect(passed).toBeGreaterThan(500);
    expect(passed).toBeLessThan(1500);
    sendMany(1);
    expect(mayPass(order, 0, 200)).toBe(true);
    expect(mayPass(order, 0, 201)).toBe(true);
  });

  test('do not let others of their queue pair go first', () => {
    const { order, sendMany } = ground([0, 1]);
    order.configure(TINY);
    order.join(0);
    order.join(1);
    sendMany(10, () => 1000);
    order.pass(0, 100);
    expect(order.expectsTiny(0)).toBe(true);
    order.expectOther(0);
    expect(order.expectsTiny(0)).toBe(false);
  });
});
