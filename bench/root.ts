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

const COPY = `${ROOT}out/cli/main.js`;
/**
 * The same, or, in tests of a build, a copy that starts in about half the time (scripts/bundle.mjs). With policies from
 * modules it does not work: these must import the copy of isoverbs that runs.
 */
export const QUICK_COMMAND = process.env.ISOVERBS_BUILT === '1' && existsSync(COPY) ? COPY : COMMAND;
