// Writes docs/reproduction.md and its pictures from a report of `isoverbs reproduce --out FOLDER`.
//   node scripts/docs-reproduction.mjs FOLDER
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const DOCS = fileURLToPath(new URL('../docs/', import.meta.url));
const PICTURES = join(DOCS, 'reproduction');

const folder = process.argv[2];
if (folder === undefined || !existsSync(join(folder, 'report.md'))) {
  console.error('docs-reproduction: name the folder of a report (npm run docs:reproduction makes one)');
  process.exit(2);
}

const text = readFileSync(join(folder, 'report.md'), 'utf8');
rmSync(PICTURES, { recursive: true, force: true });
mkdirSync(PICTURES);
const pictures = existsSync(join(folder, 'figures')) ? readdirSync(join(folder, 'figures')) : [];
for (const name of pictures.filter((one) => text.includes(`](figures/${one})`))) {
  copyFileSync(join(folder, 'figures', name), join(PICTURES, name));
}
writeFileSync(join(DOCS, 'reproduction.md'), text.replaceAll('](figures/', '](reproduction/'));
