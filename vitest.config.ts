import { dirname, join, relative, resolve } from 'node:path';
import { defineConfig, type Plugin } from 'vitest/config';

const isEmulated = process.env.ISOVERBS_GROUND === 'rxe';
const ALL = ['test/**/*.test.ts', 'examples/**/*.test.ts'];
/**
 * Tests of the code alone, which share processes and loads of the sources, because a load takes half a second. A test that
 * measures or changes its process has its own, and so does one that requires that nothing else prints.
 */
const shared = isEmulated
  ? 'test/verbs/**/*.test.ts'
  : 'test/{conformance,sim,unit,verbs}/**/!(heap|renamed-options).test.ts';

const SRC = join(import.meta.dirname, 'src');
/** Takes modules anew for each test, which Node.js cannot do. */
const RELOADS = 'test/unit/renamed-options.test.ts';

/**
 * Loads the compiled sources, in `npm test`, which builds them. In vitest's own modules each use of an import is a call, so
 * that simulations take four times as long.
 */
const built: Plugin = {
  name: 'built',
  enforce: 'pre',
  resolveId(id, importer = '') {
    if (importer.endsWith(RELOADS) || importer.startsWith(SRC)) return null;
    const path = id.startsWith('#src/')
      ? join(SRC, id.slice('#src/'.length))
      : resolve(dirname(importer), id);
    const within = relative(SRC, path);
    if (!/^[.#/]/.test(id) || within.startsWith('..') || !within.endsWith('.ts')) return null;
    return join(import.meta.dirname, 'dist', within.replace(/ts$/, 'js'));
  },
};

export default defineConfig({
  plugins: process.env.ISOVERBS_BUILT === '1' ? [built] : [],
  // `#src/...` in bench/ resolves to the sources here, as for the compiler (package.json, imports).
  ssr: { resolve: { conditions: ['source', 'node', 'import', 'module', 'default'] } },
  test: {
    // Projects add these patterns to their own.
    include: [],
    testTimeout: 30_000,
    server: { deps: { external: [/\/dist\//] } },
    // The ledgers of shims are checked in all tests.
    setupFiles: ['test/support/assertions.ts'],
    // Tests of a real device check its object counts and drop its packets, so only one file may run at a time.
    maxWorkers: isEmulated ? 1 : '100%',
    projects: [
      { extends: true, test: { name: 'shared', include: [shared], isolate: false } },
      { extends: true, test: { name: 'others', include: ALL, exclude: [shared, 'node_modules/**'] } },
    ],
    tags: [
      {
        name: 'long',
        description: 'slow variations of other tests; CI skips them',
      },
    ],
  },
});
