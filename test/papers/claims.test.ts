// Claims: every claim is complete, and verdicts follow from measurements.
import { expect, test } from 'vitest';
import type { Report } from '../../src/cli/report/report.ts';
import { formsTable } from '../../src/cli/report/sections.ts';
import { jobOf, specOf } from '../../src/mix/jobs.ts';
import {
  agentMessages,
  avgUs,
  drops,
  fairness,
  gauge,
  gbps,
  gbpsSpread,
  mean,
  share,
  shareOf,
  spread,
  unevenness,
  wireBytes,
} from '../../src/mix/metrics.ts';
import { commandOf, declared, mixApp } from '../../src/mix/mixture.ts';
import { brokenRuns, Outcomes } from '../../src/mix/outcomes.ts';
import { appsOf, paramsOf } from '../../src/mix/resolve.ts';
import type { AppResult, MixResult } from '../../src/mix/result.ts';
import type { Check, Claim, Form, Runs } from '../../src/papers/engine/claim.ts';
import { claimJobs, evaluate, type Row, type Verdict } from '../../src/papers/engine/evaluate-claim.ts';
import {
  atLeast,
  atMost,
  below,
  closedForm,
  distance,
  type Expectation,
  equal,
  falls,
  range,
  ratio,
  reported,
  rises,
} from '../../src/papers/engine/expect.ts';
import { driftOf } from '../../src/papers/engine/frozen.ts';
import { mix } from '../../src/papers/engine/mix.ts';
import { countsFor } from '../../src/papers/engine/paper.ts';
import {
  ALL_CLAIMS,
  claimsAbout,
  notShownOf,
  OWN_SYSTEMS,
  PAPERS,
  PARTS,
  reproducibleOf,
  SYSTEMS,
  selectClaims,
} from '../../src/papers/engine/papers.ts';
import {
  driftText,
  formSentences,
  heldClaims,
  heldInForms,
  paperClaims,
  paperSentence,
  paperText,
  tableOf,
} from '../../src/papers/engine/report.ts';

const within = (expectation: Parameters<typeof distance>[0], measured: number) =>
  distance(expectation, measured) <= 1;

function resultOf(apps: Partial<AppResult>[], more: Partial<MixResult> = {}): MixResult {
  const whole = apps.map((app) => ({
    name: 'B',
    kind: 'B' as const,
    tenant: 'B',
    qps: 1,
    messageBytes: 1,
    throughputGbps: 0,
    messageRateMmps: 0,
    latencyUs: null,
    completed: 1,
    errors: 0,
    ...app,
  }));
  const run = {
    profile: 'ideal',
    policy: 'none',
    seed: 1,
    durationNs: 1,
    warmupNs: 0,
    events: 1,
    packets: 1,
  };
  return { ...run, traceHash: '', links: [], invariants: [], ...more, apps: whole };
}

test.each([
  ['a closed form', closedForm(100), [99.01, 100.99], [98.99, 101.01]],
  ['a ratio', ratio(4), [3.01, 4.99], [2.99, 5.01]],
  ['a range', range(3, 5), [3, 5], [2.99, 5.01]],
  ['a range with slack', range(94.8, 96.9, 1.5), [93.31, 98.39], [93.29, 98.41]],
  ['zero', range(0, 0), [0], [1, -1]],
  ['equal values', equal(0.001), [0.9991, 1.0009], [0.998, 1.002]],
  ['a rise', rises(), [1.2, 1e9], [1.19, 0, -1]],
  ['a fall', falls(), [0, 0.83], [0.84, 1e9]],
  ['a lower bound', atLeast(9), [9, 1e9], [8.99, 0, -1]],
  ['an upper bound', atMost(0.4), [-1, 0, 0.4], [0.401, 1e9]],
  ['a direction without a size', below(1), [0.999], [1, 1.1]],
  ['a reported value', reported(139), [0, 1e9], []],
])('%s', (_name, expectation, good, bad) => {
  for (const value of good) expect(within(expectation, value), `${value}`).toBe(true);
  for (const value of [...bad, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(within(expectation, value), `${value}`).toBe(false);
  }
});

test('metrics sum up copies, and throw for an unknown app', () => {
  const latencyUs = { avg: 2, p50: 1, p99: 5, p999: 6, max: 7 };
  const run = resultOf([
    { name: 'a.0', throughputGbps: 30, messageRateMmps: 4, latencyUs },
    { name: 'a.1', throughputGbps: 10, messageRateMmps: 2, latencyUs: { ...latencyUs, avg: 4 } },
    { name: 'ab', throughputGbps: 60 },
  ]);
  expect([gbps(run, 'a'), share(run, 'a'), avgUs(run, 'a'), spread(run, 'a')]).toEqual([40, 0.4, 3, 2]);
  expect(fairness(run, 'a')).toBeCloseTo(1600 / 2000);
  expect(unevenness(run, 'a')).toBeCloseTo(0.5);
  expect(gbpsSpread(run, 'a')).toBeCloseTo(3);
  expect(avgUs(run, 'ab')).toBeNaN();
  expect(() => gbps(run, 'b')).toThrow("the mix has no app 'b'");
  const port = { from: 'switch0.0', to: 'host0', bytes: 1, utilisation: 1, marks: 0, pauses: 0 };
  const links = [
    { ...port, drops: 2 },
    { ...port, drops: 1 },
  ];
  expect(drops(resultOf([], { links }))).toBe(3);
});

test('metrics of gauges, agents and links skip the warm-up, and are NaN if there are none', () => {
  const line = (device: string, values: (number | null)[]) => ({
    policy: 'p',
    device,
    tenant: '',
    name: 'safeUtil',
    unit: 'Gbit/s',
    values,
  });
  const gauges = [line('sim0', [9, null, 4, 6]), line('sim1', [1, 1, 1, 1])];
  const port = { from: 'host0', to: 'host1', bytes: 7, utilisation: 1, drops: 0, marks: 0, pauses: 0 };
  const host = { host: 0, passes: 1, busyNs: 0, messages: 3 };
  const run = resultOf([], {
    warmupNs: 100,
    timeline: { stepNs: 100, apps: [], gauges },
    links: [port],
    coordinator: { grantNs: 0, passNs: 0, hosts: [host, { ...host, host: 1 }] },
  });
  expect(gauge(run, 'safeUtil')).toEqual([4, 6]);
  expect(gauge(run, 'safeUtil', 'sim1')).toEqual([1, 1, 1]);
  expect(mean(gauge(run, 'safeUtil'))).toBe(5);
  expect(shareOf(gauge(run, 'safeUtil'), (value, i) => value > 4 && i === 1)).toBe(0.5);
  expect([agentMessages(run), wireBytes(run, 'host0', 'host1')]).toEqual([6, 7]);
  const none = resultOf([]);
  const values = gauge(none, 'safeUtil');
  const all = [mean(values), shareOf(values, () => true), agentMessages(none), wireBytes(none, 'a', 'b')];
  expect(all).toEqual(all.map(() => Number.NaN));
});

test('a mixture with gauges records them, and its command asks for them', () => {
  const job = jobOf(mix('ideal', 'B', { gauges: true }), 1);
  expect(job.spec).toMatchObject({ gauges: true, timelinePoints: 200 });
  expect(job.command).toContain(' --gauges ');
  expect(jobOf(mix('ideal', 'B'), 1).command).not.toContain('--gauges');
});

test('declared() adds the kind of traffic to applications that declare none', () => {
  const { apps } = declared(mix('ideal', ['B', 'M:size=8', 'D:kind=bandwidth']));
  expect(apps.map(({ words }) => words)).toEqual([
    'B:kind=bandwidth',
    'M:size=8,kind=throughput',
    'D:kind=bandwidth',
  ]);
  for (const { words, spec } of apps) expect(mixApp(words).spec).toEqual(spec);
});

const CHECKS: Check[] = [
  { what: 'size', at: 'near', unit: 'x', measure: (runs: Runs) => gbps(runs.a, 'B'), expect: ratio(100) },
  { what: 'size', at: 'far', unit: 'x', measure: (runs: Runs) => gbps(runs.a, 'B'), expect: ratio(120) },
];
const CLAIM: Claim = {
  id: 'x',
  system: 'bare',
  part: 1,
  title: 'T',
  source: 'S',
  shows: [],
  mixes: { a: mix('ideal', 'B') },
  checks: CHECKS,
};
const outcomesOf = (...rates: number[]) =>
  new Outcomes(
    rates.map((throughputGbps, i) => [
      jobOf(CLAIM.mixes.a, i + 1),
      { result: resultOf([{ throughputGbps }]) },
    ]),
  );

test('a row shows its worst check on the worst seed; one failing seed fails the row', () => {
  const [row, ...others] = evaluate(CLAIM, [1, 2], outcomesOf(105, 95));
  expect(others).toEqual([]);
  expect(row).toMatchObject({ at: 'far', seed: 2, measured: 95, lowest: 95, highest: 105, verdict: 'holds' });
  expect(evaluate(CLAIM, [1, 2], outcomesOf(105, 89))[0]).toMatchObject({ seed: 2, verdict: 'fails' });
  expect(tableOf([CLAIM], [row])).toMatch(/size \(far\).*120 x.*25 %.*95 x.*95 to 105.*holds/);
});

test('a row reports the deviation of every check, whichever is worst', () => {
  const [near, far] = CHECKS;
  const claim = { ...CLAIM, checks: [{ ...near, deviation: 'was shorter' }, far] };
  expect(evaluate(claim, [1], outcomesOf(100))[0]).toMatchObject({ at: 'far', deviation: 'was shorter' });
});

test('a claim holds if all its lines hold; reported lines do not count', () => {
  const [row] = evaluate(CLAIM, [1], outcomesOf(105));
  const claims = [CLAIM, { ...CLAIM, id: 'y' }, { ...CLAIM, id: 'z' }];
  const rows = [
    row,
    { ...row, verdict: 'reported' as const },
    { ...row, claim: 'y' },
    { ...row, claim: 'y', verdict: 'fails' as const },
    { ...row, claim: 'z', verdict: 'reported' as const },
  ];
  expect(heldClaims(claims, rows)).toEqual([1, 2]);
  const other = { ...row, system: 'perf', verdict: 'fails' as const };
  expect(heldClaims([CLAIM, { ...CLAIM, system: 'perf' }], [row, other])).toEqual([1, 2]);
});

test('lines of one text in two forms are two rows, and a report counts and shows them by form', () => {
  const size = (form: 'hardware' | 'software', expected: number): Check => ({
    ...CHECKS[0],
    at: undefined,
    form,
    expect: closedForm(expected),
  });
  const claim = { ...CLAIM, checks: [size('hardware', 100), size('software', 120), CHECKS[0]] };
  const rows = evaluate(claim, [1], outcomesOf(100));
  expect(rows.map(({ form, verdict }) => [form, verdict])).toEqual([
    ['hardware', 'holds'],
    ['software', 'fails'],
    [undefined, 'holds'],
  ]);
  expect(tableOf([claim], rows)).toMatch(/size, hardware .*100 x.*1 %.*holds/);
  const forms = heldInForms([claim], rows);
  expect(forms).toEqual([
    { system: 'bare', form: 'hardware', lines: [1, 1], claims: [1, 1] },
    { system: 'bare', form: 'software', lines: [0, 1], claims: [0, 1] },
  ]);
  expect(formSentences(forms)[1]).toBe(
    'bare, software: 0 of 1 lines hold (0 %), and all lines of 0 of 1 claims.',
  );
  const report = { claims: [claim], rows } as unknown as Report;
  expect(formsTable(report, 'bare')).toEqual({
    head: ['line', 'hardware', 'software'],
    rows: [['x: size', '100 x holds (100, 1 %)', '100 x fails (120, 1 %)']],
  });
  expect(formsTable({ ...report, rows: rows.slice(2) }, 'bare')).toBeUndefined();
});

test('the forms of a system leave out claims of the same id about others, and show values without a verdict', () => {
  const column = (form: Form, expected: Expectation): Check => ({ ...CHECKS[0], form, expect: expected });
  const claim = {
    ...CLAIM,
    checks: [column('software', atLeast(90)), column('perf', reported('-')), column('alone', reported('-'))],
  };
  const rows = evaluate(claim, [1], outcomesOf(100));
  const report = { claims: [claim, { ...claim, system: 'perf' }], rows } as unknown as Report;
  expect(formsTable(report, 'bare')).toEqual({
    head: ['line', 'software', 'perf', 'alone'],
    rows: [['x: size', '100 x holds (>= 90)', '100 x reported', '100 x reported']],
  });
  expect(heldInForms([claim], rows)).toEqual([
    { system: 'bare', form: 'software', lines: [1, 1], claims: [1, 1] },
  ]);
});

test('claims about our own systems rest on no paper, and have a verdict on one form only', () => {
  for (const { key } of OWN_SYSTEMS) {
    expect(reproducibleOf(key)).toEqual([]);
    for (const { id, shows, checks, source } of claimsAbout(key)) {
      expect(shows, id).toEqual([]);
      expect(source, id).toContain('Our own goal');
      const judged = checks.filter(({ expect: { kind } }) => kind !== 'reported');
      expect(new Set(judged.map(({ form }) => form)), id).toEqual(new Set(['software']));
    }
  }
});

test('lines about another form than the one in the paper do not decide its claims', () => {
  const paper = PAPERS[0];
  const inHardware = { ...paper, policy: { ids: [], parts: {}, form: 'hardware' as const } };
  const counted = ([undefined, 'hardware', 'software', 'bare'] as const).map((form) => [
    countsFor(paper, { form }),
    countsFor(inHardware, { form }),
  ]);
  expect(counted).toEqual([
    [true, true],
    [true, true],
    [true, false],
    [true, false],
  ]);
});

test('a missing or broken run fails its rows and gives the reason', () => {
  expect(evaluate(CLAIM, [1, 2], outcomesOf(100))[0]).toMatchObject({
    verdict: 'fails',
    problem: 'a did not run',
  });
  const job = jobOf(CLAIM.mixes.a, 1);
  const failed = new Outcomes([[job, { error: 'no such thing' }]]);
  expect(evaluate(CLAIM, [1], failed)[0]).toMatchObject({ verdict: 'fails', problem: 'a: no such thing' });
  expect(brokenRuns(failed)).toEqual([`${job.command}: no such thing`]);
  const result = resultOf([{ errors: 2 }], { invariants: ['a leak'] });
  expect(brokenRuns(new Outcomes([[job, { result }]]))).toEqual([
    `${job.command}: a leak`,
    `${job.command}: 2 requests of B failed`,
  ]);
});

test('drift lists lines whose measurement changed, and lines that appeared or disappeared', () => {
  const rows = evaluate(CLAIM, [1], outcomesOf(100));
  const frozen = { profiles: '', seeds: [1], measured: { 'x: size': 100, 'gone: y': 1 } };
  expect(driftOf(frozen, rows, [1], true)).toEqual([{ line: 'gone: y', was: 1, is: undefined }]);
  expect(driftOf(frozen, rows, [1], false)).toEqual([]);
  expect(driftOf(frozen, rows, [2], true)).toEqual([]);
  const drift = driftOf({ ...frozen, measured: { 'x: size': 90 } }, rows, [1], true);
  expect(driftText(drift)).toBe('x: size: was 90, is 100');
});

test.each(SYSTEMS)('every claim about %s is complete, and its mixtures can run', (system) => {
  const claims = claimsAbout(system);
  expect(new Set(claims.map((claim) => claim.part))).toEqual(new Set(Object.keys(PARTS[system]).map(Number)));
  for (const { id, mixes, checks, source, title } of claims) {
    expect(
      [source, title].every((text) => text.length > 5),
      id,
    ).toBe(true);
    expect(checks.length, id).toBeGreaterThan(0);
    for (const one of Object.values(mixes)) {
      const spec = specOf(one, 1);
      if (system === 'bare') expect(spec.policy, id).toBe('none');
      expect(appsOf(spec, paramsOf(spec)).length, commandOf(one, 1)).toBeGreaterThan(0);
    }
  }
  expect(() => selectClaims(claims, ['nothing'])).toThrow("unknown claim 'nothing'");
  const jobs = claimJobs(claims, [1, 2]);
  expect(new Set(jobs.map((job) => job.key)).size).toBe(jobs.length);
});

// Overheads of the C implementation, results of a network, which a single simulated device cannot reproduce, and motives.
const PERF_OTHERS = `4.4-batching 5.2.1-table2-d-vs-b 5.2.1-table2-d-vs-bmulti 5.2.1-table2-d-vs-mmulti
  5.2.1-cpu-bound 5.2.1-ram 5.2.4-fig11 5.2.4-queueing`.split(/\s+/);
const JUSTITIA_OTHERS = '5-loc 6.2-cpu 6.6-fig25 C.4-fig35 C.4-fig36'.split(' ');
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  perf: PERF_OTHERS.map((id) => `perf-${id}`),
  justitia: JUSTITIA_OTHERS.map((id) => `justitia-${id}`),
  palos: ['palos-I-workload'],
};

test.each(SYSTEMS)('every paper claim about %s is shown, or listed as not shown', (system) => {
  const named = [
    ...claimsAbout(system).flatMap(({ shows }) => shows),
    ...notShownOf([system]).flatMap(({ ids }) => ids),
  ];
  const said = [...reproducibleOf(system), ...(OTHERS[system] ?? [])];
  expect(said.filter((id) => !named.includes(id))).toEqual([]);
});

test('every id that a claim shows is one of a paper', () => {
  const known = new Set([...SYSTEMS.flatMap(reproducibleOf), ...Object.values(OTHERS).flat()]);
  for (const { id, shows } of SYSTEMS.flatMap(claimsAbout)) {
    expect(
      shows.filter((one) => !known.has(one)),
      id,
    ).toEqual([]);
  }
});

test('each paper is cited, and every one of its claims has a statement and the place in the paper', () => {
  for (const { key, cited, statements, bare, policy, notShown } of PAPERS) {
    expect(cited.title.length * cited.authors.length, key).toBeGreaterThan(0);
    const ids = [...bare, ...(policy?.ids ?? []), ...notShown.flatMap((one) => one.ids)];
    expect(Object.keys(statements).sort(), key).toEqual([...new Set(ids)].sort());
    for (const { where, says } of Object.values(statements))
      expect([where, says].join(': ')).toMatch(/[\w)]: [A-Z0-9].*\.$/);
  }
});

test('five papers make 49 claims about bare devices; all but one are shown', () => {
  expect(PAPERS.map(({ name, bare }) => [name, bare.length])).toEqual([
    ['PeRF', 19],
    ['Justitia', 18],
    ['Palos', 6],
    ['DRUM', 4],
    ['Tassel', 2],
  ]);
  const claims = claimsAbout('bare');
  const rows = claims.map(({ id, system }) => ({ claim: id, system, verdict: 'holds' }) as Row);
  const paper = paperClaims(['bare'], claims, rows);
  expect(new Set(paper.map(({ id }) => id)).size).toBe(49);
  expect(paper.filter(({ verdict }) => verdict !== 'holds')).toMatchObject([
    { id: 'justitia-3.1.1-fig3-iwarp', verdict: 'never', by: expect.stringMatching(/\w/) },
  ]);
});

test("claims about a policy include its paper's claims about the bare device", () => {
  const [perf, bare] = [claimsAbout('perf'), claimsAbout('bare')];
  const both = perf.filter(({ id }) => id.startsWith('bare/'));
  expect(both.length).toBeGreaterThan(10);
  for (const claim of both) {
    const own = bare.find(({ id }) => `bare/${id}` === claim.id);
    expect([claim.mixes, claim.checks], claim.id).toEqual([own?.mixes, own?.checks]);
  }
});

const line = (claim: string, verdict: Verdict, system = 'bare') => ({ claim, verdict, system }) as Row;
const NAMING = [
  { ...CLAIM, id: 'a', shows: ['perf-2.2-fig1a', 'perf-2.2-fig1c'] },
  { ...CLAIM, id: 'b', shows: ['perf-2.2-fig1a'] },
  { ...CLAIM, id: 'c', shows: ['perf-2.2-rules'] },
];

test('a paper claim holds if every claim that shows it holds; lines of other systems do not count', () => {
  const rows = [line('a', 'holds'), line('a', 'reported'), line('b', 'fails'), line('c', 'reported')];
  const paper = paperClaims(['bare'], NAMING, [...rows, line('c', 'fails', 'perf')]);
  const of = (id: string) => paper.find((claim) => claim.id === id);
  const fig1a = { verdict: 'fails', by: 'a, b', lines: { holds: 1, fails: 1, reported: 1 } };
  expect(of('perf-2.2-fig1a')).toEqual({ paper: 'PeRF', id: 'perf-2.2-fig1a', ...fig1a });
  expect(of('perf-2.2-fig1c')?.verdict).toBe('holds');
  expect(of('perf-2.2-rules')?.verdict).toBe('reported');
  expect(of('palos-II.B-model')?.verdict).toBe('missing');
  expect(of('perf-1-headline')).toBeUndefined();
  expect(paperClaims(['perf'], NAMING, rows).find(({ id }) => id === 'perf-1-headline')?.verdict).toBe(
    'missing',
  );
});

test('the tables of papers end with a summary for each paper and for all', () => {
  const rows = [line('a', 'holds'), line('a', 'reported'), line('b', 'fails'), line('c', 'reported')];
  const paper = paperClaims(['bare'], NAMING, rows);
  const few = paper.filter(({ id }) => /fig1a|fig1c|rules|iwarp|II.B-model/.test(id));
  expect(paperSentence('them', few)).toBe(
    '1 of 5 claims of them hold; 1 reported; 0 waiting; 1 cannot be shown. ' +
      '1 fails: perf-2.2-fig1a. 1 missing: palos-II.B-model.',
  );
  const text = paperText(few);
  expect(text).toMatch(/perf-2.2-fig1a +│ fails \(1 of 2 lines, 1 reported\) +│ a, b/);
  expect(text).toMatch(/perf-2.2-fig1c +│ holds \(1 line, 1 reported\)/);
  expect(text).toMatch(/fig3-iwarp +│ cannot be shown +│ the vendor has not/);
  expect(text.split('\n').slice(-4)).toEqual([
    '1 of 3 claims of PeRF hold; 1 reported; 0 waiting; 0 cannot be shown. 1 fails: perf-2.2-fig1a.',
    '0 of 1 claims of Justitia hold; 0 reported; 0 waiting; 1 cannot be shown.',
    '0 of 1 claims of Palos hold; 0 reported; 0 waiting; 0 cannot be shown. 1 missing: palos-II.B-model.',
    paperSentence('all papers', few),
  ]);
});

test('selectClaims() takes the ids of papers, and lists each name once', () => {
  const idsOf = (...ids: string[]) => selectClaims(ALL_CLAIMS, ids).map(({ id }) => id);
  expect(idsOf('perf-2.3.1-fig2a')).toEqual(['cx6-b-beside-m']);
  expect(idsOf('perf-2.2-fig1b-above-mtu')).toEqual(['background-size', 'background-size-by-mtu']);
  expect(() => idsOf('perf-2.3.1-fig2aa')).toThrow("did you mean 'perf-2.3.1-fig2a'?");
  const [notShown] = PAPERS.flatMap((paper) => paper.notShown);
  expect(() => idsOf(notShown.ids[0])).toThrow(`claim '${notShown.ids[0]}' cannot be checked: `);
  try {
    idsOf('nothing');
  } catch (error) {
    const names = (error as Error).message.split('choose from: ')[1].split(', ');
    expect(new Set(names).size).toBe(names.length);
  }
  expect.assertions(5);
});
