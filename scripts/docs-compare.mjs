// Draws docs/compare.svg and updates the first table of docs/compare.md with `isoverbs compare`; with the word `evade`, the
// table of tricks instead. Requires a build.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const PAGE = 'docs/compare.md';
const TABLES = {
  compare: {
    table: /(<!-- table -->\n)[\s\S]*?(<!-- end of the table -->)/,
    words: ['--md', '--svg', 'docs/compare.svg'],
  },
  evade: {
    table: /(<!-- table of tricks -->\n)[\s\S]*?(<!-- end of the table of tricks -->)/,
    words: [
      ...['--evade', '--violations', '--md'],
      ...['none', 'perf', 'justitia', 'fair', 'palos', 'token-bucket'].flatMap((name) => ['--policy', name]),
    ],
  },
};

process.chdir(new URL('..', import.meta.url).pathname);
const { table, words } = TABLES[process.argv[2] === 'evade' ? 'evade' : 'compare'];
const page = readFileSync(PAGE, 'utf8');
if (!table.test(page)) throw new Error(`${PAGE} lacks the comments that mark the table`);
const command = ['dist/cli/main.js', 'compare', ...words];
const printed = execFileSync(process.execPath, command, {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
});
writeFileSync(
  PAGE,
  page.replace(table, (_all, begin, end) => `${begin}\n${printed}\n${end}`),
);
