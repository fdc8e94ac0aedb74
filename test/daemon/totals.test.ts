// Totals of what tenants have sent (src/daemon/tenants/totals.ts): they only grow, and are dropped eventually.
import { expect, test } from 'vitest';
import * as M from '../../src/coordinator/member-table.ts';
import { Client } from '../../src/daemon/devices.ts';
import { Host } from '../../src/daemon/host.ts';
import { addSent, MAX_REMEMBERED, REMEMBERED_NS, Totals } from '../../src/daemon/tenants/totals.ts';
import { SUM_NAMES } from '../../src/shim/counters.ts';
import { RULINGS, seatRow } from '../support/columns.ts';
import { identity, pages } from './host-rig.ts';

const client = (tenant: string) => new Client(identity(tenant), pages(), 4711);

test("a tenant's totals remain when its contexts and processes leave", () => {
  const host = new Host({ rulings: RULINGS, linkGbps: () => 100 });
  const [first, second] = [client('a'), client('a')];
  const sent = () => host.sentTotals(9).map(({ tenant, sentBytes }) => [tenant, sentBytes]);
  for (const one of [first, second]) host.join(one, 0, 'sim0', 1);
  seatRow(first.pages, 0).counters[M.SENT_BYTES] = 1000;
  seatRow(second.pages, 0).counters[M.SENT_BYTES] = 10;
  expect(sent()).toEqual([['a', 1010]]);
  seatRow(first.pages, 0).counters[M.SENT_BYTES] = 1500;
  host.leave(first, 0, 2);
  expect(host.tenants().map(({ sentBytes }) => sentBytes)).toEqual([1510]);
  host.forget(second, 3);
  expect(host.tenants()).toEqual([]);
  expect(sent()).toEqual([['a', 1510]]);
  // What the page of a returning tenant already shows is counted.
  host.join(first, 0, 'sim0', 4);
  expect(sent()).toEqual([['a', 1510]]);
  seatRow(first.pages, 0).counters[M.SENT_BYTES] = 1501;
  expect(sent()).toEqual([['a', 1511]]);
});

test('totals are finite and grow, whatever a page contains', () => {
  const total = new Totals().enter('sim0', 'a');
  const counted = { requests: 0, bytes: 0, sums: new Float64Array(SUM_NAMES.length) };
  const counters = new Float64Array(M.MEMBER.reports.length);
  let before = 0;
  for (const value of [5, 3, Number.NaN, 7, -1, Number.POSITIVE_INFINITY, 1e300, 9, -1e300, 10]) {
    counters.fill(value);
    addSent(total, counted, counters);
    expect(total.sentBytes).toBeGreaterThanOrEqual(before);
    expect(total.sentBytes).toBeLessThan(100);
    before = total.sentBytes;
  }
  expect(before).toBeGreaterThan(5);
});

test('departed tenants are dropped after an hour, or at once, oldest first, beyond a thousand', () => {
  const totals = new Totals();
  totals.enter('sim0', 'stays');
  for (let i = 0; i < MAX_REMEMBERED + 5; i++) totals.leave(totals.enter('sim0', `t${i}`), i);
  const names = () => totals.all(MAX_REMEMBERED + 5).map(({ tenant }) => tenant);
  expect(names()).toHaveLength(1 + MAX_REMEMBERED);
  expect(names()).not.toContain('t4');
  expect(names()).toContain('t5');
  expect(totals.enter('sim0', 't7')).toMatchObject({ tenant: 't7' });
  expect(totals.all(REMEMBERED_NS + 1e6).map(({ tenant }) => tenant)).toEqual(['stays', 't7']);
});
