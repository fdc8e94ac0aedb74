// Programs of several processes or threads, programs whose event loop never runs, containers, and daemons
// that do not answer: each process and thread is a client, and none waits for a daemon.
import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { reason } from './rig.ts';
import { holdings, nowNs, PROGRAMS, type Tenant, until, World } from './world.ts';

const PROGRAM = join(PROGRAMS, 'tenant.mjs');
const FAMILY = join(PROGRAMS, 'family.mjs');
const TIMEOUT_MS = 120_000;
const PATIENCE_MS = 30_000;
/** These tests spend most of their time waiting for a timeout or a start. */
const AT_ONCE = { concurrent: true };
// These tests use hardly any CPU.
process.env.PAUSE_MS = '20';
const NOBODY = 65534;
const HAS_NAMESPACES = spawnSync('unshare', ['-Urpfm', '--mount-proc', 'true']).status === 0;
if (!HAS_NAMESPACES) console.warn('skipped: unshare cannot make namespaces here');

async function worldOf(config?: string): Promise<World> {
  const world = new World(config);
  await world.startDaemon();
  return world;
}

/** Waits until the daemon has this many contexts and processes of a tenant. */
async function has(world: World, tenant: string, contexts: number, processes: number): Promise<void> {
  const wanted = contexts === 0 ? undefined : { contexts, processes };
  const look = async () => (await world.tenantRows()).find((row) => row.tenant === tenant);
  const endMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found?.contexts === wanted?.contexts && found?.processes === wanted?.processes) return;
    if (performance.now() > endMs) expect(found).toMatchObject({ tenant, contexts, processes });
    await delay(10);
  }
}

/** The program sends, and the received data is correct. */
async function works(tenant: Tenant): Promise<void> {
  const { completions } = await tenant.report();
  let now = completions;
  for (let tries = 0; now <= completions && tries < 100; tries++) now = (await tenant.report()).completions;
  expect(now).toBeGreaterThan(completions);
  expect(tenant.errors).toEqual([]);
}

describe.skipIf(reason !== '')('processes and threads', AT_ONCE, () => {
  const FAMILIES: [string, number, string[]][] = [
    ['fork', 2, ['long']],
    ['cluster', 2, ['long']],
    ['exec', 1, ['long']],
  ];
  for (const [how, processes, tags] of FAMILIES) {
    test(`${how}: each process is a client`, { tags, timeout: TIMEOUT_MS }, async () => {
      await using world = await worldOf();
      const family = world.run('family', [process.execPath, FAMILY, how]);
      await has(world, 'family', processes, processes);
      expect(family.errors).toEqual([]);
      // Only processes that have printed their number are killed.
      await until('every process has begun', () => family.pids.size >= processes);
      family.kill();
      await has(world, 'family', 0, 0);
    });
  }

  test('a shell script that starts several programs', { tags: ['long'], timeout: TIMEOUT_MS }, async () => {
    await using world = await worldOf();
    const script = 'exec 3<&0; "$0" "$1" <&3 & "$0" "$1" <&3 & wait';
    const shell = world.run('shell', ['sh', '-c', script, process.execPath, PROGRAM]);
    await has(world, 'shell', 2, 2);
    shell.child.stdin!.end();
    await shell.ended;
    expect(shell.errors).toEqual([]);
    expect(shell.stderr).toBe('');
    await has(world, 'shell', 0, 0);
  });

  test(
    'each thread is a client; a terminated one leaves, and all leave when the process exits',
    async () => {
      await using world = await worldOf();
      const threads = world.run('threads', [process.execPath, FAMILY, 'workers']);
      await has(world, 'threads', 3, 1);
      await until('it says who it is', () => threads.pid !== 0);
      const held = holdings(threads.pid);
      threads.say('terminate');
      await has(world, 'threads', 2, 1);
      await until('its descriptors are closed', () => holdings(threads.pid).fds < held.fds);
      await until('its memory is unmapped', () => holdings(threads.pid).memories < held.memories);
      threads.say('leave');
      await threads.ended;
      await has(world, 'threads', 0, 0);
      expect(threads.errors).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test('a program whose event loop never runs joins anyway', {
    tags: ['long'],
    timeout: TIMEOUT_MS,
  }, async () => {
    await using world = await worldOf();
    const busyMs = 20_000;
    const busy = world.start('busy', [PROGRAM, `sync ${busyMs}`]);
    await until('it joins', () => busy.changes.some(({ joined }) => joined));
    const joinedMs = (busy.changes.find(({ joined }) => joined)!.ns - busy.changes[0].ns) / 1e6;
    process.stdout.write(
      `processes: joined ${joinedMs.toFixed(1)} ms after its first round, without a turn\n`,
    );
    expect(joinedMs).toBeLessThan(busyMs / 2);
    // The program also receives a grant.
    const other = world.start('other', [PROGRAM]);
    await until('it has half', () => busy.last.rate === 50);
    expect([...busy.errors, ...other.errors]).toEqual([]);
  });
});

describe.skipIf(reason !== '')('a daemon that does not answer', AT_ONCE, () => {
  test('stopped: clients keep their shares; a new program runs without the daemon and joins when it continues', {
    tags: ['long'],
    timeout: TIMEOUT_MS,
  }, async () => {
    await using world = await worldOf();
    const old = world.start('old', [PROGRAM]);
    await until('it has all', () => old.last.joined && old.last.rate === 100);
    process.kill(world.daemon!.pid!, 'SIGSTOP');
    const fromNs = nowNs();
    const young = world.start('young', [PROGRAM]);
    await until('it sends', () => young.pid !== 0);
    await works(young);
    await works(old);
    expect([old.last.rate, young.last.joined]).toEqual([100, false]);
    await until('the report that no daemon answers', () => young.stderr.includes('does not answer'));
    await works(young);
    const { gapNs } = await young.report();
    expect(gapNs).toBeLessThan(nowNs() - fromNs);
    process.kill(world.daemon!.pid!, 'SIGCONT');
    await until('both share', () => [old, young].every(({ last }) => last.joined && last.rate === 50));
    expect([...old.errors, ...young.errors]).toEqual([]);
  });

  const ANSWERS: [string, string | null, number, string[]][] = [
    ['garbage', 'GET / HTTP/1.1\r\n\r\n', 1, ['long']],
    ['nothing', '', 1, ['long']],
    ['a hang-up', null, 3, ['long']],
  ];
  for (const [what, bytes, tries, tags] of ANSWERS) {
    const title = `${what}: the program continues, reports the failure once, and joins the next daemon`;
    test(title, { tags, timeout: TIMEOUT_MS }, async () => {
      await using world = new World();
      const sockets: Socket[] = [];
      const server = createServer((socket) => {
        sockets.push(socket);
        socket.on('error', () => {});
        if (bytes === null) socket.destroy();
        else if (bytes !== '') socket.write(bytes);
      });
      await new Promise<void>((listens) => server.listen(world.socket, listens));
      const tenant = world.start('a', [PROGRAM]);
      await until('it says so', () => tenant.stderr.includes('continuing without it'));
      await until('it has asked', () => sockets.length >= tries);
      await works(tenant);
      expect(tenant.stderr.match(/isoverbs: /g)).toHaveLength(1);
      for (const socket of sockets) socket.destroy();
      await new Promise((closed) => server.close(closed));
      await world.startDaemon();
      await until('it joins', () => tenant.last.joined && tenant.last.rate === 100);
      expect(tenant.errors).toEqual([]);
    });
  }

  test(
    'a program that may not open the socket reports that once, continues, and joins when permitted, which it reports',
    async () => {
      await using world = await worldOf();
      const isRoot = process.getuid!() === 0;
      chmodSync(world.folder, 0o755);
      chmodSync(world.socket, isRoot ? 0o600 : 0);
      const tenant = world.start('a', [PROGRAM], {}, isRoot ? NOBODY : undefined);
      await until('it says so', () => tenant.stderr.includes('continuing without it'));
      expect(tenant.stderr).toMatch(/EACCES/);
      await works(tenant);
      chmodSync(world.socket, 0o666);
      await until('it joins', () => tenant.last.joined && tenant.last.rate === 100);
      expect(tenant.stderr.match(/isoverbs: \w+/g)).toEqual(['isoverbs: no', 'isoverbs: connected']);
      expect(tenant.errors).toEqual([]);
    },
    TIMEOUT_MS,
  );
});

describe.skipIf(reason !== '' || !HAS_NAMESPACES)('containers', AT_ONCE, () => {
  const config = [
    'devices: {sim0: {linkGbps: 100}}',
    'policy: token-bucket',
    'rules:',
    '  - {match: {command: "*tenant.mjs boxed*"}, tenant: by-command}',
    '  - {match: {uid: 0}, tenant: by-user}',
    '',
  ].join('\n');

  test('a program in separate namespaces is identified as the kernel reports it to the daemon', {
    tags: ['long'],
    timeout: TIMEOUT_MS,
  }, async () => {
    await using world = await worldOf(config);
    const boxed = ['unshare', '-Urpfm', '--mount-proc', process.execPath, PROGRAM];
    const tenants = [world.run('liar', [...boxed, 'boxed']), world.run('liar', [...boxed, 'other'])];
    await until('they join', () => tenants.every(({ last }) => last.joined));
    expect(tenants.every(({ pid }) => pid < 100)).toBe(true);
    const uid = process.getuid!();
    await has(world, 'by-command', 1, 1);
    await has(world, uid === 0 ? 'by-user' : 'liar', 1, 1);
    expect(tenants.flatMap(({ errors }) => errors)).toEqual([]);
  });
});
