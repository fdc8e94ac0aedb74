// The example programs, started from the command line. Needs a build.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { eachShort } from '../support/variants.ts';

const ROOT = resolve(import.meta.dirname, '../..');

function example(name: string, args: string[], env: Record<string, string> = {}) {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  const nodeArgs = env.ISOVERBS_POLICY === undefined ? [] : ['--import', 'isoverbs/register'];
  const child = spawnSync(process.execPath, [...nodeArgs, `examples/${name}.mjs`, ...args], {
    cwd: ROOT,
    env: { ...Object.fromEntries(inherited), NODE_OPTIONS: '', ISOVERBS_NO_ADDON: '1', ...env },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

const POLICIES: Record<string, string>[] = [{ ISOVERBS_POLICY: 'perf' }, {}];

eachShort(1, POLICIES)('kv-store, both ends in one process %o', (env) => {
  expect(example('kv-store', ['--count', '200'], env)).toEqual({
    code: 0,
    out: expect.stringMatching(/^200 GETs: p50 \d+\.\d\d us, p99 \d+\.\d\d us, \d+ per second\n$/),
    err: '',
  });
});

eachShort(1, POLICIES)('file-transfer, both ends in one process %o', (env) => {
  expect(example('file-transfer', ['--size', '12M'], env)).toEqual({
    code: 0,
    out: expect.stringMatching(
      /^received 12582912 bytes, sha256 ok\nsent 12582912 bytes, \d+\.\d\d Gbit\/s, sha256 ok\n$/,
    ),
    err: '',
  });
});

test('file-transfer sends a real file, or runs for a given time', () => {
  const file = join(tmpdir(), `isoverbs-${process.pid}.bin`);
  writeFileSync(file, Buffer.alloc(1_500_001, 'odd'));
  const { code, out } = example('file-transfer', ['--file', file, '--seconds', '0.001']);
  expect(code).toBe(0);
  expect(out).toContain('received 1500001 bytes, sha256 ok');
});

test('usage errors fail', () => {
  expect(example('kv-store', ['--bogus']).code).not.toBe(0);
  expect(example('file-transfer', ['--connect', 'nowhere']).err).toContain('HOST:PORT');
  expect(example('kv-store', ['--device', 'none0']).err).toContain("no device 'none0'");
});

test('examples stay short, and do not mention policies', () => {
  for (const name of ['kv-store', 'file-transfer']) {
    const text = readFileSync(join(ROOT, `examples/${name}.mjs`), 'utf8');
    expect(text.trim().split('\n').length).toBeLessThan(165);
    expect(text).not.toMatch(/policy|perf|compose|register/i);
  }
});
