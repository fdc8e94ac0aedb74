// Labels by the daemon: rules and operators give them, running programs receive them, and policies see each change.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { registryFor, setRemoteCoordinators } from '../../src/coordinator/registry.ts';
import { RemoteCoordinator } from '../../src/daemon/client/remote-coordinator.ts';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { type Identity, identify, NO_LABELS } from '../../src/daemon/rules.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import type { Policy, QpChange, QpView } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { variants } from '../support/variants.ts';
import { daemon, folder, isoverbs } from './command-rig.ts';
import { hostOf, Process } from './host-rig.ts';
import { hasPython, reason, until } from './rig.ts';

const { ISO_TRAFFIC_BANDWIDTH: BANDWIDTH, ISO_TRAFFIC_LATENCY: LATENCY } = V;

afterEach(() => setRemoteCoordinators(null));

/** A program under a policy that lists the labels of its queue pairs as they change. */
function program(more: Partial<Identity> = {}) {
  const host = hostOf();
  const process = new Process(host, 'a', more);
  setRemoteCoordinators((device) => new RemoteCoordinator(device, process));
  const seen: unknown[] = [];
  const policy: Policy = {
    name: 'listener',
    needs: { wait: 'none' },
    slots: 0,
    onload: (_qp, _words, _start, count) => count,
    feed: () => {},
    onQp: ({ labels }: QpView, change: QpChange) => {
      const { weight, qpWeight, group, traffic } = labels;
      if (change === 'labels' || change === 'created') seen.push([weight, qpWeight, group, traffic]);
    },
  };
  const device = createFabric({ autoAdvance: false }).provider;
  const v = compose(device, [createShim(() => policy, { coordinator: registryFor(device) })]);
  const context = v.openDevice('sim0', { labels: { weight: 9, group: 'program' } });
  const cq = v.createCq(context, 16, 0).handle;
  const pd = v.allocPd(context);
  const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const init = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
  const deliver = () => {
    host.fullPass(0);
    for (const { seatNumber } of host.takeRelabelled(0)) process.relabel(seatNumber);
    process.notify();
  };
  const labelsOf = (qp: number) => {
    const { qpWeight, group, traffic } = v.queryQp(qp).attr;
    return [qpWeight, group, traffic];
  };
  const qpWith = (labels: V.QpLabels = {}) => v.createQp(pd, { ...init, ...labels }).handle;
  return { host, process, v, context, seen, deliver, labelsOf, qpWith };
}

test('an operator changes the labels of running programs; own labels of queue pairs stay', () => {
  const { host, v, context, seen, deliver, labelsOf, qpWith } = program();
  const [plain, own] = [qpWith(), qpWith({ traffic: BANDWIDTH })];
  deliver();
  expect(labelsOf(plain)).toEqual([1, 'program', 0]);
  seen.length = 0;
  host.set('a', { traffic: 'latency', group: 'operator', qpWeight: 2 });
  deliver();
  expect(labelsOf(plain)).toEqual([2, 'operator', LATENCY]);
  expect(labelsOf(own)).toEqual([2, 'operator', BANDWIDTH]);
  expect(seen).toEqual([
    [1, 2, 'operator', LATENCY],
    [1, 2, 'operator', BANDWIDTH],
  ]);
  // The program's own labels count again once the daemon gives none.
  v.setLabels(context, { group: 'later' });
  expect(labelsOf(plain)).toEqual([2, 'operator', LATENCY]);
  host.set('a', { traffic: null, group: null });
  deliver();
  expect(labelsOf(plain)).toEqual([2, 'later', 0]);
  expect(host.tenants()).toMatchObject([{ tenant: 'a', qpWeight: 2, group: null, traffic: null }]);
  const changes = seen.length;
  deliver();
  expect(seen).toHaveLength(changes);
});

test('a context has the labels of the rules when it joins, and those of changed rules at once', () => {
  const labels = { ...NO_LABELS, group: 'rule', traffic: 'throughput' } as const;
  const { host, process, seen, deliver, labelsOf, qpWith } = program({ weight: 3, labels });
  const qp = qpWith();
  deliver();
  expect(labelsOf(qp)).toEqual([1, 'rule', V.ISO_TRAFFIC_THROUGHPUT]);
  expect(seen.at(-1)).toEqual([3, 1, 'rule', V.ISO_TRAFFIC_THROUGHPUT]);
  host.reidentify(process.client, { ...process.client.identity, labels: NO_LABELS }, 0);
  deliver();
  expect(labelsOf(qp)).toEqual([1, 'program', 0]);
});

test('if the clients of a tenant have different labels, the result is the same in any order', () => {
  const given = [
    { qpWeight: 2, group: 'y', traffic: 'latency' },
    { qpWeight: 5, group: null, traffic: 'bandwidth' },
    { qpWeight: null, group: 'x', traffic: null },
  ] as const;
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
  ]) {
    const host = hostOf();
    for (const i of order) new Process(host, 'a', { labels: given[i] }).join();
    expect(host.tenants()).toMatchObject([{ qpWeight: 5, group: 'x', traffic: 'bandwidth' }]);
  }
});

test('rules have labels, and a declared kind of traffic counts only for trusted programs', () => {
  const text = 'rules: [{ match: { uid: 7 }, weight: 2, qpWeight: 3, group: g, traffic: latency }]';
  const { rules } = parseDaemonConfig(text, 'f');
  const peer = { pid: 1, uid: 7, gid: 7, cgroup: '', command: '', traffic: 'bandwidth' } as const;
  expect(identify(peer, rules, true)).toMatchObject({
    weight: 2,
    labels: { qpWeight: 3, group: 'g', traffic: 'latency' },
  });
  expect(identify(peer, [], true).labels).toEqual({ ...NO_LABELS, traffic: 'bandwidth' });
  expect(identify(peer, [], false).labels).toEqual(NO_LABELS);
});

test.each([
  ['weight: 0', 'weight: must be a number from 1e-6 to 1e6'],
  ['weight: -1', 'weight: must be a number from 1e-6 to 1e6'],
  ['qpWeight: .nan', 'qpWeight: must be a number from 1e-6 to 1e6'],
  ['qpWeight: 1e9', 'qpWeight: must be a number from 1e-6 to 1e6'],
  [`group: ${'g'.repeat(65)}`, 'group: must be a name of at most 64 printable characters'],
  ['traffic: delay', 'traffic: '],
])('rule with %s is rejected', (label, message) => {
  expect(() => parseDaemonConfig(`rules: [{ ${label} }]`, 'f')).toThrow(`f: rules.0.${message}`);
});

/** Prints the labels of its queue pair whenever they change, until the command that started it has ended. */
const PROGRAM = `
import { openDevice } from 'isoverbs';
const context = openDevice('sim0');
const qp = context.allocPd().createQp({ sendCq: context.createCq() });
const command = process.ppid;
let last = '';
setInterval(() => {
  if (process.ppid !== command) process.exit();
  const { qpWeight, group, traffic } = qp.query().attr;
  const now = [qpWeight, group, traffic].join(' ');
  if (now !== last) console.log(now);
  last = now;
}, 5);
`;

describe.skipIf(!hasPython)(`processes${hasPython ? '' : ` (skipped: ${reason})`}`, () => {
  variants('isoverbs set relabels a running program, driver %s', ['inline', 'worker'], async (driver) => {
    const where = folder();
    const [socket, config] = [join(where, 's'), join(where, 'daemon.yaml')];
    writeFileSync(config, 'rules: [{ match: { declared: kv }, tenant: kv, group: rule }]');
    await daemon(socket, ['--config', config, '--policy', 'perf']);
    const args = ['run', '--socket', socket, '--tenant', 'kv', '--', process.execPath];
    const running = isoverbs([...args, '--input-type=module', '-e', PROGRAM], { ISOVERBS_DRIVER: driver });
    await until(() => running.out().endsWith('1 rule 0\n'));
    const set = (...words: string[]) => isoverbs(['set', 'kv', ...words, '--socket', socket]).ended;
    expect(await set('traffic=latency', 'group=ops', 'qpWeight=0.5')).toMatchObject({
      status: 0,
      stderr: '',
    });
    await until(() => running.out().endsWith('0.5 ops 1\n'));
    const table = await isoverbs(['tenants', '--socket', socket]).ended;
    expect(table.stdout).toContain('latency, group ops, queue pairs 0.5');
    expect(await set('traffic=own', 'group=a=b')).toMatchObject({ status: 0, stderr: '' });
    await until(() => running.out().endsWith('0.5 a=b 0\n'));
  });

  test('isoverbs set rejects wrong labels', async () => {
    for (const word of [
      'weight=-1',
      'weight=NaN',
      'qpWeight=1e9',
      'group=',
      'traffic=fast',
      'kind=latency',
    ]) {
      const { status, stderr } = await isoverbs(['set', 'a', word, '--socket', join(folder(), 'none')]).ended;
      expect({ word, status }).toEqual({ word, status: 2 });
      expect(stderr).toContain(`invalid setting '${word}'; use weight=NUMBER`);
    }
  });
});
