// The run cache: cached results equal those of real runs, and results of another build are ignored.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { jobsOf } from '../../src/mix/jobs.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { runJobs } from '../../src/mix/pool.ts';
import { buildHash, RunCache } from '../../src/mix/run-cache.ts';

const folder = mkdtempSync(join(tmpdir(), 'kept-'));
afterAll(() => rmSync(folder, { recursive: true }));

const SHORT = { duration: '200us', warmup: '50us' };
const GOOD = { ...SHORT, profile: 'cx6-100g', apps: [mixApp('B:size=1MiB')] };
const BAD = { ...SHORT, profile: 'nothing', apps: [mixApp('B')] };

test('a cached run is not repeated until the build changes; a failed run is repeated', async () => {
  const jobs = [...jobsOf(GOOD, [1, 2]), ...jobsOf(BAD, [1, 2])];
  const ran = async (build: string) => {
    let count = 0;
    const outcomes = await runJobs(jobs, {
      threads: 1,
      cache: new RunCache(folder, build),
      onDone: () => count++,
    });
    return { outcomes, count };
  };
  const first = await ran('a');
  expect(first.count).toBe(4);
  const again = await ran('a');
  expect(again.count).toBe(2);
  for (const job of jobs) expect(again.outcomes.get(job)).toEqual(first.outcomes.get(job));
  expect((await ran('b')).count).toBe(4);
  expect(readdirSync(folder)).toHaveLength(4);
});

test('a run under the policy of a module, which may change, is repeated', async () => {
  const pacer = './examples/policies/token-pacer.mjs:rateBytesPerS=1e9';
  for (const policy of [pacer, `perf;${pacer}`]) {
    const kept = mkdtempSync(join(folder, 'module-'));
    for (const _ of ['first', 'again']) {
      let count = 0;
      const options = { threads: 1, cache: new RunCache(kept, 'a'), onDone: () => count++ };
      const jobs = jobsOf({ ...GOOD, policy }, [1]);
      const outcomes = await runJobs(jobs, options);
      expect(outcomes.get(jobs[0])).toHaveProperty('result');
      expect(count).toBe(1);
    }
    expect(readdirSync(kept)).toEqual([]);
  }
});

test('a partially written file is not a result', () => {
  const cache = new RunCache(folder, 'c');
  const [job] = jobsOf(GOOD, [1]);
  expect(cache.get(job)).toBeUndefined();
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json')))
    writeFileSync(join(folder, `${file}.1`), '{"profile":');
  expect(cache.get(job)).toBeUndefined();
});

test('buildHash() is a stable SHA-256', () => {
  expect(buildHash()).toMatch(/^[0-9a-f]{64}$/);
  expect(buildHash()).toBe(buildHash());
});
