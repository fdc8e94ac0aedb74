// What palos reports to the ruler of windows, and what it reads from there.
import { expect, test } from 'vitest';
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import { CoordinatorRegistry } from '../../../src/coordinator/registry.ts';
import { columnIndex } from '../../../src/coordinator/ruler.ts';
import { tenantId } from '../../../src/coordinator/tenants.ts';
import { GROUPS, IS_STEERED, PART, WINDOW_REPORTS } from '../../../src/policies/link/columns.ts';
import { Reporter } from '../../../src/policies/link/reporter.ts';
import { palosOptions } from '../../../src/policies/palos/options.ts';
import { windowRulesOf, windows } from '../../../src/policies/palos/ruler.ts';
import type { Actions, ContextView, QpView } from '../../../src/shim/policy.ts';
import { DEFAULT_LABELS, type Labels } from '../../../src/verbs/labels.ts';

const TOKEN = 3;
const RULES = windowRulesOf(palosOptions.parse({}));

function ground() {
  const registry = new CoordinatorRegistry(() => new Coordinator(undefined, 'by owner'));
  const waiting = new Set<number>();
  /** Bytes on the wire that each queue pair has sent since the last sample. */
  const sent = new Map<number, number>();
  const reporter = new Reporter(registry, windows, {
    waits: ({ index }) => waiting.has(index),
    takeSentBytes: ({ index }) => {
      const bytes = sent.get(index) ?? 0;
      sent.delete(index);
      return bytes;
    },
    groupWeightOf: ({ labels }) => labels.group.length + 1,
  });
  const timers: [ContextView, number, number][] = [];
  const out = {
    timer: (context, atNs, token) => timers.push([context, atNs, token]),
  } as Partial<Actions> as Actions;
  let qps = 0;
  const open = (index: number) => {
    const context = { index, handle: index, device: 'sim0', tenant: 't', nic: null, labels: DEFAULT_LABELS };
    const leave = registry.subscribe(context, () => {});
    reporter.open(context, RULES, 0);
    const columns = () => registry.page(context).columns(windows);
    return {
      context,
      leave,
      said: (name: string) => columns().reports[columnIndex(WINDOW_REPORTS, name)],
      grant: (column: number, value: number) => {
        columns().grants[column] = value;
      },
      add(labels: Partial<Labels> = {}): QpView {
        const qp = { index: qps++, context, labels: { ...DEFAULT_LABELS, ...labels } } as QpView;
        reporter.add(qp);
        return qp;
      },
    };
  };
  return { registry, reporter, waiting, sent, timers, out, open };
}

test('a sample has the bytes on the wire of all queue pairs so far, and whether one waits', () => {
  const { reporter, waiting, sent, open } = ground();
  const one = open(0);
  const [a, b] = [one.add(), one.add()];
  sent.set(a.index, 1000).set(b.index, 500);
  waiting.add(a.index);
  reporter.sample(0.25, 1);
  expect([one.said('wireBytes'), one.said('isHungry'), one.said('leastPart')]).toEqual([1500, 1, 0.25]);
  sent.set(b.index, 1);
  waiting.clear();
  reporter.sample(0.25, 1);
  expect([one.said('wireBytes'), one.said('isHungry')]).toEqual([1501, 0]);
});

test('the daemon may be found gone while a sample is written', () => {
  const { registry, reporter, sent, open } = ground();
  const one = open(0);
  const a = one.add();
  const page = registry.page(one.context);
  const columns = page.columns(windows) as { reports: Float64Array<ArrayBuffer> };
  const daemons = Float64Array.from(columns.reports);
  columns.reports = daemons;
  page.beat = () => {
    columns.reports = daemons.slice();
    structuredClone(daemons.buffer, { transfer: [daemons.buffer] });
  };
  sent.set(a.index, 1000);
  reporter.sample(0.25, 1);
  expect([one.said('wireBytes'), one.said('leastPart'), one.said('weight0')]).toEqual([1000, 0.25, 1]);
});

test('weights are added up by group: those of all queue pairs, and of those that have sent or wait', () => {
  const { reporter, waiting, sent, open } = ground();
  const one = open(0);
  const [waits, sends, , other] = [
    one.add({ group: 'a', qpWeight: 1 }),
    one.add({ group: 'a', qpWeight: 2 }),
    one.add({ group: 'a', qpWeight: 4 }),
    one.add({ group: 'bb', qpWeight: 8 }),
  ];
  waiting.add(waits.index);
  sent.set(sends.index, 1);
  reporter.sample(0, 1);
  const said = (i: number) =>
    ['group', 'groupWeight', 'weight', 'activeWeight'].map((name) => one.said(`${name}${i}`));
  expect(said(0)).toEqual([tenantId('group a'), 2, 7, 3]);
  expect(said(1)).toEqual([tenantId('group bb'), 3, 8, 0]);
  expect(said(2)).toEqual([0, 0, 0, 0]);
  // What was sent counts for one sample.
  waiting.clear();
  reporter.sample(0, 1);
  expect(said(0)).toEqual([tenantId('group a'), 2, 7, 0]);
  reporter.drop(other);
  reporter.sample(0, 1);
  expect(said(1)).toEqual([0, 0, 0, 0]);
});

test('queue pairs of further groups count as members of the last one', () => {
  const { reporter, open } = ground();
  const one = open(0);
  for (let i = 0; i < GROUPS + 3; i++) one.add({ group: `${i}`, qpWeight: 1 + i });
  reporter.sample(0, 1);
  expect(one.said(`group${GROUPS - 1}`)).toBe(tenantId(`group ${GROUPS - 1}`));
  expect(one.said(`weight${GROUPS - 1}`)).toBe(4 + 5 + 6 + 7);
});

test('samples are planned for each context of which the daemon wants reports, until it closes', () => {
  const { reporter, timers, out, open } = ground();
  const [one, two] = [open(0), open(1)];
  one.grant(IS_STEERED, 0);
  two.grant(IS_STEERED, 1);
  reporter.plan(5, out, TOKEN);
  expect(timers).toEqual([[two.context, 5, TOKEN]]);
  one.grant(IS_STEERED, 1);
  two.leave();
  timers.length = 0;
  reporter.plan(6, out, TOKEN);
  expect(timers).toEqual([[one.context, 6, TOKEN]]);
});

test('a closed context reports nothing in the place of a member that came after it', () => {
  const { registry, reporter, waiting, open } = ground();
  const one = open(0);
  waiting.add(one.add().index);
  const { row } = registry.page(one.context);
  one.leave();
  const page = registry.page({ ...one.context, index: 1, handle: 1 });
  expect(page.row).toBe(row);
  reporter.sample(0, 1);
  expect(page.columns(windows).reports[columnIndex(WINDOW_REPORTS, 'hasPolicy')]).toBe(0);
  expect(page.columns(windows).reports[columnIndex(WINDOW_REPORTS, 'isHungry')]).toBe(0);
});

test('the part is that of all contexts with something to send, and at most the whole window', () => {
  const { reporter, waiting, open } = ground();
  const [one, two] = [open(0), open(1)];
  const [a, b] = [one.add(), two.add()];
  one.grant(PART, 0.25);
  two.grant(PART, 0.5);
  expect(reporter.part).toBe(1);
  waiting.add(a.index);
  reporter.sample(0, 1);
  expect(reporter.part).toBe(0.25);
  waiting.add(b.index);
  reporter.sample(0, 1);
  expect(reporter.part).toBe(0.75);
  one.grant(PART, 0.75);
  expect(reporter.part).toBe(1);
});
