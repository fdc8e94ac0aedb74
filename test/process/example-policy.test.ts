// The policy of docs/policies.md, used as a reader would use it. It is also one of the conformance chains.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { tokenPacer } from '../../examples/policies/token-pacer.mjs';
import { isAddonAvailable } from '../../src/providers/rdma-core/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, makeEnd, post, take } from '../sim/helpers.ts';

const run = promisify(execFile);
const POLICY = './examples/policies/token-pacer.mjs:rateBytesPerS=1e9';
const ROOT = resolve(import.meta.dirname, '../..');

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
