// Calibration of simulated devices, whose rates are known.
import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { run } from '../../src/cli/program.ts';
import { Context } from '../../src/objects/index.ts';
import { CHUNK_BYTES, calibrate, type Effort } from '../../src/perftest/calibration/calibrate.ts';
import { readFacts } from '../../src/providers/facts.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';

const SHORT: Effort = { longMessages: 8, shortLists: 20, chunks: 30, probes: 200 };

function calibrated(profile: string, { hosts = 2, itself = false } = {}) {
  const { provider } = createFabric({ profile, hosts, payload: false });
  const [from, ...others] = provider.getDeviceList().map(({ name }) => new Context(provider, name));
  const peers = itself ? [from] : others;
  const nic = provider.describeNic?.(from.handle);
  const gids = peers.map((peer) => peer.gids().map(({ gid }) => gid));
  const facts = calibrate(from, peers, SHORT);
  for (const context of [from, ...others]) context.close();
  return { facts, nic, gids };
}

test.each(['cx6-100g', 'cx5-40g', 'cx3-56g'])('the facts of %s are those of its profile', (profile) => {
  const { facts, nic } = calibrated(profile);
  const { linkGbps, wqeGapNs } = PROFILES[profile];
  const { maxGbps, maxMmps, qpMmps } = facts as { maxGbps: number; maxMmps: number; qpMmps: number };
  expect(maxGbps / linkGbps).toBeGreaterThan(0.98);
  expect(maxGbps / linkGbps).toBeLessThan(1.01);
  // The pipeline of a queue pair takes one WQE at a time; several queue pairs use several.
  expect(qpMmps).toBeLessThanOrEqual(1.01 * (1000 / wqeGapNs));
  expect(qpMmps).toBeGreaterThan(0.7 * (1000 / wqeGapNs));
  expect(maxMmps).toBeGreaterThan(qpMmps);
  for (const tailNs of Object.values(facts.tailNs ?? {})) {
    expect(tailNs).toBeGreaterThan(0.5 * (nic?.latencyNs ?? 0));
    expect(tailNs).toBeLessThan(1.5 * (nic?.latencyNs ?? 0));
  }
});

test('the chunk dictionary rises until a chunk reaches the link', () => {
  const chunks = calibrated('cx6-100g').facts.chunks ?? [];
  expect(chunks.map(({ chunkBytes }) => chunkBytes)).toEqual(CHUNK_BYTES);
  for (const [i, { gbps }] of chunks.slice(1).entries()) expect(gbps).toBeGreaterThan(0.99 * chunks[i].gbps);
  expect(chunks[0].gbps).toBeLessThan(30);
  expect(chunks[9].gbps).toBeGreaterThan(98);
});

test('the tail is measured to each peer, under all of its GIDs', () => {
  const { facts, gids } = calibrated('minimal', { hosts: 4 });
  expect(gids).toHaveLength(3);
  expect(Object.keys(facts.tailNs ?? {}).sort()).toEqual([...new Set(gids.flat())].sort());
});

test('a device can be measured with itself', () => {
  expect(calibrated('minimal', { itself: true }).facts.maxGbps).toBeGreaterThan(0);
});

test('isoverbs calibrate writes a facts file, the same for the same seed except for the date', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-calibrate-'));
  const printed: string[] = [];
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((text) => printed.push(String(text)) > 0);
  const paths = ['a.json', 'b.json'].map((name) => join(folder, name));
  try {
    const words = ['calibrate', '--profile', 'cx5-40g', '--seed', '7'];
    expect(await run([...words, '--out', paths[0]])).toBe(0);
    expect(await run([...words, '--out', paths[1], '--json'])).toBe(0);
  } finally {
    spy.mockRestore();
  }
  const [a, b] = paths.map(readFacts);
  expect({ ...a, date: b.date }).toEqual(b);
  expect(a).toMatchObject({
    device: 'sim0',
    driver: 'sim cx5-40g',
    firmware: '0.1',
    linkGbps: 40,
    mtuBytes: 4096,
  });
  expect(printed[0]).toMatch(/^sim0: sim cx5-40g, firmware 0\.1, MTU 4096, 40 Gbit\/s\n/);
  expect(printed[0]).toMatch(/^chunks of 5 KiB +40\.\d+ Gbit\/s$/m);
  expect(printed[0]).toMatch(/^p99 to sim1 \(.+\) +\d\.\d+ us$/m);
  expect(JSON.parse(printed[1])).toEqual(b);
  // No partial files remain.
  expect(readdirSync(folder).sort()).toEqual(['a.json', 'b.json']);
});
