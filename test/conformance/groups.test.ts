// Groups under every chain of policies, inline and in a worker: programs see the same as on the bare device, and
// policies see each weight that changes, once per tenant.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { check, createReplay, fault, readTrace, record, trace } from '../../src/interceptors/index.ts';
import { labelVerbs } from '../../src/providers/labels.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import type { CoordinatorPort } from '../../src/shim/coordinator-port.ts';
import type { ContextView, Policy, QpChange, QpView } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { chains, engineChains } from './chains.ts';
import { notes } from './notes.ts';
import { workerChains } from './worker-chains.ts';

const CAP = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };

/** A program that uses groups, rightly and wrongly, and what it sees. */
function program(v: V.Provider): string[] {
  const { seen, note } = notes();
  const open = () => v.openDevice('sim0', { tenant: 'a', groups: { kv: 3 } });
  const [one, two] = [open(), open()];
  const pd = v.allocPd(one);
  const cq = v.createCq(one, 16, 0).handle;
  const init = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: false };
  const qp = v.createQp(pd, { ...init, group: 'kv' }).handle;
  for (const weight of [0, -1, Number.NaN, 1e9]) {
    note('createGroup', () => v.createGroup(one, 'scan', weight));
    note('openDevice', () => v.openDevice('sim0', { groups: { kv: weight } }));
  }
  note('unknown', () => v.setGroup(one, 'scan', 1));
  note('created', () => v.createGroup(one, 'scan', 2));
  note('set', () => v.setGroup(two, 'kv', 4));
  note('busy', () => v.destroyGroup(one, 'kv'));
  v.modifyQp(qp, { group: 'scan' }, V.ISO_QP_GROUP);
  note('left', () => v.destroyGroup(one, 'kv'));
  note('joined', () => v.destroyGroup(one, 'scan'));
  v.destroyQp(qp);
  note('destroyed', () => v.destroyGroup(one, 'scan'));
  v.destroyCq(cq);
  v.deallocPd(pd);
  v.closeDevice(one);
  note('closed', () => v.createGroup(one, 'kv', 1));
  v.closeDevice(two);
  return seen;
}

function run(chain: readonly Interceptor[], wait = true): string[] {
  return program(compose(createFabric({ hosts: 2, seed: 1, autoAdvance: false, wait }).provider, chain));
}

const bare = run([]);

test('without a policy, groups are accepted', () => {
  for (const line of ['created', 'set', 'left', 'destroyed']) expect(bare).toContain(`${line}: undefined`);
  expect(bare.filter((line) => line.includes('ISO_ERR_ARGUMENT'))).toHaveLength(9);
  expect(bare.filter((line) => line.includes('ISO_ERR_BUSY'))).toHaveLength(2);
});

test.each(Object.entries({ ...chains, ...engineChains }))('inline: %s', (_, { chain, wait }) => {
  expect(run(chain(), wait)).toEqual(bare);
});

test.each(Object.entries(workerChains))('in a worker: %s', (_, { chain, wait }) => {
  expect(run(chain(), wait)).toEqual(bare);
});

/** A policy that logs the events that concern groups and weights. */
function logging(log: unknown[], more: Partial<Policy> = {}): Policy {
  return {
    name: 'log',
    needs: { wait: 'none' },
    slots: 0,
    onload: (_qp, _words, _start, count) => count,
    feed: () => {},
    onGroup: ({ tenant }: ContextView, name: string, weight: number) => log.push([tenant, name, weight]),
    ...more,
  };
}

function shimmed(policy: Policy, coordinator?: CoordinatorPort): V.Provider {
  const { provider } = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  return compose(provider, [createShim(() => policy, coordinator === undefined ? {} : { coordinator })]);
}

test('a policy sees each weight that changes, once per tenant', () => {
  const log: unknown[] = [];
  run([createShim(() => logging(log))]);
  expect(log).toEqual([
    ['a', 'kv', 3],
    ['a', 'scan', 2],
    ['a', 'kv', 4],
    ['a', 'scan', 1],
    ['a', 'kv', 1],
  ]);
});

test('tenants, and contexts without a tenant, have groups of their own', () => {
  const log: unknown[] = [];
  const v = shimmed(logging(log));
  const contexts = ['a', 'b', '', ''].map((tenant) => v.openDevice('sim0', { tenant }));
  contexts.forEach((context, i) => {
    v.createGroup(context, 'kv', 2 + i);
  });
  const other = v.openDevice('sim1', { tenant: 'a', groups: { kv: 6 } });
  v.createGroup(other, 'kv', 6);
  expect(log).toEqual([
    ['a', 'kv', 2],
    ['b', 'kv', 3],
    ['', 'kv', 4],
    ['', 'kv', 5],
    ['a', 'kv', 6],
  ]);
});

test("the coordinator's weights precede the program's", () => {
  const log: unknown[] = [];
  const told: unknown[] = [];
  let groups: ReadonlyMap<string, number> = new Map([['kv', 5]]);
  let granted = () => {};
  const v = shimmed(logging(log), {
    subscribe: (_context, callback) => {
      granted = callback;
      return () => {};
    },
    groupsOf: () => groups,
    setGroup: (_context, name, weight) => told.push([name, weight]),
  });
  const context = v.openDevice('sim0', { tenant: 'a', groups: { kv: 2 } });
  const give = (given: Record<string, number>) => {
    groups = new Map(Object.entries(given));
    granted();
  };
  v.setGroup(context, 'kv', 3);
  give({ kv: 5, scan: 2 });
  give({});
  v.destroyGroup(context, 'kv');
  v.closeDevice(context);
  expect(log).toEqual([
    ['a', 'kv', 5],
    ['a', 'scan', 2],
    ['a', 'kv', 3],
    ['a', 'scan', 1],
    ['a', 'kv', 1],
  ]);
  expect(told).toEqual([
    ['kv', 2],
    ['kv', 3],
    ['kv', null],
  ]);
});

test('a new weight of the tenant is one event, if the policy has onWeight', () => {
  const log: unknown[] = [];
  const qps: QpView[] = [];
  const policy = logging(log, {
    onWeight: ({ labels }: ContextView) => log.push(['weight', labels.weight]),
    onQp: (qp: QpView, change: QpChange) => {
      qps.push(qp);
      log.push([change, qp.labels.weight, qp.labels.group]);
    },
  });
  const v = shimmed(policy);
  const context = v.openDevice('sim0');
  const pd = v.allocPd(context);
  const cq = v.createCq(context, 16, 0).handle;
  v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: false });
  v.setLabels(context, { weight: 3 });
  expect(qps[0].labels.weight).toBe(3);
  v.setLabels(context, { weight: 4, group: 'kv' });
  expect(log).toEqual([
    ['created', 1, ''],
    ['weight', 3],
    ['labels', 4, 'kv'],
  ]);
});

test('the device may hear of labels and of weights', () => {
  const log: unknown[] = [];
  let isBusy = false;
  const v = labelVerbs({
    openDevice: () => 1,
    closeDevice: () => {
      if (isBusy) throw new V.BusyError('busy');
    },
    allocPd: () => 2,
    openXrcd: () => 3,
    createQp: () => ({ handle: 4 }) as V.QpInfo,
    modifyQp: () => {},
    queryQp: () => ({ attr: {}, init: {} }) as ReturnType<V.Verbs['queryQp']>,
    requireContext: () => {},
    requireQp: () => {},
    onLabels: (qp, context, { qpWeight, group }) => log.push(['labels', qp, context, qpWeight, group]),
    onWeight: (context, weight) => log.push(['weight', context, weight]),
    onGroup: (context, name, weight) => log.push(['group', context, name, weight]),
  });
  const context = v.openDevice('dev0', { groups: { kv: 3 } });
  v.createQp(v.allocPd(context), { group: 'kv' } as V.QpInitAttr);
  v.setLabels(context, { weight: 2 });
  v.setLabels(context, { qpWeight: 5 });
  v.modifyQp(4, { group: '' }, V.ISO_QP_GROUP);
  isBusy = true;
  expect(() => v.closeDevice(context)).toThrow('busy');
  isBusy = false;
  v.closeDevice(context);
  expect(log).toEqual([
    ['group', 1, 'kv', 3],
    ['labels', 4, 1, 1, 'kv'],
    ['weight', 1, 2],
    ['labels', 4, 1, 5, 'kv'],
    ['labels', 4, 1, 5, ''],
    ['group', 1, 'kv', 1],
    ['group', 1, 'kv', 3],
    ['group', 1, 'kv', 1],
  ]);
});

test('check reports groups that are destroyed too early, and programs see the same', () => {
  const checking = check({ severity: 'hint' }, () => {});
  expect(run([checking])).toEqual(bare);
  const busy = checking.findings.filter(({ code }) => code === 'ISO_CHECK_DESTROY_ORDER');
  expect(busy.map(({ verb }) => verb)).toEqual(['destroyGroup']);
});

test('fault fails each verb of groups, and nothing has changed then', () => {
  const log: unknown[] = [];
  const { provider } = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  for (const verb of ['createGroup', 'setGroup', 'destroyGroup'] as const) {
    const faults = fault({ verb, call: 2 });
    const v = compose(provider, [createShim(() => logging(log)), faults]);
    const context = v.openDevice('sim0', { tenant: 'a' });
    log.length = 0;
    v.createGroup(context, 'kv', 3);
    v.setGroup(context, 'kv', 2);
    const call = () => {
      if (verb === 'destroyGroup') {
        v.createGroup(context, 'other', 1);
        v.destroyGroup(context, 'other');
        v.destroyGroup(context, 'kv');
      } else v[verb](context, 'kv', 5);
    };
    expect(call).toThrow(V.IsoverbsError);
    expect(log).toEqual([
      ['a', 'kv', 3],
      ['a', 'kv', 2],
    ]);
    v.closeDevice(context);
  }
});

test('trace, record and replay: programs see the same, and the trace has the verbs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-groups-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const tracing = trace({ file: join(folder, 'groups.trace') });
  const recorder = record({ file: join(folder, 'groups.record') });
  expect(run([tracing])).toEqual(bare);
  expect(run([recorder])).toEqual(bare);
  tracing.close();
  recorder.close();
  const verbs = [...readTrace(tracing.files[0]).records()].map(({ verb }) => verb);
  for (const verb of ['createGroup', 'setGroup', 'destroyGroup']) expect(verbs).toContain(verb);
  expect(program(createReplay(recorder.files[0]).provider)).toEqual(bare);
});
