// The daemon's socket: real sockets and shared memory, with both ends in this process where that suffices.
import { mkdtempSync, rmSync } from 'node:fs';
import { connect as connectNet } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import * as M from '../../src/coordinator/member-table.ts';
import type { Ruler } from '../../src/coordinator/ruler.ts';
import { DaemonClient } from '../../src/daemon/client/client.ts';
import { connect } from '../../src/daemon/client/connection.ts';
import { requestTenants } from '../../src/daemon/client/tool-request.ts';
import { Host } from '../../src/daemon/host.ts';
import { connectUnix, listenUnix, type UnixSocket } from '../../src/daemon/ipc/index.ts';
import { frame, VERSION } from '../../src/daemon/protocol.ts';
import { identify } from '../../src/daemon/rules.ts';
import { Server, type ServerOptions } from '../../src/daemon/server.ts';
import { MAX_RATES } from '../../src/verbs/rate-targets.ts';
import { granted, RULINGS, report } from '../support/columns.ts';

const ALONE_GBPS = 1e5;
const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const undo of cleanUp.splice(0).reverse()) undo();
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'isoverbs-daemon-'));
  cleanUp.push(() => rmSync(path, { recursive: true }));
  return path;
}

/** A daemon, and its log. */
function daemon(socket: string, more: Partial<ServerOptions> = {}) {
  const lines: string[] = [];
  const host = new Host({
    rulings: RULINGS,
    linkGbps: (device) => (device === 'sim0' ? 100 : null),
  });
  const server = new Server({
    socket,
    mode: 0o600,
    host,
    policy: 'perf',
    log: pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) }),
    identify: (credentials, hello) =>
      identify({ ...credentials, ...hello, cgroup: '', command: '' }, [], true),
    maySet: () => true,
    nowNs: () => performance.now() * 1e6,
    ...more,
  });
  server.listen();
  cleanUp.push(() => server.close());
  return { host, server, lines };
}

function client(
  socket: string,
  tenant: string,
): { client: DaemonClient; reports: string[]; warnings: string[] } {
  const reports: string[] = [];
  const warnings: string[] = [];
  const say = (line: string, isWarning: boolean) => {
    reports.push(line);
    if (isWarning) warnings.push(line);
  };
  const one = new DaemonClient({
    socket,
    hello: { tenant },
    standalone: { shares: { rateGbps: ALONE_GBPS } },
    report: say,
  });
  cleanUp.push(() => one.close());
  return { client: one, reports, warnings };
}

const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 2 });
const pageOf = (one: DaemonClient) => one.coordinator('sim0').join('') as M.MemberPage;

test('two clients share by weight; one that leaves passes its share to the other, which is notified', async () => {
  const socket = join(folder(), 's');
  const { host, server } = daemon(socket);
  const [a, b] = ['a', 'b'].map((tenant) => client(socket, tenant).client);
  let news = 0;
  a.listen(() => news++);
  const pages = [a, b].map(pageOf);
  expect(granted(pages[0], 'rateGbps')).toBe(ALONE_GBPS);
  for (const page of pages) report(page, { ratedQps: 1 });
  await until(() => expect(pages.map((page) => granted(page, 'rateGbps'))).toEqual([50, 50]));
  expect(host.set('b', { weight: 3 })).toBe(true);
  host.pass(0);
  expect(pages.map((page) => granted(page, 'rateGbps'))).toEqual([25, 75]);
  const before = news;
  b.close();
  await until(() => expect(granted(pages[0], 'rateGbps')).toBe(100));
  await until(() => expect(news).toBeGreaterThan(before));
  expect(server.size).toBe(1);
});

test('a program whose policy has a ruler that the daemon lacks keeps what it may do alone, and reports it once', async () => {
  const socket = join(folder(), 's');
  daemon(socket);
  const { client: one, reports } = client(socket, 'a');
  const said = { name: 'said', unit: 'any number', min: 0, max: 9, default: 0 };
  const heard = { name: 'heard', unit: 'any number', min: 0, max: 9, default: 0, alone: 5 };
  const unknown = { name: 'unknown', reports: [said], grants: [heard] };
  const [page, other] = [pageOf(one), pageOf(one)];
  for (const { reports: own } of [page.columns(unknown), other.columns(unknown)]) own[0] = 3;
  for (const known of [page, other]) report(known, { ratedQps: 1 });
  await until(() => expect([page, other].map((known) => granted(known, 'rateGbps'))).toEqual([50, 50]));
  expect(page.columns(unknown).grants[0]).toBe(5);
  expect(reports.some((line) => line.includes("no ruler 'unknown' with the columns"))).toBe(true);
});

test('a ruler that throws is reported, and the others decide', async () => {
  const socket = join(folder(), 's');
  const failed: string[] = [];
  const column = (name: string) => ({ name, unit: '0 or 1', min: 0, max: 1, default: 0 });
  const broken: Ruler = {
    ...{ name: 'broken', reports: [column('x')], grants: [column('y')], rules: z.object({}) },
    begin: () => ({
      decide() {
        throw new Error('cannot decide');
      },
      describe() {
        throw new Error('cannot describe');
      },
    }),
  };
  const host = new Host({
    rulings: [{ ruler: broken, rules: {} }, ...RULINGS],
    linkGbps: () => 100,
    failed: (ruler, device, { message }) => void failed.push(`${ruler} ${device}: ${message}`),
  });
  daemon(socket, { host });
  const page = pageOf(client(socket, 'a').client);
  report(page, { ratedQps: 1 });
  await until(() => expect(granted(page, 'rateGbps')).toBe(100));
  expect((await requestTenants(socket)).map(({ tenant }) => tenant)).toEqual(['a']);
  expect(new Set(failed)).toEqual(new Set(['broken sim0: cannot decide', 'broken sim0: cannot describe']));
});

test('without a daemon a client continues; it joins one that appears, keeps its share when that dies, and joins the next', async () => {
  const socket = join(folder(), 's');
  const { client: one, reports, warnings } = client(socket, 'a');
  const page = pageOf(one);
  report(page, { ratedQps: 1 });
  await until(() => expect(reports.at(-1)).toContain('continuing without it'));
  expect(granted(page, 'rateGbps')).toBe(ALONE_GBPS);
  const first = daemon(socket);
  await until(() => expect(granted(page, 'rateGbps')).toBe(100));
  first.host.set('a', { gbps: 7 });
  first.host.pass(0);
  expect(granted(page, 'rateGbps')).toBe(7);
  first.server.close();
  await until(() => expect(reports.at(-1)).toContain('its last grants stay in force'));
  expect(granted(page, 'rateGbps')).toBe(7);
  daemon(socket);
  await until(() => expect(granted(page, 'rateGbps')).toBe(100));
  // Each end of an absence is reported, at the level of the absence.
  expect(reports.filter((line) => line.includes('connected'))).toEqual([
    `connected to the daemon at ${socket} as tenant a`,
    `reconnected to the daemon at ${socket} as tenant a`,
  ]);
  expect(warnings.map((line) => line.slice(0, 12))).toEqual([
    'no connectio',
    'connected to',
    'no connectio',
    'reconnected ',
  ]);
});

test('garbage, a different version, silence and floods end the connection, are logged, and harm no other client', async () => {
  const socket = join(folder(), 's');
  const { server, lines } = daemon(socket);
  const { client: honest } = client(socket, 'a');
  const page = pageOf(honest);
  report(page, { ratedQps: 1 });
  await until(() => expect(granted(page, 'rateGbps')).toBe(100));
  const hello = { type: 'hello', version: VERSION, role: 'tool' } as const;
  const rated = (qps: number[]) => ({ type: 'rated', slot: 0, version: 1, qps }) as const;
  const flood = Buffer.concat(Array.from({ length: 10_000 }, () => frame({ type: 'tenants' })));
  const evils: [Uint8Array | string, RegExp][] = [
    ['GET / HTTP/1.1\r\n\r\n', /a frame of \d+ bytes/],
    [Buffer.concat([Buffer.from([3, 0, 0, 0]), Buffer.from('xyz')]), /not JSON/],
    [frame({ type: 'tenants' }), /'tenants' before hello/],
    [frame({ ...hello, version: 99 }), /protocol 99; this daemon speaks protocol 6/],
    [
      frame({ ...hello, version: 1 }),
      /protocol 1; this daemon speaks protocol 6: use the daemon's version of isoverbs in this program/,
    ],
    [Buffer.concat([frame(hello), frame(hello)]), /a second hello/],
    [Buffer.concat([frame(hello), frame({ type: 'leave', slot: 1 })]), /'leave' as a tool/],
    [Buffer.concat([frame(hello), frame(rated([0]))]), /'rated' as a tool/],
    [Buffer.concat([frame(hello), frame(rated([-1]))]), /an invalid message: qps: 0: /],
    [
      Buffer.concat([frame(hello), frame(rated(new Array(MAX_RATES + 1).fill(0)))]),
      /an invalid message: qps: /,
    ],
    [Buffer.concat([frame(hello), flood]), /(messages a second|does not read)/],
  ];
  for (const [bytes, reason] of evils) {
    const evil = connectNet(socket).on('error', () => {});
    evil.resume().write(bytes);
    await new Promise((resolve) => evil.once('close', resolve));
    const named = new RegExp(`process ${process.pid} of user \\d+ .*${reason.source}`);
    await until(() => expect(lines).toContainEqual(expect.stringMatching(named)));
  }
  const silent = connectNet(socket).on('error', () => {});
  await new Promise((resolve) => silent.resume().once('close', resolve));
  expect(lines.at(-1)).toContain('sent no hello');
  expect([server.size, granted(page, 'rateGbps')]).toEqual([1, 100]);
});

test('a client retries while the backlog of the socket is full', async () => {
  const socket = join(folder(), 's');
  const listener = listenUnix(socket, { backlog: 1 });
  cleanUp.push(() => listener.close());
  const others: UnixSocket[] = [];
  for (let one = connectUnix(socket); one !== null; one = connectUnix(socket)) others.push(one);
  const ended: string[] = [];
  const on = {
    connected() {},
    received() {},
    signalled() {},
    ended: (error: Error) => void ended.push(error.message),
  };
  const attempt = connect(socket, { role: 'tool' }, on, true);
  cleanUp.push(() => attempt.cancel());
  await sleep(50);
  let accepted = 0;
  const accept = () => {
    for (let one = listener.accept(); one !== null; one = listener.accept()) {
      accepted++;
      one.close();
    }
    expect(accepted).toBe(others.length + 1);
  };
  expect(ended).toEqual([]);
  await until(accept);
  await until(() => expect(ended).toHaveLength(1));
  for (const one of others) one.close();
});

test('only the sender is disconnected if it sends single bytes faster than messages are allowed', async () => {
  const socket = join(folder(), 's');
  const { server, lines } = daemon(socket);
  const { client: honest } = client(socket, 'a');
  pageOf(honest);
  await until(() => expect(honest.isConnected).toBe(true));
  const evil = connectNet(socket).on('error', () => {});
  let isOver = false;
  evil.resume().once('close', () => {
    isOver = true;
  });
  evil.write(frame({ type: 'hello', version: VERSION, role: 'tool' }));
  // The message never ends, and each iteration of the event loop brings one byte of it.
  evil.write(Uint8Array.of(0xa0, 0x0f, 0, 0));
  while (!isOver) {
    evil.write(' ');
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until(() => expect(lines.join('\n')).toMatch(/2000 messages a second: disconnected/));
  expect([server.size, honest.isConnected]).toEqual([1, true]);
});

test('what a hostile client writes into its page affects no other client', async () => {
  const socket = join(folder(), 's');
  daemon(socket);
  const [evil, honest] = ['evil', 'a'].map((tenant) => pageOf(client(socket, tenant).client));
  for (const page of [evil, honest]) report(page, { ratedQps: 1 });
  await until(() => expect(granted(honest, 'rateGbps')).toBe(50));
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, -1, 1e308, 5e-324]) {
    evil.counters.fill(value);
    // Writing to its grants only changes a private copy.
    evil.grants.fill(value);
    await sleep(50);
    expect([50, 100]).toContain(granted(honest, 'rateGbps'));
  }
});

test('when the daemon stops, clients keep their shares and do not take over those of clients disconnected earlier', async () => {
  const socket = join(folder(), 's');
  const { server } = daemon(socket);
  const both = ['a', 'b'].map((tenant) => client(socket, tenant));
  const pages = both.map((one) => pageOf(one.client));
  for (const page of pages) report(page, { ratedQps: 1 });
  const rates = () => pages.map((page) => granted(page, 'rateGbps'));
  await until(() => expect(rates()).toEqual([50, 50]));
  server.close();
  for (const { reports } of both)
    await until(() => expect(reports.at(-1)).toContain('its last grants stay in force'));
  expect(rates()).toEqual([50, 50]);
});

test('a client that had no queue pairs when the daemon stopped uses its last share when it creates one', async () => {
  const socket = join(folder(), 's');
  const { server, host } = daemon(socket);
  const { client: one, reports } = client(socket, 'a');
  const page = pageOf(one);
  await until(() => expect([host.tenants().length, granted(page, 'rateGbps')]).toEqual([1, 100]));
  server.close();
  await until(() => expect(reports.at(-1)).toContain('its last grants stay in force'));
  expect(granted(page, 'rateGbps')).toBe(100);
});

test('the answer to a context that has left is not mistaken for an answer to the next context in its seat', async () => {
  const socket = join(folder(), 's');
  const { host } = daemon(socket);
  const { client: one, reports } = client(socket, 'a');
  pageOf(one);
  await until(() => expect(host.tenants()[0]?.contexts).toBe(1));
  const here = one.coordinator('sim0');
  here.leave(here.join('') as M.MemberPage);
  const elsewhere = one.coordinator('sim7').join('') as M.MemberPage;
  report(elsewhere, { ratedQps: 1 });
  await until(() => expect(reports.at(-1)).toContain("knows no device 'sim7'"));
  expect(granted(elsewhere, 'rateGbps')).toBe(ALONE_GBPS);
});

test('a list of thousands of tenants arrives complete, whatever the pages contain', async () => {
  const socket = join(folder(), 's');
  const { host } = daemon(socket);
  const many = Array.from({ length: 4 }, (_, i) => client(socket, `t${i}`).client);
  for (const [i, one] of many.entries()) {
    const device = one.coordinator('sim0');
    for (let k = 0; k <= 250; k++) {
      const page = device.join(`${'\u0001'.repeat(100)}${i} ${k % 250}`) as M.MemberPage;
      report(page, { wireGbps: k % 250 === 0 ? 1e308 : 1 });
      report(page, { ratedQps: 1e308 });
    }
  }
  await until(() => expect(host.tenants().length).toBe(1000));
  const rows = await requestTenants(socket);
  expect(rows.length).toBe(1000);
});

test('cancel() prevents all callbacks; otherwise ended() is called once', async () => {
  const socket = join(folder(), 'nobody');
  let ends = 0;
  const on = { connected() {}, received() {}, signalled() {}, ended: () => ends++ };
  connect(socket, { role: 'shim' }, on, false).cancel();
  await sleep(20);
  expect(ends).toBe(0);
  connect(socket, { role: 'shim' }, on, false);
  await until(() => expect(ends).toBe(1));
});

test('bytes sent before a program leaves are counted even if no pass had read them', async () => {
  const socket = join(folder(), 's');
  const { host, server } = daemon(socket);
  const { client: one } = client(socket, 'a');
  const page = pageOf(one);
  await until(() => expect(host.tenants().length).toBe(1));
  await until(() => expect(granted(page, 'rateGbps')).toBe(100));
  page.counters[M.SENT_BYTES] = 1000;
  one.close();
  await until(() => expect(server.size).toBe(0));
  expect(host.sentTotals(0).map(({ tenant, sentBytes }) => [tenant, sentBytes])).toEqual([['a', 1000]]);
});

test("new rules that leave too few seats for a client's contexts disconnect it, and it reconnects", async () => {
  const socket = join(folder(), 's');
  const names = { isOne: false };
  const { host, server, lines } = daemon(socket, {
    identify: (peer, hello) => {
      const found = identify({ ...peer, ...hello, cgroup: '', command: '' }, [], true);
      return names.isOne ? { ...found, tenant: 'one', hasTenants: false } : found;
    },
  });
  const all = Array.from({ length: 5 }, (_, i) => client(socket, `t${i}`));
  for (const { client: one } of all) {
    const device = one.coordinator('sim0');
    for (let i = 0; i < 250; i++) device.join('');
  }
  const contexts = () => host.tenants().reduce((sum, row) => sum + row.contexts, 0);
  await until(() => expect(contexts()).toBe(1250));
  names.isOne = true;
  server.reidentify();
  expect(lines.filter((line) => line.includes('than the new rules leave seats for')).length).toBe(1);
  await until(() =>
    expect(
      all.filter(({ reports }) => reports.at(-1)?.includes('one already has 1024 contexts')).length,
    ).toBe(1),
  );
  expect(contexts()).toBe(1024);
});

test('bytes sent by a context are counted even if another context opens as it closes', async () => {
  const socket = join(folder(), 's');
  const { host } = daemon(socket);
  const device = client(socket, 'a').client.coordinator('sim0');
  let page = device.join('') as M.MemberPage;
  for (let i = 0; i < 60; i++) {
    await until(() => expect(granted(page, 'rateGbps')).toBe(100));
    page.counters[M.SENT_BYTES] = 1000;
    device.leave(page);
    page = device.join('') as M.MemberPage;
  }
  await until(() => expect(host.sentTotals(0).map(({ sentBytes }) => sentBytes)).toEqual([60_000]));
});
