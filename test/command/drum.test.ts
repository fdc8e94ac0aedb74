// `isoverbs drum solve`: problems from files, and what it says of wrong ones. Needs a build.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parseProblem } from '../../src/cli/drum/problem-file.ts';
import type { Allocation } from '../../src/cli/drum/solution.ts';
import { allocate } from '../../src/cli/drum/solution.ts';
import { MAIN } from '../support/main.ts';
import { eachShort } from '../support/variants.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'isoverbs-drum-'));
afterAll(() => rmSync(folder, { recursive: true }));

function drum(...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'drum', 'solve', ...words], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return { status, out: stdout, err: stderr };
}

const host = (rest: string, applications = '[{ name: a }]') =>
  `hosts: [{ requestRate: 10, completionRate: 100, applications: ${applications} }]\n${rest}`;

test('prints rates, and writes JSON and a picture', () => {
  const [json, svg] = ['a.json', 'a.svg'].map((name) => join(folder, name));
  const { status, out, err } = drum('examples/drum/two-hosts.yaml', '--json', json, '--svg', svg);
  expect({ status, err }).toEqual({ status: 0, err: '' });
  expect(out).toMatch(/^server {2}index +4 +[\d.]+ +[\d.]+$/m);
  const { allocation, converged, iterations, trace }: Allocation = JSON.parse(readFileSync(json, 'utf8'));
  expect([converged, trace.length]).toEqual([true, iterations]);
  const sumOf = (of: string, key: 'requests' | 'completions') =>
    allocation.filter((one) => one.host === of).reduce((sum, one) => sum + one[key], 0);
  expect(sumOf('client', 'requests')).toBeCloseTo(40, 4);
  const kv = allocation.find((one) => one.host === 'client' && one.application === 'kv')!;
  expect(sumOf('server', 'completions') + kv.requests).toBeLessThan(12.0001);
  expect(readFileSync(svg, 'utf8')).toMatch(/^<svg/);
});

test('one application has all, and weights divide the rates of several, in any order', async () => {
  const rates = async (text: string) => {
    const { allocation } = await allocate(parseProblem(text, 'f'), 1);
    return allocation.map(({ application, requests }) => [application, requests]);
  };
  expect(await rates(host(''))).toEqual([['a', expect.closeTo(10, 6)]]);
  const [b, c] = [
    ['b', expect.closeTo(2.5, 6)],
    ['c', expect.closeTo(7.5, 6)],
  ];
  expect(await rates(host('', '[{ name: b }, { name: c, weight: 3 }]'))).toEqual([b, c]);
  expect(await rates(host('', '[{ name: c, weight: 3 }, { name: b }]'))).toEqual([c, b]);
});

/** Hosts with two applications each; `kv` sends to the next host, if there is traffic. */
const network = (hosts: number, isTwoSided: boolean) => ({
  tolerance: 1e-6,
  hosts: Array.from({ length: hosts }, (_, i) => ({
    ...{ name: `h${i}`, requestRate: 20 + 7 * i, completionRate: 15 + 3 * i },
    applications: [
      { name: 'kv', weight: 1 + (i % 3), ...(isTwoSided && { to: { [`h${(i + 1) % hosts}`]: 0.5 } }) },
      { name: 'log', completions: 0.5 },
    ],
  })),
});

eachShort(1, [true, false])('threads do not change a bit of the result (traffic: %s)', (isTwoSided) => {
  const file = join(folder, `network-${isTwoSided}.json`);
  writeFileSync(file, JSON.stringify(network(7, isTwoSided)));
  const [one, two, many] = ['1', '2', '20'].map((threads) => drum(file, '--json', '--threads', threads));
  expect(one).toMatchObject({ status: 0, err: '' });
  expect(two).toEqual(one);
  expect(many).toEqual(one);
  const wrong = drum(file, '--threads', '0');
  expect([wrong.status, wrong.err]).toEqual([
    2,
    expect.stringContaining('It must be a whole number from 1 to 999.'),
  ]);
});

test.each([
  ['alpa: 1', /f: unknown key 'alpa'; did you mean 'alpha'\?/],
  ['alpha: .nan', /f: alpha: /],
  ['capacity: cone', /f: capacity: must be one of linear, logsum, logdomain, got 'cone'/],
  ['tolerance: 0', /f: tolerance: /],
  ['alpha: !number 2', /^f: Unresolved tag: !number at line \d+, column \d+/],
])('with %s, the file is refused', (line, problem) => {
  expect(() => parseProblem(host(line), 'f')).toThrow(problem);
});

test.each([
  ['[{ name: a, weight: 0 }]', /f: hosts\.0\.applications\.0\.weight: must be above 0/],
  ['[{ name: a, weight: .nan }]', /f: hosts\.0\.applications\.0\.weight: /],
  ['[{ name: a }, { name: a }]', /f: hosts\.0\.applications: the name 'a' occurs twice/],
  [
    '[{ name: a, to: { nowhere: 1 } }]',
    /f: application 'a' sends to 'nowhere', which is not one of the hosts: host0/,
  ],
  [
    '[{ name: a, to: { __proto__: 1 } }]',
    /f: hosts\.0\.applications\.0\.to: contains the name '__proto__', which is not accepted/,
  ],
  ['[{ name: a, weight: "2" }]', /f: hosts\.0\.applications\.0\.weight: must be a number, got '2'/],
  ['[{ weight: 2 }]', /f: hosts\.0\.applications\.0\.name: is missing/],
  ['[]', /f: hosts\.0\.applications: must have at least one application/],
])('with applications %s, the file is refused', (applications, problem) => {
  expect(() => parseProblem(host('', applications), 'f')).toThrow(problem);
});

test('problems without a solution, without convergence, and files that cannot be read end with one sentence', () => {
  const file = join(folder, 'problem.yaml');
  writeFileSync(file, host('capacity: logsum\nalpha: 0.5'));
  expect(drum(file)).toEqual({
    status: 1,
    out: '',
    err: "isoverbs: unbounded: with capacity 'logsum' and alpha below 1, rates of t and 1/t gain without limit; use 'linear' (ISO_ERR_PROBLEM)\n",
  });
  writeFileSync(
    file,
    host('mostIterations: 1\nbeta: 3', '[{ name: a }, { name: b, weight: 9, completions: 5 }]'),
  );
  const { status, out, err } = drum(file);
  expect(status).toBe(1);
  expect(out).toContain('not converged after 1 iterations');
  expect(err).toContain('increase mostIterations or tolerance');
  writeFileSync(file, host('', '[{ name: a, weight: 1e300 }, { name: b, weight: 1e-300 }]'));
  expect(drum(file)).toMatchObject({ status: 1, out: '', err: expect.stringContaining('diverged: ') });
  for (const flag of ['--json', '--svg']) {
    expect(drum(file, flag, file)).toMatchObject({
      status: 2,
      err: expect.stringContaining('is the file with the problem; choose another file'),
    });
  }
  writeFileSync(file, host('', '[{ name: a }]'));
  const twice = join(folder, 'twice.svg');
  expect(drum(file, '--json', twice, '--svg', twice)).toMatchObject({
    status: 2,
    err: expect.stringContaining('twice.svg is already the file of --json; choose another file'),
  });
  expect(drum(file, '--json', '/dev/full')).toMatchObject({
    status: 1,
    err: expect.stringMatching(/^isoverbs: \/dev\/full cannot be written: ENOSPC.* \(ISO_ERR_FILE\)\n$/),
  });
  writeFileSync(file, 'hosts: [');
  expect(drum(file)).toMatchObject({ status: 2, out: '', err: expect.stringContaining(file) });
  expect(drum(join(folder, 'none'))).toMatchObject({
    status: 2,
    err: expect.stringContaining('cannot be read'),
  });
});
