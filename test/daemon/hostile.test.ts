// Malicious programs of another user: other tenants keep their shares, the daemon's memory, descriptors and CPU use
// stay bounded, and the log names the culprit. ISOVERBS_DAEMON_ROUNDS=full repeats the attacks as often as the security
// model promises.
// @module-tag wide
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type * as M from '../../src/coordinator/member-table.ts';
import { DaemonClient } from '../../src/daemon/client/client.ts';
import { Host } from '../../src/daemon/host.ts';
import type { PeerCredentials } from '../../src/daemon/ipc/index.ts';
import { identify } from '../../src/daemon/rules.ts';
import { Server } from '../../src/daemon/server.ts';
import { granted, RULINGS, report } from '../support/columns.ts';
import { reason, start } from './rig.ts';

const isFull = process.env.ISOVERBS_DAEMON_ROUNDS === 'full';
const SEED = Number(process.env.ISOVERBS_SEED ?? Date.now() % 1e6);
if (reason === '') console.log(`hostile programs of seed ${SEED} (ISOVERBS_SEED)`);
/** Another user's id, if this process may start programs as that user. */
const EVIL_UID = process.getuid?.() === 0 ? 54321 : process.getuid!();
const LINK_GBPS = 100;

const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const undo of cleanUp.splice(0).reverse()) undo();
});

/** A daemon that trusts only this process, and two clients with half of the link each. */
async function setUp(limits = { clients: 600, clientsOfAUser: 400, reserved: 16 }) {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-hostile-'));
  chmodSync(folder, 0o755);
  cleanUp.push(() => rmSync(folder, { recursive: true }));
  const socket = join(folder, 's');
  const lines: string[] = [];
  const host = new Host({
    rulings: RULINGS,
    linkGbps: (device) => (device === 'sim0' ? LINK_GBPS : null),
  });
  const isOwn = ({ pid }: PeerCredentials) => pid === process.pid;
  const server = new Server({
    socket,
    mode: 0o666,
    limits,
    host,
    policy: '',
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    identify: (peer, hello) => identify({ ...peer, ...hello, cgroup: '', command: '' }, [], isOwn(peer)),
    maySet: isOwn,
    nowNs: () => performance.now() * 1e6,
  });
  server.listen();
  cleanUp.push(() => server.close());
  const honest = ['honest', 'other'].map((tenant) => {
    const client = new DaemonClient({ socket, hello: { tenant }, report() {} });
    cleanUp.push(() => client.close());
    const page = client.coordinator('sim0').join('') as M.MemberPage;
    report(page, { ratedQps: 1 });
    return page;
  });
  const shares = () => honest.map((page) => granted(page, 'rateGbps'));
  await vi.waitFor(() => expect(shares()).toEqual([50, 50]), 5000);
  const newcomer = (tenant: string) => {
    const client = new DaemonClient({ socket, hello: { tenant }, report() {} });
    cleanUp.push(() => client.close());
    return client;
  };
  return { socket, host, server, lines, honest, shares, newcomer };
}

function evil(mode: string, socket: string, count: number) {
  return start('hostile.mjs', [mode, socket, String(SEED), String(count)], [], {
    ISOVERBS_UID: String(EVIL_UID),
  });
}

const fds = () => readdirSync('/proc/self/fd').length;
const rssBytes = () => 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]);

/**
 * Watches the honest clients' shares until the attack is over: the smallest and largest share of one, and the
 * daemon's CPU time.
 */
async function watch(shares: () => number[], over: Promise<unknown>) {
  let [least, most, isOver] = [Number.POSITIVE_INFINITY, 0, false];
  const cpu = process.cpuUsage();
  const beganMs = performance.now();
  over.then(() => {
    isOver = true;
  });
  while (!isOver) {
    least = Math.min(least, ...shares());
    most = Math.max(most, ...shares());
    await sleep(5);
  }
  const { user, system } = process.cpuUsage(cpu);
  return { least, most, cores: (user + system) / 1000 / (performance.now() - beganMs) };
}

const named = (child: { pid?: number }) => new RegExp(`process ${child.pid} of user ${EVIL_UID} `);

describe.skipIf(reason !== '')('hostile programs', () => {
  test('garbage, truncated frames and other versions', async () => {
    const { socket, server, shares, lines } = await setUp();
    const before = fds();
    const { child, ended } = evil('garbage', socket, isFull ? 20_000 : 1000);
    const { least, most } = await watch(shares, ended);
    expect(await ended).toMatchObject({ status: 0, stderr: '' });
    expect([least, most]).toEqual([50, 50]);
    expect(lines.filter((line) => named(child).test(line)).length).toBeGreaterThan(0);
    await vi.waitFor(() => expect([server.size, fds()]).toEqual([2, before]), 5000);
  });

  test('100,000 messages a second', { timeout: 120_000 }, async () => {
    const { socket, shares, lines, newcomer } = await setUp();
    const { child, ended } = evil('messages', socket, isFull ? 20_000 : 2000);
    const watched = watch(shares, ended);
    // Another client connects during the attack and gets a share soon.
    await vi.waitFor(() => expect(lines.join()).toMatch(named(child)), 5000);
    const page = newcomer('honest').coordinator('sim0').join('') as M.MemberPage;
    report(page, { ratedQps: 1 });
    await vi.waitFor(() => expect(granted(page, 'rateGbps')).toBe(25), 5000);
    const { cores } = await watched;
    expect(await ended).toMatchObject({ status: 0, stderr: '' });
    expect(cores).toBeLessThan(0.7);
    expect(shares()).toEqual([25, 50]);
    expect(lines.length).toBeLessThan(isFull ? 80 : 40);
  });

  test('wake-ups without pause, with changed counters each time', {
    timeout: 120_000,
    tags: ['long'],
  }, async () => {
    const { socket, shares } = await setUp();
    const { ended } = evil('rings', socket, isFull ? 20_000 : 2000);
    const { least, cores } = await watch(shares, ended);
    expect(await ended).toMatchObject({ status: 0, stderr: '' });
    // A third tenant is present.
    expect(least).toBeGreaterThanOrEqual((LINK_GBPS / 3) * 0.95);
    expect(cores).toBeLessThan(0.7);
  });

  test('messages that arrive one byte at a time', async () => {
    const { socket, shares, lines } = await setUp();
    const { child, ended } = evil('loris', socket, 200);
    const { least, most, cores } = await watch(shares, ended);
    expect([least, most]).toEqual([50, 50]);
    expect(cores).toBeLessThan(0.7);
    await vi.waitFor(() => expect(lines.join()).toMatch(named(child)), 5000);
  });

  test('10,000 connections: operators can still connect, and memory is bounded', async () => {
    const { socket, server, shares, lines, newcomer } = await setUp();
    const [before, rss] = [fds(), rssBytes()];
    const { child, ended, printed } = evil('crowd', socket, 10_000);
    const full = vi.waitFor(() => expect(printed()).toContain('full'), 30_000);
    const { least, most } = await watch(shares, full);
    expect([least, most]).toEqual([50, 50]);
    expect(server.size).toBeLessThanOrEqual(584 + 16);
    expect(rssBytes() - rss).toBeLessThan(100e6);
    const page = newcomer('honest').coordinator('sim0').join('') as M.MemberPage;
    report(page, { ratedQps: 1 });
    await vi.waitFor(() => expect(shares()).toEqual([25, 50]), 5000);
    expect(lines.join()).toMatch(named(child));
    child.kill('SIGKILL');
    await ended;
    // The new client has a socket and a wake-up, each with two ends.
    await vi.waitFor(() => expect([server.size, fds()]).toEqual([3, before + 4]), 10_000);
  });

  test('random bytes in its own page', { timeout: 300_000 }, async () => {
    const { socket, shares } = await setUp();
    const rss = rssBytes();
    const { ended } = evil('page', socket, isFull ? 1_000_000 : 10_000);
    const { least, most } = await watch(shares, ended);
    expect(await ended).toMatchObject({ status: 0, stderr: '', stdout: 'written' });
    // The attacker is at most one tenant, with the default weight.
    expect(least).toBeGreaterThanOrEqual((LINK_GBPS / 3) * 0.95);
    expect(most).toBeLessThanOrEqual(50);
    expect(rssBytes() - rss).toBeLessThan(100e6);
    await vi.waitFor(() => expect(shares()).toEqual([50, 50]), 5000);
  });

  test('a false name, weight and kind of traffic', async () => {
    const { socket, host, shares } = await setUp();
    const { child, ended, printed } = evil('claim', socket, 1);
    await vi.waitFor(() => expect(host.tenants().length).toBe(3), 5000);
    await vi.waitFor(() => expect(printed()).toBe(`uid${EVIL_UID}\n`), 5000);
    await sleep(50);
    const rows = host.tenants().map(({ tenant, weight }) => [tenant, weight]);
    expect(rows).toEqual([
      ['honest', 1],
      ['other', 1],
      [`uid${EVIL_UID}`, 1],
    ]);
    for (const share of shares()) expect(share).toBeCloseTo(LINK_GBPS / 3);
    child.kill('SIGKILL');
    await ended;
    await vi.waitFor(() => expect(shares()).toEqual([50, 50]), 5000);
  });
});
