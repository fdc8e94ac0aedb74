// The daemon's coordinators and their clients, without a socket between them.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import * as M from '../../src/coordinator/member-table.ts';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import type { Ruler } from '../../src/coordinator/ruler.ts';
import { tenantId } from '../../src/coordinator/tenants.ts';
import { RemoteCoordinator, type RemoteMember } from '../../src/daemon/client/remote-coordinator.ts';
import { Client } from '../../src/daemon/devices.ts';
import { Host } from '../../src/daemon/host.ts';
import { Listing } from '../../src/daemon/listing.ts';
import { type ProcessState, processState, SILENT_NS } from '../../src/daemon/liveness.ts';
import { SEATS_PER_CLIENT } from '../../src/daemon/pages.ts';
import { identify, RefusedError } from '../../src/daemon/rules.ts';
import { HUNGRY_WEIGHT, SAFE_UTIL_GBPS, SENDS_BULK } from '../../src/policies/justitia/columns.ts';
import { rates } from '../../src/policies/justitia/rates.ts';
import { BANDWIDTH, DELAY } from '../../src/policies/perf/columns.ts';
import { master } from '../../src/policies/perf/master.ts';
import { grantedGbps, RATE_GBPS, shares } from '../../src/policies/token-bucket/shares.ts';
import { DEFAULT_LABELS } from '../../src/verbs/labels.ts';
import { UNMEASURED } from '../../src/verbs/nic.ts';
import {
  allGrants,
  columnsOf,
  granted,
  pageOf,
  RULINGS,
  report,
  reported,
  seatRow,
} from '../support/columns.ts';
import { hostOf, identity, LINK_GBPS, Process, pages, RULES, silentLink } from './host-rig.ts';

const B = { class: BANDWIDTH, activeQps: 1, largeQps: 1, meanBytes: 2 ** 20 };
const D = { class: DELAY, activeQps: 1, meanBytes: 16, queueLength: 1 };

const NEVER = Number.POSITIVE_INFINITY;

function say(page: M.MemberPage, values: Record<string, number>): void {
  report(page, values);
  page.counters[M.HEARTBEAT]++;
}

test("a program's messages are split while another process sends small ones; it is notified of the start and the end", () => {
  const host = hostOf();
  const [one, other] = [new Process(host, 'a'), new Process(host, 'b')];
  const coordinators = new CoordinatorRegistry((device) => new RemoteCoordinator(device, one));
  const context = { index: 0, handle: 1, device: 'sim0', tenant: '', nic: null, labels: DEFAULT_LABELS };
  const seen: number[] = [];
  coordinators.subscribe(context, () => seen.push(granted(coordinators.page(context), 'split')));
  const b = coordinators.page(context);
  say(b, B);
  one.signal();
  expect([granted(b, 'split'), host.takeClientsToNotify()]).toEqual([0, []]);
  const d = other.join();
  say(d, D);
  other.signal();
  expect(granted(b, 'split')).toBe(1);
  expect(host.takeClientsToNotify()).toEqual([one.client]);
  one.notify();
  expect(seen).toEqual([1]);
  host.forget(other.client, 0);
  host.pass(0);
  expect(granted(b, 'split')).toBe(0);
  expect(host.takeClientsToNotify()).toEqual([one.client]);
});

test('a ruler of any policy decides at the daemon by its own columns, and its description is shown', () => {
  const column = (name: string) => ({ name, unit: 'any number', min: 0, max: 9, default: 0 });
  const doubling: Ruler<number> = {
    name: 'doubling',
    reports: [column('said')],
    grants: [column('heard')],
    rules: { safeParse: () => ({ success: true, data: 2 }) },
    begin(members) {
      const [said, heard] = [members.report('said'), members.grant('heard')];
      const weight = members.report('weight', M.TENANT);
      return {
        decide(factor, _nowNs, changed) {
          for (let member = 0; member < members.tenants.memberLimit; member++)
            if (heard.set(member, factor * said.of(member) * weight.of(member))) changed(member);
        },
        describe: (tenant) => ({
          heard: heard.of(members.tenants.memberAt(members.tenants.firstOf(tenant))),
        }),
      };
    },
  };
  const host = new Host({
    rulings: [...RULINGS, { ruler: doubling as Ruler, rules: 2 }],
    linkGbps: () => 100,
  });
  const one = new Process(host, 'a', { weight: 3 });
  const page = one.join();
  page.columns(doubling).reports[0] = 100;
  host.takeClientsToNotify();
  one.signal();
  expect(page.columns(doubling).grants[0]).toBe(2 * 9 * 3);
  expect(host.takeClientsToNotify()).toEqual([one.client]);
  expect(host.tenants()).toMatchObject([{ tenant: 'a', heard: 54, class: '', rateGbps: 100 }]);
});

test('settings of thousands of absent tenants are evicted, oldest first; those of present tenants stay', () => {
  const host = hostOf();
  const [here, early, late] = ['here', 'early', 'late'].map((tenant) => ({ tenant, gbps: 7 }));
  const a = new Process(host, here.tenant).join();
  for (const { tenant, gbps } of [here, early]) host.set(tenant, { gbps });
  for (let i = 0; i < 5000; i++) host.set(`nobody${i}`, { gbps: 1 });
  host.set(late.tenant, { gbps: late.gbps });
  host.pass(0);
  const others = [early, late].map(({ tenant }) => new Process(host, tenant).join());
  expect([a, ...others].map((page) => granted(page, 'rateGbps') === 7)).toEqual([true, false, true]);
});

test('rates follow weights; a tenant of two processes has one rate; settings apply at once and later', () => {
  const host = hostOf();
  const a = [new Process(host, 'a', { weight: 3 }), new Process(host, 'a', { weight: 3 })];
  const b = new Process(host, 'b');
  const seats = [...a, b].map((one) => one.join());
  for (const seat of seats) say(seat, { ratedQps: 2 });
  for (const one of [...a, b]) one.signal();
  const rates = () => seats.map((page) => granted(page, 'rateGbps'));
  expect(rates()).toEqual([37.5, 37.5, 25]);
  expect(host.set('b', { weight: 6 })).toBe(true);
  host.pass(0);
  expect(rates()).toEqual([100 / 6, 100 / 6, 200 / 3]);
  expect(host.set('b', { gbps: 10 })).toBe(true);
  host.pass(0);
  expect(rates()).toEqual([45, 45, 10]);
  expect(host.set('nobody', { weight: 2 })).toBe(false);
  host.set('b', { gbps: null });
  host.pass(0);
  expect(rates()).toEqual([100 / 6, 100 / 6, 200 / 3]);
});

test('a stopped tenant lends its share within 100 ms, and regains it when it continues', () => {
  const host = hostOf();
  const [one, other] = [new Process(host, 'a'), new Process(host, 'b')];
  const [a, b] = [one.join(), other.join()];
  for (const seat of [a, b]) say(seat, { ratedQps: 1 });
  const every = 20e6;
  let atNs = 0;
  for (; atNs <= 4 * every; atNs += every) {
    say(a, {});
    host.fullPass(atNs);
  }
  expect(SILENT_NS + every).toBeLessThanOrEqual(100e6);
  // Its future share, granted now in case the daemon stops before the tenant continues.
  expect([granted(a, 'rateGbps'), granted(b, 'rateGbps')]).toEqual([LINK_GBPS, LINK_GBPS / 2]);
  expect(host.takeClientsToNotify()).toContain(one.client);
  say(b, {});
  host.fullPass(atNs);
  expect([granted(a, 'rateGbps'), granted(b, 'rateGbps')]).toEqual([LINK_GBPS / 2, LINK_GBPS / 2]);
});

/** The first tenant's part of the link after each tick in which the second gives no sign of life. */
function shareBeside(look: (tick: number) => ProcessState | null, ticks: number): number[] {
  let tick = 0;
  const host = hostOf({ inspectProcess: () => look(tick) });
  const [a, b] = ['a', 'b'].map((tenant) => new Process(host, tenant).join());
  for (const seat of [a, b]) say(seat, { ratedQps: 1 });
  return Array.from({ length: ticks + 1 }, () => {
    say(a, {});
    host.fullPass(tick++ * 20e6);
    return granted(a, 'rateGbps') / LINK_GBPS;
  });
}
const firstWhole = (shares: readonly number[]) => shares.indexOf(1);

const ran = (state: string, userNs: number, systemNs = 0) => ({ state, userNs, systemNs });

test('a stopped process is silent after 40 ms, a sleeping or spinning one after 60, one that waits for a CPU never', () => {
  expect(firstWhole(shareBeside(() => ran('T', 0), 10))).toBe(2);
  expect(firstWhole(shareBeside((tick) => ran('R', tick * 20e6), 10))).toBe(3);
  expect(firstWhole(shareBeside(() => ran('S', 0), 10))).toBe(3);
  expect(firstWhole(shareBeside(() => null, 10))).toBe(3);
  expect(firstWhole(shareBeside(() => ran('R', 5e6, 5e6), 100))).toBe(-1);
  // The process has a CPU for a tenth of the time, so 20 ms of CPU time take 200 ms.
  expect(firstWhole(shareBeside((tick) => ran('R', tick * 2e6), 100))).toBe(12);
  // A system call may take long, though not forever.
  expect(firstWhole(shareBeside((tick) => ran('R', 0, tick * 20e6), 10))).toBe(5);
});

test('when the daemon has not run for a while, clients first have time to give a sign of life', () => {
  const host = hostOf({ inspectProcess: () => ran('S', 0) });
  const [alive, gone] = ['alive', 'gone'].map((name, i) => new Process(host, name, {}, i + 1).join());
  for (const seat of [alive, gone]) say(seat, { ratedQps: 1 });
  for (let nowNs = 0; nowNs <= 20e6; nowNs += 20e6) host.fullPass(nowNs);
  // The machine stands still for 2 s, and the daemon is the first to run again.
  host.fullPass(2000e6);
  expect([alive, gone].map((seat) => granted(seat, 'rateGbps'))).toEqual([50, 50]);
  say(alive, {});
  host.fullPass(2020e6);
  expect([alive, gone].map((seat) => granted(seat, 'rateGbps'))).toEqual([100, 50]);
});

test('a pass does not inspect thousands of silent processes; they keep their shares for 250 ms at most', () => {
  let inspections = 0;
  const host = hostOf({
    inspectProcess: () => {
      inspections++;
      return ran('R', 0);
    },
  });
  const honest = new Process(host, 'honest').join();
  for (let i = 0; i < 1000; i++) say(new Process(host, `t${i}`, {}, i + 1).join(), { ratedQps: 1 });
  say(honest, { ratedQps: 1 });
  for (let nowNs = 0; nowNs <= 40e6; nowNs += 20e6) host.fullPass(nowNs);
  expect(inspections).toBe(16);
  for (let nowNs = 60e6; nowNs <= 240e6; nowNs += 20e6) host.fullPass(nowNs);
  say(honest, {});
  host.fullPass(260e6);
  // The inspected processes are waiting for a CPU.
  expect(granted(honest, 'rateGbps')).toBeGreaterThan(LINK_GBPS / 100);
});

test('a process with many contexts is inspected once per pass, and no process that waits for a CPU loses its share', () => {
  const host = hostOf({ inspectProcess: () => ran('R', 0) });
  const many = new Process(host, 'many', {}, 1);
  const seats = Array.from({ length: 48 }, () => many.join());
  const waiting = new Process(host, 'waiting', {}, 2).join();
  const honest = new Process(host, 'honest', {}, 3).join();
  for (const seat of [...seats, waiting, honest]) say(seat, { ratedQps: 1 });
  for (let tick = 0; tick < 30; tick++) {
    for (const [i, seat] of seats.entries()) if (i % 3 === tick % 3) say(seat, {});
    say(honest, {});
    host.fullPass(tick * 20e6);
    expect(granted(honest, 'rateGbps')).toBeCloseTo(LINK_GBPS / 3);
  }
});

test('processState() reports this process', () => {
  const before = processState(process.pid);
  expect(before?.state).toBe('R');
  const { user, system } = process.cpuUsage();
  expect(Math.abs(before!.userNs + before!.systemNs - 1000 * (user + system))).toBeLessThan(100e6);
  expect(processState(2 ** 30)).toBe(null);
});

test('the command line is read only if a rule names it and everything else in the rule matches', () => {
  const asked: string[] = [];
  const peer = {
    pid: 1,
    uid: 1000,
    gid: 1000,
    get cgroup() {
      asked.push('cgroup');
      return '/a';
    },
    get command() {
      asked.push('command');
      return 'node app.js';
    },
  };
  const identified = (...rules: Parameters<typeof identify>[1]) => identify(peer, rules, false).tenant;
  expect(identified({ match: { uid: 7, command: '*' } }, { match: { gid: 1000 }, tenant: 'x' })).toBe('x');
  expect(asked).toEqual([]);
  expect(identified({ match: { cgroup: '/b', command: '*' } })).toBe('uid1000');
  expect(asked).toEqual(['cgroup']);
  expect(identified({ match: { uid: 1000, command: 'node*' }, tenant: 'y' })).toBe('y');
  expect(asked).toEqual(['cgroup', 'command']);
});

test('only a trusted program may declare several tenants; for others a new name gives no second share', () => {
  const host = hostOf();
  const trusted = new Process(host, 'a', { hasTenants: true });
  const other = new Process(host, 'uid1000');
  for (const [process, tenants] of [
    [trusted, ['x', 'y']],
    [other, ['x', 'y', 'z']],
  ] as const) {
    for (const tenant of tenants) say(process.join('sim0', tenant), { ratedQps: 1 });
  }
  host.fullPass(0);
  const rows = host
    .tenants()
    .map(({ tenant, contexts, rateGbps }) => [tenant, contexts, Math.round(rateGbps)]);
  expect(rows).toEqual([
    ['x', 1, 33],
    ['y', 1, 33],
    ['uid1000', 3, 33],
  ]);
});

test('contexts that take no part of the rate add nothing to what a tenant may send', () => {
  const host = hostOf();
  const [one, other] = [new Process(host, 'one'), new Process(host, 'other')];
  const rates = () => host.tenants().map(({ tenant, rateGbps }) => [tenant, Math.round(rateGbps)]);
  const page = one.join();
  one.join();
  host.fullPass(0);
  expect(rates()).toEqual([['one', LINK_GBPS]]);
  say(page, { ratedQps: 1 });
  say(other.join(), { ratedQps: 1 });
  host.fullPass(0);
  expect(rates()).toEqual([
    ['one', LINK_GBPS / 2],
    ['other', LINK_GBPS / 2],
  ]);
});

test('join() refuses seats that do not exist or are taken, and unknown devices', () => {
  const host = hostOf();
  const { client } = new Process(host, 'a');
  expect(host.join(client, SEATS_PER_CLIENT, 'sim0', 0)).toContain('there is no seat');
  expect(host.join(client, 0, 'mlx5_0', 0)).toContain("no device 'mlx5_0'");
  expect(host.join(client, 0, 'sim0', 0)).toBeNull();
  expect(host.join(client, 0, 'sim0', 0)).toContain('taken');
  host.leave(client, 7, 0);
  host.leave(client, 0, 0);
  expect(host.join(client, 0, 'sim1', 0)).toBeNull();
  expect(host.tenants().map(({ device }) => device)).toEqual(['sim1']);
});

test('without a daemon members have the standalone rate; when it goes they keep their last grants', () => {
  const seats: RemoteMember[] = [];
  const coordinator = new RemoteCoordinator('sim0', silentLink(seats), { shares: { rateGbps: 7 } });
  const page = coordinator.join('a') as M.MemberPage;
  expect([granted(page, 'rateGbps'), granted(page, 'split')]).toEqual([7, 0]);
  const [seat] = seats;
  report(page, { class: DELAY });
  const memory = pages();
  const row = seatRow(memory, 3);
  columnsOf(row, shares).grants[RATE_GBPS] = 42;
  seat.attach(row, hostOf().layout);
  expect(granted(page, 'rateGbps')).toBe(42);
  expect(reported(pageOf(row), 'class')).toBe(DELAY);
  expect(coordinator.takeChanges()).toEqual([page.row]);
  seat.detach();
  row.grants.fill(0);
  report(page, { class: BANDWIDTH });
  expect([granted(page, 'rateGbps'), reported(pageOf(row), 'class')]).toEqual([42, DELAY]);
});

const event = fc.record({
  member: fc.nat(5),
  column: fc.constantFrom(
    'class',
    'activeQps',
    'largeQps',
    'meanBytes',
    'queueLength',
    'wireGbps',
    'ratedQps',
  ),
  value: fc.oneof(fc.nat(8), fc.double(), fc.constantFrom(1e9, -1)),
});

test('one event log produces the same grants in a process and in the daemon', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (log) => {
      const host = hostOf();
      const inside = new Coordinator();
      inside.setLink(LINK_GBPS);
      const tenants = ['a', 'a', 'b', 'c', 'd', 'd'];
      const remote = tenants.map((tenant) => new Process(host, tenant).join());
      const local = tenants.map((tenant) => inside.join(tenant) as M.MemberPage);
      const rules = {
        linkGbps: LINK_GBPS,
        weights: new Map([[tenantId('a'), 1]]),
        ratesGbps: new Map(),
        shared: true,
      };
      for (const { member, column, value } of log) {
        for (const page of [remote[member], local[member]]) report(page, { [column]: value });
        host.fullPass(0);
        inside.decide(master, { ...RULES, rotateFrom: NEVER, silentNs: NEVER }, 0);
        inside.decide(shares, rules, 0);
        expect(remote.map(allGrants)).toEqual(local.map(allGrants));
      }
    }),
  );
});

test('a tenant that opens context after context leaves seats for the others', () => {
  const host = hostOf();
  const greedy = Array.from({ length: 5 }, () => new Process(host, 'a').client);
  const refused = greedy.flatMap((client) =>
    Array.from({ length: SEATS_PER_CLIENT }, (_, slot) => host.join(client, slot, 'sim0', 0)).filter(
      (why) => why !== null,
    ),
  );
  expect(refused.length).toBe(SEATS_PER_CLIENT);
  expect(refused[0]).toContain('tenant a already has 1024 contexts at sim0');
  expect(host.join(new Process(host, 'b').client, 0, 'sim0', 0)).toBeNull();
});

test('reidentify() reports a client whose contexts exceed the seats of its new tenant', () => {
  const host = hostOf();
  const clients = Array.from({ length: 8 }, (_, i) => new Client(identity(`t${i}`), pages(), 1));
  for (const one of clients) for (let slot = 0; slot < 200; slot++) host.join(one, slot, 'sim0', 0);
  const whole = clients.map((one) => host.reidentify(one, identity('all'), 1));
  expect(whole).toEqual(clients.map((_, i) => i < 5));
  expect(clients.reduce((sum, { seats }) => sum + seats.size, 0)).toBe(1024);
});

test('a frame of the tenant list has room for the longest names and the largest numbers', () => {
  const host = hostOf();
  const device = `sim${'\u0001'.repeat(125)}`;
  for (let i = 0; i < 100; i++) {
    const of = identity('\u0001'.repeat(126) + i, { weight: 1.2345678901234567, maxRequestsPerS: 1 / 3 });
    const client = new Client(of, pages(), 1);
    client.pages.counters.fill(1e300);
    expect(host.join(client, 0, device, 0)).toBeNull();
  }
  expect(new Listing(host, '', () => 1).frames().length).toBeGreaterThan(1);
});

test('rules of a device follow what is known of its NIC', () => {
  const nic = {
    ...UNMEASURED,
    ...{ linkGbps: 100, mtuBytes: 4096, headerBytes: 82, wqeGapNs: null, waitStepNs: null },
    ...{ processingUnits: null, arbitrates: null, egressFifoBytes: null, latencyNs: null, handoverNs: null },
    ...{ atomicGapNs: null, cachedQps: null, pipeline: null },
    maxGbps: 40,
  };
  const nicOf = (device: string) => (device === 'sim1' ? nic : null);
  const host = new Host({ rulings: RULINGS, linkGbps: () => 100, nicOf });
  const safeUtilOf = (device: string) => {
    const page = new Process(host, device).join(device);
    const { reports, grants } = page.columns(rates);
    [reports[HUNGRY_WEIGHT], reports[SENDS_BULK]] = [1, 1];
    page.counters[M.HEARTBEAT]++;
    host.fullPass(0);
    return grants[SAFE_UTIL_GBPS];
  };
  expect(['sim0', 'sim1'].map(safeUtilOf)).toEqual([100, 40]);
});

test('no tenant is limited on a link of unknown rate', () => {
  const host = new Host({ rulings: RULINGS, linkGbps: () => 0 });
  const page = new Process(host, 'a').join();
  say(page, { ratedQps: 1 });
  host.fullPass(0);
  expect(granted(page, 'rateGbps')).toBeGreaterThanOrEqual(1000);
});

test('a declared name counts in a rule only if the kernel vouches for a user, group or cgroup', () => {
  const peer = { pid: 1, uid: 1000, gid: 1000, cgroup: '', command: '', tenant: 'storage' };
  const rule = { match: { declared: 'storage' }, tenant: 'storage', weight: 10 };
  expect(identify(peer, [rule], false)).toMatchObject({ tenant: 'uid1000', weight: 1 });
  expect(identify(peer, [rule], true)).toMatchObject({ tenant: 'storage', weight: 10 });
  const ofUser = { ...rule, match: { declared: 'storage', uid: 1000 } };
  expect(identify(peer, [ofUser], false)).toMatchObject({ tenant: 'storage', weight: 10 });
  expect(identify({ ...peer, tenant: '' }, [], true).tenant).toBe('uid1000');
});

test('a rule that asks for what cannot be read refuses, unless its other conditions or an earlier rule decide', () => {
  const ghost = { pid: 77, uid: 1000, gid: 1000, cgroup: null, command: null };
  const ofCgroup = { match: { cgroup: '*' }, tenant: 'x' };
  const ofCommand = { match: { uid: 1000, command: '*' }, tenant: 'y' };
  expect(() => identify(ghost, [{ match: { uid: 7, cgroup: '*' } }, ofCgroup], true)).toThrow(
    /^rules\.1 asks for the cgroup, which cannot be read: process 77, which connected, has exited or is hidden/,
  );
  expect(() => identify({ ...ghost, pid: 0 }, [ofCommand], false)).toThrow(/command line.* PID namespace/);
  expect(() => identify({ ...ghost, cgroup: '/a' }, [{ match: { cgroup: '/b' } }, ofCommand], false)).toThrow(
    RefusedError,
  );
  expect(identify(ghost, [{ match: { uid: 1000 }, tenant: 'z' }, ofCgroup], false).tenant).toBe('z');
  expect(identify(ghost, [{ match: { declared: 'kv', cgroup: '*' } }], false).tenant).toBe('uid1000');
});

test('`*` matches any text, and a command line that almost matches in a million ways takes no time', () => {
  const fits = (command: string, text: string) => {
    const peer = { pid: 1, uid: 1000, gid: 1000, cgroup: '', command: text };
    return identify(peer, [{ match: { command }, tenant: 'fits' }], false).tenant === 'fits';
  };
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 8 });
  const patterns = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 6 });
  fc.assert(
    fc.property(patterns, letters, (pattern, text) => {
      const words = pattern.split('*').map((word) => word.replaceAll('.', '\\.'));
      expect(fits(pattern, text)).toBe(new RegExp(`^${words.join('.*')}$`).test(text));
    }),
    { numRuns: 2000 },
  );
  const before = performance.now();
  expect(fits('*node*server*', 'node '.repeat(4e5))).toBe(false);
  expect(performance.now() - before).toBeLessThan(1000);
});

test('a program that sends and polls without pause is alive, though its event loop never runs', () => {
  const host = hostOf();
  const [busy, other] = ['a', 'b'].map((tenant) => new Process(host, tenant).join());
  report(busy, { ratedQps: 1 });
  for (let nowNs = 0; nowNs <= 2 * SILENT_NS; nowNs += SILENT_NS / 3) {
    grantedGbps([{ page: busy, columns: busy.columns(shares) }], 0);
    say(other, { ratedQps: 1 });
    host.fullPass(nowNs);
    expect(granted(busy, 'rateGbps')).toBe(LINK_GBPS / 2);
  }
});
