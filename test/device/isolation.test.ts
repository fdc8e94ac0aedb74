// `isoverbs isolation` on a real device: the victim and the attacker are processes under a daemon. Its failures are
// tested on user-space RoCE (test/soft/isolation.test.ts). Needs a build.
import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import type { Isolation } from '../../src/compare/isolation/matrix.ts';
import { MAIN } from '../support/main.ts';
import { device } from './ground.ts';

const DEVICES = [process.env.RXE_DEV, process.env.RXE_DEV2].flatMap((name) =>
  name === undefined ? [] : ['--device', name],
);
const PAIR = ['--attacker', 'PU-request/write-forward', '--victim', 'te_many_qp/write-512'];

describe.skipIf(device === '')('isolation on a real device', () => {
  // Takes minutes on an emulated machine, mostly to start the processes.
  test('a victim and an attacker share it as processes under fair', {
    tags: ['long'],
    timeout: 500_000,
  }, () => {
    const times = ['--duration', '1500ms', '--warmup', '300ms'];
    const words = [
      'isolation',
      '--provider',
      'rdma-core',
      ...DEVICES,
      ...PAIR,
      ...times,
      '--policy',
      'fair',
      '--json',
    ];
    const { stdout, stderr, status } = spawnSync(process.execPath, [MAIN, ...words], { encoding: 'utf8' });
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    const { schemes, broken, runs }: Isolation = JSON.parse(stdout);
    expect({ broken, runs }).toEqual({ broken: [], runs: 3 });
    const [{ ofAlone, work }] = schemes[0].meetings;
    expect(ofAlone).toBeGreaterThan(0);
    expect(work).toBeGreaterThan(ofAlone);
  });
});
