// The daemon's socket: real sockets and shared memory, with both ends in this process where that suffices.
import { mkdtempSync, rmSync } from 'node:fs';
import { connect as connectNet } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterEach, expect, test, vi } from 'vitest';
import * as M from '../../src/coordinator/member-table.ts';
import { DaemonClient } from '../../src/daemon/client/client.ts';
import { connect } from '../../src/daemon/client/connection.ts';
import { requestTenants } from '../../src/daemon/client/tool-request.ts';
import { Host } from '../../src/daemon/host.ts';
import { connectUnix, listenUnix, type UnixSocket } from '../../src/daemon/ipc/index.ts';
import { frame, VERSION } from '../../src/daemon/protocol.ts';
import { identify } from '../../src/daemon/rules.ts';
import { Server, type ServerOptions } from '../../src/daemon/server.ts';

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
    rules: { qNumAllow: 1, qNumCapa: 9, selective: false },
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

function client(socket: string, tenant: string): { client: DaemonClient; reports: string[] } {
  const reports: string[] = [];
  const say = (line: string) => void reports.push(line);
  const one = new DaemonClient({ socket, hello: { tenant }, standaloneGbps: ALONE_GBPS, report: say });
  cleanUp.push(() => one.close());
  return { client: one, reports };
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
  expect(pages[0].grants[M.RATE_GBPS]).toBe(ALONE_GBPS);
  for (const page of pages) page.counters[M.RATED_QPS] = 1;
  await until(() => expect(pages.map(({ grants }) => grants[M.RATE_GBPS])).toEqual([50, 50]));
  expect(host.set('b', { weight: 3 })).toBe(true);
  host.pass(0);
  expect(pages.map(({ grants }) => grants[M.RATE_GBPS])).toEqual([25, 75]);
  const before = news;
  b.close();
  await until(() => expect(pages[0].grants[M.RATE_GBPS]).toBe(100));
  await until(() => expect(news).toBeGreaterThan(before));
  expect(server.size).toBe(1);
});

test('without a daemon a client continues; it joins one that appears, keeps its share when that dies, and joins the next', async () => {
  const socket = join(folder(), 's');
  const { client: one, reports } = client(socket, 'a');
  const page = pageOf(one);
  page.counters[M.RATED_QPS] = 1;
  await until(() => expect(reports.at(-1)).toContain('continuing without it'));
  expect(page.grants[M.RATE_GBPS]).toBe(ALONE_GBPS);
  const first = daemon(socket);
  await until(() => expect(page.grants[M.RATE_GBPS]).toBe(100));
  first.host.set('a', { gbps: 7 });
  first.host.pass(0);
  expect(page.grants[M.RATE_GBPS]).toBe(7);
  first.server.close();
  await until(() => expect(reports.at(-1)).toContain('its last grants stay in force'));
  expect(page.grants[M.RATE_GBPS]).toBe(7);
  daemon(socket);
  await until(() => expect(page.grants[M.RATE_GBPS]).toBe(100));
});

test('garbage, another version, silence and floods end the connection, are logged, and harm no other client', async () => {
  const socket = join(folder(), 's');
  const { server, lines } = daemon(socket);
  const { client: honest } = client(socket, 'a');
  const page = pageOf(honest);
  page.counters[M.RATED_QPS] = 1;
  await until(() => expect(page.grants[M.RATE_GBPS]).toBe(100));
  const hello = { type: 'hello', version: VERSION, role: 'tool' } as const;
  const flood = Buffer.concat(Array.from({ length: 10_000 }, () => frame({ type: 'tenants' })));
  const evils: [Uint8Array | string, RegExp][] = [
    ['GET / HTTP/1.1\r\n\r\n', /a frame of \d+ bytes/],
    [Buffer.concat([Buffer.from([3, 0, 0, 0]), Buffer.from('xyz')]), /not JSON/],
    [frame({ type: 'tenants' }), /'tenants' before hello/],
    [frame({ ...hello, version: 99 }), /version 99; this daemon speaks/],
    [Buffer.concat([frame(hello), frame(hello)]), /a second hello/],
    [Buffer.concat([frame(hello), frame({ type: 'leave', slot: 1 })]), /'leave' as a tool/],
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
  expect([server.size, page.grants[M.RATE_GBPS]]).toEqual([1, 100]);
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

test('only the sender is disconnected if it sends single bytes faster than messages may come', async () => {
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
  for (const page of [evil, honest]) page.counters[M.RATED_QPS] = 1;
  await until(() => expect(honest.grants[M.RATE_GBPS]).toBe(50));
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, -1, 1e308, 5e-324]) {
    evil.counters.fill(value);
    // Writing to its grants only changes a private copy.
    evil.grants.fill(value);
    await sleep(50);
    expect([50, 100]).toContain(honest.grants[M.RATE_GBPS]);
  }
});

test('when the daemon stops, clients keep their shares and do not inherit those of clients disconnected earlier', async () => {
  const socket = join(folder(), 's');
  const { server } = daemon(socket);
  const both = ['a', 'b'].map((tenant) => client(socket, tenant));
  const pages = both.map((one) => pageOf(one.client));
  for (const page of pages) page.counters[M.RATED_QPS] = 1;
  const rates = () => pages.map(({ grants }) => grants[M.RATE_GBPS]);
  await until(() => expect(rates()).toEqual([50, 50]));
  server.close();
  for (const { reports } of both)
    await until(() => expect(reports.at(-1)).toContain('its last grants stay in force'));
  expect(rates()).toEqual([50, 50]);
});

test('a client without queue pairs when the daemon stops gets its last share when it creates one', async () => {
  const socket = join(folder(), 's');
  const { server, host } = daemon(socket);
  const { client: one, reports } = client(socket, 'a');
  const page = pageOf(one);
  await until(() => expect([host.tenants().length, page.grants[M.RATE_GBPS]]).toEqual([1, 100]));
  server.close();
  await until(() => expect(reports.at(-1)).toContain('its last grants stay in force'));
  expect(page.grants[M.RATE_GBPS]).toBe(100);
});

test('the answer to a context that has left is not taken for one to the next in its seat', async () => {
  const socket = join(folder(), 's');
  const { host } = daemon(socket);
  const { client: one, reports } = client(socket, 'a');
  pageOf(one);
  await until(() => expect(host.tenants()[0]?.contexts).toBe(1));
  const here = one.coordinator('sim0');
  here.leave(here.join('') as M.MemberPage);
  const elsewhere = one.coordinator('sim7').join('') as M.MemberPage;
  elsewhere.counters[M.RATED_QPS] = 1;
  await until(() => expect(reports.at(-1)).toContain("knows no device 'sim7'"));
  expect(elsewhere.grants[M.RATE_GBPS]).toBe(ALONE_GBPS);
});

test('a list of thousands of tenants arrives complete, whatever is in the pages', async () => {
  const socket = join(folder(), 's');
  const { host } = daemon(socket);
  const many = Array.from({ length: 4 }, (_, i) => client(socket, `t${i}`).client);
  for (const [i, one] of many.entries()) {
    const device = one.coordinator('sim0');
    for (let k = 0; k <= 250; k++) {
      const page = device.join(`${'\u0001'.repeat(100)}${i} ${k % 250}`) as M.MemberPage;
      page.counters[M.WIRE_GBPS] = k % 250 === 0 ? 1e308 : 1;
      page.counters[M.RATED_QPS] = 1e308;
    }
  }
  await until(() => expect(host.tenants().length).toBe(1000));
  const rows = await requestTenants(socket);
  expect(rows.length).toBe(1000);
});

test('after cancel() no listener is called; otherwise ended() is called once', async () => {
  const socket = join(folder(), 'nobody');
  let ends = 0;
  const on = { connected() {}, received() {}, signalled() {}, ended: () => ends++ };
  connect(socket, { role: 'shim' }, on, false).cancel();
  await sleep(20);
  expect(ends).toBe(0);
  connect(socket, { role: 'shim' }, on, false);
  await until(() => expect(ends).toBe(1));
});

test('what a program sent before it left is counted, though no pass had read it', async () => {
  const socket = join(folder(), 's');
  const { host, server } = daemon(socket);
  const { client: one } = client(socket, 'a');
  const page = pageOf(one);
  await until(() => expect(host.tenants().length).toBe(1));
  await until(() => expect(page.grants[M.RATE_GBPS]).toBe(100));
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

test('what a context sent is counted even if another one is opened as it closes', async () => {
  const socket = join(folder(), 's');
  const { host } = daemon(socket);
  const device = client(socket, 'a').client.coordinator('sim0');
  let page = device.join('') as M.MemberPage;
  for (let i = 0; i < 60; i++) {
    await until(() => expect(page.grants[M.RATE_GBPS]).toBe(100));
    page.counters[M.SENT_BYTES] = 1000;
    device.leave(page);
    page = device.join('') as M.MemberPage;
  }
  await until(() => expect(host.sentTotals(0).map(({ sentBytes }) => sentBytes)).toEqual([60_000]));
});
