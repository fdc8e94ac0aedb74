// Unix sockets before they become a net.Socket: permissions to listen, data transfer, and what a hostile
// sender can do.
// @module-tag wide
import { existsSync, readFileSync, readlinkSync, renameSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { release } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { closeFd, connectUnix, createMemory, listenUnix, UnixSocket } from '../../src/daemon/ipc/index.ts';
import { hasPython, newPath, openFds, pair, reason, some, start, until } from './rig.ts';

const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });
const text = (bytes: Uint8Array, count: number) => Buffer.from(bytes.subarray(0, count)).toString();
const [major, minor] = release().split('.').map(Number);
/** SO_PASSRIGHTS */
const refusesFds = major > 6 || (major === 6 && minor >= 16);

describe.skipIf(reason !== '')('Unix sockets', () => {
  test('bytes and descriptors pass in both directions', () => {
    const before = openFds();
    const { listener, near, far } = pair({ takesFds: true });
    const memory = createMemory('sent', 64);
    const buffer = new Uint8Array(64);
    expect(far.receive(buffer, 4)).toBeNull();
    expect(near.send(Buffer.from('hello'), [memory.fd, memory.fd])).toBe(5);
    const got = far.receive(buffer, 4)!;
    expect([text(buffer, got.bytes), got.fds.length]).toEqual(['hello', 2]);
    expect(got.fds.map((fd) => readlinkSync(`/proc/self/fd/${fd}`))).toEqual([
      '/memfd:sent (deleted)',
      '/memfd:sent (deleted)',
    ]);
    for (const fd of got.fds) closeFd(fd);
    expect(far.send(Buffer.from('answer'))).toBe(6);
    expect(near.receive(buffer.subarray(0, 3))).toEqual({ bytes: 3, fds: [] });
    expect(near.receive(buffer)).toEqual({ bytes: 3, fds: [] });
    near.close();
    expect(far.receive(buffer)).toEqual({ bytes: 0, fds: [] });
    expect(() => far.send(buffer)).toThrow(code('CONNECTION'));
    for (const one of [far, listener, memory]) one.close();
    expect(openFds()).toEqual(before);
  });

  test('peer() returns the credentials from the kernel', () => {
    const { listener, near, far } = pair();
    const me = {
      pid: process.pid,
      uid: process.getuid!(),
      gid: process.getgid!(),
      groups: expect.any(Array),
    };
    expect([near.peer(), far.peer()]).toEqual([me, me]);
    const groups = process.getgroups!().toSorted();
    expect(far.peer().groups.every((group) => groups.includes(group))).toBe(true);
    for (const one of [near, far, listener]) one.close();
  });

  test('nothing blocks: a full socket accepts no more bytes, a full listener no connection', () => {
    const { listener, near, far } = pair();
    const bytes = new Uint8Array(1 << 20);
    let sent = 0;
    for (let n = near.send(bytes); n > 0; n = near.send(bytes)) sent += n;
    expect(sent).toBeGreaterThan(0);
    let received = 0;
    for (let got = far.receive(bytes); got !== null; got = far.receive(bytes)) received += got.bytes;
    expect(received).toBe(sent);
    const short = listenUnix(newPath(), { backlog: 1 });
    const waiting: UnixSocket[] = [];
    for (let one = connectUnix(short.path); one !== null; one = connectUnix(short.path)) waiting.push(one);
    expect(waiting.length).toBeGreaterThan(0);
    for (const one of [...waiting, short, near, far, listener]) one.close();
  });

  test('a watched socket and a watched listener call back until they are closed', async () => {
    const listener = listenUnix(newPath());
    const accepted: UnixSocket[] = [];
    listener.watch(() => accepted.push(listener.accept()!));
    const near = connectUnix(listener.path)!;
    await until(() => accepted.length === 1);
    const received: string[] = [];
    const buffer = new Uint8Array(16);
    near.watch(() => received.push(text(buffer, near.receive(buffer)!.bytes)), { keepAlive: false });
    accepted[0].send(Buffer.from('one'));
    await until(() => received.length === 1);
    near.watch(() => received.push(`${text(buffer, near.receive(buffer)!.bytes)} changed`));
    accepted[0].send(Buffer.from('two'));
    await until(() => received.length === 2);
    near.watch(null);
    accepted[0].send(Buffer.from('three'));
    await delay(20);
    expect(received).toEqual(['one', 'two changed']);
    near.watch(() => near.close());
    await until(() => near.closed);
    for (const one of [listener, ...accepted]) one.close();
  });

  test('after the handshake both ends become a net.Socket', async () => {
    const { listener, near, far } = pair({ takesFds: true });
    const memory = createMemory('shaken', 64);
    near.watch(() => {});
    far.send(Buffer.from('welcome'), [memory.fd]);
    const got = near.receive(new Uint8Array(64), 1)!;
    closeFd(got.fds[0]);
    const sockets = [near, far].map(
      (end) => new net.Socket({ fd: end.take(), readable: true, writable: true }),
    );
    expect([near.closed, far.closed]).toEqual([true, true]);
    expect(() => near.peer()).toThrow(code('HANDLE'));
    // Much more than the kernel's buffers, so that both ends have to wait for each other.
    const big = Buffer.alloc(4 << 20, 'x');
    const counts = [0, 0];
    sockets.forEach((socket, i) => {
      socket.on('data', (chunk) => {
        counts[i] += chunk.length;
      });
      socket.write(big);
    });
    await until(() => counts[0] === big.length && counts[1] === big.length);
    const ended = new Promise((done) => sockets[1].once('end', done));
    sockets[0].end();
    await ended;
    for (const socket of sockets) socket.destroy();
    for (const one of [listener, memory]) one.close();
  });

  test('bad arguments', () => {
    const { listener, near, far } = pair();
    const byte = new Uint8Array(1);
    const detached = new Uint8Array(8);
    structuredClone(detached.buffer, { transfer: [detached.buffer] });
    const none = new Uint8Array(0);
    expect(() => near.send(none)).toThrow(code('ARGUMENT'));
    expect(() => near.send(detached)).toThrow(/was detached/);
    expect(() => near.receive(detached)).toThrow(/was detached/);
    expect(() => near.receive(none)).toThrow(code('ARGUMENT'));
    expect(() => near.receive(byte, 65)).toThrow(/maxFds must be a whole number from 0 to 64/);
    expect(() => near.send(byte, new Array(65).fill(3))).toThrow(code('ARGUMENT'));
    for (const fd of [-1, 0, Number.NaN, 1.5]) {
      expect(() => near.send(byte, [fd])).toThrow(code('ARGUMENT'));
      expect(() => new UnixSocket(fd)).toThrow(code('ARGUMENT'));
      expect(() => closeFd(fd)).toThrow(code('ARGUMENT'));
    }
    expect(() => near.send(byte, [9999])).toThrow(code('HANDLE'));
    expect(() => new UnixSocket(9999).peer()).toThrow(code('HANDLE'));
    expect(() => closeFd(9999)).toThrow(code('HANDLE'));
    using memory = createMemory('no socket', 8);
    const wrong = new UnixSocket(memory.fd);
    expect(() => wrong.peer()).toThrow(/is no Unix stream socket/);
    expect(() => wrong.send(byte)).toThrow(/is no Unix stream socket/);
    expect(() => wrong.receive(byte)).toThrow(/is no Unix stream socket/);
    expect(() => wrong.watch(() => {})).toThrow(/cannot be listened to/);
    // @ts-expect-error not a function
    expect(() => near.watch(7)).toThrow(/must be a function or null/);
    near.close();
    near.close();
    for (const use of [
      () => near.peer(),
      () => near.send(byte),
      () => near.receive(byte),
      () => near.take(),
    ]) {
      expect(use).toThrow(code('HANDLE'));
    }
    for (const one of [far, listener]) one.close();
  });
});

describe.skipIf(reason !== '')('where to listen', () => {
  test('the permissions are the requested ones, whatever the umask', () => {
    for (const mode of [0o600, 0o660, 0o666]) {
      using listener = listenUnix(newPath(), { mode });
      expect((statSync(listener.path).mode & 0o777).toString(8)).toBe(mode.toString(8));
    }
  });

  test('a path in use, of another kind of file, too long, or in a missing folder', () => {
    using listener = listenUnix(newPath());
    expect(() => listenUnix(listener.path)).toThrow(/another process already listens on /);
    const file = newPath();
    writeFileSync(file, 'precious');
    expect(() => listenUnix(file)).toThrow(/is there and is no socket/);
    expect(readFileSync(file, 'utf8')).toBe('precious');
    expect(() => listenUnix('/proc/self/nowhere/x.sock')).toThrow(/folder of the socket/);
    expect(() => listenUnix(`/tmp/${'x'.repeat(103)}`)).toThrow(/up to 107 bytes/);
    for (const path of ['', 'a\0b']) expect(() => listenUnix(path)).toThrow(code('ARGUMENT'));
    expect(() => listenUnix(newPath(), { mode: 0o1777 })).toThrow(/mode must be/);
    expect(() => listenUnix(newPath(), { backlog: 0 })).toThrow(/backlog must be/);
    expect(() => connectUnix(newPath())).toThrow(/cannot connect to .*ENOENT/);
    expect(() => connectUnix(file)).toThrow(code('CONNECTION'));
    expect(() => connectUnix(`/tmp/${'x'.repeat(103)}`)).toThrow(/up to 107 bytes/);
  });

  test('a stale socket is taken over, and close() leaves a replaced file alone', async () => {
    const path = newPath();
    const { child, ended, printed } = start('listen.mjs', [path]);
    await until(() => printed().includes('listening'));
    expect(() => listenUnix(path)).toThrow(code('CONNECTION'));
    child.kill('SIGKILL');
    await ended;
    expect(() => connectUnix(path)).toThrow(/ECONNREFUSED/);
    const first = listenUnix(path);
    connectUnix(path)!.close();
    // The file is moved away, and another one takes its path.
    renameSync(path, `${path}.old`);
    const second = listenUnix(path);
    first.close();
    expect(existsSync(path)).toBe(true);
    second.close();
    expect(existsSync(path)).toBe(false);
  });

  test('of five processes that start at once on a stale socket, one listens', async () => {
    const path = newPath();
    const left = start('listen.mjs', [path]);
    await until(() => left.printed().includes('listening'));
    left.child.kill('SIGKILL');
    await left.ended;
    const at = String(Date.now() + 1500);
    const children = Array.from({ length: 5 }, () => start('listen.mjs', [path, at]));
    await until(() => children.every(({ printed }) => /\n/.test(printed())));
    const words = children.map(({ printed }) => printed().trim()).sort();
    expect(words).toEqual([...new Array(4).fill('ISO_ERR_CONNECTION'), 'listening']);
    const winner = children.findIndex(({ printed }) => printed().includes('listening'));
    expect(connectUnix(path)!.peer().pid).toBe(children[winner].child.pid);
    for (const { child, ended } of children) {
      child.kill();
      await ended;
    }
  });
});

describe.skipIf(reason !== '' || !hasPython)('a hostile sender', () => {
  const hostileFds = () => openFds().filter((what) => what.includes('hostile'));

  async function peer(mode: string, takesFds: boolean) {
    const listener = listenUnix(newPath(), { takesFds });
    const { child, ended, printed } = start('peer.py', [mode, listener.path]);
    const socket = await some(() => listener.accept());
    const receive = (maxFds: number) => some(() => socket.receive(new Uint8Array(64), maxFds));
    const end = async () => {
      child.kill();
      await ended;
      for (const one of [socket, listener]) one.close();
    };
    return { socket, receive, printed, ended, end };
  }

  test.each([
    ['100 descriptors where 3 belong', 'many', 3],
    ['a descriptor where none belongs', 'unwanted', 0],
  ])('%s: none stays', async (_title, mode, maxFds) => {
    const { receive, end } = await peer(mode, true);
    await expect(receive(maxFds)).rejects.toThrow(code('HANDSHAKE'));
    expect(hostileFds()).toEqual([]);
    await end();
  });

  test.runIf(refusesFds)(
    'if the kernel refuses descriptors, the sender fails and nothing arrives',
    async () => {
      const { socket, printed, end } = await peer('unwanted', false);
      await until(() => printed().includes('\n'));
      expect(printed()).toBe('errno 1\n');
      expect([socket.receive(new Uint8Array(8)), hostileFds()]).toEqual([null, []]);
      await end();
    },
  );

  test('messages with descriptors stay separate, and the stream ends within one', async () => {
    const { socket, receive, ended, end } = await peer('trickle', true);
    await ended;
    const buffer = new Uint8Array(64);
    const words: string[] = [];
    const fds: number[] = [];
    for (;;) {
      const got = socket.receive(buffer, 2)!;
      words.push(text(buffer, got.bytes));
      fds.push(...got.fds);
      if (got.bytes === 0) break;
    }
    expect([words, fds.length]).toEqual([['first', 'second', 'thi', ''], 2]);
    expect(hostileFds().length).toBe(2);
    for (const fd of fds) closeFd(fd);
    expect(hostileFds()).toEqual([]);
    expect((await receive(1)).bytes).toBe(0);
    await end();
  });
});
