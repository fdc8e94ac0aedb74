/** Paths of the repository. Modules here run from bench/ in tests, and compiled from out/bench/. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The nearest folder above this file with a package.json. */
function findRoot(): string {
  let folder = new URL('./', import.meta.url);
  while (!existsSync(new URL('package.json', folder))) {
    const parent = new URL('../', folder);
    if (parent.href === folder.href) throw new Error('no package.json above the benchmarks');
    folder = parent;
  }
  return fileURLToPath(folder);
}

/** The root of the repository, with a trailing slash. */
export const ROOT = findRoot();
/** The `isoverbs` command. */
export const COMMAND = `${ROOT}dist/cli/main.js`;
