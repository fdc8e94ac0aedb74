// `isoverbs reproduce`: invalid calls, and the short set of claims about each system. Requires a build.
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { command } from '../mix/command.ts';
import { MAIN } from '../support/main.ts';

const PACER = './examples/policies/token-pacer.mjs';

function reproduce(...args: string[]) {
  const child = spawnSync(process.execPath, [MAIN, 'reproduce', ...args], {
    encoding: 'utf8',
    timeout: 170_000,
  });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

test('invalid calls print one sentence and exit with 2', async () => {
  const calls: [string[], string][] = [
    [['--system', 'x'], "unknown system 'x'"],
    [['--system', 'bare', '--id', 'x'], "unknown claim 'x'"],
    [['--system', 'bare', '--seeds', 'x'], 'seeds must be written'],
    [['--system', 'bare', '--seeds', '1,,2'], 'seeds must be written'],
    [['--system', 'bare', '--seeds', '5-1'], 'seeds must ascend'],
    [['--system', 'bare', '--seeds', '1-10000000000'], 'seeds must ascend, with at most 10000 seeds'],
    [['--system', 'bare', '--workers', '0'], 'workers must be'],
    [['--system', 'bare', '--freeze', '--smoke'], '--freeze runs everything'],
    [['--figure', 'x'], "unknown figure 'x'; choose from: all, "],
    [['--figure', 'all', '--policy', 'x'], "unknown policy 'x'; available: "],
    [['--figure', 'all', '--policy', './x.mjs'], "policy './x.mjs': "],
    [['--figure', 'all', '--policy', PACER], 'token-pacer: rateBytesPerS must be above 0'],
    [['--figure', 'all', '--id', 'x'], 'name a --system'],
    [['--system', 'bare', '--policy', 'perf'], '--policy is for figures'],
    [['--policy', 'perf'], '--policy is for figures: name some with --figure'],
    [['--system', 'perv'], "unknown system 'perv'; did you mean 'perf'? choose from: bare, perf"],
    [['--system', 'bare', '--id', 'six-app'], "did you mean 'six-apps'? choose from"],
    [
      ['--figure', 'perf-2z'],
      "unknown figure 'perf-2z'; did you mean 'perf-2a', 'perf-2b'? choose from: all",
    ],
    [['--paper', 'palo'], "unknown paper 'palo'; did you mean 'palos'? choose from: perf, justitia, palos"],
    [['--paper', 'palos', '--figure', 'perf-2b'], "unknown figure 'perf-2b'"],
    [['--paper', 'palos', '--system', 'bare', '--freeze'], 'leave out --paper'],
    [
      ['--system', 'bare', '--against', 'package.json'],
      'against: package.json is not a report.json of this version',
    ],
    [['--against', 'nothing.json'], 'against: nothing.json does not exist; name the report.json that'],
    [['--against', 'package.json/x'], 'against: package.json/x does not exist; name the report.json that'],
    [['--against', 'docs'], 'against: docs is a folder; name the report.json that'],
    [['--id', 'perf-2.3.1-fig2aa'], "did you mean 'perf-2.3.1-fig2a'? choose from"],
    [['--system', 'tassel', '--id', 'perf-2.3.1-fig2a'], 'use --system bare'],
    [['--id', 'tassel-nothing'], "unknown claim 'tassel-nothing'; choose from"],
  ];
  for (const [args, sentence] of calls) {
    // In this process, because most of the time of a call is spent on loading the command.
    const { code, out, err } = await command('reproduce', ...args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(sentence);
    expect(err.trim().split('\n')).toHaveLength(1);
  }
});

test('--figure draws a figure under the policy of a module', { timeout: 60_000, tags: ['long'] }, () => {
  const policy = `${PACER}:rateBytesPerS=1e9`;
  const { code, out } = reproduce('--figure', 'perf-2b', '--seeds', '1', '--policy', policy, '--json');
  expect(code).toBe(0);
  const panel = JSON.parse(out).figures[0].panels.find(({ title }: { title: string }) =>
    title.startsWith('Bandwidth'),
  );
  const { points } = panel.series.find(({ name }: { name: string }) => name === policy);
  // 1e9 bytes a second, with a burst before the measurement.
  expect(points[0].value).toBeCloseTo(8, 0);
});

test('--paper limits the claims to those of a paper', { timeout: 60_000, tags: ['long'] }, () => {
  const { code, out } = reproduce('--system', 'bare', '--paper', 'tassel', '--seeds', '1', '--json');
  const { paper, claims, notShown } = JSON.parse(out);
  expect(code).toBe(0);
  expect(paper.map(({ id }: { id: string }) => id)).toEqual(['tassel-2.1-commercial', 'tassel-2.2-model']);
  expect(notShown).toEqual([]);
  for (const { shows, command: again } of claims) {
    expect(shows.join()).toContain('tassel-');
    expect(again).toMatch(/^isoverbs reproduce --system bare --id [\w-]+ --seeds 1$/);
  }
});

/** Which claims, more than how many lines they have, and tags. */
const SETS: readonly [string, number, string[]][] = [
  ['palos --id idle-members', 3, []],
  ['bare', 15, ['long']],
  ['perf', 7, ['long']],
  ['justitia', 7, ['long']],
  ['palos', 14, ['long']],
  ['fair', 8, ['long']],
];

for (const [which, lines, tags] of SETS)
  test(`the short set of ${which} holds, with runs in worker threads`, { tags, timeout: 180_000 }, () => {
    const words = `--system ${which} --smoke --seeds 1 --workers 2 --json`;
    const { code, out, err } = reproduce(...words.split(' '));
    const { rows, broken, drift } = JSON.parse(out);
    const failed = rows.filter((row: { verdict: string }) => row.verdict === 'fails');
    expect({ failed, broken, drift, code, err }).toEqual({
      failed: [],
      broken: [],
      drift: [],
      code: 0,
      err: '',
    });
    expect(rows.length).toBeGreaterThan(lines);
  });
