// Labels under every chain of policies, inline and in a worker: queryQp answers as the bare device does, wrong labels
// get the same errors, and policies see each change.
import { expect, test } from 'vitest';
import { labelVerbs } from '../../src/providers/labels.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import type { Policy, QpChange, QpView } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { chains, engineChains, tagsOf } from './chains.ts';
import { notes } from './notes.ts';
import { workerChains } from './worker-chains.ts';

const LABELS = V.ISO_QP_WEIGHT | V.ISO_QP_GROUP | V.ISO_QP_TRAFFIC;
const CAP = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };

/** A program that declares and changes labels, rightly and wrongly, and what it sees. */
function program(v: V.Provider): string[] {
  const { seen, note } = notes();
  const context = v.openDevice('sim0', { tenant: 'a', labels: { weight: 3, traffic: 1 } });
  const pd = v.allocPd(context);
  const cq = v.createCq(context, 16, 0).handle;
  const init = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: false };
  const qps = [v.createQp(pd, { ...init, group: 'g' }).handle, v.createQp(pd, init).handle];
  const show = (what: string) =>
    qps.forEach((qp, i) => {
      note(`${what}, queue pair ${i}`, () => {
        const { qpWeight, group, traffic, qpState } = v.queryQp(qp).attr;
        return { qpWeight, group, traffic, qpState };
      });
    });
  show('created');
  const values: [keyof V.QpLabels, number, unknown[]][] = [
    ['qpWeight', V.ISO_QP_WEIGHT, [0, -1, Number.NaN, 1e9, '1', null]],
    ['group', V.ISO_QP_GROUP, [null, 7, 'a\nb', 'x'.repeat(65)]],
    ['traffic', V.ISO_QP_TRAFFIC, [4, -1, 0.5, 'latency']],
  ];
  for (const [name, bit, wrong] of values) {
    for (const value of wrong) {
      note(`createQp ${name}`, () => v.createQp(pd, { ...init, [name]: value }));
      note(`modifyQp ${name}`, () => v.modifyQp(qps[0], { [name]: value }, bit));
    }
  }
  for (const weight of [0, -1, Number.NaN, 1e9]) {
    note('setLabels', () => v.setLabels(context, { weight }));
    note('openDevice', () => v.openDevice('sim0', { labels: { weight } }));
  }
  note('no field', () => v.modifyQp(qps[0], { qpWeight: 2 }, LABELS));
  show('after wrong labels');
  note('modifyQp', () => v.modifyQp(qps[0], { qpWeight: 2, group: 'h', traffic: 3 }, LABELS));
  note('setLabels', () => v.setLabels(context, { qpWeight: 5, group: 'context', traffic: 2 }));
  show('changed');
  v.destroyQp(qps[1]);
  note('destroyed', () => v.modifyQp(qps[1], { qpWeight: 2 }, V.ISO_QP_WEIGHT));
  v.destroyQp(qps[0]);
  v.destroyCq(cq);
  v.deallocPd(pd);
  v.closeDevice(context);
  note('closed', () => v.setLabels(context, { weight: 2 }));
  return seen;
}

function run(chain: readonly Interceptor[], wait = true): string[] {
  return program(compose(createFabric({ hosts: 2, seed: 1, autoAdvance: false, wait }).provider, chain));
}

const bare = run([]);

test('without a policy, labels are accepted and shown', () => {
  expect(bare).toContain('created, queue pair 0: {"qpWeight":1,"group":"g","traffic":1,"qpState":0}');
  expect(bare).toContain('changed, queue pair 0: {"qpWeight":2,"group":"h","traffic":3,"qpState":0}');
  expect(bare).toContain('changed, queue pair 1: {"qpWeight":5,"group":"context","traffic":2,"qpState":0}');
  const refused = bare.filter((line) => line.includes('ISO_ERR_ARGUMENT'));
  expect(refused).toHaveLength(2 * 14 + 2 * 4 + 1);
  expect(bare.filter((line) => line.includes('ISO_ERR_HANDLE'))).toHaveLength(2);
});

for (const [name, { chain, wait }] of Object.entries({ ...chains, ...engineChains })) {
  test(`inline: ${name}`, { tags: tagsOf(name) }, () => {
    expect(run(chain(), wait)).toEqual(bare);
  });
}

test.each(Object.entries(workerChains))('in a worker: %s', (_, { chain, wait }) => {
  expect(run(chain(), wait)).toEqual(bare);
});

test('a policy sees the labels of queue pairs and contexts, and each change once', () => {
  const log: unknown[] = [];
  const policy: Policy = {
    name: 'listener',
    needs: { wait: 'none' },
    slots: 0,
    onload: (_qp, _words, _start, count) => count,
    feed: () => {},
    onQp: ({ labels, context }: QpView, change: QpChange) => {
      if (change !== 'destroyed') log.push([change, { ...labels }, context.labels.weight]);
    },
  };
  run([createShim(() => policy)]);
  const created = { weight: 3, group: '', qpWeight: 1, traffic: 1 };
  expect(log).toEqual([
    ['created', { ...created, group: 'g' }, 3],
    ['created', created, 3],
    ['labels', { weight: 3, group: 'h', qpWeight: 2, traffic: 3 }, 3],
    ['labels', { weight: 3, group: 'context', qpWeight: 5, traffic: 2 }, 3],
  ]);
});

test('the device gets no labels', () => {
  const calls: unknown[] = [];
  const log =
    (verb: string, answer: unknown) =>
    (...args: unknown[]) => {
      calls.push([verb, ...args]);
      return answer;
    };
  const v = labelVerbs({
    openDevice: log('openDevice', 1) as V.Verbs['openDevice'],
    closeDevice: log('closeDevice', undefined) as V.Verbs['closeDevice'],
    allocPd: log('allocPd', 2) as V.Verbs['allocPd'],
    openXrcd: log('openXrcd', 3) as V.Verbs['openXrcd'],
    createQp: log('createQp', { handle: 4 }) as V.Verbs['createQp'],
    modifyQp: log('modifyQp', undefined) as V.Verbs['modifyQp'],
    queryQp: log('queryQp', { attr: {}, init: {} }) as V.Verbs['queryQp'],
    requireContext: () => {},
    requireQp: () => {},
  });
  const init = { qpType: V.IBV_QPT_RC, sendCq: 1, recvCq: 1, cap: CAP, sqSigAll: false };
  v.openDevice('dev0', { tenant: 't', labels: { weight: 2, traffic: 3 } });
  v.setLabels(1, { weight: 3 });
  v.createQp(2, { ...init, qpWeight: 2, group: 'g', traffic: 1 });
  v.modifyQp(4, { qpWeight: 3 }, V.ISO_QP_WEIGHT);
  v.modifyQp(4, { group: 'h', portNum: 1, traffic: 2 }, (LABELS & ~V.ISO_QP_WEIGHT) | V.IBV_QP_PORT);
  expect(v.queryQp(4).attr).toEqual({ qpWeight: 3, group: 'h', traffic: 2 });
  expect(calls).toEqual([
    ['openDevice', 'dev0', { tenant: 't' }],
    ['createQp', 2, init],
    ['modifyQp', 4, { portNum: 1 }, V.IBV_QP_PORT],
    ['queryQp', 4],
  ]);
});
