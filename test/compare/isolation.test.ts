// `isoverbs isolation`: the suite, what victims are due, and that violations are found.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { contentionOf } from '../../src/compare/isolation/contention.ts';
import { type Isolation, isolation, type Meeting } from '../../src/compare/isolation/matrix.ts';
import { limitedTo, type Scale, scaled } from '../../src/compare/isolation/scale.ts';
import { ATTACKERS, attackersOf, VICTIM_TESTS, victimsOf } from '../../src/compare/isolation/suite.ts';
import { specOf } from '../../src/mix/jobs.ts';
import { type MixApp, mixApp, withKeys } from '../../src/mix/mixture.ts';
import { appsOf } from '../../src/mix/resolve.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { command as isoverbs } from '../mix/command.ts';

const TIMES = { duration: '2ms', warmup: '1ms' };
const PAIR = [
  '--attacker',
  'BW-4KB/write',
  '--victim',
  'large_bw/write',
  '--duration',
  '2ms',
  '--warmup',
  '1ms',
];

const run = (attacker: string, victim: string, ...policies: string[]): Promise<Isolation> =>
  isolation({
    fixed: { profile: 'cx6-100g', ...TIMES },
    ...{ seed: 1, threads: 1, policies, attackers: [attacker], victims: [victim] },
  });

/** The resource for which two applications compete, and the part of `most` Gbit/s that the first is due. */
function contention(victim: MixApp, attacker: MixApp, profile = 'cx6-100g') {
  const named = [withKeys(victim, { name: 'victim' }), withKeys(attacker, { name: 'attacker' })];
  const mix = { profile, ...TIMES, apps: named };
  const [own, other] = appsOf(specOf(mix, 1), PROFILES[profile]);
  return contentionOf(own, other, PROFILES[profile]);
}

const testOf = (name: string): MixApp =>
  [...VICTIM_TESTS, ...ATTACKERS].find((one) => one.name === name)!.app;

test('every attacker and every victim has a name of its own, and runs on every profile', () => {
  const names = [...ATTACKERS, ...VICTIM_TESTS].map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect([ATTACKERS.length, VICTIM_TESTS.length]).toEqual([52, 21]);
  for (const [profile, params] of Object.entries(PROFILES)) {
    for (const { app } of [...ATTACKERS, ...VICTIM_TESTS]) {
      expect(appsOf(specOf({ profile, ...TIMES, apps: [app] }, 1), params)).toHaveLength(1);
    }
  }
});

test('a class, a test and a form name attackers; a misspelt one is refused', () => {
  expect(attackersOf(['bandwidth']).map(({ name }) => name)).toEqual(
    attackersOf(['BW-1MB', 'BW-4KB']).map(({ name }) => name),
  );
  expect(attackersOf(['BW-1MB/read'])).toHaveLength(1);
  expect(() => attackersOf(['BW-1MB/reed'])).toThrow(/unknown attacker 'BW-1MB\/reed'.*BW-1MB\/read/);
  expect(() => victimsOf(['bandwidth'])).toThrow(/unknown victim 'bandwidth'/);
});

test('tenants that both want the link are each due half of it', () => {
  const found = contention(testOf('large_bw/write'), testOf('BW-1MB/write'))!;
  expect(found.resource).toBe('link out of host 0');
  // Half of 100 Gbit/s, less the headers of packets of 4 KiB.
  expect(found.dueGbps).toBeCloseTo((50 * 65536) / (65536 + 16 * 82 + 16), 1);
});

test('a tenant is due what an attacker leaves of a resource, if that is more than half', () => {
  const limited = mixApp('B:size=4096,qps=2,depth=8,rate=10Gbps');
  const found = contention(testOf('large_bw/write'), limited)!;
  expect(found.resource).toBe('link out of host 0');
  expect(found.dueGbps).toBeGreaterThan(75);
  expect(found.dueGbps).toBeLessThan(79);
});

test('opposite directions, and the loopback path, do not compete with the link', () => {
  expect(contention(testOf('large_bw/write'), testOf('BW-1MB/read'))).toBeNull();
  expect(contention(testOf('large_bw/write'), testOf('PCIe-loopback/sender'), 'cx3-56g')?.resource).toMatch(
    /PCIe/,
  );
});

test('many small messages compete for processing units, and many queue pairs for contexts', () => {
  const units = contention(testOf('small_tput/write'), testOf('PU-request/write-forward'))!;
  expect(units.resource).toBe('processing units of host 0');
  // 9 units, each 80.6 ns: 111.7 M/s, of which half, in messages of 8 bytes.
  expect(units.dueGbps).toBeCloseTo((9 / 80.6 / 2) * 64, 2);
  const contexts = contention(mixApp('D:size=8,qps=64,think=20us'), mixApp('D:size=8,qps=600,think=20us'));
  expect(contexts?.resource).toBe('contexts of host 0');
});

test('who only registers memory, or whose SENDs find no receives, wants nothing that the victim uses', () => {
  for (const attacker of ['Cache-ctrl/4096x1KiB-each-sender', 'PU-RNR/rc-shortest']) {
    expect(contention(testOf('large_bw/write'), testOf(attacker)), attacker).toBeNull();
  }
  expect(contention(testOf('te_many_mr/write-512'), testOf('Cache-access_mr/1x1GiB-write'))).not.toBeNull();
});

/** A machine with two CPUs, and one with hundreds. */
const SMALL: Scale = { cpus: 2, qps: 8, depth: 16, bytes: 2 ** 29 };
const LARGE: Scale = { cpus: 256, qps: 1024, depth: 2048, bytes: 2 ** 30 };

const keysOf = (name: string, scale: Scale) => {
  const { qps, depth, batch, contexts, cores } = scaled(testOf(name), scale).spec;
  return { qps, depth, batch, contexts, cores };
};

test('on real devices, an application is one thread, and the machine limits its queue pairs and requests', () => {
  const one = { contexts: undefined, cores: undefined };
  expect(keysOf('Cache-QPC/write', SMALL)).toEqual({ qps: 8, depth: 16, batch: 1, ...one });
  expect(keysOf('Cache-QPC/write', LARGE)).toEqual({ qps: 512, depth: 128, batch: 1, ...one });
  expect(keysOf('BW-4KB/write', SMALL)).toEqual({ qps: 8, depth: 16, batch: 16, ...one });
  // 16 queue pairs with 128 requests of 1 MiB would need 4 GiB for WRITEs, and 6 GiB for SENDs.
  expect(keysOf('BW-1MB/write', LARGE)).toEqual({ qps: 16, depth: 32, batch: 32, ...one });
  expect(keysOf('BW-1MB/send', LARGE)).toEqual({ qps: 16, depth: 21, batch: 21, ...one });
});

test('both ends of a victim and an attacker keep to the smallest limits of their devices', () => {
  const devices = [
    { maxQp: 1 << 17, maxQpWr: 1 << 15, maxCqe: 1 << 22 },
    { maxQp: 64, maxQpWr: 4096, maxCqe: 31 },
  ];
  expect(limitedTo(devices, LARGE)).toEqual({ ...LARGE, qps: 8, depth: 15 });
  expect(limitedTo(devices, { ...SMALL, qps: 4 })).toEqual({ ...SMALL, qps: 4, depth: 15 });
});

const ofDue = ({ gotGbps, dueGbps }: Meeting) => gotGbps / dueGbps;

test('a large transfer is violated next to many queue pairs on the bare device, and not under fair', async () => {
  const { schemes, broken } = await run('BW-4KB/write', 'large_bw/write', 'none', 'fair');
  expect(broken).toEqual([]);
  const [bare, fair] = schemes.map(({ meetings }) => meetings[0]);
  expect(bare.isViolation).toBe(true);
  expect(ofDue(bare)).toBeLessThan(0.2);
  expect(fair.isViolation).toBe(false);
  expect(ofDue(fair)).toBeGreaterThan(0.9);
});

test('the command prints a table, lists the violations, and repeats itself', async () => {
  const printed = await isoverbs('isolation', '--workers', '1', '--policy', 'none', ...PAIR);
  expect(printed.code).toBe(0);
  expect(printed.out).toContain('1 of 1');
  expect(printed.out).toContain('large_bw/write next to BW-4KB/write');
  expect(printed.out).toContain('isoverbs mix --profile cx6-100g --policy none');
  for (const line of printed.out.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  const json = await isoverbs('isolation', '--workers', '1', '--policy', 'none', '--json', ...PAIR);
  expect(await isoverbs('isolation', '--workers', '1', '--policy', 'none', '--json', ...PAIR)).toEqual(json);
  const [{ meetings }] = JSON.parse(json.out).schemes;
  expect(meetings).toHaveLength(1);
  expect(meetings[0]).toMatchObject({ attacker: 'BW-4KB/write', class: 'bandwidth', isViolation: true });
});

test('the command draws a heat map, and refuses what is unknown', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-isolation-'));
  try {
    const file = join(folder, 'map.svg');
    const { code } = await isoverbs(
      'isolation',
      '--workers',
      '1',
      '--policy',
      'none',
      '--svg',
      file,
      ...PAIR,
    );
    expect(code).toBe(0);
    expect(readFileSync(file, 'utf8')).toMatch(/^<svg[\s\S]*1 of 1 violated/);
  } finally {
    rmSync(folder, { recursive: true });
  }
  const refused = await isoverbs('isolation', '--attacker', 'nobody');
  expect(refused.code).toBe(2);
  expect(refused.err).toContain("unknown attacker 'nobody'");
});
