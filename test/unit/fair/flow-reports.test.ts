/** What the contexts of a process report of their queue pairs, and how long they are held to what they are told. */
import { expect, test } from 'vitest';
import type { AgentLine, AgentLineEvents } from '../../../src/coordinator/agent.ts';
import type { CoordinatorRegistry } from '../../../src/coordinator/registry.ts';
import { readFlows, writeLimits } from '../../../src/policies/fair/agent/messages.ts';
import { Flows } from '../../../src/policies/fair/flows.ts';
import type { ContextView, QpView } from '../../../src/shim/policy.ts';

const PEER = '::ffff:10.0.0.2';
const SELF = '::ffff:10.0.0.1';
const MS = 1e6;

/** Contexts with lines to an agent that only listens. */
function rig({ intervalNs = 0 } = {}) {
  const closed = new Set<ContextView>();
  const lines = new Map<ContextView, AgentLineEvents>();
  const told: Float64Array[] = [];
  const registry = {
    registerGid: () => {},
    has: (context: ContextView) => !closed.has(context),
    notify: () => {},
    mayReach: () => true,
    line: (context: ContextView, _kind: unknown, events: AgentLineEvents) => {
      lines.set(context, events);
      const tell = (words: ArrayLike<number>) => told.push(Float64Array.from(words)) > 0;
      events.onUp?.({ intervalNs, tell } satisfies AgentLine);
    },
  } as unknown as CoordinatorRegistry;
  const sent: number[] = [];
  const flows = new Flows(registry, {
    ...{ linkPerNs: 12.5, requestBytes: 98, responseBytes: 98 },
    sentBytes: ({ index }, isRead) => (isRead ? 0 : (sent[index] ?? 0)),
    waits: () => false,
  });
  /** A sample of the last `ns`, in which these queue pairs have sent a lot. */
  let nowNs = 0;
  const sample = (indices: readonly number[], ns = MS / 4) => {
    for (const index of indices) sent[index] = (sent[index] ?? 0) + 4 * ns;
    nowNs += ns;
    told.length = 0;
    const nextNs = flows.sample(nowNs);
    flows.apply(nowNs);
    return { periodNs: nextNs - nowNs, rows: told.flatMap((words) => readFlows(words)!.flows) };
  };
  const limit = (context: ContextView, perNs: number, allPerNs = 0) => {
    const all = { outPerNs: allPerNs, inPerNs: 0 };
    const words = writeLimits(2 * MS, all, [{ gid: PEER, outPerNs: perNs, inPerNs: 0 }]);
    lines.get(context)!.onTold!(Float64Array.from(words));
    flows.apply(nowNs);
  };
  return { flows, closed, sample, limit };
}

const contextOf = (index: number) => ({ index, device: 'sim0' }) as ContextView;
const qpOf = (context: ContextView, index: number, dgid = PEER) =>
  ({
    context,
    index,
    dgid,
    sgid: dgid === '' ? '' : SELF,
    counts: new Float64Array(64),
  }) as unknown as QpView;

test('a queue pair that is modified stays limited, unless it has another peer', () => {
  const { flows, sample, limit } = rig();
  const context = contextOf(0);
  const qp = qpOf(context, 0);
  flows.add(qp);
  for (let i = 0; i < 3; i++) sample([0]);
  limit(context, 1);
  flows.add(qp);
  expect(flows.limits.limits(0)).toBe(true);
  Object.assign(qp, { dgid: '::ffff:10.0.0.3' });
  flows.add(qp);
  expect(flows.limits.limits(0)).toBe(false);
  expect(flows.limits.isLimiting).toBe(false);
});

test('a context with the number of one that was closed leaves no limits of that one', () => {
  const { flows, closed, sample, limit } = rig();
  const [first, second] = [contextOf(0), contextOf(0)];
  flows.add(qpOf(first, 0));
  for (let i = 0; i < 3; i++) sample([0]);
  limit(first, 0, 1);
  expect(flows.limits.isLimiting).toBe(true);
  flows.drop({ index: 0 });
  closed.add(first);
  flows.add(qpOf(second, 0));
  sample([]);
  expect(flows.limits.isLimiting).toBe(false);
});

test('queue pairs that rest have no part in what may be in flight', () => {
  const { flows, sample, limit } = rig();
  const context = contextOf(0);
  for (let index = 0; index < 100; index++) flows.add(qpOf(context, index));
  for (let i = 0; i < 3; i++) sample([7]);
  limit(context, 2);
  expect(flows.limits.flightBytes(7, false, 1000)).toBe(2000);
  sample([7, 8]);
  expect(flows.limits.flightBytes(7, false, 1000)).toBe(1000);
});

test('limits hold until they can be confirmed, however many queue pairs there are', () => {
  const { flows, sample, limit } = rig();
  const context = contextOf(0);
  for (let index = 0; index < 5000; index++) flows.add(qpOf(context, index));
  for (let i = 0; i < 3; i++) sample([0]);
  limit(context, 1);
  sample([0], sample([0]).periodNs);
  expect(flows.limits.limits(0)).toBe(true);
});

test('datagrams count among what a context sends, if it has other peers', () => {
  const { flows, sample } = rig();
  const context = contextOf(0);
  flows.add(qpOf(context, 0, ''));
  for (let i = 0; i < 3; i++) expect(sample([0]).rows).toEqual([]);
  flows.add(qpOf(context, 1));
  const rows = [sample([0, 1]), sample([0, 1])].at(-1)!.rows;
  expect(rows.map(({ gid }) => gid)).toEqual([PEER, '::']);
  for (const { out } of rows) expect(out.perNs).toBeGreaterThan(1);
});

test('contexts that share a line with a limited rate report less often', () => {
  const { flows, sample } = rig({ intervalNs: MS });
  for (let index = 0; index < 10; index++) flows.add(qpOf(contextOf(index), index));
  const all = Array.from({ length: 10 }, (_, index) => index);
  for (let i = 0; i < 3; i++) sample(all);
  expect(sample(all).periodNs).toBe(20 * MS);
});
