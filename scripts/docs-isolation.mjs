// Updates the tables of docs/isolation.md with `isoverbs isolation`: everything, under the policies that are named on the
// command line, by default all. Keeps the results of runs in out/isolation, so that an interrupted call goes on. Requires a
// build.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const PAGE = 'docs/isolation.md';
const TABLES = /(<!-- tables -->\n)[\s\S]*?(<!-- end of the tables -->)/;
const TIMES = ['--duration', '3ms', '--warmup', '1500us'];

process.chdir(new URL('..', import.meta.url).pathname);
const page = readFileSync(PAGE, 'utf8');
if (!TABLES.test(page)) throw new Error(`${PAGE} lacks the comments that mark the tables`);
const policies = process.argv.slice(2).flatMap((name) => ['--policy', name]);
const command = ['dist/cli/main.js', 'isolation', '--md', '--keep', 'out/isolation', ...TIMES, ...policies];
const printed = execFileSync(process.execPath, command, {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
});
writeFileSync(
  PAGE,
  page.replace(TABLES, (_all, begin, end) => `${begin}\n${printed}\n${end}`),
);
