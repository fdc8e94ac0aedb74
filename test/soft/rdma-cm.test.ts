// rdma_cm and multicast over user-space RoCE between processes, and between two hosts: network namespaces of one machine.
// Needs a build.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { SoftPort } from '../../src/providers/soft/port.ts';
import { connect, createServer } from '../../src/rdma-cm.ts';
import { EACCES } from '../../src/verbs/index.ts';
import { absent, twoDevices } from './rig.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const CHILDREN = 'test/soft/children';
const NET = 79;
const children: ChildProcess[] = [];
const inherited = Object.entries(process.env).filter(([key]) => !/^(ISOVERBS_|VITEST|NODE_)/.test(key));
const can = (...words: string[]) => spawnSync(words[0], words.slice(1)).status === 0;
const hasSpaces = can('unshare', '-rnm', 'ip', 'link', 'add', 'va', 'type', 'veth') && can('ss');

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  vi.restoreAllMocks();
});

/** A program at an address of its own: what it printed, and promises. */
function start(own: number, ...args: string[]) {
  const env = {
    ...Object.fromEntries(inherited),
    ISOVERBS_PROVIDER: 'soft',
    ISOVERBS_SOFT_ADDRESSES: `127.${NET}.1.${own}`,
  };
  const child = spawn(process.execPath, args, { cwd: ROOT, env });
  children.push(child);
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (out += chunk));
  const ended = new Promise<string>((done) => child.on('close', (code) => done(`${code}: ${out}`)));
  const printed = async (text: string) => {
    while (!out.includes(text)) {
      await new Promise((done) => setTimeout(done, 20));
      if (child.exitCode !== null) throw new Error(`'${text}' is missing in: ${out}`);
    }
  };
  return { child, ended, printed };
}

describe.skipIf(absent !== null)('rdma_cm between processes', { timeout: 60_000 }, () => {
  test('the echo example, unchanged', async () => {
    const server = start(1, 'examples/rdma-cm-echo.mjs', '--listen', '7471');
    await server.printed('listening');
    const client = start(2, 'examples/rdma-cm-echo.mjs', '--connect', `127.${NET}.1.1:7471`);
    expect(await client.ended).toBe('0: echo: hello, world\n');
  });

  test('each member of a multicast group gets each datagram', async () => {
    const members = [1, 2].map((own) => start(own, `${CHILDREN}/multicast.mjs`, '239.79.0.1'));
    for (const member of members) await member.printed('joined');
    const sender = start(3, `${CHILDREN}/multicast.mjs`, '239.79.0.1', '--send', 'to all');
    await sender.printed('received to all');
    for (const member of members) expect(await member.ended).toMatch(/^0: joined at .*\nreceived to all\n$/);
  });

  test('an address that no device has is refused', async () => {
    const { provider } = twoDevices(NET);
    const server = createServer({ provider });
    const failed = new Promise((done) => server.once('error', done));
    server.listen({ host: '192.0.2.1' });
    expect(await failed).toMatchObject({ code: 'ISO_ERR_NO_DEVICE' });
    await expect(
      connect({ provider, host: '192.0.2.1', localAddress: '192.0.2.2', port: 1 }),
    ).rejects.toMatchObject({
      code: 'ISO_ERR_NO_DEVICE',
    });
  });

  test.each([0, 1, 2, 3, 4])('ends the same with message %i lost', async (lost) => {
    const { provider } = twoDevices(NET);
    const { sendManagement } = SoftPort.prototype;
    let sent = 0;
    vi.spyOn(SoftPort.prototype, 'sendManagement').mockImplementation(function (this: SoftPort, ...args) {
      if (sent++ !== lost) sendManagement.apply(this, args);
    });
    const server = createServer({ provider });
    await new Promise<void>((done) => server.listen({ host: `127.${NET}.0.1` }, done));
    const served = new Promise((done, fail) => {
      server.on('clientError', fail);
      server.on('connection', (one) => one.on('disconnect', done).on('disconnect', () => one.close()));
    });
    const ends = { localAddress: `127.${NET}.0.2`, host: `127.${NET}.0.1` };
    const client = await connect({ provider, ...ends, port: server.address()?.port ?? 0 });
    await client.disconnect();
    client.close();
    expect(await served).toBeUndefined();
    await server[Symbol.asyncDispose]();
    expect(sent).toBeGreaterThan(lost);
  });

  test('a call to an address to which the kernel sends nothing fails with its reason', async () => {
    const { provider } = twoDevices(NET);
    await expect(connect({ provider, host: '255.255.255.255', port: 1 })).rejects.toMatchObject({
      event: 'ADDR_ERROR',
      status: -EACCES,
    });
  });
});

test.skipIf(absent !== null || !hasSpaces)(
  'rdma_cm and multicast between two hosts, over IPv4 and IPv6',
  { tags: ['long'], timeout: 60_000 },
  () => {
    const script = resolve(ROOT, CHILDREN, 'two-hosts-cm.sh');
    const { status, stdout, stderr } = spawnSync('unshare', ['-rnm', script], {
      cwd: ROOT,
      env: Object.fromEntries(inherited),
      encoding: 'utf8',
    });
    expect(status, stdout + stderr).toBe(0);
    expect(stdout).toContain('echo: hello, world');
    expect(stdout).toContain('connected from fd08::2 to fd08::1');
    for (const group of ['239.1.2.3', 'ff0e::4791']) {
      expect(stdout.match(new RegExp(`^received to ${group}$`, 'gm'))).toHaveLength(2);
    }
  },
);
