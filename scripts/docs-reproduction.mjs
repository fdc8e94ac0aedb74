// Runs `isoverbs reproduce` and writes docs/reproduction.md and its pictures from its report.
//   node scripts/docs-reproduction.mjs [OPTION...]      options of reproduce (default: --seeds 1); results of runs stay in
//                                                       out/reproduce
//   node scripts/docs-reproduction.mjs --from FOLDER    uses an existing report
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const PICTURES = join(ROOT, 'docs/reproduction');

/** Ignores the exit code: failing lines belong in the document. */
function run(/** @type {string[]} */ options) {
  const out = join(ROOT, 'out/reproduce');
  rmSync(join(out, 'report.md'), { force: true });
  rmSync(join(out, 'figures'), { recursive: true, force: true });
  const command = [join(ROOT, 'dist/cli/main.js'), 'reproduce', '--out', out, ...options];
  spawnSync(process.execPath, command, { stdio: ['ignore', 'ignore', 'inherit'] });
  return out;
}

const options = process.argv.slice(2);
const folder = options[0] === '--from' ? options[1] : run(options.length === 0 ? ['--seeds', '1'] : options);
/** @type {string} */
let text;
try {
  text = readFileSync(join(folder, 'report.md'), 'utf8');
} catch {
  console.error(`docs-reproduction: ${folder} has no report.md`);
  process.exit(1);
}
rmSync(PICTURES, { recursive: true, force: true });
mkdirSync(PICTURES);
const names = [...text.matchAll(/\]\(figures\/([\w.-]+)\)/g)].map((match) => match[1]);
const there = names.length > 0 ? readdirSync(join(folder, 'figures')) : [];
for (const name of there.filter((one) => names.includes(one))) {
  copyFileSync(join(folder, 'figures', name), join(PICTURES, name));
}
// The line with the command names the seeds of this page.
const note =
  'Without `--seeds`, the command runs the seeds 1 to 5, and each line shows the worst of them; a page with more seeds can ' +
  'only have more lines that fail.';
text = text.replace(/^(`.*` \(seeds? .*)$/m, `$1\n\n${note}`);
writeFileSync(join(ROOT, 'docs/reproduction.md'), text.replaceAll('](figures/', '](reproduction/'));
