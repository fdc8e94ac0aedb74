// Static rates of tenants (src/coordinator/shares.ts): closed forms of weights, own rates and who is there.
import { expect, test } from 'vitest';
import { Coordinator, tenantId } from '../../src/coordinator/coordinator.ts';
import {
  DEFAULT_CAPACITY,
  type MemberPage,
  MemberTable,
  memberTableBytes,
  RATE_GBPS,
  RATED_QPS,
  WRITTEN_NS,
} from '../../src/coordinator/member-table.ts';
import type { ShareRules } from '../../src/coordinator/shares.ts';

const numbers = (byName: Record<string, number>) =>
  new Map(Object.entries(byName).map(([name, value]) => [tenantId(name), value]));
const rules = (weights: Record<string, number> = {}, ratesGbps: Record<string, number> = {}): ShareRules => ({
  linkGbps: 100,
  weights: numbers(weights),
  ratesGbps: numbers(ratesGbps),
});

function join(coordinator: Coordinator, tenant: string, qps = 1): MemberPage {
  const page = coordinator.join(tenant) as MemberPage;
  page.counters[RATED_QPS] = qps;
  return page;
}
const rates = (...pages: MemberPage[]) => pages.map(({ grants }) => grants[RATE_GBPS]);

test('by weight among those that have queue pairs; contexts of a tenant have equal parts', () => {
  const coordinator = new Coordinator();
  const a = [join(coordinator, 'a'), join(coordinator, 'a', 5)];
  const [b, absent] = [join(coordinator, 'b'), join(coordinator, 'c', 0)];
  expect(coordinator.share(rules({ a: 3, c: 7 }), 0)).toBe(true);
  expect(rates(...a, b)).toEqual([37.5, 37.5, 25]);
  expect(coordinator.takeChanges()).toEqual([0, 1, 2]);
  b.counters[RATED_QPS] = 0;
  coordinator.share(rules({ a: 3 }), 0);
  expect(rates(...a)).toEqual([50, 50]);
  expect(absent.counters[RATED_QPS]).toBe(0);
});

test('a context without queue pairs takes nothing from the others, and its rate is not reported', () => {
  const coordinator = new Coordinator();
  const a = [join(coordinator, 'a'), join(coordinator, 'a', 0)];
  const [b, c] = [join(coordinator, 'b', 0), join(coordinator, 'c', 0)];
  const given = rules({ b: 3 }, { c: 20 });
  coordinator.share(given, 0);
  expect(rates(...a, b, c)).toEqual([100, 50, 75, 20]);
  expect(coordinator.takeChanges()).toEqual([0]);
  b.counters[RATED_QPS] = 1;
  coordinator.share(given, 0);
  expect(rates(a[0], b)).toEqual([25, 75]);
});

test('contexts without a tenant are tenants of their own', () => {
  const coordinator = new Coordinator();
  const pages = [
    join(coordinator, ''),
    join(coordinator, ''),
    join(coordinator, 'a'),
    join(coordinator, 'a'),
  ];
  coordinator.share(rules(), 0);
  const third = 100 / 3;
  expect(rates(...pages)).toEqual([third, third, third / 2, third / 2]);
});

test('a rate of its own comes off the link; a hundredth of it is left for the others', () => {
  const coordinator = new Coordinator();
  const [a, b, c] = ['a', 'b', 'c'].map((tenant) => join(coordinator, tenant));
  coordinator.share(rules({}, { a: 10 }), 0);
  expect(rates(a, b, c)).toEqual([10, 45, 45]);
  coordinator.share(rules({}, { a: 200 }), 0);
  expect(rates(a, b, c)).toEqual([200, 0.5, 0.5]);
});

test('a silent member keeps its share, but takes nothing from the others until it writes again', () => {
  const coordinator = new Coordinator();
  const [a, b] = ['a', 'b'].map((tenant) => join(coordinator, tenant));
  a.counters[WRITTEN_NS] = 900;
  b.counters[WRITTEN_NS] = 100;
  coordinator.share(rules(), 1000, 500);
  expect(rates(a, b)).toEqual([100, 50]);
  b.counters[WRITTEN_NS] = 1000;
  coordinator.share(rules(), 1000, 500);
  expect(rates(a, b)).toEqual([50, 50]);
});

test('what a hostile member writes is no number of queue pairs that counts twice', () => {
  const coordinator = new Coordinator();
  const [a, b] = ['a', 'b'].map((tenant) => join(coordinator, tenant));
  for (const value of [1e300, Number.POSITIVE_INFINITY]) {
    a.counters[RATED_QPS] = value;
    coordinator.share(rules(), 0);
    expect(rates(a, b)).toEqual([50, 50]);
  }
  for (const value of [Number.NaN, -1, 0.5, Number.NEGATIVE_INFINITY]) {
    a.counters[RATED_QPS] = value;
    coordinator.share(rules(), 0);
    // As one without any: b has all of it.
    expect(rates(a, b)).toEqual([50, 100]);
  }
});

test('threads over one memory see one division; while one decides another comes back later', () => {
  const memory = new SharedArrayBuffer(memberTableBytes(DEFAULT_CAPACITY));
  const [one, other] = [0, 1].map(() => new Coordinator(new MemberTable(memory)));
  const [a, b] = [join(one, 'a'), join(other, 'b')];
  expect(one.members.tryLock(0)).toBe(true);
  expect(other.share(rules(), 0)).toBe(false);
  one.members.unlock();
  expect(other.share(rules(), 0)).toBe(true);
  expect(rates(a, b)).toEqual([50, 50]);
  // Each view tells its own.
  expect([one.takeChanges(), other.takeChanges()]).toEqual([[], [b.row]]);
});
