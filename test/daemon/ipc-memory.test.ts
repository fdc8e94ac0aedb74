// Shared memory: visibility, write permissions, and what a hostile maker can do.
// @module-tag wide
import { closeSync, openSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createMemory, listenUnix, openMemory, type SharedMemory } from '../../src/daemon/ipc/index.ts';
import { hasPython, mappings, newPath, openFds, pair, reason, some, start, until } from './rig.ts';

const BYTES = 8192;

/** A second mapping of the memory, opened as another process would. */
function opened(memory: SharedMemory, writable: boolean, bytes = memory.bytes): SharedMemory {
  const { listener, near, far } = pair({ takesFds: true });
  near.send(Uint8Array.of(1), [memory.fd]);
  const { fds } = far.receive(new Uint8Array(8), 1)!;
  for (const one of [near, far, listener]) one.close();
  return openMemory(fds[0], bytes, { writable });
}

const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

describe.skipIf(reason !== '')('shared memory', () => {
  test('both ends see what either writes', () => {
    using memory = createMemory('both', BYTES);
    memory.seal();
    using other = opened(memory, true);
    const here = new Int32Array(memory.buffer);
    const there = new Int32Array(other.buffer);
    expect([here.length, there.length, there[0]]).toEqual([BYTES / 4, BYTES / 4, 0]);
    Atomics.store(here, 0, 7);
    expect(Atomics.load(there, 0)).toBe(7);
    expect(Atomics.add(there, 0, 5)).toBe(7);
    expect(Atomics.compareExchange(here, 0, 12, 1)).toBe(12);
    there[BYTES / 4 - 1] = 3;
    expect(here[BYTES / 4 - 1]).toBe(3);
  });

  test("read-only memory shows what the owner writes; a reader's stray writes stay private", () => {
    using memory = createMemory('grants', 2 * BYTES);
    memory.seal({ readOnlyForOthers: true });
    using other = opened(memory, false);
    const here = new Int32Array(memory.buffer);
    const there = new Int32Array(other.buffer);
    here[0] = 1;
    expect(there[0]).toBe(1);
    there[0] = 99;
    expect([here[0], there[0]]).toEqual([1, 99]);
    // From then on the page is a private copy; the other mappings still see changes.
    here[0] = 2;
    here[BYTES / 4] = 2;
    expect([there[0], there[BYTES / 4]]).toEqual([99, 2]);
    expect(() => opened(memory, true)).toThrow(code('MEMORY'));
  });

  test('close() detaches the buffer and releases the mapping and the descriptor', async () => {
    const before = openFds().length;
    const memory = createMemory('closing', BYTES);
    memory.seal();
    const other = opened(memory, true);
    const { buffer } = memory;
    const view = new Uint8Array(other.buffer);
    expect([mappings('closing'), openFds().length]).toEqual([2, before + 1]);
    memory.close();
    memory.close();
    other.close();
    expect([memory.closed, buffer.byteLength, view.length, openFds().length]).toEqual([true, 0, 0, before]);
    expect(() => memory.buffer).toThrow(code('HANDLE'));
    expect(() => memory.fd).toThrow(code('HANDLE'));
    expect(() => memory.seal()).toThrow(code('HANDLE'));
    await until(() => mappings('closing') === 0);
  });

  test('a thousand rounds leave no descriptor and no mapping behind', async () => {
    const before = openFds();
    for (let round = 0; round < 1000; round++) {
      const memory = createMemory('rounds', BYTES);
      memory.seal({ readOnlyForOthers: true });
      opened(memory, false).close();
      memory.close();
      if (round % 64 === 0) await turn();
    }
    expect(openFds()).toEqual(before);
    await until(() => mappings('rounds') === 0);
  });

  test('invalid arguments and states', () => {
    using memory = createMemory('x', 1);
    expect(memory.bytes).toBe(1);
    memory.seal();
    expect(() => memory.seal()).toThrow(code('STATE'));
    using other = opened(memory, true);
    expect(() => other.fd).toThrow(code('STATE'));
    for (const bytes of [0, -1, 1.5, Number.NaN, 2 ** 40]) {
      expect(() => createMemory('x', bytes)).toThrow(/bytes must be a whole number from 1 to 1073741824/);
    }
    expect(() => createMemory('x'.repeat(250), 1)).toThrow(code('ARGUMENT'));
    expect(() => createMemory('a\0b', 1)).toThrow(code('ARGUMENT'));
    for (const fd of [-1, 0, 2, 1.5, Number.NaN, 2 ** 31]) {
      expect(() => openMemory(fd, BYTES)).toThrow(code('ARGUMENT'));
    }
    expect(() => openMemory(9999, BYTES)).toThrow(code('HANDLE'));
  });

  test('openMemory() closes memory that it refuses', () => {
    const before = openFds();
    using memory = createMemory('unsealed', BYTES);
    const fd = openSync('/proc/self/maps', 'r');
    expect(() => openMemory(fd, BYTES)).toThrow(/is no shared memory/);
    expect(() => closeSync(fd)).toThrow(/EBADF/);
    expect(() => opened(memory, false)).toThrow(/is not sealed/);
    expect(openFds().length).toBe(before.length + 1);
  });
});

describe.skipIf(reason !== '' || !hasPython)('shared memory and hostile processes', () => {
  async function tries(readOnlyForOthers: boolean): Promise<[Record<string, string>, SharedMemory]> {
    const memory = createMemory('mine', BYTES);
    new Uint8Array(memory.buffer).fill(65);
    memory.seal({ readOnlyForOthers });
    const { stdout, ...ending } = await start('write-anyway.py', [String(BYTES)], [memory.fd]).ended;
    expect(ending).toEqual({ status: 0, signal: null, stderr: '' });
    return [Object.fromEntries(stdout.split('\n').map((line) => line.split(' '))), memory];
  }

  const SIZE_KEPT = { shrink: 'EPERM', truncate: 'EPERM', grow: 'EPERM', seal: 'EPERM' };

  test('a process with read access cannot write, whatever it tries', async () => {
    const [results, memory] = await tries(true);
    expect(results).toEqual({
      ...{ map: 'EPERM', reopen: 'EPERM', mprotect: 'EACCES', write: 'EPERM', punch: 'EPERM' },
      ...SIZE_KEPT,
    });
    expect(new Uint8Array(memory.buffer).every((byte) => byte === 65)).toBe(true);
    memory.close();
  });

  test('a process with write access can write, and cannot change the size', async () => {
    const [results, memory] = await tries(false);
    expect(results).toEqual({
      ...{ map: 'done', reopen: 'done', mprotect: 'done', write: 'done', punch: 'done' },
      ...SIZE_KEPT,
    });
    expect(new Uint8Array(memory.buffer)[8]).toBe(0);
    memory.close();
  });

  test.each([
    ['unsealed', /not sealed/],
    ['shrinkable', /not sealed/],
    ['growable', /not sealed/],
    ['small', /has 8191 bytes, not 8192/],
    ['large', /has 8193 bytes, not 8192/],
    ['empty', /has 0 bytes, not 8192/],
    ['file', /no shared memory/],
    ['socket', /no shared memory/],
    ['directory', /no shared memory/],
  ])('memory from a peer: %s', async (mode, message) => {
    using listener = listenUnix(newPath(), { takesFds: true });
    const { child } = start('peer.py', [mode, listener.path]);
    const socket = await some(() => listener.accept());
    const { fds } = await some(() => socket.receive(new Uint8Array(8), 1));
    const before = openFds().length;
    expect(() => openMemory(fds[0], BYTES, { writable: true })).toThrow(message);
    expect(() => openMemory(fds[0], BYTES)).toThrow(code('HANDLE'));
    expect(openFds().length).toBeLessThanOrEqual(before);
    socket.close();
    child.kill();
  });

  test('valid memory from a peer', async () => {
    using listener = listenUnix(newPath(), { takesFds: true });
    const { child } = start('peer.py', ['sealed', listener.path]);
    const socket = await some(() => listener.accept());
    const { fds } = await some(() => socket.receive(new Uint8Array(8), 1));
    using memory = openMemory(fds[0], BYTES, { writable: true });
    expect(new Uint8Array(memory.buffer)[BYTES - 1]).toBe(0);
    socket.close();
    child.kill();
  });
});
