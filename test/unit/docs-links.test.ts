// Every link of a page leads to a file, and to a heading if it names one; every page is listed in docs/README.md.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
const pagesIn = (folder: string) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name));
const PAGES = ['.', 'docs', 'docs/policies', 'examples'].flatMap(pagesIn);

/** Without code, in which brackets are no links. */
const textOf = (page: string) =>
  readFileSync(join(ROOT, page), 'utf8')
    .replace(/^```[\s\S]*?^```/gm, '')
    .replace(/`[^`\n]*`/g, '');

/** The addresses of links and pictures. */
const linksOf = (text: string) => [...text.matchAll(/\]\(\s*<?([^)>\s]+)>?\s*\)/g)].map(([, link]) => link);

/** The anchors that GitHub gives to the headings of a page. */
function anchorsOf(file: string): Set<string> {
  const text = readFileSync(file, 'utf8').replace(/^```[\s\S]*?^```/gm, '');
  const anchors = new Set<string>();
  for (const [, heading] of text.matchAll(/^#+ (.*)$/gm)) {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const slug = plain.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i++) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  for (const [, id] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id);
  return anchors;
}

function problemOf(page: string, link: string): string | undefined {
  if (/^https?:/.test(link)) return URL.canParse(link) ? undefined : `${link} is no address`;
  if (/^mailto:/.test(link)) return undefined;
  const [path, anchor] = link.split('#');
  const file = path === '' ? join(ROOT, page) : resolve(ROOT, dirname(page), decodeURI(path));
  if (relative(ROOT, file).startsWith('..')) return `${link} leaves the project`;
  if (!existsSync(file)) return `${link}: no such file`;
  if (anchor === undefined || statSync(file).isDirectory() || !file.endsWith('.md')) return undefined;
  return anchorsOf(file).has(anchor) ? undefined : `${link}: no such heading`;
}

test.each(PAGES)('the links of %s lead somewhere', (page) => {
  expect(linksOf(textOf(page)).flatMap((link) => problemOf(page, link) ?? [])).toEqual([]);
});

test('broken links are found', () => {
  const broken = ['docs/nothing.md', 'docs/guide.md#nothing', '../../outside', 'https://'];
  expect(broken.map((link) => problemOf('README.md', link))).toEqual([
    'docs/nothing.md: no such file',
    'docs/guide.md#nothing: no such heading',
    '../../outside leaves the project',
    'https:// is no address',
  ]);
  expect(problemOf('README.md', 'docs/guide.md#a-device')).toBeUndefined();
});

test('docs/README.md lists every page', () => {
  const listed = linksOf(textOf('docs/README.md')).map((link) => join('docs', link.split('#')[0]));
  const pages = PAGES.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
  expect(pages.filter((page) => !listed.includes(page))).toEqual([]);
});
