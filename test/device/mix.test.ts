// Mixes on a real device: each application has its own thread, received data is verified, and one coordinator serves
// all threads. Timing depends on the machine and is not tested. Needs a build.
import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import type { LiveResult } from '../../src/mix/live/spec.ts';
import { MAIN } from '../support/main.ts';
import { device } from './ground.ts';

const DEVICES = [process.env.RXE_DEV, process.env.RXE_DEV2].flatMap((name) =>
  name === undefined ? [] : ['--device', name],
);
const SHORT = ['--duration', '1500ms', '--warmup', '300ms'];

function mix(...args: string[]): LiveResult {
  const words = [MAIN, 'mix', '--provider', 'rdma-core', ...DEVICES, ...SHORT, ...args, '--json'];
  const { stdout, stderr, status } = spawnSync(process.execPath, words, {
    encoding: 'utf8',
    timeout: 200_000,
  });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  return JSON.parse(stdout);
}

describe.skipIf(device === '')('a mix on a real device', () => {
  const WRITES_SENDS_READS = [
    'D:name=a,size=1-9000,inline=no,depth=3',
    'B:name=b,op=send,size=20000',
    'B:name=c,op=read,size=20000,qps=2',
  ];
  const ATOMICS_BATCHES_DATAGRAMS = [
    'D:name=a,op=atomic,depth=2',
    'M:name=b,depth=32,batch=8',
    'D:name=c,op=send,transport=ud,think=100us',
  ];
  for (const apps of [WRITES_SENDS_READS, ATOMICS_BATCHES_DATAGRAMS]) {
    // Each takes half a minute, mostly to start the threads, so other operations have separate tests.
    const options = { tags: apps === WRITES_SENDS_READS ? [] : ['long'], timeout: 250_000 };
    test(`${apps.join(', ')}: all data arrives intact`, options, () => {
      const result = mix(...apps.flatMap((app) => ['--app', app]));
      expect(result.invariants).toEqual([]);
      expect(result.apps.map(({ name, errors }) => [name, errors])).toEqual(
        ['a', 'b', 'c'].map((name) => [name, 0]),
      );
      expect(result.apps.filter(({ completed }) => completed === 0)).toEqual([]);
      // Datagrams may get lost.
      const reliable = result.apps.filter((_, i) => !apps[i].includes('transport=ud'));
      const least = reliable.reduce((sum, { completed }) => sum + completed, 0);
      expect(result.verified).toBeGreaterThanOrEqual(least);
    });
  }

  test('under perf, tenants in two threads are isolated from each other', () => {
    const result = mix('--policy', 'perf', '--app', 'B:size=64KiB', '--app', 'D');
    expect(result.invariants).toEqual([]);
    const said = Object.fromEntries((result.policyStates ?? []).map((state) => [state.tenant, state]));
    expect(said.B).toMatchObject({ does: 'its messages are split', why: 'large messages beside small ones' });
    expect(said.D).toMatchObject({ does: 'left alone' });
    for (const { completed, errors } of result.apps) expect([completed > 0, errors]).toEqual([true, 0]);
  }, 250_000);

  test('under perf, no messages of a lone tenant are split', { tags: ['long'], timeout: 250_000 }, () => {
    const result = mix('--policy', 'perf', '--app', 'B:size=64KiB');
    expect(result.policyStates).toMatchObject([{ tenant: 'B', does: 'left alone' }]);
  });

  test('queue pairs of a tenant take turns alongside another tenant', {
    tags: ['long'],
    timeout: 250_000,
  }, () => {
    const apps = ['--app', 'B:size=64KiB,qps=4', '--app', 'D'];
    const result = mix('--policy', 'perf', ...apps);
    const said = (result.policyStates ?? []).find(({ tenant }) => tenant === 'B');
    expect(said?.does).toMatch(/turn|at a time/);
    expect(result.invariants).toEqual([]);
  });
});
