// A configuration with very many rules, and with ranges of user IDs.
import { expect, test } from 'vitest';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { unreachable } from '../../src/daemon/identity/reachability.ts';
import type { Match, Rule } from '../../src/daemon/rules.ts';
import { Random } from '../fuzz/random.mjs';

const RULES = 200_000;

/** CPU time of the shortest of several runs, because other programs may use the CPU. */
function msOf(rules: readonly Rule[]): number {
  const times = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage();
    unreachable(rules);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
  return Math.min(...times);
}

/** Kinds of rules, and the longest time that their check may take. */
const KINDS: readonly [string, number, (i: number) => Match][] = [
  ['user IDs', 100, (i) => ({ uid: i })],
  ['cgroups', 100, (i) => ({ cgroup: `/system.slice/service-${i}.service*` })],
  ['commands', 100, (i) => ({ gid: 100, command: `node /srv/app-${i}.js*` })],
  [
    'ranges of user IDs',
    400,
    (i) => {
      const first = ((i * 7919) % RULES) * 10;
      return { uid: [{ first, last: first + 9 }] };
    },
  ],
  [
    'all conditions',
    400,
    (i) => ({
      ...{ uid: i, gid: i % 1000, cgroup: `/a/${i % 100}` },
      ...{ command: `node ${i}`, declared: `t${i % 7}` },
    }),
  ],
];

/** Kinds with more to compare take longest to build. */
const SLOWEST = new Set(['all conditions', 'ranges of user IDs']);

for (const [kind, mostMs, match] of KINDS)
  test(`200,000 rules by ${kind} are checked within ${mostMs} ms`, {
    tags: SLOWEST.has(kind) ? ['long'] : [],
  }, () => {
    const rules = Array.from({ length: RULES }, (_, i) => ({ match: match(i) }));
    expect(unreachable(rules)).toEqual([]);
    expect(unreachable([...rules, { match: match(RULES >> 1) }])).toEqual([{ rule: RULES, by: RULES >> 1 }]);
    expect(msOf(rules)).toBeLessThan(mostMs);
  });

/** The definition, by comparing each rule with each earlier one. */
function covers(first: Match, second: Match): boolean {
  const isVouched = ({ uid, gid, cgroup }: Match) => [uid, gid, cgroup].some((one) => one !== undefined);
  if (first.declared !== undefined && !isVouched(first) && isVouched(second)) return false;
  const rangesOf = (ids: NonNullable<Match['uid']>) =>
    typeof ids === 'number' ? [{ first: ids, last: ids }] : ids;
  const hasUsers =
    first.uid === undefined ||
    (second.uid !== undefined &&
      rangesOf(second.uid).every((one) =>
        rangesOf(first.uid!).some((around) => around.first <= one.first && around.last >= one.last),
      ));
  return (
    hasUsers &&
    (['gid', 'cgroup', 'command', 'declared'] as const).every((key) => {
      const [earlier, later] = [first[key], second[key]];
      return earlier === undefined || earlier === later || (earlier === '*' && key !== 'declared');
    })
  );
}

test('random rules: the same ones are found as by comparing each with each earlier one', () => {
  const seed = Number(process.env.ISOVERBS_SEED ?? Date.now() % 1e6);
  console.log(`rules of seed ${seed} (ISOVERBS_SEED)`);
  const random = new Random(seed);
  const maybe = <T>(values: readonly T[]): T | undefined =>
    random.below(3) === 0 ? random.pick([...values]) : undefined;
  const present = (match: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(match).filter(([, value]) => value !== undefined)) as Match;
  let found = 0;
  for (let i = 0; i < 300; i++) {
    const rules = Array.from({ length: 30 }, () => {
      const first = random.below(6);
      const match = present({
        uid: maybe([first, [{ first, last: first + 1 + random.below(6) }]]),
        gid: maybe([1, 2]),
        cgroup: maybe(['*', '/a', '/b']),
        command: maybe(['*', 'node']),
        declared: maybe(['*', 'kv']),
      });
      return { match };
    });
    const answers = unreachable(rules);
    for (const { rule, by } of answers) {
      expect(by).toBeLessThan(rule);
      expect(covers(rules[by].match, rules[rule].match)).toBe(true);
    }
    const expected = rules.flatMap(({ match }, rule) =>
      rules.slice(0, rule).some((earlier) => covers(earlier.match, match)) ? [rule] : [],
    );
    expect(answers.map(({ rule }) => rule)).toEqual(expected);
    found += expected.length;
  }
  expect(found).toBeGreaterThan(100);
});

test('user IDs in rules are numbers, ranges or lists of both', () => {
  const idsOf = (uid: string) =>
    parseDaemonConfig(`rules: [{ match: { uid: ${uid} } }]`, 'f').rules[0].match.uid;
  expect(idsOf('7')).toBe(7);
  expect(idsOf('7-7')).toBe(7);
  expect(idsOf('7-9')).toEqual([{ first: 7, last: 9 }]);
  expect(idsOf('[20-29, 5, 30-31, 6]')).toEqual([
    { first: 5, last: 6 },
    { first: 20, last: 31 },
  ]);
  for (const wrong of ['9-7', '-1', '7-', '7-4294967296', '[]', '[[7]]', 'root', '1.5', '"7"']) {
    expect(() => idsOf(wrong)).toThrow(/rules\.0\.match\.uid: must be a user ID, a range such as/);
  }
});
