/**
 * The profile `minimal` keeps the behaviour from before the NIC model grew: every packet and completion at
 * the same time. golden.json was recorded at commit 6b262d8, and again when the random programs changed, with a NIC
 * that had just reproduced the previous recording with the previous programs. To change the minimal NIC on purpose,
 * give the reason and record again with ISOVERBS_RECORD=1.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type Golden, goldenRuns } from './golden-runs.ts';

const FILE = new URL('./golden.json', import.meta.url);

test('the minimal NIC reproduces its recorded traces', async () => {
  const runs = await goldenRuns();
  if (process.env.ISOVERBS_RECORD === '1') writeFileSync(FILE, `${JSON.stringify(runs, null, 2)}\n`);
  const golden: Record<string, Golden> = JSON.parse(readFileSync(FILE, 'utf8'));
  expect(Object.keys(runs)).toEqual(Object.keys(golden));
  // A different input proves nothing about the NIC: record it at a commit whose NIC is known to be right.
  const inputs = Object.keys(golden).filter((name) => golden[name].input !== runs[name].input);
  expect(inputs, 'runs with another input than what was recorded').toEqual([]);
  expect(runs).toEqual(golden);
}, 120_000);
