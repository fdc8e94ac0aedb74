// Lives of whole processes: what they inherit, what they leave behind, and that nothing crashes one.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import net from 'node:net';
import { describe, expect, test } from 'vitest';
import { createMemory, createWake, listenUnix } from '../../src/daemon/ipc/index.ts';
import { newPath, openFds, PASSED, pair, reason, some, start, until } from './rig.ts';

const BYTES = 4096;

describe.skipIf(reason !== '')('processes', () => {
  test('two processes share pages, wake each other, and talk over net.Socket', async () => {
    using listener = listenUnix(newPath());
    const { child, ended } = start('tenant.mjs', [listener.path]);
    const socket = await some(() => listener.accept());
    expect(socket.peer().pid).toBe(child.pid);
    using counters = createMemory('counters', BYTES);
    using grants = createMemory('grants', BYTES);
    counters.seal();
    grants.seal({ readOnlyForOthers: true });
    const [near, far] = createWake();
    expect(socket.send(Buffer.from('welcome'), [counters.fd, grants.fd, far.fd])).toBe(7);
    far.closeFd();
    const stream = new net.Socket({ fd: socket.take(), readable: true, writable: true });
    let said = '';
    stream.on('data', (chunk) => {
      said += chunk;
    });
    const written = new Float64Array(counters.buffer);
    const granted = new Float64Array(grants.buffer);
    // The tenant adds one to what it reads, and signals.
    let rung = 0;
    near.watch((alive) => {
      if (alive) rung++;
    });
    for (let i = 1; i <= 20; i++) {
      granted[0] = i;
      near.signal();
      await until(() => written[0] === i + 1);
    }
    await until(() => rung > 0);
    expect(granted[1]).toBe(0);
    stream.end('end');
    expect(await ended).toEqual(PASSED);
    await until(() => stream.destroyed || stream.readableEnded);
    expect(said).toBe('hello');
    near.close();
  });

  test('a child inherits nothing', () => {
    const { listener, near, far } = pair();
    const memory = createMemory('inherited', BYTES);
    const [left, right] = createWake();
    const mine = openFds().filter((what) => !what.includes('anon'));
    expect(mine.length).toBeGreaterThanOrEqual(6);
    const { stdout } = spawnSync('ls', ['-l', '/proc/self/fd'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    // Its standard output is a separate socket.
    expect(mine.filter((what) => stdout.includes(what))).toEqual([]);
    expect(stdout).not.toContain('memfd');
    for (const one of [listener, near, far, memory, left, right]) one.close();
  });

  test.each([
    'exit-with-everything-open',
    'worker-terminated',
    'throwing-listener',
    'random-arguments',
    'closed-in-listeners',
  ])('%s', async (name) => {
    expect(await start(`${name}.mjs`, [newPath()]).ended).toEqual(PASSED);
  });
});
