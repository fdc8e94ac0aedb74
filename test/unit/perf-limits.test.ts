/** PeRF's limits of tenants: kept while they matter, forgotten afterwards. */
import { expect, test } from 'vitest';
import { Limits } from '../../src/policies/perf/limits.ts';
import type { Actions, ContextView, QpView } from '../../src/shim/policy.ts';
import { DEFAULT_LABELS } from '../../src/verbs/labels.ts';

const OPTIONS = { maxRequestsPerS: 1e6, burstRequests: 10, maxQps: 2 };

function ground() {
  const limits = new Limits(OPTIONS);
  const open = new Set<ContextView>();
  let nowNs = 0;
  const out = { nowNs: () => nowNs } as unknown as Actions;
  return {
    limits,
    /** Opens a context of a tenant, with the first index that is free. */
    enter(tenant: string): { context: ContextView; qp: QpView } {
      const taken = new Set([...open].map(({ index }) => index));
      let index = 0;
      while (taken.has(index)) index++;
      const context = { index, handle: index, device: 'sim0', tenant, nic: null, labels: DEFAULT_LABELS };
      open.add(context);
      limits.addContext(context, nowNs, (one) => open.has(one));
      return { context, qp: { index, context } as QpView };
    },
    leave: (context: ContextView) => open.delete(context),
    take: (qp: QpView, count: number) => limits.take(qp, count, out),
    later(ns: number) {
      nowNs += ns;
    },
  };
}

const sizeOf = (limits: Limits) => (limits as unknown as { tenants: Map<string, unknown> }).tenants.size;

test('a tenant that reopens keeps its remaining budget, however many tenants come and go meanwhile', () => {
  const g = ground();
  const first = g.enter('a');
  g.limits.addQp(first.qp);
  expect(g.take(first.qp, 50)).toBe(10);
  g.limits.removeQp(first.qp);
  g.leave(first.context);
  for (let i = 0; i < 500; i++) g.leave(g.enter(`t${i}`).context);
  const again = g.enter('a');
  g.limits.addQp(again.qp);
  expect(g.take(again.qp, 50)).toBe(0);
  g.later(3000);
  expect(g.take(again.qp, 50)).toBe(3);
});

test('tenants that are gone are forgotten; those with an open context are not', () => {
  const g = ground();
  const stays = g.enter('stays');
  g.limits.addQp(stays.qp);
  for (let i = 0; i < 10_000; i++) g.leave(g.enter(`t${i}`).context);
  expect(sizeOf(g.limits)).toBeLessThan(200);
  // Its second context shares with the first.
  const more = g.enter('stays');
  g.limits.addQp({ ...more.qp, index: 1000 });
  expect(g.limits.mayAddQp(more.context)).toBe(false);
});
