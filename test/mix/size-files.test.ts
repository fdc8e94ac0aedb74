// Sizes from a file with a cumulative distribution.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { jobOf } from '../../src/mix/jobs.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { drawBytes, meanBytes, readSizes } from '../../src/mix/sizes.ts';

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-sizes-'));
afterAll(() => rmSync(folder, { recursive: true }));

function fileOf(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const WEB = fileOf('web.txt', '# bytes, percent\n64 20\n1000, 60  # small\n\n101000 100\n');
const sizesOf = (path: string) => {
  const sizes = readSizes('size', path);
  return { sizes, minBytes: sizes.points[0][0], maxBytes: sizes.points[sizes.points.length - 1][0] };
};

test('a distribution is linear between its points, and its first share is the first size', () => {
  const web = sizesOf(WEB);
  expect(web.sizes.points).toEqual([
    [64, 0.2],
    [1000, 0.6],
    [101000, 1],
  ]);
  const drawn = [0, 0.1, 0.2, 0.4, 0.6, 0.8, 1 - 2 ** -32].map((u) => drawBytes(web, u));
  expect(drawn).toEqual([64, 64, 64, 532, 1000, 51000, 101000]);
  expect(meanBytes(web)).toBeCloseTo(64 * 0.2 + 532 * 0.4 + 51000 * 0.4, 6);
});

test('shares up to 1 and up to 100 mean the same, and a single point is a fixed size', () => {
  const parts = fileOf('parts.txt', '64 0.2\n1000 0.6\n101000 1\n');
  expect(readSizes('size', parts)).toEqual(readSizes('size', WEB));
  const one = sizesOf(fileOf('one.txt', '4096 100\n'));
  expect([0, 0.5, 0.999].map((u) => drawBytes(one, u))).toEqual([4096, 4096, 4096]);
});

test.each(['none', 'perf'])('messages of a distribution arrive under %s, with its mean', async (policy) => {
  const mix = {
    ...{ profile: 'cx6-100g', duration: '4ms', warmup: '1ms', policy },
    apps: [`B:size=@${WEB},depth=16`, 'D'].map(mixApp),
  };
  const job = jobOf(mix, 1);
  const result = await runMix(job.spec);
  expect(result.invariants).toEqual([]);
  const [b] = result.apps;
  expect(b.messageBytes).toBeCloseTo(20625.6, 3);
  expect((b.throughputGbps * 1e3) / 8 / b.messageRateMmps / b.messageBytes).toBeCloseTo(1, 1);
  expect((await runMix(job.spec)).traceHash).toBe(result.traceHash);
  expect(job.command).toContain(`size=@${WEB}`);
});

test.each([
  ['', /bad\.txt has no sizes; write one point per line/],
  ['# no line\n\n', /bad\.txt has no sizes/],
  ['64 50\n', /the last share must be 1 or 100, the whole, not 50/],
  ['64 50\n64 100\n', /bad\.txt:2: '64 100' is not a size in bytes and a share/],
  ['64 50\n65 40\n', /bad\.txt:2: '65 40'/],
  ['64 50 1\n', /bad\.txt:1: '64 50 1'/],
  ['0 100\n', /bad\.txt:1: '0 100'/],
  ['6.5 100\n', /bad\.txt:1/],
  ['64\n', /bad\.txt:1: '64'/],
  ['x 100\n', /bad\.txt:1: 'x 100'/],
  ['64 -1\n', /bad\.txt:1/],
])('the distribution %j is rejected', (text, sentence) => {
  const path = fileOf('bad.txt', text);
  expect(() => parseApp(`D:size=@${path}`)).toThrow(sentence);
});

test('a missing file is named', () => {
  expect(() => parseApp('D:size=@/nowhere/x.txt')).toThrow(/size: \/nowhere\/x\.txt cannot be read: ENOENT/);
});
