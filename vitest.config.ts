import { defineConfig } from 'vitest/config';

const isEmulated = process.env.ISOVERBS_GROUND === 'rxe';
const ALL = ['test/**/*.test.ts', 'examples/**/*.test.ts'];
const VERBS = 'test/verbs/**/*.test.ts';

export default defineConfig({
  // `#src/...` in bench/ resolves to the sources here, as for the compiler (package.json, imports).
  ssr: { resolve: { conditions: ['source', 'node', 'import', 'module', 'default'] } },
  test: {
    // Projects add the inherited patterns to their own.
    include: isEmulated ? [] : ALL,
    testTimeout: 30_000,
    // The ledgers of shims are checked in all tests.
    setupFiles: ['test/support/assertions.ts'],
    // Tests of a real device check its object counts and drop its packets, so only one file may run at a time.
    maxWorkers: isEmulated ? 1 : '100%',
    // In the emulated machine each process and each load of the sources takes seconds, so the test files of the verbs
    // share both.
    projects: isEmulated
      ? [
          { extends: true, test: { name: 'verbs', include: [VERBS], isolate: false } },
          { extends: true, test: { name: 'others', include: ALL, exclude: [VERBS, 'node_modules/**'] } },
        ]
      : undefined,
    tags: [
      {
        name: 'long',
        description: 'slow variations of other tests; CI skips them',
      },
    ],
  },
});
