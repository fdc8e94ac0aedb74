// The daemon as a whole (src/daemon/daemon.ts).
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { expect, test } from 'vitest';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { Daemon } from '../../src/daemon/daemon.ts';

test('it does not listen where others could put something in the place of its socket', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-daemon-'));
  const daemon = new Daemon({
    socket: join(folder, 's'),
    config: parseDaemonConfig('', 'none'),
    rules: { qNumAllow: 1, qNumCapa: 9, selective: false },
    log: pino({ level: 'silent' }),
    linkGbps: () => null,
  });
  try {
    chmodSync(folder, 0o777);
    expect(() => daemon.listen()).toThrow(/others may change it; give --socket/);
    for (const mode of [0o1777, 0o755]) {
      chmodSync(folder, mode);
      daemon.listen();
      daemon.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
