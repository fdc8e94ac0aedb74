// The policy of docs/policies.md, used as a reader would use it. The conformance chains include it too.
// @module-tag wide
import { execFile } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { tokenPacer } from '../../examples/policies/token-pacer.mjs';
import { isAddonAvailable } from '../../src/providers/rdma-core/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, makeEnd, post, take } from '../sim/helpers.ts';
import { BUILT as CLI } from '../support/main.ts';

const run = promisify(execFile);
const POLICY = './examples/policies/token-pacer.mjs:rateBytesPerS=1e9';
const ROUNDS = resolve(import.meta.dirname, '../../examples/policies/weighted-rounds.mjs');
const ROOT = resolve(import.meta.dirname, '../..');
const DEMAND = resolve(ROOT, 'examples/policies/demand-shares.mjs');

test('it limits a queue pair to its rate, and lets a burst pass', async () => {
  const RATE = 1e9;
  const BURST = 16384;
  const fabric = createFabric({ hosts: 2, autoAdvance: false, profile: 'cx6-100g' });
  const v = compose(fabric.provider, [tokenPacer({ rateBytesPerS: RATE, burstBytes: BURST })]);
  const bytes = 1 << 20;
  const a = makeEnd({ ...fabric, provider: v }, 0, { bytes });
  const b = makeEnd(fabric, 1, { bytes });
  connect(a, b);
  a.bytes.fill(7);
  const startNs = fabric.nowNs;
  a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  await fabric.run();
  expect(take(a)).toHaveLength(1);
  expect(b.bytes.every((byte) => byte === 7)).toBe(true);
  const paceNs = (1e9 * (bytes - 2 * BURST)) / RATE;
  expect(fabric.nowNs - startNs).toBeGreaterThan(paceNs);
  expect(fabric.nowNs - startNs).toBeLessThan(paceNs * 1.1);
});

test('ISOVERBS_POLICY applies it to an unchanged program', async () => {
  const { stdout, stderr } = await run(
    process.execPath,
    ['--import', 'isoverbs/register', 'examples/file-transfer.mjs', '--size', '2M'],
    { cwd: ROOT, env: { ...process.env, ISOVERBS_POLICY: POLICY, ISOVERBS_LOG: 'info' } },
  );
  expect(stdout).not.toBe('');
  expect(stderr).toMatch(/policy \S*token-pacer\S* .*[1-9]\d* held/);
});

test('weighted rounds share the link by weight, and short messages do not wait for long ones', async () => {
  const mix = (policy: string[]) => {
    const apps = ['B:name=a,size=1MiB', 'B:name=b,size=1MiB,qps=4', 'D:size=16,think=1us'];
    const options = ['--duration', '4ms', '--warmup', '1ms', '--json', ...policy];
    return run(process.execPath, [CLI, 'mix', ...apps.flatMap((app) => ['--app', app]), ...options]);
  };
  const [bare, shaped] = (await Promise.all([mix([]), mix(['--policy', `${ROUNDS}:weights=a:3`])])).map(
    ({ stdout }) => JSON.parse(stdout),
  );
  const [a, b, d] = shaped.apps;
  expect(a.throughputGbps / b.throughputGbps).toBeCloseTo(3, 1);
  expect(a.throughputGbps + b.throughputGbps).toBeGreaterThan(90);
  expect(d.latencyUs.avg).toBeLessThan(bare.apps[2].latencyUs.avg / 2);
  expect(shaped.invariants).toEqual([]);
});

test('demand shares give a tenant what it needs, and divide the rest by weight', async () => {
  const apps = ['B:name=a,size=1MiB,weight=3', 'B:name=b,size=1MiB', 'B:name=c,size=64KiB,rate=10Gbps'];
  const options = ['--duration', '8ms', '--warmup', '3ms', '--json', '--policy', DEMAND];
  const words = [CLI, 'mix', ...apps.flatMap((app) => ['--app', app]), ...options];
  const { apps: got, invariants } = JSON.parse((await run(process.execPath, words)).stdout);
  const [a, b, c] = got.map(({ throughputGbps }: { throughputGbps: number }) => throughputGbps);
  expect(a / b).toBeCloseTo(3, 1);
  // A share by weight would be 20 Gbit/s.
  expect(c).toBeGreaterThan(9);
  expect(c).toBeLessThan(11);
  expect(a + b + c).toBeGreaterThan(93);
  expect(invariants).toEqual([]);
});

test('demand shares run in a worker thread', { tags: ['long'] }, async () => {
  const { stdout, stderr } = await run(
    process.execPath,
    ['--import', 'isoverbs/register', 'examples/file-transfer.mjs', '--size', '2M'],
    {
      cwd: ROOT,
      env: { ...process.env, ISOVERBS_POLICY: DEMAND, ISOVERBS_DRIVER: 'worker', ISOVERBS_LOG: 'info' },
    },
  );
  expect(stdout).not.toBe('');
  expect(stderr).toMatch(/policy \S*demand-shares\S* .*in a worker thread.*[1-9]\d* held/);
});

test('docs/policies.md shows the source of the ruler, and the module is short', () => {
  const code = readFileSync(DEMAND, 'utf8');
  const shown = /```js\n(\/\*\* What each tenant of a device[\s\S]*?)```/.exec(
    readFileSync(`${ROOT}/docs/policies.md`, 'utf8'),
  );
  expect(code).toContain(shown?.[1].trim() ?? 'an example');
  expect(code.split('\n').length).toBeLessThan(150);
});

test('docs/policies.md shows the source of this policy', () => {
  const code = readFileSync(`${ROOT}/examples/policies/token-pacer.mjs`, 'utf8');
  const shown = /```js\n(import \{ createShim \}[\s\S]*?)```/.exec(
    readFileSync(`${ROOT}/docs/policies.md`, 'utf8'),
  );
  expect(code).toContain(shown?.[1].trim() ?? 'an example');
});

test.skipIf(!isAddonAvailable())('its timer does not keep a process on a real device alive', async () => {
  const url = new URL('../../dist/providers/rdma-core/index.js', import.meta.url).href;
  const program = `import { createRdmaCoreProvider } from '${url}';
    let provider;
    try { provider = createRdmaCoreProvider(); } catch (error) { if (error.code !== 'ISO_ERR_NO_DEVICE') throw error; }
    provider?.sleep(0, 600e9, 'nothing').then(() => console.log('awoke'));
    provider?.sleep(0, 600e9, 'run').then(() => console.log('awoke'));`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { timeout: 20_000 });
  expect(stdout).toBe('');
});

test('a module that imports another copy of isoverbs is refused with what to do', async () => {
  mkdirSync(resolve(ROOT, 'out'), { recursive: true });
  const folder = mkdtempSync(resolve(ROOT, 'out/copy-'));
  try {
    // A scope of its own, or else `isoverbs` would be the package that contains it.
    writeFileSync(resolve(folder, 'package.json'), '{ "type": "module" }');
    copyFileSync(DEMAND, resolve(folder, 'policy.mjs'));
    const copy = resolve(folder, 'node_modules/isoverbs');
    cpSync(resolve(ROOT, 'dist'), resolve(copy, 'dist'), { recursive: true });
    copyFileSync(resolve(ROOT, 'package.json'), resolve(copy, 'package.json'));
    const mixed = run(process.execPath, [
      CLI,
      'mix',
      '--policy',
      resolve(folder, 'policy.mjs'),
      '--app',
      'B',
    ]);
    await expect(mixed).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/imports another copy of isoverbs .* \(ISO_ERR_CONFIG\)\n$/),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
