// Draws docs/compare.svg and updates the table of docs/compare.md with `isoverbs compare`. Requires a build.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const PAGE = 'docs/compare.md';
const TABLE = /(<!-- table -->\n)[\s\S]*?(<!-- end of the table -->)/;

process.chdir(new URL('..', import.meta.url).pathname);
const page = readFileSync(PAGE, 'utf8');
if (!TABLE.test(page)) throw new Error(`${PAGE} lacks the comments that mark the table`);
const command = ['dist/cli/main.js', 'compare', '--md', '--svg', 'docs/compare.svg'];
const table = execFileSync(process.execPath, command, {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
});
writeFileSync(
  PAGE,
  page.replace(TABLE, (_all, begin, end) => `${begin}\n${table}\n${end}`),
);
