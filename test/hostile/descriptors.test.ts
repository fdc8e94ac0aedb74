// Descriptors of lingering sockets, sent to the daemon by another user. Closing the last descriptor of such a socket takes
// as long as its sender likes, and the kernel also closes descriptors that a receiver does not take. Linux 6.16 and later
// refuse them at the sender; scripts/test-rxe runs these tests on an earlier kernel.
// @module-tag wide
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { requestTenants } from '../../src/daemon/client/tool-request.ts';
import { listenUnix, type UnixSocket } from '../../src/daemon/ipc/index.ts';
import { openFds, some, until as untilTrue } from '../daemon/rig.ts';
import { holdings, until } from '../daemon/world.ts';
import { EVIL_UID, type Evil, evil, folder, HostileWorld, reason } from './rig.ts';

const LINGER_S = 20;
const isEmulated = process.env.ISOVERBS_GROUND === 'rxe';
/** The longest that an honest program may wait for its answer. */
const PROMPT_MS = isEmulated ? 6000 : 1000;
/** Connections in a row, each with a descriptor. */
const MANY = isEmulated ? 25 : 100;
const TIMEOUT_MS = 240_000;

const attacks: Evil[] = [];
function attack(...args: string[]): Evil {
  const one = evil('descriptors.py', ...args);
  attacks.push(one);
  return one;
}
afterEach(async () => {
  for (const { child, exited } of attacks.splice(0)) {
    child.kill('SIGKILL');
    await exited;
  }
});

const isDone = ({ lines }: Evil) => lines().includes('done');

/** Lets a program send while the daemon is stopped, so that the daemon then has the only descriptors. */
async function strike(daemon: ChildProcess, one: Evil): Promise<void> {
  await until('the program is ready', () => one.lines().includes('ready'));
  daemon.kill('SIGSTOP');
  one.child.stdin!.write('\n');
  await until('the program has sent', () => isDone(one));
  daemon.kill('SIGCONT');
}
/** The descriptors that arrived; the kernel refused the others, or the daemon had closed the connection before. */
const sent = ({ lines }: Evil) => lines().filter((line) => line === 'sent').length;

/** How long an honest request takes until it is answered. */
async function answerMs(socket: string): Promise<number> {
  const beganMs = performance.now();
  for (let isAnswered = false; !isAnswered; ) {
    isAnswered = await requestTenants(socket).then(
      () => true,
      () => false,
    );
  }
  return performance.now() - beganMs;
}

/** The slowest of some answers. */
async function slowestMs(socket: string): Promise<number> {
  let slowest = 0;
  for (let i = 0; i < 10; i++) {
    slowest = Math.max(slowest, await answerMs(socket));
    await delay(5);
  }
  return slowest;
}

describe.skipIf(reason !== '')('descriptors of lingering sockets', () => {
  const world = new HostileWorld();
  beforeAll(() => world.startDaemon(), TIMEOUT_MS);
  afterAll(() => world.close(), TIMEOUT_MS);

  test.each([
    ['greeting', 'before the hello'],
    ['urgent', 'as urgent data, before the hello'],
    ['unread', 'behind a refused message'],
    ['connection', 'with a message'],
    ['wake', 'over the wake-up'],
    ['urgent wake', 'as urgent data, over the wake-up'],
  ])('%s: sent %s, they delay no other program and do not stay', { timeout: TIMEOUT_MS }, async (mode) => {
    const { socket, daemon } = world;
    await answerMs(socket);
    const before = holdings(daemon!.pid!).fds;
    world.log = '';
    const one = attack(mode, socket, String(LINGER_S));
    await strike(daemon!, one);
    const firstMs = await slowestMs(socket);
    const crowd = attack(mode, socket, String(LINGER_S), String(MANY));
    await strike(daemon!, crowd);
    const manyMs = await slowestMs(socket);
    const arrived = sent(one) + sent(crowd);
    console.log(
      `${mode}: ${arrived} of ${MANY + 1} descriptors arrived; the slowest answer took ${firstMs.toFixed(0)} ms with one, ${manyMs.toFixed(0)} ms with ${MANY}`,
    );
    expect(Math.max(firstMs, manyMs)).toBeLessThan(PROMPT_MS);
    if (sent(one) > 0) {
      // Of a connection without a hello, the daemon may log first that there was none.
      const what = /connection|wake/.test(mode) ? 'sent a descriptor' : 'sent';
      await until('the log names the user', () => world.log.includes(`of user ${EVIL_UID} ${what}`));
    }
    for (const { child } of [one, crowd]) child.stdin!.end();
    await Promise.all([one, crowd].map(({ exited }) => exited));
    await until('the descriptors are closed', () => holdings(daemon!.pid!).fds <= before);
  });

  test('of connections that were never accepted, they do not delay the end of the daemon', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { socket, daemon } = world;
    daemon!.kill('SIGSTOP');
    const one = attack('greeting', socket, String(LINGER_S), '5');
    one.child.stdin!.write('\n');
    await until('the connections wait', () => isDone(one));
    const beganMs = performance.now();
    daemon!.kill('SIGTERM');
    daemon!.kill('SIGCONT');
    await world.endDaemon('SIGTERM');
    expect(performance.now() - beganMs).toBeLessThan(PROMPT_MS);
  });
});

describe.skipIf(reason !== '')('a socket that accepts descriptors', () => {
  /** Accepts one connection of a hostile program, whose descriptor has arrived. */
  async function accepted(mode: string): Promise<UnixSocket> {
    const listener = listenUnix(join(folder(), 's'), { mode: 0o666, takesFds: true });
    const one = attack(mode, listener.path, String(LINGER_S));
    one.child.stdin!.write('\n');
    const socket = await some(() => listener.accept());
    await untilTrue(() => isDone(one));
    expect(sent(one)).toBe(1);
    // The descriptor must be closed by this process.
    one.child.kill('SIGKILL');
    await one.exited;
    listener.close();
    return socket;
  }

  test.each(['greeting', 'urgent'])(
    'reports one where none belongs and closes it elsewhere: %s',
    async (mode) => {
      const socket = await accepted(mode);
      const before = openFds().length;
      const beganMs = performance.now();
      expect(() => socket.receive(new Uint8Array(64))).toThrow(/a descriptor, where none belongs/);
      let isClosed = false;
      socket.close(() => {
        isClosed = true;
      });
      expect(performance.now() - beganMs).toBeLessThan(PROMPT_MS);
      await untilTrue(() => isClosed, 5000);
      expect(openFds().length).toBeLessThan(before);
    },
  );

  test('closes those that were never read elsewhere', async () => {
    const socket = await accepted('unread');
    const beganMs = performance.now();
    let isClosed = false;
    socket.close(() => {
      isClosed = true;
    });
    expect(performance.now() - beganMs).toBeLessThan(PROMPT_MS);
    await untilTrue(() => isClosed, 5000);
  });

  test('closes those of connections that were never accepted elsewhere', async () => {
    const listener = listenUnix(join(folder(), 's'), { mode: 0o666, takesFds: true });
    const one = attack('greeting', listener.path, String(LINGER_S), '3');
    one.child.stdin!.write('\n');
    await untilTrue(() => isDone(one));
    one.child.kill('SIGKILL');
    await one.exited;
    const beganMs = performance.now();
    listener.close();
    expect(performance.now() - beganMs).toBeLessThan(PROMPT_MS);
  });
});
