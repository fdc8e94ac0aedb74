// Who shares the rates of a tenant's groups: what contexts report, and what they receive.
import { expect, test } from 'vitest';
import { RemoteCoordinator, type RemoteMember } from '../../src/daemon/client/remote-coordinator.ts';
import { TenantMemory } from '../../src/daemon/client/tenant-memory.ts';
import { type RatedSeat, RateNews, TenantRates } from '../../src/daemon/tenants/rates.ts';
import { MAX_RATES } from '../../src/verbs/rate-targets.ts';
import { seatRow } from '../support/columns.ts';
import { hostOf, pages, silentLink } from './host-rig.ts';

const TURN_NS = 20e6;

interface Seat extends RatedSeat {
  readonly tenant: { readonly seats: Set<Seat>; readonly rates: TenantRates };
}

function tenantOf(contexts: number, rates: Readonly<Record<string, number>>) {
  const tenant = { seats: new Set<Seat>(), rates: new TenantRates() };
  for (let i = 0; i < contexts; i++) tenant.seats.add({ tenant });
  tenant.rates.fix(new Map(Object.entries(rates)));
  return { ...tenant, all: [...tenant.seats] };
}

const sharersOf = ({ rates }: { rates: TenantRates }) =>
  Object.values(rates.given?.rates ?? {}).map(([, sharers]) => sharers);

test('contexts with queue pairs in a group share its rate; the rate of a queue pair is its own', () => {
  const news = new RateNews<Seat>();
  const tenant = tenantOf(3, { 'group=kv': 10, 'qp=10.0.0.2': 2 });
  const [one, two, three] = tenant.all;
  expect(sharersOf(tenant)).toEqual([1, 1]);
  const { version } = tenant.rates.given!;
  news.report(one, version, [2, 5]);
  news.report(two, version, [1, 1]);
  news.report(three, version, [0, 7]);
  expect(sharersOf(tenant)).toEqual([2, 1]);
  expect(tenant.rates.shown.ratedQps).toEqual({ 'group=kv': 3, 'qp=10.0.0.2': 13 });
  expect(news.take(0)).toEqual(tenant.all);
  tenant.seats.delete(one);
  news.left(one);
  expect(sharersOf(tenant)).toEqual([1, 1]);
  expect(news.take(1e9)).toEqual([two, three]);
  expect(news.isPending).toBe(false);
});

test('reports on rates of another version, or of another number, have no effect', () => {
  const news = new RateNews<Seat>();
  const tenant = tenantOf(1, { 'group=kv': 10 });
  const [one] = tenant.all;
  const { version } = tenant.rates.given!;
  tenant.rates.fix(new Map([['group=scan', 3]]));
  for (const [of, qps] of [
    [version, [4]],
    [version + 1, []],
    [version + 1, [4, 4]],
    [-1, [4]],
  ] as const)
    news.report(one, of, qps);
  expect([tenant.rates.shown.ratedQps, news.isPending]).toEqual([{ 'group=scan': 0 }, false]);
  news.report(one, version + 1, [4]);
  expect(tenant.rates.shown.ratedQps).toEqual({ 'group=scan': 4 });
});

test('contexts that come and go without pause cause few messages', () => {
  const news = new RateNews<Seat>();
  const tenant = tenantOf(1000, Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`group=${i}`, 1])));
  const [one] = tenant.all;
  const { version } = tenant.rates.given!;
  let sent = 0;
  for (let i = 0; i < 2000; i++) {
    news.report(one, version, new Array(64).fill(i & 1));
    sent += news.take((i / 2000) * 1e9).length;
  }
  // A thousand contexts with 64 rates may receive them once in about 16 turns.
  expect(sent).toBeGreaterThan(0);
  expect(sent).toBeLessThanOrEqual(1000 * Math.ceil(1e9 / (15.6 * TURN_NS)));
});

test('a tenant has at most as many rates as fit into a message', () => {
  const all = Array.from({ length: 3 * MAX_RATES }, (_, i) => [`group=${i}`, 1] as const);
  const tenant = tenantOf(1, Object.fromEntries(all));
  expect([tenant.rates.size, sharersOf(tenant).length]).toEqual([MAX_RATES, MAX_RATES]);
  expect(tenant.rates.shown).toMatchObject({ moreRates: MAX_RATES - 8, excessRates: 2 * MAX_RATES });
  tenant.rates.fix(new Map(all.slice(0, 3)));
  expect(tenant.rates.shown).not.toHaveProperty('excessRates');
});

test("a further context begins with its tenant's rates, before the daemon answers", () => {
  const memory = new TenantMemory();
  const seats: RemoteMember[] = [];
  const link = silentLink(seats, { lastGrants: (device, tenant) => memory.lookUp(seats, device, tenant) });
  const coordinator = new RemoteCoordinator('sim0', link);
  coordinator.join('a');
  const [first] = seats;
  memory.assign('a', 't');
  first.assignedTenant = 't';
  first.attach(seatRow(pages(), 0), hostOf().layout);
  expect(first.rates.size).toBe(0);
  first.setRates({ version: 1, rates: { 'group=kv': [3, 2] } });
  coordinator.join('a');
  memory.remember(first);
  seats.shift();
  coordinator.join('a');
  for (const { rates } of seats) expect([...rates]).toEqual([['group=kv', { gbps: 3, sharers: 2 }]]);
  seats[0].setRates(undefined);
  expect(seats[0].rates.size).toBe(0);
});
