// Wake-ups between processes, and what an end of a process does to the other.
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createWake, Wake } from '../../src/daemon/ipc/index.ts';
import { openFds, reason, until } from './rig.ts';

const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

describe.skipIf(reason !== '')('wake-ups', () => {
  test('several rings may be heard as one, none is lost', async () => {
    const [near, far] = createWake();
    const heard: boolean[] = [];
    far.watch((alive) => heard.push(alive));
    expect([near.signal(), near.signal()]).toEqual([true, true]);
    await until(() => heard.length > 0);
    await delay(5);
    const before = heard.length;
    expect(near.signal()).toBe(true);
    await until(() => heard.length === before + 1);
    near.watch((alive) => heard.push(alive));
    far.signal();
    await until(() => heard.length === before + 2);
    expect(heard.every((alive) => alive)).toBe(true);
    for (const one of [near, far]) one.close();
  });

  test('nobody listens: ringing never blocks and never fails', async () => {
    const [near, far] = createWake();
    // A good deal more than the socket holds.
    for (let i = 0; i < 5000; i++) expect(near.signal()).toBe(true);
    let heard = 0;
    far.watch(() => heard++);
    await until(() => heard > 0);
    near.signal();
    const before = heard;
    await until(() => heard > before);
    for (const one of [near, far]) one.close();
  });

  test('the other end goes: the watcher hears it once, ringing says so', async () => {
    const [near, far] = createWake();
    const heard: boolean[] = [];
    far.watch((alive) => heard.push(alive));
    near.close();
    await until(() => heard.length > 0);
    await delay(10);
    expect([heard, far.signal()]).toEqual([[false], false]);
    far.close();
    const [left, right] = createWake();
    // Unheard bytes make it a reset where the end was not watched.
    right.signal();
    left.close();
    expect(right.signal()).toBe(false);
    right.close();
  });

  test('closed in its own listener; bad arguments', async () => {
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
