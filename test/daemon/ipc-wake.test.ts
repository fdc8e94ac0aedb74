// Wake-ups between processes, and the effect of one process's end on the other.
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createWake, Wake } from '../../src/daemon/ipc/index.ts';
import { openFds, reason, until } from './rig.ts';

const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

describe.skipIf(reason !== '')('wake-ups', () => {
  test('several signals may arrive as one, and none is lost', async () => {
    const [near, far] = createWake();
    const received: boolean[] = [];
    far.watch((alive) => received.push(alive));
    expect([near.signal(), near.signal()]).toEqual([true, true]);
    await until(() => received.length > 0);
    await delay(5);
    const before = received.length;
    expect(near.signal()).toBe(true);
    await until(() => received.length === before + 1);
    near.watch((alive) => received.push(alive));
    far.signal();
    await until(() => received.length === before + 2);
    expect(received.every((alive) => alive)).toBe(true);
    for (const one of [near, far]) one.close();
  });

  test('signal() neither blocks nor fails if the other end is not watched', async () => {
    const [near, far] = createWake();
    // Much more than the socket can buffer.
    for (let i = 0; i < 5000; i++) expect(near.signal()).toBe(true);
    let received = 0;
    far.watch(() => received++);
    await until(() => received > 0);
    near.signal();
    const before = received;
    await until(() => received > before);
    for (const one of [near, far]) one.close();
  });

  test('when the other end closes, the watcher is called once and signal() returns false', async () => {
    const [near, far] = createWake();
    const received: boolean[] = [];
    far.watch((alive) => received.push(alive));
    near.close();
    await until(() => received.length > 0);
    await delay(10);
    expect([received, far.signal()]).toEqual([[false], false]);
    far.close();
    const [left, right] = createWake();
    // If the end was not watched, unread bytes cause a reset.
    right.signal();
    left.close();
    expect(right.signal()).toBe(false);
    right.close();
  });

  test('close() in its own listener; invalid arguments', async () => {
    const before = openFds();
    const [near, far] = createWake();
    far.watch(() => far.close());
    near.signal();
    await until(() => far.closed);
    expect(near.signal()).toBe(false);
    near.close();
    near.close();
    expect(openFds()).toEqual(before);
    expect(() => near.signal()).toThrow(code('HANDLE'));
    expect(() => near.fd).toThrow(code('HANDLE'));
    expect(() => near.watch(() => {})).toThrow(code('HANDLE'));
    expect(() => new Wake(-1)).toThrow(code('ARGUMENT'));
    expect(() => new Wake(9999).signal()).toThrow(code('HANDLE'));
  });
});
