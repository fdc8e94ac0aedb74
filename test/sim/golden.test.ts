/**
 * What the profile `minimal` did before the model of the NIC grew, it does for ever: every packet and completion at
 * the same time. golden.json was recorded at commit 6b262d8; again when the random programs changed, by a NIC that had
 * just given what was recorded before for the programs before. Who changes the minimal NIC on purpose says why, and
 * records it anew with ISOVERBS_RECORD=1.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type Golden, goldenRuns } from './golden-runs.ts';

const FILE = new URL('./golden.json', import.meta.url);

test('the minimal NIC does what it always did', async () => {
  const runs = await goldenRuns();
  if (process.env.ISOVERBS_RECORD === '1') writeFileSync(FILE, `${JSON.stringify(runs, null, 2)}\n`);
  const golden: Record<string, Golden> = JSON.parse(readFileSync(FILE, 'utf8'));
  expect(Object.keys(runs)).toEqual(Object.keys(golden));
  // Other inputs say nothing about the NIC: record them at a commit where it is known to be right.
  const inputs = Object.keys(golden).filter((name) => golden[name].input !== runs[name].input);
  expect(inputs, 'runs with another input than what was recorded').toEqual([]);
  expect(runs).toEqual(golden);
}, 120_000);
