// Calibration of a real device, and a program that uses the facts. Needs a build.
import { spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openDevice } from '../../src/open.ts';
import { readFacts } from '../../src/providers/facts.ts';
import { MAIN } from '../support/main.ts';
import { device } from './ground.ts';

describe.skipIf(device === '')('isoverbs calibrate on a real device', () => {
  test('measures rates and tails, and contexts have them', { timeout: 250_000 }, () => {
    const out = join(mkdtempSync(join(tmpdir(), 'isoverbs-calibrate-')), 'facts.json');
    const words = [MAIN, 'calibrate', '--device', device, '--out', out];
    const { stdout, stderr, status } = spawnSync(process.execPath, words, {
      encoding: 'utf8',
      timeout: 200_000,
    });
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toMatch(new RegExp(`^${device}: `));
    const facts = readFacts(out);
    expect(facts.device).toBe(device);
    const { maxGbps, maxMmps, qpMmps, chunks, tailNs } = facts;
    for (const rate of [maxGbps, maxMmps, qpMmps]) expect(rate).toBeGreaterThan(0);
    expect(chunks).toHaveLength(10);
    expect(Object.keys(tailNs ?? {})).not.toEqual([]);
    for (const ns of Object.values(tailNs ?? {})) expect(ns).toBeGreaterThan(1000);
    process.env.ISOVERBS_FACTS = out;
    try {
      const context = openDevice(device);
      expect(context.provider.describeNic?.(context.handle)).toMatchObject({ maxGbps, chunks, tailNs });
      context.close();
    } finally {
      delete process.env.ISOVERBS_FACTS;
    }
  });
});
