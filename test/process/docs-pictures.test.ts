// The pictures that scripts/pictures.mjs draws from texts are up to date.
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { test } from 'vitest';

test('docs/pictures has the pictures of the texts (npm run docs:pictures draws them)', () => {
  const cwd = resolve(import.meta.dirname, '../..');
  execFileSync(process.execPath, ['scripts/pictures.mjs', '--check'], { cwd });
});
