// Pages in the npm package link only to files of the package, and to one page that it leaves out (docs/README.md says so).
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { expect, test } from 'vitest';

/** Results of papers' claims, with 1.4 MB of pictures: `isoverbs reproduce` makes the same report. */
const LEFT_OUT = 'docs/reproduction.md';
const ROOT = resolve(import.meta.dirname, '../..');
/** What the package names, without code: no page links to it, and packing it takes seconds. */
const PARTS = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).files.filter(
  (part: string) => !/^(!|dist$|native$|prebuilds$)/.test(part),
);

/** The paths in the package, and their folders. */
function packedPaths(): Set<string> {
  const copy = mkdtempSync(join(tmpdir(), 'isoverbs-pages-'));
  try {
    for (const part of ['package.json', 'README.md', 'LICENSE', ...PARTS])
      cpSync(join(ROOT, part), join(copy, part), { recursive: true });
    const { stdout } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: copy,
      encoding: 'utf8',
    });
    const paths = new Set<string>();
    for (const { path } of JSON.parse(stdout)[0].files as { path: string }[])
      for (let part = path; part !== '.'; part = dirname(part)) paths.add(part);
    return paths;
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Links of a page to other files, without code, in which brackets are no links. */
function linksOf(page: string): string[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
    .replace(/^```[\s\S]*?^```/gm, '')
    .replace(/`[^`\n]*`/g, '');
  const links = [...text.matchAll(/\]\(\s*<?([^)>\s]+)>?\s*\)/g)].map(([, link]) => link.split('#')[0]);
  return links.filter((link) => link !== '' && !/^(https?|mailto):/.test(link));
}

test('pages in the package link only to files of the package', { timeout: 60_000 }, () => {
  const paths = packedPaths();
  expect(paths).not.toContain(LEFT_OUT);
  const pages = [...paths].filter((path) => path.endsWith('.md'));
  expect(pages).toContain('docs/guide.md');
  expect(paths).not.toContain('src/index.ts');
  const dead = pages.flatMap((page) =>
    linksOf(page)
      .filter(
        (link) => ![...paths, LEFT_OUT].includes(join(dirname(page), decodeURI(link)).replace(/\/$/, '')),
      )
      .map((link) => `${page}: ${link}`),
  );
  expect(dead).toEqual([]);
});
