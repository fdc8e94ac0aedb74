// Tables of the command: they fit the terminal, numbers are aligned, many applications are summed, colours only where
// they are wanted.
import { afterEach, describe, expect, test, vi } from 'vitest';
import { evadeText } from '../../src/cli/output/evade-table.ts';
import { mixTable, policyStateLines } from '../../src/cli/output/mix-table.ts';
import { hasColours } from '../../src/cli/output/style.ts';
import { foldedCommand, foldedTable, wrapped } from '../../src/cli/output/table.ts';
import { worseOffText } from '../../src/cli/output/worse-off-table.ts';
import type { Evasions } from '../../src/compare/evade.ts';
import type { WorseOff } from '../../src/compare/worse-off.ts';
import type { AppResult } from '../../src/mix/result.ts';

afterEach(() => vi.unstubAllEnvs());

function app(name: string, change: Partial<AppResult> = {}): AppResult {
  return {
    name,
    kind: 'D',
    tenant: name,
    qps: 2,
    messageBytes: 16,
    throughputGbps: 0.5,
    messageRateMmps: 1,
    latencyUs: { avg: 1, p50: 1, p99: 2, p999: 3, max: 4 },
    completed: 10,
    errors: 0,
    ...change,
  };
}

const COLUMNS = ['name', 'aaaa', 'bbbb', 'cccc'].map((head, i) => ({ head, part: i < 3 ? 0 : 1 }));

test('a table with room is one table, with names on the left and numbers on the right', () => {
  const rows = [
    ['x', '1', '22', '333'],
    ['yyyyy', '4444', '5', '6'],
  ];
  expect(foldedTable(COLUMNS, rows, 80).split('\n')).toEqual([
    'name   aaaa  bbbb  cccc',
    'x         1    22   333',
    'yyyyy  4444     5     6',
  ]);
});

test('a table without room is folded by part, then by column; no line is longer than the terminal', () => {
  const rows = [['x', '1', '2', '3']];
  expect(foldedTable(COLUMNS, rows, 16).split('\n\n')).toEqual([
    'name  aaaa  bbbb\nx        1     2',
    'name  cccc\nx        3',
  ]);
  expect(foldedTable(COLUMNS, rows, 10).split('\n\n')).toHaveLength(3);
});

test('1,000 applications of one count are one row of sums; details list them', () => {
  const many = Array.from({ length: 1000 }, (_, i) =>
    app(`D.${i}`, { latencyUs: { avg: i, p50: i, p99: i, p999: i, max: i } }),
  );
  const table = mixTable([app('B', { errors: 3 }), ...many], 80);
  expect(table).toMatch(/^D\.0-999 +2000 +16 +500\.00 +1000\.000 +10000 +0$/m);
  expect(table).toMatch(/^D\.0-999 +499\.50 +999\.00 +999\.00 +999\.00 +999\.00$/m);
  expect(table).toMatch(/^B +2 +16 +0\.50 +1\.000 +10 +3$/m);
  for (const line of table.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  expect(mixTable(many.slice(0, 8), 80)).toContain('D.7');
  const detailed = many.map((one) => ({ ...one, queuePairs: [] }));
  expect(mixTable(detailed, 80)).toContain('D.999');
});

test('tenants with the same state share a line', () => {
  const state = { device: 'sim0', kind: 'D', because: 'small', does: 'left alone', why: 'never split' };
  const policyStates = ['a', 'b', 'c', 'd'].map((tenant) => ({ ...state, tenant }));
  const other = { ...state, tenant: 'e', kind: 'B' };
  expect(policyStateLines({ policyStates: [...policyStates, other] } as never)).toEqual([
    'a, b ... d (4 tenants) on sim0: D (small); left alone (never split)',
    'e on sim0: B (small); left alone (never split)',
  ]);
});

test('colours follow FORCE_COLOR, then NO_COLOR, then the terminal', () => {
  const terminal = { isTTY: true, hasColors: () => true } as NodeJS.WriteStream;
  const file = { isTTY: false } as NodeJS.WriteStream;
  vi.stubEnv('FORCE_COLOR', undefined);
  vi.stubEnv('NO_COLOR', undefined);
  expect([terminal, file].map(hasColours)).toEqual([true, false]);
  vi.stubEnv('NO_COLOR', '1');
  expect([terminal, file].map(hasColours)).toEqual([false, false]);
  vi.stubEnv('FORCE_COLOR', '1');
  expect([terminal, file].map(hasColours)).toEqual([true, true]);
  expect(mixTable([app('B', { errors: 3 })], 80)).toContain('\u001b[31m     3\u001b[39m');
  vi.stubEnv('FORCE_COLOR', '0');
  expect([terminal, file].map(hasColours)).toEqual([false, false]);
  expect(mixTable([app('B', { errors: 3 })], 80)).not.toContain('\u001b');
});

test('wrapped text keeps words whole', () => {
  expect(wrapped('one two three', 8)).toBe('one two\nthree');
});

test('wrapped text breaks words that are longer than a line after commas, colons and semicolons', () => {
  expect(wrapped('policy perf:paper,waits=no;fair here', 12)).toBe(
    'policy perf:\npaper,\nwaits=no;\nfair here',
  );
  expect(wrapped('unbreakable a', 8)).toBe('unbreakable\na');
});

describe('a folded command', () => {
  const COMMAND =
    "isoverbs mix --profile cx4-40g --policy 'perf:a;fair --not an option' --at '10ms:kill late' --gauges " +
    '--app B:op=write,size=512KiB,qps=4,depth=4,transport=uc,host=0,to=1,kind=bandwidth --app D';

  test.each([40, 60, 80, 400])('is the same for a shell, in %i columns', (width) => {
    const folded = foldedCommand(COMMAND, '  ', width);
    expect(folded.replaceAll('\\\n', '').trim().replace(/ +/g, ' ')).toBe(COMMAND);
    for (const line of folded.split('\n'))
      if (!line.includes("'")) expect(line.length, line).toBeLessThanOrEqual(width);
  });

  test('breaks at options, and only longer options after a comma', () => {
    expect(foldedCommand(COMMAND, '  ', 60).split('\n')).toEqual([
      '  isoverbs mix --profile cx4-40g \\',
      "    --policy 'perf:a;fair --not an option' \\",
      "    --at '10ms:kill late' --gauges \\",
      '    --app B:op=write,size=512KiB,qps=4,depth=4,\\',
      'transport=uc,host=0,to=1,kind=bandwidth --app D',
    ]);
    expect(foldedCommand('isoverbs mix --app D', '', 20)).toBe('isoverbs mix --app D');
  });
});

describe('the tables of compare fit 80 columns', () => {
  const LONG = 'perf:isolation=always,subMsgSizeBytes=8KiB,waitUnitBytes=2KiB;justitia:chunkBytes=8KiB';
  const widest = (text: string) =>
    Math.max(...text.split('\n').flatMap((line) => (line.includes(LONG) ? [] : [line.length])));

  test.each(['fair', LONG])('--evade, with the policy %s', (policy) => {
    const harms = ['B', 'M', 'D'].map((tenant) => ({ tenant, harm: 1.23 }));
    const one = { trick: 'alternates between large and small messages', gain: 0.5, harms, isViolation: true };
    const fixed = { profile: 'cx6-100g', duration: '10ms', warmup: '2ms' };
    const result = {
      ...{ seeds: [1, 2, 3], fixed, tricks: [], runs: 9, broken: [] },
      policies: [{ policy, says: '', evasions: [one] }],
    } as unknown as Evasions;
    const text = evadeText(result, false);
    expect(widest(text)).toBeLessThanOrEqual(80);
    expect(text.replace(/\s|│/g, '')).toContain(policy === LONG ? 'perf:' : 'fair');
  });

  test.each(['fair', LONG])('--random, with the policy %s', (policy) => {
    const summary = { of: 92, worse: 44, belowShare: 36, median: 0.57, worst: 0.02 };
    const measures = ['latency', 'messageRate', 'bandwidth', 'payload', 'busiestLink'];
    const app = 'B:op=write,size=512KiB,qps=4,depth=4,transport=uc,host=0,to=1,kind=bandwidth';
    const harmed = {
      ...{ mixture: 1, app: 'B', measure: 'bandwidth', bare: 31.25, under: 3.125, ratio: 0.1 },
      command: `isoverbs mix --profile cx4-40g --policy none --duration 6ms --app ${app} --app D`,
    };
    const result = {
      ...{ seed: 1, runs: 9, broken: [], mixtures: [{ duration: '6ms', warmup: '1ms' }] },
      policies: [
        {
          ...{ policy, says: '' },
          summary: Object.fromEntries(measures.map((name) => [name, summary])),
          cases: Object.fromEntries(measures.map((name) => [name, [harmed]])),
        },
      ],
    } as unknown as WorseOff;
    expect(widest(worseOffText(result))).toBeLessThanOrEqual(80);
  });
});
