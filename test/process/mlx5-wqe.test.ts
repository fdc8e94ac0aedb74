// The bytes of WAIT and SEND_EN (native/mlx5-wqe.h) against bytes written by hand. Not yet tested on hardware.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const compiler = process.env.CXX ?? 'c++';
const hasCompiler = spawnSync(compiler, ['--version']).status === 0;
if (!hasCompiler) console.warn(`the encoder of mlx5 requests is not tested: there is no ${compiler}`);

const MAX = 0xffffffff;
const folder = hasCompiler ? mkdtempSync(join(tmpdir(), 'isoverbs-mlx5-')) : '';
const program = join(folder, 'wqe');

beforeAll(() => {
  if (!hasCompiler) return;
  const source = resolve(import.meta.dirname, 'mlx5/wqe.cc');
  const built = spawnSync(compiler, ['-std=c++20', '-Wall', '-Wextra', '-Werror', '-o', program, source], {
    encoding: 'utf8',
  });
  expect(built.stderr).toBe('');
  expect(built.status).toBe(0);
}, 60_000);

afterAll(() => {
  if (hasCompiler) rmSync(folder, { recursive: true });
});

/** Each row becomes one line of input; missing values are 0. */
function run(rows: readonly (readonly [string, ...number[]])[]): string[] {
  const input = rows.map(([what, ...numbers]) => [what, ...numbers, 0, 0, 0, 0, 0].slice(0, 6).join(' '));
  const { status, stdout } = spawnSync(program, { input: `${input.join('\n')}\n`, encoding: 'utf8' });
  expect(status).toBe(0);
  return stdout.trim().split('\n');
}

const hex = (text: string) => text.replaceAll(' ', '');

/** W: WAIT, E: SEND_EN; index, qpn, cqn or managed qpn, max_index, signaled. */
const WQES: [title: string, row: [string, ...number[]], bytes: string][] = [
  [
    'a WAIT, all zeros',
    ['W', 0, 0, 0, 0, 0],
    '0000000f 00000002 00000000 00000000 00000000 00000000 00000000 00000000',
  ],
  [
    'a SEND_EN, all zeros',
    ['E', 0, 0, 0, 0, 0],
    '00000017 00000002 00000000 00000000 00000000 00000000 00000000 00000000',
  ],
  [
    'a WAIT, each field with bytes of its own',
    ['W', 0x1234, 0x56789a, 0xbcdef0, 0x11223344, 0],
    '0012340f 56789a02 00000000 00000000 00000000 00000000 11223344 00bcdef0',
  ],
  [
    'a SEND_EN, likewise',
    ['E', 0x1234, 0x56789a, 0xbcdef0, 0x11223344, 0],
    '00123417 56789a02 00000000 00000000 00000000 00000000 11223344 00bcdef0',
  ],
  [
    'a signaled WAIT: 0x08 at byte 11',
    ['W', 1, 2, 3, 4, 1],
    '0000010f 00000202 00000008 00000000 00000000 00000000 00000004 00000003',
  ],
  [
    'a signaled SEND_EN',
    ['E', 1, 2, 3, 4, 1],
    '00000117 00000202 00000008 00000000 00000000 00000000 00000004 00000003',
  ],
  [
    'the index on a fresh CQ: -1',
    ['W', 0, 0x48, 0x400, MAX, 1],
    '0000000f 00004802 00000008 00000000 00000000 00000000 ffffffff 00000400',
  ],
  [
    'the last index before the sign changes',
    ['W', 2, 0x48, 0x400, 0x7fffffff, 0],
    '0000020f 00004802 00000000 00000000 00000000 00000000 7fffffff 00000400',
  ],
  [
    'and the one behind it',
    ['W', 3, 0x48, 0x400, 0x80000000, 0],
    '0000030f 00004802 00000000 00000000 00000000 00000000 80000000 00000400',
  ],
  [
    'the place in the queue has 16 bits: the last',
    ['W', 0xffff, 0x48, 0x400, 0, 0],
    '00ffff0f 00004802 00000000 00000000 00000000 00000000 00000000 00000400',
  ],
  [
    'and the first again, not a bit of the modifier',
    ['W', 0x10000, 0x48, 0x400, 0, 0],
    '0000000f 00004802 00000000 00000000 00000000 00000000 00000000 00000400',
  ],
  [
    'of a SEND_EN as well',
    ['E', 0x12345, 0x48, 0x49, 7, 0],
    '00234517 00004802 00000000 00000000 00000000 00000000 00000007 00000049',
  ],
  [
    'numbers have 24 bits: the largest',
    ['W', 0, 0xffffff, 0xffffff, 0, 0],
    '0000000f ffffff02 00000000 00000000 00000000 00000000 00000000 00ffffff',
  ],
  [
    'more than that does not reach other fields',
    ['E', 0, 0xff000001, 0xff000002, 0, 0],
    '00000017 00000102 00000000 00000000 00000000 00000000 00000000 00000002',
  ],
  [
    'a SEND_EN up to the largest index',
    ['E', 9, 0x11, 0x22, MAX, 1],
    '00000917 00001102 00000008 00000000 00000000 00000000 ffffffff 00000022',
  ],
];

describe.skipIf(!hasCompiler)('requests of mlx5, byte for byte', () => {
  test.each(WQES)('%s', (_title, row, bytes) => {
    expect(run([row])).toEqual([hex(bytes)]);
  });

  test('WAITs on one CQ count up from -1, and a WAIT for 0 uses the index of the last poll', () => {
    const rows = [1, 2, 0, 1].map((count): [string, ...number[]] => ['w', count, 5]);
    expect(run(rows)).toEqual(['0', '2', '4', '3']);
    expect(run([['w', 0, 0]])).toEqual([`${MAX}`]);
  });

  test('the index of WAITs wraps through zero', () => {
    expect(
      run([
        ['w', MAX],
        ['w', 2],
        ['w', 1],
      ]),
    ).toEqual([`${MAX - 1}`, '0', '1']);
  });

  test('indices are compared in arithmetic that wraps', () => {
    const cases: [producer: number, index: number, reached: string][] = [
      [MAX, MAX, '1'],
      [MAX, 0, '0'],
      [0, MAX, '1'],
      [0, 0, '1'],
      [0x7fffffff, 0x80000000, '0'],
      [0x80000000, 0x7fffffff, '1'],
      [5, 0xfffffff0, '1'],
      [0xfffffff0, 5, '0'],
    ];
    expect(run(cases.map(([producer, index]) => ['r', producer, index]))).toEqual(cases.map((one) => one[2]));
  });

  test('ENABLE raises the index by its count, or for 0 to the last posted request, but never beyond', () => {
    expect(
      run([
        ['p', 3],
        ['e', 1],
        ['e', 0],
        ['e', 0],
        ['e', 1],
        ['p', 2],
        ['e', 3],
        ['e', 2],
      ]),
    ).toEqual(['posted', '1', '3', '3', 'EINVAL', 'posted', 'EINVAL', '5']);
  });

  test('the index of ENABLE wraps through zero', () => {
    expect(
      run([
        ['p', MAX],
        ['e', 0],
        ['p', 3],
        ['e', 2],
        ['e', 0],
        ['e', 1],
      ]),
    ).toEqual(['posted', `${MAX}`, 'posted', '1', '2', 'EINVAL']);
  });
});
