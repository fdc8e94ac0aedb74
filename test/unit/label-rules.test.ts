// Labels by configuration: which contexts and connections rules label, and what takes precedence.
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { type LabelRule, labelRules, labelRulesSchema } from '../../src/label-rules.ts';
import { type Connection, Context, type ContextOptions, connect, listen } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as cm from '../../src/rdma-cm.ts';
import { compose } from '../../src/shim/compose.ts';
import type { Policy } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { toRts } from '../support/to-rts.ts';

const { ISO_TRAFFIC_BANDWIDTH: BANDWIDTH, ISO_TRAFFIC_LATENCY: LATENCY } = V;

function ruled(rules: readonly object[], command = 'node server.mjs --port 7') {
  const parsed: readonly LabelRule[] = labelRulesSchema.parse(rules);
  return compose(createFabric().provider, [labelRules(parsed, command)]);
}

type LabelledQp = Pick<Connection['qp'], 'query'>;
function labelsOf(qp: LabelledQp) {
  const { qpWeight, group, traffic } = qp.query().attr;
  return { qpWeight, group, traffic };
}

/** The labels of a new queue pair, and the weight of its context. */
function opened(provider: V.Provider, options: ContextOptions) {
  const context = new Context(provider, 'sim0', options);
  const { weight } = provider.setLabels(context.handle, {});
  const labels = labelsOf(context.allocPd().createQp({ sendCq: context.createCq() }));
  context.closeAll();
  return { weight, ...labels };
}

test('rules label contexts by tenant and command; each label is that of the first rule that sets it', () => {
  const provider = ruled([
    { match: { tenant: 'kv-*' }, weight: 3, traffic: 'latency' },
    { match: { command: '*other*' }, group: 'wrong' },
    { match: { tenant: 'kv-2', command: 'node *.mjs*' }, weight: 9, group: 'second' },
    { qpWeight: 2 },
  ]);
  const none = { weight: 1, qpWeight: 2, group: '', traffic: 0 };
  expect(opened(provider, { tenant: 'backup' })).toEqual(none);
  expect(opened(provider, {})).toEqual(none);
  expect(opened(provider, { tenant: 'kv-1' })).toEqual({ ...none, weight: 3, traffic: LATENCY });
  expect(opened(provider, { tenant: 'kv-2' })).toEqual({
    ...none,
    weight: 3,
    group: 'second',
    traffic: LATENCY,
  });
});

test('labels that the program sets take precedence', () => {
  const provider = ruled([{ weight: 3, group: 'rule', traffic: 'bandwidth' }]);
  const labels = { weight: 2, traffic: 'undeclared' } as const;
  expect(opened(provider, { labels })).toEqual({ weight: 2, qpWeight: 1, group: 'rule', traffic: 0 });
  expect(() => provider.openDevice('sim0', { labels: { weight: 0 } })).toThrow(
    'labels.weight must be a number',
  );
  expect(() => provider.openDevice('sim0', { labels: 7 as never })).toThrow('labels must be an object');
});

test('rules weigh the groups of tenants and programs; weights that the program sets take precedence', () => {
  const log: unknown[] = [];
  const policy: Policy = {
    name: 'log',
    needs: { wait: 'none' },
    slots: 0,
    onload: (_qp, _words, _start, count) => count,
    feed: () => {},
    onGroup: ({ tenant }, name, weight) => log.push([tenant, name, weight]),
  };
  const rules = labelRulesSchema.parse([
    { match: { tenant: 'shop' }, groups: { kv: 3, scan: 2 } },
    { match: { command: 'node *' }, groups: { kv: 5, all: 4 } },
    { match: { command: 'other' }, groups: { wrong: 4 } },
  ]);
  const chain = [labelRules(rules, 'node x.mjs'), createShim(() => policy)];
  const provider = compose(createFabric().provider, chain);
  const one = new Context(provider, 'sim0', { tenant: 'shop', groups: { scan: 1.5 } });
  one.setGroup('kv', 6);
  new Context(provider, 'sim0', { tenant: 'backup' }).close();
  expect(log).toEqual([
    ['shop', 'kv', 3],
    ['shop', 'all', 4],
    ['shop', 'scan', 1.5],
    ['shop', 'kv', 6],
    ['backup', 'kv', 5],
    ['backup', 'all', 4],
    ['backup', 'kv', 1],
    ['backup', 'all', 1],
  ]);
  expect(() => provider.openDevice('sim0', { groups: 7 as never })).toThrow('groups must be an object');
});

test.each([
  [{ groups: { kv: 0 } }, 'must be a number from 1e-6 to 1e6'],
  [{ groups: { '': 1 } }, 'must have names of 1 to 64 printable characters'],
  [{ match: { port: 7 }, groups: { kv: 2 } }, "'groups' belongs to the tenant, not to its connections"],
])('rule %o is refused', (rule, message) => {
  expect(labelRulesSchema.safeParse([rule]).error?.message).toContain(message);
});

/** Both queue pairs of a connection between two hosts, by the connection helper. */
async function helperPair(provider: V.Provider, port: number, labels = {}) {
  const ends = [0, 1].map((host) => new Context(provider, `sim${host}`, { tenant: 't' }));
  const options = ends.map((context) => ({ pd: context.allocPd(), sendCq: context.createCq() }));
  const listener = await listen(ends[0], { port, ...options[0] });
  const accepted = once(listener, 'connection') as Promise<[Connection]>;
  const connection = await connect(ends[1], { port, ...options[1], labels });
  const [peer] = await accepted;
  return { connection, peer };
}

test('rules label connections by port, at both ends', async () => {
  const provider = ruled([
    { match: { port: 7000 }, traffic: 'latency', group: 'kv' },
    { match: { port: 7001 }, traffic: 'bandwidth' },
  ]);
  const { connection, peer } = await helperPair(provider, 7000);
  expect(labelsOf(connection.qp)).toEqual({ qpWeight: 1, group: 'kv', traffic: LATENCY });
  expect(labelsOf(peer.qp)).toEqual({ qpWeight: 1, group: 'kv', traffic: LATENCY });
  const other = await helperPair(provider, 7001, { group: 'own', traffic: 'undeclared' });
  expect(labelsOf(other.connection.qp)).toEqual({ qpWeight: 1, group: 'own', traffic: 0 });
  expect(labelsOf(other.peer.qp)).toEqual({ qpWeight: 1, group: '', traffic: BANDWIDTH });
});

test("rules label rdma_cm's connections by address and port", async () => {
  const provider = ruled([
    { match: { tenant: 'absent', port: 7000 }, group: 'wrong' },
    { match: { port: 7000, address: '10.0.0.9' }, group: 'wrong' },
    { match: { port: 7000, address: '10.0.0.*' }, group: 'near', qpWeight: 0.5 },
  ]);
  const server = cm.createServer({ provider }).listen({ host: 'sim0', port: 7000 });
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[cm.CmConnection]>;
  const client = await cm.connect({ provider, host: 'sim0', port: 7000 });
  const [peer] = await accepted;
  expect(client.remoteAddress).toMatch(/^10\.0\.0\./);
  for (const { qp } of [client, peer])
    expect(labelsOf(qp)).toEqual({ qpWeight: 0.5, group: 'near', traffic: 0 });
  client.close();
  await server[Symbol.asyncDispose]();
});

test('rules by address label queue pairs that a program connects itself', () => {
  const provider = ruled([{ match: { address: '10.0.0.2' }, group: 'there' }]);
  const ends = [0, 1].map((host) => {
    const context = provider.openDevice(`sim${host}`);
    const cq = provider.createCq(context, 16, 0).handle;
    const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const init = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
    const qp = provider.createQp(provider.allocPd(context), init);
    return { qp, gid: provider.queryGid(context, 1, 1).gid };
  });
  const groups = ends.map(({ qp }, i) => {
    const { qp: peer, gid: dgid } = ends[1 - i];
    toRts(provider, qp.handle, { destQpNum: peer.qpNum, ah: { dgid } });
    return provider.queryQp(qp.handle).attr.group;
  });
  expect(ends.map(({ gid }) => gid)).toEqual(['::ffff:10.0.0.1', '::ffff:10.0.0.2']);
  expect(groups).toEqual(['there', '']);
});

test.each<[object, string]>([
  [{ match: { tenant: 'a' } }, 'sets no label'],
  [{ weight: 0 }, 'must be a number from 1e-6 to 1e6'],
  [{ weight: -1 }, 'must be a number from 1e-6 to 1e6'],
  [{ qpWeight: Number.NaN }, 'must be a number from 1e-6 to 1e6'],
  [{ qpWeight: 1e9 }, 'must be a number from 1e-6 to 1e6'],
  [{ group: 7 }, 'must be a name of at most 64 printable characters'],
  [{ traffic: 'fast' }, 'latency'],
  [{ match: { port: 0 }, group: 'g' }, 'port'],
  [{ match: { port: 7 }, weight: 2 }, "'weight' belongs to the tenant"],
  [{ match: { adress: 'x' }, group: 'g' }, 'adress'],
])('rule %j is rejected', (rule, message) => {
  expect(() => labelRulesSchema.parse([rule])).toThrow(message);
});
