// One person with many user IDs (subordinate IDs of /etc/subuid) is one user: one default tenant, one set of budgets, one
// part of the places. Requires root, to connect as several users.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import pino from 'pino';
import { afterEach, describe, expect, test } from 'vitest';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import { started } from '../daemon/command-rig.ts';
import { reason as noAddon, until } from '../daemon/rig.ts';
import { RULINGS } from '../support/columns.ts';

const reason = noAddon || (process.getuid?.() === 0 ? '' : 'only root can connect as several users');
if (reason !== '') console.warn(`skipped: ${reason}`);

const LINK_GBPS = 100;
/** An attacker with subordinate IDs, and a user without any. */
const [EVIL, HONEST] = [60001, 60002];
const FIRST_SUBORDINATE = 700_000;
const CHILD = resolve(import.meta.dirname, 'children/many-users.mjs');

const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const undo of cleanUp.splice(0).reverse()) undo();
});

const subordinates = (count: number) => Array.from({ length: count }, (_, i) => FIRST_SUBORDINATE + i);

/** A daemon in this process. `yaml`: more of its configuration. */
function setUp(yaml = '') {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-users-'));
  chmodSync(folder, 0o755);
  cleanUp.push(() => rmSync(folder, { recursive: true }));
  const [socket, subuid] = [join(folder, 's'), join(folder, 'subuid')];
  writeFileSync(subuid, `${EVIL}:${FIRST_SUBORDINATE}:65536\n`);
  const lines: string[] = [];
  const daemon = new Daemon({
    socket,
    config: parseDaemonConfig(`subuid: ${subuid}\n${yaml}`, 'test'),
    rulings: RULINGS,
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    linkGbps: (device) => (device === 'sim0' ? LINK_GBPS : null),
  });
  daemon.listen();
  cleanUp.push(() => daemon.close());
  const tenants = () => new Map(daemon.metricsSource.tenants().map((row) => [row.tenant, row]));
  return { socket, lines, tenants };
}

interface Said {
  readonly uid: number;
  readonly tenant: string;
  readonly joined: number;
  readonly refused: readonly string[];
}

/** Clients as these users, which stay; what the daemon answered to each. */
async function come(socket: string, clients: number, contexts: number, uids: readonly number[]) {
  const running = started(process.execPath, [CHILD, socket, clients, contexts, ...uids].map(String));
  await until(() => running.out().includes('all') || running.child.exitCode !== null, 100_000);
  expect(running.err()).toBe('');
  const said: Said[] = running
    .out()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
  return said;
}

const joinedBy = (said: readonly Said[]) => said.reduce((sum, { joined }) => sum + joined, 0);
const connected = (said: readonly Said[]) => said.filter(({ tenant }) => tenant !== '').length;

describe.skipIf(reason !== '')('one person is one user', { timeout: 120_000 }, () => {
  test('100 subordinate users together get the share of their owner', async () => {
    const { socket, tenants } = setUp();
    await come(socket, 1, 1, [HONEST]);
    const said = await come(socket, 1, 1, subordinates(100));
    expect(new Set(said.map(({ tenant }) => tenant))).toEqual(new Set([`uid${EVIL}`]));
    await expect.poll(() => tenants().get(`uid${EVIL}`)?.rateGbps).toBe(LINK_GBPS / 2);
    expect(tenants().get(`uid${HONEST}`)?.rateGbps).toBe(LINK_GBPS / 2);
    expect(tenants().size).toBe(2);
  });

  test('a rule for a user also applies to its subordinate users, unless an earlier rule names their range', async () => {
    const { socket } = setUp(
      `rules: [
        { match: { uid: ${FIRST_SUBORDINATE + 7}-${FIRST_SUBORDINATE + 9} }, tenant: range },
        { match: { uid: [1, ${FIRST_SUBORDINATE + 20}-${FIRST_SUBORDINATE + 29}] }, tenant: list },
        { match: { uid: ${EVIL} }, tenant: owner, maxRequestsPerS: 10 }]`,
    );
    const uids = [6, 7, 9, 10, 25].map((i) => FIRST_SUBORDINATE + i);
    const said = await come(socket, 1, 0, [EVIL, ...uids, HONEST]);
    expect(said.map(({ tenant }) => tenant)).toEqual([
      ...['owner', 'owner', 'range', 'range', 'owner', 'list'],
      `uid${HONEST}`,
    ]);
  });

  test('subordinate users connect at the rate of one user', { tags: ['long'] }, async () => {
    const { socket, lines } = setUp('limits: { clients: 600, clientsOfAUser: 500 }');
    const said = await come(socket, 20, 0, subordinates(100));
    expect(connected(said)).toBeLessThanOrEqual(500);
    expect(lines.join()).toContain(`(of user ${EVIL})`);
    // The log, too, has one budget for all of them.
    expect(lines.length).toBeLessThan(60);
    expect(connected(await come(socket, 1, 0, [HONEST]))).toBe(1);
  });

  test('six users that take all connections they can leave some to every other user', {
    tags: ['long'],
  }, async () => {
    const { socket } = setUp('limits: { clients: 416, clientsOfAUser: 400, reserved: 16 }');
    const greedy = await come(
      socket,
      200,
      0,
      [1, 2, 3, 4, 5, 6].map((i) => 61_000 + i),
    );
    expect(connected(greedy)).toBeGreaterThan(300);
    const others = Array.from({ length: 20 }, (_, i) => 62_000 + i);
    expect(connected(await come(socket, 1, 0, others))).toBe(20);
  });

  test('six users that take all contexts they can leave some to every other user', {
    tags: ['long'],
  }, async () => {
    const { socket, tenants } = setUp();
    const greedy = await come(
      socket,
      4,
      256,
      [1, 2, 3, 4, 5, 6].map((i) => 61_000 + i),
    );
    expect(joinedBy(greedy)).toBeGreaterThan(3000);
    expect(greedy.at(-1)?.refused[0]).toMatch(/user 61006 .* contexts at sim0/);
    const others = Array.from({ length: 20 }, (_, i) => 62_000 + i);
    const said = await come(socket, 1, 2, others);
    expect(said.map(({ joined }) => joined)).toEqual(others.map(() => 2));
    expect(tenants().size).toBe(26);
  });
});
