// Whose a user ID is, by the format of /etc/subuid.
import { spawn } from 'node:child_process';
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { Owners } from '../../src/daemon/identity/owners.ts';
import { mayTakePlace, Places } from '../../src/daemon/identity/places.ts';
import { hasPython } from '../daemon/rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-owners-'));
chmodSync(folder, 0o711);
const file = join(folder, 'subuid');
afterEach(() => rmSync(file, { force: true }));

function owners(text: string) {
  writeFileSync(file, text);
  const clock = { ns: 0 };
  const failures: string[] = [];
  const all = new Owners({
    file,
    nowNs: () => clock.ns,
    failed: ({ message }) => void failures.push(message),
  });
  return { all, clock, failures };
}

/** A user with a name, besides root. */
const [name, , uid] = readFileSync('/etc/passwd', 'utf8')
  .split('\n')
  .map((line) => line.split(':'))
  .find((fields) => Number(fields[2]) > 0)!;

test('the owner of a range has its user IDs, by name or number', () => {
  const { all } = owners(`# ranges\n\n${name}:100000:65536\n1234:200000:2\nwrong\n7:x:9\n8:300000:0\n`);
  const expected = [
    [99_999, 99_999],
    [100_000, Number(uid)],
    [165_535, Number(uid)],
    [165_536, 165_536],
    [200_001, 1234],
    [200_002, 200_002],
    [300_000, 300_000],
  ];
  for (const [id, owner] of expected) expect(all.of(id)).toBe(owner);
});

test('each range of root, or of an unknown user, is a user of its own', () => {
  const { all } = owners('root:100000:10\n0:200000:10\nno-such-user-9:300000:10\n5:0:50\n');
  expect([100_003, 200_003, 300_003].map((id) => all.of(id))).toEqual([100_000, 200_000, 300_000]);
  // Root is never the subordinate of a user.
  expect([0, 1].map((id) => all.of(id))).toEqual([0, 5]);
});

test('changes of the file take effect within a second; one that cannot be read changes nothing', () => {
  const { all, clock, failures } = owners('7:100000:10\n');
  appendFileSync(file, '8:200000:10\n');
  expect(all.of(200_000)).toBe(200_000);
  clock.ns += 1e9;
  expect([all.of(200_000), all.of(100_000)]).toEqual([8, 7]);
  rmSync(file);
  clock.ns += 1e9;
  expect(all.of(200_000)).toBe(8);
  expect(failures).toEqual([]);
});

test('a file that was named must exist; /etc/subuid need not', () => {
  const make = (path: string) => new Owners({ file: path, nowNs: () => 0, failed() {} });
  expect(() => make(join(folder, 'absent'))).toThrow(/absent cannot be read: ENOENT/);
  expect(() => make('/dev/zero')).toThrow(/\/dev\/zero cannot be read: it is not a regular file/);
  expect(new Owners({ nowNs: () => 0, failed() {} }).of(0)).toBe(0);
});

test('however many users take all places they can, each further user gets one', () => {
  const places = new Places(4096);
  let free = 4096;
  for (let user = 0; user < 100; user++) {
    while (places.mayTake(user, 0)) {
      places.take(user);
      free--;
    }
    expect(places.of(user)).toBeGreaterThan(0);
    expect(free).toBeGreaterThan(0);
  }
  // The first user has half of what is not kept, and the kept places go one by one.
  expect(places.of(0)).toBe(1920);
  expect([places.of(20), places.of(99)]).toEqual([1, 1]);
  for (let i = 0; i < 5; i++) places.release(0);
  expect(places.of(0)).toBe(1915);
  expect(mayTakePlace({ own: 0, free: 0, all: 10 })).toBe(false);
  expect(mayTakePlace({ own: 0, free: 1, all: 10 })).toBe(true);
});

/** A process in a user namespace, in which it is root, that connects; prints who it is for the listener. */
const IN_NAMESPACE = `
import ctypes, os, socket, struct, sys
path = sys.argv[1]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o666)
listener.listen()
mapped, unshared = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    if ctypes.CDLL(None).unshare(0x10000000) != 0:
        os._exit(9)
    os.write(unshared[1], b'x')
    os.read(mapped[0], 1)
    os.setuid(5)
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    os._exit(0)
os.read(unshared[0], 1)
open('/proc/%d/uid_map' % child, 'w').write('0 700000 1000')
os.write(mapped[1], b'x')
listener.settimeout(10)
peer, _ = listener.accept()
print(struct.unpack('3i', peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
`;

const cannot = !hasPython
  ? 'there is no python3'
  : process.getuid?.() === 0
    ? ''
    : 'only root can map other user IDs into a namespace';
if (cannot !== '') console.warn(`skipped: ${cannot}`);

test.skipIf(cannot !== '')('a user of a namespace is the owner of the IDs that it is mapped to', async () => {
  const { all } = owners('1000:700000:1000\n');
  const child = spawn('python3', ['-c', IN_NAMESPACE, join(folder, 's')], { timeout: 20_000 });
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
  });
  await new Promise((ended) => child.on('close', ended));
  expect(text).toBe('700005\n');
  expect(all.of(Number(text))).toBe(1000);
});
