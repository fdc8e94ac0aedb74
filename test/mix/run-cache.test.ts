// Results that are kept: the report of them is that of runs, and those of other code do not count.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { jobsOf } from '../../src/mix/jobs.ts';
import { runJobs } from '../../src/mix/pool.ts';
import { buildHash, Kept } from '../../src/mix/run-cache.ts';
import { mix } from '../../src/papers/engine/claim.ts';

const folder = mkdtempSync(join(tmpdir(), 'kept-'));
afterAll(() => rmSync(folder, { recursive: true }));

const short = { duration: '200us', warmup: '50us' };
const CLAIM = {
  part: 1,
  title: '',
  source: '',
  mixes: { good: mix('cx6-100g', 'B:size=1MiB', short), bad: mix('nothing', 'B', short) },
  checks: [],
};

test('a run that is kept is not run again, until the code changes; one that went wrong is', async () => {
  const jobs = jobsOf([CLAIM], [1, 2]);
  const ran = async (build: string) => {
    let count = 0;
    const outcomes = await runJobs(jobs, {
      threads: 1,
      kept: new Kept(folder, build),
      onDone: () => count++,
    });
    return { outcomes, count };
  };
  const first = await ran('a');
  expect(first.count).toBe(4);
  const again = await ran('a');
  expect(again.count).toBe(2);
  for (const { command } of jobs) expect(again.outcomes.get(command)).toEqual(first.outcomes.get(command));
  expect((await ran('b')).count).toBe(4);
  expect(readdirSync(folder)).toHaveLength(4);
});

test('what somebody was writing when he was stopped is no result', () => {
  const kept = new Kept(folder, 'c');
  const [{ command }] = jobsOf([CLAIM], [1]);
  expect(kept.get(command)).toBeUndefined();
  for (const file of readdirSync(folder)) writeFileSync(join(folder, `${file}.1`), '{"profile":');
  expect(kept.get(command)).toBeUndefined();
});

test('the code has one hash', () => {
  expect(buildHash()).toMatch(/^[0-9a-f]{64}$/);
  expect(buildHash()).toBe(buildHash());
});
