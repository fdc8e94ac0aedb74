// The pictures that pages of docs show exist and are small.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { justitiaOptions } from '../../src/policies/justitia/options.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const DOCS = join(ROOT, 'docs');
const MAX_BYTES = 80_000;
/** Options of justitia that state what the device is, or that no picture of rates and latencies can show. */
const NOT_DRAWN = ['paper', 'classify', 'tokenMessages', 'maxGbps', 'maxMmps', 'seed'];

test('every picture in docs/pictures is on a page, and is small', () => {
  const pages = readdirSync(DOCS, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.md'),
  );
  const shown = pages.flatMap((path) =>
    [...readFileSync(join(DOCS, path), 'utf8').matchAll(/\]\((?:\.\.\/)?pictures\/([\w.-]+\.svg)\)/g)].map(
      ([, name]) => name,
    ),
  );
  const pictures = readdirSync(join(DOCS, 'pictures')).filter((name) => name.endsWith('.svg'));
  expect(pictures.sort()).toEqual([...new Set(shown)].sort());
  for (const name of pictures)
    expect(statSync(join(DOCS, 'pictures', name)).size, name).toBeLessThan(MAX_BYTES);
});

test('docs/policies/justitia.md describes the effect of each option', () => {
  const page = readFileSync(join(DOCS, 'policies/justitia.md'), 'utf8');
  const [, effects] = /\n## Effects of the options\n([\s\S]*?)\n## /.exec(page)!;
  const options = Object.keys(justitiaOptions.shape).filter((name) => !NOT_DRAWN.includes(name));
  for (const name of options) expect(effects).toContain(name);
});
