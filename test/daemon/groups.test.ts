// Groups by the daemon: the contexts of a tenant share weights across processes, and rules and operators fix them.
// @module-tag wide
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { registryFor, setRemoteCoordinators } from '../../src/coordinator/registry.ts';
import { RemoteCoordinator } from '../../src/daemon/client/remote-coordinator.ts';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { GroupNews, type GroupSeat, TenantGroups } from '../../src/daemon/groups.ts';
import type { Host } from '../../src/daemon/host.ts';
import { frame, MAX_FRAME_BYTES } from '../../src/daemon/protocol.ts';
import { type Identity, identify } from '../../src/daemon/rules.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import type { Policy } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import { MAX_GROUPS } from '../../src/verbs/groups.ts';
import { variants } from '../support/variants.ts';
import { daemon, folder, isoverbs } from './command-rig.ts';
import { hostOf, Process } from './host-rig.ts';
import { hasPython, reason, until } from './rig.ts';

afterEach(() => setRemoteCoordinators(null));

/** A program of a tenant whose policy lists the weights of groups as they change. */
function programOf(host: Host, more: Partial<Identity> = {}, tenant = 'a') {
  const process = new Process(host, tenant, more);
  setRemoteCoordinators((device) => new RemoteCoordinator(device, process));
  const seen: string[] = [];
  const policy: Policy = {
    name: 'listener',
    needs: { wait: 'none' },
    slots: 0,
    onload: (_qp, _words, _start, count) => count,
    feed: () => {},
    onGroup: (_context, name, weight) => seen.push(`${name} ${weight}`),
  };
  const device = createFabric({ autoAdvance: false }).provider;
  const v = compose(device, [createShim(() => policy, { coordinator: registryFor(device) })]);
  const context = v.openDevice('sim0');
  return { process, v, context, seen };
}

type Program = ReturnType<typeof programOf>;

/** Runs passes until everything has been sent. Returns the number of messages. */
function deliver(host: Host, programs: readonly Program[], fromNs = 0): number {
  let [sent, nowNs] = [0, fromNs];
  do {
    host.fullPass(nowNs);
    for (const { client, seatNumber, ...given } of host.groups.take(nowNs)) {
      frame({ type: 'groups', slot: seatNumber, ...given });
      programs.find(({ process }) => process.client === client)?.process.regroup(seatNumber, given);
      sent++;
    }
    nowNs += 20e6;
  } while (host.groups.isPending);
  return sent;
}

test('processes of a tenant share groups, and the last weight counts', () => {
  const host = hostOf();
  const [one, two, other] = [programOf(host), programOf(host), programOf(host, {}, 'b')];
  const all = [one, two, other];
  one.v.createGroup(one.context, 'kv', 3);
  deliver(host, all);
  two.v.createGroup(two.context, 'kv', 2);
  deliver(host, all, 1e9);
  one.v.setGroup(one.context, 'kv', 4);
  expect(one.seen).toEqual(['kv 3', 'kv 2', 'kv 4']);
  deliver(host, all, 2e9);
  one.v.destroyGroup(one.context, 'kv');
  deliver(host, all, 3e9);
  expect(one.seen).toEqual(['kv 3', 'kv 2', 'kv 4']);
  two.v.closeDevice(two.context);
  deliver(host, all, 4e9);
  expect(one.seen).toEqual(['kv 3', 'kv 2', 'kv 4', 'kv 1']);
  expect(two.seen).toEqual(['kv 3', 'kv 2', 'kv 4', 'kv 1']);
  expect(other.seen).toEqual([]);
});

test('any printable name is the name of a group', () => {
  const host = hostOf();
  const [one, two] = [programOf(host), programOf(host)];
  for (const name of ['constructor', 'toString', ' ', '=', '"']) one.v.createGroup(one.context, name, 2);
  deliver(host, [one, two]);
  expect(two.seen).toEqual(['  2', '" 2', '= 2', 'constructor 2', 'toString 2']);
});

test('a process that joins later receives the weights', () => {
  const host = hostOf();
  const one = programOf(host);
  one.v.createGroup(one.context, 'kv', 3);
  deliver(host, [one]);
  const two = programOf(host);
  deliver(host, [one, two], 1e9);
  expect(two.seen).toEqual(['kv 3']);
});

test('an operator fixes weights of running programs, until they have their own again', () => {
  const host = hostOf();
  const one = programOf(host);
  one.v.createGroup(one.context, 'kv', 3);
  deliver(host, [one]);
  host.set('a', { groups: { kv: 5, scan: 2 } });
  host.set('a', { groups: { scan: 0.5 } });
  deliver(host, [one], 1e9);
  one.v.setGroup(one.context, 'kv', 4);
  deliver(host, [one], 2e9);
  expect(one.seen).toEqual(['kv 3', 'kv 5', 'scan 0.5']);
  expect(host.tenants()).toMatchObject([{ tenant: 'a', groups: { kv: 5, scan: 0.5 } }]);
  host.set('a', { groups: { kv: null, scan: null } });
  deliver(host, [one], 3e9);
  expect(one.seen).toEqual(['kv 3', 'kv 5', 'scan 0.5', 'kv 4', 'scan 1']);
  expect(host.tenants()[0].groups).toEqual({ kv: 4 });
});

test('rules weigh groups; changed rules count at once, and programs keep what they have set', () => {
  const host = hostOf();
  const one = programOf(host, { groups: { kv: 2, scan: 3 } });
  const two = programOf(host, { groups: { kv: 4 } });
  one.v.createGroup(one.context, 'own', 7);
  deliver(host, [one, two]);
  expect(two.seen).toEqual(['kv 4', 'own 7', 'scan 3']);
  const { client } = one.process;
  host.reidentify(client, { ...client.identity, tenant: 'moved', groups: {} }, 0);
  deliver(host, [one, two], 1e9);
  expect(one.seen).toEqual(['own 7', 'kv 4', 'scan 3', 'kv 1', 'scan 1']);
  expect(two.seen.slice(3)).toEqual(['own 1', 'scan 1']);
});

test('without a daemon, the last weights stay, and a program can change its own', () => {
  const host = hostOf();
  const one = programOf(host);
  const two = programOf(host);
  two.v.createGroup(two.context, 'kv', 3);
  host.set('a', { groups: { fixed: 5 } });
  deliver(host, [one, two]);
  one.process.end();
  one.v.createGroup(one.context, 'kv', 2);
  one.v.createGroup(one.context, 'fixed', 2);
  one.v.destroyGroup(one.context, 'kv');
  expect(one.seen).toEqual(['fixed 5', 'kv 3', 'kv 2', 'kv 1']);
});

test('the daemon keeps a limited number of groups, and sends them in turns', () => {
  const host = hostOf();
  const programs = [programOf(host), programOf(host)];
  const long = (i: number) => `${i}`.padStart(64, '\u{4e00}');
  for (const [which, { v, context }] of programs.entries()) {
    for (let i = 0; i < MAX_GROUPS; i++) v.createGroup(context, long(which * MAX_GROUPS + i), 2);
  }
  // The first process has all groups that the daemon keeps. Both receive them when they join, and in turns.
  expect(deliver(host, programs)).toBe(2 * (MAX_GROUPS / 256 + MAX_GROUPS / 32));
  expect(programs[1].seen).toHaveLength(2 * MAX_GROUPS);
  const late = programOf(host);
  expect(deliver(host, [...programs, late], 60e9)).toBe(MAX_GROUPS / 256);
  expect(late.seen).toHaveLength(MAX_GROUPS);
  const [{ groups, moreGroups }] = host.tenants();
  expect([Object.keys(groups ?? {}).length, moreGroups]).toEqual([8, MAX_GROUPS - 8]);
  const rows = Array(15).fill(host.tenants()[0]);
  expect(frame({ type: 'tenants', nowNs: 0, rows }).length).toBeLessThan(MAX_FRAME_BYTES);
});

test('a program that makes groups faster than they are sent adds a limited number of names', () => {
  const host = hostOf();
  const program = programOf(host);
  const seat = program.process.client.seats.values().next().value!;
  for (let i = 0; i < 50 * MAX_GROUPS; i++) {
    host.groups.setBy(seat, { [`g${i}`]: 2 });
    host.groups.setBy(seat, { [`g${i}`]: null });
  }
  expect(seat.tenant.groups.changed.size).toBeLessThanOrEqual(6 * MAX_GROUPS);
  deliver(host, [program]);
  host.groups.setBy(seat, { late: 2 });
  expect(seat.tenant.groups.weightOf('late')).toBe(2);
});

describe('a tenant with 1,024 contexts', () => {
  const JOINED = { hasLabels: true };
  const PASS_NS = 1e6;

  /** Contexts of a tenant, and a function that runs passes and returns the weights that they receive. */
  function crowd() {
    const tenant = { seats: new Set<GroupSeat>(), groups: new TenantGroups() };
    const news = new GroupNews();
    const join = () => {
      const seat = { client: {}, seatNumber: 0, tenant, groups: new Map(), ...JOINED };
      tenant.seats.add(seat);
      news.joined(seat);
      return seat;
    };
    let nowNs = 0;
    const receive = (passes: number, between: () => void = () => {}) => {
      let weights = 0;
      for (let i = 0; i < passes; i++) {
        between();
        for (const { groups } of news.take(nowNs)) weights += Object.keys(groups).length;
        nowNs += PASS_NS;
      }
      return weights;
    };
    return { news, receive, seats: Array.from({ length: 1024 }, join), join };
  }
  /** In 1 s, and what may be sent in advance. */
  const MOST = 4096 * (50 + 2) + 32 * 1024;

  test('that changes 32 weights all the time delays its own weights only', () => {
    const { news, receive, seats } = crowd();
    let weight = 1;
    const names = Array.from({ length: 32 }, (_, i) => `g${i}`);
    const change = () => news.setBy(seats[0], Object.fromEntries(names.map((name) => [name, ++weight])));
    expect(receive(1000, change)).toBeLessThanOrEqual(MOST);
    // The last weights arrive.
    change();
    receive(1000);
    expect(news.isPending).toBe(false);
  });

  test('and 1,024 groups that joins all the time delays its own weights only', () => {
    const { news, receive, seats, join } = crowd();
    for (let i = 0; i < 1024; i++) news.setBy(seats[0], { [`g${i}`]: 2 });
    receive(20_000);
    expect(news.isPending).toBe(false);
    const joined: GroupSeat[] = [];
    expect(receive(1000, () => joined.push(join()))).toBeLessThanOrEqual(MOST);
    for (const seat of joined.splice(100)) news.left(seat);
    receive(1000);
    expect(news.isPending).toBe(false);
  });
});

test('rules have groups, which are checked', () => {
  const { rules } = parseDaemonConfig('rules: [{ groups: { kv: 3, scan: 0.5 } }]', 'f');
  const peer = { pid: 1, uid: 7, gid: 7, cgroup: '', command: '' } as const;
  expect(identify(peer, rules, false).groups).toEqual({ kv: 3, scan: 0.5 });
  const wrong = (text: string) => () => parseDaemonConfig(`rules: [{ groups: ${text} }]`, 'f');
  expect(wrong('{ kv: 0 }')).toThrow('f: rules.0.groups.kv: must be a number from 1e-6 to 1e6');
  expect(wrong('{ kv: 1e9 }')).toThrow('f: rules.0.groups.kv: must be a number from 1e-6 to 1e6');
  expect(wrong('{ "": 1 }')).toThrow('f: rules.0.groups: must have names of 1 to 64 printable characters');
});

/** A program that knows nothing of groups, and runs until the command that started it has ended. */
const UNAWARE = `
import { openDevice } from 'isoverbs';
const context = openDevice('sim0');
context.allocPd().createQp({ sendCq: context.createCq() });
const command = process.ppid;
setInterval(() => process.ppid !== command && process.exit(), 5);
`;
/** A program of the same tenant that creates a group, and gives it up when it reads something. */
const AWARE = `
import { openDevice } from 'isoverbs';
const context = openDevice('sim0');
context.createGroup('own', 7);
console.log('created');
process.stdin.once('data', () => context.destroyGroup('own'));
`;
const POLICY = join(import.meta.dirname, 'programs/group-log.mjs');

function written(name: string, text: string): string {
  const path = join(folder(), name);
  writeFileSync(path, text);
  return path;
}

const LABELS = `
policy: ${POLICY}
labels: [{ match: { tenant: shop }, group: kv, groups: { kv: 3, scan: 2 } }]
`;
const RUN = [process.execPath, '--input-type=module', '-e'];

test('a program that knows nothing of groups gets a group and weights by a configuration file', async () => {
  const env = { ISOVERBS_CONFIG: written('isoverbs.config.yaml', LABELS), ISOVERBS_TENANT: 'shop' };
  const text = UNAWARE.replace(/const command.*/s, 'context.close();');
  const { status, stdout } = await isoverbs(['run', '--', ...RUN, text], env).ended;
  expect(status).toBe(0);
  expect(stdout).toBe("shop kv 3\nshop scan 2\nqueue pair in 'kv'\nshop kv 1\nshop scan 1\n");
});

describe.skipIf(!hasPython)(`processes${hasPython ? '' : ` (skipped: ${reason})`}`, () => {
  variants(
    'isoverbs set weighs groups of running programs, driver %s',
    ['inline', 'worker'],
    async (driver) => {
      const socket = join(folder(), 's');
      const rules = 'rules: [{ match: { declared: shop }, tenant: shop, group: kv, groups: { kv: 2 } }]';
      await daemon(socket, ['--config', written('daemon.yaml', rules), '--policy', POLICY]);
      const run = (text: string) =>
        isoverbs(['run', '--socket', socket, '--tenant', 'shop', '--', ...RUN, text], {
          ISOVERBS_DRIVER: driver,
          ISOVERBS_TENANT: 'shop',
        });
      const set = (...words: string[]) => isoverbs(['set', 'shop', ...words, '--socket', socket]).ended;
      const unaware = run(UNAWARE);
      await until(() => unaware.out().includes(' kv 2\n'));
      expect(await set('groups.kv=4')).toMatchObject({ status: 0, stderr: '' });
      await until(() => unaware.out().includes(' kv 4\n'));
      const aware = run(AWARE);
      await until(() => unaware.out().includes(' own 7\n'));
      const table = await isoverbs(['tenants', '--socket', socket]).ended;
      expect(table.stdout).toContain('group kv, groups kv 4 own 7');
      aware.child.stdin?.write('x');
      await until(() => unaware.out().includes(' own 1\n'));
      expect(await set('groups.kv=own', 'groups.a=b=2')).toMatchObject({ status: 0, stderr: '' });
      await until(() => / kv 1\n/.test(unaware.out()) && / a=b 2\n/.test(unaware.out()));
    },
  );

  test('when the daemon is killed, the last weights stay, and the next daemon learns what programs have set', {
    tags: ['long'],
  }, async () => {
    const socket = join(folder(), 's');
    const rules = 'rules: [{ match: { declared: shop }, tenant: shop, groups: { kv: 2 } }]';
    const args = ['--config', written('daemon.yaml', rules), '--policy', POLICY];
    const first = await daemon(socket, args);
    const run = (text: string) =>
      isoverbs(['run', '--socket', socket, '--tenant', 'shop', '--', ...RUN, text], {
        ISOVERBS_TENANT: 'shop',
      });
    const aware = run(AWARE);
    await until(() => aware.out().includes(' kv 2\n'));
    first.child.kill('SIGKILL');
    await first.ended;
    await until(() => aware.err().includes('its last grants stay in force'));
    await daemon(socket, args);
    const unaware = run(UNAWARE);
    await until(() => unaware.out().includes(' kv 2\n') && unaware.out().includes(' own 7\n'));
    expect(
      aware
        .out()
        .split('\n')
        .filter((line) => / kv /.test(line)),
    ).toHaveLength(1);
    aware.child.kill('SIGKILL');
    await until(() => unaware.out().includes(' own 1\n'));
  });

  test('isoverbs set rejects wrong weights of groups', async () => {
    for (const word of ['groups.kv=0', 'groups.kv=1e9', 'groups.kv=', 'groups.=2', 'groups=2']) {
      const { status, stderr } = await isoverbs(['set', 'a', word, '--socket', join(folder(), 'none')]).ended;
      expect({ word, status }).toEqual({ word, status: 2 });
      expect(stderr).toContain(`invalid setting '${word}'; use weight=NUMBER`);
    }
  });
});
