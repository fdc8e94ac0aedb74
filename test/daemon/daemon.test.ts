// The daemon as a whole (src/daemon/daemon.ts).
import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { expect, test } from 'vitest';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import { VERSION } from '../../src/daemon/protocol.ts';
import { RULINGS } from '../support/columns.ts';
import { hasPython } from './rig.ts';

test('listen() refuses a folder in which other users could replace the socket', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-daemon-'));
  const daemon = new Daemon({
    socket: join(folder, 's'),
    config: parseDaemonConfig('', 'none'),
    rulings: RULINGS,
    log: pino({ level: 'silent' }),
    linkGbps: () => null,
  });
  try {
    chmodSync(folder, 0o777);
    expect(() => daemon.listen()).toThrow(/other users can change it; choose a path with --socket/);
    for (const mode of [0o1777, 0o755]) {
      chmodSync(folder, mode);
      daemon.listen();
      daemon.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** Declares a tenant and prints the tenant that the daemon assigned. */
const SAYS_HELLO = `
import json, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
hello = json.dumps({'type': 'hello', 'version': ${VERSION}, 'role': 'shim'}).encode()
s.sendall(struct.pack('<I', len(hello)) + hello)
length, = struct.unpack('<I', s.recv(4, socket.MSG_WAITALL))
print(json.loads(s.recv(length, socket.MSG_WAITALL))['tenant'])
`;

test.skipIf(!hasPython)('only the beginning of a command line is read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-daemon-'));
  const socket = join(folder, 'run', 's');
  const daemon = new Daemon({
    socket,
    config: parseDaemonConfig(
      "rules: [{ match: { command: '*the-end' }, tenant: end }, { match: { command: '*/s first *' }, tenant: begin }]",
      'none',
    ),
    rulings: RULINGS,
    log: pino({ level: 'silent' }),
    linkGbps: () => null,
  });
  const tenantOf = (...args: string[]) =>
    new Promise((resolve) => {
      const child = spawn('python3', ['-c', SAYS_HELLO, socket, ...args], { timeout: 20_000 });
      let text = '';
      child.stdout.on('data', (chunk) => {
        text += chunk;
      });
      child.on('close', () => resolve(text.trim()));
    });
  try {
    daemon.listen();
    expect(statSync(join(folder, 'run')).mode & 0o777).toBe(0o711);
    expect(await tenantOf('first', 'the-end')).toBe('end');
    expect(await tenantOf('first', 'x'.repeat(20_000), 'the-end')).toBe('begin');
  } finally {
    daemon.close();
    rmSync(folder, { recursive: true });
  }
});
