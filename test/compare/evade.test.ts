// `isoverbs compare --evade`: what tricks gain and what they cost others, and how a trick is repeated.
// @module-tag wide
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { requireRunnable } from '../../src/compare/compare.ts';
import { type Evasion, evade } from '../../src/compare/evade.ts';
import { SHARED_TRICKS, tricksOf } from '../../src/compare/tricks.ts';
import { specOf } from '../../src/mix/jobs.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { appsOf } from '../../src/mix/resolve.ts';
import { meanBytes } from '../../src/mix/sizes.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { command as isoverbs } from '../mix/command.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const command = (...args: string[]) => isoverbs('compare', '--workers', '1', ...args);

const TIMES = { duration: '3ms', warmup: '1ms' };
const SHORT = ['--duration', TIMES.duration, '--warmup', TIMES.warmup, '--seeds', '1'];
const FIXED = { profile: 'cx6-100g', ...TIMES };

/** What one trick does under each policy. */
async function evasionsOf(trick: string, ...policies: string[]): Promise<Evasion[]> {
  const result = await evade({ fixed: FIXED, seeds: [1], policies, tricks: [trick], threads: 1 });
  expect(result.broken).toEqual([]);
  expect(result.policies.map(({ policy }) => policy.replace('bare', 'none'))).toEqual(policies);
  return result.policies.map(({ evasions }) => evasions[0]);
}

const harmTo = ({ harms }: Evasion, name: string) => harms.find(({ tenant }) => tenant === name)!.harm;

test('many queue pairs gain most of a bare link at the cost of others, and nothing under fair', async () => {
  const [bare, fair] = await evasionsOf('has 32 queue pairs', 'none', 'fair');
  expect(bare.isViolation).toBe(true);
  expect(bare.gain).toBeGreaterThan(0.8);
  for (const name of ['B', 'M', 'D']) expect(harmTo(bare, name)).toBeGreaterThan(0.5);
  expect(fair.isViolation).toBe(false);
  expect(Math.abs(fair.gain)).toBeLessThan(0.05);
});

test('contexts that are opened again gain nothing under token-bucket, where each tenant has a fixed rate', async () => {
  const [bare, tokens] = await evasionsOf(SHARED_TRICKS.reopen8, 'none', 'token-bucket');
  expect(bare.isViolation).toBe(true);
  expect(tokens.isViolation).toBe(false);
});

test('figures are means over the seeds', async () => {
  const of = async (...seeds: number[]) => {
    const chosen = { policies: ['none'], tricks: ['has 32 contexts'], threads: 1 };
    const { policies, runs } = await evade({ fixed: FIXED, seeds, ...chosen });
    const [{ got, due, harms }] = policies[0].evasions;
    return { runs, figures: [got, due, ...harms.flatMap(({ honest, trick }) => [honest, trick])] };
  };
  const [one, two, both] = [await of(4), await of(5), await of(4, 5)];
  expect(both.runs).toBe(one.runs + two.runs);
  expect(one.figures).not.toEqual(two.figures);
  for (const [i, figure] of both.figures.entries())
    expect(figure).toBeCloseTo((one.figures[i] + two.figures[i]) / 2, 9);
});

test('what a tenant is due is its share of the direction that it loads, and at least what it had', async () => {
  const { linkGbps } = PROFILES['cx6-100g'];
  const [writes] = await evasionsOf('SENDs instead of WRITEs', 'none');
  // Next to B, and to what M and D send alone.
  expect(writes.due).toBeGreaterThan(0.44 * linkGbps);
  expect(writes.due).toBeLessThan(0.5 * linkGbps);
  const [reads] = await evasionsOf('READs instead of WRITEs', 'none');
  expect(reads.due).toBeCloseTo(linkGbps, 6);
  expect(reads.gain).toBeLessThan(0.01);
  const [atPeer] = await evasionsOf('lets its peer READ', 'none');
  expect(atPeer.due).toBeCloseTo(writes.due, 6);
  const [loopback] = await evasionsOf('sends to its own host (loopback)', 'none');
  expect([loopback.got, loopback.due, loopback.gain]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
  expect(harmTo(loopback, 'B')).toBeLessThan(-0.5);
});

test.each(Object.keys(PROFILES))(
  'on %s, tricks are valid and have no more outstanding than the honest',
  (profile) => {
    const params = PROFILES[profile];
    const fixed = { ...TIMES, profile };
    const appsFor = (words: readonly string[], at?: readonly string[]) => {
      const apps = words.map((one, i) => mixApp(`${one}${one.includes(':') ? ',' : ':'}name=T${i || ''}`));
      const mix = { ...fixed, apps, ...(at !== undefined && { at }) };
      requireRunnable(mix, 1);
      return appsOf(specOf(mix, 1), params);
    };
    for (const { name, gains, honest, apps, at } of tricksOf(params)) {
      const [alone, ...others] = appsFor([honest]);
      expect([others, alone.qps, alone.contexts, alone.cores], name).toEqual([[], 1, 1, 1]);
      const tried = appsFor(apps, at);
      const messages = (app: typeof alone) => app.qps * app.depth;
      const bytes = (app: typeof alone) => messages(app) * meanBytes(app);
      const sum = (of: (app: typeof alone) => number) => tried.reduce((all, app) => all + of(app), 0);
      if (gains === 'messages') expect(sum(messages), name).toBe(messages(alone));
      else expect(sum(bytes), name).toBeLessThan(1.01 * bytes(alone));
    }
  },
);

test('--evade prints the same each time, also from kept runs, and commands that repeat them', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-evade-'));
  const runs = join(folder, 'runs');
  try {
    const args = ['--evade', '--trick', 'has 32 contexts', '--policy', 'none', '--json', ...SHORT];
    const first = await command(...args, '--keep', runs);
    expect({ code: first.code, err: first.err }).toEqual({ code: 0, err: '' });
    // B, M and D alone, the honest tenant, and the trick.
    expect(readdirSync(runs)).toHaveLength(5);
    expect(await command(...args)).toEqual(first);
    expect(await command(...args, '--keep', runs)).toEqual(first);
    const { policies } = JSON.parse(first.out);
    const [{ commands, harms }] = policies[0].evasions;
    const [B] = harms;
    for (const which of ['honest', 'trick'] as const) {
      const repeated = await isoverbs(...commands[which].split(' ').slice(1), '--json');
      const apps = JSON.parse(repeated.out).apps as { name: string; throughputGbps: number }[];
      expect(apps.find(({ name }) => name === 'B')?.throughputGbps).toBe(B[which]);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the tables mark violations, and --violations leaves out the others', async () => {
  const tricks = ['--trick', 'has 32 queue pairs', '--trick', 'sends small messages inline'];
  const args = ['--evade', ...tricks, '--policy', 'none', ...SHORT];
  const { code, out, err } = await command(...args);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toMatch(/│ has 32 queue pairs +│ +\d\d %! │ +\d\d %! │ +\d\d %! │ +\d+ %! │/);
  expect(out).toMatch(/│ sends small messages inline +│ +−?\d % {2}│/);
  expect(out).toContain('Violations: bare: 1 of 2\n');
  for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(100);
  const only = await command(...args, '--violations');
  expect(only.out).toContain('has 32 queue pairs');
  expect(only.out).not.toContain('inline');
  const md = await command(...args, '--md', '--violations');
  expect(md.out).toMatch(/^\| bare \| has 32 queue pairs \| \*\*\d\d %\*\* \|/m);
  expect(md.out).not.toContain('inline');
});

test.each<[string[], RegExp]>([
  [
    ['--evade', '--trick', 'flies'],
    /unknown trick 'flies'; available: creates its queue pairs again and again; /,
  ],
  [['--evade', '--policy', 'magic'], /unknown policy 'magic'/],
  [['--evade', '--profile', 'cx9'], /unknown profile 'cx9'/],
  [['--evade', '--random', '2'], /--random and --evade exclude each other/],
  [['--evade', '--app', 'D'], /--app and --evade exclude each other/],
  [['--evade', '--svg', 'x.svg'], /--svg and --evade exclude each other/],
  [['--evade', '--json', '--md'], /--json and --md exclude each other/],
  [['--evade', '--seed', '1'], /--seed is for random mixtures/],
  [['--evade', '--seeds', 'x'], /seeds/],
  [['--trick', 'has 32 contexts'], /--trick requires --evade/],
  [['--random', '1', '--violations'], /--violations requires --evade/],
])('isoverbs compare %j', async (args, sentence) => {
  const { code, out, err } = await command(...args);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
});
