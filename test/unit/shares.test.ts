// Static rates of tenants (src/policies/token-bucket/shares.ts): closed forms for weights, configured rates and membership.
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import {
  DEFAULT_CAPACITY,
  GBPS,
  MAX_REQUESTS_PER_S,
  type MemberPage,
  MemberTable,
  memberTableBytes,
  TENANT,
  TENANT_REQUESTS_PER_S,
  WEIGHT,
  WRITTEN_NS,
} from '../../src/coordinator/member-table.ts';
import { tenantId } from '../../src/coordinator/tenants.ts';
import { type ShareRules, shares } from '../../src/policies/token-bucket/shares.ts';
import { granted, report, reported } from '../support/columns.ts';

const numbers = (byName: Record<string, number>) =>
  new Map(Object.entries(byName).map(([name, value]) => [tenantId(name), value]));
const rules = (weights: Record<string, number> = {}, ratesGbps: Record<string, number> = {}): ShareRules => ({
  linkGbps: 100,
  weights: numbers(weights),
  ratesGbps: numbers(ratesGbps),
  shared: true,
});

function join(coordinator: Coordinator, tenant: string, qps = 1): MemberPage {
  const page = coordinator.join(tenant) as MemberPage;
  report(page, { ratedQps: qps });
  return page;
}
const rates = (...pages: MemberPage[]) => pages.map((page) => granted(page, 'rateGbps'));

test('by weight among tenants with queue pairs; contexts of one tenant share equally', () => {
  const coordinator = new Coordinator();
  const a = [join(coordinator, 'a'), join(coordinator, 'a', 5)];
  const [b, absent] = [join(coordinator, 'b'), join(coordinator, 'c', 0)];
  expect(coordinator.decide(shares, rules({ a: 3, c: 7 }), 0)).toBe(true);
  expect(rates(...a, b)).toEqual([37.5, 37.5, 25]);
  expect(coordinator.takeChanges()).toEqual([0, 1, 2]);
  report(b, { ratedQps: 0 });
  coordinator.decide(shares, rules({ a: 3 }), 0);
  expect(rates(...a)).toEqual([50, 50]);
  expect(reported(absent, 'ratedQps')).toBe(0);
});

test('what is declared of a tenant counts where the rules name no value, and the link is the one of the device', () => {
  const coordinator = new Coordinator();
  coordinator.setLink(200);
  const [a, b, c] = ['a', 'b', 'c'].map((name) => join(coordinator, name));
  const declare = (page: MemberPage, column: number, value: number) => {
    page.columns(TENANT).reports[column] = value;
  };
  const { linkGbps: _, ...unnamed } = rules({ c: 5 });
  declare(b, WEIGHT, 2);
  declare(c, WEIGHT, 9);
  coordinator.decide(shares, unnamed, 0);
  expect(rates(a, b, c)).toEqual([25, 50, 125]);
  // Later changes count with the next decision.
  declare(a, GBPS, 40);
  declare(b, WEIGHT, 3);
  coordinator.decide(shares, unnamed, 0);
  expect(rates(a, b, c)).toEqual([40, 60, 100]);
});

test('a context without queue pairs takes nothing from the others, and its rate is not reported', () => {
  const coordinator = new Coordinator();
  const a = [join(coordinator, 'a'), join(coordinator, 'a', 0)];
  const [b, c] = [join(coordinator, 'b', 0), join(coordinator, 'c', 0)];
  const given = rules({ b: 3 }, { c: 20 });
  coordinator.decide(shares, given, 0);
  expect(rates(...a, b, c)).toEqual([100, 50, 75, 20]);
  expect(coordinator.takeChanges()).toEqual([0]);
  report(b, { ratedQps: 1 });
  coordinator.decide(shares, given, 0);
  expect(rates(a[0], b)).toEqual([25, 75]);
});

test('contexts of a tenant divide its requests, and get them back when one has no queue pairs any more', () => {
  const coordinator = new Coordinator();
  const [one, two, other] = ['a', 'a', 'b'].map((name) => join(coordinator, name));
  const given = { ...rules(), requestsPerS: numbers({ a: 3000 }) };
  const limits = () =>
    [one, two, other].map(({ grants }) => [grants[MAX_REQUESTS_PER_S], grants[TENANT_REQUESTS_PER_S]]);
  coordinator.decide(shares, given, 0);
  expect(limits()).toEqual([
    [1500, 3000],
    [1500, 3000],
    [0, 0],
  ]);
  coordinator.takeChanges();
  report(two, { ratedQps: 0 });
  coordinator.decide(shares, given, 0);
  expect(limits()[0]).toEqual([3000, 3000]);
  expect(coordinator.takeChanges()).toEqual([0]);
  coordinator.decide(shares, rules(), 0);
  expect(limits()[0]).toEqual([0, 0]);
});

test('each context without a tenant is a separate tenant', () => {
  const coordinator = new Coordinator();
  const pages = [
    join(coordinator, ''),
    join(coordinator, ''),
    join(coordinator, 'a'),
    join(coordinator, 'a'),
  ];
  coordinator.decide(shares, rules(), 0);
  const third = 100 / 3;
  expect(rates(...pages)).toEqual([third, third, third / 2, third / 2]);
});

test('a configured rate, of at most that of the link, is deducted from it, and a hundredth always remains for the others', () => {
  const coordinator = new Coordinator();
  const [a, b, c] = ['a', 'b', 'c'].map((tenant) => join(coordinator, tenant));
  coordinator.decide(shares, rules({}, { a: 10 }), 0);
  expect(rates(a, b, c)).toEqual([10, 45, 45]);
  coordinator.decide(shares, rules({}, { a: 200 }), 0);
  expect(rates(a, b, c)).toEqual([100, 0.5, 0.5]);
});

test('a part of a link of unknown rate is not described as a rate; a configured rate is', () => {
  const coordinator = new Coordinator();
  const [a, b] = ['a', 'b'].map((tenant) => join(coordinator, tenant));
  const described = () => [a, b].map((page) => coordinator.describe(shares, page.row));
  const { linkGbps: _, ...unknown } = rules({}, { a: 10 });
  coordinator.decide(shares, unknown, 0);
  expect(described()).toEqual([{ rateGbps: 10 }, { rateGbps: 0 }]);
  coordinator.decide(shares, rules({}, { a: 10 }), 0);
  expect(described()).toEqual([{ rateGbps: 10 }, { rateGbps: 90 }]);
});

test('a silent member keeps its share, but takes nothing from the others until it writes again', () => {
  const coordinator = new Coordinator();
  const [a, b] = ['a', 'b'].map((tenant) => join(coordinator, tenant));
  a.counters[WRITTEN_NS] = 900;
  b.counters[WRITTEN_NS] = 100;
  coordinator.decide(shares, { ...rules(), silentNs: 500 }, 1000);
  expect(rates(a, b)).toEqual([100, 50]);
  b.counters[WRITTEN_NS] = 1000;
  coordinator.decide(shares, { ...rules(), silentNs: 500 }, 1000);
  expect(rates(a, b)).toEqual([50, 50]);
});

test('a hostile member cannot be counted twice by writing odd numbers of queue pairs', () => {
  const coordinator = new Coordinator();
  const [a, b] = ['a', 'b'].map((tenant) => join(coordinator, tenant));
  for (const value of [1e300, Number.POSITIVE_INFINITY]) {
    report(a, { ratedQps: value });
    coordinator.decide(shares, rules(), 0);
    expect(rates(a, b)).toEqual([50, 50]);
  }
  for (const value of [Number.NaN, -1, 0.5, Number.NEGATIVE_INFINITY]) {
    report(a, { ratedQps: value });
    coordinator.decide(shares, rules(), 0);
    // Member a counts as one without queue pairs, so b has the whole link.
    expect(rates(a, b)).toEqual([50, 100]);
  }
});

test('threads over one memory see one division; while one decides, another skips its turn', () => {
  const memory = new SharedArrayBuffer(memberTableBytes(DEFAULT_CAPACITY));
  const [one, other] = [0, 1].map(() => new Coordinator(new MemberTable(memory)));
  const [a, b] = [join(one, 'a'), join(other, 'b')];
  expect(one.members.tryLock(0)).toBe(true);
  expect(other.decide(shares, rules(), 0)).toBe(false);
  one.members.unlock();
  expect(other.decide(shares, rules(), 0)).toBe(true);
  expect(rates(a, b)).toEqual([50, 50]);
  // Each view notifies only its own members.
  expect([one.takeChanges(), other.takeChanges()]).toEqual([[], [b.row]]);
});
